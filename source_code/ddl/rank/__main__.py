"""What every worker runs first: ``python -m ddl.rank --threads N [OPTIONS] SCRIPT [ARGUMENT ...]``.

A fork of a template that has imported TensorFlow and Horovod becomes the worker (`ddl.rank.worker`), or where there is
none, this process does.
"""

import sys

from ddl.rank import proxy

if __name__ == "__main__":
    proxy.hand_over("ddl.rank.worker", proxy.script_of(sys.argv[1:]))
    from ddl.rank.ending import run_and_end
    from ddl.rank.worker import main

    run_and_end(main)
