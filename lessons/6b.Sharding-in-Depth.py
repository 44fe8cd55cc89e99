# %% [markdown]
# # 6b. Sharding in depth
#
# **Which way of splitting a model, and when?**
#
# | about | this notebook |
# | --- | --- |
# | time | 110 minutes, in two sittings |
# | hardware | two cores, and 2.5 GB of free memory |
# | before this | [6. Sharding](6.Sharding.ipynb) |
#
# Your own DistributedDataParallel, stages 2 and 3 of ZeRO, layers in parts, and a pipeline
# that keeps less. [6c](6c.Sharding-in-Practice.ipynb) puts them to use.
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | your own DDP, weights in parts | 1 to 2 | 60 |
# | layers in parts, pipelines | 3 to 4 | 50 |

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2
seed = 0

# %%
import json
from pathlib import Path

import numpy as np

# %% tags=["demo"]
import pandas as pd

from ddl import launch
from course import check, compare_guess, hint, plot, working
from course import memory, pipeline
from course.sharding.counterparts import Counterparts

smoke = size == "smoke"
network = dict(
    width=256 if smoke else 512, depth=2 if smoke else 6, seed=seed,
    steps=2 if smoke else 4, threads=1,
)

# %% [markdown]
# ## 1. Your own DDP
#
# Backward computes gradients from the last layer to the first. PyTorch's
# `DistributedDataParallel` averages each as it becomes ready, in **buckets**, while the
# next ones are computed (Li et al. 2020). You write it in three steps: `Naive` is here.
#
# **Predict first.** 24 gradients, 12.6 MB in all, go as 24 messages or as one. By what
# factor does the single message shorten the step?

# %% tags=["demo"]
guess_flat = None  # times

# %% [markdown]
# **Question 1** (4 points)
#
# Complete `Flat` and `Bucketed`. `ready(name, gradient)` is called for each gradient,
# float32 `[n]`, once it is computed. `finish()` returns all means by name.
# `world.start(values)` begins an average over ranks and returns at once; `.result()` of
# what it returns waits for the mean.
#
# `Flat` sends one message in `finish`. `Bucketed` begins a message as soon as the
# gradients that have not been sent have at least `bucket` values together, waits for
# none before `finish`, and sends the rest there.

# %% nbgrader={"grade": false, "grade_id": "q01_ddp", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile my_ddp.py
import numpy as np


class Naive:
    """One message per gradient, after the backward pass."""

    def __init__(self, world, bucket):
        self.world, self.bucket = world, bucket
        self.waiting, self.messages = {}, []

    def ready(self, name, gradient):
        self.waiting[name] = gradient

    def finish(self):
        means = {}
        for name, gradient in self.waiting.items():
            means[name] = self.world.start(gradient).result()
        return means


class Flat(Naive):
    """One message for all gradients."""

    def finish(self):
        ### BEGIN SOLUTION
        mean = self.world.start(np.concatenate([*self.waiting.values()]))
        ends = np.cumsum([len(each) for each in self.waiting.values()])
        return dict(zip(self.waiting, np.split(mean.result(), ends[:-1])))
        ### END SOLUTION


class Bucketed(Naive):
    """Messages of at least `bucket` values, which begin when full."""

    def ready(self, name, gradient):
        ### BEGIN SOLUTION
        self.waiting[name] = gradient
        if sum(len(each) for each in self.waiting.values()) >= self.bucket:
            self.send()
        ### END SOLUTION

    def send(self):
        """Begin a message with all that is waiting."""
        ### BEGIN SOLUTION
        message = self.world.start(np.concatenate([*self.waiting.values()]))
        self.messages.append((self.waiting, message))
        self.waiting = {}
        ### END SOLUTION

    def finish(self):
        ### BEGIN SOLUTION
        if self.waiting:
            self.send()
        means = {}
        for gradients, message in self.messages:
            ends = np.cumsum([len(each) for each in gradients.values()])
            means |= zip(gradients, np.split(message.result(), ends[:-1]))
        return means
        ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_ddp
