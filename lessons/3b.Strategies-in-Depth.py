# %% [markdown]
# # 3b. Strategies in depth
#
# **Do five ways of distributing a training agree, and what goes wrong unnoticed?**
#
# | about | this notebook |
# | --- | --- |
# | time | 110 minutes, in three sittings; the runs take about five |
# | hardware | two cores; GPUs if there are any |
# | before this | [3. Multi-GPU](3.Multi-GPU.ipynb) |
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | five strategies | 1 to 3 | 35 |
# | one loss, and a mean of means | 4 | 25 |
# | a bug hunt, and PyTorch | 5 to 6 | 50 |

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated images
workers = 2
seed = 0

# %%
import json
import math

import numpy as np

# %% tags=["demo"]
import pandas as pd

import ddl
from ddl import launch
from course import agreement, check, difference, hint, recorded
from course import compare_guess, mistakes

smoke = size == "smoke"
part = (1_024, 500) if smoke else (5_000, 2_000)
images = dict(data_set=data_set, train_samples=part[0], test_samples=part[1])
fixed = dict(images, global_batch=64, epochs=1 if smoke else 5, seed=seed)

# %% [markdown]
# ## 1. Replicas in one process
#
# Two questions tell the strategies apart. **Where are the workers?** They are threads
# of one process, each with its own device, or separate processes. **Who waits?** In
# *synchronous* training an all-reduce in each step averages the gradients before the
# update. In *asynchronous* training a **parameter server** keeps the weights; each worker
# reads them, computes, sends its gradient, and waits for nobody.
#
# ![Four panels. Mirrored: one process with two replicas, gradients summed inside.
# Multi-worker and Horovod: two processes, gradients summed between them. Parameter
# server: a coordinator hands out steps, workers read weights from a server and send
# gradients to it.](../images/strategies.svg)

# %% [markdown]
# Between GPUs, TensorFlow's all-reduce uses NCCL, NVIDIA's library. Horovod's does so
# if compiled with `HOROVOD_GPU_OPERATIONS=NCCL` (`horovodrun --check-build` tells);
# otherwise gradients go through the host's memory. Between CPUs, TensorFlow uses remote
# calls (gRPC). This build of Horovod uses Gloo there; one with MPI uses MPI.
#
# Nothing in our small network looks at more than one image at a time. All runs have the
# same data, order of images, initial weights, optimizer and global batch, so a *correct*
# strategy makes a single device's updates. First, that device, with Keras' `Model.fit`:

# %% tags=["demo"]
single = launch(
    "strategies/single.py", name="one device", workers=1, **fixed
)

# %% [markdown]
# ### MirroredStrategy with `Model.fit`
#
# These lines of that script change:

# %% tags=["demo"]
difference("strategies/single.py", "strategies/mirrored.py")

# %% [markdown]
# The strategy copies each variable to each device (together a `MirroredVariable`),
# splits every batch over the **replicas**, and sums their gradients inside
# `apply_gradients`. By default it takes all GPUs of the host.
#
# Without GPUs, the CPU is split into **logical devices** that share its cores. They
# show whether *results* are right, and nothing about speed.

# %% tags=["demo"]
mirrored = launch(
    "strategies/mirrored.py", name="Mirrored, fit", workers=1,
    replicas=workers, **fixed,
)

# %% [markdown]
# ### MirroredStrategy with your own loop
#
# For two optimizers, a penalty on gradients or a special loss, write the loop yourself;
# `strategy.run` runs its step on each replica. From one device to mirrored, these lines
# change:

# %% tags=["demo"]
difference("strategies/loop.py", "strategies/mirrored_loop.py")

# %% tags=["demo"]
mirrored_loop = launch(
    "strategies/mirrored_loop.py", name="Mirrored, own loop", workers=1,
    replicas=workers, **fixed,
)

# %% [markdown]
# The loss is divided by the **global** batch: section 4 says why.
#
# ## 2. Several processes
#
# ### MultiWorkerMirroredStrategy
#
# Now the workers are processes, perhaps on several hosts. The environment variable
# `TF_CONFIG` tells each the addresses of all workers, in the same order everywhere, and
# its own type and index.

