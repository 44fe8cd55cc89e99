"""A rank's process: ``python -m ddl.rank FOLDER``, or ``python -m ddl.rank --threads N SCRIPT [ARGUMENT ...]``."""

if __name__ == "__main__":
    from ddl.start.fast_exit import run_and_exit
    from ddl.start.worker import main

    run_and_exit(main)
