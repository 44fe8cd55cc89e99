# %% [markdown]
# # 3f. Bets
#
# **What do the libraries really do?**
#
# | about | this notebook |
# | --- | --- |
# | time | 75 minutes, of which the runs take about one |
# | hardware | two cores |
# | before this | [3. Multi-GPU](3.Multi-GPU.ipynb) |
#
# You have written distributed trainings. Each of the following cells makes a few stock calls on two or three ranks.
# Before you run one, bet on its outcome: write a number, then run the cell. The end shows how many were right.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs

# %% tags=["demo"]
from course import Bets, check, compare_guess, hint
from ddl import pull

bets = Bets()

# %% tags=["demo"]
%load_ext ddl

# %% [markdown]
# `%%ranks 2` runs a cell on two live ranks, which keep their variables. `pull("x")` copies a variable back: a list with
# the value on each rank. The last lines make two devices of a processor, for bet 10.

# %% tags=["demo"]
%%ranks 2 --oversubscribe
import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import tensorflow as tf

hvd.init()
rank = hvd.rank()
tf.config.set_visible_devices([], "GPU")
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    2 * [tf.config.LogicalDeviceConfiguration()],
)

# %% [markdown]
# ## 1. Numbers
#
# **Bet 1.** Rank 0 holds 1.0, rank 1 holds 2.0. What does `hvd.allreduce` return without further arguments?

# %% tags=["demo"]
guess_default = None  # a number

# %% tags=["demo"]
%%ranks
result = hvd.allreduce(tf.constant(rank + 1.0))

# %% tags=["demo"]
compare_guess(guess_default, float(pull("result")[0]),
              "1.0 and 2.0, all-reduced", bets)

# %% [markdown]
# Horovod averages unless you ask for `op=hvd.Sum`; PyTorch's `dist.all_reduce` sums. In a training, name the operation.
#
# **Bet 2.** Both ranks call `tf.random.set_seed(0)`, then draw 1,000 numbers. How many of them differ between the ranks?

# %% tags=["demo"]
guess_seed = None  # of 1,000

# %% tags=["demo"]
%%ranks
tf.random.set_seed(0)
drawn = hvd.allgather(tf.random.normal([1, 1_000]))
differ = tf.math.count_nonzero(drawn[0] != drawn[1])

# %% tags=["demo"]
compare_guess(guess_seed, int(pull("differ")[0]),
              "numbers that differ", bets)

# %% [markdown]
# Equal seeds give equal dropout masks and augmentations: ranks then see less variety than their number suggests. After
# the weights are equal, seed with `seed + rank`.
#
# **Bet 3.** Ranks 0 and 1 hold the integers -1 and -2 (int32). What is their average?

# %% tags=["demo"]
guess_integer = None  # a number

# %% tags=["demo"]
%%ranks
count = hvd.allreduce(tf.constant(-1 - rank))
count

# %% tags=["demo"]
compare_guess(guess_integer, int(pull("count")[0]),
              "average of -1 and -2", bets)

# %% [markdown]
# The average of integers is an integer, rounded toward zero. Cast counts to a floating-point type first.
#
# **Question 1** (1 point)
#
# Write `averaged(counts)`: what `hvd.allreduce` returns for int32 counts, one from each rank.

# %% nbgrader={"grade": false, "grade_id": "q01_averaged", "locked": false, "schema_version": 3, "solution": true, "task": false}
def averaged(counts):
    """Return Horovod's average of the ranks' int32 counts."""
    ### BEGIN SOLUTION
    return int(sum(counts) / len(counts))
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_averaged
#
# 1. Which integer replaced -1.5?
# 2. Divide the sum by the number of ranks, then drop the digits after the point.
# 3. `mean = sum(counts) / len(counts)`; Python's `int` drops the fraction.

