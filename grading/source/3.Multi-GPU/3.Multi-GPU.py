# %% [markdown]
# # 3. Multi-GPU
#
# **How do I make my script distributed?**
#
# | about | this lesson |
# | --- | --- |
# | time | four hours, in four sittings; the runs alone take about 10 minutes on two cores |
# | hardware | two cores; on a machine with GPUs the same cells use the GPUs |
# | before this | [Start_Here](../Start_Here.ipynb), [1. Gradient basics](1.Gradient-Basics.ipynb) |
#
# You take one training script and distribute it with five strategies: four of
# TensorFlow's own, and Horovod. Then you look for what goes wrong, make a
# script distributed yourself, measure where the time goes, find out when two
# workers are worth it, do it all once more with text, and see what still holds
# in PyTorch.

# %% [markdown]
# ## How this lesson works
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | five strategies, and whether they agree | 1 to 5 | 60 |
# | what goes wrong, and a script of your own | 6 to 7 | 60 |
# | where the time goes, and when it pays | 8 to 11 | 60 |
# | text, and PyTorch | 12 to 14 | 60 |
#
# - **Questions** are numbered and show their points. Write code where it says
#   `YOUR CODE HERE`, and words where it says `YOUR ANSWER HERE`. The cell after
#   your code contains tests; there are more, which you don't see.
# - **Stuck?** `hint("q01")` gives a hint, and one more each time. Only you see
#   them.
# - **Predict first**: put your guess into a `guess` cell before you go on. It
#   is shown beside the result. Guesses are not marked.
# - Cells that launch and draw do not need your answers, so you can look ahead.
# - Each test says whether it passes; *Check my answers* lists the results.
# - Is a run stuck? The square button in the toolbar stops it and its
#   processes.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated pictures
workers = 2
seed = 0

# %%
import json
import math

import numpy as np

# %% tags=["demo"]
import pandas as pd

import ddl
from ddl import beside, compare, launch, stack
from course import agreement, check, difference, hint, plot, recorded
from course import classification, disturbed, efficiency, mistakes, precisions

smoke = size == "smoke"
part = (1_024, 500) if smoke else (5_000, 2_000)
pictures = dict(
    data_set=data_set, train_samples=part[0], test_samples=part[1]
)
fixed = dict(pictures, global_batch=64, epochs=1 if smoke else 5, seed=seed)
print("ddl", ddl.__version__, "·", part[0], "pictures to train on")

# %% [markdown]
# ## 1. Who computes what, and who waits for whom
#
# In **data-parallel** training every worker has the whole model and a part of
# each batch. Two questions tell the strategies apart:
#
# - **Where are the workers?** They are either threads of one process, each with
#   its own device (`MirroredStrategy`), or processes of their own, on one host
#   or on many (all others).
# - **Who waits?** In *synchronous* training, each step ends with an
#   **all-reduce** that sums the gradients of all workers, so all have the same
#   weights at all times. In *asynchronous* training, a **parameter server**
#   keeps the weights. Each worker reads them, computes, sends its gradient, and
#   waits for nobody.
#
# ![Four panels. Mirrored: one process with two replicas, gradients summed inside.
# Multi-worker and Horovod: two processes, gradients summed between them. Parameter
# server: a coordinator hands out steps, workers read weights from a server and
# send gradients to it.](../images/strategies.svg)

# %% [markdown]
# | strategy | workers | gradients | you change |
# | --- | --- | --- | --- |
# | one device | one | stay | nothing |
# | `MirroredStrategy`, `Model.fit` | replicas in one process | all-reduce | where the model is made |
# | `MirroredStrategy`, own loop | replicas in one process | all-reduce | loss, step, loop |
# | `MultiWorkerMirroredStrategy` | processes, any host | all-reduce | the strategy, and `TF_CONFIG` |
# | `ParameterServerStrategy` | processes, any host | to the server | the loop: steps are handed out |
# | Horovod | processes, any host | all-reduce | six steps |
#
# What carries the all-reduce? Between GPUs, TensorFlow takes NCCL, NVIDIA's
# library for that. Horovod does so only if it was compiled with it
# (`HOROVOD_GPU_OPERATIONS=NCCL`; `horovodrun --check-build` tells); otherwise
# gradients go through the host's memory. Between CPUs, TensorFlow has remote
# calls of its own (gRPC), and Horovod takes Gloo, a library over sockets.

# %% [markdown]
# ## 2. Replicas in one process
#
# The network is a small convolutional one, without dropout, and with group norm
# instead of batch norm: nothing in it looks at more than one picture at a time.
# All runs have the same data, order of pictures, initial weights, optimizer and
# global batch, down to the seed. So a *correct* strategy makes the same updates
# as a single device.
#
# First, one device. The script is `source_code/strategies/single.py`: Keras'
# `Model.fit` and nothing else.

# %% tags=["demo"]
single = launch(
    "strategies/single.py", name="one device", workers=1, **fixed
)

# %% [markdown]
# ### MirroredStrategy with `Model.fit`
#
# What has to change in that script? Both files are real scripts that run; these
# are the lines in which they differ.

# %% tags=["demo"]
difference("strategies/single.py", "strategies/mirrored.py")

# %% [markdown]
# The strategy makes a copy of each variable on each device (together a
# `MirroredVariable`), splits every batch over the **replicas**, and sums their
# gradients before the optimizer sees them. Without a list of devices it takes
# all GPUs of the host.
#
# On a machine without GPUs, the CPU is split into **logical devices** that
# share its cores. So you see that the *results* are right, but learn nothing
# about speed: one device could use all cores by itself.
#
# **Predict first.** Take the weights of the mirrored run and of the single
# device after the first four updates. How large is their largest difference,
# relative to the largest weight: 0, about 1e-6, or about 1e-2?

# %% tags=["demo"]
guess_difference = None  # a number, such as 1e-3

# %% tags=["demo"]
mirrored = launch(
    "strategies/mirrored.py", name="Mirrored, fit", workers=1,
    replicas=workers, **fixed,
)

# %% tags=["demo"]
both = agreement([single, mirrored], step=4)
beside(
    guess_difference, both["÷ the largest weight"].iloc[1],
    "largest difference ÷ largest weight",
)

# %% [markdown]
# It is not 0: the sum of 64 numbers rounds differently when it is made of two
# sums of 32. But it is only rounding.
#
# ### MirroredStrategy with your own loop
#
# `fit` hides the step. If you need control over it (two optimizers, a penalty
# on gradients, a special loss), you write the loop yourself, and the strategy
# runs its step on each replica with `strategy.run`. First look at it on one
# device, then mirrored:

# %% tags=["demo"]
difference("strategies/loop.py", "strategies/mirrored_loop.py")

# %% tags=["demo"]
mirrored_loop = launch(
    "strategies/mirrored_loop.py", name="Mirrored, own loop", workers=1,
    replicas=workers, **fixed,
)

# %% [markdown]
# Look at the loss: it is summed over the replica's pictures and divided by the
# **global** batch. Section 5 is about that line.

# %% [markdown]
# ## 3. Several processes
#
# ### MultiWorkerMirroredStrategy
#
# Now the workers are processes, perhaps on several hosts. Each has to be told
# who the others are, and which one it is. The environment variable `TF_CONFIG`
# does that: it is JSON with the addresses of all workers, in the same order
# everywhere, and the type and index of this worker.

# %% [markdown]
# **Question 1** (2 points)
#
# Write `tf_config(addresses, index)`. It returns the text of `TF_CONFIG` for
# one worker, which is JSON of the form
#
# `{"cluster": {"worker": [...]}, "task": {"type": "worker", "index": 0}}`
#
# where `addresses` is the list of all workers' `"host:port"`. For an index that
# no worker has, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q01_tf_config", "locked": false, "schema_version": 3, "solution": true, "task": false}
def tf_config(addresses, index):
    """Return the TF_CONFIG of worker `index`, as JSON text."""
    ### BEGIN SOLUTION
    if not 0 <= index < len(addresses):
        raise ValueError(f"there is no worker {index} of {len(addresses)}")
    return json.dumps({
        "cluster": {"worker": addresses},
        "task": {"type": "worker", "index": index},
    })
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_tf_config
#
# 1. Build an ordinary dictionary of the form above, and let `json` write it.
# 2. Check the index first: Python accepts negative ones, which no worker has.
#    `json.dumps` returns the text.
# 3. `task = {"type": "worker", "index": index}`

# %% nbgrader={"grade": true, "grade_id": "q01_tf_config_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import json

hosts = ["node1:5000", "node2:5000"]
given = json.loads(tf_config(hosts, 1))
assert given["cluster"] == {"worker": hosts}, given
assert given["task"] == {"type": "worker", "index": 1}, given
### BEGIN HIDDEN TESTS
for hosts in (["b:1", "c:2", "a:3", "a:1"], ["Node7:41"], hosts):
    for index in range(len(hosts)):
        given = tf_config(hosts, index)
        assert isinstance(given, str)
        given = json.loads(given)
        assert given["cluster"] == {"worker": hosts}
        assert given["task"] == {"type": "worker", "index": index}
    for index in (len(hosts), len(hosts) + 1, -1, -len(hosts)):
        try:
            tf_config(hosts, index)
        except ValueError:
            pass
        else:
            raise AssertionError("there is no such worker")
### END HIDDEN TESTS

# %% [markdown]
# When people type this for each process, most first attempts fail: a port is
# taken, two workers have the same index, or a host does not answer. Here the
# launcher does it (`cluster="multi_worker"`): each process picks a free port,
# writes it down, and waits until all are there. The script itself needs few
# changes:

# %% tags=["demo"]
difference("strategies/mirrored.py", "strategies/multi_worker.py")

# %% tags=["demo"]
multi_worker = launch(
    "strategies/multi_worker.py", name="MultiWorkerMirrored",
    workers=workers, cluster="multi_worker", **fixed,
)

# %% [markdown]
# ### ParameterServerStrategy
#
# Now there are four processes: a **coordinator** that makes the model and hands
# out steps, two **workers** that compute them, and a **parameter server** that
# keeps the variables. The workers and the server run `tf.distribute.Server` and
# wait for work. All of your script's logic runs in the coordinator.

