"""What set-up does when something is missing or fails, with a small stand-in of Horovod and without a network."""

import hashlib
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ddl.records.paths import cache_dir
from helpers import ROOT

OPERATOR = "  span &operator=(const span &other)\n      NOEXCEPT {\n    data_ = other.data_;\n  }\n"
CMAKE = """\
set(CMAKE_CXX_FLAGS "-pthread -fPIC -Wall")
    add_subdirectory(third_party/gloo)
    target_compile_definitions(gloo PRIVATE _GLIBCXX_USE_CXX11_ABI=1)
add_subdirectory(third_party/compatible17_gloo)
"""
LINES = "".join(f"print('Building CXX object {n}.o', flush=True)\n" for n in range(25))
SETUP = """
import os, setuptools, sys, time
if sys.argv[1] == "bdist_wheel":
    header = open("third_party/flatbuffers/include/flatbuffers/stl_emulation.h").read()
    assert header == "before\\nafter\\n", header
    config, (flags, *cmake) = 'RelWithDebInfo', open("CMakeLists.txt").read().splitlines()
    assert config == "Release" and cmake == ["add_subdirectory(third_party/compatible17_gloo)"], cmake
    assert "-include stdexcept -include cstdint" in flags, flags
{build}
setuptools.setup(name="horovod", version="0.28.1", packages=["horovod", "horovod.tensorflow"])
"""


class Course:
    """A folder with the real script, and a lock of little more than a stand-in of Horovod."""

    def __init__(self, folder):
        self.folder, self.log = folder, folder / "build" / "setup" / "horovod.log"
        (folder / "tools").mkdir(parents=True)
        for name in ("pyproject.toml", "tools/setup.sh", "tools/horovod_source.sh"):
            shutil.copy(ROOT / name, folder / name)
        self.cache = folder / "cache"
        (self.cache / "ddl").mkdir(parents=True)
        for tool in cache_dir().glob("uv-*"):
            (self.cache / "ddl" / tool.name).symlink_to(tool)
        packages = r"(?:^(?:uv|setuptools|wheel)==.*\n(?: .*\n)*)"
        self.lock = "".join(re.findall(packages, (ROOT / "requirements.lock").read_text(), re.M))
        self.horovod("")

    def horovod(self, build, digest=None):
        """Make a stand-in of Horovod that runs the lines `build` when it is compiled."""
        source = self.folder / "horovod-0.28.1"
        for package in ("horovod", "horovod/tensorflow"):
            (source / package).mkdir(parents=True, exist_ok=True)
            (source / package / "__init__.py").write_text("def gloo_built(): return True\n")
        header = source / "third_party/flatbuffers/include/flatbuffers/stl_emulation.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f"before\n{OPERATOR}after\n")
        (source / "CMakeLists.txt").write_text(CMAKE)
        for name in ("ops/cuda/CMakeLists.txt", "gloo/gloo_context.cc"):
            (source / "horovod/common" / name).parent.mkdir(parents=True, exist_ok=True)
            (source / "horovod/common" / name).touch()
        (source / "build.make").write_text(LINES)
        (source / "setup.py").write_text(SETUP.format(build="".join(f"    {line}\n" for line in build.splitlines())))
        archive = self.folder / "horovod-0.28.1.tar.gz"
        with tarfile.open(archive, "w:gz") as file:
            file.add(source, "horovod-0.28.1")
        digest = digest or hashlib.sha256(archive.read_bytes()).hexdigest()
        (self.folder / "requirements.lock").write_text(f"{self.lock}horovod==0.28.1 \\\n    --hash=sha256:{digest}\n")

    def start(self, **variables):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DDL_", "PIP_", "UV_", "MAKE"))}
        env = kept | {
            "XDG_CACHE_HOME": str(self.cache), "UV_CACHE_DIR": str(cache_dir().parent / "uv"), "UV_OFFLINE": "1",
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder), "PYTHON": sys.executable, "DDL_STACK": "default",
            "DDL_ACCELERATOR": "cpu", "TMPDIR": str(self.folder / "tmp"),
        }  # fmt: skip
        (self.folder / "tmp").mkdir(exist_ok=True)
        return subprocess.Popen(
            ["sh", "tools/setup.sh", ".venv", "environment"], cwd=self.folder, env=env | variables, text=True,
            start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    def setup(self, *, fails=True, **variables):
        process = self.start(**variables)
        said, _ = process.communicate(timeout=100)
        assert (process.returncode != 0) == fails, said
        assert list((self.folder / "tmp").iterdir()) == [], "temporary files were left"
        return said


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path / "course")


