"""What every worker runs first: ``python -m ddl.rank --threads N [OPTIONS] SCRIPT [ARGUMENT ...]``."""

if __name__ == "__main__":
    from ddl.rank.ending import run_and_end
    from ddl.rank.worker import main

    run_and_end(main)
