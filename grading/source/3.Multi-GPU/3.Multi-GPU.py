# %% [markdown]
# # 3. Multi-GPU
#
# **How do I make my script distributed?**
#
# | about | this lesson |
# | --- | --- |
# | time | 60 minutes, of which the runs take three |
# | hardware | two cores; on a machine with GPUs the same cells use the GPUs |
# | before this | [Start_Here](../Start_Here.ipynb), [1. Gradient basics](1.Gradient-Basics.ipynb) |
#
# You see what makes a training distributed, in Horovod and in PyTorch. Then you convert a
# script, and measure whether it got faster.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated images
workers = 2
seed = 0

# %%
import math

import numpy as np

# %% tags=["demo"]
from ddl import beside, launch
from course import agreement, check, difference, efficiency, hint
from course import mistakes

smoke = size == "smoke"
part = (1_024, 500) if smoke else (5_000, 2_000)
images = dict(data_set=data_set, train_samples=part[0], test_samples=part[1])
fixed = dict(images, global_batch=64, epochs=1 if smoke else 5, seed=seed)

# %% [markdown]
# ## 1. From one device to many
#
# In **data-parallel** training every rank has the whole model and its part of
# each batch. A step ends with an **all-reduce** of the gradients, so all ranks
# keep the same weights. Here is one device, with a training loop written by
# hand:

# %% tags=["demo"]
single = launch("strategies/loop.py", name="one device", workers=1, **fixed)

# %% [markdown]
# And here is what changes with **Horovod**. Both files are real scripts that run.

# %% tags=["demo"]
difference("strategies/loop.py", "strategies/horovod_loop.py")

# %% [markdown] tags=["two-libraries"]
# Six steps, in Horovod and in PyTorch's `DistributedDataParallel` (**DDP**), whose loop
# is `strategies/torch_ddp.py`:
#
# | step | Horovod | PyTorch DDP | without it |
# | --- | --- | --- | --- |
# | 1 initialise | `hvd.init()` | `dist.init_process_group(` | each process believes that it is alone |
# | 2 pin | `tf.config.set_visible_devices(` | `torch.cuda.set_device(device)` | all ranks crowd the first GPU |
# | 3 shard | `experiment.dataset(hvd.rank(), hvd.size())` | `experiment.dataset(dist.get_rank(), dist.get_world_size())` | ? |
# | 4 scale | `per_rank_batch * hvd.size()` | `per_rank_batch * dist.get_world_size()` | ? |
# | 5 wrap | `hvd.DistributedGradientTape(tape)` | `torch.nn.parallel.DistributedDataParallel(` | ? |
# | 6 broadcast | `hvd.broadcast_variables(` | DDP does it when it is made | ? |
#
# Two more habits: **average metrics** over ranks (`hvd.allreduce(`, `dist.all_reduce(`)
# before anybody reads them, and let only **rank 0 write** files.
#
# **Predict first.** Both runs have the same data, initial weights and global batch. After
# four updates, how large is the largest difference of a weight, relative to the largest
# weight: 0, about 1e-6, or about 1e-2?

# %% tags=["demo"]
guess_difference = None  # a number, such as 1e-3

# %% tags=["demo"]
horovod = launch(
    "strategies/horovod_loop.py", name="Horovod", workers=workers, **fixed
)
both = agreement([single, horovod], step=4)
beside(
    guess_difference, both["÷ the largest weight"].iloc[1],
    "largest difference ÷ largest weight",
)

# %% [markdown]
# It is only rounding: the sum of 64 numbers rounds differently when it is made of two
# sums of 32. TensorFlow's own strategies agree as well, all but one:
# [3b. Strategies in depth](3b.Strategies-in-Depth.ipynb).

