"""Pipeline schedules: the task of each rank in each clock cycle.

A schedule is a list with a row for each rank, and a row has a cell for each clock cycle: ``("F", 2)`` is the forward
pass of microbatch 2, ``("B", 2)`` its backward pass, both counted as one cycle, and None is idle. A rank is a stage, or
has several in an interleaved schedule: chunk c of rank r of P is stage c P + r, and ``("F", 2, c)`` is its pass.
"""

from collections.abc import Sequence
from itertools import accumulate, product

from ddl.errors import InputError

Cell = tuple | None
Schedule = Sequence[Sequence[Cell]]


def gpipe(stages: int, microbatches: int) -> list[list[Cell]]:
    """Return GPipe's schedule: all forward passes, then all backward passes (Huang et al. 2019)."""
    return table([[(direction, number) for direction in "FB" for number in range(microbatches)]] * stages)


def one_f_one_b(ranks: int, microbatches: int, chunks: int = 1) -> list[list[Cell]]:
    """Return 1F1B's schedule: rank r of P goes P − r forward passes ahead (Narayanan et al. 2019, PipeDream-Flush).

    With several `chunks` it is interleaved: a rank takes P microbatches through a chunk, then through the next one, and
    goes 2 (P − r − 1) + (chunks − 1) P + 1 passes ahead (Narayanan et al. 2021, section 2.2). Raises InputError if P
    does not divide the number of microbatches then.
    """
    if chunks > 1 and microbatches % ranks:
        raise InputError(f"interleaving needs a multiple of {ranks} microbatches, got {microbatches}")
    rounds = range(0, microbatches, ranks)
    passes = [
        (m, c) for first in rounds for c in range(chunks) for m in range(first, first + ranks) if m < microbatches
    ]
    forward = [("F", m, c)[: 2 + (chunks > 1)] for m, c in passes]
    backward = [("B", m, chunks - 1 - c)[: 2 + (chunks > 1)] for m, c in passes]
    orders = []
    for left in reversed(range(ranks)):  # ranks after this one
        ahead = left + 1 if chunks == 1 else 2 * left + (chunks - 1) * ranks + 1
        orders.append(forward[:ahead])
        for number, task in enumerate(backward):
            orders[-1] += [task, *forward[ahead + number : ahead + number + 1]]
    return table(orders)


def table(orders: Sequence[Sequence[tuple]]) -> list[list[Cell]]:
    """Return the schedule in which each rank does its tasks in order, as early as possible.

    Raises InputError if the ranks deadlock.
    """
    done, rows, left = {}, [[] for _ in orders], [list(order) for order in orders]
    last, cycle = len(orders) * chunks(orders) - 1, 0
    while any(left):
        found = {
            rank: tasks[0]
            for rank, tasks in enumerate(left)
            if tasks and all(done.get(need, cycle) < cycle for need in _needs(rank, tasks[0], len(orders), last))
        }
        if not found:
            waiting = ", ".join(f"stage {rank} for {tasks[0]}" for rank, tasks in enumerate(left) if tasks)
            raise InputError(f"deadlock in cycle {cycle}: the next tasks can never start ({waiting})")
        for rank, row in enumerate(rows):
            row.append(found.get(rank))
            if rank in found:
                done[rank, *found[rank]] = cycle
                left[rank].pop(0)
        cycle += 1
    return rows


def problem(schedule: Schedule, microbatches: int) -> str:
    """Return the first problem of a schedule, or "" if each pass runs once, after its dependencies."""
    done, last = {}, len(schedule) * chunks(schedule) - 1
    if len({len(row) for row in schedule}) != 1:
        return "its rows are not equally long"
    for cycle, cells in enumerate(zip(*schedule, strict=True)):
        for rank, cell in ((rank, cell) for rank, cell in enumerate(cells) if cell):
            if (rank, *cell) in done:
                return f"stage {rank} does {_name(cell)} twice"
            for need in _needs(rank, cell, len(schedule), last):
                if done.get(need, cycle) >= cycle:
                    missing = f"stage {need[0]} has done {_name(need[1:])}"
                    return f"stage {rank} does {_name(cell)} in cycle {cycle}, before {missing}"
        done |= {(rank, *cell): cycle for rank, cell in enumerate(cells) if cell}
    more = [(chunk,) for chunk in range(chunks(schedule))] if chunks(schedule) > 1 else [()]
    for rank, direction, number, chunk in product(range(len(schedule)), "FB", range(microbatches), more):
        if (rank, direction, number, *chunk) not in done:
            return f"stage {rank} never does {_name((direction, number, *chunk))}"
    return "" if len(done) == 2 * (last + 1) * microbatches else f"it has more than {microbatches} microbatches"


def bubble(schedule: Schedule, backward: float = 1) -> float:
    """Return the idle share of time if each pass begins once its rank and its input are ready, and messages are free.

    A backward pass takes `backward` times as long as a forward pass. GPipe and 1F1B are idle for
    (P − 1) / (v Q + P − 1) of the time, with v chunks per rank (Huang et al. 2019, Narayanan et al. 2021).
    """
    lengths, last = {"F": 1, "B": backward}, len(schedule) * chunks(schedule) - 1
    ends, free, busy = {}, [0.0] * len(schedule), 0.0
    for cells in zip(*schedule, strict=True):
        for rank, cell in ((rank, tuple(cell)) for rank, cell in enumerate(cells) if cell):
            inputs = [ends[need] for need in _needs(rank, cell, len(schedule), last)]
            ends[rank, *cell] = free[rank] = max(free[rank], *inputs, 0) + lengths[cell[0]]
            busy += lengths[cell[0]]
    return 1 - busy / (len(schedule) * max(free))


def alive(schedule: Schedule) -> list[float]:
    """Return the peak number of microbatches whose activations each rank keeps."""
    step = {"F": 1, "B": -1}
    return [max(accumulate((step[cell[0]] for cell in row if cell), initial=0)) / chunks(schedule) for row in schedule]


def chunks(schedule: Schedule) -> int:
    """Return the number of stages per rank."""
    return 1 + max((cell[2] for row in schedule for cell in row if cell and len(cell) > 2), default=0)


def stage_of(cell: tuple, rank: int, ranks: int) -> int:
    """Return the number of the stage that a rank's task belongs to."""
    return sum(cell[2:]) * ranks + rank


def _needs(rank, task, ranks, last):
    """Return the tasks that must come first, each with its rank in front."""
    direction, number, *chunk = task
    stage = stage_of(task, rank, ranks)

    def at(stage):
        return (stage % ranks, direction, number, *([stage // ranks] if chunk else []))

    if direction == "F":
        return [at(stage - 1)] if stage else []
    return [(rank, "F", number, *chunk)] + ([at(stage + 1)] if stage < last else [])


def _name(cell):
    return "".join(map(str, cell[:2])) + (f" of chunk {cell[2]}" if len(cell) > 2 else "")
