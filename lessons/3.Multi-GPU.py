# %% [markdown]
# # 3. Multi-GPU
#
# **How do I make my script distributed?**
#
# | about | this lesson |
# | --- | --- |
# | time | 75 minutes, of which the runs take three |
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
from ddl import has_torch, launch
from course import Tabs, agreement, check, compare_guess, efficiency
from course import exercise, hint, mistakes

smoke = size == "smoke"
part = (1_024, 500) if smoke else (5_000, 2_000)
images = dict(data_set=data_set, train_samples=part[0], test_samples=part[1])
fixed = dict(images, global_batch=64, epochs=1 if smoke else 5, seed=seed)

# %% [markdown]
# ## 1. From one device to many
#
# In **data-parallel** training every rank has the whole model and its **shard**, a part
# of the data. In each step, an **all-reduce** averages the gradients before the update,
# so all ranks keep the same weights.
#
# ![Two ranks. Each has the same weights and computes gradients of its own shard of the batch; an all-reduce averages the gradients, and each rank makes the same update.](../images/data_parallel.svg)
#
# Here is a script for one device, and the same script for several ranks, in three ways.
# Numbers mark the lines that make it distributed. Horovod's last release is from 2023;
# PyTorch's way is today's most common one, and the six steps are the same.

# %% tags=["demo"]
Tabs({
    "one device": "recipe_one_device.py",
    "Horovod, Keras fit": "recipe_fit.py",
    "Horovod, custom loop": "recipe_loop.py",
    "PyTorch": "recipe_torch.py",
})

# %% tags=["demo"]
if has_torch():  # otherwise, it prints how to install it
    launch("recipe_torch.py", name="the PyTorch tab", workers=workers,
           cluster="torchrun")

# %% [markdown] tags=["two-libraries"]
# Six steps, in Horovod and in PyTorch's `DistributedDataParallel` (**DDP**):
#
# | step | Horovod | PyTorch DDP | without it |
# | --- | --- | --- | --- |
# | 1 initialize | `hvd.init()` | `dist.init_process_group(…)` | an error at the first call |
# | 2 pin | `tf.config.set_visible_devices(…)` | `torch.cuda.set_device(device)` | NCCL: an error; Gloo: all ranks on GPU 0, and TensorFlow fills every GPU's memory |
# | 3 shard | `dataset.shard(hvd.size(), hvd.rank())` | `DistributedSampler(dataset)` | ? |
# | 4 scale | `0.005 * hvd.size()` | `0.005 * dist.get_world_size()` | ? |
# | 5 wrap | `hvd.DistributedGradientTape(tape)`, `hvd.DistributedOptimizer(optimizer)` | `torch.nn.parallel.DistributedDataParallel(model)` | ? |
# | 6 broadcast | `hvd.broadcast_variables(…)` | DDP does it at construction | ? |
#
# Also **average metrics** over ranks (`hvd.allreduce(…)`, `dist.all_reduce(…)`) before
# reporting them, and let only **rank 0 write** files. Step 4 is a rule of thumb, which
# lesson 4 tests: each rank keeps its batch, so the *global* batch grows with the ranks. In
# the next two runs the global batch and the learning rate stay the same.
#
# **Predict first.** One run has one rank, the other several. Both have the same data,
# initial weights and global batch. After four updates, how large is the largest
# difference between corresponding weights, relative to the largest weight: 0, at most 1e-5,
# or about 1e-2?

# %% tags=["demo"]
guess_difference = None  # a number, such as 1e-3

# %% tags=["demo"]
single = launch("strategies/loop.py", name="one device", workers=1, **fixed)
horovod = launch(
    "strategies/horovod_loop.py", name="Horovod", workers=workers, **fixed
)
both = agreement([single, horovod], step=4)
compare_guess(guess_difference, both["÷ the largest weight"].iloc[1],
              "largest difference ÷ largest weight")

# %% [markdown]
# It is only rounding: sums of other lengths, on other threads, add up in another order,
# and each update passes the difference on. TensorFlow's own strategies agree as well,
# all but one: [3b. Strategies in depth](3b.Strategies-in-Depth.ipynb).

# %% [markdown]
# ## 2. Your turn: make a script distributed
#
# In this script `initial_weights` draws different weights in every process, as Keras
# does without a seed, and `report` writes down what this process ended with.