# %% [markdown]
# ## 2. Your turn: make a script distributed
#
# This script trains a small network on made-up samples for one epoch. One of its
# matrices is **tied**: it is used twice, and its gradient has a part from each use.
# Another is **frozen**: it is never trained.

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
# `task.batches(n)` gives the numbers of the samples of each step, `n` a step, in an
# order that all processes share. `task.batch` is the batch of *one* rank, `task.rate`
# its learning rate, and every process draws weights of its own.
#
# **Predict first.** You saw how many steps one device made. How many will the epoch have
# on two ranks, if each has as many samples in a step as that one device?

# %% tags=["demo"]
guess_steps = None  # how many steps

# %% [markdown]
# **Question 1** (9 points)
#
# Copy the script into the next cell, and make it distributed with Horovod. PyTorch is as
# good: begin with
# [`one_device_torch.py`](../source_code/course/workers/scripts/one_device_torch.py), and
# launch it below with `cluster="torchrun"`. On any number of ranks it has to end with the
# weights of *one* device that takes each step on all ranks' samples together, with the
# learning rate times the number of ranks. `loss` and `samples` are to be those of all
# ranks together, on every rank.
#
# Tests launch your file on two and three ranks, and see what each rank reads and sends.
# All together is worth 2 points, and each of these one more: own samples, averaged
# gradients, the scaled learning rate, the same start, frozen and tied weights, true
# metrics, one writer.

# %% nbgrader={"grade": false, "grade_id": "q01_convert", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
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
# q01_convert
#
# 1. Take the library's steps one after the other, as in the table above: initialise,
#    shard, scale the learning rate, wrap the gradients (in PyTorch: the model),
#    broadcast, average what is reported, write on rank 0.
# 2. A step covers `task.batch` samples for each rank, of which each rank takes
#    its share. Broadcast *before* `task.begin`, and all variables, frozen ones
#    too; DDP does it. Average the loss with `hvd.allreduce`, or with `dist.all_reduce`
#    of a detached copy, divided by the ranks; `samples` is the number of all ranks'
#    samples.
# 3. `mine = numbers[hvd.rank()::hvd.size()]`

# %% nbgrader={"grade": true, "grade_id": "q01_convert_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.same_weights(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.same_weights(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_own_samples_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.own_samples(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.own_samples(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_averaged_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.averaged(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.averaged(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_scaled_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.scaled(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.scaled(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_began_alike_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.began_alike(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.began_alike(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_frozen_and_tied_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.frozen_and_tied(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.frozen_and_tied(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_true_metrics_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.grader import conversion

for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=1)
    conversion.true_metrics(trained)
