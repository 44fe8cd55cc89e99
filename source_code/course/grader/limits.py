"""Resource limits for a notebook's code during grading."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of grading one notebook; each is a positive number."""

    cell_s: float = 30.0  # for one code cell
    call_s: float = 10.0  # for one call of a function by a test
    test_s: float = 60.0  # for one test cell with all its calls
    total_s: float = 300.0  # for the whole notebook; tests not run by then fail
    memory_bytes: int = 2 * 2**30  # memory of all processes together, and address space of each
    processes: int = 32  # processes and threads at a time; only in a sandbox
    file_bytes: int = 64 * 2**20  # size of a written file
    folder_bytes: int = 128 * 2**20  # size of all written files; only in a sandbox
    printed_bytes: int = 64 * 2**10  # kept length of a cell's output
    launch_s: float = 60.0  # for one launch of ranks by a test
    reply_bytes: int = 8 * 2**20  # size of a call's return value as text
