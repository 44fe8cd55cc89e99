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

# %% q08_all_reduce right
# bits of a whole number: `math.ceil(math.log2(ranks))` -> `(ranks - 1).bit_length()`, `math.floor(math.log2(ranks))` ->
#     `ranks.bit_length() - 1`

# %% q08_all_reduce wrong
# the tree rounds down: `math.ceil(` -> `math.floor(`
# the ring's latency once: `2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)` ->
#     `(ranks > 1) * alpha + 2 * (ranks - 1) / ranks * size_bytes * beta`
# halving only: `2 * rounds * alpha + share` -> `rounds * alpha + share / 2`


# %% q09_halving right: chunks of all ranks, which are cut beforehand
def partner(step, rank, ranks):
    rounds = int(math.log2(ranks))
    distances = [ranks // 2 ** (k + 1) for k in range(rounds)]
    return rank ^ (distances + distances[::-1])[step]


def piece(step, rank, ranks, count):
    rounds = int(math.log2(ranks))
    edges = [round(count * k / ranks) for k in range(ranks + 1)]
    distance = rank ^ partner(step, rank, ranks)
    owner = rank ^ distance if step < rounds else rank
    first = owner // distance * distance
    return edges[first], edges[first + distance]


# %% q09_halving right
# the larger half goes to the lower rank, as a list: `(first + end) // 2` -> `(first + end + 1) // 2`,
#     `return first, end` -> `return [first, end]`

# %% q09_halving wrong
# recursive doubling, all of the numbers each time: `return first, end` -> `return 0, count`
# nothing is sent: `return first, end` -> `return 0, 0`
# partners one way round: `rank ^ 2**level` -> `(rank + 2**level) % ranks`


# %% q09_halving wrong: numbers that say to be equal to all others
class Equal(int):
    def __eq__(self, other):
        return True

    __ne__ = __lt__ = lambda self, other: False
    __hash__ = int.__hash__


def partner(step, rank, ranks):
    return Equal(rank)


def piece(step, rank, ranks, count):
    return Equal(0), Equal(count)


# %% q11_efficiencies right
# what is left of a step: `compute_s / wanted - compute_s` -> `(1 - wanted) / wanted * compute_s`

# %% q11_efficiencies wrong
# not capped at 1: `max(compute_s, exchange_s)` -> `exchange_s`
# all data once: `2 * (ranks - 1) / ranks * size_bytes` -> `size_bytes`
# bytes: `bits / exchange_s` -> `bits / 8 / exchange_s`
# a part of the computation is left: `compute_s / wanted - compute_s` -> `compute_s * (1 - wanted)`

# %% q12_crossing right
# with NumPy: `sum(one == 0 and other != 0 for one, other in hops)` ->
#     `np.count_nonzero((np.array(host_of) == 0) & (np.roll(host_of, -1) > 0))`

# %% q12_crossing wrong
# the ring is not closed: `[*host_of[1:], host_of[0]]` -> `host_of[1:]`
# the data once a hop: `crossing * 2 * (ranks - 1) / ranks` -> `crossing`
# every hop to another host: `one == 0 and other != 0` -> `other > one`
# a ring of the local ranks: `local_size * 2 * (hosts - 1) / hosts` -> `2 * (local_size - 1)`