#
# 1. `Flat` joins all gradients with `np.concatenate`, and cuts the mean apart again.
# 2. `send` begins a message and keeps it with the gradients that are in it. `ready` calls
#    `send` if the bucket is full, `finish` if something is left.
# 3. `np.split(mean, np.cumsum(lengths)[:-1])`

# %% nbgrader={"grade": true, "grade_id": "q01_ddp_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import buckets

tried = buckets.trial("my_ddp.py", 2, seed=1)
buckets.few_messages(tried, "Flat")
buckets.means(tried, "Flat")
### BEGIN HIDDEN TESTS
tried = buckets.trial("my_ddp.py", 3, seed=2734)
buckets.few_messages(tried, "Flat")
buckets.means(tried, "Flat")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_bucketed_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import buckets

tried = buckets.trial("my_ddp.py", 2, seed=1)
buckets.means(tried, "Bucketed")
### BEGIN HIDDEN TESTS
buckets.means(buckets.trial("my_ddp.py", 3, seed=2734), "Bucketed")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_messages_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import buckets

tried = buckets.trial("my_ddp.py", 2, seed=1)
buckets.few_messages(tried, "Bucketed")
### BEGIN HIDDEN TESTS
tried = buckets.trial("my_ddp.py", 3, seed=2734)
buckets.few_messages(tried, "Bucketed")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_overlap_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import buckets

tried = buckets.trial("my_ddp.py", 2, seed=1)
buckets.overlapped(tried)
### BEGIN HIDDEN TESTS
buckets.overlapped(buckets.trial("my_ddp.py", 3, seed=2734))
### END HIDDEN TESTS

# %% [markdown]
# Now your classes race, in turns, in one run:

# %% tags=["demo"]
file = Path("my_ddp.py")
answered = file.exists() and "YOUR CODE HERE" not in file.read_text()
ddp = launch(
    "race_ddp.py", name="your DDP", workers=workers, threads=1, file=file,
    classes=["Naive", "Flat", "Bucketed"] if answered else ["Naive"],
    **(dict(repeats=2, layers=4, width=128) if smoke else {}),
)
variants = ddp.result["variants"]

# %% tags=["demo"]
plot.plot_communication(ddp)

# %% tags=["demo"]
ms = pd.DataFrame({name: variant["seconds"] for name, variant in variants.items()}) * 1e3
outcome = "not yet"
if answered:
    outcome = (ms["Naive"] / ms["Flat"]).median()
    ms["Flat ÷ Bucketed"] = ms["Flat"] / ms["Bucketed"]
display(ms.round(2))  # one row per repeat
compare_guess(guess_flat, outcome, "times as long with 24 messages")

# %% [markdown]
# Before you read on, explain your table in two sentences: why does `Flat` beat `Naive`,
# and when does `Bucketed` gain more?
#
# Each message has a latency, and a single message has it only once. Here a message costs far
# more than the loopback's latency, because Horovod's background thread first agrees on it with
# the other ranks, and competes for busy cores. Buckets gain if
# something other than the computing cores moves the bytes. Here the same two cores do
# both; NCCL's all-reduce also takes some of a GPU's multiprocessors.

# %% tags=["demo"]
Counterparts("DDP")

# %% [markdown]
# ## 2. Gradients and weights in parts
#
# Stage 1 of ZeRO keeps whole gradients until the update. In **stage 2** each layer's
# gradient is reduce-scattered as soon as it is computed, and only the rank's shard stays.
# In **stage 3** a rank also keeps only its shard of the weights. A layer is gathered
# before its forward pass and freed after it, and again for backward.
#
# **Predict first.** How many times the bytes of an all-reduce does stage 3 send?

# %% tags=["demo"]
guess_times = None  # times the bytes of an all-reduce

# %% tags=["demo"]
none, all_ = [launch("train_transformer.py", name=f"stage {stage}",
                     workers=workers, stage=stage, batch=2, length=32,
                     **network).result["sent_bytes"] for stage in (0, 3)]
compare_guess(guess_times, all_ / none, "times the bytes")

