# Right and wrong answers to the questions of lesson 2b: tests/grading/test_variants.py reads them.

# %% q01_connection right
# the other's row, as paths go both ways: `rows[one][head.split().index(other)]` ->
#     `rows[other][head.split().index(one)]`

# %% q01_connection wrong
# None where a device is not there: `raise ValueError(f"no {one} or no {other}: there are {list(rows)}")` ->
#     `return None`
# the columns are split at spaces only: `head.split()` -> `[word for word in head.split(" ") if word]`
# without the number of links: `return rows[one][head.split().index(other)]` ->
#     `return rows[one][head.split().index(other)].rstrip("0123456789")`

# %% q02_peer_to_peer right: one expression
peer_to_peer = lambda word, level: (  # noqa: E731
    "NV PIX PXB PHB SYS".split().index("PHB" if word == "NODE" else word.rstrip("0123456789"))
    < "LOC NVL PIX PXB PHB SYS".split().index(level)
)


# %% q02_peer_to_peer wrong
# exactly that far: `<=` -> `==`
# NODE is beyond PHB: `"PHB", "SYS"` -> `"PHB", "NODE", "SYS"`, `word == "NODE"` -> `False`
# NODE is as far as SYS: `word = "PHB"` -> `word = "SYS"`
# NVLink whatever the level: `word = "NVL"` -> `return True`

# %% q03_units right
# product by sum: `1 / (1 / up + 1 / down)` -> `up * down / (up + down)`

# %% q03_units wrong
# GB for GiB: `size_kib / 2**20` -> `size_kib * 1024 / 1e9`
# bits are bytes: `8 * size_bytes` -> `size_bytes`
# the slower, as if both went on at once: `1 / (1 / up + 1 / down)` -> `min(up, down)`

# %% q04_best_ring right
# from each to the one before: `zip(ring, [*ring[1:], ring[0]])` -> `((ring[i - 1], ring[i]) for i in range(len(ring)))`

# %% q04_best_ring wrong
# the largest sum: `min(` -> `sum(`
# the ring is not closed: `[*ring[1:], ring[0]]` -> `ring[1:]`
# begins anywhere: `([first, *order] for order in itertools.permutations(rest))` -> `itertools.permutations(gpus[::-1])`


# %% q04_best_ring wrong: greedy, always on to the nearest
def best_ring(gpus, gb_per_s):
    ring, left = [gpus[0]], list(gpus[1:])
    while left:
        ring.append(max(left, key=lambda gpu: gb_per_s[ring[-1], gpu]))
        left.remove(ring[-1])
    return ring


# %% q05_disjoint_rings right
# each ring in one direction: `permutations(rest)` -> `permutations(rest) if order <= order[::-1]`

# %% q05_disjoint_rings wrong
# two different rings, whatever they share: `if fits(*pair)` -> `if pair[0] != pair[1]`
# never the same ring twice: `combinations_with_replacement(rings, 2)` ->
#     `combinations([r for r in rings if r[1] < r[-1]], 2)`
# greedy, the first ring and another in what it leaves: `if fits(*pair)` -> `if pair[0] is rings[0] and fits(*pair)`

# %% q06_bus_bandwidth right
# algorithm bandwidth first: `factors[operation] * size_bytes / seconds / 1e9` ->
#     `size_bytes / 1_000_000_000 / seconds * factors[operation]`

# %% q06_bus_bandwidth wrong
# GiB: `1e9` -> `2**30`
# all_gather as all_reduce: `"all_gather": (` -> `"all_gather": 2 * (`
# broadcast counts the receivers: `"broadcast": 1` -> `"broadcast": ranks - 1`
