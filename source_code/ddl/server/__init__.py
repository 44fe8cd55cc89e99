"""Jupyter server extension that shows runs."""


def _jupyter_server_extension_points():
    return [{"module": __name__}]


def _load_jupyter_server_extension(server):
    from ddl.server.serving import serve

    serve(server)