# %% tags=["demo"]
difference("strategies/loop.py", "strategies/parameter_server.py")

# %% [markdown]
# **Predict first.** Nobody waits for anybody. While a worker computes its
# gradient, the other one may change the weights that the first one started
# from. How many updates happen in between, on average? That number is the
# **staleness** of a gradient. In synchronous training it is 0.

# %% tags=["demo"]
guess_staleness = None  # how many updates

# %% tags=["demo"]
server = launch(
    "strategies/parameter_server.py", name="ParameterServer",
    workers=workers, cluster="parameter_server", **fixed,
)

# %% tags=["demo"]
counts = server.result["staleness"]  # how often 0, 1, 2, ... updates
mean = np.average(range(len(counts)), weights=counts)
beside(guess_staleness, mean, "updates by others, on average")

# %% tags=["demo"]
plot.plot_staleness(server)

# %% [markdown]
# With two workers, either no update or one update by the other worker comes in
# between. With a hundred workers there are about a hundred, and the gradient
# belongs to weights that are long gone. What does it buy? These were measured,
# by holding or killing processes of this very script:

# %% tags=["demo"]
disturbed.table()

# %% [markdown]
# Nobody waits for a worker's *gradient*, but our script takes results in the
# order in which it handed out steps, with two steps per worker under way. So a
# slow worker costs more than its own share, and when one stops, the others
# make only a few more updates. A script can put up with slow workers if it
# takes results as they arrive. A lost worker ended the run here, by the
# launcher; TensorFlow alone hands its step to another worker. A lost parameter
# server ends it in any case: it has the weights.

# %% [markdown]
# ## 4. Horovod, and do they agree?
#
# There is one process per device, and no strategy object: the script itself
# says what is averaged, and when. That takes six steps, each of one or two
# lines.

# %% tags=["demo"]
difference("strategies/loop.py", "strategies/horovod_loop.py")

# %% tags=["demo"]
horovod = launch(
    "strategies/horovod_loop.py", name="Horovod", workers=workers, **fixed
)

# %% [markdown]
# **Predict first.** You have trained the same network in six ways. After four
# updates, how many of the six have the weights of a single device, up to
# rounding (a difference below 1e-3 of the largest weight)?

# %% tags=["demo"]
guess_alike = None  # a number from 1 to 6

# %% tags=["demo"]
trained = [single, mirrored, mirrored_loop, multi_worker, server, horovod]
compared = agreement(trained, step=4)
alike = (compared["÷ the largest weight"] < 1e-3).sum()
beside(guess_alike, alike, "ways with the same weights")

# %% tags=["demo"]
compared

# %% [markdown]
# And later in training? Each script keeps its weights after 1, 4, 16, 64, ...
# updates.

# %% tags=["demo"]
plot.plot_agreement(trained)

# %% [markdown]
# Rounding errors do not stay small. Where a ReLU is barely on or off, or two
# pixels compete for a maximum, a difference in the last digit decides, and from
# then on the runs diverge: training a network is a chaotic system. So "equal at
# the end" is too much to ask of two correct programs; "equal after a few
# updates" is not.

# %% tags=["demo"]
compare(trained)

# %% [markdown] nbgrader={"grade": false, "grade_id": "q02_agree_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 2** (2 points)
#
# In the first table, five of the six runs have the same weights after four
# updates, up to rounding, and one does not. Which one, and why? Is its result
# wrong? Name one thing in your own tables that supports your answer.
#
# === BEGIN MARK SCHEME ===
# 1 point: ParameterServer; its updates are asynchronous: gradients belong to
# older weights, and the order of updates is random. Half a point: not wrong as
# such, but another path to about the same loss or accuracy (or worse, if the
# tables say so). Half a point for a figure from the tables (difference,
# accuracy, staleness).
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q02_agree", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# ParameterServer. Its workers do not wait for each other. By the time a
# gradient is applied, the other worker has changed the weights that it was
# computed from, and it is random which worker comes first, so even two such
# runs differ. The others sum the same gradients at the same weights and differ
# only by rounding (1e-4 or less in the first table, against about 1e-2). The
# result is not wrong: it is another path of descent, and its held-out accuracy
# is close to that of the others.
# ### END SOLUTION

# %% [markdown]
# The last table does *not* show which strategy is fastest on GPUs. On a CPU,
# one process with all cores does the same arithmetic without sending anything.
# Compare only rows with the same *ranks × threads*; section 8 does it properly.

# %% [markdown]
# ## 5. Why the loss is divided by the global batch
#
# Replicas *sum* their gradients. If each of them takes the **mean** over its
# own pictures, the sum over $N$ replicas is $N$ times the gradient of the mean
# over the global batch, as if the learning rate were $N$ times as high. So each
# replica has to divide by the global batch $B$:
#
# $$\nabla \frac{1}{B} \sum_{i=1}^{B} \ell_i
# = \sum_{r=1}^{N} \nabla \frac{1}{B} \sum_{i \in r} \ell_i$$
#
# `tf.nn.compute_average_loss(per_example, global_batch_size=B)` does exactly
# that. For the same reason Keras' loss classes refuse their default reductions
# (`AUTO`, `SUM_OVER_BATCH_SIZE`) inside a strategy's scope: in your own loop
# you pass `reduction="none"` and divide yourself. `Model.fit` does it for you.

# %% [markdown]
# **Predict first.** The script `loss_scaling.py` takes one step on two
# replicas, with the loss scaled in several ways, and compares each gradient
# with that of a single device on the same pictures. If each replica takes its
# own mean, how many times too long is the gradient?

# %% tags=["demo"]
guess_ratio = None  # how many times

# %% tags=["demo"]
scaled = launch(
    "loss_scaling.py", name="loss scaling", workers=1, replicas=workers
)
plot.plot_loss_scaling(scaled)

# %% tags=["demo"]
cases = {case["name"]: case for case in scaled.result["cases"]}
beside(
    guess_ratio, cases["mean of each replica"]["ratio"],
    "times the single device's gradient",
)

# %% [markdown]
# The wrong gradients are wrong in different ways. A factor $N$ on everything is
# a learning rate that is $N$ times too high. With SGD you may notice; with
# Adam, which divides by the gradient's size, hardly ever. An uneven last batch
# is worse: the *direction* is wrong, because pictures in the smaller part weigh
# more. And a penalty on the weights is the same on every replica, so it is
# counted $N$ times unless you divide it by $N$
# (`tf.nn.scale_regularization_loss`).

# %% [markdown]
# ### One replica's loss
#
# **Question 3** (3 points)
#
# Without TensorFlow, write two functions for one replica of a strategy that
# sums:
#
# - `replica_loss(per_example, global_batch)`: what the replica returns.
#   `per_example` is a NumPy array of shape `[samples]`, or `[samples, ...]` if
#   each sample has several values (such as one per pixel); such a sample counts
#   with the mean of its values. A replica with no samples returns 0.
# - `replica_penalty(penalty, replicas)`: what it adds for a penalty on the
#   weights that all replicas share.
#
# Both return a single number.

# %% nbgrader={"grade": false, "grade_id": "q03_replica_loss", "locked": false, "schema_version": 3, "solution": true, "task": false}
def replica_loss(per_example, global_batch):
    """Return this replica's part of the mean loss over the global batch."""
    ### BEGIN SOLUTION
    if not len(per_example):
        return 0.0
    each = np.reshape(per_example, (len(per_example), -1)).mean(axis=1)
    return each.sum() / global_batch
    ### END SOLUTION


def replica_penalty(penalty, replicas):
    """Return this replica's part of a penalty that all of them compute."""
    ### BEGIN SOLUTION
    return penalty / replicas
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_replica_loss
#
# 1. The replicas' results are added up. So what must each divide by, for the
#    sum to be the mean over the global batch?
# 2. Make one number of each sample first, the mean of its values; then sum,
#    and divide by the global batch. A penalty is computed by all replicas, and
#    should count once.
# 3. `each = np.reshape(per_example, (len(per_example), -1)).mean(axis=1)`

# %% nbgrader={"grade": true, "grade_id": "q03_replica_loss_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

import numpy as np

losses = np.array([1.0, 2.0, 3.0, 6.0])
halves = [replica_loss(half, 4) for half in (losses[:2], losses[2:])]
assert math.isclose(sum(halves), 3.0), f"the halves add up to {sum(halves)}"
uneven = [replica_loss(some, 4) for some in (losses[:3], losses[3:])]
assert math.isclose(sum(uneven), 3.0), f"3 and 1 add up to {sum(uneven)}"
whole = sum(replica_penalty(0.8, 4) for _ in range(4))
assert math.isclose(whole, 0.8, rel_tol=1e-6), (
    f"four replicas' penalties: {whole}"
)
### BEGIN HIDDEN TESTS
for shape in ((0,), (0, 5), (0, 3, 2)):
    none = replica_loss(np.zeros(shape), 4)
    assert np.ndim(none) == 0 and math.isclose(none, 0, abs_tol=1e-12)
