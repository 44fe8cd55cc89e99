# %% [markdown]
# # 6c. Sharding in practice
#
# **How does a training over many ranks survive, and how is it laid out?**
#
# | about | this notebook |
# | --- | --- |
# | time | 80 minutes, in two sittings |
# | hardware | two cores, and 1 GB of free memory |
# | before this | [6. Sharding](6.Sharding.ipynb), [6b. Sharding in depth](6b.Sharding-in-Depth.ipynb) |
#
# Checkpoints that any number of ranks can continue from, a mesh of data and tensor
# parallelism, one run that combines all you have built and survives a killed rank, the
# choice of a layout, and training with fewer bytes.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2
seed = 0

# %%
import json
import math

import numpy as np

# %% tags=["demo"]
import shutil
from pathlib import Path

import pandas as pd

from ddl import launch
from course import check, compare_guess, hint, plot, recorded, working
from course import fault_injection, messages, roofline, splits
from course.sharding.counterparts import Counterparts

smoke = size == "smoke"
network = dict(
    width=64 if smoke else 256, depth=1 if smoke else 2, length=32,
    seed=seed, threads=1,
)


def written(file):
    """Return whether an answer's file is there, and written."""
    path = Path(file)
    return path.exists() and "YOUR CODE HERE" not in path.read_text()


def saving():
    """Return the option for the checkpoints of question 1."""
    file = "my_checkpoint.py"
    return dict(save_with=file) if written(file) else {}

# %% [markdown]
# ## 1. Checkpoints that survive a change of world size
#
# With a sharded state no rank can write a checkpoint alone, and gathering it on one rank
# takes the memory that sharding saved. So every rank writes its own **shard**, and a
# **manifest** lists the shards that belong together. A later run may have fewer ranks, or
# more: it reads all shards and splits them again.
#
# A run can die while it writes. Then the newest checkpoint is **torn**, and the one
# before has to be found.

# %% tags=["demo"]
Counterparts("checkpoint")

# %% [markdown]
# **Predict first.** Adam in mixed precision, 405 billion weights: how many GB is a
# checkpoint of weights and state?

# %% tags=["demo"]
guess_gb = None  # GB

# %% tags=["demo"]
compare_guess(guess_gb, 405e9 * 12 / 1e9, "GB: 12 bytes per weight")

# %% [markdown]
# **Question 1** (4 points)
#
# Write both functions. `shards` maps names to this rank's shards, float32 `[m]`; `sizes`
# maps the names to lengths of the whole arrays, without padding. `folder` is a `Path`
# that all ranks share. `world.barrier()` waits for all ranks, and `world.split(values)`
# returns `[size, m]`, padded.
#
# `save` writes one file per rank, whose name has the step in it, and then, on rank 0,
# the manifest `{step}.json`: it must appear only after the last shard is written. `load`
# returns `(step, shards)` of the newest checkpoint that is whole, with shards for *this*
# world, which may have another size; or None.

# %% nbgrader={"grade": false, "grade_id": "q01_saved", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile my_checkpoint.py
import json

import numpy as np


def save(folder, step, shards, sizes, world):
    """Write this rank's shards and, on rank 0, the manifest."""
    ### BEGIN SOLUTION
    new = folder / f"new-{world.rank}.npz"  # gets its name when it is whole
    np.savez(new, **shards)
    new.replace(folder / f"{step}-{world.rank}of{world.size}.npz")
    world.barrier()
    if world.rank == 0:
        about = {"ranks": world.size, "sizes": sizes}
        (folder / "new").write_text(json.dumps(about))
        (folder / "new").replace(folder / f"{step}.json")
    ### END SOLUTION


