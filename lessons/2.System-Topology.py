# %% [markdown]
# # 2. System topology
#
# **How are my workers connected, and what does that cost?**
#
# | about | this lesson |
# | --- | --- |
# | time | 60 minutes, of which the runs take two |
# | hardware | two cores; with GPUs and a network there is more to see |
# | before this | [Start_Here](../Start_Here.ipynb), [1. Gradient basics](1.Gradient-Basics.ipynb) |
#
# You look inside a machine, measure its links, fit two numbers to what you measured, and
# predict a training step.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2
seed = 0

# %%
import itertools
import math

import numpy as np

# %% tags=["demo"]
from ddl import launch
from course import check, compare_guess, hint, plot, topology
from course import cost, prediction

smoke = size == "smoke"
messages = dict(  # largest message in bytes, seconds per size
    max_bytes=2**20 if smoke else 2**28, seconds=0.05 if smoke else 0.5
)
step = dict(threads=1, global_batch=64, seed=seed)

# %% [markdown]
# ## 1. What is in this machine?
#
# The links between two ranks (memory, buses, a network) decide what communication costs.
# This is your machine:

# %% tags=["demo"]
machine = topology.here()
plot.plot_topology(machine)

# %% [markdown]
# The cores of a **socket** share its memory channels. A **NUMA node** is a block of memory
# with the cores near it. GPUs and network cards attach to a tree of **PCIe** links.
#
# `topology.load` reads a recorded machine. Some pairs of the GPUs of NVIDIA's DGX-1
# (2017) are joined by **NVLinks**, fast links from GPU to GPU.
#
# **Predict first.** Each of the eight GPUs has six NVLinks: two to each of two GPUs, and
# one to each of two others. How many of the 28 pairs have no NVLink between them?

# %% tags=["demo"]
guess_apart = None  # how many pairs

# %% tags=["demo"]
dgx = topology.load("dgx-1")
matrix = dgx.matrix()
gpus = list(matrix.index)
apart = [
    pair for pair in itertools.combinations(gpus, 2)
    if not matrix.loc[pair].startswith("NV")
]
compare_guess(guess_apart, len(apart), "pairs without an NVLink")

# %% tags=["demo"]
plot.plot_topology(dgx)

# %% tags=["demo"]
print(dgx.matrix_text().expandtabs(7))

# %% [markdown]
# This **matrix** is what `nvidia-smi topo -m` prints: `NV2` means two NVLinks used as
# one; `PIX`, `PXB`, `PHB` and `NODE` are ever longer ways over PCIe, and `SYS` leads from
# one NUMA node to another. [2b. Links in
# depth](2b.Links-in-Depth.ipynb), section 1, reads such matrices.

# %% [markdown]
# ## 2. Links, and the slowest hop
#
# Every link has a **bandwidth** (bytes per second, once data flows) and a **latency**
# (the time until the first byte arrives). Data sheets of NVLink add up *both
# directions*; a transfer uses one. Networks are sold in *bits* per second: 8 Gbit/s
# are 1 GB/s.
#
# **Predict first.** Add up the bandwidth of an H100's NVLinks, in one direction. How many
# times the bandwidth of a 1 Gbit/s network is that?

# %% tags=["demo"]
guess_times = None  # how many times

# %% tags=["demo"]
speed = {link["link"]: link["gb_per_s"] for link in topology.links()}
ratio = speed["NVLink 4, an H100's 18 links"] / speed["1 Gbit/s Ethernet"]
compare_guess(guess_times, ratio, "times as fast, one direction each")

# %% tags=["demo"]
plot.plot_links()

# %% [markdown]
# A **ring** all-reduce (lesson 1) is as fast as its slowest pair of neighbors, here the
# network. Two hosts of today have eight GPUs each. Between GPUs of a host, NVLinks carry
# 450 GB/s in each direction; to the network, each GPU has a card of 50 GB/s. A ring
# through all 16 GPUs uses *one* card of each host. A **hierarchy** adds up eight parts
# inside each host first; each part then crosses through another card.
#
# **Predict first.** How many times as fast is the hierarchy, without latency?