# Compiling


@pytest.mark.slow
def test_compiling_counts_files_and_keeps_the_log(course):
    course.horovod(LINES + "print('a line of many')")
    said = course.setup(fails=False)
    assert re.findall(r"file (\d+) of 25\n", said) == ["1", "10", "20", "25"]
    assert "a line of many" in course.log.read_text() and "a line of many" not in said


@pytest.mark.slow
def test_failed_compile_names_the_first_error_and_the_log(course):
    course.horovod("print('warning\\n' * 4000, 'common.h:343: error: first', '\\nx.h:5: error: second')\nsys.exit(1)")
    said = course.setup()
    assert "common.h:343: error: first" in said and "build/setup/horovod.log" in said
    assert "second" not in said and "certificate" not in said and said.count("\n") < 9


@pytest.mark.slow
def test_interrupt_while_compiling_keeps_the_packages(course):
    course.horovod("print('Building CXX object', flush=True)\ntime.sleep(100)")
    process = course.start()
    for line in process.stdout:
        if "file 1 of" in line:
            os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) != 0
    kept = course.folder / ".venv" / "kept"
    kept.touch()
    course.horovod("")
    course.setup(fails=False)
    assert kept.exists()


@pytest.mark.slow
def test_changed_sources_are_refused_before_they_run(course):
    ran = course.folder / "ran"
    course.horovod(f"open({str(ran)!r}, 'w')", digest="0" * 64)
    assert "hash" in course.setup().lower()
    assert not ran.exists()


# Before anything is downloaded


def test_python_is_missing_names_the_next_stack_first(course, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if not program.name.startswith("python"):
            (programs / program.name).symlink_to(program)
    said = course.setup(PATH=str(programs), PYTHON="", UV_PYTHON_INSTALL_DIR=str(tmp_path / "none"))
    (sentence,) = [line for line in said.splitlines() if "3.11 was" in line]
    assert sentence.index("STACK=next") < sentence.index("PYTHON=")
    assert "caused" not in said.lower()


def test_full_disk_is_found_before_anything_is_downloaded(course, tmp_path):
    df = tmp_path / "df"
    df.write_text("#!/bin/sh\necho head; for f in a b; do echo disk 9000000 8000000 1000000 90% /home; done\n")
    df.chmod(0o755)
    said = course.setup(PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert "5.0 GB" in said and "/home has 1.0 GB" in said
    assert not (course.folder / ".venv").exists()


def test_readonly_home_names_the_variable(course):
    said = course.setup(XDG_CACHE_HOME="", HOME="/proc")
    assert "XDG_CACHE_HOME" in said and said.count("\n") == 1


# Certificates


@pytest.mark.parametrize("secure", [True, False])
def test_certificates_are_advised_on_after_their_errors_only(course, tmp_path, secure):
    key = tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    subprocess.run([*command, "-keyout", key, "-out", key], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key)
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    if secure:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        index = f"http{'s' if secure else ''}://127.0.0.1:{server.server_port}/simple"
        options = {"UV_DEFAULT_INDEX": index, "UV_OFFLINE": "0", "UV_CACHE_DIR": str(tmp_path / "empty")}
        said = course.setup(**options, UV_HTTP_RETRIES="0")
    finally:
        server.shutdown()
        server.server_close()
    assert ("SSL_CERT_FILE" in said) == secure, said
