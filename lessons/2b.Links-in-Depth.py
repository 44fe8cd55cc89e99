# %% [markdown]
# # 2b. Links in depth
#
# **Which all-reduce suits which network, and how far can a prediction go?**
#
# | about | this notebook |
# | --- | --- |
# | time | 240 minutes, in six sittings; the runs alone take about five |
# | hardware | two cores; with GPUs and a network there is more to see |
# | before this | [2. System topology](2.System-Topology.ipynb) |
#
# What lesson 2 leaves open: matrices of paths, units, the best rings, two kinds of
# bandwidth, a race of algorithms, more ranks, clusters that you don't have, and two
# hosts on one machine.
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | maps and units | 1 to 2 | 42 |
# | rings | 3 | 28 |
# | what links carry | 4 | 36 |
# | algorithms | 5 | 46 |
# | predictions | 6 to 7 | 50 |
# | several hosts | 8 | 36 |
#
# Units: 1 GB is $10^9$ bytes, as vendors count; 1 GiB is $2^{30}$ bytes. A *bit* rate
# (Gbit/s) is eight times the *byte* rate.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2
seed = 0

# %%
import itertools
import math

import numpy as np

# %% tags=["demo"]
from ddl import hosts, launch
from course import check, compare_guess, hint, plot, recorded
from course import bandwidth, clusters, cost, efficiency, hierarchy
from course import prediction, published, race, topology

smoke = size == "smoke"
messages = dict(  # largest message in bytes, seconds per size
    max_bytes=2**20 if smoke else 2**28, seconds=0.05 if smoke else 0.5
)
step = dict(threads=1, global_batch=64, seed=seed)
machine = topology.here()
dgx = topology.load("dgx-1")
gpus = list(dgx.matrix().index)
gb_per_s = {  # in each direction, over the best path
    (a, b): dgx.bandwidth(a, b)
    for a, b in itertools.permutations(gpus, 2)
}

# %% [markdown]
# ## 1. Matrices, and paths between GPUs
#
# **Predict first.** How many of the recorded machines have an NVSwitch, with which every
# GPU reaches every other at full speed?

# %% tags=["demo"]
guess_switched = None  # how many machines

# %% tags=["demo"]
names = topology.names()
switched = sum(
    all(word == "X" or word.startswith("NV") for word in row)
    for name in names
    for row in [topology.load(name).matrix().to_numpy().ravel()]
    if len(row) > 4
)
compare_guess(guess_switched, switched, f"of {len(names)} machines")

# %% tags=["demo"]
plot.plot_topology(dgx)

# %% [markdown]
# Two NVLinks between the same GPUs work as one that is twice as fast, so each
# GPU has links to four others, not six. Pairs without an NVLink communicate
# over PCIe and the link between the sockets, unless **NCCL**, NVIDIA's library
# for collectives, forwards the data through a GPU that has a link to both.
# Later machines put an **NVSwitch** in between: every GPU reaches every other
# at full speed, and the question no longer arises.

# %% tags=["demo"]
topology.compare(
    [machine, *(topology.load(name) for name in topology.names())]
)

# %% tags=["demo"]
print(dgx.matrix_text().expandtabs(7))

# %% [markdown]
# | entry | the path between two devices |
# | --- | --- |
# | `X` | the device itself |
# | `NV4` | four NVLinks, used as one |
# | `PIX` | at most one PCIe switch |
# | `PXB` | several PCIe switches, but no host bridge |
# | `PHB` | a host bridge, that is, through the CPU |
# | `NODE` | two host bridges of the same NUMA node |
# | `SYS` | two NUMA nodes |
#
# ![A server with two sockets. Each has two host bridges: one leads to PCIe
# switches with four GPUs, the other to one GPU. PIX connects GPUs on one
# switch, PXB crosses several switches, NODE crosses two host bridges of a
# socket, SYS crosses sockets.](../images/distances.svg)

# %% [markdown]
# **Question 1** (2 points)
#
# Write `connection(text, one, other)`. `text` is a matrix as printed above: a
# line with the devices' names, then one line for each device. Return the entry
# for the two devices, such as `"NV2"`. Columns are separated by spaces or tabs.
# Real output also lists network cards as devices, has more columns at the end
# (`CPU Affinity`), and a legend after an empty line. If a device is not in the
# matrix, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q01_connection", "locked": false, "schema_version": 3, "solution": true, "task": false}
def connection(text, one, other):
    """Return the matrix's entry for two devices."""
    ### BEGIN SOLUTION
    head, *lines = text.strip().split("\n\n")[0].splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    if one not in rows or other not in rows:
        raise ValueError(f"no {one} or no {other}: there are {list(rows)}")
    return rows[one][head.split().index(other)]
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_connection
#
# 1. The matrix ends at the first empty line. What is before it: one line of
#    names, then one line for each device.
# 2. Split lines with `split()`, which takes both spaces and tabs. A device's
#    line begins with its name, but the header does not: the entry is where the
#    other name is in the header.
# 3. `head, *lines = text.strip().split("\n\n")[0].splitlines()`

# %% nbgrader={"grade": true, "grade_id": "q01_connection_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
box = """
        GPU0  GPU1  GPU2  mlx5_0  CPU Affinity  NUMA Affinity
GPU0     X    PIX   SYS   NODE    0-15          0
GPU1    PIX    X    SYS   NODE    0-15          0
GPU2    SYS   SYS    X    PXB     16-31         1
mlx5_0  NODE  NODE  PXB    X

Legend: X = Self
"""
for devices, word in (("GPU0 GPU1", "PIX"), ("GPU2 mlx5_0", "PXB"),
                      ("mlx5_0 GPU0", "NODE"), ("GPU1 GPU1", "X")):
    found = connection(box, *devices.split())
    assert found == word, (
        f"connection of {devices} returned {found!r}, not {word!r}"
    )
### BEGIN HIDDEN TESTS
two = "      GPU0 GPU1\nGPU0   X   NV12\nGPU1  NV12  X\n"
assert connection(two, "GPU1", "GPU0") == "NV12"
assert connection(box, "GPU1", "mlx5_0") == "NODE"
names = [f"GPU{i}" for i in range(16)]
cards = [f"mlx5_{i}" for i in (10, 1, 0, 12, 2, 11)]  # names in names
for names in (names, names[::5] + cards):
    tabs = ["\t".join(["", *names, "CPU Affinity"])]
    for i, name in enumerate(names):
        words = [f"NV{i ^ j}" if i != j else "X" for j in range(len(names))]
        tabs.append("\t".join([name, *words, "0-63"]))
    for i, one in enumerate(names):
        j = 7 * i % len(names)
        found = connection("\n".join(tabs), one, names[j])
        assert found == (f"NV{i ^ j}" if i != j else "X")
for pair in (("GPU3", "GPU0"), ("GPU0", "GPU3"), ("GPU0", "Affinity"),
             ("GPU3", "GPU3"), ("CPU", "GPU0"), ("GPU", "GPU0"),
             ("GPU0", "mlx5"), ("GPU", "GPU")):
    try:
        connection(box, *pair)
    except ValueError:
        pass
    else:
        raise AssertionError("there is no such device")
### END HIDDEN TESTS

# %% [markdown]
# ### Three paths between GPUs
#
# - **Host staging**: the data is copied to the host's memory, and from there to
#   the other GPU. It crosses PCIe twice, and the memory as well.
# - **Peer to peer** (P2P): one GPU writes into the other's memory, over NVLink
#   or across PCIe switches. There is no copy in between and no work for the
#   CPU.
# - **GPUDirect RDMA**: the same with a network card as the peer. RDMA, *remote
#   direct memory access*, means that the card itself reads and writes memory,
#   here a GPU's, and no CPU copies anything on the way to the wire.
#
# How far apart may two GPUs be for NCCL to use P2P? `NCCL_P2P_LEVEL` sets a
# **maximum distance**. `PXB` does not mean "via PXB" but "up to PXB": NVLink
# and PIX too. For GPUs farther apart, NCCL goes through the host's memory.

# %% [markdown]
# **Question 2** (2 points)
#
# From near to far, the entries are: `NV#` (any number of NVLinks), `PIX`,
# `PXB`, then `PHB` and `NODE` (to NCCL, both mean "the same NUMA node"), then
# `SYS`. The levels are `LOC` (never), `NVL`, `PIX`, `PXB`, `PHB`, `SYS`.
#
# Write `peer_to_peer(word, level)`: may NCCL use P2P between two GPUs whose
# entry in the matrix is `word`?

# %% nbgrader={"grade": false, "grade_id": "q02_peer_to_peer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def peer_to_peer(word, level):
    """Return whether two GPUs may use P2P at this level."""
    ### BEGIN SOLUTION
    far = ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"]
    if word.startswith("NV"):
        word = "NVL"
    if word == "NODE":
        word = "PHB"
    return far.index(word) <= far.index(level)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_peer_to_peer