# %% nbgrader={"grade": true, "grade_id": "q01_averaged_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
value = averaged([-1, -2])
assert value == -1, f"averaged([-1, -2]) returned {value}; bet 3 gave -1"
### BEGIN HIDDEN TESTS
for counts, wanted in (([3, 4], 3), ([5, 3], 4), ([-3, -4, -4], -3),
                       ([7, 7, 6, 7], 6), ([-1, 0], 0), ([0, 1, 1], 0)):
    assert averaged(counts) == wanted, counts
### END HIDDEN TESTS

# %% [markdown]
# **Bet 4.** Each of two ranks holds a gradient of 40,000. With fp16 compression, what is the average? (The largest finite
# number of half precision is 65,504.)

# %% tags=["demo"]
guess_half = None  # a number, or float("inf")

# %% tags=["demo"]
%%ranks
gradient = tf.constant(40_000.0)
mean = hvd.allreduce(gradient, compression=hvd.Compression.fp16)

# %% tags=["demo"]
compare_guess(guess_half, float(pull("mean")[0]),
              "average of 40,000 and 40,000", bets)

# %% [markdown]
# Horovod adds in half precision and divides afterward, so the *sum* has to fit. Divide before
# (`gradient_predivide_factor` of an optimizer), or watch the loss scale.
#
# **Question 2** (1 point)
#
# Write `largest(ranks)`: if all of these ranks hold the same gradient, how large may it be for a finite average?

# %% nbgrader={"grade": false, "grade_id": "q02_largest", "locked": false, "schema_version": 3, "solution": true, "task": false}
def largest(ranks):
    """Return the largest gradient whose average is finite in float16."""
    ### BEGIN SOLUTION
    return 65_504 / ranks
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_largest
#
# 1. Which number overflows in bet 4: a rank's gradient, their sum, or their average?
# 2. The sum of all gradients may be 65,504 at most.
# 3. `ranks * gradient <= 65_504`

# %% nbgrader={"grade": true, "grade_id": "q02_largest_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
value = largest(2)
assert 32_700 < value < 32_800, (
    f"largest(2) returned {value}, but two gradients of 32,752 fit"
)
value = largest(4)
assert 16_300 < value < 16_400, f"largest(4) returned {value}: do four fit?"
### BEGIN HIDDEN TESTS
for ranks in (1, 3, 8, 100):
    assert abs(largest(ranks) * ranks / 65_504 - 1) < 1e-3, ranks
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Optimizers
#
# **Bet 5.** Each rank has its own gradient, 6 or -2, whose average is 2. The optimizer is plain SGD with rate 1, wrapped by
# Horovod. What is the weight on rank 0 afterward?

# %% tags=["demo"]
guess_apply = None  # a number

# %% tags=["demo"]
%%ranks
weight = tf.Variable(0.0)
sgd = hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(1.0))
gradient = tf.constant(6.0 if rank == 0 else -2.0)
sgd.apply_gradients([(gradient, weight)])
after = float(weight)

# %% tags=["demo"]
compare_guess(guess_apply, pull("after")[0],
              "weight after apply_gradients", bets)

# %% [markdown]
# With the optimizers of TensorFlow 2.15, Horovod's wrapper averages in `minimize` and `fit`, and not in
# `apply_gradients`: ranks silently drift apart. In your own loop, use `hvd.DistributedGradientTape`.
#
# **Bet 6.** The same gradients through `minimize`, with `clipvalue=1.0`. Where is the weight now?

# %% tags=["demo"]
guess_clip = None  # a number

# %% tags=["demo"]
%%ranks
weight = tf.Variable(0.0)
sgd = hvd_keras.DistributedOptimizer(
    tf.keras.optimizers.SGD(1.0, clipvalue=1.0))
slope = 6.0 if rank == 0 else -2.0
sgd.minimize(lambda: slope * weight, [weight])
after = float(weight)

# %% tags=["demo"]
compare_guess(guess_clip, pull("after")[0],
              "weight after a clipped step", bets)

# %% [markdown]
# Clipping comes after averaging: 2 is clipped to 1. Clipped first, the gradients 1 and -1 would cancel out. One rank's
# outlier still spoils the average of all, so look for it before the all-reduce.
#
# **Bet 7.** With `backward_passes_per_step=4`, weights change after every fourth pass. What does `optimizer.iterations` say
# after eight passes?

