# %% [markdown]
# # 6. Sharding
#
# **What if the model does not fit?**
#
# | about | this lesson |
# | --- | --- |
# | time | 60 minutes, of which the runs take two |
# | hardware | two cores, and 1 GB of free memory |
# | before this | [1. Gradient basics](1.Gradient-Basics.ipynb), [2. System topology](2.System-Topology.ipynb) |
#
# You work out where memory goes, shard the optimizer's state over the ranks, and cut
# a network into a pipeline.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2
seed = 0

# %%
import json
import math

import numpy as np

# %% tags=["demo"]
import pandas as pd

from ddl import launch
from course import check, compare_guess, hint, plot, yours
from course import memory, pipeline

smoke = size == "smoke"
network = dict(
    width=64 if smoke else 512, depth=2 if smoke else 6, seed=seed,
    steps=2 if smoke else 4, threads=1,
)
small = dict(batch=2, length=32)  # activations are next to nothing

# %% [markdown]
# ## 1. Where does memory go?
#
# The network of this lesson is a small **transformer** that learns sums, character by
# character: `37+48=85;`. With a width of 512 and 6 blocks it has 19 million weights,
# and every one of them takes 4 bytes, plus 4 for its gradient and 8 for Adam's
# moments.
#
# **Predict first.** How many MiB is that?

# %% tags=["demo"]
guess_needed = None  # MiB

# %% tags=["demo"]
whole = launch("train_transformer.py", name="one rank", workers=1,
               **small, **network)

# %% tags=["demo"]
of_run = memory.of_run(whole)
kept = sum(of_run[kind] for kind in ("weights", "gradients", "state"))
compare_guess(guess_needed, kept / 2**20,
              "MiB of weights, gradients and state")

# %% tags=["demo"]
plot.plot_memory([whole])

# %% [markdown]
# The black mark is the peak that the operating system reported.
#
# In **mixed precision** weights and gradients have 2 bytes, but the optimizer keeps a
# copy of the weights in 4, next to its moments in 4 each. Adam then needs 2 + 2 + (4
# + 4 + 4) = 16 bytes per weight: as many as before, or 18 to 20 if gradients are
# accumulated in float32. Mixed precision saves memory for activations, and time.
#
# **Question 1** (1 point)
#
# Write `needed(parameters, slots, mixed=False)`. Return the bytes of weights,
# gradients and optimizer state, a tuple of three. `slots` is the values of optimizer
# state per weight: 0 for SGD, 1 with momentum, 2 for Adam.

# %% nbgrader={"grade": false, "grade_id": "q01_needed", "locked": false, "schema_version": 3, "solution": true, "task": false}
def needed(parameters, slots, mixed=False):
    """Return the bytes of weights, gradients and optimizer state."""
    ### BEGIN SOLUTION
    number, copy = (2, 4) if mixed else (4, 0)
    state = (copy + 4 * slots) * parameters
    return number * parameters, number * parameters, state
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_needed
#
# 1. How many bytes has one weight, its gradient, its state?
# 2. A slot has 4 bytes in both precisions. In mixed precision the state also has a
#    copy of the weight in 4 bytes, for any optimizer.
# 3. `number, copy = (2, 4) if mixed else (4, 0)`

# %% nbgrader={"grade": true, "grade_id": "q01_needed_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
momentum = tuple(needed(10, 1))
assert momentum == (40, 40, 40), (
    f"needed(10, 1) returned {momentum}, not (40, 40, 40): 4 bytes per weight each"
)
mixed = tuple(needed(10, 2, mixed=True))
assert mixed == (20, 20, 120), f"2, 2 and 4 + 2 × 4 bytes; not {mixed}"
### BEGIN HIDDEN TESTS
assert tuple(needed(10, 0)) == (40, 40, 0)
assert tuple(needed(10, 2)) == (40, 40, 80)
assert tuple(needed(10, 1, mixed=True)) == (20, 20, 80)
assert tuple(needed(7, 0, mixed=True)) == (14, 14, 28)
llama = tuple(needed(8_030_000_000, 2, True))
assert llama == (16_060_000_000, 16_060_000_000, 96_360_000_000)
### END HIDDEN TESTS

# %% [markdown]
# **Predict first.** Llama 3 8B has 8.03 billion weights, and an H100 has 80 GB. How
# many H100s does Adam in mixed precision need, without a single activation?