# %% tags=["demo"]
guess_hierarchy = None  # times as fast

# %% tags=["demo"]
inside, card = 450, 50  # GB/s in one direction
ring_s = 2 * 15 / 16 / card  # for 1 GB, N = 16
in_host_s = 2 * 7 / 8 / inside  # add up the parts; gather them in the end
cross_s = 2 * 1 / 2 * (1 / 8) / card  # an eighth, between two hosts
compare_guess(guess_hierarchy, ring_s / (in_host_s + cross_s),
              "times as fast")

# %% [markdown]
# Cards with the same number usually share a switch, a **rail**, so these eight all-reduces
# don't meet. In an NVL72 rack, 72 GPUs are one NVLink domain, as a host's eight are here.
#
# **Question 1** (2 points)
#
# Write `slowest(ring, gb_per_s)`. `ring` lists the GPUs in order; the last one
# sends to the first. `gb_per_s` is a dictionary from (sender, receiver) to
# bandwidth. Return the slowest hop as a pair (sender, receiver). If several
# hops are equally slow, return the first of them.

# %% nbgrader={"grade": false, "grade_id": "q01_slowest", "locked": false, "schema_version": 3, "solution": true, "task": false}
def slowest(ring, gb_per_s):
    """Return the slowest hop of a ring."""
    ### BEGIN SOLUTION
    hops = zip(ring, [*ring[1:], ring[0]])
    return min(hops, key=lambda hop: gb_per_s[hop])
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_slowest
#
# 1. A ring of N GPUs has N hops. The one that is forgotten most easily leads from
#    the last to the first.
# 2. Pair each GPU with the one after it, the last with the first. `min` returns
#    the first of several equal ones.
# 3. `hops = list(zip(ring, [*ring[1:], ring[0]]))`

# %% nbgrader={"grade": true, "grade_id": "q01_slowest_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
def symmetric(links):
    return links | {(b, a): speed for (a, b), speed in links.items()}


square = symmetric({("A", "B"): 50, ("B", "C"): 25, ("C", "D"): 50,
                    ("D", "A"): 10, ("A", "C"): 25, ("B", "D"): 50})
hop = slowest(["A", "B", "C", "D"], square)
assert tuple(hop) == ("D", "A"), (
    f"slowest returned {hop}, not ('D', 'A'): D sends to A at 10 GB/s"
)
hop = slowest(["A", "B", "D", "C"], square)
assert tuple(hop) == ("C", "A"), f"the last hop, C to A, has 25; not {hop}"
hop = slowest(["B", "D", "A"], dict.fromkeys(square, 25))
assert tuple(hop) == ("B", "D"), f"of equally slow hops, the first: not {hop}"
hop = slowest(["A", "B", "C"], square | {("B", "A"): 1})
assert tuple(hop) == ("B", "C"), f"A sends at 50, however slow B is: not {hop}"
### BEGIN HIDDEN TESTS
assert tuple(slowest(["D", "A", "B", "C"], square)) == ("D", "A")
assert tuple(slowest(["B", "D"], square)) == ("B", "D")
assert tuple(slowest(["B", "C"], {**square, ("C", "B"): 1})) == ("C", "B")
one_way = square | {("A", "B"): 1}
assert tuple(slowest(["B", "A", "C", "D"], one_way)) == ("A", "C")
assert tuple(slowest(["D", "C", "A", "B"], one_way)) == ("A", "B")
ring = ["GPU3", "GPU0", "GPU5", "GPU1", "GPU4", "GPU2"]
even = {(a, b): 50.5 for a in sorted(ring) for b in sorted(ring)}
assert tuple(slowest(ring, even)) == ("GPU3", "GPU0")
tied = even | {("GPU5", "GPU1"): 50.499, ("GPU2", "GPU3"): 50.499}
assert tuple(slowest(ring, tied)) == ("GPU5", "GPU1")
tied = tied | {("GPU4", "GPU2"): 50.498, ("GPU2", "GPU3"): 50.498}
assert tuple(slowest(ring, tied)) == ("GPU4", "GPU2")
### END HIDDEN TESTS

