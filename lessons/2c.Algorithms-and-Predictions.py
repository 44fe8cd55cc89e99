# %% [markdown]
# # 2c. Algorithms and predictions
#
# **Which all-reduce suits which network, and how far can a prediction go?**
#
# | about | this notebook |
# | --- | --- |
# | time | 95 minutes, in three sittings; the runs alone take about two |
# | hardware | two cores; with GPUs and a network there is more to see |
# | before this | [2. System topology](2.System-Topology.ipynb) |
#
# [2b](2b.Links-in-Depth.ipynb) has the links themselves.
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | algorithms | 1 | 35 |
# | predictions | 2 | 30 |
# | several hosts | 3 | 30 |

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2
seed = 0

# %%
import math

import numpy as np

# %% tags=["demo"]
from ddl import hosts, launch
from course import check, compare_guess, hierarchy
from course import hint, plot, prediction, recorded

smoke = size == "smoke"

# %% [markdown]
# ## 1. Algorithms
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
# Hockney's model gives every message a start-up time **α** and a time **β** for each
# byte. Collectives on $N$ ranks (a power of two) and $M$ bytes take:
#
# | algorithm | time |
# | --- | --- |
# | ring | $2(N-1)\,\alpha + 2\frac{N-1}{N}\,M\beta$ |
# | recursive doubling | $\log_2 N\,(\alpha + M\beta)$ |
# | halving and doubling | $2\log_2 N\,\alpha + 2\frac{N-1}{N}\,M\beta$ |
# | binomial tree, up and down | $2\log_2 N\,(\alpha + M\beta)$ |
#
# This tree waits for all of the data at each of its levels. NCCL has two trees,
# pipelined, which share the bytes: about as many messages, but only $2\,M\beta$.
# On 64 ranks with α = 10 µs and 10 GB/s:

# %% tags=["demo"]
plot.plot_algorithms(64, 10e-6, 1e-10)

# %% [markdown]
# On many ranks, recursive doubling is best for small messages, and halving and doubling
# for large ones: it sends as few bytes as the ring, in fewer messages. For a power of two,
# the ring is *never* faster by this model. Why do libraries still use rings?
#
# - A ring needs links to **two neighbors** only, so each hop can have its own link (2b,
#   question 5). Partners at distance $N/2$ share links and switches, which this model
#   leaves out.
# - Each rank sends to the same neighbor all the time, so a ring can be
#   **pipelined**: pieces flow on before a whole chunk has arrived.
# - It works for **any number** of ranks. The others need powers of two, or
#   more messages.

# %% [markdown]
# **Question 1** (3 points)
#
# Write `all_reduce_s(algorithm, size_bytes, ranks, alpha, beta)` for `"ring"`,
# `"recursive doubling"`, `"halving and doubling"` and `"tree"`. It returns seconds; α
# is in seconds, β in seconds per byte. A single rank takes no time. If $N$ is not a
# power of two:
#
# - for the tree, round $\log_2 N$, its levels, up;
# - for the two doublings, the ranks beyond the largest power of two below $N$ first
#   hand all their data to one of the others, and get the result from it at the end:
#   two more messages of all the data around an all-reduce on that power of two.

# %% nbgrader={"grade": false, "grade_id": "q01_all_reduce", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q01_all_reduce
#
# 1. For each algorithm, ask: how many messages follow each other, and how many
#    bytes does each have?
# 2. Ring: 2(N − 1) messages of 1/N of the data. Tree: the levels up and down again,
#    all the data each time. Recursive doubling: log₂ P messages of everything (P: the
#    largest power of two up to N). Halving and doubling: 2 log₂ P messages that carry
#    2(P − 1)/P of the data together. An N that is not a power of two adds two whole
#    messages to the doublings.
# 3. `rounds = math.floor(math.log2(ranks))`

