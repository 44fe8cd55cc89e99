"""The CPU image of this environment's stack: built once through `make image` from a Debian made here, then removed."""

import contextlib
import json
import os
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ddl.records import stack
from ddl.records.paths import cache_dir
from helpers import ROOT

SITE_CERTIFICATES = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))
LENT = "/var/cache/lent"
BASE, TAG = "localhost/debian:bookworm", "ddl-course-test"
ANYONE = "4242:4242"  # an id that the image has never heard of, as `docker run --user` brings along


@dataclass(frozen=True)
class Image:
    """The built image, one container of it to run commands in, and where both lie on this host."""

    container: str
    environment: dict
    description: dict
    files: Path
    marker: str
    """A line of the certificates that the image was built with."""

    @property
    def config(self):
        """What Docker reads of the image: user, environment, what it starts."""
        return self.description["Docker"]["config"]

    def run(self, *command, succeeds=True, timeout_s=60, **options):
        """Run a command in the container to its end and return what it printed."""
        with self.start(*command, **options) as process:
            said, _ = process.communicate(timeout=timeout_s)
        assert (process.returncode == 0) == succeeds, said[-9000:]
        return said

    @contextlib.contextmanager
    def start(self, *command, user=ANYONE, folders=(), cwd="/course", **environment):
        """Start a command in the container, as Docker would; on leaving, nothing of it is left."""
        options = [f"--env={name}={value}" for name, value in environment.items()]
        options += [f"--volume={folder}" for folder in folders]
        # Docker writes a container's name into its /etc/hosts; here, only localhost is there.
        options += [f"--user={user}", f"--workingdir={cwd}", "--hostname=localhost"]
        process = psutil.Popen(
            ["buildah", "run", *options, self.container, "--", *map(str, command)],
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            if process.is_running():
                for each in [*process.children(recursive=True), process]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()
            process.wait()
            process.stdout.close()


def lend_horovod(debian):
    """Put what was compiled for this machine into the base: to compile it once is long enough for a test."""
    shutil.copytree(cache_dir() / "wheels", debian / LENT.lstrip("/") / "ddl" / "wheels")


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """Build the image with `make image` in a temporary folder."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = {name for name in ("buildah", "debootstrap") if not shutil.which(name, path=path)}
    if missing:
        pytest.skip(f"Debian packages {' '.join(sorted(missing))} are not installed")
    if os.geteuid() != 0:
        pytest.skip("root is needed: debootstrap makes a Debian, and buildah mounts it")
    folder = tmp_path_factory.mktemp("images")
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    environment |= {
        "PATH": path,
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "BUILDAH_ISOLATION": "chroot",
        "TMPDIR": str(folder),
    }

    def run(*command):
        done = subprocess.run(
            command, cwd=ROOT, env=environment, text=True, timeout=900, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-5000:]}"
        return done.stdout.splitlines()[-1] if done.stdout else ""

    try:
        base = run("buildah", "from", "scratch")
        debian = Path(run("buildah", "mount", base))
        run("debootstrap", "--variant=minbase", "bookworm", debian)
        lend_horovod(debian)
        run("buildah", "umount", base)
        run("buildah", "config", "--env=PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"--env=DDL_BUILD_CACHE={LENT}", base)
        run("buildah", "commit", "--rm", base, BASE)

        marker = f"# the certificates of a site, {uuid.uuid4()}"
        certificates = folder / "site.crt"
        certificates.write_text(f"{marker}\n{SITE_CERTIFICATES.read_text()}")
        options = [f"BASE={BASE}", f"TAG={TAG}", f"CA={certificates}", f"STACK={stack.name()}"]
        run("make", "image", "BUILDER=buildah", *options)
        described = subprocess.check_output(["buildah", "inspect", "--type=image", TAG], env=environment, text=True)
        container = run("buildah", "from", TAG)
        files = Path(run("buildah", "mount", container))
        yield Image(container, environment, json.loads(described), files, marker)
    finally:
        run("buildah", "umount", "--all")
        run("buildah", "rm", "--all")
        run("buildah", "rmi", "--all", "--force")
        shutil.rmtree(folder)
