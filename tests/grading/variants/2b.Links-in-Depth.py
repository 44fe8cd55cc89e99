# Right and wrong answers to the questions of lesson 2b: tests/grading/test_variants.py reads them.

# %% q01_connection right
# the other's row, as paths go both ways: `rows[one][head.split().index(other)]` ->
#     `rows[other][head.split().index(one)]`
# by the order of the rows: `head.split().index(other)` -> `list(rows).index(other)`

# %% q01_connection wrong
# None where a device is not there: `raise ValueError(f"no {one} or no {other}: there are {list(rows)}")` ->
#     `return None`
# takes other columns for devices: `other not in rows` -> `other not in head.split()`
# the text begins with an empty line: `text.strip()` -> `text[text.index("\n") + 1 :]`
# the columns are split at spaces only: `head.split()` -> `[word for word in head.split(" ") if word]`
# without the number of links: `return rows[one][head.split().index(other)]` ->
#     `return rows[one][head.split().index(other)].rstrip("0123456789")`
# the first column that begins with the name: `head.split().index(other)` ->
#     `[name.startswith(other) for name in head.split()].index(True)`

# %% q02_peer_to_peer right: one expression
peer_to_peer = lambda word, level: (  # noqa: E731
    "NV PIX PXB PHB SYS".split().index("PHB" if word == "NODE" else word.rstrip("0123456789"))
    < "LOC NVL PIX PXB PHB SYS".split().index(level)
)

# %% q02_peer_to_peer right
# in a slice: `far.index(word) <= far.index(level)` -> `word in far[: far.index(level) + 1]`

# %% q02_peer_to_peer wrong
# exactly that far: `<=` -> `==`
# NODE is beyond PHB: `"PHB", "SYS"` -> `"PHB", "NODE", "SYS"`, `word == "NODE"` -> `False`
# NODE is as far as SYS: `word = "PHB"` -> `word = "SYS"`
# NVLink whatever the level: `word = "NVL"` -> `return True`
# SYS never: `return far` -> `return word != "SYS" and far`
# in order of the alphabet: `far.index(word) <= far.index(level)` -> `level != "LOC" and word <= level`

# %% q03_units right
# product by sum: `1 / (1 / up + 1 / down)` -> `up * down / (up + down)`
# in base units: `size_kib / 2**20 / (taken_us * 1e-6)` -> `size_kib * 1024 / (taken_us / 1_000_000) / 1024**3`,
#     `8 * size_bytes / gbit_per_s * 1e-3` -> `size_bytes * 8 / (gbit_per_s * 10**9) * 10**6`

# %% q03_units wrong
# GB for GiB: `size_kib / 2**20` -> `size_kib * 1024 / 1e9`
# bits are bytes: `8 * size_bytes` -> `size_bytes`
# whole microseconds: `* 1e-3` -> `// 1000`
# the slower, as if both went on at once: `1 / (1 / up + 1 / down)` -> `min(up, down)`
# GiB/s rounded to seven digits: `size_kib / 2**20 / (taken_us * 1e-6)` ->
#     `round(size_kib / 2**20 / (taken_us * 1e-6), 7)`
# the staged copy's GB/s rounded to three digits: `1 / (1 / up + 1 / down)` -> `round(up * down / (up + down), 3)`


# %% q04_best_ring right
# from each to the one before: `zip(ring, [*ring[1:], ring[0]])` -> `((ring[i - 1], ring[i]) for i in range(len(ring)))`
# the last of all in order: `max(rings, key=least)` -> `sorted(rings, key=least)[-1]`
# an array of names: `max(rings, key=least)` -> `np.array(max(rings, key=least))`

# %% q04_best_ring wrong
# the largest sum: `min(` -> `sum(`
# the ring is not closed: `[*ring[1:], ring[0]]` -> `ring[1:]`
# begins anywhere: `([first, *order] for order in itertools.permutations(rest))` -> `itertools.permutations(gpus[::-1])`
# begins with the least name: `= gpus` -> `= sorted(gpus)`
# its speed beside it: `max(rings, key=least)` -> `max((ring, least(ring)) for ring in rings)`
# the best of the first 2000 orders: `max(rings` -> `max(itertools.islice(rings, 2000)`


# %% q04_best_ring wrong: greedy, always on to the nearest
def best_ring(gpus, gb_per_s):
    ring, left = [gpus[0]], list(gpus[1:])
    while left:
        ring.append(max(left, key=lambda gpu: gb_per_s[ring[-1], gpu]))
        left.remove(ring[-1])
    return ring


# %% q05_disjoint_rings right
# lists of hops: `all(links.get(hop, 0) >= count for hop, count in used.items())` ->
#     `not [hop for hop in used if used[hop] > links.get(hop, 0)]`
# each ring in one direction: `permutations(rest)` -> `permutations(rest) if order <= order[::-1]`
# as an array: `next((pair for` -> `next((np.array(pair) for`

# %% q05_disjoint_rings wrong
# two different rings, whatever they share: `if fits(*pair)` -> `if pair[0] != pair[1]`
# never the same ring twice: `combinations_with_replacement(rings, 2)` ->
#     `combinations([r for r in rings if r[1] < r[-1]], 2)`
# the first GPU is left out: `(pair for` -> `([ring[1:] for ring in pair] for`
# the second only from what comes after the first in order: `itertools.combinations_with_replacement(rings, 2)` ->
#     `zip(rings, rings[1:])`
# greedy, the first ring and another in what it leaves: `if fits(*pair)` -> `if pair[0] is rings[0] and fits(*pair)`
# greedy, the ring with most links and another in what it leaves: `itertools.combinations_with_replacement(rings, 2)` ->
#     `((max(rings, key=lambda r: sum(links[hop] for hop in zip(r, [*r[1:], r[0]]))), ring) for ring in rings)`