# %% nbgrader={"grade": true, "grade_id": "q01_all_reduce_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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
# **Question 2** (4 points)
#
# Now *write* halving and doubling, for ranks that are a power of two and any
# `count` of numbers. It has $2\log_2 N$ steps. In each of the first half, a rank and its
# partner work on the same piece. One sends its lower half and goes on with the upper
# one, the other does the opposite, and what arrives is added. Then it goes backwards:
# each sends its finished piece, and keeps what arrives.
#
# - `partner(step, rank, ranks)`: the rank to exchange with in this step;
# - `piece(step, rank, ranks, count)`: which numbers `rank` sends, as a pair
#   `(first, end)` that means `values[first:end]`.
#
# The driver of the ring in [1c](1c.Rings-and-Costs.ipynb) does the rest. `rank ^ 4` is
# the rank whose number differs by 4, up or down. Begin with far partners or with near
# ones.

# %% nbgrader={"grade": false, "grade_id": "q02_halving", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q02_halving
#
# 1. Take 4 ranks and 8 numbers, and write down by hand which rank meets which in each of
#    the 4 steps. The second half is the first one backwards.
# 2. Number the levels 0, 1, …, and count them back in the second half. At level
#    k, ranks differ in bit k. Begin with all the numbers and halve them level by
#    level: the rank's own bit decides which half it goes on with. In the first half
#    of the steps it sends the other one.
# 3. `level = min(step, 2 * int(math.log2(ranks)) - 1 - step)`

# %% nbgrader={"grade": true, "grade_id": "q02_halving_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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
# On GPUs, NVIDIA's **nccl-tests** measure this: start `all_reduce_perf -b 8 -e 256M -f 2
# -g 8` once with `NCCL_ALGO=Ring` and once with `NCCL_ALGO=Tree` in the environment.
#
# **A good place to stop.**

# %% [markdown]
# ## 2. On more ranks
#
# Some of an all-reduce's latency is paid **once for each operation**: Horovod checks
# once per cycle what is ready, and the ranks agree on it. Some is paid **for each
# message**, and a ring sends $2(N-1)$ of them. Two numbers of ranks tell these apart. So
# you measure with one rank more, and predict two more. Ranks without a core take turns:
# four on two cores each compute for twice as long.

# %% tags=["demo"]
fewer, more = (
    launch(
        "bench_allreduce.py", name=f"{n} workers", workers=n,
        sizes=[4, 2**14, 2**18, 2**20, 2**22],
        seconds=0.05 if smoke else 0.5, oversubscribe=True, threads=1,
    )
    for n in (workers, workers + 1)
)

# %% tags=["demo"]
both = prediction.fit_runs([fewer, more])
print(both)

# %% [markdown]
# Some gradients can travel while others are still computed: **overlap**. Without it,
# computation and communication add up; with full overlap only the longer counts.
# `train_cifar.py` can't overlap: it sends all gradients in one message, after the backward
# pass ([6b](6b.Sharding-in-Depth.ipynb) has overlap). The step of your ranks, and their
# computation without communication:

# %% tags=["demo"]
company = launch(
    "step_times.py", name="ranks side by side", workers=workers,
    model="cnn", steps=10 if smoke else 80, threads=1,
    global_batch=64, seed=seed,
)

# %% [markdown]
# **Predict first.** Two more ranks join, each with as many images as
# before. How many times as long as now will a step take?

# %% tags=["demo"]
guess_longer = None  # times as long

# %% tags=["demo"]
cores = company.result["hardware"]["cores"]
larger = prediction.predict_step(company, both, workers + 2, cores=cores)
print(larger)

# %% tags=["demo"]
two_more = launch(
    "train_cifar.py", name="two workers more", workers=workers + 2,
    recipe="batch_norm", steps=40 if smoke else 160, oversubscribe=True,
    train_samples=2_048, test_samples=500, threads=1, seed=seed,
    global_batch=larger.batch,
)

# %% tags=["demo"]
before, after = (
    run.result["global_batch"] / run.result["images_per_s"]
    for run in (company, two_more)
)
compare_guess(guess_longer, after / before, "times as long, measured")

# %% tags=["demo"]
prediction.report({"from two and three": larger}, two_more)

