"""TensorBoard on the runs folder, behind the notebook server: ``python -m ddl.server.tensorboard SOCKET PREFIX``.

The server starts it when its page is asked for, and hands on only what comes with the server's token. TensorBoard asks
for none itself, so it listens at a socket in a folder of the user's own, at no port that others on the machine reach.
"""

import sys

from ddl.records.paths import runs_dir


def main(socket: str, prefix: str) -> None:
    """Serve the TensorBoard logs of all runs until the process is ended."""
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
    # Without load_fast=false, a process of its own would read the logs, behind an open port.
    board.configure(argv=["tensorboard", "--logdir", str(runs_dir()), "--path_prefix", prefix, "--load_fast=false"])
    board._make_server().serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
