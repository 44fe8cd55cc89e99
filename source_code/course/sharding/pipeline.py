"""Pipeline schedules: the task of each stage in each clock cycle.

A schedule is a list with a row for each stage (a rank), and a row has a cell for each clock cycle: ``("F", 2)`` is the
forward pass of microbatch 2, ``("B", 2)`` its backward pass, both counted as one cycle, and None is idle.
"""

from collections.abc import Sequence
from itertools import accumulate, product

from ddl.errors import InputError

Cell = tuple[str, int] | None
Schedule = Sequence[Sequence[Cell]]


def gpipe(stages: int, microbatches: int) -> list[list[Cell]]:
    """Return GPipe's schedule: all forward passes, then all backward passes (Huang et al. 2019)."""
    return table([[(way, number) for way in "FB" for number in range(microbatches)]] * stages)


def one_f_one_b(stages: int, microbatches: int) -> list[list[Cell]]:
    """Return 1F1B's schedule: stage s of P goes P − s forward passes ahead (Narayanan et al. 2019, PipeDream-Flush)."""
    orders = []
    for stage in range(stages):
        ahead = min(stages - stage, microbatches)
        orders.append([("F", number) for number in range(ahead)])
        for number in range(microbatches):
            orders[-1].append(("B", number))
            if ahead + number < microbatches:
                orders[-1].append(("F", ahead + number))
    return table(orders)


def table(orders: Sequence[Sequence[tuple[str, int]]]) -> list[list[Cell]]:
    """Return the schedule in which each stage does its tasks in order, as early as possible.

    Raises InputError if the stages deadlock.
    """
    done, rows, left = {}, [[] for _ in orders], [list(order) for order in orders]
    cycle = 0
    while any(left):
        found = {
            stage: tasks[0]
            for stage, tasks in enumerate(left)
            if tasks and all(done.get(need, cycle) < cycle for need in _needs(stage, tasks[0], len(orders)))
        }
        if not found:
            waiting = ", ".join(f"stage {stage} for {tasks[0]}" for stage, tasks in enumerate(left) if tasks)
            raise InputError(f"deadlock in cycle {cycle}: the next tasks can never start ({waiting})")
        for stage, row in enumerate(rows):
            row.append(found.get(stage))
            if stage in found:
                done[stage, *found[stage]] = cycle
                left[stage].pop(0)
        cycle += 1
    return rows


def problem(schedule: Schedule, microbatches: int) -> str:
    """Return the first problem of a schedule, or "" if each pass runs once, after its dependencies."""
    done = {}
    if len({len(row) for row in schedule}) != 1:
        return "its rows are not equally long"
    for cycle, cells in enumerate(zip(*schedule, strict=True)):
        for stage, cell in enumerate(cells):
            if cell is None:
                continue
            if (stage, *cell) in done:
                return f"stage {stage} does {_name(cell)} twice"
            for need in _needs(stage, cell, len(schedule)):
                if done.get(need, cycle) >= cycle:
                    missing = f"stage {need[0]} has done {_name(need[1:])}"
                    return f"stage {stage} does {_name(cell)} in cycle {cycle}, before {missing}"
        done |= {(stage, *cell): cycle for stage, cell in enumerate(cells) if cell is not None}
    for stage, *cell in product(range(len(schedule)), "FB", range(microbatches)):
        if (stage, *cell) not in done:
            return f"stage {stage} never does {_name(cell)}"
    return "" if len(done) == 2 * len(schedule) * microbatches else f"it has more than {microbatches} microbatches"


def bubble(schedule: Schedule, backward: float = 1) -> float:
    """Return the idle share of time if all stages wait for the slowest in each cycle.

    A backward pass takes `backward` times as long as a forward pass. If both take equally long, GPipe and 1F1B are idle
    for (P − 1) / (Q + P − 1) of the time (Huang et al. 2019).
    """
    lengths = {"F": 1, "B": backward}
    cycles = [[lengths[cell[0]] if cell else 0 for cell in cells] for cells in zip(*schedule, strict=True)]
    return 1 - sum(map(sum, cycles)) / (len(schedule) * sum(map(max, cycles)))


def alive(schedule: Schedule) -> list[int]:
    """Return the peak number of microbatches whose activations each stage keeps."""
    step = {"F": 1, "B": -1}
    return [max(accumulate((step[cell[0]] for cell in row if cell), initial=0)) for row in schedule]


def _needs(stage, task, stages):
    """Return the tasks that must come first: (stage, way, number)."""
    way, number = task
    if way == "F":
        return [(stage - 1, "F", number)] if stage else []
    return [(stage, "F", number)] + ([(stage + 1, "B", number)] if stage < stages - 1 else [])


def _name(cell):
    return f"{cell[0]}{cell[1]}"