# %% [markdown]
# **Question 2** (7 points)
#
# Complete both classes. `layers` maps names to weights, float32 `[n]`, equal on all ranks.
# `gather(name)` returns a layer's weights, `[n]`. `reduce(name, gradient)` gets this
# rank's gradient of the layer. `update` takes one step with what was reduced. `world` and
# `optimizer` are those of lesson 6; `world.split(values)` returns equal shards, padded:
# `[size, m]`. Between calls, the arrays that your object keeps (the optimizers' aside) may
# hold at most all weights and its shards of gradients in stage 2, and its shards of both in
# stage 3.

# %% nbgrader={"grade": false, "grade_id": "q02_zero", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile my_zero.py
import numpy as np


class GradientsSharded:
    """Stage 2: whole weights, shards of gradients and state."""

    def __init__(self, layers, world, optimizer):
        self.world, self.weights, self.gradients = world, dict(layers), {}
        ### BEGIN SOLUTION
        self.n, self.optimizers = {}, {}
        for name, weights in layers.items():
            self.n[name] = len(weights)
            self.optimizers[name] = optimizer(world.split(weights).shape[1])
        ### END SOLUTION

    def gather(self, name):
        return self.weights[name]

    def reduce(self, name, gradient):
        ### BEGIN SOLUTION
        received = self.world.all_to_all(self.world.split(gradient))
        self.gradients[name] = np.mean(received, axis=0)
        ### END SOLUTION

    def update(self):
        ### BEGIN SOLUTION
        for name, gradient in self.gradients.items():
            own = self.world.split(self.weights[name])[self.world.rank]
            own = own + self.optimizers[name].change(gradient)
            self.weights[name] = self.world.all_gather(own).ravel()[:self.n[name]]
        self.gradients = {}
        ### END SOLUTION


class FullySharded(GradientsSharded):
    """Stage 3: shards of weights, gradients and state."""

    def __init__(self, layers, world, optimizer):
        super().__init__(layers, world, optimizer)
        ### BEGIN SOLUTION
        for name, weights in layers.items():
            self.weights[name] = world.split(weights)[world.rank].copy()
        ### END SOLUTION

    def gather(self, name):
        ### BEGIN SOLUTION
        return self.world.all_gather(self.weights[name]).ravel()[:self.n[name]]
        ### END SOLUTION

    def update(self):
        ### BEGIN SOLUTION
        for name, gradient in self.gradients.items():
            self.weights[name] += self.optimizers[name].change(gradient)
        self.gradients = {}
        ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_zero
#
# 1. Stage 2 is lesson 6's question 1, layer by layer, with the exchange in `reduce` and
#    the rest in `update`. Stage 3 moves the gather from `update` to `gather`.
# 2. A row of an array is a *view*, which keeps the whole array alive: `.copy()` it.
#    `reduce` is an all-to-all of the split gradient, and a mean over ranks.
# 3. `self.weights[name] = world.split(weights)[world.rank].copy()`

# %% nbgrader={"grade": true, "grade_id": "q02_zero_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

mine = dict(file="my_zero.py", kind="gradients", layers=sharded.ODD)
for n in (1, 2, 3):
    sharded.same_weights(sharded.trial(ranks=n, seed=1, **mine))
### BEGIN HIDDEN TESTS
for n in (1, 2, 3):
    sharded.same_weights(sharded.trial(ranks=n, seed=2734, **mine))
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q02_freed_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

mine = dict(file="my_zero.py", kind="gradients", layers=sharded.ODD)
for n in (2, 3):
    tried = sharded.trial(ranks=n, seed=1, **mine)
    sharded.little_kept(tried)
    sharded.state_shared(tried)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    tried = sharded.trial(ranks=n, seed=2734, **mine)
    sharded.little_kept(tried)
    sharded.state_shared(tried)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q02_fully_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

mine = dict(file="my_zero.py", kind="fully", layers=sharded.ODD)
for n in (1, 2, 3):
    sharded.same_weights(sharded.trial(ranks=n, seed=1, **mine))
