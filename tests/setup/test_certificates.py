"""The set-up against an index whose certificate only a store of ours knows."""

import functools
import hashlib
import http.server
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import zipfile

import pytest

from helpers import ROOT, SETTING_UP, serving

# Those that the set-up reads the versions of, with no content; the last one is to be compiled.
PACKAGES = ("uv", "cmake", "numpy", "tensorflow_cpu", "horovod")
BACKEND = "import shutil\n\n\ndef build_wheel(folder, *_):\n    return shutil.copy({0!r}, folder) and {0!r}\n"
BUILD_SYSTEM = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'

KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
OPENSSL = (
    f"req -x509 {KEY} -days 2 -subj /CN=network -keyout ca.key -out ca.pem -addext keyUsage=critical,keyCertSign",
    f"req {KEY} -subj /CN=index -keyout index.key -out index.csr",
    "x509 -req -in index.csr -CA ca.pem -CAkey ca.key -days 2 -extfile names -out index.pem",
    "x509 -hash -noout -in ca.pem",
)


class Index(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def as_source(wheel):
    """Put an archive of sources, which "compiles" to a wheel, in that wheel's place; return it."""
    for name, text in {
        "backend.py": BACKEND.format(wheel.name),
        "pyproject.toml": BUILD_SYSTEM,
        "PKG-INFO": "",
    }.items():
        (wheel.parent / name).write_text(text)
    archive = wheel.parent / "horovod-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as sources:
        for path in [path for path in wheel.parent.iterdir() if path != archive]:
            sources.add(path, f"horovod-1.0/{path.name}")
            path.unlink()
    return archive


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A folder with an authority's certificate, as a file and as a store, and the index's address."""
    folder = tmp_path_factory.mktemp("network")
    (folder / "names").write_text("subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\n")
    for arguments in OPENSSL:
        command = ["openssl", *arguments.split()]
        printed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    (folder / "store").mkdir()
    (folder / "store" / f"{printed.strip()}.0").symlink_to("../ca.pem")

    lock = ""
    for name in PACKAGES:
        package = folder / "index" / "simple" / name.replace("_", "-")
        package.mkdir(parents=True)
        wheel = package / f"{name}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            info = f"{name}-1.0.dist-info"
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        file = as_source(wheel) if name == "horovod" else wheel
        lock += f"{package.name}==1.0 \\\n    --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"
    (folder / "requirements.lock").write_text(lock)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "index.pem", folder / "index.key")
    index = functools.partial(Index, directory=folder / "index")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), index)
    server.handle_error = lambda *_: None  # who refuses the certificate hangs up
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server):  # by a name, as indexes are: of an address pip 24.2 (Python 3.13.0) can't ask a certificate
        yield folder, f"https://localhost:{server.server_port}/simple"


@pytest.fixture
def set_up(tmp_path, network, monkeypatch):
    """Return a function that sets up a course with that index's lock: the packages installed, and what was printed.

    Horovod's is empty, so that the set-up stops where it looks at it.
    """
    for name in list(os.environ):
        if name.startswith(("SSL_CERT_", "UV_", "PIP_")) or name.endswith("_CA_BUNDLE"):
            monkeypatch.delenv(name)
    for name, value in {"UV_NO_CACHE": "1", "UV_HTTP_RETRIES": "0", "NO_PROXY": "localhost"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PIP_INDEX_URL", network[1])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    course, tool = tmp_path / "course", tmp_path / "cache/ddl/uv-1.0/bin/uv"
    (course / "tools").mkdir(parents=True)
    for source in (ROOT / "tools/setup.sh", ROOT / "pyproject.toml", network[0] / "requirements.lock"):
        shutil.copy(source, course / ("tools" if source.suffix == ".sh" else "."))
    tool.parent.mkdir(parents=True)
    tool.symlink_to(shutil.which("uv", path=f"{sys.prefix}/bin"))
    subprocess.run([sys.executable, "-m", "venv", course / ".venv"], check=True)

    def run(before=("sh",), **variables):
        command = [*before, "tools/setup.sh"]
        done = subprocess.run(command, cwd=course, env=os.environ | variables, capture_output=True, text=True)
        assert done.returncode != 0
        installed = {path.name.partition("-")[0] for path in course.rglob("*.dist-info")}
        return installed - {"pip", "setuptools"}, done.stdout + done.stderr

    return run


@pytest.mark.nightly(*SETTING_UP)
@pytest.mark.parametrize(
    ("variable", "value"), [("SSL_CERT_FILE", "ca.pem"), ("SSL_CERT_DIR", "store"), ("PIP_CERT", "ca.pem")]
)
def test_certificates_that_are_named_are_used(set_up, network, variable, value):
    installed, printed = set_up(**{variable: str(network[0] / value)})
    assert installed == set(PACKAGES) and "No module named 'horovod'" in printed


@pytest.mark.nightly(*SETTING_UP)
def test_the_systems_own_store_is_used(set_up, network):
    """In a mount namespace, in which the system knows one certificate: that of this network."""
    store, namespace = "/etc/ssl/certs/ca-certificates.crt", ["unshare", "--map-root-user", "--mount"]
    if not os.path.exists(store) or subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("no store of certificates, or no mount namespace (unshare --mount) here")
    mounted = ["sh", "-c", f'mount --bind "{network[0]}/ca.pem" {store} && exec sh "$@"', "sh"]
    assert set_up(before=[*namespace, *mounted])[0] == set(PACKAGES)


def test_a_certificate_that_nobody_knows_ends_with_what_to_do(set_up):
    installed, printed = set_up()
    assert not installed and "invalid peer certificate" in printed and "SSL_CERT_FILE=FILE make setup" in printed