# %% [markdown]
# So the *order* of a ring matters. NCCL also runs eight rings at once, each over another
# pair of cards: [2b](2b.Links-in-Depth.ipynb), section 3.

# %% [markdown]
# ## 3. Measure, and fit two numbers
#
# Time an all-reduce between your ranks, from 4 bytes on.
#
# **Predict first.** How many µs does the shortest one take?

# %% tags=["demo"]
guess_shortest = None  # µs

# %% tags=["demo"]
measured = launch(
    "bench_allreduce.py", name="Horovod", workers=workers, **messages
)

# %% tags=["demo"]
points = prediction.points(measured)  # pairs (bytes, seconds)
least = min(points)
compare_guess(guess_shortest, 1e6 * least[1], f"µs for {least[0]} bytes")

# %% [markdown]
# Hockney's model gives every message a start-up time $\alpha$ and a time $\beta$ for each
# byte. A ring of $N$ ranks sends $2(N-1)$ messages of $M/N$ bytes one after another:
#
# $$t = 2(N-1)\,\alpha + 2\frac{N-1}{N}\,M\beta$$
#
# **Question 2** (4 points)
#
# Write `fit_link(points, ranks)`. `points` is a list of pairs (bytes, seconds) of ring
# all-reduces. Return the $\alpha$ and $\beta$ that minimize the sum of squares of the
# model's **relative** errors: 10 % off counts the same at 50 µs and at 50 ms. The model
# is linear in both, so you can divide each equation by its time and use
# `np.linalg.lstsq`.

# %% nbgrader={"grade": false, "grade_id": "q02_fit_link", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fit_link(points, ranks):
    """Return (alpha, beta), in seconds and in seconds per byte."""
    ### BEGIN SOLUTION
    size, seconds = np.array(points).T
    steps = 2 * (ranks - 1)
    rows = np.stack([steps / seconds, steps * size / ranks / seconds]).T
    return np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)[0]
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_fit_link
#
# 1. Write the ring's time as α times something plus β times something. Each point
#    is then one linear equation.
# 2. The factors are 2(N − 1) and 2(N − 1)·bytes/N. Divide each equation by its
#    measured seconds: the right-hand sides are then all 1, and the errors
#    relative.
# 3. `size, seconds = np.array(points).T`

# %% nbgrader={"grade": true, "grade_id": "q02_fit_link_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

import numpy as np


def ring_points(ranks, alpha, beta, sizes, factors=(1,)):
    times = [2 * (ranks - 1) * (alpha + n / ranks * beta) for n in sizes]
    return [(n, t * factors[i % len(factors)])
            for i, (n, t) in enumerate(zip(sizes, times))]


sizes = [4**k for k in range(1, 14)]
alpha, beta = fit_link(ring_points(4, 3e-5, 2e-10, sizes), 4)
assert math.isclose(alpha, 3e-5, rel_tol=0.02), (
    f"fit_link returned alpha = {alpha}, not 3e-5"
)
assert math.isclose(beta, 2e-10, rel_tol=0.02), f"beta: 2e-10, not {beta}"
noisy = ring_points(2, 3e-5, 2e-10, sizes, (1.2, 0.8, 1, 0.9))
for value, least in zip(fit_link(noisy, 2), (2.815e-5, 1.9286e-10)):
    assert math.isclose(value, least, rel_tol=0.01), (
        f"times up to 20 % off: {value}, not {least}, of all points' relative errors"
    )
### BEGIN HIDDEN TESTS
alpha, beta = fit_link(ring_points(2, 1e-6, 1e-11, sizes), 2)
assert math.isclose(alpha, 1e-6, rel_tol=0.02)
assert math.isclose(beta, 1e-11, rel_tol=0.02)
# Points off the line: every one of them counts.
for ranks, alpha, beta, some in ((8, 5e-5, 1e-9, sizes),
                                 (3, 0.5, 0.1, [50, 1, 700, 4, 50, 20, 9])):
    factors = 1.2, 0.9, 1, 0.85, 1.1, 1.3, 0.7
    noisy = ring_points(ranks, alpha, beta, some, factors)
    rows = [[1 / t, n / ranks / t] for n, t in noisy]
    rows = 2 * (ranks - 1) * np.array(rows)
    wanted = np.linalg.solve(rows.T @ rows, rows.sum(axis=0))
    for value, least in zip(fit_link(noisy, ranks), wanted):
        assert math.isclose(value, least, rel_tol=0.01)