def load(folder, world):
    """Return (step, shards) of the newest whole checkpoint, or None."""
    ### BEGIN SOLUTION
    steps = sorted((int(path.stem) for path in folder.glob("*.json")))
    for step in reversed(steps):
        try:
            about = json.loads((folder / f"{step}.json").read_text())
            size = about["ranks"]
            files = [np.load(folder / f"{step}-{rank}of{size}.npz")
                     for rank in range(size)]
            shards = {}
            for name, n in about["sizes"].items():
                whole = np.concatenate([file[name] for file in files])[:n]
                shards[name] = world.split(whole)[world.rank]
            return step, shards
        except Exception:  # a shard is missing or damaged
            continue
    return None
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_saved
#
# 1. In `save`, the manifest comes after a barrier. What does a later run need to know
#    that is not in the shards? A run with other ranks may write the same step again: with
#    the number of ranks in the shards' names, and files renamed when whole, a crash then
#    leaves the older checkpoint whole.
# 2. In `load`, join the shards of all ranks that saved, cut off their padding, and split
#    again. Whatever goes wrong with a checkpoint, try the one before.
# 3. `whole = np.concatenate([file[name] for file in files])[:n]`

# %% nbgrader={"grade": true, "grade_id": "q01_saved_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import resharded

for before, after in ((4, 2), (2, 3)):
    tried = resharded.saved("my_checkpoint.py", before, seed=1)
    resharded.same_arrays(tried, after)
### BEGIN HIDDEN TESTS
tried = resharded.saved("my_checkpoint.py", 3, seed=2734)
resharded.same_arrays(tried, 2)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_manifest_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import resharded

resharded.written_in_shards(resharded.saved("my_checkpoint.py", 2, seed=1))
### BEGIN HIDDEN TESTS
tried = resharded.saved("my_checkpoint.py", 3, seed=2734)
resharded.written_in_shards(tried)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_torn_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.sharding import resharded

tried = resharded.saved("my_checkpoint.py", 2, seed=1)
for how in resharded.TEARS:
    resharded.falls_back(tried, how)
### BEGIN HIDDEN TESTS
tried = resharded.saved("my_checkpoint.py", 3, seed=2734)
for how in resharded.TEARS:
    resharded.falls_back(tried, how)
### END HIDDEN TESTS

# %% [markdown]
# Now your functions, once they are written, carry a training from four ranks to two and
# to three. The global batch stays the same, so all ranks together see the same samples.

# %% tags=["demo"]
shutil.rmtree("checkpoints", ignore_errors=True)
whole = launch("train_transformer.py", name="one rank", workers=1,
               batch=12, steps=6, **network)
losses = []
for steps, ranks in ((4, 2), (6, 1)) if smoke else ((2, 4), (4, 2), (6, 3)):
    run = launch(
        "train_transformer.py", name=f"{ranks} ranks", workers=ranks,
        batch=12 // ranks, steps=steps, stage=1, oversubscribe=True,
        checkpoint_every=2, checkpoints="checkpoints",
        **saving(), **network,
    )
    losses += run.result["losses"]

# %% tags=["demo"]
pd.DataFrame({"one rank": whole.result["losses"], "resumed": losses})

# %% [markdown]
# Means over other numbers of ranks are rounded differently, so the last digits may
# differ. On processors, a run with the same number of ranks continues bit for bit.

# %% [markdown]
# ## 2. A mesh, and everything at once
#
# Four ranks can be two groups of two: within a **tensor group** ranks split each layer and
# see the same samples; within a **data group** they hold the same shards of the layers and
# average gradients.
#
# ![A mesh of 2 × 4 ranks on two hosts. Across, the ranks of a host form a tensor group.
# Down, ranks with the same shard of the layers form a data
# group.](../images/mesh.svg)

# %% tags=["demo"]
Counterparts("mesh")

# %% [markdown]
# **Question 2** (1 point)
#
# Write `groups(ranks, tensor)`. Return two lists of groups, each a list of ranks: the data
# groups, and the tensor groups of `tensor` neighboring ranks.

