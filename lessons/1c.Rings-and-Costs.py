# %% [markdown]
# # 1c. Rings and costs
#
# **How do ranks average without a center, and when does an average cost more than it saves?**
#
# | about | this notebook |
# | --- | --- |
# | time | 60 minutes |
# | hardware | two cores; the one launched run takes ten seconds |
# | before this | [1. Gradient basics](1.Gradient-Basics.ipynb); [1b](1b.Gradients-in-Depth.ipynb) helps |
#
# You write a ring all-reduce, compare it with Horovod's, and estimate how many ranks are worth
# their messages.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2

# %%
from timeit import repeat

import numpy as np

# Points (x, y). The lesson's model predicts y = w * x.
noisy = [(1, 0), (2, 1), (3, 1), (4, 6.25)]

# %% tags=["demo"]
import pandas as pd

from course import check, compare_guess, cost, descent, hint, plot, ring
from ddl import launch

many = descent.generated(64)  # 64 points around y = x, with noise


def seconds(function):
    """Return the shortest time of a call in seconds."""
    return min(repeat(function, number=5, repeat=5)) / 5

# %% [markdown]
# ## 1. Your own ring
#
# If all ranks sent their gradients to one rank, it would be swamped: among $N$ ranks it
# receives $N - 1$ gradients, and sends as many. A **ring** has no such rank. Each one
# sends only to the next, and the last to the first. The gradient is cut into $N$ chunks:
#
# 1. **reduce-scatter**, $N - 1$ steps: each rank sends one chunk, and *adds* the chunk
#    that arrives to its own;
# 2. **all-gather**, $N - 1$ steps: each rank sends one chunk, and *keeps* the one that
#    arrives.
#
# ![Left: three ranks send whole gradients to rank 0, which sends the average
# back. Right: four ranks in a ring, each sending a quarter to the next in each
# of six steps.](../images/ring.svg)

# %% tags=["demo"]
plot.plot_ring(4)

# %% [markdown]
# **Question 1** (2 points)
#
# Write `split(values, ranks)`. It cuts a 1-D NumPy array into a list of `ranks`
# consecutive chunks. Their sizes differ by at most one, the larger chunks
# first: 10 values for 4 ranks make chunks of 3, 3, 2, 2. With fewer values than
# ranks, the last chunks are empty.

# %% nbgrader={"grade": false, "grade_id": "q01_split", "locked": false, "schema_version": 3, "solution": true, "task": false}
def split(values, ranks):
    """Return a list of `ranks` consecutive chunks of the array."""
    ### BEGIN SOLUTION
    size, larger = divmod(len(values), ranks)
    chunks, first = [], 0
    for rank in range(ranks):
        end = first + size + (rank < larger)
        chunks.append(values[first:end])
        first = end
    return chunks
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_split
#
# 1. How many values does every chunk get at least, and how many are then left
#    over?
# 2. With a quotient q and a remainder r, the first r chunks have q + 1 values and
#    the others q. Keep track of where the next chunk begins.
# 3. `size, larger = divmod(len(values), ranks)`

# %% nbgrader={"grade": true, "grade_id": "q01_split_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np


def check_chunks(count, sizes):
    values = np.arange(count) ** 2 % 7 - 0.5  # some of them equal
    chunks = [list(map(float, c)) for c in split(values, len(sizes))]
    found = [len(chunk) for chunk in chunks]
    assert found == sizes, (
        f"split of {count} values returned chunks of {found}, not {sizes}"
    )
    joined = [value for chunk in chunks for value in chunk]
    assert joined == list(values), "the values are not in their order"


check_chunks(8, [2, 2, 2, 2])
check_chunks(10, [3, 3, 2, 2])
check_chunks(2, [1, 1, 0])
### BEGIN HIDDEN TESTS
for count in (0, 1, 3, 7, 24):
    for ranks in range(1, 9):
        right = np.array_split(np.arange(count), ranks)
        check_chunks(count, [len(chunk) for chunk in right])
### END HIDDEN TESTS

# %% [markdown]
# **Predict first.** A gradient of 1000 numbers is reduced on 1000 ranks. How many
# numbers does each rank send?

# %% tags=["demo"]
guess_thousand = None  # how many numbers

# %% tags=["demo"]
messages, share = cost.terms("ring", 1000)
compare_guess(guess_thousand, share * 1000,
              "numbers sent by each of 1000 ranks")

# %% [markdown]
# Each rank sends $2(N-1)$ chunks, each one $N$-th of the data:
# $2\frac{N-1}{N}$ of the gradient in all, less than twice, **however many
# ranks there are**. As long as ranks do the adding, no all-reduce can send
# less (Patarasuk and Yuan, 2009). The number of messages does grow.