### END HIDDEN TESTS

# %% [markdown]
# The course's own fit is more robust to outliers:

# %% tags=["demo"]
fit = cost.fit(points, workers)
print(fit)
count, (fewest, took_s) = 2 * (workers - 1), min(points)
print(f"{count} × alpha: {1e6 * count * fit.alpha_s:,.0f} µs;",
      f"measured for {fewest} bytes: {1e6 * took_s:,.0f} µs")

# %% [markdown]
# Is $\alpha$ the link's latency? Two ranks also send bare messages through a socket:

# %% tags=["demo"]
bare = launch(
    "bench_p2p.py", name="bare messages", workers=workers, **messages
)
plot.plot_fit(measured, fit, bare)

# %% [markdown]
# The dotted line is what a ring's messages take without Horovod: tens of µs, where
# Horovod takes milliseconds. So $\alpha$ is **not the link's latency**. Nearly all of
# it is Horovod's fixed cost of an operation: it wakes up once in a cycle (here 1 ms),
# and the ranks agree on what to reduce. For long messages both lines rise with the
# bytes. Other algorithms are in [2c](2c.Algorithms-and-Predictions.ipynb), section 1.

# %% [markdown]
# ## 4. Predict your training, then run it
#
# A training step on $N$ ranks is one rank's computation for its part of the batch,
# and then an all-reduce, here of 1 MB. Ranks on one chip share its caches and memory, so
# one is also measured **alongside** its neighbors, while they compute. All wait for the
# slowest, so what counts is the **expected maximum** of $N$ steps.
#
# **Predict first.** Your ranks share a global batch of 64. What **scaling efficiency**
# will they reach: images/s, divided by $N$ times the images/s of one rank, in percent?

# %% tags=["demo"]
guess_efficiency = None  # percent

# %% tags=["demo"]
alone = launch(
    "step_times.py", name="a rank alone", workers=1, model="cnn",
    part=workers, steps=10 if smoke else 80, **step,
)

# %% tags=["demo"]
company = launch(
    "step_times.py", name="ranks side by side", workers=workers,
    model="cnn", steps=10 if smoke else 80, **step,
)

# %% tags=["demo"]
predicted = {
    "a rank alone": prediction.predict_step(alone, fit),
    "ranks side by side": prediction.predict_step(company, fit, one=alone),
}

# %% [markdown]
# Now the training, with the same network and batch.

# %% tags=["demo"]
training = launch(
    "train_cifar.py", name="measured", workers=workers,
    recipe="batch_norm", steps=40 if smoke else 320,
    train_samples=2_048, test_samples=500, **step,
)

# %% tags=["demo"]
found = predicted["ranks side by side"].efficiency_at(
    training.result["global_batch"] / training.result["images_per_s"]
)
compare_guess(guess_efficiency, 100 * found, "% scaling efficiency, measured")

# %% tags=["demo"]
prediction.report(predicted, training)

# %% [markdown]
# From ranks side by side, expect an error within 15 %, in either direction
# ([measured](../docs/measured.md); more on busy cores). Most of the prediction is the
# *measured* computation; the two fitted numbers add only the all-reduce. This script
# sends one message after the backward pass, so the column without overlap applies. It
# also sets a longer cycle (1.9 ms with 32 images per rank), which the fit doesn't know.
# Horovod's fixed cost is paid once per operation rather than $2(N-1)$ times, so the fit
# does not carry over to many more ranks.
#
# More ranks, and several hosts:
# [2c](2c.Algorithms-and-Predictions.ipynb), sections 2 and 3.

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - Bandwidths are **per direction**, and a ring is as fast as its **slowest hop**.
# - For few bytes Horovod's **fixed cost** decides, not the link; for many, the **bytes**.
#   Measured computation and two fitted numbers predict a training step within 15 %, in
#   either direction.
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