### BEGIN HIDDEN TESTS
for n in (2, 3):
    trained = conversion.training("my_horovod.py", ranks=n, seed=2734)
    conversion.true_metrics(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_one_writer_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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
# ## 3. What goes wrong unnoticed
#
# `bug_hunt.py` is such a script; in `case="A"` one of the steps is missing.
#
# **Predict first.** What does case A end with: an error, a loss that is clearly higher (by
# a tenth or more), or neither?

# %% tags=["demo"]
guess_missing = None  # "error", "loss" or "neither"

# %% tags=["demo"]
right, wrong = (
    launch("bug_hunt.py", name=f"case {case}", case=case, workers=workers)
    for case in ("none", "A")
)
higher = wrong.result["loss"] > 1.1 * right.result["loss"]
beside(guess_missing, "loss" if higher else "neither", "in case A")

# %% tags=["demo"]
mistakes.excerpt(wrong)

# %% [markdown]
# Each rank has recorded the samples it trained on, and checksums of its
# updates and weights. Find the mistake there: which columns should be the same
# on both ranks, and are not? **Ask each rank what it saw**: none of the usual
# mistakes raises an error. You hunt for six of them in
# [3b](3b.Strategies-in-Depth.ipynb), section 5.

# %% [markdown]
# ## 4. Is it faster?
#
# **Scaling efficiency** is the fraction of the ideal speed-up that you get:
#
# $$\text{efficiency} = \frac{\text{samples/s on } N \text{ ranks}}
# {N \times \text{samples/s on one rank}}$$
#
# Count only samples that were **really processed**, and compare equal hardware: here,
# ranks of *one* thread each.

# %% [markdown]
# **Question 2** (2 points)
#
# An epoch of `samples` images consists of whole steps, each of
# `ranks × per_rank_batch` images. The remainder is not trained on.
#
# - `samples_processed(samples, per_rank_batch, ranks)`: how many images an
#   epoch really trains on.
# - `efficiency_of(one, many, ranks)`: the scaling efficiency. `one` and `many`
#   are pairs of (samples processed, seconds) on one rank and on `ranks` ranks.
#   If the job processed nothing, the efficiency is 0.

# %% nbgrader={"grade": false, "grade_id": "q02_efficiency", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q02_efficiency
#
# 1. How many whole steps fit into an epoch? Then: how fast was the job, and how
#    fast would it be without any loss?
# 2. Whole steps times the global batch are the samples processed. Speed is
#    samples over seconds; divide that of many ranks by `ranks` times that of one.
# 3. `global_batch = per_rank_batch * ranks`

# %% nbgrader={"grade": true, "grade_id": "q02_efficiency_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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
# **Predict first.** The global batch stays 64, so each of two ranks has 32 images (**strong
# scaling**). What efficiency, in percent, will your machine reach?

# %% tags=["demo"]
guess_strong = None  # percent

# %% tags=["demo"]
scaled_runs = dict(
    images, recipe="base", steps=16 if smoke else 640, global_batch=64,
    seed=seed, threads=1, no_augment=True,
)
alone, together = (
    launch("train_cifar.py", name=name, workers=n, **scaled_runs)
    for name, n in (("one rank", 1), ("all ranks", workers))
)
strong = efficiency.scaling([alone, together], "strong")
beside(guess_strong, 100 * strong["efficiency"].iloc[-1], "%, strong")

# %% tags=["demo"]
strong

# %% [markdown]
# ### When a rank fails
#
# No rank can go on without the others. With `max_restarts=2, checkpoint_every=100` a
# launch starts all of them again, from the last checkpoint.
#
# **Question 3** (1 point)
#
# `steps_twice(step, every)`: how many steps are done twice if a rank is killed right after
# step `step`, and each `every` steps end with a checkpoint (0: there are none).

# %% nbgrader={"grade": false, "grade_id": "q03_steps_twice", "locked": false, "schema_version": 3, "solution": true, "task": false}
def steps_twice(step, every):
    """Return how many steps are done twice."""
    ### BEGIN SOLUTION
    kept = step // every * every if every else 0
    return step - kept
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_steps_twice
#
# 1. Where does the run go on from?
# 2. Done twice is what is left over when whole intervals are taken out. Nothing can be
#    divided by 0.
# 3. `kept = step // every * every if every else 0`

# %% nbgrader={"grade": true, "grade_id": "q03_steps_twice_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
twice = steps_twice(730, 100)
assert twice == 30, f"from step 700 to step 730, not {twice}"
twice = steps_twice(730, 0)
assert twice == 730, f"without checkpoints all are done again, not {twice}"
### BEGIN HIDDEN TESTS
for step, every, wanted in (
    (99, 100, 99), (100, 100, 0), (730, 1_000, 730), (12, 7, 5),
    (41, 1, 0), (0, 10, 0), (0, 0, 0), (101, 100, 1), (350, 100, 50),
):
    assert steps_twice(step, every) == wanted, (step, every)
### END HIDDEN TESTS

# %% [markdown]
# Where the time goes, 16 bits, and when another rank pays:
# [3c](3c.Scaling-in-Depth.ipynb). Text, and loops of your own:
# [3d](3d.Text-and-Loops.ipynb). Failures: [3e](3e.Failures-in-Depth.ipynb). PyTorch
# against TensorFlow: [3b](3b.Strategies-in-Depth.ipynb), section 6.
#
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - **Six steps** make a script distributed, in Horovod as in PyTorch. Correct scripts make
#   a single device's updates, up to rounding.
# - **Ask each rank what it saw**: no usual mistake raises an error.
# - Efficiency counts **samples really processed** on **equal hardware**.
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