# %% [markdown]
# **Question 1** (2 points)
#
# Write `tf_config(addresses, index)`. It returns the text of one worker's `TF_CONFIG`,
# JSON of the form
#
# `{"cluster": {"worker": [...]}, "task": {"type": "worker", "index": 0}}`
#
# where `addresses` lists all workers' `"host:port"`. For an index that no worker has,
# raise a `ValueError`.

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
assert given["cluster"] == {"worker": hosts}, (
    f"tf_config's cluster is {given['cluster']}, not {{'worker': {hosts}}}"
)
assert given["task"] == {"type": "worker", "index": 1}, given
given = json.loads(tf_config(hosts, 0))
assert given["task"] == {"type": "worker", "index": 0}, given
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
# Here the launcher does this (`cluster="multi_worker"`). The script needs few changes:

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
# Now there are four processes: a **coordinator**, which runs your script and hands out
# steps, two **workers**, and a **parameter server**, which keeps the variables.

# %% tags=["demo"]
difference("strategies/loop.py", "strategies/parameter_server.py")

# %% [markdown]
# **Predict first.** While a worker computes its gradient, the other may change the
# weights that it started from. How many updates happen in between, on average? That
# number is the gradient's **staleness**. In synchronous training it is 0.

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
compare_guess(guess_staleness, mean, "updates by others, on average")

# %% [markdown]
# With two workers it is usually about one. With a hundred it is about a hundred, and
# the gradient belongs to weights that are long gone.
#
# What does it buy? Workers do not wait for each other, so one that is slow or lost need not
# hold up the rest, if the coordinator gives its steps to others. (Ours takes results in
# order, two steps per worker ahead, so it soon waits.) With a lost parameter server the
# weights are gone, and training restarts from a checkpoint that the coordinator wrote.

# %% [markdown]
# ## 3. Do they agree?
#
# Now Horovod, with lesson 3's six steps:

# %% tags=["demo"]
horovod = launch(
    "strategies/horovod_loop.py", name="Horovod", workers=workers, **fixed
)

# %% [markdown]
# **Predict first.** After four updates, how many of the five other ways have the
# weights of the single device, up to rounding (a difference below 1e-3 of the largest
# weight)?

# %% tags=["demo"]
guess_alike = None  # a number from 0 to 5

# %% tags=["demo"]
trained = [single, mirrored, mirrored_loop, multi_worker, server, horovod]
compared = agreement(trained, step=4)
alike = (compared["÷ the largest weight"].iloc[1:] < 1e-3).sum()
compare_guess(guess_alike, alike, "ways with the same weights")

# %% tags=["demo"]
compared

# %% [markdown]
# And at the end of the training?

# %% tags=["demo"]
agreement(trained)  # at the end

# %% [markdown]
# Rounding errors grow. If a ReLU is barely on or off, or two pixels compete for a
# maximum, the last digit decides, and from then on the runs diverge: training is a
# chaotic system. So two correct programs are equal after a few updates, and need not be
# at the end.

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
# ParameterServer. Its workers do not wait for each other. By the time a gradient is
# applied, the other worker has changed the weights that it was computed from, and it
# is random which worker comes first, so even two such runs differ. The others sum the
# same gradients at the same weights and differ only by rounding (1e-4 or less in the
# first table, against about 1e-2). The result is not wrong: it is another path of
# descent. After as many epochs its held-out accuracy is the lowest in my table, but by
# less than the others differ among themselves; one seed does not decide.
# ### END SOLUTION

# %% [markdown]
# Images/s in the table say nothing about GPUs.
#
# **A good place to stop.**

# %% [markdown]
# ## 4. Why the loss is divided by the global batch
#
# Replicas *sum* their gradients. If each takes the **mean** over its own images, the
# sum over $N$ replicas is $N$ times the gradient of the mean over the global batch $B$.
# So each replica divides by $B$:
#
# $$\nabla \frac{1}{B} \sum_{i=1}^{B} \ell_i
# = \sum_{r=1}^{N} \nabla \frac{1}{B} \sum_{i \in r} \ell_i$$
#
# `tf.nn.compute_average_loss(per_example, global_batch_size=B)` does that. `Model.fit`
# divides each replica's mean by the number of replicas, which is the same only if all
# parts are equally large. In a strategy's scope, Keras' loss classes refuse their default reductions
# (`AUTO`, `SUM_OVER_BATCH_SIZE`) in your own loop: pass `reduction="none"` and divide
# yourself.
#
# A factor $N$ on everything is a learning rate that is $N$ times too high. With SGD you
# may notice; with Adam, which divides by the gradient's size, almost never. An uneven
# last batch is worse: the *direction* is wrong, because images in the smaller part
# weigh more. So divide by the images that are there. A penalty on the weights is the same
# on every replica, so it counts $N$ times unless divided by $N$
# (`tf.nn.scale_regularization_loss`).