pixels = np.arange(12.0).reshape(2, 3, 2) ** 2
value = replica_loss(pixels, 4)
assert np.ndim(value) == 0
assert math.isclose(value, (55 + 451) / 6 / 4, rel_tol=1e-6)
assert math.isclose(replica_loss(pixels[:, 0], 2), (0.5 + 42.5) / 2)
value = replica_loss(pixels[:1], 7)
assert math.isclose(value, 55 / 6 / 7, rel_tol=1e-6)
assert math.isclose(replica_penalty(3.0, 2), 1.5)
assert math.isclose(replica_penalty(7, 3), 7 / 3, rel_tol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# ### A mean of means
#
# Horovod *averages* instead of summing, so there each rank takes the mean over
# its own part. The average of these means is the overall mean **if all parts
# are equally large**.
#
# **Question 4** (2 points)
#
# Now the ranks have unequal parts. Write `averaged(gradients, samples)`.
# `gradients` is a list of the ranks' gradients (NumPy arrays of the same shape,
# each the mean over that rank's own samples), and `samples` lists how many
# samples each rank had. Return the gradient of the mean over all samples, in
# the same shape. A rank without samples has a gradient of NaN, which must not
# spoil the result.

# %% nbgrader={"grade": false, "grade_id": "q04_averaged", "locked": false, "schema_version": 3, "solution": true, "task": false}
def averaged(gradients, samples):
    """Return the gradient of the mean over all ranks' samples."""
    ### BEGIN SOLUTION
    parts = [n * g for g, n in zip(gradients, samples) if n]
    return sum(parts) / sum(samples)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q04_averaged
#
# 1. A mean of means is right only for equal parts. What does a rank's mean
#    have to be multiplied by?
# 2. Weight each gradient by its number of samples, add them up, and divide by
#    all samples. 0 × NaN is NaN, so a rank without samples has to be left out.
# 3. `parts = [n * g for g, n in zip(gradients, samples) if n]`

# %% nbgrader={"grade": true, "grade_id": "q04_averaged_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

one, two = np.array([1.0, 4.0]), np.array([3.0, 0.0])
value = averaged([one, two], [32, 32])
assert np.allclose(value, [2, 2]), f"equal parts: {value}"
assert np.shape(value) == (2,), f"a gradient has shape (2,): {value}"
value = averaged([one, two], [3, 1])
assert np.allclose(value, [1.5, 3]), f"3 samples and 1: {value}"
### BEGIN HIDDEN TESTS
value = averaged([one, two, one], [1, 2, 1])
assert np.allclose(value, [2, 2])
nothing = np.array([np.nan, np.nan])
assert np.allclose(averaged([one, nothing], [5, 0]), one)
matrix = np.arange(6.0).reshape(2, 3)
assert np.allclose(averaged([matrix, -matrix], [3, 1]), matrix / 2)
rng = np.random.default_rng(4)
for counts in ((0, 5, 2, 0, 7, 1), (9,), (3, 1, 0), (0, 0, 4), (2, 3, 4)):
    parts = [rng.normal(size=(n, 4, 3)) for n in counts]
    given = [part.mean(axis=0) if len(part) else np.full((4, 3), np.nan)
             for part in parts]
    value = averaged(given, list(counts))
    assert np.shape(value) == (4, 3)
    assert np.allclose(value, np.concatenate(parts).mean(axis=0))
### END HIDDEN TESTS

# %% [markdown]
# **A good place to stop.** You have distributed one training in five ways.
# Next: what goes wrong unnoticed. It needs none of the runs above: when you
# come back, run the cells before section 1, then go on here.

# %% tags=["demo"]
check()

# %% [markdown]
# ## 6. Horovod in six steps, and a bug hunt
#
# | step | line | without it |
# | --- | --- | --- |
# | 1 initialise | `hvd.init()` | each process believes that it is alone |
# | 2 pin | one GPU for each local rank | all ranks crowd the first GPU |
# | 3 shard | `order[rank::size]` or a slice | ? |
# | 4 scale | the learning rate follows the global batch | ? |
# | 5 wrap | `DistributedGradientTape`, `DistributedOptimizer` | ? |
# | 6 broadcast | rank 0's weights to all, before the first step | ? |
#
# There are two more habits: **average metrics** over ranks before anybody reads
# them, and let only **rank 0 write** files. In a loop of your own, wrap the
# *tape*: with this Keras, Horovod's wrapped optimizer averages in `fit` alone.

# %% [markdown]
# Step 4 is not like the others. Without them the program is wrong; scaling the
# rate with the batch is a *heuristic*, which lesson 4 puts to the test. Here,
# leaving it out is a mistake because these scripts promise it: runs that
# promise the same rate and use different ones cannot be compared.
#
# None of the cases marked "?" raises an error, and the loss falls in all of
# them. So you have to look for the mistakes in what each rank has recorded.

# %% [markdown]
# ### Seven runs, and one of them is right
#
# `bug_hunt.py` is a small, quick training with Horovod. `case="none"` is
# correct; in each of the cases A to F one thing is missing or wrong. In every
# run, each rank records what it has seen.

# %% [markdown]
# **Predict first.** In how many of the six cases is the final loss clearly
# worse (by a tenth or more) than in the correct one?

# %% tags=["demo"]
guess_worse = None  # a number from 0 to 6

# %% tags=["demo"]
hunted = {
    case: launch("bug_hunt.py", name=f"case {case}", case=case,
                 workers=workers)
    for case in ("none", "A", "B", "C", "D", "E", "F")
}

# %% tags=["demo"]
losses = {case: run.result["loss"] for case, run in hunted.items()}
worse = [case for case in losses if losses[case] > 1.1 * losses["none"]]
beside(guess_worse, len(worse), "cases with a clearly higher loss")

# %% tags=["demo"]
pd.Series(losses, name="loss at the end").to_frame().round(4)

# %% [markdown]
# The loss alone does not reveal the mistakes. Here is what the ranks themselves
# recorded in their first two steps.

# %% tags=["demo"]
mistakes.excerpt(hunted["none"])

# %% [markdown]
# ### Checks on what the ranks saw
#
# `mistakes.witnesses(run)` returns all of it as plain data: a list with one
# dictionary per rank, rank 0's first, with these keys:
#
# - `"rank"`, `"rate_of_one_rank"`, and `"weights"`: a checksum of the initial
#   weights;
# - `"steps"`: for each step a dictionary with `"samples"` (the numbers of the
#   samples it trained on), `"rate"`, `"update"` and `"weights"` (checksums of
#   the gradients that it applied, and of its weights after that);
# - `"samples_counted"` (how many samples it says it processed) and `"wrote"` (a
#   file, or `None`).
#
# **Question 5** (3 points)
#
# Write three checks. Each takes such a list and returns `True` if something is
# wrong:
#
# - `shared_samples(ranks)`: in some step, two ranks had the same sample;
# - `began_apart(ranks)`: not all ranks began with the same weights;
# - `drifting(ranks)`: in some step, not all ranks applied the same update.

# %% nbgrader={"grade": false, "grade_id": "q05_checks", "locked": false, "schema_version": 3, "solution": true, "task": false}
def shared_samples(ranks):
    ### BEGIN SOLUTION
    for steps in zip(*(rank["steps"] for rank in ranks)):
        everyones = [n for step in steps for n in set(step["samples"])]
        if len(everyones) > len(set(everyones)):
            return True
    return False
    ### END SOLUTION


def began_apart(ranks):
    ### BEGIN SOLUTION
    return len({rank["weights"] for rank in ranks}) > 1
    ### END SOLUTION


def drifting(ranks):
    ### BEGIN SOLUTION
    together = zip(*(rank["steps"] for rank in ranks))
    return any(len({step["update"] for step in s}) > 1 for s in together)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q05_checks
#
# 1. Look at one rank's record first: what is in `rank["steps"][0]`? Two checks
#    compare ranks step by step.
# 2. `zip(*…)` over the ranks' steps gives, for each step, all ranks' entries.
#    Something is the same everywhere if a set of it has one element. One rank
#    may have a sample twice: count it once.
# 3. `together = zip(*(rank["steps"] for rank in ranks))`

# %% nbgrader={"grade": true, "grade_id": "q05_checks_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
def witness(*samples, began="aa", updates=("u1", "u2")):
    steps = [{"samples": list(some), "update": update, "weights": "ff"}
             for some, update in zip(samples, updates)]
    return {"weights": began, "steps": steps}


one, two = witness([0, 1], [4, 5]), witness([2, 3], [6, 7])
assert not shared_samples([one, two]), "no sample is on two ranks here"
assert shared_samples([one, one]), "identical batches"
assert not began_apart([one, two]) and not drifting([one, two])
assert began_apart([one, two, witness(began="bb")])
assert drifting([one, witness([2], [6], updates=("u1", "u3"))])
### BEGIN HIDDEN TESTS
swapped = [witness([0, 1], [2, 3]), witness([2, 3], [0, 1])]
assert not shared_samples(swapped)
assert shared_samples([one, two, witness([8, 9], [7, 8])])
assert not shared_samples([witness([0, 0]), witness([1, 1])])
assert not shared_samples([one]) and not drifting([one])
assert drifting([one, witness([1], [2], updates=("u2", "u1"))])
for k in range(4):  # one rank differs, at first or in one step
    ranks = [witness([j], began="ab"[k == j]) for j in range(4)]
    assert began_apart(ranks) and not drifting(ranks)
    for i in range(3):
        updates = ["uvw"[:i] + "x" + "uvw"[i + 1:], "uvw"]
        assert drifting([witness([0], [0], [0], updates=updates[k != j])
                         for j in range(4)])
        batches = [[[9 * j + m, 9 * j + m + 1] for m in (0, 2, 4)]
                   for j in range(4)]
        for step, shared in ((i - 1, False), (i, True)):
            batches[k][i][1] = batches[(k + 1 + i) % 4][step][0]
            four = [witness(*some, updates="uvw") for some in batches]
            assert bool(shared_samples(four)) == shared
assert not began_apart([one])
assert began_apart([witness(began=b) for b in "abc"])
later = {**one, "steps": [{**step, "weights": "ee"} for step in one["steps"]]}
assert not began_apart([one, later]) and not drifting([one, later])
### END HIDDEN TESTS

# %% [markdown]
# ### Three more checks
#
# **Question 6** (3 points)
#
# Write three more:
#
# - `miscounted(ranks)`: the number of samples that all ranks together *counted*
#   is not the number that they trained on;
# - `not_scaled(ranks)`: in some step, a rank's `"rate"` is not
#   `"rate_of_one_rank"` times the number of ranks (to within one part in
#   10,000);
# - `second_writer(ranks)`: a rank other than rank 0 wrote a file.

# %% nbgrader={"grade": false, "grade_id": "q06_more_checks", "locked": false, "schema_version": 3, "solution": true, "task": false}
def miscounted(ranks):
    ### BEGIN SOLUTION
    trained_on = sum(
        len(step["samples"]) for rank in ranks for step in rank["steps"]
    )
    return sum(rank["samples_counted"] for rank in ranks) != trained_on
    ### END SOLUTION


def not_scaled(ranks):
    ### BEGIN SOLUTION
    right = ranks[0]["rate_of_one_rank"] * len(ranks)
    rates = [step["rate"] for rank in ranks for step in rank["steps"]]
    return not all(math.isclose(r, right, rel_tol=1e-4) for r in rates)
    ### END SOLUTION


def second_writer(ranks):
    ### BEGIN SOLUTION
    return any(rank["wrote"] for rank in ranks if rank["rank"] != 0)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q06_more_checks
#
# 1. Each of them compares what the ranks say with what should be there. Write
#    down the right value first.
# 2. Trained on: the lengths of all steps' samples, summed over all ranks. The
#    right rate: that of one rank times the number of ranks, compared with
#    `math.isclose`. Writers: look at every rank but 0.
# 3. `rates = [step["rate"] for rank in ranks for step in rank["steps"]]`

# %% nbgrader={"grade": true, "grade_id": "q06_more_checks_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
def witness(rank, counted=4, rate=0.1, wrote=None, steps=2):
    step = {"samples": [8 * rank, 8 * rank + 1], "rate": rate}
    return {"rank": rank, "rate_of_one_rank": 0.05, "wrote": wrote,
            "samples_counted": counted, "steps": [step] * steps}


right = [witness(0, wrote="weights.npz"), witness(1)]
assert not miscounted(right), "2 ranks × 2 steps × 2 samples are 8"
assert not not_scaled(right), "2 × 0.05 is 0.1"
assert not second_writer(right), "rank 0 wrote, and nobody else"
assert miscounted([witness(0, counted=8), witness(1, counted=8)])
assert not_scaled([witness(0, rate=0.05), witness(1, rate=0.05)])
assert second_writer([witness(0, wrote="a"), witness(1, wrote="a")])
### BEGIN HIDDEN TESTS
assert miscounted([witness(0), witness(1, counted=3)])
assert not miscounted([witness(0, counted=2, steps=1), witness(1)])
assert not miscounted([witness(0, counted=3), witness(1, counted=5)])
assert miscounted([witness(0, counted=799, steps=400), witness(1)])
uneven = [{"samples": [1, 2, 3]}, {"samples": [4]}, {"samples": [5, 6, 7]}]
assert not miscounted([{**witness(0, counted=7), "steps": uneven}, right[1]])
assert not_scaled([*right, witness(2)])
for one in (0.001, 0.05, 20):  # one rate is off, then near enough
    ranks = [{**witness(k), "rate_of_one_rank": one, "steps": [
        {"samples": [k], "rate": 3 * one} for _ in "abc"]} for k in range(3)]
    for k in range(9):
        step = ranks[k // 3]["steps"][k % 3]
        for off in (0.5, 1 - 2e-4, 1 + 2e-4, 2):
            step["rate"] = 3 * one * off
            assert not_scaled(ranks)
        step["rate"] = 3 * one * (1 + (-1) ** k * 3e-5)
        assert not not_scaled(ranks)
assert not second_writer([witness(0)])
assert not second_writer([witness(0, wrote="a")])
for k in (1, 2, 3):
    some = [witness(j, wrote="b" if j == k else None) for j in range(4)]
    assert second_writer(some)
    assert second_writer([witness(0, wrote="a"), *some[1:]])
### END HIDDEN TESTS

# %% [markdown]
# ### Which mistake is where?
#
# The course has such checks too. Here is what they say about the correct
# script, followed by the records of one case.

# %% tags=["demo"]
mistakes.examine(hunted["none"])

# %% tags=["demo"]
mistakes.excerpt(hunted["A"])

# %% [markdown]
# Change the letter in the cell above, or give your checks a case:
# `drifting(mistakes.witnesses(hunted["A"]))`.
#
# **Question 7** (3 points)
#
# Fill in `bugs`. It maps the letters A to F to these words: `"shard"` (all
# ranks have the same batches), `"wrap"` (gradients are not averaged),
# `"broadcast"` (ranks begin with different weights), `"throughput"` (samples
# are counted too often), `"scale"` (the rate is not scaled as promised), `"write"`
# (every rank writes the checkpoint).

# %% nbgrader={"grade": false, "grade_id": "q07_bugs", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
# bugs = {"A": ?, "B": ?, "C": ?, "D": ?, "E": ?, "F": ?}
### BEGIN SOLUTION
bugs = {
    "A": "wrap", "B": "throughput", "C": "shard",
    "D": "write", "E": "broadcast", "F": "scale",
}
### END SOLUTION

# %% [markdown] tags=["hints"]
# q07_bugs
#
# 1. Let your six checks decide: run each of them on the records of each letter.
# 2. For every letter, exactly one check says `True`. Shared samples mean that
#    nothing was sharded, drifting that gradients were not averaged; the others go
#    by their names.
# 3. `bugs = {"A": "wrap"}`

# %% nbgrader={"grade": true, "grade_id": "q07_bugs_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
words = {"shard", "wrap", "broadcast", "throughput", "scale", "write"}
assert set(bugs) == set("ABCDEF"), "one word for each letter, A to F"
assert set(bugs.values()) <= words, set(bugs.values()) - words
### BEGIN HIDDEN TESTS
assert bugs == {
    "A": "wrap", "B": "throughput", "C": "shard",
    "D": "write", "E": "broadcast", "F": "scale",
}
### END HIDDEN TESTS

# %% [markdown]
# ### A seventh case: no error is no proof
#
# `bug_hunt_fit.py` keeps to all of these habits, and trains with Keras' `fit`.
# From TensorFlow 2.16 on, Keras 3 replaces Keras 2, and Horovod does not know
# it. Where only one of them is installed, you see recorded runs.

# %% tags=["demo"]
seventh = recorded("keras")
if stack.name() == "next":  # it has both: your own runs
    seventh = [launch("bug_hunt_fit.py", name=f"Keras {k}", keras=k)
               for k in (2, 3)]
mistakes.outcomes(seventh)

# %% [markdown] tags=["claims"]
# In the recorded runs, no script ended with an error, and every loss fell. With
# Keras 2, the ranks made the same update in every step, with Keras 3 in none.
# Five seeds do not tell the two apart by held-out accuracy.

# %% [markdown]
# Your check finds it: `drifting(mistakes.witnesses(seventh[1]))`. Keras 2's `fit`
# asks the *optimizer* for gradients, where Horovod averages them; Keras 3's has a
# tape of its own. So this course refuses Keras 3.

# %% [markdown]
# ## 7. Your turn: make a script distributed
#
# Here is a script for one device. It trains a small network on made-up samples
# for one epoch. One of its matrices is **tied**: it is used twice, and its
# gradient has a part from each use. Another one is **frozen**: it is never
# trained. `Task` holds the data, and records what the script reports.

# %%
%%writefile one_device.py
import tensorflow as tf

from course.training.exercise import Network, Task

task, model = Task(), Network()
optimizer = tf.keras.optimizers.SGD(task.rate)


@tf.function(autograph=False)
def gradients_on(samples):
    with tf.GradientTape() as tape:
        loss = model.loss(samples)
    return loss, tape.gradient(loss, model.trainable_variables)


task.begin(model)  # right before the first step
for numbers in task.batches(task.batch):
    loss, gradients = gradients_on(task.samples(numbers))
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    task.step(model, loss=loss, samples=len(numbers))
task.save(model)

# %% tags=["demo"]
plain_epoch = launch("one_device.py", name="one device", workers=1)

# %% [markdown]
# `task.batches(n)` gives the numbers of the samples of each step, `n` a step,
# in an order that all processes share, without the remainder at the end.
# `task.batch` is the batch of *one* rank, and `task.rate` the learning rate
# that suits it. Every process draws its own weights.
#
# **Predict first.** You saw how many steps one device made. How many will the
# epoch have on two ranks, if each rank has as many samples in a step as that
# one device?

# %% tags=["demo"]
guess_steps = None  # how many steps

# %% [markdown]
# ### Written by you, judged by what its ranks do
#
# **Question 8** (9 points)
#
# Copy the script into the next cell, and make it distributed with Horovod. On
# any number of ranks it has to end with the weights of *one* device that takes
# each step on all ranks' samples together, with the learning rate times the
# number of ranks. `loss` and `samples` are to be those of all ranks together,
# on every rank.
#
# The tests launch your file on two and on three ranks, with samples and weights
# that they draw for each rank, and look at what each rank reads and what it sends
# by Horovod. All of it together is worth 2 points, and each of these one more:
# own samples, averaged gradients, the scaled rate, the same start, frozen and
# tied weights, true metrics, one writer. A launch may take a minute.

# %% nbgrader={"grade": false, "grade_id": "q08_convert", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
%%writefile my_horovod.py
### BEGIN SOLUTION
import horovod.tensorflow as hvd
import tensorflow as tf

from course.training.exercise import Network, Task

hvd.init()
task, model = Task(), Network()
optimizer = tf.keras.optimizers.SGD(task.rate * hvd.size())


@tf.function(autograph=False)
def gradients_on(samples):
    with tf.GradientTape() as tape:
        loss = model.loss(samples)
    tape = hvd.DistributedGradientTape(tape)
    return loss, tape.gradient(loss, model.trainable_variables)


hvd.broadcast_variables(model.variables, root_rank=0)
task.begin(model)  # right before the first step
for numbers in task.batches(task.batch * hvd.size()):
    mine = numbers[hvd.rank()::hvd.size()]
    loss, gradients = gradients_on(task.samples(mine))
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    task.step(model, loss=hvd.allreduce(loss), samples=len(numbers))
if hvd.rank() == 0:
    task.save(model)
### END SOLUTION

# %% [markdown] tags=["hints"]
# q08_convert
#
# 1. Take Horovod's steps one after the other, as in the table above: initialise,
#    shard, scale the rate, wrap the gradients, broadcast, average what is
#    reported, write on rank 0.
# 2. A step covers `task.batch` samples for each rank, of which each rank takes
#    its share. Broadcast *before* `task.begin`, and all variables, frozen ones
#    too. Average the loss with `hvd.allreduce`; `samples` is the number of all
#    ranks' samples.
# 3. `mine = numbers[hvd.rank()::hvd.size()]`

# %% nbgrader={"grade": true, "grade_id": "q08_convert_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.same_weights(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.same_weights(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q08_own_samples_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.own_samples(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.own_samples(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q08_averaged_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.averaged(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.averaged(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q08_scaled_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.scaled(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.scaled(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q08_began_alike_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.began_alike(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.began_alike(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q08_frozen_and_tied_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.frozen_and_tied(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.frozen_and_tied(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q08_true_metrics_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.true_metrics(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.true_metrics(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q08_one_writer_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.one_writer(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.one_writer(trained)
### END HIDDEN TESTS

# %% tags=["demo", "raises-exception"]
mine = launch("my_horovod.py", name="my script", workers=workers)
beside(guess_steps, mine.result["steps"], "steps of the epoch")

# %% tags=["demo", "raises-exception"]
difference("one_device.py", "my_horovod.py")

# %% [markdown]
# **A good place to stop.** You have a script of your own that is right on any
# number of ranks. Next: is it faster? That needs none of the runs above.

# %% tags=["demo"]
check()

# %% [markdown]
# ## 8. Scaling efficiency
#
# Are twice the workers twice as fast? **Scaling efficiency** is the fraction of
# the ideal speed-up that you get:
#
# $$\text{efficiency} = \frac{\text{samples/s on } N \text{ ranks}}
# {N \times \text{samples/s on one rank}}$$
#
# - **Strong scaling**: the global batch stays the same, so each rank gets a
#   smaller part. It is the same training, finished sooner.
# - **Weak scaling**: the per-rank batch stays the same, so the global batch
#   grows with $N$. Devices stay full, but it is a different training (lesson
#   4).
#
# For this to mean anything, two things must hold. Count only samples that were
# **really processed**. And the hardware of "one rank" must be one $N$-th of
# what $N$ ranks have: on this machine, one rank with *one* thread.

# %% [markdown]
# ### What an epoch processes
#
# **Question 9** (3 points)
#
# An epoch of `samples` pictures consists of whole steps, each of
# `ranks × per_rank_batch` pictures. The remainder is not trained on.
#
# - `samples_processed(samples, per_rank_batch, ranks)`: how many pictures an
#   epoch really trains on.
# - `efficiency_of(one, many, ranks)`: the scaling efficiency. `one` and `many`
#   are pairs of (samples processed, seconds) on one rank and on `ranks` ranks.
#   If the job processed nothing, the efficiency is 0.

# %% nbgrader={"grade": false, "grade_id": "q09_efficiency", "locked": false, "schema_version": 3, "solution": true, "task": false}
def samples_processed(samples, per_rank_batch, ranks):
    """Return how many samples an epoch's whole steps process."""
    ### BEGIN SOLUTION
    global_batch = per_rank_batch * ranks
    return samples // global_batch * global_batch
    ### END SOLUTION


def efficiency_of(one, many, ranks):
    """Return the speed on many ranks over `ranks` times that on one."""
    ### BEGIN SOLUTION
    speed, single_speed = many[0] / many[1], one[0] / one[1]
    return speed / (ranks * single_speed)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q09_efficiency
#
# 1. How many whole steps fit into an epoch? Then: how fast was the job, and how
#    fast would it be without any loss?
# 2. Whole steps times the global batch are the samples processed. Speed is
#    samples over seconds; divide that of many ranks by `ranks` times that of one.
# 3. `global_batch = per_rank_batch * ranks`

# %% nbgrader={"grade": true, "grade_id": "q09_efficiency_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


count = samples_processed(1_000, 32, 2)
assert count == 960, f"15 steps of 64 pictures, not {count} pictures"
value = efficiency_of((1_000, 10), (1_000, 5), 2)
assert near(value, 1), f"half the time on two ranks: {value}"
value = efficiency_of((1_000, 10), (960, 6), 2)
assert near(value, 0.8), f"160 pictures/s against 100: {value}"
### BEGIN HIDDEN TESTS
assert samples_processed(60_000, 2048, 8) == 49_152
assert samples_processed(60_000, 8192, 8) == 0
assert samples_processed(64, 32, 2) == 64
assert samples_processed(63, 32, 2) == 0
assert near(efficiency_of((59_392, 29), (49_152, 6), 8), 0.5)
assert math.isclose(efficiency_of((960, 10), (0, 5), 8), 0, abs_tol=1e-12)
assert near(efficiency_of((500, 10), (500, 10), 1), 1)
assert near(efficiency_of((1_000, 10), (1_250, 5), 2), 1.25)
value = efficiency_of((1_000, 30), (700, 13), 3)
assert near(value, 7 / 13)
### END HIDDEN TESTS

# %% [markdown]
# ### Measure your own
#
# The script is the course's `train_cifar.py`, with one thread for each rank.
# You run it on one rank, and on two ranks with strong and with weak scaling. One
# more run gives a single rank as many threads as all ranks have together: the
# same hardware, without messages.
#
# **Predict first.** What efficiency, in percent, will strong and weak scaling
# reach?

# %% tags=["demo"]
guess_strong = None  # percent
guess_weak = None  # percent

# %% tags=["demo"]
scaled_runs = dict(
    pictures, recipe="base", steps=16 if smoke else 640,
    seed=seed, threads=1, no_augment=True,
)
alone = launch(
    "train_cifar.py", name="1 rank", workers=1, global_batch=64,
    **scaled_runs,
)

# %% tags=["demo"]
undivided = launch(
    "train_cifar.py", name=f"1 rank × {workers} threads", workers=1,
    global_batch=64, **dict(scaled_runs, threads=workers),
)

# %% tags=["demo"]
counts = [2**k for k in range(1, workers.bit_length()) if 2**k <= workers]
strong = [alone, undivided] + [
    launch("train_cifar.py", name=f"{n} ranks, strong", workers=n,
           global_batch=64, **scaled_runs)
    for n in counts
]

# %% tags=["demo"]
weak = [alone] + [
    launch("train_cifar.py", name=f"{n} ranks, weak", workers=n,
           global_batch=64 * n, **scaled_runs)
    for n in counts
]

# %% tags=["demo"]
by_strong = efficiency.scaling(strong, "strong")
reached = 100 * by_strong["efficiency"].iloc[-1]
beside(guess_strong, reached, "strong, %")

# %% tags=["demo"]
by_weak = efficiency.scaling(weak, "weak")
beside(guess_weak, 100 * by_weak["efficiency"].iloc[-1], "weak, %")

# %% tags=["demo"]
by_strong

# %% tags=["demo"]
by_weak

# %% tags=["demo"]
plot.plot_scaling(strong, weak)

# %% [markdown]
# ### Published figures
#
# Published figures deserve the same care. A public workshop's multi-GPU
# notebook measures the time of an epoch and divides 60,000 pictures by it. But
# an epoch runs only whole steps: with large batches on many devices, a good
# part of the 60,000 is never processed. Both are computed here from the
# throughputs that it printed:

# %% tags=["demo"]
efficiency.published()

# %% [markdown]
# Taken to the extreme, nobody could miss the mistake: 8,192 pictures on each of
# 8 devices make zero steps per epoch. But it *was* missed: an empty epoch takes
# no time, and 60,000 divided by next to nothing is a splendid throughput.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q10_scaling_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 10** (2 points)
#
# Compare strong and weak efficiency in *your* tables. Which one is higher, and
# why would you expect that? Then suppose that someone measures one rank with
# all cores of the machine, and two ranks with half of the cores each. What
# efficiency can they reach at most? What would be a fair question to ask of
# those two runs?
#
# === BEGIN MARK SCHEME ===
# 1 point: names the figures and a reason: in strong scaling each rank's
# computation shrinks while the message stays as large, so communication weighs
# more (if the figures say otherwise: says so, and names noise or spread). 1
# point: both have the same hardware, so at most about 50 % "efficiency" (or a
# ratio of about 1): the fair question is whether two processes use the same
# cores better than one.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q10_scaling", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my tables weak scaling is more efficient. In strong scaling a rank computes
# half as much per step and still exchanges the whole gradient, so the exchange
# has a larger share. In weak scaling the computation per rank stays as long.
# One rank with all cores has the hardware of both ranks together. At best two
# ranks are just as fast, which the formula calls 50 %. It is fairer to ask for
# the ratio of the two speeds: does splitting the same cores into two processes
# gain or lose anything?
# ### END SOLUTION

# %% [markdown]
# ## 9. Where the time goes
#
# `step_times.py` splits a training step on each rank into four parts: waiting
# for *input*, *computation* of the gradient, *communication* (the all-reduce,
# including the wait for the slower rank), and *update* of the weights.
# Splitting has a cost: in a real step TensorFlow and Horovod overlap some of
# these. Look at the shares, not at the sum.

# %% tags=["demo"]
widths = [8, 16, 32] if smoke else [8, 16, 32, 64, 96]
timed = dict(widths=widths, steps=8 if smoke else 40, threads=1)
one = launch(
    "step_times.py", name="steps", workers=1, part=workers, **timed
)

# %% tags=["demo"]
two = launch(
    "step_times.py", name="steps", workers=workers, **timed
)

# %% tags=["demo"]
plot.plot_step_times([one, two])

# %% [markdown]
# Before the first step, time passes that no epoch shows. For a run of a few
# minutes, this start-up matters more than any knob below:

# %% tags=["demo"]
efficiency.start_times([one, two])

# %% [markdown]
# ### Knobs
#
# Horovod has a background thread. It wakes up once per **cycle time** (1 ms),
# sees which gradients are ready on *all* ranks, copies them into one buffer
# (**tensor fusion**, up to 128 MiB), and reduces that buffer in one go. There
# are two more ways to send less: **aggregate** the gradients of several batches
# before sending, and **compress** them to 16 bits.
#
# **Predict first.** Which of these makes a step of the widest network fastest:
# no fusion, a longer cycle, aggregation over four batches, or fp16?

# %% tags=["demo"]
guess_knob = None  # "no fusion", "longer cycle", "aggregation" or "fp16"

# %% tags=["demo"]
knobs = {
    "as it comes": dict(timeline=True),
    "no fusion": dict(fusion_threshold_mb=0),
    "aggregation": dict(aggregate=4),
}
if not smoke:
    knobs["longer cycle"] = dict(cycle_time_ms=10)
    knobs["fp16"] = dict(fp16_compression=True)
turned = [
    launch("step_times.py", name=knob, workers=workers, threads=1,
           widths=widths[-1:], steps=timed["steps"], **options)
    for knob, options in knobs.items()
]

# %% tags=["demo"]
table = efficiency.tuning(turned)
fastest = table["name"][table["images_per_s"].idxmax()]
beside(guess_knob, fastest, "the knob with the most images/s")

# %% tags=["demo"]
table

# %% [markdown]
# Differences within the spread don't count. On one host with little to send,
# most knobs do nothing, or do harm: fp16 makes the cores that train convert
# every gradient twice, only to halve a message that never leaves memory. On a
# slow network the same knobs pay. That is why you measure where you train.
#
# ### The timeline
#
# The first run also recorded Horovod's **timeline**: for each gradient, when it
# was *negotiated* (who is ready?), queued, copied, and reduced.

# %% tags=["demo"]
plot.plot_timeline(turned[0])

# %% [markdown] nbgrader={"grade": false, "grade_id": "q11_knobs_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 11** (2 points)
#
# Which knob changed your step time by more than its spread, and in which
# direction? Which part of the step did it change? Use the timeline or the
# figure of step times to explain it. Then name one change of hardware or model
# that would make a *different* knob the best one, and say why.
#
# === BEGIN MARK SCHEME ===
# 1 point: a knob (or "none") with its figure and spread from the table, and the
# part of the step that it affects (communication; aggregation: once in k
# batches). 1 point: a sensible change with its reason: slow network or large
# dense layers → compression; many small layers → fusion and cycle time; small
# per-rank batch → aggregation.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q11_knobs", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my table aggregation is clearly faster per batch, because it pays for the
# all-reduce only once in four batches. The other knobs differ from the first
# row by no more than the spread, except for the longer cycle, in which
# gradients wait for the next wake-up (in the timeline, negotiation takes
# longer). Over a slow network between two hosts the message itself would take
# most of the step. Then fp16, which halves it, would pay although it computes
# more.
# ### END SOLUTION

# %% [markdown]
# ## 10. Computing in 16 bits
#
# Compression sends 16 bits for each number. A network can also *compute* in 16
# bits: it keeps its weights in float32 and multiplies copies of them. There are
# two such formats. float16 has more digits, **bfloat16** the range of float32.
# What becomes of a small gradient, and of a weight that moves a little?

# %% tags=["demo"]
from ml_dtypes import bfloat16, finfo

gradient, scale = np.float32(2e-9), np.float32(2**16)
for kind in (np.float32, np.float16, bfloat16):
    limits = finfo(kind)
    scaled = np.float32(kind(gradient * scale)) / scale
    print(
        f"{limits.dtype!s:8} up to {float(limits.max):.0e},",
        f"step at 1: {float(limits.eps):.0e};",
        f"2e-9 becomes {float(kind(gradient)):.0e}, scaled",
        f"{scaled:.0e}; 1 + 0.001 = {float(kind(1) + kind(1e-3)):g}",
    )

# %% [markdown]
# In float16 the gradient **underflows** to 0, which is why it needs **loss
# scaling**: multiply the loss by, say, $2^{16}$ before the backward pass, and
# divide the gradients by it after. bfloat16 needs none. What it lacks is
# digits: added to a weight of 1, an update of 0.001 is lost. So weights,
# gradients, optimizer state, batch statistics, logits and loss stay in float32.
#
# `precision="auto"` computes in bfloat16 where that is faster: on a processor
# with AMX, or an NVIDIA GPU from Ampere on.
#
# **Predict first.** How many times as many images per second will it train as
# in float32? And how many bytes will it send, compared with float32?

# %% tags=["demo"]
guess_faster = None  # times as many images per second
guess_sent = None  # times as many bytes

# %% tags=["demo"]
fewer = dict(
    pictures, recipe="batch_norm", global_batch=512, threads=1,
    steps=4 if smoke else 40, seed=seed, timeline=True,
)
in_each = [
    launch("train_cifar.py", name=name, workers=workers,
           precision=name, **fewer)
    for name in ("float32", "auto")
]

# %% tags=["demo"]
shown = precisions.here_or_recorded(in_each)
table = compare(shown)
beside(guess_faster, table["ratio"].iloc[1], "times the images/s")

# %% tags=["demo"]
bits = precisions.sent(shown)
beside(
    guess_sent, bits["bytes"].iloc[1] / bits["bytes"].iloc[0],
    "times the bytes",
)

# %% tags=["demo"]
bits

# %% [markdown]
# Computation got faster, and the message stayed the same: communication now
# takes a larger share of the step. (To send less, add
# `fp16_compression=True`.) And the accuracy? One seed says little; these pairs
# were recorded with the same seeds in both precisions:

# %% tags=["demo"]
table

# %% tags=["demo"]
precisions.table()

# %% [markdown]
# ## 11. When does it pay?
#
# Two workers halve the computation of a step (strong scaling) and add an
# exchange. Here is a first model. If one rank's computation for its part takes
# $c$, and a message has $n$ bytes,
#
# $$t(N) = c + \underbrace{2(N-1)\,\alpha}_{\text{latency}}
# + \underbrace{\frac{2(N-1)}{N}\,\frac{n}{\beta}}_{\text{bandwidth}}$$
#
# where $\alpha$ and $\beta$ are the latency and the bandwidth of a link, for a
# ring (lesson 1). A wider network has more to compute *and* more to send. A
# convolution uses each weight once for every pixel of every picture; a dense
# layer, once for every picture. So the outcome depends on width, pictures per
# rank and kind of layer.

# %% [markdown]
# **Question 12** (3 points)
#
# - `step_seconds(compute_s, size_bytes, ranks, alpha_s, beta)`: the time of a
#   step by the formula. `compute_s` is one rank's computation for its part;
#   with one rank, there is no exchange.
# - `pays(whole_s, part_s, size_bytes, ranks, alpha_s, beta)`: whether a step
#   takes less time on `ranks` ranks than on one. `whole_s` is the computation
#   of the whole batch on one rank, `part_s` that of a rank's part.

# %% nbgrader={"grade": false, "grade_id": "q12_pays", "locked": false, "schema_version": 3, "solution": true, "task": false}
def step_seconds(compute_s, size_bytes, ranks, alpha_s, beta):
    """Return the seconds of a step; beta is in bytes per second."""
    ### BEGIN SOLUTION
    rounds = 2 * (ranks - 1)
    return compute_s + rounds * (alpha_s + size_bytes / (ranks * beta))
    ### END SOLUTION


def pays(whole_s, part_s, size_bytes, ranks, alpha_s, beta):
    """Return whether `ranks` ranks are faster than one."""
    ### BEGIN SOLUTION
    many = step_seconds(part_s, size_bytes, ranks, alpha_s, beta)
    return many < whole_s
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q12_pays
#
# 1. The formula is that of a ring: 2(N − 1) messages of 1/N of the bytes. What is
#    it with N = 1?
# 2. Mind that β is in bytes *per second* here, so bytes are divided by it.
#    Compare a step on many ranks, with a part's computation, with the computation
#    of the whole batch.
# 3. `rounds = 2 * (ranks - 1)`

# %% nbgrader={"grade": true, "grade_id": "q12_pays_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


value = step_seconds(0.1, 1_000_000, 2, 0.001, 100_000_000)
assert near(value, 0.1 + 0.002 + 0.01), f"{value} s on two ranks"
value = step_seconds(0.1, 1_000_000, 1, 0.001, 100_000_000)
assert near(value, 0.1), f"{value} s on one rank"
assert pays(0.2, 0.1, 1_000_000, 2, 0.001, 100_000_000)
assert not pays(0.02, 0.01, 1_000_000, 2, 0.001, 100_000_000)
### BEGIN HIDDEN TESTS
value = step_seconds(0.05, 8_000_000, 8, 0.0001, 1e9)
assert near(value, 0.05 + 14 * 0.0001 + 14 * 0.001)
assert near(step_seconds(0, 0, 4, 0.5, 1.0), 3)
assert near(step_seconds(5, 1_000, 3, 0.25, 1.0), 6 + 4_000 / 3)
assert not pays(1, 1, 0, 2, 0.0001, 1e9)
assert not pays(1, 0.5, 0, 2, 0.25, 1e9)  # equal to one rank: not faster
assert not pays(3, 3, 1e9, 1, 0.25, 1e9)
assert pays(10.5, 1, 4e9, 4, 0.5, 1e9)  # 1 + 3 + 6 s
assert not pays(9.5, 1, 4e9, 4, 0.5, 1e9)
assert pays(9e-6, 4e-6, 1_000, 2, 1e-6, 1e9)  # 4 + 2 + 1 µs
assert not pays(6e-6, 4e-6, 1_000, 2, 1e-6, 1e9)
assert pays(8, 1, 1e9, 8, 0.0001, 1e9)
assert not pays(2, 1, 1e9, 2, 0.0001, 1e9)
### END HIDDEN TESTS

# %% [markdown]
# And in reality? Section 9 measured the step times of networks of several
# widths on one rank and on two. The figure fits latency and bandwidth to *some*
# of the widths and predicts the others.
#
# **Predict first.** You saw in section 9 how long the steps took. The model
# knows the communication of some widths, and one rank's work. By how many
# percent is it off, on average, for the widths that it has not seen?

# %% tags=["demo"]
guess_off = None  # percent

# %% tags=["demo"]
payoff = efficiency.payoff(one, two)
off = [
    abs(said / took - 1)
    for said, took, seen in zip(
        payoff.predicted_s, payoff.many_s, payoff.fitted
    )
    if not seen
]
beside(guess_off, 100 * np.mean(off), "% off, widths not seen")

# %% tags=["demo"]
plot.plot_payoff(one, two)

# %% [markdown]
# Change `widths` in section 9, or its batch size (`global_batch=256`), and look
# again. The model leaves out the overlap of communication with computation, the
# slower rank that all others wait for, and the cores and caches that the ranks
# share.

# %% [markdown]
# **A good place to stop.** You can say where a step's time goes, and predict
# when two workers pay. Next: everything once more, on text. It needs no run
# from above.

# %% tags=["demo"]
check()

# %% [markdown]
# ## 12. Once more, with text
#
# A website wants to find insincere questions: those that make a statement
# instead of asking. Quora published 1.3 million labelled ones for a
# competition. (The download needs a login: get `train.csv` there, then run
# `ddl data add quora train.csv`.) If the file is not here, a generated stand-in
# in the same format takes its place, and every table says so.
#
# The network reads a sentence through an **embedding** (a vector for each
# sentence), followed by dense layers of 256, 64 and 1. Here the embedding is
# trained with them.

# %% [markdown]
# One pretrained embedding is Google's NNLM: 128 numbers a sentence, learnt
# from 7 billion words of news. To use it, pass as `embedding=` the address
# `"https://tfhub.dev/google/nnlm-en-dim128/2"`, or without a network the
# folder of an unpacked download. What does it gain? A tutorial that trains
# this very network on top of it prints a validation accuracy of 0.9385 after
# one epoch, where always saying "sincere" gets about 0.94; it states no F1. So
# that figure shows no gain, and we know of none that does. Measure it:
# `report` below takes such a run, too.

# %% [markdown]
# ### One device, and one number that says little
#
# **Predict first.** About 94 of 100 questions are sincere. By how many
# percentage points will the trained network's accuracy beat that of a model
# that answers "sincere" to everything?

# %% tags=["demo"]
guess_gain = None  # percentage points

# %% tags=["demo"]
sentences = dict(
    samples=2_000 if smoke else 20_000, seed=seed,
    epochs=3 if smoke else 12,
)
plain = launch(
    "train_text.py", name="one device", strategy="single", workers=1,
    patience=0, **sentences,  # 0: never stop early
)

# %% tags=["demo"]
said = plain.result["test"]
gain = 100 * (said["accuracy"] - said["majority"])
beside(guess_gain, gain, "points of accuracy gained")

# %% tags=["demo"]
classification.report([plain])

# %% [markdown]
# Without reading a single question, you would be right about 94 of 100 (the
# column *majority*). So accuracy alone says next to nothing here.
# **Precision**: of the questions that the model called insincere, how many are?
# **Recall**: of the questions that are insincere, how many did it find? **F1**
# is their harmonic mean. Each threshold gives another pair:

# %% tags=["demo"]
plot.plot_precision_recall([plain])

# %% [markdown]
# That run did not stop early (`patience=0`), in order to show what early
# stopping is for:

# %% tags=["demo"]
plot.plot_overfitting(plain)

# %% [markdown]
# Training loss falls to the end. Validation loss turns upwards: from there on,
# the network learns the training questions by heart. Accuracy hardly moves
# meanwhile. That is how a published log could show a validation loss rising by
# two thirds without a word about it. With `patience=2`, training stops two
# epochs after the turn and goes back to the best weights.
#
# Two lines of such scripts often go wrong silently. `shuffle(buffer)` draws
# from a window of that many *samples*: a data frame's `size` is rows ×
# columns, its `len` the rows, and a window smaller than the data shuffles only
# near neighbours. And `fit(dataset, batch_size=32)` ignores its 32: a data set
# of batches has the batch that it was made with. `train_text.py` shuffles all
# rows, and batches once, by the global batch.
#
# ### Two replicas, and two processes
#
# Now run the same on two replicas, with `fit` and with your own loop, and on
# two processes.

# %% tags=["demo"]
stopped = dict(sentences, patience=2)
by_fit = launch(
    "train_text.py", name="Mirrored, fit", strategy="mirrored",
    workers=1, replicas=workers, **stopped,
)

# %% tags=["demo"]
by_loop = launch(
    "train_text.py", name="Mirrored, own loop", workers=1,
    strategy="mirrored_loop", replicas=workers, **stopped,
)

# %% tags=["demo"]
by_horovod = launch(
    "train_text.py", name="Horovod", strategy="horovod",
    workers=workers, **stopped,
)

# %% tags=["demo"]
texts = [plain, by_fit, by_loop, by_horovod]
classification.report(texts)

# %% tags=["demo"]
plot.plot_precision_recall(texts)

# %% [markdown]
# Each run keeps its TensorBoard logs in its folder: the link below its chart
# opens them in a tab. (Outside JupyterLab: `tensorboard --logdir runs`.)

# %% [markdown] nbgrader={"grade": false, "grade_id": "q13_faster_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 13** (3 points)
#
# *Which one is faster?* In your table, compare the time for an epoch on one
# device and on two replicas. With four GPUs and this network, would you expect
# `MirroredStrategy` to be faster than pinning everything to one GPU? Name the
# two or three things that decide it, and what you would change in the training
# (not in the network) to make four GPUs worth it. What does that change besides
# the time?
#
# === BEGIN MARK SCHEME ===
# 1 point: the reader's figures, read correctly (equal cores: no gain expected).
# 1 point: the network is tiny: computation per step is short compared with
# launching kernels, exchanging gradients and reading strings on the CPU, so
# four GPUs may well be slower. 1 point: a larger per-replica batch (fewer,
# larger steps; input pipeline prefetched), and its price: fewer updates per
# epoch, so another learning rate and possibly another accuracy.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q13_faster", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my table two replicas are no faster than one device: both have the same
# cores, and the two replicas also exchange gradients. With four GPUs I would
# expect one GPU to win, or nearly so. A step of three small dense layers takes
# far less time than the all-reduce and the launch of its kernels, and the
# embedding looks up strings on the CPU, which four GPUs share. A much larger
# per-replica batch makes the computation longer compared with that fixed cost.
# But then there are fewer updates per epoch: the learning rate has to follow,
# and the model may need more epochs for the same F1.
# ### END SOLUTION

# %% [markdown]
# ## 13. Your own loop
#
# ### Evaluating by hand
#
# In your own loop nobody computes the metrics for you. Three things often go
# wrong: the last batch is shorter, so the mean of the batches' accuracies is
# not the accuracy; a metric is updated twice; and the test set is evaluated
# with the training data's threshold for a rare class.
#
# **Question 14** (3 points)
#
# Write `evaluate(batches)`. It takes a list of pairs (labels, probabilities) of
# NumPy arrays; batches may differ in length. Return a dictionary with
# `"accuracy"`, `"precision"`, `"recall"` and `"f1"` over all samples, each
# counted once. Predict 1 where the probability is at least 0.5. If nothing was
# predicted as 1, precision is 0; if no label is 1, recall is 0; if both are 0,
# so is F1.

# %% nbgrader={"grade": false, "grade_id": "q14_evaluate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def evaluate(batches):
    """Return accuracy, precision, recall and F1 of all batches together."""
    ### BEGIN SOLUTION
    labels = np.concatenate([labels for labels, _ in batches]) == 1
    said = np.concatenate([given for _, given in batches]) >= 0.5
    hits = np.sum(labels & said)
    precision = hits / said.sum() if said.any() else 0.0
    recall = hits / labels.sum() if labels.any() else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"accuracy": np.mean(labels == said),
            "precision": precision, "recall": recall, "f1": f1}
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q14_evaluate
#
# 1. Ratios of batches cannot be averaged: put all batches together first, then
#    count.
# 2. Hits are those that are 1 and were predicted as 1. Precision divides hits by
#    all predicted as 1, recall by all that are 1; F1 is 2PR/(P + R). Each of the
#    three divides by something that may be 0.
# 3. `labels = np.concatenate([labels for labels, _ in batches]) == 1`

# %% nbgrader={"grade": true, "grade_id": "q14_evaluate_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

import numpy as np

labels = np.array([1, 0, 0, 1, 0, 1, 0])
given = np.array([.9, .2, .7, .4, .1, .3, .2])
value = evaluate([(labels[:4], given[:4]), (labels[4:], given[4:])])
right = {"accuracy": 4 / 7, "precision": 1 / 2, "recall": 1 / 3, "f1": 0.4}
for name in right:
    assert math.isclose(value[name], right[name], rel_tol=1e-6), (
        f"{name}: {value[name]}, not {right[name]:.3f} (1 of 3 found)"
    )
### BEGIN HIDDEN TESTS
for labels in ([1, 0], [0, 0], [1, 1]):
    none = evaluate([(np.array(labels), np.array([0.1, 0.2]))])
    assert none["precision"] == none["recall"] == none["f1"] == 0
empty = evaluate([(np.array([0, 0]), np.array([0.9, 0.2]))])
assert empty["precision"] == empty["recall"] == empty["f1"] == 0
edge = evaluate([(np.array([1]), np.array([0.5]))])
assert math.isclose(edge["f1"], 1)
rng = np.random.default_rng(3)
for rare, lift in ((0.3, 0.1), (0.6, -0.2)):
    truth = (rng.random(103) < rare).astype(int)
    given = np.clip(rng.random(103) + lift, 0, 1)
    parts = [slice(i, i + 20) for i in range(0, 103, 20)]
    cut = evaluate([(truth[part], given[part]) for part in parts])
    said = given >= 0.5
    right = {"accuracy": np.mean(truth == said),
             "precision": truth[said].mean(),
             "recall": said[truth == 1].mean(),
             "f1": 2 * truth[said].sum() / (said.sum() + truth.sum())}
    for name in right:
        assert math.isclose(cut[name], right[name], rel_tol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# ### House numbers
#
# SVHN (Netzer et al., 2011) is a set of coloured pictures of house-number
# digits: 73,257 for training and 26,032 for testing, 32 × 32 like CIFAR-10's,
# in MATLAB files. `ddl data fetch svhn` downloads them (250 MB). If they are
# not here, a generated file in the same format is used.
#
# **Question 15** (2 points)
#
# Write `pictures_of(mat)`. `mat` is the content of such a file: a dictionary
# with `"X"`, uint8 of shape `[32, 32, 3, n]`, and `"y"`, of shape `[n, 1]`,
# with labels from 1 to 10, where 10 stands for the digit 0. Return the pictures
# as uint8 `[n, 32, 32, 3]` and the labels as int32 `[n]`, from 0 to 9.

# %% nbgrader={"grade": false, "grade_id": "q15_pictures_of", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pictures_of(mat):
    """Return pictures [n, 32, 32, 3] and labels [n] of an SVHN file."""
    ### BEGIN SOLUTION
    pictures = np.moveaxis(mat["X"], 3, 0)
    labels = mat["y"].reshape(-1).astype(np.int32) % 10
    return pictures, labels
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q15_pictures_of
#
# 1. Look at the shapes: which axis has to go where? A picture must stay a
#    picture, so axes are moved, not reshaped.
# 2. `np.moveaxis` brings the last axis to the front. Labels lose their second
#    axis and change their type; 10 becomes 0 and everything else stays: think of
#    a remainder.
# 3. `pictures = np.moveaxis(mat["X"], 3, 0)`

# %% nbgrader={"grade": true, "grade_id": "q15_pictures_of_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

rng = np.random.default_rng(0)
x = rng.integers(0, 256, (32, 32, 3, 4)).astype(np.uint8)
y = np.array([[1], [10], [9], [3]], np.uint8)
pictures, labels = pictures_of({"X": x, "y": y})
assert pictures.shape == (4, 32, 32, 3), pictures.shape
assert labels.tolist() == [1, 0, 9, 3], labels
### BEGIN HIDDEN TESTS
assert pictures.dtype == np.uint8 and labels.dtype == np.int32
assert all(np.array_equal(pictures[i], x[..., i]) for i in range(4))
one, label = pictures_of({"X": x[..., :1], "y": y[1:2]})
assert one.shape == (1, 32, 32, 3) and label.tolist() == [0]
assert label.shape == (1,)
y = np.arange(1, 11, dtype=np.uint8)[:, None]
ten, digits = pictures_of({"X": np.repeat(x[..., 1:2], 10, axis=3), "y": y})
assert ten.shape == (10, 32, 32, 3)
assert digits.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
### END HIDDEN TESTS

# %% [markdown]
# ### A training step of your own
#
# **Question 16** (4 points)
#
# The script `svhn_loop.py` is complete except for its core. Your file, written
# by the next cell, has to define
# `make_step(strategy, model, optimizer, global_batch)`. It returns a function
# of a distributed batch (pictures and labels) that takes one training step on
# all replicas and returns the mean loss over the global batch.
# The model gives logits for ten classes. Look at `strategies/mirrored_loop.py` for help.
#
# Your step is scored by what it does. Two points: with a linear model on two
# replicas or more, and with a batch of any size, it takes the steps of a
# single device and returns its loss. Two more: a network that it trains
# classifies pictures whose labels it never saw. It has a minute for both.

# %% nbgrader={"grade": false, "grade_id": "q16_svhn_loop", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
%%writefile my_loop.py
import tensorflow as tf


def make_step(strategy, model, optimizer, global_batch):
    ### BEGIN SOLUTION
    each = tf.nn.sparse_softmax_cross_entropy_with_logits

    def on_replica(pictures, labels):
        with tf.GradientTape() as tape:
            losses = each(labels, model(pictures, training=True))
            loss = tf.nn.compute_average_loss(
                losses, global_batch_size=global_batch)
        weights = model.trainable_variables
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights))
        return loss

    @tf.function
    def step(pictures, labels):
        losses = strategy.run(on_replica, args=(pictures, labels))
        return strategy.reduce("SUM", losses, axis=None)

    return step
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q16_svhn_loop
#
# 1. Two functions, one within the other: what one replica does with its part, and
#    a step that runs it on all replicas and adds up their losses.
# 2. On a replica: loss of each picture, `tf.nn.compute_average_loss` with the
#    *global* batch, gradients, `apply_gradients`. In the step: `strategy.run`,
#    then `strategy.reduce` with a sum. Decorate the step with `@tf.function`.
# 3. `losses = strategy.run(on_replica, args=(pictures, labels))`