# %% tags=["demo"]
guess_passes = None  # steps

# %% tags=["demo"]
%%ranks
adam = hvd_keras.DistributedOptimizer(
    tf.keras.optimizers.Adam(0.1), backward_passes_per_step=4)
weight, path = tf.Variable(1.0), []
for _ in range(8):
    adam.minimize(lambda: 1.0 * weight, [weight])
    path.append(float(weight))
steps = int(adam.iterations)

# %% tags=["demo"]
compare_guess(guess_passes, pull("steps")[0],
              "iterations after two updates", bets)

# %% [markdown]
# Passes count as steps. So schedules run four times as fast, and Adam corrects its first moments for steps that it has not
# made: its first update is too short. Give schedules in passes.
#
# **Question 3** (1 point)
#
# A schedule warms up over `steps` iterations. With `passes` backward passes per step, write how many updates of the weights
# are made meanwhile.

# %% nbgrader={"grade": false, "grade_id": "q03_warmup", "locked": false, "schema_version": 3, "solution": true, "task": false}
def updates_in_warmup(steps, passes):
    """Return how often weights change while the schedule warms up."""
    ### BEGIN SOLUTION
    return steps // passes
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_warmup
#
# 1. Bet 7: how many updates does it take for the schedule to see eight steps?
# 2. Every pass is a step of the schedule, and every `passes`-th changes weights.
# 3. Divide `steps` by `passes`.

# %% nbgrader={"grade": true, "grade_id": "q03_warmup_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
value = updates_in_warmup(8, 4)
assert value == 2, f"updates_in_warmup(8, 4) returned {value}; bet 7 made 2"
value = updates_in_warmup(90, 10)
assert value == 9, f"updates_in_warmup(90, 10) returned {value}, not 9"
### BEGIN HIDDEN TESTS
for steps, passes in ((1_000, 8), (500, 1), (96, 32), (600, 3)):
    assert updates_in_warmup(steps, passes) == steps / passes, (steps, passes)
### END HIDDEN TESTS

# %% [markdown]
# **Bet 8.** An embedding of three words: rank 0 looks up words 0 and 1, rank 1 looks up words 1 and 2. On its rank, the
# gradient of each word's row is 1. What is the averaged gradient of word 0?

# %% tags=["demo"]
guess_word = None  # a number

# %% tags=["demo"]
%%ranks
table = tf.Variable(tf.zeros([3, 1]))
with tf.GradientTape() as tape:
    words = tf.nn.embedding_lookup(table, [rank, rank + 1])
    loss = tf.reduce_sum(words)
tape = hvd.DistributedGradientTape(tape)
(gradient,) = tape.gradient(loss, [table])
rows = tf.convert_to_tensor(gradient)[:, 0]

# %% tags=["demo"]
compare_guess(guess_word, float(pull("rows")[0][0]),
              "gradient of word 0", bets)

# %% [markdown]
# Rows are gathered and divided by the number of ranks, also if only one rank has seen the word. That is right for a mean over
# the global batch. With many ranks, a rare word's update becomes tiny: prefer an optimizer that adapts rates.
#
# ## 3. Layers and data
#
# **Bet 9.** Rank 0 has one sample, 0.0. Rank 1 has three, each 3.0. Which mean does Horovod's synchronized batch norm use?

# %% tags=["demo"]
guess_norm = None  # a number

# %% tags=["demo"]
%%ranks
import warnings

warnings.simplefilter("ignore")  # the layer uses an old part of Keras
norm = hvd.SyncBatchNormalization(momentum=0.0)
samples = tf.zeros([1, 1]) if rank == 0 else 3 * tf.ones([3, 1])
norm(samples, training=True)
mean = norm.moving_mean

# %% tags=["demo"]
compare_guess(guess_norm, float(pull("mean")[0][0]),
              "mean of 0, 3, 3 and 3", bets)

