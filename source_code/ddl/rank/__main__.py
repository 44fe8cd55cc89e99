"""A rank's process: ``python -m ddl.rank FOLDER``, or ``python -m ddl.rank --threads N SCRIPT [ARGUMENT ...]``."""

if __name__ == "__main__":
    from ddl.rank.fast_exit import run_and_exit
    from ddl.rank.worker import main

    run_and_exit(main)