# %% nbgrader={"grade": true, "grade_id": "q16_svhn_loop_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import loop

loop.single_step(loop.trial("my_loop.py", seed=1))
### BEGIN HIDDEN TESTS
loop.single_step(loop.trial("my_loop.py", seed=5831, replicas=3))
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q16_learns_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import loop

loop.learns(loop.trial("my_loop.py", seed=1))
### BEGIN HIDDEN TESTS
loop.learns(loop.trial("my_loop.py", seed=5831, replicas=3))
### END HIDDEN TESTS

# %% [markdown]
# **Predict first.** What accuracy will your loop reach on house numbers (or
# their stand-in) that it has not seen, in percent? Chance is 10.

# %% tags=["demo"]
guess_digits = None  # percent

# %% tags=["demo", "raises-exception"]
svhn = launch(
    "svhn_loop.py", name="SVHN, my loop", workers=1, loop="my_loop.py",
    replicas=workers, steps=10 if smoke else 200, seed=seed,
    train_samples=part[0], test_samples=part[1],
)
print("agrees with a single device:", svhn.result["agrees"])

# %% tags=["demo", "raises-exception"]
beside(guess_digits, 100 * svhn.result["test_accuracy"], "% right")

# %% [markdown]
# ## 14. The same in PyTorch
#
# Your own project may be in PyTorch. How much of all this can you take along?
# Here is the Horovod script beside the same training with PyTorch's
# `DistributedDataParallel` (**DDP**): the same network, initial weights, and
# order of pictures.