# %% [markdown]
# ### One replica's loss
#
# **Question 3** (3 points)
#
# Without TensorFlow, write two functions for one replica of a strategy that sums. Both
# return a single number.
#
# - `replica_loss(per_example, global_batch)`: what the replica returns. `per_example`
#   is a NumPy array of shape `[samples]`, or `[samples, ...]` if each sample has
#   several values (such as one per pixel); such a sample counts with the mean of its
#   values. A replica with no samples returns 0.
# - `replica_penalty(penalty, replicas)`: what it adds for a penalty on the weights that
#   all replicas share.

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
assert math.isclose(sum(halves), 3.0), (
    f"replica_loss of two halves adds up to {sum(halves)}, not 3.0"
)
uneven = [replica_loss(some, 4) for some in (losses[:3], losses[3:])]
assert math.isclose(sum(uneven), 3.0), f"3 and 1 add up to {sum(uneven)}"
whole = sum(replica_penalty(0.8, 4) for _ in range(4))
assert math.isclose(whole, 0.8, rel_tol=1e-6), (
    f"four replicas' penalties: {whole}"
)
value = replica_loss(np.zeros(0), 4)
assert math.isclose(value, 0, abs_tol=1e-12), f"no samples: {value}, not 0"
### BEGIN HIDDEN TESTS
for shape in ((0, 5), (0, 3, 2)):
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
# Horovod *averages*, so each rank takes the mean over its own part. The average of
# these means is the overall mean **if all parts are equally large**.
#
# **Question 4** (2 points)
#
# For unequal parts, write `averaged(gradients, samples)`. `gradients` lists the ranks'
# gradients (NumPy arrays of the same shape, each the mean over that rank's own
# samples), and `samples` how many samples each rank had. Return the gradient of the
# mean over all samples, in the same shape. A rank without samples has a gradient of
# NaN, which must not spoil the result.

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
assert np.allclose(value, [2, 2]), (
    f"averaged with equal parts returned {value}, not [2, 2]"
)
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
# **A good place to stop.**

# %% [markdown]
# ## 5. A bug hunt
#
# Omit one of Horovod's six steps, and the program is wrong. Only scaling the learning
# rate is a *heuristic*, which lesson 4 tests, but these scripts promise it. In your own
# loop, wrap the *tape*: with this Keras, Horovod's wrapped optimizer averages in `fit`
# and `minimize`, and not in `apply_gradients`.
#
# ### Seven runs, and one of them is right
#
# In `bug_hunt.py`, `case="none"` is correct; in each of the cases A to F one thing is
# missing or wrong. None raises an error, and the loss falls in all of them.
#
# **Predict first.** In how many of the six cases is the final loss clearly worse (by a
# tenth or more) than in the correct one?

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
compare_guess(guess_worse, len(worse), "cases with a clearly higher loss")

# %% tags=["demo"]
pd.Series(losses, name="loss at the end").to_frame().round(4)

# %% [markdown]
# In half of the cases the loss gives no clear sign, and in none does it name the mistake.
# These are each rank's first two steps:

# %% tags=["demo"]
mistakes.excerpt(hunted["none"])

# %% [markdown]
# ### Checks on what the ranks saw
#
# `mistakes.step_records(run)` returns a list with one dictionary per rank, rank 0's first,
# with these keys:
#
# - `"rank"`, `"rate_of_one_rank"`, and `"weights"`: a checksum of the initial weights;
# - `"steps"`: for each step a dictionary with `"samples"` (the numbers of the samples
#   it trained on), `"rate"`, `"update"` and `"weights"` (checksums of the gradients
#   that it applied, and of its weights after that);
# - `"samples_counted"` (how many samples it says it processed) and `"wrote"` (a file,
#   or `None`).
#
# **Question 5** (3 points)
#
# Write three checks. Each takes such a list and returns `True` if something is wrong:
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
def step_log(*samples, began="aa", updates=("u1", "u2")):
    steps = [{"samples": list(some), "update": update, "weights": "ff"}
             for some, update in zip(samples, updates)]
    return {"weights": began, "steps": steps}