#
# 1. A level is the farthest distance that is allowed. So put distances and levels
#    into one order, and compare places.
# 2. Rename what has other names first: anything that begins with NV is `NVL`, and
#    `NODE` counts as `PHB`.
# 3. `order = ["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"]`

# %% nbgrader={"grade": true, "grade_id": "q02_peer_to_peer_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
assert peer_to_peer("PIX", "PXB"), (
    "peer_to_peer('PIX', 'PXB') is false, but PIX is nearer than PXB"
)
assert not peer_to_peer("PHB", "PXB"), "PHB is farther than PXB"
assert peer_to_peer("NV2", "PIX"), "NVLink is nearer than any PCIe path"
assert not peer_to_peer("NV2", "LOC"), "LOC: never"
### BEGIN HIDDEN TESTS
words = ["NV1", "NV8", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"]
wanted = {"LOC": 0, "NVL": 3, "PIX": 4, "PXB": 5, "PHB": 7, "SYS": 8}
for level, near in wanted.items():
    allowed = [bool(peer_to_peer(word, level)) for word in words]
    assert allowed == [True] * near + [False] * (8 - near), level
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Calculating with units
#
# **Predict first.** How many GiB/s are 64 KiB in 4 µs?

# %% tags=["demo"]
guess_gib = None  # GiB/s

# %% tags=["demo"]
compare_guess(guess_gib, 64 / 2**20 / 4e-6, "GiB/s")

# %% [markdown]
# **Question 3** (3 points)
#
# Mind the units: 15.3 GiB/s are 16.4 GB/s, more than PCIe 3.0 ×16 can carry.
#
# - `gib_per_s(size_kib, taken_us)`: the bandwidth of a transfer, in GiB/s.
# - `microseconds(size_bytes, gbit_per_s, latency_us)`: how long a message takes
#   on a link of `gbit_per_s`: the latency, then the bytes.
# - `staged_gb_per_s(up, down)`: the bandwidth of a copy through the host, where
#   one step follows *after* the other, if the way up carries `up` GB/s and the
#   way down `down`.

# %% nbgrader={"grade": false, "grade_id": "q03_units", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gib_per_s(size_kib, taken_us):
    ### BEGIN SOLUTION
    return size_kib / 2**20 / (taken_us * 1e-6)
    ### END SOLUTION


def microseconds(size_bytes, gbit_per_s, latency_us):
    ### BEGIN SOLUTION
    return latency_us + 8 * size_bytes / gbit_per_s * 1e-3
    ### END SOLUTION


def staged_gb_per_s(up, down):
    ### BEGIN SOLUTION
    return 1 / (1 / up + 1 / down)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_units
#
# 1. Go through SI units: write each quantity in bytes and seconds, then turn the
#    result into what is asked for.
# 2. 1 GiB is 2**20 KiB. A Gbit/s is 1000 bits in a microsecond. A staged copy of
#    1 GB takes the seconds of the way up plus the seconds of the way down.
# 3. `seconds_of_one_gb = 1 / up + 1 / down`

# %% nbgrader={"grade": true, "grade_id": "q03_units_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


value = gib_per_s(64, 4)
assert near(value, 15.2587890625), (
    f"gib_per_s(64, 4) returned {value}, not 15.26"
)
value = microseconds(125_000, 1, 50)
assert near(value, 1050), f"10^6 bits at 1 Gbit/s: {value} µs"
value = staged_gb_per_s(12, 12)
assert near(value, 6), f"twice over a 12 GB/s link: {value} GB/s"
### BEGIN HIDDEN TESTS
assert near(gib_per_s(1024, 1000), 0.9765625)
assert near(gib_per_s(4, 2), 4 / 2**20 / 2e-6)
assert near(gib_per_s(3, 7_000_000), 3 / 2**20 / 7)
assert near(microseconds(0, 100, 1.5), 1.5)
assert near(microseconds(25_000_000, 200, 2), 1002)
assert near(microseconds(10, 3, 0), 0.08 / 3)
assert near(staged_gb_per_s(30, 15), 10)
assert near(staged_gb_per_s(2, 6), 1.5)
assert near(staged_gb_per_s(5, 2), 10 / 7)
### END HIDDEN TESTS

# %% [markdown]
# Against a staged copy that waits for its first step, NCCL gains up to a factor of two:
# it cuts the data into pieces and copies one piece down while the next comes up, which
# is called **pipelining**. Then only the slower way counts, unless the two share a bus.
#
# **A good place to stop.**

# %% [markdown]
# ## 3. The best ring, and several at once
#
# **Predict first.** Go round the DGX-1's GPUs in the best order. How many times as fast
# is its slowest hop as in the order 0, 1, 2, ... 7?

# %% tags=["demo"]
guess_order = None  # times as fast

# %% tags=["demo"]
best = [gpus[place] for place in (0, 3, 2, 1, 5, 6, 7, 4)]
slow = [min(gb_per_s[ring[i - 1], ring[i]] for i in range(8))
        for ring in (best, gpus)]
compare_guess(guess_order, slow[0] / slow[1], "times as fast")

# %% [markdown]
# **Question 4** (3 points)
#
# Write `best_ring(gpus, gb_per_s)`. Of all rings through all of the GPUs (up to
# eight), return one whose slowest hop is as fast as possible, as a list that
# begins with the first GPU. (Eight GPUs have 5,040 orders that begin with the
# first one: try them all.)

# %% nbgrader={"grade": false, "grade_id": "q04_best_ring", "locked": false, "schema_version": 3, "solution": true, "task": false}
def best_ring(gpus, gb_per_s):
    """Return the ring whose slowest hop has the most GB/s."""
    ### BEGIN SOLUTION
    def least(ring):
        return min(gb_per_s[hop] for hop in zip(ring, [*ring[1:], ring[0]]))

    first, *rest = gpus
    rings = ([first, *order] for order in itertools.permutations(rest))
    return max(rings, key=least)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q04_best_ring
#
# 1. Try all orders that begin with the first GPU. What makes one ring better than
#    another is its slowest hop.
# 2. `itertools.permutations` of the other GPUs gives the orders. Give `max` a key
#    that returns the bandwidth of a ring's slowest hop.
# 3. `first, *rest = gpus`

# %% nbgrader={"grade": true, "grade_id": "q04_best_ring_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

import numpy as np

square = {("A", "B"): 50, ("B", "C"): 25, ("C", "D"): 50,
          ("D", "A"): 10, ("A", "C"): 25, ("B", "D"): 50}
square |= {(b, a): speed for (a, b), speed in square.items()}
ring = list(best_ring(["A", "B", "C", "D"], square))
assert sorted(ring) == ["A", "B", "C", "D"] and ring[0] == "A", (
    f"best_ring returned {ring}, not A to D once each, with A first"
)
around = min(square[hop] for hop in zip(ring, [*ring[1:], ring[0]]))
assert around == 25, f"a ring without the slow link has 25 GB/s, not {around}"
### BEGIN HIDDEN TESTS
def fastest(begun, left, speeds):
    """The slowest hop of the best ring that begins so."""
    if not left:
        return speeds[begun[-1], begun[0]]
    return max(min(speeds[begun[-1], gpu],
                   fastest([*begun, gpu], left - {gpu}, speeds))
               for gpu in left)

cube = {(i, j): 25 if (i ^ j) in (1, 2, 4) else 8
        for i in range(8) for j in range(8) if i != j}
cases = [(list(range(8)), cube, 25)]
rng = np.random.default_rng(5)
one_way = [0, 7, 3, 5, 1, 6, 2, 4]  # a single ring of fast links
slow = dict.fromkeys(cube, 9.0)
fast = {hop: 20.0 for hop in zip(one_way, [*one_way[1:], 0])}
cases.append((list(range(8)), slow | fast, 20))
for count in (2, 3, 4, *9 * [5]):  # links differ in their two directions
    names = ["GPU3", "GPU0", "GPU4", "GPU1", "GPU2"][:count]
    links = {(a, b): float(2 ** rng.normal(3, 1))
             for a in names for b in names if a != b}
    most = fastest(names[:1], set(names[1:]), links)
    cases.append((names, links, most))
for names, links, most in cases:
    ring = list(best_ring(names, links))
    assert sorted(ring) == sorted(names) and ring[0] == names[0]
    hops = zip(ring, [*ring[1:], ring[0]])
    assert math.isclose(min(links[hop] for hop in hops), most)
### END HIDDEN TESTS

# %% [markdown]
# Try yours on the DGX-1: `best_ring(gpus, gb_per_s)`. Its NVLinks are laid out
# so that there is a ring without a single hop over PCIe.
#
# ### Several rings at once
#
# A ring uses two of the links of each GPU, and a DGX-1's GPU has six. So NCCL
# runs several rings at the same time, each on links of its own and on its own
# part of the data. Their bandwidths add up.
#
# **Question 5** (3 points)
#
# Write `disjoint_rings(gpus, links)`. `links` is a dictionary from (one,
# other) to the number of NVLinks between two GPUs, in both orders; pairs
# without any are not in it. Return two rings, as a pair of lists of all GPUs
# that begin with the first one. In both rings together, two GPUs may be
# neighbors at most as often as they have links. If there are no such rings,
# return `None`. There are three to eight GPUs.

# %% nbgrader={"grade": false, "grade_id": "q05_disjoint_rings", "locked": false, "schema_version": 3, "solution": true, "task": false}
def disjoint_rings(gpus, links):
    """Return two rings that share no link, or None."""
    ### BEGIN SOLUTION
    def fits(*rings):
        used = {}
        for ring in rings:
            for one, other in zip(ring, [*ring[1:], ring[0]]):
                for hop in ((one, other), (other, one)):
                    used[hop] = used.get(hop, 0) + 1
        return all(links.get(hop, 0) >= count for hop, count in used.items())

    first, *rest = gpus
    rings = [[first, *order] for order in itertools.permutations(rest)]
    rings = [ring for ring in rings if fits(ring)]
    pairs = itertools.combinations_with_replacement(rings, 2)
    return next((pair for pair in pairs if fits(*pair)), None)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q05_disjoint_rings
#
# 1. Start from the last question: again all rings, now in pairs. What has to be
#    counted for a pair?
# 2. Count for each pair of neighbors, in both orders, how often the two rings
#    use it, and compare with its links. First leave out the rings that do not
#    even fit alone. A ring may be paired with itself.
# 3. `pairs = itertools.combinations_with_replacement(rings, 2)`

# %% nbgrader={"grade": true, "grade_id": "q05_disjoint_rings_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
DGX_1 = ("01 02 03 03 12 12 13 23 23 45 46 47 47 56 56 57 67 67 "
         "04 04 15 15 26 37")  # between the halves


def nvlinks(pairs):  # such as "01 12 12": counted, in both orders
    return {tuple(map(int, order)): pairs.split().count(pair)
            for pair in pairs.split() for order in (pair, pair[::-1])}


def separate(gpus, links):  # whether there are two rings, which must fit
    if (rings := disjoint_rings(gpus, dict(links))) is None:
        return False
    assert len(rings) == 2, f"disjoint_rings returned {len(rings)} rings, not 2"
    used = []
    for ring in map(list, rings):
        assert sorted(ring) == sorted(gpus) and ring[0] == gpus[0], ring
        used += [{*hop} for hop in zip(ring, [*ring[1:], ring[0]])]
    often = [hop for hop in used if used.count(hop) > links.get(tuple(hop), 0)]
    assert not often, f"used too often: {often}"
    return True


assert separate([*range(8)], nvlinks(DGX_1)), "a DGX-1 has two such rings"
assert not separate([0, 1, 2], nvlinks("01 12 20 01 12")), "a link is lacking"
### BEGIN HIDDEN TESTS
import numpy as np

assert separate([0, 1, 2], nvlinks("01 12 02 01 12 02"))
assert separate([5, 1, 6, 0, 7, 4, 2, 3], nvlinks(DGX_1))
assert separate([3, 1, 4, 0, 2], nvlinks("01 02 03 04 12 13 14 23 24 34"))
assert not separate([0, 1, 2, 3], nvlinks("01 02 03 12 13 23"))
assert separate([3, 0, 2, 1], nvlinks("01 02 03 12 13 23 01 12 23 03"))
assert separate([2, 0, 1, 3], nvlinks("01 02 03 12 13 23 02 13"))
assert not separate([0, 1, 2, 3, 4], nvlinks("01 02 03 04 12 13 14 23 24"))
assert not separate([0, 1, 2, 3], nvlinks("01 12 23 01 12 23 01 23"))
assert not separate([0, 1, 2], {})
one_link = dict.fromkeys(nvlinks(DGX_1), 1)
assert separate([*range(8)], one_link)
del one_link[0, 4], one_link[4, 0]  # three are left between the halves
assert not separate([*range(8)], one_link)
rng = np.random.default_rng(8)
for count in [6] * 30:  # links for two rings, and for no more
    pairs = []
    for ring in (rng.permutation(count), rng.permutation(count)):
        pairs += [f"{a}{b}" for a, b in zip(ring, np.roll(ring, 1))]
    pairs = " ".join("".join(sorted(pair)) for pair in pairs)
    assert separate(rng.permutation(count).tolist(), nvlinks(pairs))
### END HIDDEN TESTS

# %% tags=["demo"]
links = {}
for link in dgx.nvlinks:
    links[link.a, link.b] = links[link.b, link.a] = link.count

# %% [markdown]
# Those are the links of the recorded DGX-1: try `disjoint_rings(gpus, links)`.
# There are even three such rings, which together use all 24 NVLinks.
#
# **A good place to stop.**

# %% [markdown]
# ## 4. Measure: what do your links carry?
#
# ### From one rank to another
#
# A message goes back and forth many times; half of a round trip is the
# **one-way time**. You measure three paths: sockets, memory that two processes
# share, and what Horovod itself offers. (Without GPUs, Horovod gives its
# messages to **Gloo**, a library for collectives, which uses sockets.)
#
# **Predict first.** How many µs does a message of 4 bytes take from one worker
# to another through a socket?

# %% tags=["demo"]
guess_one_way = None  # µs

# %% tags=["demo"]
p2p = launch(
    "bench_p2p.py", name="point to point", workers=workers, **messages
)

# %% tags=["demo"]
sockets = [p for p in p2p.result["points"] if p["path"] == "tcp"]
least = min(sockets, key=lambda point: point["size_bytes"])
compare_guess(guess_one_way, 1e6 * least["seconds"]["median"], "µs, one way")

# %% tags=["demo"]
plot.plot_pairs(p2p)

# %% tags=["demo"]
bandwidth.pairs(p2p)

# %% [markdown]
# ### All ranks at once
#
# An **all-reduce**, as in training, a **broadcast** and an **all-gather**:
# first with Horovod, then with TensorFlow's own collectives.

# %% tags=["demo"]
measured = launch(
    "bench_allreduce.py", name="Horovod", workers=workers, **messages
)

# %% tags=["demo"]
other = launch(
    "bench_allreduce.py", name="tf.distribute", workers=workers,
    cluster="multi_worker", **messages,
)

# %% [markdown]
# ### Two kinds of bandwidth
#
# There are two kinds of bandwidth, often confused. For an operation on $M$
# bytes that takes time $t$:
#
# - **algorithm bandwidth** is $M / t$: what your program sees.
# - **bus bandwidth** is algorithm bandwidth times a factor that depends on the
#   operation and the number of ranks $N$. In an all-reduce and an all-gather it is
#   what each rank sends, divided by the time, so you can compare it with the
#   bandwidth of the links; in a broadcast it is the data, which not every rank
#   sends on.
#
# | operation | $M$ | factor |
# | --- | --- | --- |
# | all-reduce | a rank's data | $2(N-1)/N$ |
# | all-gather | the gathered result | $(N-1)/N$ |
# | broadcast | the data | $1$ |
#
# Where a **switch** adds, ranks send less, and this comparison fails: eight
# H100s with NVSwitches that add (NVLink SHARP) reach a bus bandwidth of 480
# GB/s over links of 450.

# %% [markdown]
# **Question 6** (2 points)
#
# Write `bus_gb_per_s(operation, size_bytes, seconds, ranks)`. It returns GB/s
# for the operations `"all_reduce"`, `"all_gather"` and `"broadcast"`. For any
# other operation, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q06_bus_bandwidth", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bus_gb_per_s(operation, size_bytes, seconds, ranks):
    """Return the bus bandwidth as the table above defines it."""
    ### BEGIN SOLUTION
    factors = {
        "all_reduce": 2 * (ranks - 1) / ranks,
        "all_gather": (ranks - 1) / ranks,
        "broadcast": 1,
    }
    if operation not in factors:
        raise ValueError(f"{operation!r} is none of {list(factors)}")
    return factors[operation] * size_bytes / seconds / 1e9
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q06_bus_bandwidth
#
# 1. Bus bandwidth is bytes per second times a factor that depends on the
#    operation. The table above has the factors.
# 2. Put the factors into a dictionary; an operation that is not in it is the
#    error. GB are 10**9 bytes.
# 3. `factors = {"all_reduce": 2 * (ranks - 1) / ranks}`

# %% nbgrader={"grade": true, "grade_id": "q06_bus_bandwidth_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


value = bus_gb_per_s("all_reduce", 1_000_000_000, 0.5, 2)
assert near(value, 2), (
    f"bus_gb_per_s on two ranks, where the factor is 1, returned {value}, not 2"
)
value = bus_gb_per_s("all_reduce", 1_000_000_000, 0.5, 4)
assert near(value, 3), f"four ranks: the factor is 1.5; {value}"
value = bus_gb_per_s("broadcast", 4_000_000, 0.001, 8)
assert near(value, 4), f"broadcast: the factor is 1; {value}"
### BEGIN HIDDEN TESTS
value = bus_gb_per_s("all_gather", 8_000_000_000, 1, 8)
assert near(value, 7)
assert near(bus_gb_per_s("all_gather", 300, 0.7, 3), 2e-7 / 0.7)
assert near(bus_gb_per_s("all_reduce", 1e9, 1, 256), 2 * 255 / 256)
assert near(bus_gb_per_s("broadcast", 1_000, 0.3, 2), 1e-6 / 0.3)
for operation in ("all_to_all", "reduce", "reduce_scatter", "gather",
                  "barrier", "broadcast_object", ""):
    try:
        bus_gb_per_s(operation, 1, 1, 2)
    except ValueError:
        pass
    else:
        raise AssertionError("there is no such operation in the table")
### END HIDDEN TESTS

# %% tags=["demo"]
plot.plot_bandwidth([measured, other])

# %% tags=["demo"]
bandwidth.bandwidths([measured, other], operations=["all_reduce"])

# %% [markdown] nbgrader={"grade": false, "grade_id": "q07_figure_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 7** (3 points)
#
# Look at the figure of Horovod's all-reduce. (a) Up to about which size does
# the time hardly depend on the size, and what takes the time there? (b) What is
# the largest bus bandwidth, at which size, and does it last up to the largest
# size? (c) Name two reasons why an all-reduce of a few bytes takes longer than
# a message of a few bytes between two workers. (d) What do these numbers not
# tell you about two hosts?
#
# === BEGIN MARK SCHEME ===
# 1 point: (a) and (b) with sizes and figures from the reader's own figure, and
# a word of explanation (latency; caches). 1 point: two of: several messages in
# turn, Horovod's cycle (1 ms), negotiation, copies, arithmetic, waiting for the
# slower rank. 1 point: (d) no network card or wire was used, so neither its
# latency nor its bandwidth is measured here.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q07_figure", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# (a) Up to about 256 KiB the time stays near its minimum of about 2.5 ms. That
# is latency: starting messages, and Horovod's own work. (b) The bus bandwidth
# is highest, 1.3 GB/s, at the largest size, and is still rising a little there.
# TensorFlow's peaks at 64 MiB and falls beyond, where copies of the data no
# longer fit into the shared cache. (c) Horovod's background thread looks for
# ready tensors once per cycle, and the ranks first agree on what is ready,
# which takes messages too; and an all-reduce takes at least two rounds of
# messages. (d) Nothing here crossed a network card or a wire: loopback copies
# memory. A network's latency and bandwidth have to be measured on that network.
# ### END SOLUTION

# %% [markdown]
# ### Put to use: where the ranks run
#
# A process can be **pinned** to the processors that it may use. Launchers on
# clusters do that (`srun --cpu-bind`, `mpirun --bind-to`), and it can go
# wrong. So here is one training step of two ranks, pinned to whichever of
# these this machine has, from near to far: one core for both, two threads of a
# core, two cores, two sockets.
#
# **Predict first.** How many times as long does a step take on one core as on
# the pair that is farthest apart?

# %% tags=["demo"]
guess_pinned = None  # times as long

# %% tags=["demo"]
pinned = [
    launch(
        "step_times.py", name=name, workers=2, threads=1, widths=[16],
        steps=5 if smoke else 40, seed=seed, oversubscribe=True, pin_to=pair,
    )
    for name, pair in topology.placements(machine).items()
]

# %% tags=["demo"]
step_ms = efficiency.step_parts(pinned)["step_ms"]
compare_guess(guess_pinned, step_ms.iloc[0] / step_ms.iloc[-1],
              "times as long")

# %% tags=["demo"]
plot.plot_step_times(pinned)

# %% [markdown]
# On one core the ranks take turns: a step takes up to twice as long, less
# where other programs use your cores too. Two threads of a core share its
# arithmetic units. Between two sockets, gradients cross the link between them,
# but each rank has a socket's caches and memory channels to itself: look at
# *communication* and *computation* separately.

# %% [markdown]
# **A good place to stop.** Next: a model of links, and what it says about algorithms.

# %% [markdown]
# ## 5. Algorithms, and a race
#
# Besides the ring there are trees, and exchanges with partners at distance 1, 2, 4,
# ...: of all the data each time (**recursive doubling**), or of ever smaller parts, and
# then backwards (**halving and doubling**).
#
# ![Four algorithms for eight ranks. Ring: each sends to the next; 14 steps of
# an eighth of the data. Recursive doubling: pairs at distance 1, 2, 4; 3 steps
# of all of it. Tree: up to rank 0 and down again; 6 steps of all of it. Halving
# and doubling: pairs at distance 4, 2, 1 exchange a half, a quarter, an eighth,
# and then the same backwards; 6 steps.](../images/collectives.svg)

# %% [markdown]
# Hockney's model gives every message a start-up time **α** and a time **β** for
# each byte: $t = \alpha + M \beta$. For collectives on $N$ ranks and
# $M$ bytes:
#
# | algorithm | time |
# | --- | --- |
# | ring | $2(N-1)\,\alpha + 2\frac{N-1}{N}\,M\beta$ |
# | recursive doubling | $\log_2 N\,(\alpha + M\beta)$ |
# | halving and doubling | $2\log_2 N\,\alpha + 2\frac{N-1}{N}\,M\beta$ |
# | binary tree, up and down | $2\log_2 N\,(\alpha + M\beta)$ |
#
# This is for $N$ a power of two. This tree waits for all of the data at each of
# its levels. NCCL's trees are pipelined, and there are two of them, which share
# the bytes: they cost about as many messages, but only $2\,M\beta$.
#
# **Predict first.** On 64 ranks with α = 10 µs and 10 GB/s, up to how many KiB
# is recursive doubling faster than the ring?

# %% tags=["demo"]
guess_switch = None  # KiB

# %% tags=["demo"]
sizes = 2.0 ** np.arange(0, 31, 0.01)
ring_s, doubling_s = (
    cost.ALGORITHMS[name](sizes, 64, 10e-6, 1e-10)
    for name in ("ring", "recursive doubling")
)
compare_guess(guess_switch, sizes[doubling_s < ring_s].max() / 1024, "KiB")

# %% tags=["demo"]
plot.plot_algorithms(64, 10e-6, 1e-10)

# %% [markdown]
# For few bytes on many ranks, recursive doubling is best. For many bytes, halving and
# doubling is: it sends as few as the ring, in fewer messages. By this model the ring
# is *never* faster. Why do libraries still use rings?
#
# - A ring needs links to **two neighbors** only. It can be laid out so that each hop
#   has its own link (question 5). Partners at distance $N/2$ share links, cables and
#   switches with others, which this model leaves out.
# - Each rank sends to the same neighbor all the time, so a ring can be
#   **pipelined**: pieces flow on before a whole chunk has arrived.
# - It works for **any number** of ranks. The others need powers of two, or
#   more messages.
# - For large data, the first term is negligible.

# %% [markdown]
# **Question 8** (3 points)
#
# Write `all_reduce_s(algorithm, size_bytes, ranks, alpha, beta)` for `"ring"`,
# `"recursive doubling"`, `"halving and doubling"` and `"tree"`. It returns
# seconds; α is in seconds, and β in seconds per byte. A single rank takes no
# time. If $N$ is not a power of two:
#
# - for the tree, round $\log_2 N$ up: that is how many levels it has;
# - for the two doublings, take the largest power of two below $N$. The
#   ranks from there on first hand all their data to one of the others, and get
#   the result from it at the end. That makes two more messages of all the data
#   around an all-reduce on that many ranks.

# %% nbgrader={"grade": false, "grade_id": "q08_all_reduce", "locked": false, "schema_version": 3, "solution": true, "task": false}
def all_reduce_s(algorithm, size_bytes, ranks, alpha, beta):
    """Return the seconds of an all-reduce by the alpha-beta model."""
    ### BEGIN SOLUTION
    message = alpha + size_bytes * beta
    if algorithm == "ring":
        return 2 * (ranks - 1) * (alpha + size_bytes / ranks * beta)
    if algorithm == "tree":
        return 2 * math.ceil(math.log2(ranks)) * message
    rounds = math.floor(math.log2(ranks))
    power = 2**rounds
    around = 2 * message if ranks > power else 0
    if algorithm == "recursive doubling":
        return around + rounds * message
    share = 2 * (power - 1) / power
    return around + 2 * rounds * alpha + share * size_bytes * beta
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q08_all_reduce
#
# 1. For each algorithm, ask: how many messages follow each other, and how many
#    bytes does each have?
# 2. Ring: 2(N − 1) messages of 1/N of the data. Tree: the levels up and down again,
#    all the data each time. Recursive doubling: log₂ P messages of everything (P: the
#    largest power of two up to N). Halving and doubling: 2 log₂ P messages that carry
#    2(P − 1)/P of the data together. An N that is not a power of two adds two whole
#    messages to the doublings.
# 3. `rounds = math.floor(math.log2(ranks))`

# %% nbgrader={"grade": true, "grade_id": "q08_all_reduce_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


alpha, beta = 1e-5, 1e-9
for name, four, six in (
        ("ring", 6e-5 + 1.5e-3, 1e-4 + 5e-3 / 3),
        ("recursive doubling", 2e-5 + 2e-3, 4e-5 + 4e-3),
        ("halving and doubling", 4e-5 + 1.5e-3, 6e-5 + 3.5e-3),
        ("tree", 4e-5 + 4e-3, 6e-5 + 6e-3)):
    for ranks, seconds in ((4, four), (6, six)):
        value = all_reduce_s(name, 1_000_000, ranks, alpha, beta)
        assert near(value, seconds), (
            f"all_reduce_s of {name} on {ranks} ranks returned {value}, not {seconds}"
        )
### BEGIN HIDDEN TESTS
for name in ("ring", "recursive doubling", "halving and doubling", "tree"):
    value = all_reduce_s(name, 5_000, 1, alpha, beta)
    assert math.isclose(value, 0, abs_tol=1e-15)
for ranks, power, rounds, levels in ((2, 2, 1, 1), (3, 2, 1, 2), (5, 4, 2, 3),
                                     (9, 8, 3, 4), (16, 16, 4, 4)):
    more = 2 * (ranks > power)
    value = all_reduce_s("recursive doubling", 1_000, ranks, alpha, beta)
    assert near(value, (rounds + more) * (1e-5 + 1e-6))
    value = all_reduce_s("halving and doubling", 1_000, ranks, alpha, beta)
    share = 2 - 2 / power + more
    assert near(value, (2 * rounds + more) * 1e-5 + share * 1e-6)
    value = all_reduce_s("tree", 1_000, ranks, alpha, beta)
    assert near(value, 2 * levels * (1e-5 + 1e-6))
    value = all_reduce_s("ring", 1_000, ranks, alpha, beta)
    steps = 2 * (ranks - 1)
    assert near(value, steps * 1e-5 + steps / ranks * 1e-6)
    assert near(all_reduce_s("ring", 0, ranks, 3, beta), 3 * steps)
assert near(all_reduce_s("ring", 6_000, 3, 0, beta), 8e-6)
### END HIDDEN TESTS

# %% [markdown]
# ### Write it yourself
#
# **Question 9** (4 points)
#
# Now *write* halving and doubling, for ranks that are a power of two and any
# `count` of numbers. It has $2\log_2 N$ steps. In the first half of them, a rank
# and its partner work on the same piece. One sends the lower half of it and
# goes on with the upper half, the other does the opposite, and what arrives is
# added. Then it goes backwards: each sends the piece that it has finished, and
# keeps what arrives.
#
# - `partner(step, rank, ranks)`: the rank to exchange with in this step;
# - `piece(step, rank, ranks, count)`: which numbers `rank` sends, as a pair
#   `(first, end)` that means `values[first:end]`.
#
# The driver of the ring in [1b](1b.Gradients-in-Depth.ipynb), section 9, does
# the rest. `rank ^ 4` is the rank whose number differs by 4 up or down. You
# may begin with far partners or with near ones.

# %% nbgrader={"grade": false, "grade_id": "q09_halving", "locked": false, "schema_version": 3, "solution": true, "task": false}
def partner(step, rank, ranks):
    """Return the rank to exchange with in this step."""
    ### BEGIN SOLUTION
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    return rank ^ 2**level
    ### END SOLUTION


def piece(step, rank, ranks, count):
    """Return (first, end) of the numbers to send in this step."""
    ### BEGIN SOLUTION
    rounds = int(math.log2(ranks))
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for earlier in range(level + 1):
        upper = bool(rank & 2**earlier)  # the half that this rank goes on with
        if earlier == level and step < rounds:
            upper = not upper  # the half that it gives away
        middle = (first + end) // 2
        first, end = (middle, end) if upper else (first, middle)
    return first, end
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q09_halving
#
# 1. Take 4 ranks and 8 numbers, and write down by hand who meets whom in each of
#    the 4 steps. The second half is the first one backwards.
# 2. Number the levels 0, 1, …, and count them back in the second half. At level
#    k, ranks differ in bit k. Begin with all the numbers and halve them level by
#    level: the rank's own bit decides which half it goes on with. In the first half
#    of the steps it sends the other one.
# 3. `level = min(step, 2 * int(math.log2(ranks)) - 1 - step)`

# %% nbgrader={"grade": true, "grade_id": "q09_halving_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

from course.shared.ring import exchange


def numbers_sent(ranks, count):
    """Run all steps, check the sum, and return what each rank sent."""
    data = np.random.default_rng(ranks).normal(size=(ranks, count))
    steps = 2 * (ranks.bit_length() - 1)
    for step in range(steps):
        others = [partner(step, rank, ranks) for rank in range(ranks)]
        for rank, other in enumerate(others):
            back = partner(step, other, ranks)
            assert back == rank, (
                f"step {step}: the partner of {rank} is {other}, but that of {other} "
                f"is {back}, not {rank}"
            )
    done = exchange(list(data), steps, partner, piece)
    for rank, array in enumerate(done.arrays):
        assert np.allclose(array, data.sum(axis=0)), (
            f"{ranks} ranks, {count} values: rank {rank} lacks the sum"
        )
    return done.sent


for ranks in (2, 4):
    sent = set(numbers_sent(ranks, 24))
    assert sent == {2 * (ranks - 1) * 24 // ranks}, f"sent: {sent}"
### BEGIN HIDDEN TESTS
for ranks in (1, 2, 4, 8, 16):
    assert set(numbers_sent(ranks, 3 * ranks)) == {6 * (ranks - 1)}
    for count in (0, 1, 5, 23):  # what does not divide evenly
        sent = numbers_sent(ranks, count)
        assert sum(sent) == 2 * (ranks - 1) * count
        rounds = ranks.bit_length() - 1
        assert max(sent) <= 2 * (count * (ranks - 1) / ranks + rounds)
### END HIDDEN TESTS

# %% [markdown]
# ### A race on four real ranks
#
# Does the model hold? `race_allreduce.py` has three algorithms in a few lines
# each, over the same connections between four real processes. The algorithms
# take turns at each size, so that whatever else this machine does hits all
# alike. The model's two numbers are fitted to the **ring** alone; the other
# two curves are then predictions.
#
# **Predict first.** From how many KiB on is the ring faster than recursive
# doubling, with four ranks on this machine?

# %% tags=["demo"]
guess_race = None  # KiB

# %% tags=["demo"]
raced = launch(
    "race_allreduce.py", name="race", workers=4, oversubscribe=True,
    min_bytes=2**10, max_bytes=2**16 if smoke else 2**23,
    factor=8 if smoke else 2, seconds=0.1 if smoke else 1,
)

# %% tags=["demo"]
found = race.crossover(raced, "recursive doubling", "ring")
compare_guess(guess_race, found.size_bytes / 1024,
              "KiB, where the ring overtakes")

# %% tags=["demo"]
plot.plot_race(raced)

# %% tags=["demo"]
race.crossovers(raced)

# %% [markdown]
# For small messages, compare the three levels with 6, 4 and 2 messages in a
# row. The model may put the crossing too early: small messages stay in the
# caches, where a byte costs less than the β that fits the large ones. And four
# ranks on a few cores compete for caches and memory, as ranks on separate
# hosts would not. `inf` in the table means that one never overtakes the other
# in this range; 0, that it always leads.

# %% [markdown]
# ### Several hosts: add up inside first
#
# The network between hosts is slower than the links inside them, and a
# **hierarchical** all-reduce sends less over it. The ranks of each host first
# split their data and add it up among themselves. Then each rank exchanges its
# *part* with its counterparts on the other hosts. Finally the parts are
# gathered inside each host.
#
# ![Left, a ring over two hosts: each direction of the cable carries 1.5 times
# the data. Right, the hierarchical all-reduce: halves are exchanged, and the
# cable carries the data once.](../images/hierarchy.svg)
#
# **Predict first.** On two hosts with two ranks each, 1.5 times as many bytes
# leave a host in a ring as in the hierarchical all-reduce. How many times as
# many on 32 hosts of eight ranks?

# %% tags=["demo"]
guess_fade = None  # times as many bytes

# %% tags=["demo"]
compare_guess(guess_fade, hierarchy.gain(32, 8),
              "times as many bytes, by the ring")

# %% tags=["demo"]
server = clusters.server("dgx-1")  # links as NCCL counts them
print("inside: ", server.inside)
print("between:", server.between)

# %% tags=["demo"]
plot.plot_fade(server.inside, server.between)

# %% [markdown]
# On the left, the gain in **bytes** fades as hosts are added: a ring of many
# ranks sends twice the data, and so does an all-reduce between many hosts. On
# the right is the time by the model, for DGX-1s with six NVLinks a GPU and
# four cards of 100 Gbit/s. What remains is **latency**: a ring waits for
# $2(N-1)$ messages in a row, and a hierarchy for two rounds inside a host and
# a few between hosts. So the more hosts and the smaller the message, the more
# a hierarchy gains. For large messages it can even lose, since the steps
# inside a host are added.

# %% [markdown]
# **A good place to stop.** Next: what two numbers say about more ranks.

# %% [markdown]
# ## 6. On more ranks
#
# How does an all-reduce get slower with more ranks? Some of its latency is paid **once
# for each operation**: Horovod checks once per cycle what is ready, and the ranks agree
# on it. Some is paid **for each message**, and a ring sends $2(N-1)$ of them. One number
# of ranks cannot tell these apart; two numbers can. So you measure with one rank more,
# and then predict two more. If there are more ranks than cores, they take turns: four
# ranks on two cores each compute for twice as long.

# %% tags=["demo"]
third = launch(
    "bench_allreduce.py", name="one worker more", workers=workers + 1,
    operations="all_reduce", sizes=[4, 2**14, 2**18, 2**20, 2**22],
    seconds=messages["seconds"], oversubscribe=True, threads=1,
)

# %% tags=["demo"]
both = prediction.fit_runs([measured, third])
print(both)

# %% [markdown]
# Some gradients can travel while others are still being computed: **overlap**.
# Without it, computation and communication add up; with full overlap only the
# longer of the two counts. The computation, and a training to compare with, as
# in lesson 2:

# %% tags=["demo"]
alone = launch(
    "step_times.py", name="a rank alone", workers=1, model="cnn",
    part=workers, steps=10 if smoke else 80, **step,
)
company = launch(
    "step_times.py", name="ranks in company", workers=workers,
    model="cnn", steps=10 if smoke else 80, **step,
)
training = launch(
    "train_cifar.py", name="measured", workers=workers,
    recipe="batch_norm", steps=40 if smoke else 320,
    train_samples=2_048, test_samples=500, **step,
)

# %% [markdown]
# **Predict first.** Two more ranks join, each with as many images as
# before. How many times as long as in the first training will a step take?

# %% tags=["demo"]
guess_longer = None  # times as long

# %% tags=["demo"]
cores = company.result["hardware"]["cores"]
larger = prediction.predict_step(
    company, both, workers + 2, one=alone, cores=cores
)
print(larger)

# %% tags=["demo"]
two_more = launch(
    "train_cifar.py", name="two workers more", workers=workers + 2,
    recipe="batch_norm", steps=40 if smoke else 160, oversubscribe=True,
    train_samples=2_048, test_samples=500,
    **{**step, "global_batch": larger.batch},
)

# %% tags=["demo"]
before, after = (
    run.result["global_batch"] / run.result["images_per_s"]
    for run in (training, two_more)
)
compare_guess(guess_longer, after / before, "times as long, measured")

# %% tags=["demo"]
prediction.report({"from two and three": larger}, two_more)

# %% tags=["demo"]
many = [
    prediction.predict_step(company, both, ranks, one=alone, cores=cores)
    for ranks in (workers, workers + 1, workers + 2, 4 * workers)
]
plot.plot_prediction(many, [training, two_more])

# %% [markdown]
# The figure goes beyond what was measured: the farther to the right, the more
# is extrapolated. Where ranks share cores, a rank that should answer a
# message may first have to wait for a core. The fit mistakes that for latency
# of messages, and the share that is paid once may come out as 0. On a busy
# machine, both the prediction and the measurement can be far off: repeat them,
# and compare.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q10_error_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 10** (2 points)
#
# How far off was the prediction? Does the measured time lie between no overlap
# and full overlap? Name two things that it leaves out. For each, say
# whether it makes the prediction too low or too high, and on which machine it
# would matter most.
#
# === BEGIN MARK SCHEME ===
# 1 point: the error with its sign from the reader's own table, compared with no
# and full overlap and with the spread of the repetitions. 1 point (half each):
# two of these, with the right direction: Horovod's cycle time and negotiation
# (too low, small models); contention for cores by the background thread, the
# launcher and the browser (too low, few cores); overlap (too high where the sum
# was predicted, GPUs); input pipeline and updates that do not shrink (too low);
# other users; clock rates that fall when all cores work (too low, where one
# rank was measured alone).
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q10_error", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my table the prediction is 9 % too low, and the measured time lies a little
# above no overlap. So something is left out that takes time, since overlap
# could only shorten the step. Horovod's background thread and its negotiation
# of what is ready need a core too, and take it from a rank that computes (too
# low; matters most on few cores). Overlap is the other: if gradients travel
# while others are still being computed, part of the communication costs
# nothing, so a sum is too high (matters most on GPUs, where the network card
# copies by itself).
# ### END SOLUTION

# %% [markdown]
# ## 7. Clusters that you don't have
#
# For a cluster that you can't measure, each term needs another source:
#
# | term | from |
# | --- | --- |
# | computation | images/s of one GPU, published |
# | bandwidth of a link | its data sheet, times the share of it that NCCL counts on |
# | latency of a message | NCCL's own constants |
# | messages of an all-reduce | **one ring** through all GPUs of all servers; large servers: first inside each |
# | all-reduces of a step | Horovod **fuses** gradients until a message has 128 MiB |
# | overlap | unknown: the **middle** between no and full overlap |
# | waiting for the slowest | unknown: what others' figures say, see below |

# %% tags=["demo"]
for kind, share in clusters.SHARE.items():
    latency_us = 1e6 * clusters.LATENCY_S[kind]
    print(f"{kind}: {share:.0%} of the bandwidth, {latency_us:.1f} µs each")

# %% [markdown]
# Horovod's authors published what 512 GPUs reach: 128 servers with 4 Pascal
# GPUs each on a 25 Gbit/s network. Inception V3 and ResNet-101 have an
# efficiency of about 90 %.
#
# **Predict first.** VGG-16 has six times the weights of Inception V3, most of
# them in dense layers, which need little computation. What is its efficiency on
# those 512 GPUs?

# %% tags=["demo"]
guess_vgg = None  # percent

# %% tags=["demo"]
figures = published.compared()
vgg = figures[figures["network"] == "VGG-16"].set_index("gpus")
said = vgg["published_percent"][512]
compare_guess(guess_vgg, said, "% efficiency of VGG-16 on 512 GPUs, published")

# %% [markdown]
# And what do these terms say? One ring passes through all GPUs, and its
# slowest link decides: beyond one server, the network. Of its $2(N-1)$
# messages, those between servers have the network's latency, the others
# PCIe's.

# %% tags=["demo"]
pascal = clusters.scaling(
    "pascal-25gbe", 128, "vgg16", batch=64, algorithm="ring", late=0
)
prediction.table(pascal, "VGG-16, if nobody is late.")

# %% [markdown]
# ### What no data sheet says
#
# With these terms alone, predictions are too high: every cluster has costs that the
# model lacks. The course's file has figures of six publishers, from eight P100s to
# 512 GPUs. We give the model one more term, the **wait for the slowest**. Each rank's
# computation varies by a standard deviation of $s$ times its mean; of $N$ ranks the
# slowest is late by $e(N)\,s$, where $e(N)$ is the expected maximum of $N$ normal
# variables: 0.6 for two, 1.4 for eight, 2.8 for
# 256. One number, $s$, is fitted. It covers everything that makes a rank
# late: its input, its clock rate, kernels that compete with messages.
#
# A fit to figures says nothing about how well it predicts them. So each
# publisher's figures are predicted with an $s$ from the **other** publishers'
# alone.

# %% tags=["demo"]
print("s, fitted to all figures:", published.fitted())

# %% [markdown]
# **Predict first.** How many points of efficiency will the predictions be off
# on average?

# %% tags=["demo"]
guess_points = None  # points

# %% tags=["demo"]
scores = published.by_publisher(figures)
error = scores.set_index("publisher")["model"]["all"]
compare_guess(guess_points, error, "points off on average")

# %% tags=["demo"]
plot.plot_published(figures)

# %% tags=["demo"]
scores

# %% [markdown] tags=["claims"]
# The prediction is off by 6.0 points on average. A constant 90 % is off by 6.8, and
# answering the mean of the others' figures by 8.0. Per figure, the prediction is
# closer than 90 % by 0.9 points, with a 95 % interval from −0.6 to 2.4: no clear
# difference. Without the wait for the slowest it would be too high for 59 of the 67
# figures, by 6.4 points on average.
#
# The bars in the figure should contain four of five figures, and contain 56 of
# 67. For some publishers they do not: they contain 9 of Horovod's 15 figures
# and 2 of Hugging Face's 5. On 256 H100s the prediction is 74 %, and 39 % were
# measured: there a GPU computes for only 102 ms in a step, so what does not
# shrink with its part of the batch dominates.

# %% [markdown]
# Hugging Face's five figures keep the global batch while GPUs are added (**strong
# scaling**), which the others don't: ignore the interval there. Nor does it know in
# how many bits a program computed. Computing in 16 bits takes a GPU less time and
# leaves the rest of a step as it was, so expect a prediction to be too high.

# %% [markdown]
# ### Why not closer?
#
# Here is what several *programs* reach on the same servers,
# with the same network and batch:

# %% tags=["demo"]
published.programs()

# %% [markdown] tags=["claims"]
# On the same 32 GPUs the best of eight programs reaches 98 % with ResNet-50,
# and the worst 78 %. On average a program is 5.5 points from the median. A
# model that knows only the machine can't know the program.

# %% [markdown]
# And TCP? Horovod's authors also measured the same 16 GPUs with RDMA and
# without it:

# %% tags=["demo"]
sixteen = figures[figures["study"] == "horovod-16"]
sixteen = sixteen.replace({"through": {"": "RDMA"}}).pivot(
    index="network", columns="through", values="published_percent"
)
sixteen.round(1)

# %% [markdown] tags=["claims"]
# Over TCP, VGG-16 trains 27 % fewer images/s than over RDMA, ResNet-101 3 %
# and Inception V3 2 %. So TCP can explain that VGG-16 has only 64 % on 64
# GPUs, but not the 83 % of Inception V3.

# %% [markdown]
# **Question 11** (3 points)
#
# - `efficiencies(compute_s, exchange_s)`: the efficiency without overlap and
#   with full overlap, as a pair, of a training step with `compute_s` of
#   computation and `exchange_s` of communication.
# - `gbit_per_s_needed(compute_s, size_bytes, ranks, wanted)`: how many Gbit/s
#   each rank's link must have so that a **ring** of ranks reaches the
#   efficiency `wanted` *without overlap*. Ignore latency.

# %% nbgrader={"grade": false, "grade_id": "q11_efficiencies", "locked": false, "schema_version": 3, "solution": true, "task": false}
def efficiencies(compute_s, exchange_s):
    """Return the efficiency (without overlap, with full overlap)."""
    ### BEGIN SOLUTION
    without = compute_s / (compute_s + exchange_s)
    return without, compute_s / max(compute_s, exchange_s)
    ### END SOLUTION


def gbit_per_s_needed(compute_s, size_bytes, ranks, wanted):
    """Return the bandwidth that a link needs, in one direction."""
    ### BEGIN SOLUTION
    exchange_s = compute_s / wanted - compute_s
    bits = 8 * 2 * (ranks - 1) / ranks * size_bytes
    return bits / exchange_s / 1e9
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q11_efficiencies
#
# 1. Efficiency is the time of the computation over the time of the whole step.
#    With full overlap, what does a step last?
# 2. Without overlap the two times add up, with overlap the longer one counts. For
#    the link, turn it round: from the wanted efficiency, find how long the
#    exchange may take, and how many bits a ring sends in it.
# 3. `exchange_s = compute_s / wanted - compute_s`

# %% nbgrader={"grade": true, "grade_id": "q11_efficiencies_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


low, high = efficiencies(0.3, 0.1)
assert near(low, 0.75), f"efficiencies(0.3, 0.1) begins with {low}, not 0.75"
assert near(high, 1), f"0.1 s fits into 0.3 s: {high}"
value = gbit_per_s_needed(0.45, 100_000_000, 2, 0.9)
assert near(value, 16), f"0.8 Gbit in 0.05 s: {value}"
### BEGIN HIDDEN TESTS
pair = efficiencies(0.1, 0.4)
assert not isinstance(pair, set), "a set has no order"
low, high = pair
assert near(low, 0.2) and near(high, 0.25)
value = gbit_per_s_needed(0.4, 500_000_000, 512, 0.8)
assert near(value, 8 * 2 * 511 / 512 * 5e8 / 0.1 / 1e9)
value = gbit_per_s_needed(1, 1e9, 4, 0.5)
assert near(value, 12)
value = gbit_per_s_needed(0.5, 1_000_000, 7, 0.75)
assert near(value, 8 * 12 / 7 * 1e-3 * 6)
assert near(gbit_per_s_needed(2, 10, 3, 0.25), 320 / 18 * 1e-9)
### END HIDDEN TESTS

# %% [markdown]
# And a cluster of today? In a terminal, try
# `ddl predict --topology dgx-a100 --nodes 128 --model resnet50 --batch 256`.
# Here are up to a thousand A100s training ResNet-50, each term in ms, and the
# interval in which four of five published efficiencies lay:

# %% tags=["demo"]
margin = clusters.MARGIN_POINTS
thousand = clusters.scaling("dgx-a100", 128, "resnet50", batch=256)
prediction.table(thousand, margin_points=margin)

# %% [markdown]
# Eight fast network cards make communication easy; waiting is what grows. Now
# take a network with a billion weights that needs the same time for a batch, in
# servers with a single 25 Gbit/s card:

# %% tags=["demo"]
billion = clusters.scaling(
    "pascal-25gbe", 128, parameters=10**9, images_per_s=909, batch=256
)
plot.plot_prediction(billion, margin_points=margin)

# %% [markdown]
# What such a figure leaves out: other jobs on the network, oversubscribed
# switches, reading the data, and whether a global batch of that size still
# learns anything (lesson 4).
#
# **A good place to stop.** Next: two hosts that you do have.

# %% [markdown]
# ## 8. Several hosts, for real, on one machine
#
# The kernel can give processes their own network (a **network namespace**), join two
# of these networks by a virtual cable, and limit its rate. To the processes this *is*
# two hosts on a slow network: `site=hosts.site(rate_mbit=100)`. You need permission
# to make namespaces; root has it, and on many systems everyone does. If it is
# refused, the cells below show recorded runs.

# %% tags=["demo"]
refused = hosts.permitted()  # empty, or the reason why not
print(refused or "two hosts can be made on this machine")

# %% [markdown]
# ### A training step over a slow cable
#
# First, a training step of two networks, one narrow and one wide, on two ranks:
# both ranks on this host, then one rank on each of two hosts with 100 Mbit/s
# between them.

# %% tags=["demo"]
steps = dict(workers=2, threads=1, widths=[8, 32], seed=seed,
             steps=5 if smoke else 40)
if refused:
    apart = [run for run in recorded("two-hosts")
             if run.result["script"] == "step_times.py"]
else:
    apart = [
        launch("step_times.py", name="one host", **steps),
        launch("step_times.py", name="two hosts, 100 Mbit/s", nodes=2,
               site=hosts.site(rate_mbit=100), **steps),
    ]

# %% tags=["demo"]
plot.plot_step_times(apart)

# %% [markdown]
# ### Rings and hierarchies over a slow cable
#
# **Predict first.** Now take four ranks, two on each host, and an all-reduce of
# 1 MiB by Horovod's ring. In a ring each of the two directions of the cable
# carries $2(N-1)/N$ of the data. How many ms does that take at 100 Mbit/s?

# %% tags=["demo"]
guess_ring = None  # ms

# %% tags=["demo"]
ways = dict(workers=4, nodes=2, max_bytes=2**20 if smoke else 2**22,
            factor=16 if smoke else 4, seconds=0.1 if smoke else 1)
rates = (100,) if smoke else (1000, 100)
if refused:
    slow = [run for run in recorded("two-hosts")
            if run.result["script"] == "hierarchical_allreduce.py"]
else:
    slow = [
        launch("hierarchical_allreduce.py", name=f"{rate} Mbit/s",
               site=hosts.site(rate_mbit=rate), **ways)
        for rate in rates
    ]

# %% tags=["demo"]
slowest_link = hierarchy.variants(slow[-1])
flat = slowest_link[slowest_link["variant"] == "flat"]
took = flat.set_index("size_bytes")["milliseconds"]
compare_guess(guess_ring, took[2**20],
              "ms for 1 MiB round the ring at 100 Mbit/s")

# %% [markdown]
# In Horovod's ring over four ranks, two hops cross the cable. If ranks were
# numbered so that neighbors are never on the same host, all four would. The
# **hierarchical** all-reduce of section 5 does better.
#
# **Question 12** (3 points)
#
# How many bytes leave a host in an all-reduce of `size_bytes`?
#
# - `ring_crossing(host_of, size_bytes)`: those that leave host 0, for a ring in
#   rank order. `host_of` lists each rank's host, such as `[0, 0, 1, 1]`. Count
#   the hops from host 0 to another; each carries $2(N-1)/N$ of the data.
# - `hierarchical_crossing(hosts, local_size, size_bytes)`: for `hosts` hosts
#   with `local_size` ranks each. The data is cut into `local_size` parts; each
#   rank all-reduces one of them with its counterparts, by a ring over the
#   hosts.

# %% nbgrader={"grade": false, "grade_id": "q12_crossing", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ring_crossing(host_of, size_bytes):
    """Return the bytes that leave host 0."""
    ### BEGIN SOLUTION
    ranks = len(host_of)
    hops = zip(host_of, [*host_of[1:], host_of[0]])
    crossing = sum(one == 0 and other != 0 for one, other in hops)
    return crossing * 2 * (ranks - 1) / ranks * size_bytes
    ### END SOLUTION


def hierarchical_crossing(hosts, local_size, size_bytes):
    """Return the bytes that leave a host."""
    ### BEGIN SOLUTION
    part = size_bytes / local_size
    return local_size * 2 * (hosts - 1) / hosts * part
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q12_crossing
#
# 1. Draw two hosts with two ranks each. Which hops of the ring leave host 0?
# 2. The last rank sends to the first one: that hop may also cross. In the
#    hierarchy, a part is 1/local_size of the data, and goes round a ring of as
#    many ranks as there are hosts; all the parts leave the host.
# 3. `hops = zip(host_of, [*host_of[1:], host_of[0]])`

# %% nbgrader={"grade": true, "grade_id": "q12_crossing_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


value = ring_crossing([0, 0, 1, 1], 1_000)
assert near(value, 1_500), (
    f"ring_crossing returned {value}, not 1,500: one hop of 1.5 times the data"
)
value = ring_crossing([0, 1, 0, 1], 1_000)
assert near(value, 3_000), f"two hops: {value}"
value = hierarchical_crossing(2, 2, 1_000)
assert near(value, 1_000), f"two halves, each once: {value}"
value = hierarchical_crossing(4, 2, 1_000)
assert near(value, 1_500), f"two halves, each 1.5 times: {value}"
### BEGIN HIDDEN TESTS
value = ring_crossing([0] * 8 + [1] * 8, 1_600)
assert near(value, 3_000)
assert near(ring_crossing([0, 1], 64), 64)
assert near(ring_crossing([1, 1, 0, 0], 1_000), 1_500)
assert math.isclose(ring_crossing([0, 0, 0], 1_000), 0, abs_tol=1e-9)
assert near(ring_crossing([0, 1, 1, 0, 1, 0, 1, 0], 800), 4_200)
assert near(ring_crossing([0, 0, 1], 1_000), 4_000 / 3)
assert near(ring_crossing([0, 1, 0, 0, 0, 1, 1], 100), 2_400 / 7)
assert near(ring_crossing([0, 2, 1, 0, 2, 2], 600), 2_000)
assert near(ring_crossing([0, 1, 2, 2, 1, 0], 600), 1_000)
assert near(ring_crossing([1, 0, 2, 2, 0, 1], 600), 2_000)
assert near(hierarchical_crossing(2, 8, 5_000), 5_000)
assert near(hierarchical_crossing(2, 1, 70), 70)
assert near(hierarchical_crossing(3, 3, 1_000), 4_000 / 3)
assert near(hierarchical_crossing(32, 5, 1_600), 3_100)
assert math.isclose(hierarchical_crossing(1, 4, 100), 0, abs_tol=1e-9)
### END HIDDEN TESTS

# %% [markdown]
# ### All variants
#
# That script measured all of these: Horovod's ring (*flat*), the same ring over
# plain sockets, once with the ranks in a bad order (*crossing ring*), the
# hierarchical all-reduce, and a variant in which a single *leader* on each host
# exchanges everything. The table compares the cable's own counters with the
# calculated bytes.

# %% tags=["demo"]
plot.plot_variants(slow)

# %% tags=["demo"]
slowest_link

# %% [markdown] nbgrader={"grade": false, "grade_id": "q13_hosts_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 13** (2 points)
#
# In your figure (or the recorded one), at which rate and from which size on is
# the hierarchical all-reduce faster than the flat ring, and by how much?
# Compare that with the ratio of the bytes that crossed. Why does it not win
# for small messages or on a fast link? What would it bring on two hosts with
# one GPU each?
#
# === BEGIN MARK SCHEME ===
# 1 point: rate, size and factor from the reader's own figure or table, beside
# the ratio of bytes (1.5 for two hosts with two ranks; less in time, since the
# steps inside the host also cost time). Half a point: small messages are
# latency: three operations one after another, each negotiated; on a fast link
# those three cost more than the saved bytes. Half a point: with one rank per
# host there is nothing to add up inside; both send the same.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q13_hosts", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# At 100 Mbit/s it is faster from about 1 MB on, by a factor of 1.2 to 1.4; at
# 1000 Mbit/s the difference is not clear on this machine. The cable carries
# 1.5 times the data in the ring and the data once in the hierarchical form. So
# 1.5 is the most that can be gained, when nothing but the cable counts. Small
# messages are all latency, and three operations have three latencies, each with
# its own negotiation. On a fast link these, and the copies inside the host,
# outweigh the bytes saved. With one rank on each host there is nothing to share
# inside a host: the ring of two ranks already sends the data once.
# ### END SOLUTION

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - Several rings, each on links of its own, add up.
# - With two numbers for a link, you can say where one algorithm overtakes another.
# - Compare **bus bandwidth** with links; programs see **algorithm bandwidth**.
# - Compare a prediction with a **baseline**, on figures that it has not seen.
# - On slow links between fast hosts, add up **inside** each host first. That saves
#   bytes. Whether it saves latency depends on the algorithm between the hosts.

# %% [markdown]
# Not shown: your cluster's real network, unless you ran this there. Loopback is
# memory, and namespaces share one machine's cores.

# %% [markdown]
# ## Things to try
#
# - Run `ddl topology` in a terminal, on a login node and in a job on a compute
#   node.
# - Launch `bench_allreduce.py` with `threads=1` and with `oversubscribe=True`
#   and four workers. What is the cost when ranks share a core?
# - `hosts.site(rate_mbit=100)`: at which rate does the model of section 6 train
#   no faster on two hosts than on one?
# - Where two hosts can be made: race again over a cable,
#   `launch("race_allreduce.py", workers=4, nodes=2,
#   site=hosts.site(rate_mbit=100))`. Does halving and doubling still lead? How
#   many of its messages share the cable, and how many of the ring's?
# - On GPUs: launch `bench_allreduce.py` with `nccl=["NCCL_P2P_LEVEL=LOC"]` and
#   without it.

# %% [markdown]
# ## Sources
#
# - Goyal et al. (2017), *Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour*, section 5.5
# - Hockney (1994), *The communication challenge for MPP: Intel Paragon and Meiko
#   CS-2*, Parallel Computing 20
# - Jeaugey (2019), *Massively Scale Your Deep Learning Training with NCCL 2.4*,
#   NVIDIA's developer blog: two trees, pipelined
# - Lee et al. (2025), *Characterizing Compute-Communication Overlap in
#   GPU-Accelerated Distributed Deep Learning*, arXiv:2507.03114: computation
#   takes 19 % longer on average while messages travel
# - NVIDIA, *NCCL User Guide*, environment variables; *nccl-tests*, performance
#   reported by NCCL tests, and issue 212, where NCCL's author says what NVLink
#   SHARP reaches on eight H100s; *NCCL*'s source, `src/graph/tuning.cc`: cost
#   of rings and trees, latencies
# - Patarasuk, Yuan (2009), *Bandwidth optimal all-reduce algorithms for clusters
#   of workstations*, Journal of Parallel and Distributed Computing 69: rings
#   whose hops don't share links

# %% [markdown]
# - Sanders, Speck, Träff (2009), *Two-tree algorithms for full bandwidth
#   broadcast, reduction and scan*, Parallel Computing 35
# - Sergeev, Del Balso (2018), *Horovod: fast and easy distributed deep learning in
#   TensorFlow*, section 5
# - Thakur, Rabenseifner, Gropp (2005), *Optimization of Collective Communication
#   Operations in MPICH*: recursive doubling, halving and doubling
#
# The files under `results/reference/` name the sources of recorded machines
# and links, and what has none.
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