# %% tags=["demo"]
difference("strategies/horovod_loop.py", "strategies/torch_ddp.py")

# %% [markdown]
# All six steps are there. Wrapping and broadcasting have become one line: a
# model in DDP takes over rank 0's weights when it is made, and averages
# gradients while `backward()` still computes those of earlier layers (Li et al.,
# 2020, section 3.2). The loss is what it was with Horovod, for the same reason:
# DDP averages, so each rank takes the mean over its own part.
#
# **Predict first.** Take the weights of two ranks of PyTorch, and those of one
# device of TensorFlow, after the same four updates. How large is their largest
# difference, relative to the largest weight?

# %% tags=["demo"]
guess_libraries = None  # a number, such as 1e-3

# %% [markdown]
# `torchrun` is PyTorch's `horovodrun`: it tells each process its rank, and where
# all of them meet. `launch` does the same with `cluster="torchrun"`, on this
# machine or as tasks of Slurm, so that the run is followed and recorded like
# all others. PyTorch is not installed by default.

# %% tags=["demo"]
there = ddl.has_torch()  # if it is not, this says how to get it
if there:
    few = dict(fixed, steps=16)
    alone = launch(
        "strategies/loop.py", name="one device", workers=1, **few
    )
    by_torch = launch(
        "strategies/torch_ddp.py", name="PyTorch DDP", workers=workers,
        cluster="torchrun", **few,
    )

