# %% [markdown]
# # 6. Sharding
#
# **What if the model does not fit?**
#
# | about | this lesson |
# | --- | --- |
# | time | 60 minutes, of which the runs take two |
# | hardware | two cores, and 2.5 GB of free memory |
# | before this | [1. Gradient basics](1.Gradient-Basics.ipynb), [2. System topology](2.System-Topology.ipynb) |
#
# You work out where memory goes, train a transformer with your own sharded optimizer,
# find out when communication hides behind computation, and cut a network into a
# pipeline.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2
seed = 0

# %%
import json
import math
from pathlib import Path

import numpy as np

# %% tags=["demo"]
import pandas as pd

from ddl import launch
from course import check, compare_guess, hint, plot, working
from course import memory, pipeline, roofline
from course.sharding.counterparts import Counterparts

smoke = size == "smoke"
network = dict(
    width=64 if smoke else 512, depth=2 if smoke else 6, seed=seed,
    steps=2 if smoke else 4, threads=1,
)
small = dict(batch=2, length=32)  # activations are next to nothing

# %% [markdown]
# ## 1. Where does memory go?
#
# This lesson's network is a small **transformer** that learns sums, character by
# character: `37+48=85;`. With width 512 and 6 blocks it has 19 million weights. In float32
# each takes 4 bytes, plus 4 for its gradient and 8 for Adam's two moments.
#
# **Predict first.** How many MiB is that? The run reports the peak of its tensors.

# %% tags=["demo"]
guess_needed = None  # MiB

# %% tags=["demo"]
whole = launch("train_transformer.py", name="one rank", workers=1,
               **small, **network)

# %% tags=["demo"]
of_run = memory.of_run(whole)
kept = sum(of_run[kind] for kind in ("weights", "gradients", "state"))
print(f"weights, gradients and state, computed: {kept / 2**20:.1f} MiB")
compare_guess(guess_needed, whole.result["peak_bytes"] / 2**20,
              "MiB of tensors at the peak, measured")

# %% [markdown]
# In **mixed precision** weights and gradients take 2 bytes each, but the optimizer also
# keeps a float32 copy of the weights: 2 + 2 + (4 + 4 + 4) = 16 bytes again, and 18 to 20
# if gradients are accumulated in float32. It halves activations, and messages too, unless
# gradients are averaged in float32, as many large trainings do.
#
# **Predict first.** Llama 3 8B has 8.03 billion weights, and an H100 has 80 GB. How
# many H100s does Adam need, without a single activation?

# %% tags=["demo"]
guess_gpus = None  # H100s, if everything is sharded evenly

# %% tags=["demo"]
llama = sum(memory.per_rank(8_030_000_000, mixed=True).values())
compare_guess(guess_gpus, math.ceil(llama / 80e9), "H100s at least")

# %% [markdown]
# ## 2. Activations, and computing them twice
#
# The backward pass needs what the forward pass has computed: the **activations**. A block
# of our network, with batch $b$, length $s$, width $h$ and $a$ heads, keeps
# $s\,b\,h\,(15 + a s/h)$ numbers. The last term is attention: $s^2$ weights per head and
# sample. (GPT's block has $sbh\,(34 + 5as/h)$ *bytes* in 16 bits with dropout:
# Korthikanti et al. 2022.)
#
# **Activation checkpointing** keeps only each layer's input, and computes the rest again
# in the backward pass.
#
# **Predict first.** The length grows from 64 to 256. By what factor do activations
# grow?

# %% tags=["demo"]
guess_factor = None  # times

# %% tags=["demo"]
shape = dict(workers=1, batch=4, depth=2, width=256, steps=3, threads=1)
lengths = (16, 32, 64) if smoke else (64, 128, 256)
runs = [launch("train_transformer.py", name=f"length {length}",
               length=length, seed=seed, **shape) for length in lengths]
again = launch("train_transformer.py", name="compute twice",
               length=lengths[-1], seed=seed, checkpoint=True, **shape)

# %% tags=["demo"]
def step_s(run):
    return np.median(run.result["step_seconds"][1:])  # the first one compiles


def activations(run):
    return run.result["alive_bytes"]["activations"] / 2**20


display(pd.DataFrame({
    run.name: {
        "MiB predicted": memory.activations_of(run) / 2**20,
        "MiB measured": activations(run),
        "seconds a step": step_s(run),
        "last loss": run.result["losses"][-1],
    }
    for run in [*runs, again]
}).T.round(3))
compare_guess(guess_factor, activations(runs[-1]) / activations(runs[0]),
              "times the activations")