### BEGIN HIDDEN TESTS
for n in (1, 2, 3):
    sharded.same_weights(sharded.trial(ranks=n, seed=2734, **mine))
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q02_averaged_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for kind in ("gradients", "fully"):
    mine = dict(file="my_zero.py", kind=kind, layers=sharded.ODD)
    tried = sharded.trial(ranks=2, seed=1, **mine)
    sharded.same_weights(tried, "averaged", "gathered")
### BEGIN HIDDEN TESTS
for kind in ("gradients", "fully"):
    mine = dict(file="my_zero.py", kind=kind, layers=sharded.ODD)
    tried = sharded.trial(ranks=3, seed=2734, **mine)
    sharded.same_weights(tried, "averaged", "gathered")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q02_kept_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

mine = dict(file="my_zero.py", kind="fully", layers=sharded.ODD)
for n in (2, 3):
    tried = sharded.trial(ranks=n, seed=1, **mine)
    sharded.little_kept(tried)
    sharded.state_shared(tried)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    tried = sharded.trial(ranks=n, seed=2734, **mine)
    sharded.little_kept(tried)
    sharded.state_shared(tried)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q02_bytes_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for kind in ("gradients", "fully"):
    mine = dict(file="my_zero.py", kind=kind, layers=sharded.ODD)
    sharded.few_bytes(sharded.trial(ranks=2, seed=1, **mine))
### BEGIN HIDDEN TESTS
for kind in ("gradients", "fully"):
    mine = dict(file="my_zero.py", kind=kind, layers=sharded.ODD)
    sharded.few_bytes(sharded.trial(ranks=3, seed=2734, **mine))
### END HIDDEN TESTS

# %% [markdown]
# Your classes now train the transformer; in the last run a thread **prefetches** the next
# layer while this one computes.

# %% tags=["demo"]
file, stage3 = Path("my_zero.py"), dict(update="my_zero.py:FullySharded")
zero = {"stage 2": dict(update="my_zero.py:GradientsSharded"),
        "stage 3, blocking": stage3,
        "stage 3, prefetch": dict(prefetch=True, **stage3)}
answered = file.exists() and "YOUR CODE HERE" not in file.read_text()
mine = [launch("train_transformer.py", name=name, workers=workers, batch=8,
               length=64, check=False, **options, **network)
        for name, options in zero.items() if answered]
mine = [run for run in mine if run.result]
pd.DataFrame({run.name: {
    "MiB sent in a step": run.result["sent_bytes"] / 2**20,
    "seconds a step": np.median(run.result["step_seconds"][1:]),
    "last loss": run.result["losses"][-1]} for run in mine}).T.round(4)

# %% tags=["demo"]
plot.plot_communication(*mine) if mine else "question 2 comes first"

# %% [markdown]
# With PyTorch installed (`make lab TORCH=1`), `launch("torch_sharded.py",
# cluster="torchrun", method="fsdp")` trains this network in stage 3, with the same
# losses. `"zero1"` is stage 1; `"gpipe"`, `"1f1b"` and `"interleaved"` are pipelines.

# %% tags=["demo"]
Counterparts("stages 2 and 3")

# %% [markdown]
# **A good place to stop.**

# %% [markdown]
# ## 3. Layers in parts
#
# **Tensor parallelism** (Shoeybi et al. 2019, Megatron-LM) splits each *layer*. In `y
# = relu(x A) B`, each rank holds some columns `a` of `A` and the matching rows `b` of
# `B`. It needs no other rank until the end, where the sum of all ranks' `relu(x a) b`
# is `y`. Backward needs one more sum, for the gradient of `x`. Attention is split by
# heads in the same way.
#
# ![Both ranks have x. Rank 0 has the left columns of A and the upper rows of B, rank 1
# the others. Each computes its hidden units and a partial sum of y; an all-reduce adds
# them.](../images/tensor.svg)
#
# **Predict first.** All ranks see the *same* samples now. What is the ratio of a rank's
# memory for weights, gradients and state on two ranks to that on one?

# %% tags=["demo"]
guess_ratio = None  # of bytes

