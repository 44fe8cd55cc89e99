"""The server through which ranks of tf.distribute and PyTorch meet; it needs no Horovod."""

import sys

import pytest

from ddl.start import rendezvous


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setitem(sys.modules, "horovod", None)  # importing it fails
    listening = rendezvous.listen("127.0.0.1")
    for name, value in rendezvous.variables(*listening.getsockname()).items():
        monkeypatch.setenv(name, str(value))
    server = rendezvous.serve(listening, 2, 1, "torchrun")
    yield server
    server.shutdown()
    server.server_close()


def test_texts_are_kept_for_all_ranks(server):
    assert rendezvous.read("address-0") is None
    rendezvous.write("address-0", "127.0.0.1:4711")
    rendezvous.write("address-1", "ü")
    assert (rendezvous.read("address-0"), rendezvous.read("address-1")) == ("127.0.0.1:4711", "ü")
    rendezvous.write("address-0", "127.0.0.1:1")
    assert rendezvous.read("address-0") == "127.0.0.1:1"