# %% tags=["demo"]
guess_gpus = None  # H100s, if everything is shared out evenly

# %% tags=["demo"]
llama = sum(memory.per_rank(8_030_000_000, mixed=True).values())
compare_guess(guess_gpus, math.ceil(llama / 80e9), "H100s at least")

# %% tags=["demo"]
published = {"GPT-2": 1.54e9, "Llama 3 8B": 8.03e9, "Llama 3 70B": 70.6e9,
             "Llama 3 405B": 405e9}
pd.DataFrame(
    {name: {kind: count / 1e9 for kind, count in
            memory.per_rank(round(weights), mixed=True).items()}
     for name, weights in published.items()}
).T.assign(all=lambda table: table.sum(axis=1)).round(1)  # GB

# %% [markdown]
# ## 2. Activations, and computing them twice
#
# Backward needs what forward has computed: the **activations**. They grow with the
# batch. **Checkpointing** keeps only what goes into each layer, and computes the rest
# again when the backward pass reaches it.
#
# **Predict first.** A backward pass takes about twice as long as a forward pass. By
# what percentage does a second forward pass lengthen a step?

# %% tags=["demo"]
guess_longer = None  # percent

# %% tags=["demo"]
large = dict(batch=2 if smoke else 8, length=32 if smoke else 128)
keeps = launch("train_transformer.py", name="keep all", workers=1,
               **large, **network)

# %% tags=["demo"]
again = launch("train_transformer.py", name="compute again", workers=1,
               checkpoint=True, **large, **network)

# %% tags=["demo"]
def step_s(run):
    return np.median(run.result["step_seconds"][1:])  # the first one compiles


compare_guess(guess_longer, 100 * (step_s(again) / step_s(keeps) - 1),
              "% longer")

# %% tags=["demo"]
for run in (keeps, again):
    mib = run.result["alive_bytes"]["activations"] / 2**20
    print(f"{run.name}: {mib:.0f} MiB of activations, "
          f"loss {run.result['losses'][-1]:.6f}")

# %% [markdown]
# Only the forward pass is repeated, neither the backward pass nor the optimizer's
# update.

# %% [markdown]
# ## 3. Share out the optimizer's state
#
# In data parallelizm every rank keeps the same moments, and makes the same update.
# **ZeRO** (Rajbhandari et al. 2020) lets each rank do that for its own part only. A
# step of its stage 1 with `n` weights on `N` ranks:
#
# 1. **Reduce-scatter**: rank k gets the mean of all ranks' gradients for part k.
# 2. Update part k, with moments that only rank k has.
# 3. **All-gather**: every rank gets all parts of the new weights.
#
# An all-reduce consists of these two, so no more bytes are sent. Parts are equally long:
# if `N` does not divide `n`, the last one is padded with zeros.
#
# | step | here | PyTorch |
# | --- | --- | --- |
# | 1 | `world.all_to_all`, and your own mean | `dist.reduce_scatter_tensor` |
# | 2 | `optimizer(part_length)` | `ZeroRedundancyOptimizer` saves the same memory, with more bytes sent |
# | 3 | `world.all_gather` | `dist.all_gather_into_tensor` |
#
# **Predict first.** On two ranks, what percentage of a rank's memory for weights,
# gradients and Adam's state does this save?

# %% tags=["demo"]
guess_saved = None  # percent

# %% [markdown]
# **Question 2** (4 points)
#
# Complete the class. `world.rank`, `world.size`; `world.all_to_all(parts)` sends
# `parts[k]` to rank k, and returns what all ranks have sent to this one; both arrays
# are `[size, m]`. `world.all_gather(part)` returns all ranks' parts, `[size, m]`.
# `optimizer(m)` makes an optimizer with state for `m` numbers, and
# `.change(gradient)` returns what to add to them. (Tests use momentum: Adam would hide
# a wrong factor. They run your file on one to four ranks.)

# %% nbgrader={"grade": false, "grade_id": "q02_sharded", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile my_sharding.py
import numpy as np