# %% tags=["demo"]
shape = dict(batch=8, length=64, **network)
dense = launch("train_transformer.py", name="whole layers", workers=1, **shape)
tensor = launch("train_transformer.py", name="layers in parts",
                workers=workers, tensor=workers, **shape)

# %% tags=["demo"]
kept = "weights and state"
ratio = (tensor.result["alive_bytes"][kept]
         / dense.result["alive_bytes"][kept])
print(dense.result["losses"][-1], tensor.result["losses"][-1])
compare_guess(guess_ratio, ratio, "of the bytes of one rank")

# %% [markdown]
# The losses agree to about five digits: sums are taken in another order.
#
# **Question 3** (4 points)
#
# Write both directions. `x` is float32 `[n, d]`, the same on every rank; `a` `[d, h]` and
# `b` `[h, d]` are this rank's columns and rows. `world.all_sum(values)` returns the sum
# over all ranks. `forward` returns `y` and whatever `backward` needs; `backward` gets
# that and the gradient of `y`, and returns the gradients of the whole `x` and of this
# rank's `a` and `b`. One sum each way has to be enough.

# %% nbgrader={"grade": false, "grade_id": "q03_tensor", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile my_tensor.py
import numpy as np


def forward(x, a, b, world):
    """Return (y, saved) of y = relu(x A) B, with shards a and b."""
    ### BEGIN SOLUTION
    hidden = np.maximum(x @ a, 0)
    return world.all_sum(hidden @ b), (x, a, b, hidden)
    ### END SOLUTION


def backward(saved, back, world):
    """Return the gradients of x, a and b; back is that of y."""
    ### BEGIN SOLUTION
    x, a, b, hidden = saved
    to_hidden = (back @ b.T) * (hidden > 0)
    return world.all_sum(to_hidden @ a.T), x.T @ to_hidden, hidden.T @ back
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_tensor
#
# 1. Forward is a whole layer's forward pass, and then a sum over ranks.
# 2. The gradient of `y` is the same on every rank: take no sum of it. Those of `a` and
#    `b` are local. That of `x` is a sum over ranks.
# 3. `to_hidden = (back @ b.T) * (hidden > 0)`

# %% nbgrader={"grade": true, "grade_id": "q03_tensor_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (1, 2, 4):
    tried = sharded.tensor_trial("my_tensor.py", n, seed=1)
    sharded.equal(tried, "y")
### BEGIN HIDDEN TESTS
for n in (1, 2, 4):
    tried = sharded.tensor_trial("my_tensor.py", n, seed=2734)
    sharded.equal(tried, "y")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q03_input_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (1, 2, 4):
    tried = sharded.tensor_trial("my_tensor.py", n, seed=1)
    sharded.equal(tried, "of_input")
### BEGIN HIDDEN TESTS
for n in (1, 2, 4):
    tried = sharded.tensor_trial("my_tensor.py", n, seed=2734)
    sharded.equal(tried, "of_input")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q03_matrices_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (1, 2, 4):
    tried = sharded.tensor_trial("my_tensor.py", n, seed=1)
    sharded.equal(tried, "of_first", "of_second")
### BEGIN HIDDEN TESTS
for n in (1, 2, 4):
    tried = sharded.tensor_trial("my_tensor.py", n, seed=2734)
    sharded.equal(tried, "of_first", "of_second")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q03_sums_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import sharded

for n in (2, 4):
    tried = sharded.tensor_trial("my_tensor.py", n, seed=1)
    sharded.one_sum_each_way(tried)
### BEGIN HIDDEN TESTS
for n in (2, 4):
    tried = sharded.tensor_trial("my_tensor.py", n, seed=2734)
    sharded.one_sum_each_way(tried)
### END HIDDEN TESTS