# %% [markdown]
# Where ranks share cores, a rank that should answer may first wait for a core. The fit
# mistakes that for latency of messages, and the share paid once may come out as 0.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q03_error_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 3** (2 points)
#
# How far off was the prediction? Can overlap explain it, for this script? Name two
# things that the prediction leaves out. For each, say whether it makes the prediction
# too low or too high, and on which machine it would matter most.
#
# === BEGIN MARK SCHEME ===
# Half a point: the error with its sign from the reader's own table. Half a point: overlap
# can't, because train_cifar.py sends one message after the backward pass. 1 point (half
# each): two of these, with the right direction: train_cifar.py's longer cycle (too low,
# small models); contention for cores by the background thread, the launcher and the browser
# (too low, few cores); turns on shared cores that are not exactly twice as long (either
# way); input pipeline and updates that do not shrink (too low); the error of the fit
# (either way); other users.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q03_error", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my table the prediction is 5 % too high. Overlap cannot explain it: train_cifar.py
# sends all gradients in one message, when the last of them is computed. Half of the fit's
# own points are off by more than that, and ranks that take turns on a core need not take
# exactly twice as long (either way; matters most with more ranks than cores). One cost has
# the opposite effect: Horovod's background thread needs a core too, and takes it from a
# rank that computes (too low; matters most on few cores).
# ### END SOLUTION

# %% [markdown]
# **Question 4** (3 points)
#
# - `efficiencies(compute_s, exchange_s)`: the efficiency without overlap and
#   with full overlap, as a pair, of a training step with `compute_s` of
#   computation and `exchange_s` of communication.
# - `gbit_per_s_needed(compute_s, size_bytes, ranks, wanted)`: how many Gbit/s
#   each rank's link needs so that a **ring** reaches the efficiency `wanted` *without
#   overlap*. Ignore latency.

# %% nbgrader={"grade": false, "grade_id": "q04_efficiencies", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q04_efficiencies
#
# 1. Efficiency is the time of the computation over the time of the whole step.
#    With full overlap, how long does a step take?
# 2. Without overlap the two times add up, with overlap the longer one counts. For
#    the link, turn it round: from the wanted efficiency, find how long the
#    exchange may take, and how many bits a ring sends in it.
# 3. `exchange_s = compute_s / wanted - compute_s`

# %% nbgrader={"grade": true, "grade_id": "q04_efficiencies_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


low, high = efficiencies(0.3, 0.1)
assert near(low, 0.75), f"efficiencies(0.3, 0.1) begins with {low}, not 0.75"
assert near(high, 1), f"0.1 s fits into 0.3 s: {high}"
value = gbit_per_s_needed(0.45, 100_000_000, 2, 0.9)
assert near(value, 16), f"0.8 Gbit in 0.05 s: {value}"
value = gbit_per_s_needed(0.45, 100_000_000, 4, 0.9)
assert near(value, 24), f"four ranks send 1.5 times the data, 1.2 Gbit: {value}"
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
# ### Clusters that you don't have
#
# For them, each term needs another source: the published speed of one GPU, data sheets
# of links, NCCL's latencies. This course once predicted published efficiencies from
# these, with a wait for the slowest rank that was fitted to them. On figures that it had
# not seen, it was [no better than a constant
# guess](../docs/measured.md#predictions-of-clusters). Its terms are still useful: they
# show what grows with the number of GPUs.
#
# **A good place to stop.**

# %% [markdown]
# ## 3. Several hosts: add up inside first
#
# The network between hosts is slower than the links inside them. In a **hierarchical**
# all-reduce the ranks of each host first split their data and add it up. Then each rank
# exchanges its *part* with its counterparts on the other hosts. Finally the parts are
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

# %% [markdown]
# The gain in **bytes** fades as hosts are added: with many hosts, even the best
# all-reduce sends about twice the data out of each host. **Latency** remains: a ring over
# all $N$ ranks waits for $2(N-1)$ messages in a row; a hierarchy of rings over $H$ hosts with
# $L$ ranks each waits for $2(L-1) + 2(H-1)$.
#
# **Question 5** (3 points)
#
# How many bytes leave a host in an all-reduce of `size_bytes`?
#
# - `ring_crossing(host_of, size_bytes)`: those that leave host 0, for a ring in
#   rank order. `host_of` lists each rank's host, such as `[0, 0, 1, 1]`. Count
#   the hops from host 0 to another; each carries $2(N-1)/N$ of the data.
# - `hierarchical_crossing(hosts, local_size, size_bytes)`: for `hosts` hosts of
#   `local_size` ranks. Each rank all-reduces one of `local_size` parts with its
#   counterparts, by a ring over the hosts.