# %% [markdown]
# It averages the ranks' means: 1.5, where all samples have 2.25. Ranks count, not samples. Drop the rest of a data set, so
# that batches are equal.
#
# **Question 4** (1 point)
#
# Write `norm_mean(parts)`: the mean that the layer uses. `parts` has a list of samples for each rank.

# %% nbgrader={"grade": false, "grade_id": "q04_norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def norm_mean(parts):
    """Return the mean that Horovod's synchronized batch norm uses."""
    ### BEGIN SOLUTION
    means = [sum(part) / len(part) for part in parts]
    return sum(means) / len(means)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q04_norm
#
# 1. What does each rank know before it talks to the others?
# 2. A mean of means.
# 3. `means = [sum(part) / len(part) for part in parts]`

# %% nbgrader={"grade": true, "grade_id": "q04_norm_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
value = norm_mean([[0.0], [3.0, 3.0, 3.0]])
assert abs(value - 1.5) < 1e-6, f"bet 9 gave 1.5, not {value}"
value = norm_mean([[1.0], [2.0], [9.0]])
assert abs(value - 4) < 1e-6, f"norm_mean of 1, 2 and 9 on three ranks is {value}"
### BEGIN HIDDEN TESTS
for parts, wanted in (([[1.0, 3.0], [5.0]], 3.5), ([[2.0], [4.0], [6.0, 0.0]], 3),
                      ([[1.0, 1.0, 7.0]], 3), ([[0.0, 0.0, 0.0], [8.0]], 4)):
    assert abs(norm_mean(parts) - wanted) < 1e-5, parts
### END HIDDEN TESTS

# %% [markdown]
# **Bet 10.** Keras, two replicas, a batch of three samples. Targets are 0, 0 and 6, the model predicts 0, and the loss is the
# mean absolute error, whose slope is 0 at 0. So the mean gradient is -1/3. How far does one step of rate 1 go?

# %% tags=["demo"]
guess_keras = None  # a number

# %% tags=["demo"]
%%ranks
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    line = tf.keras.layers.Dense(
        1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))
    model = tf.keras.Sequential([line])
    model.compile(tf.keras.optimizers.SGD(1.0), "mae")
targets = tf.constant([[0.0], [0.0], [6.0]])
model.fit(tf.ones([3, 1]), targets, batch_size=3, shuffle=False,
          verbose=0)
moved = model.get_weights()[0][0, 0]

# %% tags=["demo"]
compare_guess(guess_keras, float(pull("moved")[0]),
              "weight after one step of fit", bets)

# %% [markdown]
# The third sample is alone on its replica. Keras divides each replica's mean by the number of replicas: (0 + 1) ÷ 2. Choose
# global batches that the replicas divide, and drop the rest.
#
# **Bet 11.** Rank 1 has run out of data and calls `hvd.join()`. What is the minimum over ranks of rank 0's 4.0?

# %% tags=["demo"]
guess_join = None  # a number

# %% tags=["demo"]
%%ranks
if rank == 0:
    least = hvd.allreduce(tf.constant(4.0), op=hvd.Min)
    mean = hvd.allreduce(tf.constant(4.0))
    print("minimum", float(least), "average", float(mean))
else:
    least = tf.constant(np.nan)
hvd.join();

# %% tags=["demo"]
compare_guess(guess_join, float(pull("least")[0]),
              "minimum of 4.0 and a rank that has joined", bets)

# %% [markdown]
# A rank that has joined takes part with zeros: the average is 2.0. So the last steps of an epoch count less than they
# should. Give all ranks equally many steps.
#
# **Question 5** (1 point)
#
# Write `joined_average(values, ranks)`: the average that `values` get if the other ranks, of `ranks` in all, have joined.

# %% nbgrader={"grade": false, "grade_id": "q05_joined", "locked": false, "schema_version": 3, "solution": true, "task": false}
def joined_average(values, ranks):
    """Return Horovod's average of values while other ranks have joined."""
    ### BEGIN SOLUTION
    return sum(values) / ranks
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q05_joined
#
# 1. Which value on rank 1 gives an average of 2.0?
# 2. Zeros are added, and all ranks are counted.
# 3. Divide by `ranks`, not by `len(values)`.