# %% [markdown]
# **Question 2** (4 points)
#
# The $2(N-1)$ steps are numbered from 0; the first $N - 1$ are the
# reduce-scatter. Write
#
# - `chunk_to_send(step, rank, ranks)`: the number (0 to `ranks - 1`) of the
#   chunk that `rank` sends to the next rank in this step. In any one step, all
#   ranks send different chunks;
# - `combine(mine, received, step, ranks)`: the receiving rank's version of that
#   chunk after the step. `mine` is its own version and `received` is the one
#   that arrived; both are arrays of the same size.
#
# In the end every rank must have the **sum**. Look at the figure above:
# whatever has just arrived at rank 1 was sent by rank 0. `%` is your friend.

# %% nbgrader={"grade": false, "grade_id": "q02_ring", "locked": false, "schema_version": 3, "solution": true, "task": false}
def chunk_to_send(step, rank, ranks):
    """Return the number of the chunk that `rank` sends in this step."""
    ### BEGIN SOLUTION
    return (rank - step) % ranks
    ### END SOLUTION


def combine(mine, received, step, ranks):
    """Return the chunk as the receiving rank has it after this step."""
    ### BEGIN SOLUTION
    return mine + received if step < ranks - 1 else received
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_ring
#
# 1. In step 0, let each rank send the chunk of its own number. What it sends next
#    is what it has just received: whose was that?
# 2. With each step, the number of the chunk that a rank sends goes down by one,
#    round the ring. In the first N − 1 steps what arrives is added; after that it
#    is complete, and takes the place of what was there.
# 3. `reducing = step < ranks - 1`

# %% nbgrader={"grade": true, "grade_id": "q02_ring_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

from course.shared.ring import all_reduce


def reduced(ranks, count, cut=lambda v, ranks: v.reshape(ranks, -1)):
    """Run the ring, check the sum, and return what each rank sent."""
    data = np.random.default_rng(ranks).normal(size=(ranks, count))
    done = all_reduce(list(data), cut, chunk_to_send, combine)
    for rank, array in enumerate(done.arrays):
        assert np.allclose(array, data.sum(axis=0)), (
            f"{ranks} ranks, {count} values: rank {rank} ends with {array}, "
            f"not {data.sum(axis=0)}"
        )
    return done.sent


