"""What a notebook server shows of runs: an extension of Jupyter's."""


def _jupyter_server_extension_points():
    return [{"module": __name__}]


def _load_jupyter_server_extension(server):
    from ddl.server.serving import serve

    serve(server)