# %%
%%writefile one_device.py
import argparse
import numpy as np
import tensorflow as tf
from course import initial_weights, report

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="exercise.npz")
parser.add_argument("--batch", type=int, default=480)  # samples in a step
parser.add_argument("--rate", type=float, default=0.02)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--out", default="model.weights.h5")
args = parser.parse_args()

with np.load(args.data) as data:
    x, y = data["x"], data["y"]

model = tf.keras.Sequential([
    tf.keras.layers.Dense(10, activation="tanh", input_shape=(6,)),
    tf.keras.layers.Dense(1),
])
model.set_weights(initial_weights(model.weights))
model.compile(tf.keras.optimizers.SGD(args.rate), loss="mse")
history = model.fit(x, y, batch_size=args.batch, epochs=args.epochs,
                    shuffle=False, verbose=0).history

report(model.weights, loss=history["loss"][-1], samples=len(x))
model.save_weights(args.out)

# %% [markdown]
# **Predict first.** If you launch it unchanged on two ranks, how many models do you get?

# %% tags=["demo"]
guess_models = None  # how many

# %% tags=["demo"]
exercise.write_data("exercise.npz", samples=480 * workers)
unchanged = launch("one_device.py", name="unchanged", workers=workers,
                   check=False)
compare_guess(guess_models, len(exercise.reports(unchanged)),
              "different models")

# %% [markdown]
# Each rank did the whole job. Both also write the same file, and if they do so at the
# same moment, one of them ends with an error.
#
# **Question 1** (9 points)
#
# Copy the script, and make it distributed. You can also start with a [custom
# loop](../source_code/course/multi_gpu/scripts/one_device_loop.py) or in
# [PyTorch](../source_code/course/multi_gpu/scripts/one_device_torch.py) (with
# `cluster="torchrun"` in the launch below). On $N$ ranks it has to end with the weights
# of *one* device that trains on the combined batch of all ranks, at $N$ times the
# learning rate `--rate`.
#
# - `--batch` is the batch of one rank.
# - Every rank reports the last epoch's mean `loss` over all ranks, and how many `samples`
#   all ranks train on in an epoch.
# - One rank writes `--out`.
#
# Tests run your file on two and three ranks. Right weights give 2 points, own samples and
# the number of steps 2, and averaged gradients, the scaled learning rate, the same start,
# true metrics and one writer 1 each.

# %% nbgrader={"grade": false, "grade_id": "q01_convert", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
%%writefile my_training.py
### BEGIN SOLUTION
import argparse
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from course import initial_weights, report

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="exercise.npz")
parser.add_argument("--batch", type=int, default=480)  # samples in a step
parser.add_argument("--rate", type=float, default=0.02)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--out", default="model.weights.h5")
args = parser.parse_args()
hvd.init()

with np.load(args.data) as data:
    x, y = data["x"], data["y"]
samples = len(x)
x, y = x[hvd.rank()::hvd.size()], y[hvd.rank()::hvd.size()]

model = tf.keras.Sequential([
    tf.keras.layers.Dense(10, activation="tanh", input_shape=(6,)),
    tf.keras.layers.Dense(1),
])
model.set_weights(initial_weights(model.weights))
model.set_weights([hvd.broadcast(w, 0) for w in model.get_weights()])
optimizer = tf.keras.optimizers.SGD(args.rate * hvd.size())
model.compile(hvd.DistributedOptimizer(optimizer), loss="mse")
history = model.fit(x, y, batch_size=args.batch, epochs=args.epochs,
                    shuffle=False, verbose=0).history

loss = hvd.allreduce(history["loss"][-1])
report(model.weights, loss=loss, samples=samples)
if hvd.rank() == 0:
    model.save_weights(args.out)
### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_convert
#
# 1. Take the library's steps one after the other, as in the table above: initialize,
#    shard, scale the learning rate, wrap the optimizer (in PyTorch: the model),
#    broadcast, average what is reported, write on rank 0.
# 2. Shard the arrays, or use `dataset.shard` or a `DistributedSampler`; the batch of a
#    rank stays the same. Broadcast after `initial_weights`, before the first step; DDP
#    does it at construction. Average the loss with `hvd.allreduce`, or with
#    `dist.all_reduce` and a division by the number of ranks.
# 3. `x, y = x[hvd.rank()::hvd.size()], y[hvd.rank()::hvd.size()]`

# %% nbgrader={"grade": true, "grade_id": "q01_convert_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import conversion