# %% nbgrader={"grade": false, "grade_id": "q02_groups", "locked": false, "schema_version": 3, "solution": true, "task": false}
def groups(ranks, tensor):
    """Return the data groups and the tensor groups."""
    ### BEGIN SOLUTION
    across = [list(range(first, first + tensor))
              for first in range(0, ranks, tensor)]
    down = [list(range(first, ranks, tensor)) for first in range(tensor)]
    return down, across
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_groups
#
# 1. Write the ranks in rows of `tensor`. Which are the rows, which the columns?
# 2. A tensor group is `tensor` ranks that follow one another. A data group takes every
#    `tensor`-th rank.
# 3. `list(range(first, ranks, tensor))`

# %% nbgrader={"grade": true, "grade_id": "q02_groups_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
def lists(found):
    return [[list(group) for group in axis] for axis in found]


eight = lists(groups(8, 4))
assert eight[1] == [[0, 1, 2, 3], [4, 5, 6, 7]], (
    f"the tensor groups of the picture are its rows, not {eight[1]}"
)
assert eight[0] == [[0, 4], [1, 5], [2, 6], [3, 7]], (
    f"the data groups of the picture are its columns, not {eight[0]}"
)
six = lists(groups(6, 2))
assert six == [[[0, 2, 4], [1, 3, 5]], [[0, 1], [2, 3], [4, 5]]], (
    f"six ranks in rows of two: {six}"
)
### BEGIN HIDDEN TESTS
assert lists(groups(4, 2)) == [[[0, 2], [1, 3]], [[0, 1], [2, 3]]]
assert lists(groups(3, 1)) == [[[0, 1, 2]], [[0], [1], [2]]]
assert lists(groups(3, 3)) == [[[0], [1], [2]], [[0, 1, 2]]]
### END HIDDEN TESTS

# %% [markdown]
# **Question 3** (1 point)
#
# Write `options(ranks, tensor, global_batch)`. Return a dictionary for `launch`: `workers`,
# and `batch`, the samples that a rank sees in a step, so that all ranks together train
# on `global_batch` different samples.

