# Right and wrong answers to the questions of lesson 2c: tests/grading/test_variants.py reads them.

# %% q01_all_reduce right
# bits of a whole number: `math.ceil(math.log2(ranks))` -> `(ranks - 1).bit_length()`, `math.floor(math.log2(ranks))` ->
#     `ranks.bit_length() - 1`

# %% q01_all_reduce wrong
# the tree rounds down: `math.ceil(` -> `math.floor(`
# the ring's latency once: `2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)` ->
#     `(ranks > 1) * alpha + 2 * (ranks - 1) / ranks * size_bytes * beta`
# halving only: `2 * rounds * alpha + share` -> `rounds * alpha + share / 2`


# %% q02_halving right: chunks of all ranks, which are cut beforehand
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


# %% q02_halving right
# the larger half goes to the lower rank, as a list: `(first + end) // 2` -> `(first + end + 1) // 2`,
#     `return first, end` -> `return [first, end]`

# %% q02_halving wrong
# recursive doubling, all of the numbers each time: `return first, end` -> `return 0, count`
# nothing is sent: `return first, end` -> `return 0, 0`
# partners one way round: `rank ^ 2**level` -> `(rank + 2**level) % ranks`


# %% q02_halving wrong: numbers that say to be equal to all others
class Equal(int):
    def __eq__(self, other):
        return True

    __ne__ = __lt__ = lambda self, other: False
    __hash__ = int.__hash__


def partner(step, rank, ranks):
    return Equal(rank)


def piece(step, rank, ranks, count):
    return Equal(0), Equal(count)


# %% q04_efficiencies right
# what is left of a step: `compute_s / wanted - compute_s` -> `(1 - wanted) / wanted * compute_s`

# %% q04_efficiencies wrong
# not capped at 1: `max(compute_s, exchange_s)` -> `exchange_s`
# all data once: `2 * (ranks - 1) / ranks * size_bytes` -> `size_bytes`
# bytes: `bits / exchange_s` -> `bits / 8 / exchange_s`
# a part of the computation is left: `compute_s / wanted - compute_s` -> `compute_s * (1 - wanted)`

# %% q05_crossing right
# with NumPy: `sum(one == 0 and other != 0 for one, other in hops)` ->
#     `np.count_nonzero((np.array(host_of) == 0) & (np.roll(host_of, -1) > 0))`

# %% q05_crossing wrong
# the ring is not closed: `[*host_of[1:], host_of[0]]` -> `host_of[1:]`
# the data once a hop: `crossing * 2 * (ranks - 1) / ranks` -> `crossing`
# every hop to another host: `one == 0 and other != 0` -> `other > one`
# a ring of the local ranks: `local_size * 2 * (hosts - 1) / hosts` -> `2 * (local_size - 1)`