# %% q06_bus_bandwidth right
# ones less a part: `2 * (ranks - 1) / ranks` -> `2 - 2 / ranks`, `"all_gather": (ranks - 1) / ranks` ->
#     `"all_gather": 1 - 1 / ranks`
# algorithm bandwidth first: `factors[operation] * size_bytes / seconds / 1e9` ->
#     `size_bytes / 1_000_000_000 / seconds * factors[operation]`

# %% q06_bus_bandwidth wrong
# GiB: `1e9` -> `2**30`
# all_gather as all_reduce: `"all_gather": (` -> `"all_gather": 2 * (`
# broadcast counts the receivers: `"broadcast": 1` -> `"broadcast": ranks - 1`
# another operation is as a broadcast: `raise ValueError(f"{operation!r} is none of {list(factors)}")` ->
#     `operation = "broadcast"`
# whole GB: `/ seconds` -> `// seconds`
# parts of an operation's name will do: `operation not in factors` ->
#     `not (operation := next((name for name in factors if operation.startswith(name)), None))`

# %% q08_all_reduce right
# with NumPy: `math.ceil(math.log2(ranks))` -> `np.ceil(np.log2(ranks))`,
#     `math.floor(math.log2(ranks))` -> `np.floor(np.log2(ranks))`
# bits of a whole number: `math.ceil(math.log2(ranks))` -> `(ranks - 1).bit_length()`, `math.floor(math.log2(ranks))` ->
#     `ranks.bit_length() - 1`

# %% q08_all_reduce wrong
# the tree rounds down: `math.ceil(` -> `math.floor(`
# the tree rounds twice the logarithm: `2 * math.ceil(math.log2(ranks))` -> `math.ceil(2 * math.log2(ranks))`
# the ring's latency once: `2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)` ->
#     `(ranks > 1) * alpha + 2 * (ranks - 1) / ranks * size_bytes * beta`
# halving only: `2 * rounds * alpha + share` -> `rounds * alpha + share / 2`
# one rank takes a message: `math.floor(math.log2(ranks))` -> `max(1, math.floor(math.log2(ranks)))`
# no bytes take no time: `(alpha + size_bytes / ranks` -> `(bool(size_bytes) * alpha + size_bytes / ranks`


# %% q09_halving right: recursive, and the pieces are those of the partner
def mine(level, rank, count):
    if level < 0:
        return 0, count
    first, end = mine(level - 1, rank, count)
    middle = (first + end) // 2
    return (middle, end) if rank >> level & 1 else (first, middle)


def partner(step, rank, ranks):
    rounds = ranks.bit_length() - 1
    return rank ^ 1 << (step if step < rounds else 2 * rounds - 1 - step)


def piece(step, rank, ranks, count):
    rounds = ranks.bit_length() - 1
    if step < rounds:  # what the partner goes on with
        return mine(step, partner(step, rank, ranks), count)
    return mine(2 * rounds - 1 - step, rank, count)


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
# a quarter instead of a half: `(first + end) // 2` -> `(first + end) // 4`
# nothing but the first and the last number: `return first, end` -> `return 0, min(count, 1)`
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
# yields both: `return without, compute_s / max(compute_s, exchange_s)` ->
#     `yield from (without, compute_s / max(compute_s, exchange_s))`

# %% q11_efficiencies wrong
# full overlap is always 1: `compute_s / max(compute_s, exchange_s)` -> `1`
# not capped at 1: `max(compute_s, exchange_s)` -> `exchange_s`
# all data once: `2 * (ranks - 1) / ranks * size_bytes` -> `size_bytes`
# all data twice: `2 * (ranks - 1) / ranks * size_bytes` -> `2 * size_bytes`
# bytes: `bits / exchange_s` -> `bits / 8 / exchange_s`
# a part of the computation is left: `compute_s / wanted - compute_s` -> `compute_s * (1 - wanted)`
# a set of both: `without, compute_s / max(compute_s, exchange_s)` ->
#     `{without, compute_s / max(compute_s, exchange_s)}`

# %% q12_crossing right
# with NumPy: `sum(one == 0 and other != 0 for one, other in hops)` ->
#     `np.count_nonzero((np.array(host_of) == 0) & (np.roll(host_of, -1) > 0))`
# a ring of hosts for each part: `local_size * 2 * (hosts - 1) / hosts * part` ->
#     `sum(ring_crossing([*range(hosts)], part) for _ in range(local_size))`

# %% q12_crossing wrong
# the ring is not closed: `[*host_of[1:], host_of[0]]` -> `host_of[1:]`
# one hop whatever the order: `sum(one == 0 and other != 0 for one, other in hops)` -> `len(set(host_of)) > 1`
# the data once a hop: `crossing * 2 * (ranks - 1) / ranks` -> `crossing`
# the data one and a half times a hop: `crossing * 2 * (ranks - 1) / ranks` -> `crossing * 1.5`
# every hop to another host: `one == 0 and other != 0` -> `other > one`
# the bytes that leave the first rank's host: `one == 0 and other != 0` -> `one == host_of[0] != other`
# a ring of the local ranks: `local_size * 2 * (hosts - 1) / hosts` -> `2 * (local_size - 1)`
