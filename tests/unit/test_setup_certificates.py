"""The set-up's own commands against an index whose certificate only a store of ours knows."""

import http.server
import io
import os
import ssl
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import environment
import pytest
from environment import Setup
from line import CommandError, Line

WHEEL = "tiny_course-1.0-py3-none-any.whl"
VARIABLES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "UV_SYSTEM_CERTS",
    "UV_NATIVE_TLS",
    "UV_DEFAULT_INDEX",
    "PIP_FIND_LINKS",
    "PIP_EXTRA_INDEX_URL",
    "UV_INDEX",
    "UV_FIND_LINKS",
)


def wheel():
    """Return the bytes of a package with one line."""
    info = "tiny_course-1.0.dist-info"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("tiny_course.py", "here = True\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-course\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return packed.getvalue()


class Index(http.server.BaseHTTPRequestHandler):
    """An index of one package."""

    content = wheel()

    def do_GET(self):
        page = f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
        body, told = (
            (page, "text/html") if not self.path.endswith(".whl") else (self.content, "application/octet-stream")
        )
        self.send_response(200)
        self.send_header("Content-Type", told)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A folder with an authority's certificate, as a file and as a store, and the index's address."""
    folder = tmp_path_factory.mktemp("network")

    def openssl(*arguments):
        return subprocess.run(
            ["openssl", *arguments], cwd=folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req",
        "-x509",
        *key,
        "-days",
        "2",
        "-subj",
        "/CN=A network of its own",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-addext",
        "keyUsage=critical,keyCertSign",
    )
    openssl("req", *key, "-subj", "/CN=index", "-keyout", "index.key", "-out", "index.csr")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    openssl(
        "x509",
        "-req",
        "-in",
        "index.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-days",
        "2",
        "-extfile",
        "names",
        "-out",
        "index.pem",
    )
    store = folder / "store"
    store.mkdir()
    (store / f"{openssl('x509', '-hash', '-noout', '-in', 'ca.pem')}.0").symlink_to("../ca.pem")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "index.pem", folder / "index.key")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # who refuses the certificate hangs up
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield folder, f"https://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


@pytest.fixture
def setup(tmp_path, network, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "PIP_INDEX_URL": network[1],
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "UV_NO_CACHE": "1",
        "UV_HTTP_RETRIES": "0",
        "PIP_RETRIES": "0",
        "PIP_NO_CACHE_DIR": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return Setup(Path(sys.prefix), "cpu", tmp_path)


def with_uv(setup):
    """Install what the index has as the set-up installs."""
    setup.install(Line("set-up", "uv"), "--target", setup.root / "uv", "--no-deps", "tiny-course")


def with_pip(setup):
    """Install as the set-up installs uv itself."""
    setup.run(
        Line("set-up", "pip"),
        [setup.python, "-m", "pip", "install", "--no-deps", "--target", setup.root / "pip", "tiny-course"],
    )


@pytest.mark.parametrize(
    ("variable", "value"), [("SSL_CERT_FILE", "ca.pem"), ("SSL_CERT_DIR", "store"), ("PIP_CERT", "ca.pem")]
)
def test_a_store_that_is_named_serves_both_installers(setup, network, monkeypatch, variable, value):
    monkeypatch.setenv(variable, str(network[0] / value))
    with_uv(setup)
    with_pip(setup)
    assert {path.parent.name for path in setup.root.glob("*/tiny_course.py")} == {"uv", "pip"}


@pytest.mark.parametrize("install", [with_uv, with_pip])
def test_a_certificate_that_nobody_knows_is_named_with_what_to_do(setup, install):
    with pytest.raises(CommandError) as failed:
        install(setup)
    assert "a server's certificate was refused" in str(failed.value)
    assert "SSL_CERT_FILE=/path/to/certificates.pem make setup" in str(failed.value)
    assert not list(setup.root.glob("*/tiny_course.py"))


def test_what_fails_otherwise_says_nothing_of_certificates(setup):
    with pytest.raises(CommandError) as failed:
        setup.run(Line("set-up", "other"), [setup.python, "-c", "raise SystemExit('no')"])
    assert "certificate" not in str(failed.value)


def test_the_system_s_own_store_serves_both_installers(setup, network):
    """In a mount namespace, in which the system knows one certificate: that of this network."""
    store = next(filter(os.path.exists, environment.STORES), None)
    namespace = ["unshare", "--map-root-user", "--mount"]
    if not store or subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("no store of certificates, or no mount namespace (unshare --mount) here")
    modules = [str(Path(module).parent) for module in (environment.__file__, __file__)]
    code = (
        f"import sys; from pathlib import Path; sys.path[:0] = {modules}; "
        "from test_setup_certificates import Setup, with_pip, with_uv; "
        "setup = Setup(Path(sys.prefix), 'cpu', Path(sys.argv[1])); "
        "with_uv(setup); with_pip(setup)"
    )
    done = subprocess.run(
        [
            *namespace,
            "sh",
            "-c",
            'mount --bind "$0" "$1" && shift && exec "$@"',
            network[0] / "ca.pem",
            store,
            sys.executable,
            "-c",
            code,
            setup.root,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.parent.name for path in setup.root.glob("*/tiny_course.py")} == {"uv", "pip"}


def test_without_any_store_uv_keeps_its_own(setup, monkeypatch):
    monkeypatch.setattr(environment, "STORES", ("/nowhere.pem",))
    seen = []
    line = Line("set-up", "seen")
    monkeypatch.setattr(line, "run", lambda command, log, env: seen.append(env))
    setup.run(line, ["true"])
    assert "UV_SYSTEM_CERTS" not in seen[0] and "REQUESTS_CA_BUNDLE" not in seen[0]
