"""TensorBoard on the runs folder, behind the notebook server: ``python -m ddl.server.tensorboard SOCKET PREFIX``.

The server starts it when its page is first opened, and forwards only requests with the server's token. TensorBoard has
no authentication, so it listens on a socket in a private folder, not on a port that other users could reach.
"""

import sys

from ddl.records.paths import runs_dir


def main(socket: str, prefix: str) -> None:
    """Serve the TensorBoard logs of all runs until the process is terminated."""
    from tensorboard import default, program
    from werkzeug.serving import make_server

    class Server(program.TensorBoardServer):
        def __init__(self, app, flags):
            self._server = make_server(f"unix://{socket}", 0, app, threaded=True)

        def serve_forever(self):
            self._server.serve_forever()

        def get_url(self):
            return prefix

    board = program.TensorBoard(default.get_plugins(), server_class=Server)
    # With fast loading, a separate process would read the logs and listen on an open port.
    board.configure(argv=["tensorboard", "--logdir", str(runs_dir()), "--path_prefix", prefix, "--load_fast=false"])
    board._make_server().serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
