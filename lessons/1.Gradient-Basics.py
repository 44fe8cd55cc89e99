# %% [markdown]
# # 1. Gradient basics
#
# **Why does averaging gradients speed up training?**
#
# | about | this lesson |
# | --- | --- |
# | time | 60 minutes |
# | hardware | two cores; the one launched run takes ten seconds |
# | before this | [Start_Here](../Start_Here.ipynb); school calculus; Python |
#
# You fit a single weight by gradient descent (left). Then you average gradients
# (right): over points, over workers, and between two real processes, and check that
# their numbers match yours.
#
# ![Left: the loss over the weight is a valley. From a start on its left side,
# steps lead down to the lowest point, shorter and shorter. Right: in one step
# each of three workers computes the gradient of its own points; the gradients
# are averaged, and all workers take the same step.](../images/descent.svg)

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2

# %%
import math

import numpy as np

from course import descent

# Points (x, y). The lesson's model predicts y = w * x.
easy = [(1, 1), (2, 2), (3, 3), (4, 4)]
noisy = [(1, 0), (2, 1), (3, 1), (4, 6.25)]

# %% tags=["demo"]
import pandas as pd

from ddl import launch
from course import check, compare_guess, hint, plot, ring, sgd, working

draws = {"reader": 2000, "smoke": 200}[size]
many = descent.generated(64)  # 64 points around y = x, with noise
sizes = [1, 2, 4, 8, 16, 32, 64]

# %% [markdown]
# ## 1. One weight, and the slope of its loss
#
# The model is a line, $y_\text{pred} = w x$. The **loss** measures how wrong the
# weight $w$ is over $n$ points $(x, y)$. It is the mean squared error, with one term
# for each point:
#
# $$\text{loss}(w) = \sum_{i=1}^{n} \frac{(y_i - w x_i)^2}{n}$$
#
# The slope of the loss, the **gradient**, points uphill, so its negative points down.
# By the chain rule, one point's part has the slope $-2x\,(y - w x) / n$.
#
# **Predict first.** The loss of `easy` is lowest at $w = 1$. At $w = 2$ its gradient
# is 15. What is it at $w = 1.5$?

# %% tags=["demo"]
guess_gradient = None  # a number

# %% tags=["demo"]
compare_guess(guess_gradient, descent.gradient(1.5, easy),
              "gradient at w = 1.5")

# %% [markdown]
# Half the distance, half the gradient: the loss is a parabola, and its slope is a
# straight line in $w$.
#
# **Question 1** (3 points)
#
# Write `grad_point(w, data, n)`, the gradient of one point's part: `data` is a pair
# `(x, y)`, and the loss divides by `n`. Then write `grad_multi(w, data)`, the gradient
# of the whole loss: `data` is a list of pairs. For an empty list, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q01_gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
def grad_point(w, data, n):
    """Return the slope of (y - w * x) ** 2 / n for one point (x, y)."""
    ### BEGIN SOLUTION
    x, y = data
    return -2 * x * (y - w * x) / n
    ### END SOLUTION


def grad_multi(w, data):
    """Return the slope of the loss over a list of points (x, y)."""
    ### BEGIN SOLUTION
    if not data:
        raise ValueError("the gradient of an empty data set is not defined")
    return sum(grad_point(w, point, len(data)) for point in data)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_gradients
#
# 1. Differentiate (y − w·x)²/n with respect to w, not x. The chain rule brings a
#    factor from inside the bracket.
# 2. The inside, y − w·x, has the slope −x. So the slope of the square is 2·(y −
#    w·x)·(−x). The whole gradient is the sum of the points' gradients, with n the
#    number of points.
# 3. `x, y = data`

# %% nbgrader={"grade": true, "grade_id": "q01_gradients_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

for point, count, right in [((1, 1), 4, 0.5), ((2, 2), 4, 2), ((2, 1), 1, 12)]:
    value = grad_point(w=2, data=point, n=count)
    assert math.isclose(value, right), (
        f"grad_point(2, {point}, {count}) returned {value}, not {right}"
    )