# %% [markdown]
# **Sequence parallelism** (Korthikanti et al. 2022) changes the two ends of this layer.
# After an all-reduce every rank has all of `y` for the norm and the residual: $bsh$
# numbers, $N$ times over. So the all-reduce is cut into its halves. A reduce-scatter
# gives each rank $s/N$ positions, and an all-gather restores all of them after the next
# norm. The halves send as many bytes as the whole; backward gathers once more, so that
# the gathered array need not be kept. Per layer and rank, Megatron's activations fall
#
# $$ \text{from } sbh\left(10 + \frac{24}{N} + \frac{5as}{hN}\right) \text{ to }
# \frac{sbh}{N}\left(34 + \frac{5as}{h}\right) \text{ bytes} $$
#
# (a layer of GPT-3 on 8 ranks, with 2,048 tokens: from 552 to 342 MiB), and our network's
# from $sbh\,(6 + 9/N + as/(hN))$ numbers to $sbh\,(15 + as/h)/N$.
#
# **Predict first.** What share of a rank's activations does that save here, on two ranks?

# %% tags=["demo"]
guess_sequence = None  # percent

# %% tags=["demo"]
sequence = launch("train_transformer.py", name="positions in parts",
                  workers=workers, tensor=workers, sequence=True, **shape)
split = (tensor, sequence)
kept = [run.result["alive_bytes"]["activations"] / 2**20 for run in split]
display(pd.DataFrame({run.name: {
    "MiB predicted": memory.activations_of(run) / 2**20, "measured": mib,
    "MiB sent in a step": run.result["sent_bytes"] / 2**20,
    "last loss": run.result["losses"][-1]}
    for run, mib in zip(split, kept)}).T.round(3))
compare_guess(guess_sequence, 100 * (1 - kept[1] / kept[0]), "% saved")

# %% tags=["demo"]
Counterparts("tensor")

# %% [markdown]
# ## 4. A pipeline that keeps less
#
# In GPipe each stage keeps the activations of all microbatches. In **1F1B**
# (PipeDream-Flush; Narayanan et al. 2021) a stage starts backward passes early: stage s of
# P does P − s forward passes (or all, if there are fewer), then one backward and one
# forward pass in turns, then what is left.
#
# **Predict first.** With 4 stages and 8 microbatches GPipe is idle for 27 % of the time.
# And 1F1B?

# %% tags=["demo"]
guess_idle = None  # percent

# %% [markdown]
# **Question 4** (2 points)
#
# Write `order(stage, stages, microbatches)`: a stage's passes in 1F1B, as a list of
# `("F", m)` and `("B", m)`. `pipeline.table` finds their cycles.

# %% nbgrader={"grade": false, "grade_id": "q04_order", "locked": false, "schema_version": 3, "solution": true, "task": false}
def order(stage, stages, microbatches):
    """Return the passes of a stage in their order."""
    ### BEGIN SOLUTION
    ahead = min(stages - stage, microbatches)
    passes = [("F", m) for m in range(ahead)]
    for m in range(microbatches):
        passes.append(("B", m))
        if ahead + m < microbatches:
            passes.append(("F", ahead + m))
    return passes
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q04_order
#
# 1. The last stage begins with one forward pass, and then alternates.
# 2. After B of microbatch m comes F of microbatch `ahead + m`, if there is one.
# 3. `ahead = min(stages - stage, microbatches)`

# %% nbgrader={"grade": true, "grade_id": "q04_order_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
def tasks(passes):
    return " ".join(f"{direction}{m}" for direction, m in passes)


last = tasks(order(1, 2, 3))
assert last == "F0 B0 F1 B1 F2 B2", (
    f"order(1, 2, 3) returned {last}, but the last stage alternates: F0 B0 F1 B1 …"
)
first = tasks(order(0, 2, 3))
assert first == "F0 F1 B0 F2 B1 B2", f"the first is one ahead, not {first}"
first = tasks(order(0, 3, 3))
assert first == "F0 F1 F2 B0 B1 B2", f"of three, it is two ahead, not {first}"
first = tasks(order(0, 3, 2))
assert first == "F0 F1 B0 B1", f"there are only two microbatches: {first}"
### BEGIN HIDDEN TESTS
assert tasks(order(0, 4, 5)) == "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4"
assert tasks(order(2, 4, 4)) == "F0 F1 B0 F2 B1 F3 B2 B3"
assert tasks(order(0, 4, 2)) == "F0 F1 B0 B1"
assert tasks(order(1, 4, 3)) == "F0 F1 F2 B0 B1 B2"
assert tasks(order(0, 1, 2)) == "F0 B0 F1 B1"
assert tasks(order(3, 4, 1)) == "F0 B0"
### END HIDDEN TESTS