# %% [markdown]
# The formula leaves out smaller arrays. Computing twice adds a forward pass, a third of a
# step's products. **FlashAttention** (Dao et al. 2022) never stores the $s^2$ weights: the
# term $as/h$ disappears. *Selective* recomputation repeats attention alone, for the same
# reason (Korthikanti et al.).
#
# ## 3. Shard the optimizer's state
#
# In data parallelism all ranks keep the same moments. **ZeRO** (Rajbhandari et al. 2020)
# shards what they keep, in three stages:
#
# ![ZeRO's stages on two ranks. Stage 0: weights, gradients and state are whole on both.
# Stage 1 shards the state, stage 2 also gradients, stage 3 also
# weights.](../images/zero.svg)
#
# A step of stage 1 with `n` weights on `N` ranks:
#
# 1. **Reduce-scatter**: rank k gets the mean of all ranks' gradients for shard k.
# 2. Update shard k, with moments that only rank k has.
# 3. **All-gather**: every rank gets all shards of the new weights.
#
# An all-reduce consists of steps 1 and 3, so no more bytes are sent. Shards have equal
# length: if `N` does not divide `n`, the last one is padded with zeros.

# %% tags=["demo"]
Counterparts("stage 1")

# %% [markdown]
# **Predict first.** On two ranks, what percentage of the peak of a rank's tensors does this
# save, measured?

# %% tags=["demo"]
guess_saved = None  # percent

# %% [markdown]
# **Question 1** (4 points)
#
# Complete the class. `world` has `rank` and `size`. `world.all_to_all(shards)` sends
# `shards[k]` to rank k, and returns what all ranks have sent to this one; both are
# `[size, m]`. `world.all_gather(shard)` returns all ranks' shards, `[size, m]`.
# `optimizer(m)` makes an optimizer with state for `m` numbers, and `.change(gradient)`
# returns what to add to them. (Tests use momentum: Adam would hide a wrong factor.)

# %% nbgrader={"grade": false, "grade_id": "q01_sharded", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile my_sharding.py
import numpy as np


