"""The set-up's own commands against an index whose certificate only a store of ours knows."""

import functools
import http.server
import os
import ssl
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import environment
import helpers
from environment import Setup
from helpers import serving
from line import CommandError, Line

INFO = "tiny_course-1.0.dist-info"
CONTENT = {  # of a package with one line
    "tiny_course.py": "here = True\n",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: tiny-course\nVersion: 1.0\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/RECORD": "",
}
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

    package = folder / "index" / "simple" / "tiny-course"
    package.mkdir(parents=True)
    with zipfile.ZipFile(package / "tiny_course-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in CONTENT.items():
            wheel.writestr(name, text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "index.pem", folder / "index.key")
    index = functools.partial(Index, directory=folder / "index")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), index)
    server.handle_error = lambda *_: None  # who refuses the certificate hangs up
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server):  # by a name, as indexes are: of an address pip 24.2 (Python 3.13.0) can't ask a certificate
        yield folder, f"https://localhost:{server.server_port}/simple"


@pytest.fixture
def setup(tmp_path, network, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("SSL_CERT_", "UV_", "PIP_")) or name.endswith("_CA_BUNDLE"):
            monkeypatch.delenv(name)
    for name in ("UV_NO_CACHE", "PIP_NO_CACHE_DIR"):
        monkeypatch.setenv(name, "1")
    for name in ("UV_HTTP_RETRIES", "PIP_RETRIES"):
        monkeypatch.setenv(name, "0")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "localhost")
    monkeypatch.setenv("PIP_INDEX_URL", network[1])
    return Setup(Path(sys.prefix), "cpu", tmp_path)


def with_uv(setup):
    """Install what the index has as the set-up installs."""
    setup.install(Line("set-up", "uv"), "--target", setup.root / "uv", "--no-deps", "tiny-course")


def with_pip(setup):
    """Install as the set-up installs uv itself."""
    pip = [setup.python, "-m", "pip", "install", "--no-deps", "--target", setup.root / "pip", "tiny-course"]
    setup.run(Line("set-up", "pip"), pip)


def installed(setup):
    return {path.parent.name for path in setup.root.glob("*/tiny_course.py")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value"), [("SSL_CERT_FILE", "ca.pem"), ("SSL_CERT_DIR", "store"), ("PIP_CERT", "ca.pem")]
)
def test_a_store_that_is_named_serves_both_installers(setup, network, monkeypatch, variable, value):
    monkeypatch.setenv(variable, str(network[0] / value))
    with_uv(setup)
    with_pip(setup)
    assert installed(setup) == {"uv", "pip"}


@pytest.mark.parametrize("install", [with_uv, with_pip])
def test_a_certificate_that_nobody_knows_is_named_with_what_to_do(setup, install):
    with pytest.raises(CommandError, match="(?s)server's certificate was refused.*SSL_CERT_FILE=/.* make setup"):
        install(setup)
    assert not installed(setup)


def test_what_fails_otherwise_says_nothing_of_certificates(setup):
    with pytest.raises(CommandError) as failed:
        setup.run(Line("set-up", "other"), [setup.python, "-c", "raise SystemExit('no')"])
    assert "certificate" not in str(failed.value)


@pytest.mark.slow
def test_the_system_s_own_store_serves_both_installers(setup, network):
    """In a mount namespace, in which the system knows one certificate: that of this network."""
    store = next(filter(os.path.exists, environment.STORES), None)
    namespace = ["unshare", "--map-root-user", "--mount"]
    if not store or subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("no store of certificates, or no mount namespace (unshare --mount) here")
    modules = [str(Path(module).parent) for module in (environment.__file__, __file__, helpers.__file__)]
    code = (
        f"import sys; from pathlib import Path; sys.path[:0] = {modules}; from test_certificates import *; "
        "setup = Setup(Path(sys.prefix), 'cpu', Path(sys.argv[1])); with_uv(setup); with_pip(setup)"
    )
    mount = ["sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', network[0] / "ca.pem", store]
    done = subprocess.run([*namespace, *mount, sys.executable, "-c", code, setup.root], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert installed(setup) == {"uv", "pip"}


@pytest.mark.parametrize("store", [True, False])
def test_what_pip_knows_reaches_uv_and_without_a_store_uv_keeps_its_own(setup, monkeypatch, tmp_path, store):
    monkeypatch.setattr(environment, "STORES", (str(tmp_path) if store else "/nowhere.pem",))
    monkeypatch.setenv("MAKEFLAGS", "n")
    if store:
        monkeypatch.setenv("PIP_CERT", "certificates")
    seen = {}
    line = Line("set-up", "seen")
    monkeypatch.setattr(line, "run", lambda command, log, env: seen.update(env))
    setup.run(line, ["true"])
    assert seen["UV_DEFAULT_INDEX"] == os.environ["PIP_INDEX_URL"]
    assert seen["PYTHONNOUSERSITE"] == "1" and "MAKEFLAGS" not in seen
    names = ("UV_SYSTEM_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    assert [seen.get(name) for name in names] == (["1", "certificates", "certificates"] if store else [None] * 3)