# %% tags=["demo"]
if there:
    apart = agreement([alone, by_torch], step=4)
    display(apart, beside(
        guess_libraries, apart["÷ the largest weight"].iloc[1],
        "largest difference ÷ largest weight",
    ))

# %% [markdown]
# The test of section 4 does not care which library computes: up to rounding,
# two ranks of PyTorch have the weights of one device of TensorFlow. And the
# rest?
#
# | from | holds unchanged | changes |
# | --- | --- | --- |
# | lesson 1 | all: it is about averages, not about a library | nothing |
# | lesson 2 | links, rings, the cost of an all-reduce; Gloo and NCCL carry it here, too | DDP sends buckets of at most 25 MiB by default, Horovod fuses up to 128 MiB: fit again |
# | lesson 3 | shards, mean loss, scaled rate, asking each rank what it saw, efficiency | `fit`, `TF_CONFIG` and the parameter server have no counterpart in DDP |
# | lesson 4 | noise scale, critical batch size, warm-up, LARS | the numbers: they belong to a network, its data and its optimizer |

# %% [markdown]
# ## Your answers so far
#
# The button saves the notebook, runs its cells again from top to bottom, and
# says which questions pass the tests that you can see. A question's number
# links to your answer. A person reads the written answers.

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - **Synchronous strategies agree**: mirrored, multi-worker and Horovod make a
#   single device's updates, up to rounding. A parameter server does not, by
#   design.
# - `tf.distribute` strategies **sum**: divide the loss by the **global batch**,
#   and penalties by the number of replicas. Horovod **averages**: take the mean
#   over the rank's part, with equal parts.
# - None of the usual mistakes raises an error. **Ask each rank what it saw**:
#   samples, weights, rates, files.
# - Efficiency counts **samples really processed** on **equal hardware**.
# - bfloat16 needs no loss scaling, and sends as much as float32.
# - Two workers pay when computation is long compared with the message. You can
#   predict that from a few measurements.
# - Where one class has 94 %, accuracy is not a result.
# - PyTorch's DDP needs the same six steps, and passes the same test.
#
# Not shown: several real GPUs or hosts. Logical devices and ranks here share
# one machine's cores.

