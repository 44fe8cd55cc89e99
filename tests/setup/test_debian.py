"""Set-ups in Debian 13 and in Debian's next release, whose compilers are newer than Horovod."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddl.records.paths import cache_dir
from helpers import ROOT, SETTING_UP, copy_tracked

pytestmark = [pytest.mark.nightly(*SETTING_UP, "README.md", "tools/include/*"), pytest.mark.timeout(1500)]

CERTIFICATES = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))


@pytest.fixture(scope="module")
def debian(tmp_path_factory, request):
    """Return a function that runs a command in a Debian with the packages that the README names, and the course."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = {name for name in ("bwrap", "debootstrap") if not shutil.which(name, path=path)}
    if missing or os.geteuid() != 0:
        pytest.skip(f"root is needed, and {' '.join(sorted(missing)) or 'nothing else'}")
    folder = tmp_path_factory.mktemp("debian")
    root, course = folder / "root", folder / "root" / "course"
    packages = re.search(r"`apt install ([^`]*)`", (ROOT / "README.md").read_text())[1].split()
    try:
        include = ",".join([*packages, COMPILERS[request.param]])
        command = ["debootstrap", "--variant=minbase", f"--include={include}", request.param, root]
        done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout[-3000:]
        copy_tracked(course)
        uv_cache = cache_dir().parent / "uv"
        uv_cache.mkdir(exist_ok=True)
        inside = ["bwrap", "--bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys"]
        for file in ("/etc/hosts", "/etc/resolv.conf"):
            inside += ["--ro-bind", file, file]
        inside += ["--ro-bind", CERTIFICATES, "/etc/ssl/certs/ca-certificates.crt"]
        inside += ["--bind", uv_cache, "/root/.cache/uv"]
        if sys.base_prefix != "/usr":
            inside += ["--ro-bind", sys.base_prefix, sys.base_prefix]
        inside += ["--unshare-pid", "--die-with-parent", "--chdir", "/course", "--"]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DDL_ACCELERATOR": "cpu"}

        def run(*command, **variables):
            done = subprocess.run(
                [*inside, *command], env=env | variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            assert done.returncode == 0, done.stdout[-5000:]
            return done.stdout

        yield run
    finally:
        shutil.rmtree(folder)


COMPILERS = {"trixie": "g++-13", "sid": "g++-15"}  # besides each release's own: g++ 14 and 16
SETUPS = [(name, *each) for name in COMPILERS for each in (("default", "g++"), ("next", COMPILERS[name]))]
if sys.base_prefix == "/usr":  # mounting its Python 3.11 would hide that system's own /usr
    SETUPS = [setup for setup in SETUPS if "default" not in setup]


@pytest.mark.parametrize("debian, stack, compiler", SETUPS, indirect=["debian"])
def test_stack_compiles_and_trains(debian, stack, compiler):
    venv, variables = ".venv", {"DDL_STACK": stack}
    if stack == "next":
        venv += "-next"
    else:
        variables["PYTHON"] = f"{sys.base_prefix}/bin/python3.11"
    said = debian("make", "setup", f"VENV={venv}", CXX=compiler, **variables)
    assert re.search(r"file (\d+) of \1\n", said), said
    debian(
        f"{venv}/bin/ddl", "run", "--workers", "2", "train_cifar.py", "--data-set", "synthetic",
        "--train-samples", "512", "--test-samples", "256", "--global-batch", "64", "--epochs", "1",
    )  # fmt: skip
    debian("rm", "-r", venv)