class Sharded:
    """Training whose optimizer state is spread over the ranks."""

    def __init__(self, weights, world, optimizer):
        self.weights = weights  # float32 [n], the same on every rank
        self.world = world
        ### BEGIN SOLUTION
        self.shard = -(-len(weights) // world.size)
        self.optimizer = optimizer(self.shard)
        ### END SOLUTION

    def update(self, gradient):
        """Change self.weights; gradient is this rank's, float32 [n]."""
        ### BEGIN SOLUTION
        n, world = len(gradient), self.world
        missing = self.shard * world.size - n
        shards = np.pad(gradient, (0, missing)).reshape(world.size, -1)
        mean = np.mean(world.all_to_all(shards), axis=0)
        weights = np.pad(self.weights, (0, missing))
        own = weights.reshape(world.size, -1)[world.rank]
        own = own + self.optimizer.change(mean)
        self.weights = world.all_gather(own).ravel()[:n]
        ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_sharded
#
# 1. A shard has n/N numbers, rounded up. Pad gradient and weights to N shards, and
#    reshape them to `[world.size, -1]`.
# 2. `all_to_all` gives you shard `world.rank` of every rank's gradient: take the
#    mean over ranks. Update your own shard of the weights, gather all shards, and cut
#    off the padding.
# 3. `missing = self.shard * self.world.size - len(gradient)`

# %% nbgrader={"grade": true, "grade_id": "q01_sharded_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (1, 2):
    tried = sharded.trial("my_sharding.py", n, seed=1)
    sharded.same_weights(tried)
### BEGIN HIDDEN TESTS
for n in (2, 4):
    tried = sharded.trial("my_sharding.py", n, seed=2734)
    sharded.same_weights(tried)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_little_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (2,):
    tried = sharded.trial("my_sharding.py", n, seed=1)
    sharded.state_shared(tried)
    sharded.few_bytes(tried)
### BEGIN HIDDEN TESTS
for n in (2, 4):
    tried = sharded.trial("my_sharding.py", n, seed=2734)
    sharded.state_shared(tried)
    sharded.few_bytes(tried)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_padded_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (2, 3):
    odd = sharded.trial("my_sharding.py", n, seed=1, layers=sharded.ODD)
    sharded.same_weights(odd, "padded")
### BEGIN HIDDEN TESTS
for n in (3, 4):
    odd = sharded.trial("my_sharding.py", n, seed=2734, layers=sharded.ODD)
    sharded.same_weights(odd, "padded")
### END HIDDEN TESTS

# %% [markdown]
# Once question 1 is answered, your class trains the transformer, with Adam, next to the
# course's stages. Stage 3 is PyTorch's **FSDP**
# (`fully_shard`): [6b](6b.Sharding-in-Depth.ipynb), section 2, runs it on two ranks.

# %% tags=["demo"]
stages = [launch("train_transformer.py", name=f"stage {stage}", workers=workers,
                 stage=stage, **small, **network) for stage in range(4)]

# %% tags=["demo"]
file = Path("my_sharding.py")
answered = file.exists() and "YOUR CODE HERE" not in file.read_text()
mine = launch("train_transformer.py", name="your Sharded", workers=workers,
              update=file, check=False, **small, **network) if answered else None

# %% tags=["demo"]
kinds = "weights", "gradients", "state"
none, first = stages[:2]
kept = [sum(memory.of_run(run)[kind] for kind in kinds) for run in stages]
saved = {  # a tiny network needs no new memory: 0 bytes
    name: 100 * (1 - first.result[name] / max(1, none.result[name]))
    for name in ("peak_bytes", "resident_bytes")
}
print(f"{100 * (1 - kept[1] / kept[0]):.0f} % of weights, gradients and state,"
      f" {saved['resident_bytes']:.0f} % of the process")
compare_guess(guess_saved, saved["peak_bytes"], "% of the peak of tensors")

# %% tags=["demo"]
plot.plot_memory(stages)

# %% tags=["demo"]
pd.DataFrame({
    run.name: {
        "last loss": run.result["losses"][-1],
        "MiB of state": run.result["state_bytes"] / 2**20,
        "MiB sent in a step": run.result["sent_bytes"] / 2**20,
        "MiB at the peak": run.result["resident_bytes"] / 2**20,
        "seconds a step": step_s(run),
    }
    for run in [*stages, mine] if run and run.result
}).T.round(3)

# %% [markdown]
# `copies` are of gradients and weights in flight; stage 1 has more of them, so the peak
# shrinks less than what is kept. The line marks the peak of tensors that
# TensorFlow counted. The triangle is the process, which has more, because TensorFlow keeps
# freed memory that later tensors do not fit into.
#
# All losses agree, and your class has the state and the bytes of stage 1. Its peak is
# higher, because it copies the whole vector; stages go matrix by matrix. Stage 3 gathers
# weights twice ([6b](6b.Sharding-in-Depth.ipynb)).

# %% [markdown]
# ## 4. When does communication hide?
#
# A layer's gradients travel while the next layer's are computed. With $T$ tokens per
# rank, backward takes $4nT$ operations for $n$ weights, at $C$ per second. An all-reduce
# of $k$-byte gradients sends $2kn(N-1)/N$ bytes, at $W$ per second. It can hide if
#
# $$ T \ge \frac{k}{2}\,\frac{N-1}{N}\,\frac{C}{W}. $$
#
# **Predict first.** An H100 has $C$ = 989 TFLOP/s in bfloat16 ($k$ = 2), and NVLink
# moves $W$ = 450 GB/s. On 8 of them, how many tokens per GPU are needed?

# %% tags=["demo"]
guess_tokens = None

# %% tags=["demo"]
compare_guess(guess_tokens, roofline.least_tokens(989e12, 450e9, ranks=8),
              "tokens per GPU")

# %% [markdown]
# Measured here, for a layer of 1,024 × 1,024 float32 weights ($k$ = 4); on the right, a
# recorded H100 copies its next layer's weights over PCIe, forward only: $T \ge C/W$.

# %% tags=["demo"]
race = launch("measure_overlap.py", name="overlap", workers=workers, threads=1,
              **(dict(width=256, repeats=2) if smoke else {}))

# %% tags=["demo", "recorded"]
speed, bandwidth = (race.result[key] for key in
                    ("operations_per_s", "bytes_per_s"))
here = roofline.least_tokens(speed, bandwidth, workers, number_bytes=4)
gpu = roofline.h100()
there = (1e12 * gpu["matmul"]["bfloat16_tflop_s"]
         / (1e9 * gpu["bandwidth"]["host_to_device_pinned_gb_s"]))
plot.plot_overlap(roofline.overlap_of(race), roofline.overlap_on_h100(),
                  predicted=[here, there])

# %% [markdown]
# Dotted lines are predictions. The H100 has an engine for copies, so the slower of the
# two decides. Here the same cores do both, so less is hidden.
#
# **Model FLOPs utilization** (MFU) is the useful operations per second ($6n$ per token,
# plus attention) as a share of the peak. The peak here is the best product above:

# %% tags=["demo"]
for run in [whole, *stages]:
    print(f"{run.name}: MFU {roofline.utilization(run, speed):.0%}")

# %% [markdown]
# With 64 tokens each, two ranks mostly wait for messages. MFU depends on what is counted: on
# an H100, [our check](../docs/gpu.md) trained a decoder at 37 % of the data sheet's 989
# TFLOP/s, with half of attention (it is causal) and no embedding. That is half of the card's
# best product, 737 TFLOP/s. Compare MFUs only with one convention.

# %% [markdown]
# ## 5. A pipeline
#
# Each rank can have some of the *layers*: a **stage** (not one of ZeRO's). Rank 1 waits for rank 0's output,
# so a batch is cut into **microbatches** that follow one another.
# **GPipe** (Huang et al. 2019) does all forward passes, then all backward passes.
#
# ![Two stages, each with half of the layers. Stage 0 does F0, F1, waits two cycles, does
# B0, B1. Stage 1 waits one cycle, does F0, F1, B0, B1, and waits
# one.](../images/pipeline.svg)
#
# **Predict first.** With 4 stages and 8 microbatches, what percentage of the time is
# idle: the **bubble**?

# %% tags=["demo"]
guess_bubble = None  # percent

# %% [markdown]
# **Question 2** (1 point)
#
# Write `gpipe(stages, microbatches)`. Return a table: a list for each stage, with a
# cell for each clock cycle: `("F", m)` for the forward pass of microbatch m, `("B", m)`
# for its backward pass, or `None`. A pass takes one cycle and begins as early as it can,
# in the order of microbatches. Backward begins in the last stage, after all its forward
# passes.

# %% nbgrader={"grade": false, "grade_id": "q02_gpipe", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q02_gpipe
#
# 1. In which cycle does stage 0 begin with microbatch m, and how many cycles later
#    does stage s?
# 2. All forward passes take `microbatches + stages - 1` cycles. Backward is the same
#    table with the stages in reverse.
# 3. `row[stage + m] = ("F", m)`

# %% nbgrader={"grade": true, "grade_id": "q02_gpipe_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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
schedule = working(gpipe, pipeline.gpipe, 3, 4)
table = schedule(4, 8)
compare_guess(guess_bubble, 100 * pipeline.bubble(table),
              "% of all cells are idle")

# %% tags=["demo"]
plot.plot_cycles(GPipe=table)

# %% [markdown]
# With $P$ stages and $Q$ microbatches the bubble is $(P-1)/(Q+P-1)$. Now such a table,
# yours if it is right, drives real ranks:

# %% tags=["demo"]
Path("schedule.json").write_text(json.dumps(schedule(workers, 8)))
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
# The rest went into messages, and into waiting for a slower rank.
# [6b](6b.Sharding-in-Depth.ipynb) splits single layers and keeps fewer activations;
# [6c](6c.Sharding-in-Practice.ipynb) combines everything.

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - Adam needs **16 bytes per weight**, also in mixed precision. Activations come on top,
#   and grow with batch, length and width.
# - **ZeRO** shards state, gradients and weights. Stages 1 and 2 send no more than an
#   all-reduce; but if passes are accumulated, stage 2 sends in each pass.
# - Communication hides behind computation once each rank has enough **tokens**.
# - A **pipeline** splits a network by layers. Its bubble is $(P-1)/(Q+P-1)$.
#
# Sources: Rajbhandari et al. 2020 (arXiv:1910.02054), Korthikanti et al. 2022
# (arXiv:2205.05198), Dao et al. 2022 (arXiv:2205.14135), Austin et al. 2025 (How to Scale Your Model), Chowdhery et al. 2022
# (MFU; arXiv:2204.02311), Huang et al. 2019 (arXiv:1811.06965).
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