# %% nbgrader={"grade": false, "grade_id": "q03_options", "locked": false, "schema_version": 3, "solution": true, "task": false}
def options(ranks, tensor, global_batch):
    """Return workers and batch of a mesh."""
    ### BEGIN SOLUTION
    return {"workers": ranks, "batch": global_batch // (ranks // tensor)}
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_options
#
# 1. Which ranks see the same samples?
# 2. There are `ranks / tensor` tensor groups, and each sees its own samples.
# 3. `global_batch // (ranks // tensor)`

# %% nbgrader={"grade": true, "grade_id": "q03_options_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
plain = options(4, 1, 12)
assert plain == {"workers": 4, "batch": 3}, (
    f"options(4, 1, 12): 12 samples on 4 data-parallel ranks, not {plain}"
)
two = options(4, 2, 12)
assert two == {"workers": 4, "batch": 6}, (
    f"options(4, 2, 12): two tensor groups share 12 samples, not {two}"
)
### BEGIN HIDDEN TESTS
assert options(4, 4, 12) == {"workers": 4, "batch": 12}
assert options(8, 2, 32) == {"workers": 8, "batch": 8}
### END HIDDEN TESTS

# %% [markdown]
# Now everything at once, with your own groups, sharded optimizer (lesson 6) and checkpoints
# wherever you have written them. Four ranks train, rank 1 is killed at step 7, and
# `max_restarts` starts all ranks again. Will it end with the loss of one undisturbed
# rank?

# %% tags=["demo"]
steps = 12
alone = launch("train_transformer.py", name="one rank, undisturbed", workers=1,
               batch=12, steps=steps, **network)

# %% tags=["demo"]
axes = working(groups, splits.mesh, 4, 2)(4, 2)
Path("mesh.json").write_text(json.dumps(axes))
shape = working(options, splits.options, 4, 2, 12)(4, 2, 12)
mine = written("my_sharding.py")
own = dict(update="my_sharding.py") if mine else dict(stage=1)
run = launch(
    "train_transformer.py", name="four ranks, one killed", wait=False,
    mesh="mesh.json", steps=steps, checkpoint_every=3, max_restarts=2,
    oversubscribe=True, **shape, **own, **saving(), **network,
)
together = fault_injection.kill_at(run, rank=1, step=7)

# %% tags=["demo"]
(restart,) = together.restarts[:1]
print(f"killed at step {restart.step}, resumed at {restart.resumed_at}")
pd.DataFrame({
    run.name: {"last loss": run.result["losses"][-1],
               "MiB of state": run.result["state_bytes"] / 2**20,
               "MiB at the peak": run.result["resident_bytes"] / 2**20}
    for run in (alone, together)
}).T.round(6)

# %% [markdown]
# **A good place to stop.**

# %% [markdown]
# ## 3. Choose a layout
#
# Lesson 6's arithmetic, next to recorded runs of five sizes in ZeRO's stages:

# %% tags=["demo", "recorded"]
plot.plot_memory(recorded("sharding-memory"))

# %% [markdown] tags=["claims"]
# In all these runs the peak of a rank's tensors is within 4 % of the arithmetic. A process needs more than its tensors: 4 to 25 %, and at most 13 % from a width of 640 on.

# %% [markdown]
# The number of copies in flight in this arithmetic was fitted to these runs. Plan GPU memory
# with such a reserve (`splits` leaves 4 %): TensorFlow's allocator keeps freed
# memory that later tensors do not fit into, as PyTorch's does.
#
# A cluster can be split three ways at once: `data` × `tensor` × `pipeline` = GPUs.
# `splits` knows the memory and the time of each, by the arithmetic above and by the α–β
# model of lesson 2: A100s of 80 GB, eight in a host.
#
# **Predict first.** A model of 145.6 billion weights on 1,536 GPUs: what degree of
# *tensor* parallelism did the authors of Megatron-LM choose?

# %% tags=["demo"]
guess_tensor = None  # 1, 2, 4, 8, 16 ...

# %% tags=["demo"]
compare_guess(guess_tensor, splits.MEGATRON[6][2].tensor, "the GPUs of a host")

# %% [markdown]
# Two all-reduces per block and direction need NVLink, so tensor parallelism stays inside
# a host. Pipelines send little and cross hosts. The rest is data parallelism. With FSDP it is
# often **hybrid** (HSDP): weights are sharded inside a host, or a few, and replicated across.
#
# **Question 4** (2 points)
#
# Write `best(gpus, per_host, heads, layers, batch, seconds)`. `seconds` is a dictionary: of
# each split (data, tensor, pipeline) that fits into memory, the seconds of a step. Return
# the split with the fewest seconds of those that are possible: the product is `gpus`;
# `tensor` divides `per_host` and `heads`; `pipeline` divides `layers`; and `data` divides
# `batch`. If there is none, return None.

# %% nbgrader={"grade": false, "grade_id": "q04_best", "locked": false, "schema_version": 3, "solution": true, "task": false}
def best(gpus, per_host, heads, layers, batch, seconds):
    """Return the fastest split (data, tensor, pipeline), or None."""
    ### BEGIN SOLUTION
    found = []
    for split in seconds:
        data, tensor, pipeline = split
        if math.prod(split) != gpus or per_host % tensor:
            continue
        if heads % tensor or layers % pipeline or batch % data:
            continue
        found.append(split)
    return min(found, key=lambda split: seconds[split], default=None)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q04_best
#
# 1. Go through all splits in `seconds`, and make a list of those that are possible.
# 2. A split is left out if its product is not `gpus`, or if one of four divisions has a
#    remainder.
# 3. `min(found, key=lambda split: seconds[split], default=None)`

# %% nbgrader={"grade": true, "grade_id": "q04_best_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
def table(cost, parts=1):
    """Return the seconds of splits in at least that many parts."""
    few = range(1, 17)
    return {(d, t, p): cost(d, t, p) for d in few for t in few for p in few
            if t * p >= parts and d * t * p <= 16}


def data_first(data, tensor, pipeline):
    return tensor + 10 * pipeline


def found(*asked):
    split = best(*asked)
    return None if split is None else tuple(split)


split = found(8, 4, 4, 6, 16, table(data_first))
assert split == (8, 1, 1), (
    f"best returned {split}, not (8, 1, 1): all data parallel is fastest here"
)
split = found(8, 4, 4, 6, 16, table(data_first, parts=4))
assert split == (2, 4, 1), f"four parts at least: not {split}"
split = found(8, 4, 4, 6, 16, {})
assert split is None, f"nothing fits, but {split} is said to"
split = found(8, 4, 4, 6, 16, {(2, 4, 1): 1.0, (4, 2, 1): 2.0})
assert split == (2, 4, 1), f"1 s against 2 s: not {split}"
### BEGIN HIDDEN TESTS
pipes = table(lambda data, tensor, pipeline: data + 10 * tensor)
both = table(lambda data, tensor, pipeline: -tensor - pipeline / 100)
for asked, wanted in (
    ((8, 4, 4, 6, 16, pipes), (4, 1, 2)),
    ((8, 4, 4, 8, 16, pipes), (1, 1, 8)),
    ((8, 4, 6, 1, 16, both), (4, 2, 1)),
    ((12, 8, 12, 3, 8, both), (1, 4, 3)),
    ((8, 8, 8, 1, 4, table(data_first)), (4, 2, 1)),
    ((16, 2, 8, 4, 2, table(data_first)), (2, 2, 4)),
    ((7, 4, 4, 4, 16, table(data_first)), None),
    ((6, 6, 6, 6, 6, both), (1, 6, 1)),
    ((12, 8, 12, 12, 12, both), (1, 4, 3)),
    ((8, 8, 4, 8, 8, both), (1, 4, 2)),
):
    assert found(*asked) == wanted
### END HIDDEN TESTS

# %% [markdown]
# What you find (data × tensor × pipeline), or `splits` if your function is not ready yet,
# next to what the authors of Narayanan et al. (2021, table 1) chose:

# %% tags=["demo"]
def total(model, cluster, split):
    return sum(splits.seconds(model, cluster, split).values())


def with_mine(model, cluster):
    fits = {(one.data, one.tensor, one.pipeline): total(model, cluster, one)
            for one in splits.splits(model, cluster)
            if splits.memory(model, one) <= cluster.memory}
    return best(cluster.gpus, cluster.per_host, model.heads, model.layers,
                model.batch, fits)


def with_ours(model, cluster):
    found = splits.best(model, cluster)
    return found.data, found.tensor, found.pipeline


model, gpus, theirs, reached = splits.MEGATRON[3]
choose = working(with_mine, with_ours, model, splits.Cluster(gpus))

# %% tags=["demo"]
rows = []
for model, gpus, theirs, reached in splits.MEGATRON:
    cluster = splits.Cluster(gpus)
    chosen = splits.Split(*choose(model, cluster))
    took = total(model, cluster, theirs)
    rows.append({
        "weights": model.name, "GPUs": gpus,
        "theirs": f"{theirs.data} × {theirs.tensor} × {theirs.pipeline}",
        "best": f"{chosen.data} × {chosen.tensor} × {chosen.pipeline}",
        "theirs is slower by, %":
            100 * (took / total(model, cluster, chosen) - 1),
        "TFLOP/s of a GPU, predicted": model.operations / gpus / took / 1e12,
        "published": reached,
    })
pd.DataFrame(rows).set_index("weights").round(1)

# %% [markdown] tags=["claims"]
# By this arithmetic the authors' splits are at most 13 % slower than the best of all, and
# for six of the ten models less than 1 %.
#
# Fitted to nine of the ten models, the arithmetic predicts the speed of the tenth within
# 7 %, and within 4 % on average; the mean of the nine is off by 7 % on average.

# %% [markdown]
# The minimum is flat. Two numbers were fitted: the speed of very wide products, and the
# width at which half of it is reached. Wide models are faster per GPU.
#
# **More axes.** Each method has a smallest number of tokens per GPU, as in lesson 6. $C$ is
# operations per second, $W$ bytes per second, $s$ the length, $h$ the width, $N$ ranks:
#
# - **Context parallelism** splits the samples by length. Each rank passes its keys and
#   values round a ring (Liu et al. 2023): $4(s/N)h$ bytes against $4(s/N)^2h$
#   operations, so $s/N \ge C/W$. Causal attention needs twice as many, because half of the
#   operations go; grouped queries divide the bytes.
# - **Expert parallelism** sends each token to $e$ experts and back: $4eh$ bytes
#   against $6eh\,f$ operations for gated experts of $f$ hidden units. Tokens cancel; it
#   hides if $f \ge 2C/3W$.
# - **fp8** doubles $C$ and halves the bytes that are sent in fp8. Where gradients stay in
#   16 bits, twice the tokens are needed.
# - **Accumulation** sends a gradient once in several microbatches, so it amortizes what it
#   cannot hide: only the last microbatch's backward work can hide messages.
# - **Offloading** keeps Adam's state in the host's memory: 2 bytes per weight each way
#   over PCIe, against $6T$ operations per weight: $T \ge C/3W$. But the host also runs Adam,
#   which moves 28 bytes of its memory per weight (float32 weight and moments in and out, a
#   16-bit gradient and weight): with $M$ bytes per second for each GPU, $T \ge 28C/6M$.
#
# **Predict first.** An H100 computes 989 TFLOP/s; the measured PCIe copy is 53 GB/s; two
# sockets of DDR5-4800 have 614 GB/s for eight GPUs. From how many tokens per step and GPU can
# offloading hide?

# %% tags=["demo"]
guess_offload = None  # tokens

# %% tags=["demo"]
peak, nvlink, cable = 989e12, 450e9, 50e9  # per GPU and direction
pcie = 1e9 * roofline.h100()["bandwidth"]["host_to_device_pinned_gb_s"]
least = {
    "data parallel, in a host": roofline.least_tokens(peak, nvlink, 8),
    "data parallel, 64 hosts": roofline.least_tokens(peak, cable, 64),
    "the same, fp8 products": roofline.least_tokens(2 * peak, cable, 64),
    "context parallel, in a host": peak / nvlink,
    "context parallel, between hosts": peak / cable,
    "offloaded state, PCIe": peak / (3 * pcie),
    "offloaded state, host's memory": 28 * peak / (6 * 614e9 / 8),
}
offload = max(least[name] for name in least if name.startswith("offloaded"))
display(pd.Series(least, name="least tokens per GPU").round(-1).to_frame())
compare_guess(guess_offload, offload, "tokens per GPU")

# %% [markdown]
# ## 4. Fewer messages
#
# On a slow link one can also *send less* than all gradients in each step:
#
# - **local SGD** (Stich 2019): train alone, and average weights every H steps. **DiLoCo**
#   (Douillard et al. 2023) takes the average change as a gradient, with momentum;
# - **int8**: send each value in 8 bits;
# - **top-k**: send the largest values only, with their places. What was left out is kept,
#   and added to the next gradient: **error feedback** (Seide et al. 2014).
#
# **Question 5** (2 points)
#
# Write `compress(gradient, left, k)`. `gradient` and `left` are float arrays `[n]`;
# `left` is what earlier steps have not sent. Return `(sent, left)`: `sent` has the
# `k` values of largest magnitude of their sum, and zeros elsewhere; `left` is what remains.

# %% nbgrader={"grade": false, "grade_id": "q05_compress", "locked": false, "schema_version": 3, "solution": true, "task": false}
def compress(gradient, left, k):
    """Return the k largest of what is to be sent, and what is left."""
    ### BEGIN SOLUTION
    wanted = gradient + left
    places = np.argsort(-np.abs(wanted))[:k]
    sent = np.zeros_like(wanted)
    sent[places] = wanted[places]
    return sent, wanted - sent
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q05_compress
#
# 1. Add what is left first. Then choose by magnitude: a large negative value counts.
# 2. `np.argsort(-np.abs(wanted))[:k]` are the places of the largest.
# 3. `return sent, wanted - sent`

# %% nbgrader={"grade": true, "grade_id": "q05_compress_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

sent, left = compress(np.array([3.0, -5, 1]), np.zeros(3), 1)
assert list(sent) == [0, -5, 0], (
    f"compress sent {sent}, not [0, -5, 0]: -5 has the largest magnitude"
)
assert list(left) == [3, 0, 1], f"3 and 1 are left: {left}"
sent, left = compress(np.array([1.0, 0, 1]), np.array([3.0, 0, 1]), 1)
assert list(sent) == [4, 0, 0], "what is left counts: 1 + 3 is the largest"
assert list(left) == [0, 0, 2], f"1 + 1 is left: {left}"
sent, left = compress(np.array([3.0, -5, 1]), np.zeros(3), 2)
assert list(sent) == [3, -5, 0], f"k is 2: not {sent}"
### BEGIN HIDDEN TESTS
draw = np.random.default_rng(8)
gradient, before = draw.normal(size=(2, 40))
for k in (1, 7, 40):
    sent, left = map(np.asarray, compress(gradient, before, k))
    assert np.count_nonzero(sent) == k
    assert np.allclose(sent + left, gradient + before)
    assert np.all((sent == 0) | (left == 0))
    assert np.abs(left).max() <= np.abs(sent[sent != 0]).min()
### END HIDDEN TESTS

# %% [markdown]
# Two simulated ranks train 200 weights on a quadratic loss, and send 1 % of each gradient,
# by your function or the course's.
#
# **Predict first.** Without error feedback, what is not sent is dropped. How many times as
# far from the best weights does the training end (mean square)?

# %% tags=["demo"]
guess_far = None  # times as far

# %% tags=["demo"]
example = np.array([3.0, -5, 1]), np.array([0.0, 1, 1]), 2
send = working(compress, messages.largest, *example)
distances = {
    "all values": messages.distance(messages.everything),
    "the largest 1 %": messages.distance(send),
    "no feedback": messages.distance(messages.forgetful(send)),
}
times = distances["no feedback"] / distances["the largest 1 %"]
display(pd.Series(distances, name="distance").to_frame().round(4))
compare_guess(guess_far, times, "times as far")

# %% [markdown]
# Small values that are never among the largest never arrive; with feedback they add up until
# they are. On two ranks these are 2 % of the bytes of an all-reduce, because each value comes
# with its place. The bytes grow with the ranks $N$: an all-gather brings everyone's values to
# everyone. Per rank, the largest 1 % take about $0.01 N$ times the bytes of an all-reduce, and
# int8 takes $N/8$. On eight ranks int8 saves nothing.

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - Each rank writes its **shard**, and a manifest makes a checkpoint whole. Any number of
#   ranks can continue from it.
# - A **mesh** gives each method its own groups of ranks: tensor parallelism on the fast
#   links, data parallelism across.
# - The best layout has a flat minimum. What fits, and keeps all-reduces of activations on
#   fast links, is near it.
# - What a compressed gradient leaves out has to be sent later: **error feedback**. All-gathers
#   grow with the ranks.
#
# Sources: Narayanan et al. 2021 (arXiv:2104.04473, table 1), Liu et al. 2023 (ring
# attention; arXiv:2310.01889), Stich 2019 (arXiv:1805.09767), Douillard et al. 2023
# (arXiv:2311.08105), Seide et al. 2014 (1-bit SGD, Interspeech).
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