class Sharded:
    """Training whose optimizer state is spread over the ranks."""

    def __init__(self, weights, world, optimizer):
        self.weights = weights  # float32 [n], the same on every rank
        self.world = world
        ### BEGIN SOLUTION
        self.part = -(-len(weights) // world.size)
        self.optimizer = optimizer(self.part)
        ### END SOLUTION

    def update(self, gradient):
        """Change self.weights; gradient is this rank's, float32 [n]."""
        ### BEGIN SOLUTION
        n, world = len(gradient), self.world
        missing = self.part * world.size - n
        parts = np.pad(gradient, (0, missing)).reshape(world.size, -1)
        mean = np.mean(world.all_to_all(parts), axis=0)
        weights = np.pad(self.weights, (0, missing))
        own = weights.reshape(world.size, -1)[world.rank]
        own = own + self.optimizer.change(mean)
        self.weights = world.all_gather(own).ravel()[:n]
        ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_sharded
#
# 1. A part has n/N numbers, rounded up. Pad gradient and weights to N parts, and
#    reshape them to `[world.size, -1]`.
# 2. `all_to_all` gives you part `world.rank` of every rank's gradient: take the
#    mean over ranks. Update your own part of the weights, gather all parts, and cut
#    off the padding.
# 3. `missing = self.part * self.world.size - len(gradient)`

# %% nbgrader={"grade": true, "grade_id": "q02_sharded_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (1, 2, 4):
    sharded.same_weights(sharded.trial("my_sharding.py", n, seed=1))
### BEGIN HIDDEN TESTS
for n in (1, 2, 4):
    sharded.same_weights(sharded.trial("my_sharding.py", n, seed=2734))
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q02_averaged_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (2, 4):
    tried = sharded.trial("my_sharding.py", n, seed=1)
    sharded.averaged(tried)
    sharded.gathered(tried)
### BEGIN HIDDEN TESTS
for n in (2, 4):
    tried = sharded.trial("my_sharding.py", n, seed=2734)
    sharded.averaged(tried)
    sharded.gathered(tried)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q02_little_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (2, 4):
    tried = sharded.trial("my_sharding.py", n, seed=1)
    sharded.state_shared(tried)
    sharded.few_bytes(tried)
### BEGIN HIDDEN TESTS
for n in (2, 4):
    tried = sharded.trial("my_sharding.py", n, seed=2734)
    sharded.state_shared(tried)
    sharded.few_bytes(tried)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q02_padded_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (2, 3, 4):
    odd = sharded.trial("my_sharding.py", n, seed=1, layers=sharded.ODD)
    sharded.padded(odd)
### BEGIN HIDDEN TESTS
for n in (2, 3, 4):
    odd = sharded.trial("my_sharding.py", n, seed=2734, layers=sharded.ODD)
    sharded.padded(odd)
### END HIDDEN TESTS

# %% [markdown]
# Stage 2 also frees other ranks' gradients as soon as a layer's are exchanged. Stage
# 3, PyTorch's **FSDP** (`fully_shard`), also keeps the weights in parts, and gathers
# a layer's just before it is needed.

# %% tags=["demo"]
stages = []
for stage in range(4):
    stages.append(launch(
        "train_transformer.py", name=f"stage {stage}", workers=workers,
        stage=stage, **small, **network,
    ))

# %% tags=["demo"]
kinds = "weights", "gradients", "state"
totals = [sum(memory.of_run(run)[kind] for kind in kinds) for run in stages]
compare_guess(guess_saved, 100 * (1 - totals[1] / totals[0]),
              "% saved in stage 1")

# %% tags=["demo"]
plot.plot_memory(stages)

# %% tags=["demo"]
pd.DataFrame({
    run.name: {
        "last loss": run.result["losses"][-1],
        "MiB sent in a step": run.result["sent_bytes"] / 2**20,
        "seconds a step": step_s(run),
    }
    for run in stages
}).T

# %% [markdown]
# The training is the same. Stage 3 gathers weights twice, forward and backward, and
# sends half as much again: you write it in
# [6b. Sharding in depth](6b.Sharding-in-Depth.ipynb), section 1.

# %% [markdown]
# ## 4. A pipeline
#
# Another way is to give each rank some of the *layers*: a **stage**. Rank 1 waits for
# rank 0's output, so a batch is cut into **microbatches** that follow one another.
# **GPipe** (Huang et al. 2019) does all forward passes, then all backward passes.
#
# **Predict first.** With 4 stages and 8 microbatches, what percentage of the time is
# idle? (This share is the **bubble**.)

# %% tags=["demo"]
guess_bubble = None  # percent

# %% [markdown]
# **Question 3** (2 points)
#
# Write `gpipe(stages, microbatches)`. Return a table: a list for each stage, with a
# cell for each clock cycle. A cell is `("F", m)` for the forward pass of microbatch m,
# `("B", m)` for its backward pass, or `None`. A pass takes one cycle and begins as early
# as it can, in the order of microbatches. Backward begins in the last stage, after all
# its forward passes.

# %% nbgrader={"grade": false, "grade_id": "q03_gpipe", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gpipe(stages, microbatches):
    """Return the table of GPipe's clock cycles."""
    ### BEGIN SOLUTION
    half = microbatches + stages - 1
    table = [[None] * (2 * half) for _ in range(stages)]
    for stage, row in enumerate(table):
        for m in range(microbatches):
            row[stage + m] = ("F", m)
            row[half + stages - 1 - stage + m] = ("B", m)
    return table
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_gpipe
#
# 1. In which cycle does stage 0 begin with microbatch m, and how many cycles later
#    does stage s?
# 2. All forward passes take `microbatches + stages - 1` cycles. Backward is the same
#    table with the stages in reverse.
# 3. `row[stage + m] = ("F", m)`

# %% nbgrader={"grade": true, "grade_id": "q03_gpipe_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
F0, F1, B0, B1 = ("F", 0), ("F", 1), ("B", 0), ("B", 1)


def rows(table):
    return [[None if cell is None else tuple(cell) for cell in row]
            for row in table]


assert rows(gpipe(1, 2)) == [[F0, F1, B0, B1]], (
    f"gpipe(1, 2) returned {rows(gpipe(1, 2))}, but one stage never waits"
)
two = [[F0, F1, None, None, B0, B1], [None, F0, F1, B0, B1, None]]
assert rows(gpipe(2, 2)) == two, f"two stages: {two}"
### BEGIN HIDDEN TESTS
assert rows(gpipe(2, 1)) == [[F0, None, None, B0], [None, F0, B0, None]]
for p, m in ((3, 1), (3, 5), (4, 8), (6, 2), (1, 1)):
    table = rows(gpipe(p, m))
    assert len(table) == p
    for s, row in enumerate(table):
        assert len(row) == 2 * (m + p - 1)
        assert row.count(None) == 2 * (p - 1)
        for b in range(m):
            assert row[s + b] == ("F", b)
            assert row[m + 2 * (p - 1) - s + b] == ("B", b)
### END HIDDEN TESTS

# %% tags=["demo"]
schedule = yours(gpipe, pipeline.gpipe, 3, 4)
table = schedule(4, 8)
compare_guess(guess_bubble, 100 * pipeline.bubble(table),
              "% of all cells are idle")

# %% tags=["demo"]
plot.plot_cycles(GPipe=table)

# %% [markdown]
# With $P$ stages and $Q$ microbatches the bubble is $(P-1)/(Q+P-1)$. Now such a table, of
# your own function if it is right, drives real ranks:

# %% tags=["demo"]
with open("schedule.json", "w") as file:
    json.dump(schedule(workers, 8), file)
piped = launch(
    "run_pipeline.py", name="pipeline", workers=workers, threads=1, seed=seed,
    schedule="schedule.json",
    **(dict(width=64, steps=2, depth=workers) if smoke else {}),
)

# %% tags=["demo"]
busy = np.sum(piped.result["busy_seconds"][-1])
idle = 1 - busy / (workers * piped.result["step_seconds"][-1])
print(f"computed: {pipeline.bubble(piped.result['schedule']):.0%} idle; "
      f"measured: {idle:.0%}, messages included")

# %% [markdown]
# The rest went into messages, and into waiting for the slower rank of a cycle.
# [6b](6b.Sharding-in-Depth.ipynb) splits single layers (section 2), keeps fewer
# activations (3), combines all ways for a trillion weights (4), and saves messages (5).

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - Adam needs **16 bytes a weight**, in float32 and in mixed precision; activations
#   come on top, and grow with the batch.
# - **ZeRO** shares out state, gradients and weights over data-parallel ranks. The result
#   is the same, and stages 1 and 2 send no more than an all-reduce.
# - A **pipeline** shares out layers, and its bubble is $(P-1)/(Q+P-1)$.
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