# %% tags=["demo"]
def by_order(stages, microbatches):
    """Return the table of cycles for the orders of all stages."""
    orders = [order(s, stages, microbatches) for s in range(stages)]
    return pipeline.table(orders)


one_f_one_b = working(by_order, pipeline.one_f_one_b, 3, 5)
schedule = one_f_one_b(4, 8)
compare_guess(guess_idle, 100 * pipeline.bubble(schedule), "% idle")

# %% tags=["demo"]
plot.plot_cycles(GPipe=pipeline.gpipe(4, 8), **{"1F1B": schedule})

# %% [markdown]
# The bubble is the same, but a stage keeps at most P microbatches.
#
# **Interleaving** (Narayanan et al. 2021) gives each rank $v$ smaller stages instead of
# one: with 4 ranks, 16 layers and $v$ = 2, rank 0 has layers 1 and 2, and 9 and 10.
# Filling and draining take $1/v$ of the time, at $v$ times the messages: the bubble is
# $(P-1)/(vQ+P-1)$. Below, later stages of a rank are lighter.

# %% tags=["demo"]
plot.plot_cycles(interleaved=pipeline.one_f_one_b(4, 8, chunks=2))

# %% [markdown]
# All three on real ranks:

# %% tags=["demo"]
small = dict(width=64, steps=2, depth=2 * workers) if smoke else {}
rows = {}
tables = {"GPipe": pipeline.gpipe(workers, 8), "1F1B": one_f_one_b(workers, 8),
          "interleaved": pipeline.one_f_one_b(workers, 8, chunks=2)}
for name, table in tables.items():
    Path("schedule.json").write_text(json.dumps(table))
    run = launch("run_pipeline.py", name=name, workers=workers, threads=1,
                 schedule="schedule.json", seed=seed, **small)
    seconds, busy = run.result["step_seconds"], run.result["busy_seconds"]
    rows[name] = {
        "last loss": run.result["losses"][-1],
        "microbatches kept": run.result["kept_microbatches"],
        "idle, measured": 1 - sum(busy[-1]) / (workers * seconds[-1]),
        "idle, computed": pipeline.bubble(table, backward=2),
    }

# %% tags=["demo"]
pd.DataFrame(rows)

# %% [markdown]
# Here a backward pass counts as two forward passes, and each pass begins once its input is
# there. The measured share includes messages, and interleaving sends more of them.
#
# Newer schedules fill the bubble with work that nobody waits for. **Zero bubble** (Qi et al.
# 2024) cuts backward in two: gradients of inputs go first, those of weights fill the gaps.
# **DualPipe** (DeepSeek-AI 2024) feeds microbatches from both ends.

# %% tags=["demo"]
Counterparts("pipeline")

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - **DDP** averages buckets of gradients while the backward pass computes the next ones.
# - **Stage 2** frees gradients early, **stage 3** keeps shards of everything, for half as
#   many bytes again.
# - **Tensor parallelism** needs two all-reduces per block and direction, so it stays
#   within fast links: a host, or the 72 GPUs of an NVLink rack. **Sequence parallelism** splits the other activations.
# - **1F1B** has GPipe's bubble, and keeps P microbatches at most; **interleaving** divides
#   the bubble.
#
# Sources: Rajbhandari et al. 2020 (arXiv:1910.02054), Shoeybi et al. 2019
# (arXiv:1909.08053), Huang et al. 2019 (arXiv:1811.06965), Narayanan et al. 2021
# (1F1B: arXiv:2006.09503; interleaved: arXiv:2104.04473), Li et al. 2020 (DDP;
# arXiv:2006.15704), Korthikanti et al. 2022 (arXiv:2205.05198), Qi et al. 2024
# (arXiv:2401.10241), DeepSeek-AI 2024 (arXiv:2412.19437).
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
