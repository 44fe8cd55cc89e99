"""What the code of a notebook may use while it is examined."""

from dataclasses import dataclass, fields

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """The limits of one examination; each is a positive number.

    Parameters
    ----------
    cell_s : float
        For one code cell.
    call_s : float
        For one call of a function by a test.
    test_s : float
        For one test cell with all its calls.
    total_s : float
        For the whole notebook; what has not been examined by then has not passed.
    memory_bytes : int
        Memory of all processes together, and address space of each.
    processes : int
        Processes and threads at a time. Binds only in a sandbox, as the next but one.
    file_bytes : int
        Size of a file that is written.
    folder_bytes : int
        Size of all files that are written.
    printed_bytes : int
        Of a cell's output, what is kept: its beginning.
    reply_bytes : int
        Size of what a call returns, as text.
    """

    cell_s: float = 30.0
    call_s: float = 10.0
    test_s: float = 60.0
    total_s: float = 300.0
    memory_bytes: int = 2 * 2**30
    processes: int = 32
    file_bytes: int = 64 * 2**20
    folder_bytes: int = 128 * 2**20
    printed_bytes: int = 64 * 2**10
    reply_bytes: int = 8 * 2**20

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f"{field.name} is {value!r}; it has to be a positive number")
