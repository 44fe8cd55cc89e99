# %% [markdown]
# # 2b. Links in depth
#
# **What do the links between my GPUs carry, and how do I get all of it?**
#
# | about | this notebook |
# | --- | --- |
# | time | 85 minutes, in three sittings; the runs alone take less than one |
# | hardware | two cores; with GPUs and a network there is more to see |
# | before this | [2. System topology](2.System-Topology.ipynb) |
#
# [2c](2c.Algorithms-and-Predictions.ipynb) continues with algorithms, predictions and
# several hosts.
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | maps and units | 1 to 2 | 30 |
# | rings | 3 | 30 |
# | what links carry | 4 | 25 |
#
# Units: 1 GB is $10^9$ bytes, as vendors count; 1 GiB is $2^{30}$ bytes. A *bit* rate
# (Gbit/s) is eight times the *byte* rate.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2

# %%
import itertools
import math

import numpy as np

# %% tags=["demo"]
from ddl import launch
from course import check, compare_guess, hint, plot, topology

smoke = size == "smoke"
messages = dict(  # largest message in bytes, seconds per size
    max_bytes=2**20 if smoke else 2**28, seconds=0.05 if smoke else 0.5
)
dgx = topology.load("dgx-1")
gpus = list(dgx.matrix().index)
gb_per_s = {  # in each direction, over the best path
    (a, b): dgx.bandwidth(a, b)
    for a, b in itertools.permutations(gpus, 2)
}

# %% [markdown]
# ## 1. Matrices, and paths between GPUs
#
# This is again the matrix of a DGX-1. Two NVLinks between the same GPUs work as one that is
# twice as fast. Pairs without an NVLink communicate over PCIe and the link between the
# sockets, unless **NCCL**, NVIDIA's library for collectives, forwards the data through a GPU
# that has a link to both. With an **NVSwitch**, as in a DGX A100 or H100, every GPU reaches
# every other at full speed.

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
# NUMA node, SYS crosses NUMA nodes.](../images/distances.svg)

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
tabs = "\tGPU0\tGPU1\nGPU0\tX\tNV12\nGPU1\tNV12\tX\n"
found = connection(tabs, "GPU1", "GPU0")
assert found == "NV12", f"between tabs: {found!r}, not 'NV12'"
try:
    connection(box, "GPU3", "GPU0")
except ValueError:
    pass
else:
    raise AssertionError("there is no GPU3 in it: raise a ValueError")
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
for pair in (("GPU0", "GPU3"), ("GPU0", "Affinity"),
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
#   or across PCIe switches, without a copy in between or work for the CPU.
# - **GPUDirect RDMA** (*remote direct memory access*): the same with a network card as
#   the peer, which itself reads and writes the GPU's memory.
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
assert peer_to_peer("NODE", "PHB"), "NODE and PHB mean the same to NCCL"
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
# **Question 3** (3 points)
#
# Mind the units: 64 KiB in 4 µs are 15.3 GiB/s, or 16.4 GB/s, more than PCIe 3.0 ×16 can
# carry.
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
# NCCL **pipelines** the copy: while one piece goes down, the next comes up. That is up to
# twice as fast: only the slower way counts, unless the two share a bus.
#
# **A good place to stop.**

# %% [markdown]
# ## 3. The best ring, and several at once
#
# A ring is as fast as its slowest hop ([lesson 2](2.System-Topology.ipynb), section 2).
#
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
other = {("A", "B"): 5, ("A", "C"): 20, ("A", "D"): 60,
         ("B", "C"): 40, ("B", "D"): 10, ("C", "D"): 60}
other |= {(b, a): speed for (a, b), speed in other.items()}
ring = best_ring(["A", "B", "C", "D"], other)
around = min(other[hop] for hop in zip(ring, [*ring[1:], ring[0]]))
assert around == 10, f"the slowest hop of {ring} has {around}; 10 is possible"
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
# Try yours on the DGX-1: `best_ring(gpus, gb_per_s)` finds a ring without a single hop
# over PCIe. The order 0, 1, 2, ... 7 has two.
#
# ### Several rings at once
#
# A ring uses two of the links of each GPU, and a DGX-1's GPU has six. So NCCL runs several
# rings at the same time, each on links of its own and on its own part of the data.
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
assert separate([0, 1, 2], nvlinks("01 12 02 01 12 02")), (
    "two links of each pair: the same ring twice"
)
assert separate([0, 1, 2, 3], nvlinks("01 02 02 03 12 13 13 23")), (
    "the first ring that fits leaves none, others do"
)
### BEGIN HIDDEN TESTS
import numpy as np

assert separate([5, 1, 6, 0, 7, 4, 2, 3], nvlinks(DGX_1))
assert separate([3, 1, 4, 0, 2], nvlinks("01 02 03 04 12 13 14 23 24 34"))
assert not separate([0, 1, 2, 3], nvlinks("01 02 03 12 13 23"))
assert separate([3, 0, 2, 1], nvlinks("01 02 03 12 13 23 01 12 23 03"))
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
# Time an all-reduce again, as in [lesson 2](2.System-Topology.ipynb), section 3. (Without
# GPUs, this build of Horovod uses **Gloo**, a library for collectives over sockets; a build
# with MPI uses MPI.)

# %% tags=["demo"]
measured = launch(
    "bench_allreduce.py", name="Horovod", workers=workers, **messages
)

# %% [markdown]
# ### Two kinds of bandwidth
#
# For an operation on $M$ bytes that takes time $t$:
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
# After an **all-gather** every rank has all ranks' data, after a **broadcast** one rank's.
#
# When a **switch** does the sum, ranks send less, and this comparison fails: eight
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
value = bus_gb_per_s("all_gather", 4_000_000_000, 1, 4)
assert near(value, 3), f"all_gather on four ranks: the factor is 0.75; {value}"
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
plot.plot_bandwidth(measured)

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
# (a) Up to about 64 KiB the time stays near its minimum of about 1.5 ms. That
# is latency: starting messages, and Horovod's own work. (b) The bus bandwidth
# is highest, 1.05 GB/s, at the largest size, and is still rising there. Elsewhere it may
# peak earlier and fall beyond: copies that no longer fit into the cache are a likely
# reason. (c) Horovod's background thread looks for
# ready tensors once per cycle, and the ranks first agree on what is ready,
# which takes messages too; and a ring takes 2(N − 1) rounds of messages, so two
# even for two ranks. (d) Nothing here crossed a network card or a wire: loopback copies
# memory. A network's latency and bandwidth have to be measured on that network.
# ### END SOLUTION

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - Bytes are not bits, and links are named by their speed in **one** direction or both.
# - Several rings, each on links of its own, add up.
# - Compare **bus bandwidth** with links; programs see **algorithm bandwidth**.
#
# Not shown: your cluster's real network, unless you ran this there. Loopback is memory.
#
# ## Things to try
#
# - Run `ddl topology` on a login node and in a job on a compute node.
# - Launch `bench_allreduce.py` with `threads=1` and with `oversubscribe=True`
#   and four workers. What is the cost when ranks share a core?
# - On GPUs: launch `bench_allreduce.py` with `nccl=["NCCL_P2P_LEVEL=LOC"]` and
#   without it.
#
# Sources: NVIDIA, *nccl-tests*, performance reported by NCCL tests; NVIDIA, *NCCL*'s issue
# 212: what NVLink SHARP reaches on eight H100s; Patarasuk, Yuan (2009), *Bandwidth optimal
# all-reduce algorithms for clusters of workstations*: rings whose hops don't share links.
# The files under `results/reference/` name the sources of recorded machines and links, and
# what has none.
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
