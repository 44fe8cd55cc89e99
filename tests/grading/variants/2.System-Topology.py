# Right and wrong answers to the questions of lesson 2: tests/grading/test_variants.py reads them.

# %% q01_slowest right
# sorted by speed, which keeps the order of equals: `min(hops, key=lambda hop: gb_per_s[hop])` ->
#     `sorted(itertools.pairwise([*ring, ring[0]]), key=gb_per_s.get)[0]`

# %% q01_slowest wrong
# the ring is not closed: `[*ring[1:], ring[0]]` -> `ring[1:]`
# the last of equally slow ones: `min(hops` -> `min(reversed(list(hops))`
# links are the same both ways: `gb_per_s[hop]` -> `gb_per_s[hop[::-1]]`
# its speed: `min(hops, key=lambda hop: gb_per_s[hop])` -> `min(gb_per_s[hop] for hop in hops)`

# %% q02_fit_link right
# normal equations: `np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)[0]` ->
#     `np.linalg.solve(rows.T @ rows, rows.sum(axis=0))`

# %% q02_fit_link wrong
# absolute errors: `[steps / seconds, steps * size / ranks / seconds]` -> `[steps + 0 * size, steps * size / ranks]`,
#     `np.ones(len(points))` -> `seconds`
# a line, without the ring's steps: `[steps / seconds, steps * size / ranks / seconds]` ->
#     `[1 / seconds, size / seconds]`
# the latency once: `[steps / seconds` -> `[1 / seconds`
# the ring in N steps: `2 * (ranks - 1)` -> `2 * ranks`
# the first and the last point only: `np.array(points)` -> `np.array(points := [points[0], points[-1]])`