# %% nbgrader={"grade": false, "grade_id": "q05_crossing", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q05_crossing
#
# 1. Draw two hosts with two ranks each. Which hops of the ring leave host 0?
# 2. The last rank sends to the first one: that hop may also cross. In the
#    hierarchy, a part is 1/local_size of the data, and goes round a ring of as
#    many ranks as there are hosts; all the parts leave the host.
# 3. `hops = zip(host_of, [*host_of[1:], host_of[0]])`

# %% nbgrader={"grade": true, "grade_id": "q05_crossing_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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
value = ring_crossing([1, 1, 0, 0], 1_000)
assert near(value, 1_500), f"the last rank sends to the first: {value}"
value = ring_crossing([0, 1, 2], 900)
assert near(value, 1_200), f"only the first hop leaves host 0: {value}"
### BEGIN HIDDEN TESTS
value = ring_crossing([0] * 8 + [1] * 8, 1_600)
assert near(value, 3_000)
assert near(ring_crossing([0, 1], 64), 64)
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
# ### For real, on one machine
#
# The kernel can give processes their own network (a **network namespace**), join two of
# these by a virtual cable, and limit its rate. To the processes this *is* two hosts on a
# slow network: `site=hosts.site(rate_mbit=100)`. It needs permission; root has it,
# and on many systems everyone. If it is refused, the cells below show recorded runs. Two
# ranks on each host all-reduce by Horovod's ring, and by a hierarchy:

# %% tags=["demo"]
ways = dict(workers=4, nodes=2, max_bytes=2**20 if smoke else 2**22,
            factor=16 if smoke else 4, seconds=0.1 if smoke else 1)
rates = (100,) if smoke else (1000, 100)
if refused := hosts.permitted():  # the reason why not
    print(refused)
    slow = recorded("two-hosts")
else:
    slow = [
        launch("hierarchical_allreduce.py", name=f"{rate} Mbit/s",
               site=hosts.site(rate_mbit=rate), **ways)
        for rate in rates
    ]

# %% [markdown]
# Both ran in turns: *flat* is Horovod's ring. The table compares the cable's own counters
# with the calculated bytes.

# %% tags=["demo"]
plot.plot_variants(slow)

# %% tags=["demo"]
hierarchy.variants(slow[-1])

# %% [markdown] nbgrader={"grade": false, "grade_id": "q06_hosts_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 6** (2 points)
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

# %% [markdown] nbgrader={"grade": true, "grade_id": "q06_hosts", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
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
# - With two numbers for a link, you can say where one algorithm overtakes another.
# - Compare a prediction with a **baseline**, on figures that it has not seen.
# - On slow links between fast hosts, add up **inside** each host first: that saves bytes.

# %% [markdown]
# ## Things to try
#
# - Where two hosts can be made, `launch("step_times.py", workers=2, nodes=2, threads=1,
#   widths=[8, 32], site=hosts.site(rate_mbit=100))`: which of two networks loses more
#   to the cable?

# %% [markdown]
# ## Sources
#
# - Goyal et al. (2017), *Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour*, section 4: a hierarchical all-reduce
# - Hockney (1994), *The communication challenge for MPP: Intel Paragon and Meiko
#   CS-2*
# - Jeaugey (2019), *Massively Scale Your Deep Learning Training with NCCL 2.4*,
#   NVIDIA's developer blog: two trees, pipelined
# - Sanders, Speck, Träff (2009), *Two-tree algorithms for full bandwidth
#   broadcast, reduction and scan*
# - Thakur, Rabenseifner, Gropp (2005), *Optimization of Collective Communication
#   Operations in MPICH*: recursive doubling, halving and doubling
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