# %% nbgrader={"grade": true, "grade_id": "q05_joined_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
value = joined_average([4.0], 2)
assert abs(value - 2.0) < 1e-6, f"bet 11 printed an average of 2, not {value}"
value = joined_average([4.0, 8.0], 4)
assert abs(value - 3) < 1e-6, f"joined_average([4.0, 8.0], 4) returned {value}, not 3"
### BEGIN HIDDEN TESTS
for values, ranks, wanted in (([3.0, 9.0], 3, 4), ([8.0], 4, 2),
                              ([1.0, 2.0, 3.0], 3, 2), ([-6.0, 2.0], 8, -0.5)):
    assert abs(joined_average(values, ranks) - wanted) < 1e-6, values
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Deeper
#
# **Bet 12.** A layer that only this rank has, such as an expert, is registered as a local source, so that it is not averaged.
# The true gradient is 2. What does the tape return for it?

# %% tags=["demo"]
guess_local = None  # a number

# %% tags=["demo"]
%%ranks
expert = tf.Variable(1.0)
tape = hvd.DistributedGradientTape(tf.GradientTape())
tape.register_local_source(expert)
with tape:
    loss = 2.0 * expert
(gradient,) = tape.gradient(loss, [expert])

# %% tags=["demo"]
compare_guess(guess_local, float(pull("gradient")[0]),
              "gradient of a local weight", bets)

# %% [markdown]
# Local gradients are divided by the number of ranks, so that they fit to a loss that is a mean over ranks. Pass
# `scale_local_gradients=False` if yours is not.
#
# **Bet 13.** Each rank computes y, the sum of x over both ranks, and differentiates its own y by its own x. What is the
# gradient?

# %% tags=["demo"]
guess_through = None  # a number

# %% tags=["demo"]
%%ranks
x = tf.Variable(1.0)
with tf.GradientTape() as tape:
    y = hvd.allreduce(x, op=hvd.Sum)
slope = tape.gradient(y, x)

# %% tags=["demo"]
compare_guess(guess_through, float(pull("slope")[0]),
              "gradient of a sum over two ranks", bets)

# %% [markdown]
# The gradient of an all-reduce is the all-reduce of gradients, as if the loss were the sum of all ranks' losses. If every rank
# computes the *same* loss from y, divide by the number of ranks.
#
# **Bet 14.** An elastic state holds a list with one loss. A second one is appended, then `restore()` goes back to the last
# commit. How many losses are there?

# %% tags=["demo"]
guess_restore = None  # losses

# %% tags=["demo"]
%%ranks
import horovod.tensorflow.elastic

state = hvd.elastic.TensorFlowState(
    [tf.Variable(1.0)], losses=[0.9], step=1)
state.losses.append(0.8)
state.step = 2
state.restore()
losses, step = state.losses, state.step

# %% tags=["demo"]
compare_guess(guess_restore, len(pull("losses")[0]),
              "losses after restore()", bets)

# %% [markdown]
# `step` is 1 again, but the commit keeps a reference to the list, not a copy. Assign new lists to the state
# (`state.losses = [*state.losses, 0.8]`), or repeated steps appear twice.
#
# **Bet 15.** Three ranks add a vector of 1,000 equal entries: each entry is 1e8 + 1 - 1e8. In float32, an entry of the sum is 1
# or 0, depending on the order. How many are 1?

# %% tags=["demo"]
guess_order = None  # of 1,000

# %% tags=["demo"]
%%ranks 3 --oversubscribe
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
entry = (1e8, 1.0, -1e8)[hvd.rank()]
total = hvd.allreduce(tf.fill([1_000], entry), op=hvd.Sum)
ones = int(tf.math.count_nonzero(total == 1.0))

# %% tags=["demo"]
compare_guess(guess_order, pull("ones")[0],
              "entries that are 1", bets)