value = grad_multi(w=2, data=[(1, 1), (2, 2), (3, 3), (4, 4)])
assert math.isclose(value, 15), f"over the four points: {value}, not 15"
value = grad_multi(w=2, data=[(1, 3), (2, 1)])
assert math.isclose(value, 5), f"the mean of -2 and 12 is not {value}"
value = grad_multi(w=0, data=[(2, 3)])
assert math.isclose(value, -12), f"a single point: {value}, not -12"
value = grad_point(w=-1, data=(-3, 2), n=2)
assert math.isclose(value, -3), f"with a negative x: {value}, not -3"
value = grad_multi(w=1, data=[(1, 1), (2, 3)])
assert math.isclose(value, -2), f"one of two points fits: {value}, not -2"
value = grad_point(w=0.5, data=(2, -4), n=4)
assert math.isclose(value, 5), f"with a negative y: {value}, not 5"
try:
    grad_multi(w=1, data=[])
except ValueError:
    pass
else:
    raise AssertionError("an empty data set should raise a ValueError")
### BEGIN HIDDEN TESTS
assert math.isclose(grad_point(w=2, data=(4, 6.25), n=1), 14)
assert math.isclose(grad_point(w=3, data=(0, 5), n=1), 0, abs_tol=1e-12)
small = [(-0.1, 0), (0.3, 0.1), (0.3, 0.1)]  # one point twice
assert math.isclose(grad_multi(w=2, data=small), 0.64 / 3, rel_tol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Too slow, too fast
#
# Take a step against the gradient, again and again:
#
# $$w \leftarrow w - \eta \cdot \text{gradient}$$
#
# **Predict first.** At a small **learning rate** $\eta$ the steps creep down one
# side. At larger ones they jump from side to side, and from some learning rate on
# they diverge. From which?

# %% tags=["demo"]
guess_limit = None  # a learning rate

# %% tags=["demo"]
gradient = working(grad_multi, descent.gradient, 1.5, noisy)
plot.slider(
    lambda lr: plot.plot_descent(easy, lr, gradient=gradient),
    "lr", 0.002, 0.2, start=0.02,
)

# %% tags=["demo"]
compare_guess(guess_limit, descent.rate_limit(easy),
              "learning rate, diverges from")

# %% [markdown]
# Each step multiplies the distance to the best weight by the same number, $1 -
# 2\,\eta\,\overline{x^2}$, where $\overline{x^2}$ is the mean of $x^2$. Between 0 and
# 1 the steps creep; between −1 and 0 they jump across and still get closer; beyond −1
# every jump is longer than the one before: training **diverges**.

# %% [markdown]
# ## 3. Noise, and batches
#
# The points of `noisy` have the same $x$ and the same best weight, 1. No weight is
# right everywhere: each point favors a different weight.
#
# **Predict first.** At learning rate 0.128, training on one point after another ends
# at 1 on `easy`. Where does it end on `noisy`?

# %% tags=["demo"]
guess_noisy = None  # a weight, or "diverges"

# %% tags=["demo"]
singles = descent.batches_of(noisy, 1)
ends = descent.descend(0, 0.128, singles, 1000)[-1]
compare_guess(guess_noisy, ends, "weight after 1000 steps on `noisy`")

# %% tags=["demo"]
plot.plot_training({"easy": easy, "noisy": noisy}, lr=0.016)

# %% [markdown]
# On `easy` training settles at the best weight. On `noisy` it settles into a cycle; the
# higher the learning rate, the farther it is from the best weight ([1b. Gradients in
# depth](1b.Gradients-in-Depth.ipynb), section 3). So take the gradients of several
# points, a **batch**, at the same weight, average them, and take one step.
#
# **Predict first.** Draw batches of 16 from the 64 points of `many` at random,
# *with replacement*. How many times narrower is the spread (the standard
# deviation) of their gradients than that of single points' gradients?

# %% tags=["demo"]
guess_narrower = None  # how many times

# %% tags=["demo"]
one, sixteen = (
    descent.batch_gradients(1.5, many, count, draws).std()
    for count in (1, 16)
)
compare_guess(guess_narrower, one / sixteen, "times narrower, measured")

# %% tags=["demo"]
plot.plot_spread(many, w=1.5, sizes=sizes, draws=draws)

# %% [markdown]
# Averaging $B$ independent gradients divides their variance by $B$, and so their
# spread by $\sqrt{B}$. Their mean stays: the gradient of all points.

# %% [markdown]
# ## 4. Why averaging speeds up training
#
# **Predict first.** With a single point of `easy` at each step, four steps at the
# learning rate 0.001 lead from 0 to 0.05891. Where does **one** step with all four
# points lead, at four times that learning rate?

# %% tags=["demo"]
guess_one_step = None  # a weight

# %% tags=["demo"]
after = descent.descend(0, 4 * 0.001, [easy], 1)[-1]
compare_guess(guess_one_step, after, "weight after one step")

# %% tags=["demo"]
plot.plot_one_step((2, 4, 16))

# %% [markdown]
# It adds up the same gradients, but all at one weight. Does it save time?
#
# **Predict first.** From $w = 0$, one worker computes its points one after
# another, until the loss is on average 0.05 above the lowest. How many times
# as fast is it with batches of 16 at 16 times the learning rate as with single
# points?

# %% tags=["demo"]
guess_sooner = None  # how many times as fast

# %% tags=["demo"]
rate = 0.0018
taken = {B: sgd.steps_to(0.05, 0, rate * B, B, many) for B in (1, 16)}
print(f"steps of single points: {taken[1]:g}, of batches of 16: {taken[16]:g}")
compare_guess(guess_sooner, taken[1] / (16 * taken[16]),
              "times as fast, one worker")

# %% [markdown]
# One worker that computes one point after another gains little: it computes almost as
# many gradients. **$B$ workers** compute them at the same time, in about $1/B$ of the
# time. That answers the lesson's question: averaging turns $B$ steps, which must
# follow each other, into one step of $B$ gradients, which can run in parallel. How
# far this goes is in [1b](1b.Gradients-in-Depth.ipynb), sections 5 and 6.

# %% [markdown]
# ## 5. Workers: averaging over shards
#
# In **data-parallel training**, each worker has a copy of the weight and its own part of
# the data, a **shard**. In each step all workers compute a gradient, average them, and
# take the same step.
#
# **Predict first.** Worker 0 has the first two points of `noisy`, worker 1 the last
# two. At $w = 2$ their gradients are 8 and 22. They step at the learning rate 0.02.
# What are their two weights then?

# %% tags=["demo"]
guess_after = None  # two weights

# %% tags=["demo"]
step = descent.exchange(2, 0.02, [noisy[:2], noisy[2:]], gradient)
compare_guess(guess_after, f"{step.after:g} and {step.after:g}", "the weights")

# %% [markdown]
# The copies stay equal. One data-parallel step, on every worker:
#
# 1. Take your own part of the batch.
# 2. Compute the gradient of its mean loss at the shared weights.
# 3. Average the gradients of all workers (the all-reduce).
# 4. Update your copy of the weights with the average.
#
# **Question 2** (4 points)
#
# Write three functions:
#
# - `worker_gradient(w, data)`: one worker's gradient of one batch, by your `grad_multi` or
#   the course's, `descent.gradient(w, data)`;
# - `average_gradients(gradients)`: their mean. **Each worker counts the same**,
#   however large its batch, as in Horovod. If there are none, raise a `ValueError`;
# - `train_loop_distributed(w, lr, shards, iterations)`: returns the weight. Each worker
#   has one shard, a list of batches. In each iteration it takes its next batch, and starts
#   again after the last.

# %% nbgrader={"grade": false, "grade_id": "q02_distributed", "locked": false, "schema_version": 3, "solution": true, "task": false}
def worker_gradient(w, data):
    """Return one worker's gradient of one batch, at the weight w."""
    ### BEGIN SOLUTION
    return descent.gradient(w, data)
    ### END SOLUTION


def average_gradients(gradients):
    """Return the mean of the workers' gradients."""
    ### BEGIN SOLUTION
    if not gradients:
        raise ValueError("there are no gradients to average")
    return sum(gradients) / len(gradients)
    ### END SOLUTION


def train_loop_distributed(w, lr, shards, iterations):
    """Return the weight after `iterations` steps, one worker per shard."""
    ### BEGIN SOLUTION
    for i in range(iterations):
        own = [worker_gradient(w, s[i % len(s)]) for s in shards]
        w = w - lr * average_gradients(own)
    return w
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_distributed
#
# 1. Think of one step: every worker computes a gradient at the same weight; then
#    there is one average, and one update.
# 2. The average is plain: sum over count, whatever the batches' sizes. In
#    iteration i, each shard gives its batch number i modulo its own length.
#    Update w only after all workers have computed.
# 3. `own = [worker_gradient(w, shard[i % len(shard)]) for shard in shards]`

# %% nbgrader={"grade": true, "grade_id": "q02_distributed_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

shards = [[[(1, 1), (2, 2)], [(3, 3), (4, 4)]],
          [[(1, 0), (2, 1)], [(3, 1), (4, 6.25)]]]
value = train_loop_distributed(0, 0.001, shards, iterations=4)
assert math.isclose(value, 0.05893, abs_tol=5e-6), (
    f"train_loop_distributed returned {value} after 4 iterations, not 0.05893"
)
trio = [[[(1, 0)]], [[(2, 1), (1, 1)]], [[(1, 2)], [(1, 1)]]]
value = train_loop_distributed(1, 0.3, trio, iterations=3)
assert math.isclose(value, 0.758, rel_tol=1e-6), (
    f"three workers: 0.8, 0.58, 0.758, not {value}"
)
value = worker_gradient(2, [(1, 0), (2, 1), (3, 3)])
assert math.isclose(value, 34 / 3, rel_tol=1e-6), (
    f"the mean of 4, 12 and 18 is not {value}"
)
value = average_gradients([1, 2, 6])
assert math.isclose(value, 3), f"the mean of 1, 2 and 6 is not {value}"
cancel = [[[(1, 1)]], [[(1, -1)], [(1, 2)]]]  # no gradient at first
value = train_loop_distributed(0, 0.25, cancel, 2)
assert math.isclose(value, 0.75), f"opposite gradients: {value}, not 0.75"
value = train_loop_distributed(5, 0.1, shards, iterations=0)
assert math.isclose(value, 5), f"no iteration, and {value}, not 5"
uneven = [[[(1, 1)]], [[(1, 0)], [(1, 2)]]]  # one batch, and two
value = train_loop_distributed(0, 0.25, uneven, 3)
assert math.isclose(value, 0.6875), f"uneven shards: {value}, not 0.6875"
try:
    average_gradients([])
except ValueError:
    pass
else:
    raise AssertionError("no gradients should raise a ValueError")
### BEGIN HIDDEN TESTS
assert math.isclose(worker_gradient(2, [(1, 0), (2, 1)]), 8)
assert math.isclose(average_gradients([-7.5]), -7.5)
assert math.isclose(average_gradients([4, 4, 0, -2]), 1.5)
assert math.isclose(average_gradients([0, 0]), 0, abs_tol=1e-12)
one = [[[(1, 1)], [(2, 0)]]]  # one worker, whose batches come round again
value = train_loop_distributed(0, 0.1, one, 3)
assert math.isclose(value, 0.232, rel_tol=1e-6)
unequal = [[[(1, 1)]], [[(2, 3), (2, 3), (2, 3)]]]  # mean of -2 and -12
value = train_loop_distributed(0, 0.1, unequal, 1)
assert math.isclose(value, 0.7, rel_tol=1e-6)
several = [[[(1, 1)], [(2, 0), (1, 1)], [(1, 2)]], [[(1, 3)]], [[(1, 3)]],
        [[(1, 0)], [(2, 1)]]]  # three batches, one, one, and two
w, value = 0.3, train_loop_distributed(0.3, 0.1, several, 8)
for i in range(8):
    own = [shard[i % len(shard)] for shard in several]
    w += 0.05 * sum(x * (y - w * x) / len(b) for b in own for x, y in b)
assert math.isclose(value, w, rel_tol=1e-6)
value = train_loop_distributed(0, 1e-9, [[[(1, 2)]], [[(2, 6)]]], 4)
assert math.isclose(value, 56e-9, rel_tol=1e-5)
value = train_loop_distributed(0, 1000, 2 * [[[(0.01, 0.02)]]], 20)
assert math.isclose(value, 2 - 2 * 0.8**20, rel_tol=1e-5)
value = train_loop_distributed(0, 10, 2 * [[[(4, 4)]]], 4)
assert math.isclose(value, 1 - 319**4, rel_tol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# Averaging averages is right only for **equal batches**, and only if a point's
# gradient does not depend on the other points of its batch. Batch norm breaks the second
# condition ([1c](1c.Rings-and-Costs.ipynb), section 1).

# %% [markdown]
# ## 6. Two real ranks
#
# **Horovod** numbers its processes. The number is a process's **rank**, and the process
# is called a rank too. An **all-reduce** gives every rank the sum (or the mean) of all
# ranks' data; round a **ring** each rank sends only to the next, a part at a time.
#
# **Predict first.** Four ranks have 1000 numbers each, and every rank is to get the sum
# round a ring. How many numbers does each rank send, over all steps?

# %% tags=["demo"]
guess_sent = None  # how many numbers

# %% tags=["demo"]
states = ring.contributions(4)  # step, rank, chunk: how many ranks' data
arrived = (np.diff(states, axis=0) != 0).sum() / 4  # chunks per rank
compare_guess(guess_sent, arrived * 1000 / 4, "numbers sent by each rank")

# %% tags=["demo"]
plot.plot_ring(4)

# %% [markdown]
# Less than twice its data, **however many ranks**. You write such a ring in
# [1c](1c.Rings-and-Costs.ipynb), section 1.
#
# `average_gradients.py` trains our weight with Horovod, each of $N$ ranks on every
# $N$-th of the 64 points.

# %% tags=["demo"]
run = launch(
    "average_gradients.py", name="one weight", workers=workers, steps=20
)

# %% [markdown]
# Its averages must equal those of simulated workers, step by step. These compute with your
# `worker_gradient`, if it is right:

# %% tags=["demo"]
own = working(worker_gradient, descent.gradient, 1.5, noisy)
w, rows = 0.0, []
shards = [many[rank::workers].tolist() for rank in range(workers)]
for event in (e for e in run.events() if e["event"] == "step"):
    ours = descent.exchange(w, 0.02, shards, own)
    assert np.allclose(event["gradients"], ours.gradients)
    assert math.isclose(event["average"], ours.average, rel_tol=1e-9)
    rows.append({"step": event["step"], "Horovod": event["average"],
                 "by hand": ours.average})
    w = ours.after
assert np.allclose(run.result["weights"], w), "the ranks' weights differ"
pd.DataFrame(rows).head()

# %% [markdown]
# Separate processes did what you computed by hand. What an average costs is in
# [1c](1c.Rings-and-Costs.ipynb), section 2.
#
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - **Batches and workers average the same gradients**, if batches are equal.
# - A batch $B$ times as large allows up to $B$ times the learning rate with SGD
#   ([1b](1b.Gradients-in-Depth.ipynb), section 6), and **only parallel hardware saves
#   time**: a GPU's cores, or workers.
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