# %% [markdown]
# ## Things to try
#
# - `launch("strategies/horovod_loop.py", workers=2, ...)` with twice the
#   `global_batch`: do the strategies still agree with each other? And with the
#   single device's run of 64?
# - `launch("strategies/parameter_server.py", ...)` twice. Are the two runs equal?
# - Launch `train_text.py` with `strategy="multi_worker"` and
#   `cluster="multi_worker"`.
# - Stop one worker: launch with `wait=False`, then end the process whose number
#   is `run.progress().ranks[1].pid`, and read what the launcher says.

# %% [markdown]
# ## Sources
#
# - Abadi et al. (2016), *TensorFlow: A System for Large-Scale Machine Learning*,
#   section 4.4
# - Bengio et al. (2003), *A Neural Probabilistic Language Model*, Journal of Machine
#   Learning Research 3 (the pretrained embedding)
# - Dean et al. (2012), *Large Scale Distributed Deep Networks*, section 4.1
# - Goyal et al. (2017), *Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour*, section 3 (on what distributed code gets wrong)
# - Kalamkar et al. (2019), *A Study of BFLOAT16 for Deep Learning Training*
# - Li et al. (2020), *PyTorch Distributed: Experiences on Accelerating Data
#   Parallel Training*, section 3.2
# - Micikevicius et al. (2018), *Mixed Precision Training*, section 3 (loss scaling)
# - Netzer et al. (2011), *Reading Digits in Natural Images with Unsupervised
#   Feature Learning*
# - Sergeev, Del Balso (2018), *Horovod: fast and easy distributed deep learning
#   in TensorFlow*
# - Thakur, Rabenseifner, Gropp (2005), *Optimization of Collective Communication
#   Operations in MPICH*
# - Wu, He (2018), *Group Normalization*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