# %% tags=["demo"]
%ranks stop

# %% [markdown]
# The ring adds each third of the vector in another order. From three ranks on, a sum's bits depend on the place in the
# message, and so on which tensors are fused. Compare trainings with a tolerance, never bit by bit.
#
# ## 5. Repairs
#
# Three of these are repaired by one line. Each question's file defines `repaired(values)`, which runs on two ranks, with hidden
# tests on three.
#
# **Question 6** (1 point)
#
# Average int32 counts without rounding, as float32.

# %% nbgrader={"grade": false, "grade_id": "q06_counts", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile my_counts.py
import horovod.tensorflow as hvd
import tensorflow as tf


def repaired(values):
    """Return the mean over ranks of int32 values, as float32."""
    ### BEGIN SOLUTION
    return hvd.allreduce(tf.cast(values, tf.float32))
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q06_counts
#
# 1. When does the fraction get lost: before, in or after the all-reduce?
# 2. The result has the type of what you send.
# 3. `tf.cast(values, tf.float32)`

# %% nbgrader={"grade": true, "grade_id": "q06_counts_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import repairs

repairs.counts("my_counts.py", seed=1)
### BEGIN HIDDEN TESTS
repairs.counts("my_counts.py", seed=731, ranks=3)
### END HIDDEN TESTS

# %% [markdown]
# **Question 7** (1 point)
#
# Average float32 gradients of up to 60,000 with fp16 compression, without an overflow.

# %% nbgrader={"grade": false, "grade_id": "q07_compressed", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile my_compressed.py
import horovod.tensorflow as hvd


def repaired(values):
    """Return the mean over ranks; messages are in half precision."""
    ### BEGIN SOLUTION
    return hvd.allreduce(values / hvd.size(), op=hvd.Sum,
                         compression=hvd.Compression.fp16)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q07_compressed
#
# 1. The sum must fit. What can you do to its terms?
# 2. Divide by the number of ranks first. Then you need the sum, not the average.
# 3. `hvd.allreduce(values / hvd.size(), op=hvd.Sum, …)`

# %% nbgrader={"grade": true, "grade_id": "q07_compressed_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import repairs

repairs.compressed("my_compressed.py", seed=1)
### BEGIN HIDDEN TESTS
repairs.compressed("my_compressed.py", seed=731, ranks=3)
### END HIDDEN TESTS

# %% [markdown]
# **Question 8** (1 point)
#
# Batch norm's mean, weighed by samples: each rank has `values` of shape `[samples, features]`, with its own number of samples.
# Return the mean of all ranks' samples, for each feature.

# %% nbgrader={"grade": false, "grade_id": "q08_moments", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile my_moments.py
import horovod.tensorflow as hvd
import tensorflow as tf


def repaired(values):
    """Return the mean over all ranks' samples, shape [features]."""
    total = tf.reduce_sum(values, axis=0)
    samples = tf.cast(tf.shape(values)[0], tf.float32)
    ### BEGIN SOLUTION
    return hvd.allreduce(total) / hvd.allreduce(samples)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q08_moments
#
# 1. A mean of means is wrong. Which two numbers can be added over ranks?
# 2. All-reduce the sums, all-reduce the numbers of samples, then divide.
# 3. `samples = hvd.allreduce(samples, op=hvd.Sum)`

# %% nbgrader={"grade": true, "grade_id": "q08_moments_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import repairs

repairs.moments("my_moments.py", seed=1)
### BEGIN HIDDEN TESTS
repairs.moments("my_moments.py", seed=731, ranks=3)
### END HIDDEN TESTS

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## Your bets

# %% tags=["demo"]
bets

# %% [markdown]
# ## What to take away
#
# - Two ranks and a minute show what a call does. `%%ranks 2` needs no script.
# - Most surprises are about *what is divided by what*: ranks, samples, passes or replicas. Equal batches on all ranks avoid most
#   of them.
# - Outcomes are those of Horovod 0.28.1 and TensorFlow 2.15.1. Other versions may differ: bet again after an update.
