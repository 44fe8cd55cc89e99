"""The server through which Horovod's ranks meet."""

import http.client

import pytest

from ddl.start import rendezvous


def test_addresses_are_forgotten_when_all_ranks_of_horovod_have_left():
    """Whatever the order in which they leave their scopes: then they can connect again."""
    pytest.importorskip("horovod")
    listening = rendezvous.listen("127.0.0.1")
    server = rendezvous.serve(listening, 2, 1)

    def ask(method, scope, rank):
        connection = http.client.HTTPConnection(*listening.getsockname())
        connection.request(method, f"/{scope}/{rank}", body="an address" if method == "PUT" else None)
        return connection.getresponse().status

    scopes = ("global", "local_node0")
    try:
        for _ in range(2):
            for rank in (0, 1):
                assert [ask("PUT", scope, rank) for scope in scopes] == [200, 200]
            assert [ask("DELETE", scope, 0) for scope in scopes] == [200, 200]
            assert [ask("GET", scope, 1) for scope in scopes] == [200, 200]
            assert [ask("DELETE", scope, 1) for scope in scopes] == [200, 200]
            assert [ask("GET", scope, rank) for scope in scopes for rank in (0, 1)] == [404] * 4
    finally:
        server.shutdown()
        server.server_close()