one, two = step_log([0, 1], [4, 5]), step_log([2, 3], [6, 7])
assert not shared_samples([one, two]), (
    f"shared_samples returned {shared_samples([one, two])}, though no sample is on two ranks"
)
assert shared_samples([one, one]), "identical batches"
assert not began_apart([one, two]) and not drifting([one, two])
assert began_apart([one, two, step_log(began="bb")])
assert drifting([one, step_log([2], [6], updates=("u1", "u3"))])
assert not shared_samples([step_log([0, 1], [2, 3]), step_log([2, 3], [0, 1])]), (
    "the same samples, but in different steps"
)
assert began_apart([one, step_log(began="bb"), two]), "the middle one differs"
### BEGIN HIDDEN TESTS
assert shared_samples([one, two, step_log([8, 9], [7, 8])])
assert not shared_samples([step_log([0, 0]), step_log([1, 1])])
assert not shared_samples([one]) and not drifting([one])
assert drifting([one, step_log([1], [2], updates=("u2", "u1"))])
for k in range(4):  # one rank differs, at first or in one step
    ranks = [step_log([j], began="ab"[k == j]) for j in range(4)]
    assert began_apart(ranks) and not drifting(ranks)
    for i in range(3):
        updates = ["uvw"[:i] + "x" + "uvw"[i + 1:], "uvw"]
        assert drifting([step_log([0], [0], [0], updates=updates[k != j])
                         for j in range(4)])
        batches = [[[9 * j + m, 9 * j + m + 1] for m in (0, 2, 4)]
                   for j in range(4)]
        for step, shared in ((i - 1, False), (i, True)):
            batches[k][i][1] = batches[(k + 1 + i) % 4][step][0]
            four = [step_log(*some, updates="uvw") for some in batches]
            assert bool(shared_samples(four)) == shared
assert not began_apart([one])
assert began_apart([step_log(began=b) for b in "abc"])
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
# - `miscounted(ranks)`: the number of samples that all ranks together *counted* is not
#   the number that they trained on;
# - `not_scaled(ranks)`: in some step, a rank's `"rate"` is not `"rate_of_one_rank"`
#   times the number of ranks (to within one part in 10,000);
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
# right learning rate: one rank's rate times the number of ranks, compared
# with `math.isclose`. Writers: look at every rank but 0.
# 3. `rates = [step["rate"] for rank in ranks for step in rank["steps"]]`

# %% nbgrader={"grade": true, "grade_id": "q06_more_checks_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
def step_log(rank, counted=4, rate=0.1, wrote=None, steps=2):
    step = {"samples": [8 * rank, 8 * rank + 1], "rate": rate}
    return {"rank": rank, "rate_of_one_rank": 0.05, "wrote": wrote,
            "samples_counted": counted, "steps": [step] * steps}


