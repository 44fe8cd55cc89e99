# Right and wrong answers to the questions of lesson 6: tests/grading/test_variants.py reads them.

# %% q02_gpipe right: what a stage waits for
def gpipe(stages, microbatches):
    done, table = {}, [[] for _ in range(stages)]
    left = [[(direction, m) for direction in "FB" for m in range(microbatches)] for _ in range(stages)]
    while any(left):
        cycle, now = len(table[0]), []
        for s in range(stages):
            cell = None
            if left[s]:
                direction, m = left[s][0]
                before = (s - 1, direction, m) if direction == "F" else (s + 1, direction, m)
                if before[0] in (-1, stages) or done.get(before, cycle) < cycle:
                    cell = left[s].pop(0)
            now.append(cell)
        for s, cell in enumerate(now):
            table[s].append(cell)
            if cell:
                done[(s, *cell)] = cycle
    return table


# %% q02_gpipe right
# tuples: `return table` -> `return tuple(map(tuple, table))`

# %% q02_gpipe plain
# backward in the same order of stages: `half + stages - 1 - stage + m` -> `half + stage + m`
# a cycle between two microbatches: `row[stage + m]` -> `row[stage + 2 * m]`
# no idle cells: `return table` -> `return [[cell for cell in row if cell] for row in table]`

# %% q02_gpipe wrong
# all rows are one list: `[[None] * (2 * half) for _ in range(stages)]` -> `[[None] * (2 * half)] * stages`
# backward from the last microbatch: `row[half + stages - 1 - stage + m] = ("B", m)` ->
#     `row[half + stages - 1 - stage + m] = ("B", microbatches - 1 - m)`
# two stages, however many there are: `half + stages - 1 - stage` -> `half + 1 - stage`