for ranks in (2, 3, 4):
    sent = set(reduced(ranks, 24))
    assert sent == {2 * (ranks - 1) * 24 // ranks}, f"sent: {sent}"
### BEGIN HIDDEN TESTS
for ranks in range(1, 9):
    assert set(reduced(ranks, 3 * ranks)) == {6 * (ranks - 1)}
    assert sum(reduced(ranks, 5, np.array_split)) == 10 * (ranks - 1)
### END HIDDEN TESTS

# %% [markdown]
# Divide the sum by $N$ to get the average. Did you notice that one formula covers both
# phases?

# %% [markdown]
# Here are five steps of two workers, worker 0 with the first two points of `noisy`, worker 1
# with the last two:

# %% tags=["demo"]
w, exchanges = 0.0, []
for _ in range(5):
    exchanges.append(descent.exchange(w, 0.02, [noisy[:2], noisy[2:]]))
    w = exchanges[-1].after

own = pd.DataFrame([e.gradients for e in exchanges]).add_prefix("worker ")
rest = pd.DataFrame(exchanges)[["w", "average", "after"]]
own.join(rest).round(4)

# %% [markdown]
# **Predict first.** In which cases do two workers take the same step as one worker
# with all points: two and two points of `noisy`; one and three; or two and two, with
# **batch norm**, a layer that shifts and scales its inputs to mean 0 and standard
# deviation 1 over the batch that it is given?

# %% tags=["demo"]
guess_same = None  # for example "2 + 2 and 1 + 3"

# %% tags=["demo"]
def batch_norm(points):
    x, y = np.array(points).T
    return np.column_stack([(x - x.mean()) / x.std(), y])


def gap(cut, layer=list):
    """Return how far one step is from one worker's with all points."""
    batches = [layer(noisy[:cut]), layer(noisy[cut:])]
    together = descent.exchange(0, 0.02, [layer(noisy)]).after
    return abs(descent.exchange(0, 0.02, batches).after - together)


came = (f"2 + 2: {gap(2):.3g} · 1 + 3: {gap(1):.3g} · "
        f"2 + 2 with batch norm: {gap(2, batch_norm):.3g}")
compare_guess(guess_same, came, "how far the steps are apart")

# %% [markdown] nbgrader={"grade": false, "grade_id": "q03_same_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 3** (2 points)
#
# In the first test of lesson 1's question 2, two workers go from 0 to 0.05893 in
# four iterations at the learning rate 0.001. Now train one worker as long, from 0,
# with 1b's `train_loop_batches` on `[[(1, 1), (2, 2), (1, 0), (2, 1)], [(3, 3), (4, 4),
# (3, 1), (4, 6.25)]]`: each batch joins both workers' batches. Why are the results equal? When would
# they differ?
#
# === BEGIN MARK SCHEME ===
# 1 point: the mean of equally many means is the mean of all points: each point
# is divided by 2 and by 2 again, instead of by 4, so every step is equal. 1
# point: only if the workers' batches have equal sizes; otherwise a point in a
# small batch counts more (example: one point against three).
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q03_same", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# Each worker divides by its 2 points, and the average divides by 2 workers. So
# every point counts a quarter, exactly as in a batch of four: each step is
# equal, and so is the weight. With unequal batches a point counts 1/(workers ×
# size of its worker's batch): points in small batches count more, and the
# results differ.
# ### END SOLUTION

# %% [markdown]
# Real data rarely divide evenly, so trainers drop the rest, pad it, or weight it:
# `train_cifar.py` drops it.

# %% [markdown]
# ## 2. What an average costs
#
# A message takes a fixed time, the **latency** $\alpha$, plus a time $\beta$ for each
# byte, one over the **bandwidth**. In a ring of $N$ ranks, each rank sends $2(N-1)$
# messages in turn. With $M$ bytes of data, each message has $M/N$:
#
# $$t = 2(N-1)\left(\alpha + \beta\,\frac{M}{N}\right)$$
#
# `average_gradients.py` trains one weight with Horovod and then times all-reduces of
# four sizes.
#
# **Predict first.** At best, how long does an all-reduce of 4 KiB between two ranks take
# on this machine, in microseconds?

# %% tags=["demo"]
guess_latency = None  # microseconds

# %% tags=["demo"]
run = launch(
    "average_gradients.py", name="one weight", workers=workers, steps=20
)

# %% tags=["demo"]
took = dict(run.result["all_reduce_seconds"])
compare_guess(guess_latency, 1e6 * took[4096], "µs for an all-reduce of 4 KiB")

# %% [markdown]
# These times give us $\alpha$ and $\beta$. The time of a gradient is measured below,
# for our single weight and for a dense layer of 1024 × 1024 weights with 256 samples:
# alone; with 32 passes for one average, as in 1b, section 7; and the same with
# *synchronous* batch norm, which takes mean and spread over all workers' points. Then
# each pass normalizes as one large batch would (with equal parts), for the price of
# messages: in every pass, each such layer needs an all-reduce on the way forward
# (PyTorch gathers instead), and one on the way back.
#
# **Predict first.** Train our model of one weight on 64 ranks. How many times as many
# samples a second does it process as on one rank?

# %% tags=["demo"]
guess_speedup = None  # how many times

# %% tags=["demo"]
batch, weights = (
    np.random.default_rng(0).normal(size=shape).astype("float32")
    for shape in ((256, 1024), (1024, 1024))
)
layer_s = seconds(lambda: batch.T @ (batch @ weights))
gradient, statistics = weights.nbytes, 2 * 4 * 1024  # bytes of an all-reduce
steps = {  # seconds of computing, and the step's all-reduces
    "one weight": (seconds(lambda: descent.gradient(1, many)), [8]),
    "one layer": (layer_s, [gradient]),
    "one layer, 32 passes": (32 * layer_s, [gradient]),
    "32 passes, synchronous batch norm": (
        32 * layer_s, [gradient] + 32 * 2 * [statistics]
    ),
}

# %% tags=["demo"]
link = cost.fit(run.result["all_reduce_seconds"], workers)
compute_s, messages = steps["one weight"]
bounds = [
    64 * compute_s / (compute_s + waiting_s)
    for waiting_s in reversed(ring.waits(messages, 64, link, workers))
]
came = " to ".join(f"{bound:.2g}" for bound in bounds)
compare_guess(guess_speedup, came, "times the samples a second, 64 ranks")

# %% tags=["demo"]
plot.plot_cost(steps, link, workers)

# %% [markdown]
# One weight on two ranks is *slower* than on one: its gradient is ready long before
# the first message arrives. That is one way in which "two GPUs are slower than one": a
# network for the small gray digits of MNIST computes so little that its ranks spend most
# of the time on messages.
# Communication is worth it if computing a gradient takes long compared with sending
# it: large layers, large per-rank batches, aggregation, fast links. Synchronous batch
# norm eats into what aggregation saves: it sends messages in every pass.
#
# This is an estimate. Horovod looks for work about once per millisecond, and $\alpha$
# includes some of that waiting. Is it paid for each message, or once for an
# all-reduce? With two ranks you can't tell. The edges of each band are the two cases, and
# for 64 ranks they are far apart. Other links would join 64 ranks, and many trainers (not
# `train_cifar.py`) overlap messages with computation. Lesson 2 measures real links.

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - In a ring of any size, each rank sends less than twice its gradient. The number of
#   messages grows with the ranks.
# - An average costs more than it saves if a gradient takes less time than its messages:
#   small layers, small batches, slow links.
#
# ## Things to try
#
# - Launch `average_gradients.py` with `points=63`. Is the average still the
#   gradient of all points? Is it still the mean of the two gradients?

# %% [markdown]
# ## Sources
#
# - Patarasuk, Yuan (2009), *Bandwidth optimal all-reduce algorithms for clusters
#   of workstations*, Journal of Parallel and Distributed Computing 69
# - Sergeev, Del Balso (2018), *Horovod: fast and easy distributed deep learning
#   in TensorFlow*, section 3
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