for n in (2, 3):
    trained = conversion.training("my_training.py", ranks=n, seed=1)
    conversion.same_weights(trained)
### BEGIN HIDDEN TESTS
trained = conversion.training("my_training.py", ranks=3, seed=2734)
conversion.same_weights(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_own_samples_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import conversion

for n in (2, 3):
    trained = conversion.training("my_training.py", ranks=n, seed=1)
    conversion.own_samples(trained)
    conversion.right_steps(trained)
### BEGIN HIDDEN TESTS
trained = conversion.training("my_training.py", ranks=3, seed=2734)
conversion.own_samples(trained)
conversion.right_steps(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_averaged_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import conversion

for n in (2, 3):
    trained = conversion.training("my_training.py", ranks=n, seed=1)
    conversion.averaged(trained)
### BEGIN HIDDEN TESTS
trained = conversion.training("my_training.py", ranks=3, seed=2734)
conversion.averaged(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_scaled_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import conversion

for n in (2, 3):
    trained = conversion.training("my_training.py", ranks=n, seed=1)
    conversion.scaled(trained)
### BEGIN HIDDEN TESTS
trained = conversion.training("my_training.py", ranks=3, seed=2734)
conversion.scaled(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_began_alike_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import conversion

for n in (2, 3):
    trained = conversion.training("my_training.py", ranks=n, seed=1)
    conversion.began_alike(trained)
### BEGIN HIDDEN TESTS
trained = conversion.training("my_training.py", ranks=3, seed=2734)
conversion.began_alike(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_true_metrics_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import conversion

for n in (2, 3):
    trained = conversion.training("my_training.py", ranks=n, seed=1)
    conversion.true_metrics(trained)
### BEGIN HIDDEN TESTS
trained = conversion.training("my_training.py", ranks=3, seed=2734)
conversion.true_metrics(trained)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q01_one_writer_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import conversion

for n in (2, 3):
    trained = conversion.training("my_training.py", ranks=n, seed=1)
    conversion.one_writer(trained)
### BEGIN HIDDEN TESTS
trained = conversion.training("my_training.py", ranks=3, seed=2734)
conversion.one_writer(trained)
### END HIDDEN TESTS

# %% tags=["demo", "raises-exception"]
exercise.reports(launch("my_training.py", name="mine", workers=workers))

# %% [markdown]
# **A trap.** Horovod's `BroadcastGlobalVariablesCallback` broadcasts at the *end of the
# first batch*, so the first update averages gradients of different models. Tests accept
# the result, but broadcast before `fit`.

# %% [markdown]
# ## 3. What goes wrong unnoticed
#
# `bug_hunt.py` is such a script; in `case="A"` one of the steps is missing.
#
# **Predict first.** How does case A end: with an error, a loss that is clearly higher
# (by a tenth or more), or neither?

# %% tags=["demo"]
guess_missing = None  # "error", "loss" or "neither"

# %% tags=["demo"]
right, wrong = (
    launch("bug_hunt.py", name=f"case {case}", case=case, workers=workers)
    for case in ("none", "A")
)
higher = wrong.result["loss"] > 1.1 * right.result["loss"]
compare_guess(guess_missing, "loss" if higher else "neither", "in case A")

# %% tags=["demo"]
mistakes.excerpt(wrong)

# %% [markdown]
# Each rank has recorded the samples it trained on, and checksums of its updates and
# weights. *Update* and *weights after* should be the same on both ranks, and are not:
# in case A, step 5 is missing, so each rank applies its own gradient. **Ask each rank
# what it saw.** You hunt for five more mistakes in [3b](3b.Strategies-in-Depth.ipynb),
# section 5.

# %% [markdown]
# ## 4. Is it faster?
#
# **Scaling efficiency** is the fraction of the ideal speed-up that you get:
#
# $$\text{efficiency} = \frac{\text{samples/s on } N \text{ ranks}}
# {N \times \text{samples/s on one rank}}$$
#
# Count only samples that were **really processed**, and give each rank the same
# hardware: here, *one* thread each.

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
# 2. Whole steps times the global batch are the samples processed. Speed is samples over
#    seconds; divide the speed of many ranks by `ranks` times the speed of one.
# 3. `global_batch = per_rank_batch * ranks`

# %% nbgrader={"grade": true, "grade_id": "q02_efficiency_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


count = samples_processed(1_000, 32, 2)
assert count == 960, (
    f"samples_processed(1_000, 32, 2) returned {count}, not 960: 15 steps of 64"
)
value = efficiency_of((1_000, 10), (1_000, 5), 2)
assert near(value, 1), f"half the time on two ranks: {value}"
value = efficiency_of((1_000, 10), (960, 6), 2)
assert near(value, 0.8), f"160 pictures/s against 100: {value}"
for samples, right in ((128, 128), (60, 0)):
    count = samples_processed(samples, 32, 2)
    assert count == right, f"{samples} in steps of 64: {right}, not {count}"
value = efficiency_of((1_000, 10), (1_200, 5), 2)
assert near(value, 1.2), f"240 images/s against 100: {value}"
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
# **Predict first.** Each rank has 64 images in a step, so two ranks have a global batch of
# 128 (**weak scaling**). What efficiency, in percent, will your machine reach?

# %% tags=["demo"]
guess_weak = None  # percent

# %% tags=["demo"]
alone, together = (
    launch(
        "train_cifar.py", name=name, workers=n, global_batch=64 * n,
        recipe="base", steps=16 if smoke else 480, threads=1,
        no_augment=True, seed=seed, **images,
    )
    for name, n in (("one rank", 1), ("all ranks", workers))
)
weak = efficiency.scaling([alone, together], "weak")
compare_guess(guess_weak, 100 * weak["efficiency"].iloc[-1], "%, weak")

# %% tags=["demo"]
weak

# %% tags=["demo"]
one_ms, all_ms = (
    1e3 * 64 * run.result["ranks"] / run.result["images_per_s"]
    for run in (alone, together)
)
print(f"a step of 64 images per rank: {one_ms:.1f} ms on one rank,"
      f" {all_ms:.1f} ms on {workers}")

# %% [markdown]
# The computation is the same in both, so the difference of the two times is what several
# ranks add: the all-reduce, the wait for the slower rank, and caches and memory that
# they share. With fewer images per rank, more of a step is such work: at a fixed global
# batch (**strong scaling**) efficiency is lower. [3c](3c.Scaling-in-Depth.ipynb),
# section 1, measures each part.

# %% [markdown]
# ### When a rank fails
#
# Without elastic training ([3e](3e.Failures-in-Depth.ipynb)), no rank can go on
# without the others. With `max_restarts=2, checkpoint_every=100` a launch starts all
# of them again, from the last checkpoint.
#
# **Question 3** (1 point)
#
# `steps_twice(step, every)`: how many steps are done twice if a rank is killed right
# after step `step`. A checkpoint is written every `every` steps (0: never), and
# complete before the next step.

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
assert twice == 30, (
    f"steps_twice(730, 100) returned {twice}, not 30: steps 701 to 730"
)
twice = steps_twice(730, 0)
assert twice == 730, f"without checkpoints all are done again, not {twice}"
twice = steps_twice(700, 100)
assert twice == 0, f"step 700 has been written: none is done again, not {twice}"
twice = steps_twice(780, 100)
assert twice == 80, f"the checkpoint of step 800 is not there: 80, not {twice}"
### BEGIN HIDDEN TESTS
for step, every, wanted in (
    (99, 100, 99), (100, 100, 0), (730, 1_000, 730), (12, 7, 5),
    (41, 1, 0), (0, 10, 0), (0, 0, 0), (101, 100, 1), (350, 100, 50),
):
    assert steps_twice(step, every) == wanted, (step, every)
### END HIDDEN TESTS

# %% [markdown]
# Where the time goes, 16 bits, and when another rank is worth it:
# [3c](3c.Scaling-in-Depth.ipynb). Text data and custom loops:
# [3d](3d.Text-and-Loops.ipynb). Failures: [3e](3e.Failures-in-Depth.ipynb). Bets: [3f](3f.Bets.ipynb). PyTorch
# against TensorFlow: [3b](3b.Strategies-in-Depth.ipynb), section 6.
#
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - **Six steps** make a script distributed, in Horovod as in PyTorch. Correct scripts
#   make a single device's updates, up to rounding, if the parts are equal and the
#   network has neither batch norm nor dropout.
# - **Ask each rank what it saw**: leaving out step 3, 4, 5 or 6 raises no error. Other
#   mistakes raise an error, or hang.
# - Efficiency counts **samples really processed**, with the **same hardware for each
#   rank**.
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