right = [step_log(0, wrote="weights.npz"), step_log(1)]
assert not miscounted(right), (
    f"miscounted returned {miscounted(right)}, though 2 ranks × 2 steps × 2 samples are 8"
)
assert not not_scaled(right), "2 × 0.05 is 0.1"
assert not second_writer(right), "rank 0 wrote, and nobody else"
assert miscounted([step_log(0, counted=8), step_log(1, counted=8)])
assert not_scaled([step_log(0, rate=0.05), step_log(1, rate=0.05)])
assert second_writer([step_log(0, wrote="a"), step_log(1, wrote="a")])
assert miscounted([step_log(0), step_log(1, counted=3)]), "4 + 3 of 8 samples"
assert not miscounted([step_log(0, counted=3), step_log(1, counted=5)]), (
    "3 + 5 are the 8 samples"
)
assert not not_scaled([step_log(k, rate=0.100003) for k in (0, 1)]), (
    "3 in 100,000 off is near enough"
)
assert second_writer([step_log(0), step_log(1, wrote="a")]), "rank 1 wrote"
### BEGIN HIDDEN TESTS
assert not miscounted([step_log(0, counted=2, steps=1), step_log(1)])
assert miscounted([step_log(0, counted=799, steps=400), step_log(1)])
uneven = [{"samples": [1, 2, 3]}, {"samples": [4]}, {"samples": [5, 6, 7]}]
assert not miscounted([{**step_log(0, counted=7), "steps": uneven}, right[1]])
assert not_scaled([*right, step_log(2)])
for one in (0.001, 0.05, 20):  # one rate is off, then near enough
    ranks = [{**step_log(k), "rate_of_one_rank": one, "steps": [
        {"samples": [k], "rate": 3 * one} for _ in "abc"]} for k in range(3)]
    for k in range(9):
        step = ranks[k // 3]["steps"][k % 3]
        for off in (0.5, 1 - 2e-4, 1 + 2e-4, 2):
            step["rate"] = 3 * one * off
            assert not_scaled(ranks)
        step["rate"] = 3 * one * (1 + (-1) ** k * 3e-5)
        assert not not_scaled(ranks)
assert not second_writer([step_log(0)])
assert not second_writer([step_log(0, wrote="a")])
for k in (1, 2, 3):
    some = [step_log(j, wrote="b" if j == k else None) for j in range(4)]
    assert second_writer(some)
    assert second_writer([step_log(0, wrote="a"), *some[1:]])
### END HIDDEN TESTS

# %% [markdown]
# ### Which mistake is where?
#
# The records of one case:

# %% tags=["demo"]
mistakes.excerpt(hunted["A"])

# %% [markdown]
# Change the letter above, or call your checks:
# `drifting(mistakes.step_records(hunted["A"]))`.
#
# **Question 7** (3 points)
#
# Fill in `bugs`. It maps the letters A to F to these words: `"shard"` (all ranks have
# the same batches), `"wrap"` (gradients are not averaged), `"broadcast"` (ranks begin
# with different weights), `"throughput"` (samples are counted too often), `"scale"`
# (the learning rate is not scaled as promised), `"write"` (every rank writes the
# checkpoint).

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
assert set(bugs) == set("ABCDEF"), (
    f"bugs has the letters {', '.join(sorted(map(str, bugs)))}, not A to F"
)
assert set(bugs.values()) <= words, set(bugs.values()) - words
### BEGIN HIDDEN TESTS
assert bugs == {
    "A": "wrap", "B": "throughput", "C": "shard",
    "D": "write", "E": "broadcast", "F": "scale",
}
### END HIDDEN TESTS

# %% [markdown]
# ### The absence of an error proves nothing
#
# `bug_hunt_fit.py` leaves out no step, and trains with `fit`: on Keras 2, or on Keras
# 3, which TensorFlow has from 2.16 on and Horovod does not know.

# %% tags=["demo"]
eighth = recorded("keras")
mistakes.outcomes(eighth)

# %% [markdown] tags=["claims"]
# In the recorded runs, no script ended with an error, and every loss fell. With
# Keras 2, the ranks made the same update in every step, with Keras 3 in none.
# Five seeds do not tell the two apart by held-out accuracy.

# %% [markdown]
# Your check finds it: `drifting(mistakes.step_records(eighth[1]))`. Keras 2's `fit` asks
# the *optimizer* for gradients, where Horovod averages them; Keras 3's has its own
# tape. So this course refuses Keras 3.

# %% [markdown]
# ## 6. The same in PyTorch
#
# These lines of the Horovod script change with PyTorch's `DistributedDataParallel`
# (**DDP**):

# %% tags=["demo"]
difference("strategies/horovod_loop.py", "strategies/torch_ddp.py")

# %% [markdown]
# Wrapping and broadcasting have become one line: a model in DDP copies rank 0's weights
# when it is constructed, and averages gradients while `backward()` still computes those
# of earlier layers (Li et al., 2020, section 3.2).

# %% tags=["demo"]
there = ddl.has_torch()  # if it is not, this says how to get it
if there:
    by_torch = launch(
        "strategies/torch_ddp.py", name="PyTorch DDP", workers=workers,
        cluster="torchrun", **fixed,
    )

# %% tags=["demo"]
if there:
    display(agreement([single, by_torch], step=4))

# %% [markdown]
# Up to rounding, two ranks of PyTorch have the weights of one device of TensorFlow, and
# [most of each lesson carries over](../docs/pytorch-and-jax.md).

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - **Synchronous strategies agree**: they make a single device's updates, up to
#   rounding. A parameter server does not, by design.
# - `tf.distribute` strategies **sum**: divide the loss by the **global batch**, and
#   penalties by the number of replicas. Horovod and DDP **average**: take the mean over
#   the rank's part, with equal parts.
#
# ## Things to try
#
# - Launch `bug_hunt.py` with `case="G"`: the first layer is frozen, and the script
#   broadcasts `model.trainable_variables`. Which of your six checks says `True`? Why does
#   broadcasting `model.variables` mend it?

# %% [markdown]
# ## Sources
#
# - Abadi et al. (2016), *TensorFlow: A System for Large-Scale Machine Learning*,
#   section 4.4
# - Dean et al. (2012), *Large Scale Distributed Deep Networks*, section 4.1
# - Goyal et al. (2017), *Accurate, Large Minibatch SGD*, section 3
# - Li et al. (2020), *PyTorch Distributed*, section 3.2
# - Sergeev, Del Balso (2018), *Horovod*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
