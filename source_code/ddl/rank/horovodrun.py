"""``python -m ddl.rank.horovodrun [OPTIONS] COMMAND``: horovodrun's options, and a command of `ddl.rank`.

A fork of a template does the work (`ddl.rank.one_host`), or where there is none, this process does.
"""

from ddl.rank import proxy

if __name__ == "__main__":
    proxy.hand_over("ddl.rank.one_host")
    from ddl.rank.ending import run_and_end
    from ddl.rank.one_host import main

    run_and_end(main)
