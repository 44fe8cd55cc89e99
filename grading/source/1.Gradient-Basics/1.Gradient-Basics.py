# %% [markdown]
# # 1. Gradient basics
#
# **Why does averaging gradients speed up training?**
#
# | | |
# | --- | --- |
# | time | 90 minutes; the one launched run takes ten seconds |
# | hardware | two cores |
# | before this | [Start_Here](../Start_Here.ipynb); school calculus; Python |
#
# You train the smallest model there is, one weight, by hand. Then you
# average: over points, over batches, over workers, round a ring, and at the
# end on two real Horovod ranks, whose numbers must equal yours.

# %% [markdown]
# ## How this lesson works
#
# - **Questions** are numbered, with their points. Write code where it says
#   `YOUR CODE HERE` and words where it says `YOUR ANSWER HERE`. The cell after
#   your code has tests: no error means passed. There are further tests that you
#   don't see.
# - **Predict first**: put your guess into a `guess` cell before you run on. It
#   is shown beside what came out, and it is not marked.
# - Cells that draw do not need your answers, so you can look ahead.
# - `check()` at the end says which questions pass so far.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2

# %%
import math

import numpy as np

# Points (x, y). The lesson's model predicts y = m * x.
easy = [(1, 1), (2, 2), (3, 3), (4, 4)]
noisy = [(1, 0), (2, 1), (3, 1), (4, 6.25)]

# %% tags=["demo"]
import pandas as pd

import ddl
from ddl import beside, descent, launch, plot, ring

draws = {"reader": 2000, "smoke": 200}[size]
many = descent.generated(64)  # 64 points around y = x, with noise
sizes = [1, 2, 4, 8, 16, 32, 64]
print("ddl", ddl.__version__)

# %% [markdown]
# ## 1. A model of one weight, and its loss
#
# The model is a line through the origin: $y_\text{pred} = m x$. There is one
# weight, $m$, to learn. The first data set has four points, `easy` above. Which
# $m$ predicts it best?

# %% [markdown] nbgrader={"grade": false, "grade_id": "q01_best_weight_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 1** (1 point)
#
# The best weight for `easy` is $m = 1$. How can you see that from the four
# points alone, without any further mathematics?
#
# === BEGIN MARK SCHEME ===
# 1 point: says that y equals x at every point, so that m = 1 predicts all four
# exactly (no error can be smaller than none). Half a point for "it fits"
# without a reason.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q01_best_weight", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# At each of the four points y is equal to x. With m = 1 the model predicts
# y = x, so it is right at all four; and being right everywhere cannot be beaten.
# ### END SOLUTION

# %% [markdown]
# Usually no weight is right everywhere. So we choose a number that says how
# wrong a weight is, the **loss**, and look for the weight with the lowest. Ours
# is the mean squared error over the $N$ points:
#
# $$\text{loss}(m) = \frac{1}{N}\sum_{i=1}^{N} (y_i - m x_i)^2
# = \sum_{i=1}^{N} \underbrace{\frac{(y_i - m x_i)^2}{N}}_{\text{point } i}$$
#
# So the loss is a sum of parts, one for each point. Everything below rests on
# that.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q02_never_negative_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 2** (1 point)
#
# Can the loss be negative, or one point's part of it? Say why or why not, and
# whether that makes sense for a number that measures how wrong a model is.
#
# === BEGIN MARK SCHEME ===
# Half a point: a square of a real number is never negative; N is positive, so
# neither are the parts, nor their sum. Half a point: sense of it, such as
# "0 means right everywhere, and nothing is better than that".
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q02_never_negative", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# No. Each part is a square divided by the positive number N, so it is 0 or
# more, and so is the sum of them. That makes sense: 0 means that all predictions
# are right, and there is no way to be better than right.
# ### END SOLUTION

# %% [markdown]
# **Predict first.** At $m = 2$ the model is twice too steep for `easy`. Which
# share of the loss comes from the point with $x = 4$ alone, in percent?

# %% tags=["demo"]
guess_share = None  # a number of percent

# %% tags=["demo"]
last = descent.loss(2, easy[3:]) / 4
share = 100 * last / descent.loss(2, easy)
beside(guess_share, share, "share of the point x = 4, in percent")

# %% [markdown]
# Squares weigh large errors more than small ones. Keep that in mind for
# section 4.
#
# **Question 3** (2 points)
#
# Compute by hand, for $m = 2$ and the four points of `easy` in their order
# ($N = 4$):
#
# - `table_ypred`: a list of the four predictions;
# - `table_loss_point`: a list of each point's part of the loss;
# - `table_loss_mse`: the loss, one number.

# %% nbgrader={"grade": false, "grade_id": "q03_table", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
# table_ypred = [?, ?, ?, ?]
# table_loss_point = [?, ?, ?, ?]
# table_loss_mse = ?
### BEGIN SOLUTION
table_ypred = [2, 4, 6, 8]
table_loss_point = [0.25, 1, 2.25, 4]
table_loss_mse = 7.5
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q03_table_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

assert len(table_ypred) == 4, "table_ypred needs four numbers"
assert len(table_loss_point) == 4, "table_loss_point needs four numbers"
assert math.isclose(sum(table_loss_point), table_loss_mse), (
    "the loss should be the sum of the four points' parts"
)
### BEGIN HIDDEN TESTS
assert not isinstance(table_ypred, set), "a set has no order"
assert not isinstance(table_loss_point, set), "a set has no order"
for given, right in zip(table_ypred, [2, 4, 6, 8], strict=True):
    assert math.isclose(given, right)
for given, right in zip(table_loss_point, [0.25, 1, 2.25, 4], strict=True):
    assert math.isclose(given, right)
assert math.isclose(table_loss_mse, 7.5)
### END HIDDEN TESTS

# %% [markdown]
# **Question 4** (2 points)
#
# Write `loss_mse(m, dataset)`. It takes a weight and a list of points
# `[(x, y), ...]`, and returns the loss, a float. The mean of no points means
# nothing: for an empty list, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q04_loss_mse", "locked": false, "schema_version": 3, "solution": true, "task": false}
def loss_mse(m, dataset):
    """Return the mean squared error of m * x over the points (x, y)."""
    ### BEGIN SOLUTION
    if not dataset:
        raise ValueError("the loss of an empty data set is not defined")
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q04_loss_mse_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

points = [(1, 1), (2, 2), (3, 3), (4, 4)]
value = loss_mse(2, points)
assert math.isclose(value, 7.5), f"loss_mse(2, easy) is {value}, not 7.5"
value = loss_mse(1, points)
assert math.isclose(value, 0, abs_tol=1e-12), f"at m = 1 it is {value}"
### BEGIN HIDDEN TESTS
other = [(1, 0), (2, 1), (3, 1), (4, 6.25)]
assert math.isclose(loss_mse(1, other), 2.765625)
assert math.isclose(loss_mse(-0.5, [(3, 2)]), 12.25)
assert math.isclose(loss_mse(0.5, [(0, 1), (-2, -4)]), 5)
small = [(1, -0.02), (1, 0), (1, -0.02)]  # one point twice
assert math.isclose(loss_mse(0, small), 0.0008 / 3, rel_tol=1e-6)
try:
    loss_mse(1, [])
except ValueError:
    pass
else:
    raise AssertionError("an empty data set should be a ValueError")
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The gradient
#
# Which way is down? The slope of the loss tells: where it is positive, a smaller
# $m$ has a lower loss. With many weights there is a slope for each, and all of
# them together are the **gradient**. Here it is one number. By the chain rule,
# for one point's part,
#
# $$\frac{\partial}{\partial m}\,\frac{(y - m x)^2}{N}
# = \frac{-2x\,(y - m x)}{N}.$$
#
# **Predict first.** The loss of `easy` is lowest at $m = 1$. At $m = 2$ its
# gradient is 15. What is it at $m = 1.5$?

# %% tags=["demo"]
guess_gradient = None  # a number

# %% tags=["demo"]
beside(guess_gradient, descent.gradient(1.5, easy), "gradient at m = 1.5")

# %% [markdown]
# Half the distance, half the gradient: the loss is a parabola, and the slope of
# a parabola is a straight line in $m$.
#
# **Question 5** (3 points)
#
# Write two functions:
#
# - `grad_point(m, data, N)`: the gradient of one point's part. `data` is one
#   pair `(x, y)`, and `N` the number that the loss divides by.
# - `grad_multi(m, data)`: the gradient of the whole loss. `data` is a list of
#   pairs. An empty list is a `ValueError`, as before.

# %% nbgrader={"grade": false, "grade_id": "q05_gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
def grad_point(m, data, N):
    """Return the slope of (y - m * x) ** 2 / N for one point (x, y)."""
    ### BEGIN SOLUTION
    x, y = data
    return -2 * x * (y - m * x) / N
    ### END SOLUTION


def grad_multi(m, data):
    """Return the slope of the loss over a list of points (x, y)."""
    ### BEGIN SOLUTION
    if not data:
        raise ValueError("the gradient of an empty data set is not defined")
    return sum(grad_point(m, point, len(data)) for point in data)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q05_gradients_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

for point, right in [((1, 1), 0.5), ((2, 2), 2.0)]:
    value = grad_point(m=2, data=point, N=4)
    assert math.isclose(value, right), f"at {point}: {value}, not {right}"
value = grad_multi(m=2, data=[(1, 1), (2, 2), (3, 3), (4, 4)])
assert math.isclose(value, 15), f"over the four points: {value}, not 15"
### BEGIN HIDDEN TESTS
assert math.isclose(grad_point(m=2, data=(4, 6.25), N=1), 14)
assert math.isclose(grad_point(m=-1, data=(-3, 2), N=2), -3)
assert math.isclose(grad_point(m=0.5, data=(2, -4), N=4), 5)
assert math.isclose(grad_multi(m=0, data=[(2, 3)]), -12)
assert math.isclose(grad_multi(m=1, data=[(1, 1), (2, 3)]), -2)
assert math.isclose(grad_point(m=3, data=(0, 5), N=1), 0, abs_tol=1e-12)
small = [(-0.1, 0), (0.3, 0.1), (0.3, 0.1)]  # one point twice
assert math.isclose(grad_multi(m=2, data=small), 0.64 / 3, rel_tol=1e-6)
try:
    grad_multi(m=1, data=[])
except ValueError:
    pass
else:
    raise AssertionError("an empty data set should be a ValueError")
### END HIDDEN TESTS

# %% [markdown] nbgrader={"grade": false, "grade_id": "q05_sum_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 5, in words** (1 point)
#
# May `grad_multi` be written by calling `grad_point` for each point and adding
# up? Which rule of calculus allows it, or forbids it?
#
# === BEGIN MARK SCHEME ===
# 1 point: yes, because the loss is a sum of the points' parts, and the
# derivative of a sum is the sum of the derivatives (each with the same N). Half
# a point without the rule. Accept "differentiation is linear".
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q05_sum", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# Yes. The loss is the sum of the points' parts, and the derivative of a sum is
# the sum of the derivatives. Each part has to be divided by the same N, the
# number of points in the list.
# ### END SOLUTION

# %% [markdown]
# ## 3. Gradient descent
#
# Take a step against the gradient, again and again:
#
# $$m \leftarrow m - \text{lr} \cdot \text{gradient}$$
#
# The **learning rate** lr says how long a step is. Where the slope is steep the
# step is long; near the minimum, where it is flat, it is short.
#
# **Question 6** (3 points)
#
# Write `train_loop(m, lr, dataset, iterations)`, which returns the weight after
# so many iterations. An iteration takes **one** point, computes its gradient
# with $N = 1$, and steps. The points come in order, and from the first again
# after the last. No iterations leave `m` as it was; with an empty `dataset`
# there is nothing to train on: a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q06_train_loop", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_loop(m, lr, dataset, iterations):
    """Return the weight after so many steps, a point each, in turn."""
    ### BEGIN SOLUTION
    if not dataset:
        raise ValueError("there are no points to train on")
    for iteration in range(iterations):
        point = dataset[iteration % len(dataset)]
        m = m - lr * grad_point(m, point, 1)
    return m
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q06_train_loop_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

four = [(1, 1), (2, 2), (3, 3), (4, 4)]
cases = [([(1, 1)], 1, 0.002), ([(1, 1)], 100, 0.18143),
         (four, 4, 0.05891), (four, 100, 0.78086)]
for points, count, right in cases:
    value = train_loop(m=0, lr=0.001, dataset=points, iterations=count)
    assert math.isclose(value, right, abs_tol=5e-6), (
        f"{count} iterations on {points}: {value}, not {right}"
    )
### BEGIN HIDDEN TESTS
value = train_loop(m=0, lr=0.1, dataset=[(1, 1), (2, 0)], iterations=3)
assert math.isclose(value, 0.232, rel_tol=1e-6)  # the first point again
m, mixed = 0.3, [(2, 0), (1, 1), (2, 0), (0, 1), (0.5, -3), (-1, 2)]
value = train_loop(m, 0.1, mixed, 8)
for x, y in mixed + mixed[:2]:
    m += 0.2 * x * (y - m * x)
assert math.isclose(value, m, rel_tol=1e-6)
# No gradient, small ones and huge ones: it goes on.
assert math.isclose(train_loop(0, 0.25, [(1, 0), (1, 2)], 4), 1.25)
value = train_loop(0, 1000, [(0.01, 0.02)], 20)
assert math.isclose(value, 2 - 2 * 0.8**20, rel_tol=1e-5)
value = train_loop(0, 10, [(1, 1), (2, 2), (3, 3), (4, 4)], 4)
assert math.isclose(value, 1 - 19 * 79 * 179 * 319, rel_tol=1e-6)
assert math.isclose(train_loop(3, 0.1, [(1, 5)], 0), 3)
assert math.isclose(train_loop(-1, 0.25, [(1, 1)], 2), 0.5)
try:
    train_loop(m=0, lr=0.1, dataset=[], iterations=5)
except ValueError:
    pass
else:
    raise AssertionError("an empty data set should be a ValueError")
### END HIDDEN TESTS

# %% [markdown]
# Look at it. In the next picture every step takes all four points of `easy`,
# so that the steps lie on the loss curve.
#
# **Predict first.** The curve is a parabola. At a small learning rate the steps
# creep down one side. As it grows they jump across, and at some rate they climb
# out. At which learning rate does that begin?

# %% tags=["demo"]
guess_limit = None  # a learning rate

# %% tags=["demo"]
plot.slider(
    lambda lr: plot.plot_descent(easy, lr), "lr", 0.002, 0.2, start=0.02
)

# %% tags=["demo"]
beside(guess_limit, descent.rate_limit(easy), "learning rate, diverges from")

# %% [markdown]
# Why there? With $\text{loss}'(m) = 2\,\overline{x^2}\,(m - m^*)$, a step
# multiplies the distance to the best weight $m^*$ by the same number every time:
#
# $$m - m^* \;\to\; (1 - 2\,\text{lr}\,\overline{x^2})\,(m - m^*).$$
#
# That factor stands over the right panel. Between 0 and 1 the steps creep,
# between −1 and 0 they jump across and still get closer. Beyond −1, from
# $\text{lr} = 1/\overline{x^2}$ on, every jump is longer than the one before:
# training **diverges**.
#
# The same holds point by point. Training that takes one point at a time
# multiplies the distance by $1 - 2\,\text{lr}\,x^2$ in each step, with the
# $x$ of that step.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q07_tiny_rate_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 7** (1 point)
#
# Run `train_loop(0, 1e-9, [(1, 2), (2, 6), (3, 7), (4, 4)], 4)` in a cell of
# your own. What happens when the learning rate is far too low? Describe it, and
# say what it costs in practice.
#
# === BEGIN MARK SCHEME ===
# Half a point: the weight hardly moves from 0 (about 1e-7): each step is lr
# times the gradient. Half a point: it is going the right way but would need a
# huge number of iterations, so time or compute is wasted.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q07_tiny_rate", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# The weight ends at about 1e-7: it hardly moved. Every step has the right
# direction, but its length is the gradient times 1e-9. It would take hundreds of
# millions of steps to arrive. Nothing fails; the time is wasted.
# ### END SOLUTION

# %% [markdown] nbgrader={"grade": false, "grade_id": "q08_huge_rate_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 8** (2 points)
#
# Run `train_loop(0, 10, [(1, 1), (2, 2), (3, 3), (4, 4)], 4)` in a cell of your
# own. What happens when the learning rate is far too high? Describe the weights
# on the way, and use the factor $1 - 2\,\text{lr}\,x^2$ to say why.
#
# === BEGIN MARK SCHEME ===
# 1 point: every step jumps over the best weight and lands farther away, on the
# other side; about -86 million after four steps. 1 point: the factors are -19,
# -79, -179, -319; their size is over 1, so distances grow.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q08_huge_rate", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# The weight explodes: 20, −1500, about 269,000, about −86 million. Each step
# points the right way but jumps over the best weight and lands farther out on
# the other side. The factors are 1 − 20x²: −19, −79, −179, −319. Their sizes are
# all over 1, so the distance to the best weight grows in every step.
# ### END SOLUTION

# %% [markdown]
# ## 4. Noise
#
# The points of `noisy` lie around the same line, and its best weight is still
# exactly 1. But no weight is right everywhere any more, so each point pulls the
# weight its own way.
#
# **Predict first.** At learning rate 0.128, single-point training on `easy`
# ends at 1. Where does it end on `noisy`?

# %% tags=["demo"]
guess_noisy = None  # a weight, or "diverges"

# %% tags=["demo"]
singles = descent.batches_of(noisy, 1)
ends = descent.descend(0, 0.128, singles, 1000)[-1]
beside(guess_noisy, ends, "weight after 1000 steps on `noisy`")

# %% [markdown] nbgrader={"grade": false, "grade_id": "q09_rates_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 9** (2 points)
#
# With your own `train_loop`, train on `noisy` from $m = 0$ for 1000 iterations
# with the learning rates 0.001, 0.002, 0.004, and so on, doubling up to 0.256.
# Which diverge? Which end at the best weight, 1, or very near it? What do those
# in between do? Try to say why.
#
# === BEGIN MARK SCHEME ===
# Half a point: only 0.256 diverges. Half a point: the lowest (0.001 to about
# 0.004) end within a few percent of 1. 1 point: those in between end at a fixed
# wrong weight (0.016: 1.23; 0.128: 5.68), because single points pull
# differently, the last one most recently. Don't accept that labels cause the
# divergence.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q09_rates", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# Only 0.256 diverges. 0.001, 0.002 and 0.004 end at 1.01 to 1.05. In between,
# training settles, but aside: 1.10, 1.23, 1.58, 3.04, 5.68. There the weight
# goes round in a cycle: each point pulls it towards its own best weight, the
# longer the step the farther, and we look after the pull of the last point,
# (4, 6.25).
# ### END SOLUTION

# %% tags=["demo"]
plot.plot_training({"easy": easy, "noisy": noisy}, lr=0.016)

# %% [markdown]
# The two data sets have the same $x$ and different $y$. Both trainings arrive
# equally fast. `easy` comes to rest; `noisy` goes round in a **limit cycle** and
# never rests. Is noise what makes training diverge, then? Compute it: over a
# pass, the distance from the cycle is multiplied by
#
# $$\prod_i \left(1 - 2\,\text{lr}\,x_i^2\right),$$
#
# and there is no $y$ in it.

# %% tags=["demo"]
rates = [0.001 * 2**k for k in range(9)]
table = {"learning rate": rates}
for name, data in (("easy", easy), ("noisy", noisy)):
    singles = descent.batches_of(data, 1)
    factors = [descent.pass_factor(lr, singles) for lr in rates]
    table[f"{name}: factor per pass"] = factors
    table[f"{name}: ends at"] = [
        descent.cycle(lr, singles)[-1] if abs(f) < 1 else math.inf
        for lr, f in zip(rates, factors)
    ]
pd.DataFrame(table).round(3)

# %% [markdown]
# The factors agree, row by row: **what diverges is set by the $x$ alone**, and
# labels, however noisy, change nothing about it. What the labels set is **where
# training settles**: the higher the rate, the farther aside. The rows near the
# end still *settle*, only nowhere useful.
#
# So noise does limit the learning rate, long before divergence does. Make the
# noise smaller, and a higher rate becomes usable. That is what averaging does.

# %% [markdown]
# ## 5. Batches: averaging over points
#
# Instead of stepping after every point, take the gradients of several points at
# one and the same weight, average them, and take one step. Those points are a
# **batch**.
#
# **Question 10** (2 points)
#
# By hand or by code, at $m = 2$ for the four points of `noisy`:
#
# - `table_grad_point`: a list of `grad_point` of each point, with $N = 1$;
# - `table_grad_multi`: a list of `grad_multi` of two batches, the first two
#   points and the last two.

# %% nbgrader={"grade": false, "grade_id": "q10_table", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
# table_grad_point = [?, ?, ?, ?]
# table_grad_multi = [?, ?]
### BEGIN SOLUTION
table_grad_point = [4, 12, 30, 14]
table_grad_multi = [8, 22]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q10_table_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

assert len(table_grad_point) == 4, "table_grad_point needs four numbers"
assert len(table_grad_multi) == 2, "table_grad_multi needs two numbers"
means = [sum(table_grad_point[i : i + 2]) / 2 for i in (0, 2)]
for given, right in zip(table_grad_multi, means):
    assert math.isclose(given, right), (
        "a batch's gradient should be the mean of its points' gradients"
    )
### BEGIN HIDDEN TESTS
assert not isinstance(table_grad_point, set), "a set has no order"
assert not isinstance(table_grad_multi, set), "a set has no order"
for given, right in zip(table_grad_point, [4, 12, 30, 14], strict=True):
    assert math.isclose(given, right)
for given, right in zip(table_grad_multi, [8, 22], strict=True):
    assert math.isclose(given, right)
### END HIDDEN TESTS

# %% [markdown] nbgrader={"grade": false, "grade_id": "q10_scale_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 10, in words** (1 point)
#
# How many times larger is the largest gradient than the smallest, in the first
# list and in the second? What did averaging do, and what did it leave as it was?
#
# === BEGIN MARK SCHEME ===
# Half a point: 30/4 = 7.5 against 22/8 = 2.75. Half a point: averaging brings
# gradients closer together (less noise), while their mean, the gradient of the
# whole data set (15), stays. Accept any clear words for one of the two effects
# if the numbers are right.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q10_scale", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# 7.5 times (30 against 4), and 2.75 times (22 against 8). Averaging pulled the
# gradients together: a large and a small one partly cancel. Their mean stayed:
# 15, the gradient of all four points.
# ### END SOLUTION

# %% tags=["demo"]
plot.plot_average(many, m=1.5, sizes=sizes)

# %% [markdown]
# The same with 64 generated points: batch gradients crowd around the gradient of
# all points. How fast?
#
# **Predict first.** Draw batches of 16 points at random. How many times narrower
# is the spread (the standard deviation) of their gradients than that of single
# points?

# %% tags=["demo"]
guess_narrower = None  # a number of times

# %% tags=["demo"]
one, sixteen = (
    descent.batch_gradients(1.5, many, count, draws).std()
    for count in (1, 16)
)
beside(guess_narrower, one / sixteen, "times narrower, measured")

# %% tags=["demo"]
plot.plot_spread(many, m=1.5, sizes=sizes, draws=draws)

# %% [markdown]
# Sixteen points, about a quarter of the spread: averaging $B$ independent
# gradients divides the spread by $\sqrt{B}$. Half the noise costs four times the
# points.
#
# Without replacement, as an epoch deals its points out, the spread falls faster
# still, by $\sqrt{(n-B)/(n-1)}$, and a batch of all $n$ points has none. While
# batches are small against the data set, the two are alike.

# %% [markdown]
# **Question 11** (2 points)
#
# Write `train_loop_batches(m, lr, dataset, iterations)`. It is `train_loop`, but
# `dataset` is now a list of **batches**, each a list of points. An iteration
# takes the next batch and steps once, along the gradient of the batch. After the
# last batch comes the first again. Batches may differ in size. No batches at all
# are a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q11_train_loop_batches", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_loop_batches(m, lr, dataset, iterations):
    """Return the weight after so many steps, a batch each, in turn."""
    ### BEGIN SOLUTION
    if not dataset:
        raise ValueError("there are no batches to train on")
    for iteration in range(iterations):
        m = m - lr * grad_multi(m, dataset[iteration % len(dataset)])
    return m
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q11_train_loop_batches_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

pairs = [[(1, 0), (2, 1)], [(3, 1), (4, 6.25)]]
for count, right in [(2, 0.02995), (20, 0.26228)]:
    value = train_loop_batches(0, lr=0.001, dataset=pairs, iterations=count)
    assert math.isclose(value, right, abs_tol=5e-6), (
        f"after {count} iterations: {value}, not {right}"
    )
### BEGIN HIDDEN TESTS
batches = [[(1, 1)], [(2, 0), (0, 5), (1, 3)], [(1, 1)], [(2, 1), (-1, 1)]]
m, value = 0.3, train_loop_batches(0.3, lr=0.1, dataset=batches, iterations=6)
for batch in batches + batches[:2]:
    m += 0.2 * sum(x * (y - m * x) for x, y in batch) / len(batch)
assert math.isclose(value, m, rel_tol=1e-6)
still = [[(1, 1), (1, -1)], [(1, 2)]]  # the first has no gradient at 0
assert math.isclose(train_loop_batches(0, 0.25, still, 3), 0.5)
value = train_loop_batches(0, 1e-9, [[(1, 2), (2, 6)]], 4)
assert math.isclose(value, 56e-9, rel_tol=1e-5)
value = train_loop_batches(0, 1000, [[(0.01, 0.02)]], 20)
assert math.isclose(value, 2 - 2 * 0.8**20, rel_tol=1e-5)
value = train_loop_batches(0, 10, [[(4, 4)]], 4)
assert math.isclose(value, 1 - 319**4, rel_tol=1e-6)
assert math.isclose(train_loop_batches(7, 0.1, batches, 0), 7)
assert math.isclose(train_loop_batches(0, 0.5, [[(1, 4)]], 3), 4)
try:
    train_loop_batches(0, 0.1, [], 3)
except ValueError:
    pass
else:
    raise AssertionError("no batches should be a ValueError")
### END HIDDEN TESTS

# %% [markdown]
# What do larger batches buy? The map below computes, for each learning rate and
# batch size, where training on the 64 points ends.
#
# **Predict first.** Single points diverge from some learning rate on. Batches of
# 64 diverge from how many times that rate on?

# %% tags=["demo"]
guess_times = None  # a number of times

# %% tags=["demo"]
def highest(size):
    batches = descent.batches_of(many, size)
    ends = [r for r in np.geomspace(0.01, 1, 2000)
            if abs(descent.pass_factor(r, batches)) < 1]
    return max(ends)


beside(guess_times, highest(64) / highest(1), "times the learning rate")

# %% tags=["demo"]
plot.plot_map(many, sizes)

# %% [markdown]
# - The border to **diverges** hardly moves with the batch size; it may even come
#   closer. It is set by the $x$, and averaging does not change those.
# - The border to **converges** runs along the dashed line: twice the batch,
#   twice the learning rate, equally far from the best weight. A batch of $B$ at
#   rate $B\,\text{lr}$ does in one step about what $B$ points did in $B$.
#
# That is why averaging speeds training up: not because higher rates become
# *possible*, but because they become *usable*. Goyal et al. (2017) call the
# dashed line the **linear scaling rule**, and on the map you see it end, at the
# other border.

# %% [markdown]
# ## 6. What ends linear scaling
#
# Often memory is blamed: a larger batch does not fit. But memory only limits
# what is computed *at once* (section 8). What ends the rule is that noise has
# been averaged away. Once it is small against the gradient, the curvature of the
# loss limits the step, and averaging more changes nothing.
#
# The **gradient noise scale** says when: the variance of single-point gradients
# over the squared gradient. McCandlish et al. (2018, equation 2.6) give the best
# learning rate for a single step, $1/(1 + \text{noise scale}/B)$ of the best
# without noise.
#
# **Predict first.** Far from the minimum, at $m = 0$, the batch grows from 16 to
# 256. How many times larger is the best learning rate?

# %% tags=["demo"]
guess_best = None  # a number of times

# %% tags=["demo"]
b16, b256 = (descent.best_rate(0, many, count) for count in (16, 256))
beside(guess_best, b256 / b16, "times the learning rate, tried")

# %% tags=["demo"]
plot.plot_best_rate(many, weights=(0, 1.5, 1.15), sizes=(1, 4, 16, 64, 256))

# %% [markdown]
# Far from the minimum all points agree, the noise scale is below 1, and hardly
# any batch is worth it. Near the minimum the gradient shrinks while the points
# go on disagreeing. The noise scale is large, and the best rate grows in
# proportion to the batch, until the batch reaches the noise scale. Beyond it, a
# larger batch costs more and brings little.
#
# In this model one number does it all. In a network noise and curvature differ
# by direction, and the noise scale is an estimate. Lesson 4 measures it.

# %% [markdown]
# ## 7. Workers: averaging over shards
#
# **Data-parallel training**: each worker has a copy of the weight and its own
# part of the data, a **shard**. In each step every worker computes the gradient
# of a batch of its own; the workers average their gradients; each takes the same
# step. So the copies stay equal.
#
# **Question 12** (4 points)
#
# Write three functions:
#
# - `worker_gradient(m, data)`: one worker's gradient of one batch;
# - `average_gradients(gradients)`: the mean of the workers' gradients. **Each
#   worker counts the same**, however large its batch: so does Horovod. No
#   gradients are a `ValueError`;
# - `train_loop_distributed(m, lr, shards, iterations)`: returns the weight. A
#   shard is a list of batches; there is a worker for each shard, and each goes
#   through its own batches in turn, from its first again after its last.

# %% nbgrader={"grade": false, "grade_id": "q12_distributed", "locked": false, "schema_version": 3, "solution": true, "task": false}
def worker_gradient(m, data):
    """Return one worker's gradient at the weight m, of one batch."""
    ### BEGIN SOLUTION
    return grad_multi(m, data)
    ### END SOLUTION


def average_gradients(gradients):
    """Return the mean of the workers' gradients."""
    ### BEGIN SOLUTION
    if not gradients:
        raise ValueError("there are no gradients to average")
    return sum(gradients) / len(gradients)
    ### END SOLUTION


def train_loop_distributed(m, lr, shards, iterations):
    """Return the weight after so many steps of one worker a shard."""
    ### BEGIN SOLUTION
    for i in range(iterations):
        own = [worker_gradient(m, s[i % len(s)]) for s in shards]
        m = m - lr * average_gradients(own)
    return m
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q12_distributed_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

shards = [[[(1, 1), (2, 2)], [(3, 3), (4, 4)]],
          [[(1, 0), (2, 1)], [(3, 1), (4, 6.25)]]]
value = train_loop_distributed(0, 0.001, shards, iterations=4)
assert math.isclose(value, 0.05893, abs_tol=5e-6), f"{value}, not 0.05893"
value = average_gradients([1, 2, 6])
assert math.isclose(value, 3), f"the mean of 1, 2 and 6 is not {value}"
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
uneven = [[[(1, 1)]], [[(1, 0)], [(1, 2)]]]  # one batch, and two
assert math.isclose(train_loop_distributed(0, 0.25, uneven, 3), 0.6875)
several = [[[(1, 1)], [(2, 0), (1, 1)], [(1, 2)]], [[(1, 3)]], [[(1, 3)]],
        [[(1, 0)], [(2, 1)]]]  # three batches, one, one, and two
m, value = 0.3, train_loop_distributed(0.3, 0.1, several, 8)
for i in range(8):
    own = [shard[i % len(shard)] for shard in several]
    m += 0.05 * sum(x * (y - m * x) / len(b) for b in own for x, y in b)
assert math.isclose(value, m, rel_tol=1e-6)
cancel = [[[(1, 1)]], [[(1, -1)], [(1, 2)]]]  # no gradient at first
assert math.isclose(train_loop_distributed(0, 0.25, cancel, 2), 0.75)
value = train_loop_distributed(0, 1e-9, [[[(1, 2)]], [[(2, 6)]]], 4)
assert math.isclose(value, 56e-9, rel_tol=1e-5)
value = train_loop_distributed(0, 1000, 2 * [[[(0.01, 0.02)]]], 20)
assert math.isclose(value, 2 - 2 * 0.8**20, rel_tol=1e-5)
value = train_loop_distributed(0, 10, 2 * [[[(4, 4)]]], 4)
assert math.isclose(value, 1 - 319**4, rel_tol=1e-6)
assert math.isclose(train_loop_distributed(5, 0.1, shards, 0), 5)
try:
    average_gradients([])
except ValueError:
    pass
else:
    raise AssertionError("no gradients should be a ValueError")
### END HIDDEN TESTS

# %% [markdown]
# Step by step, with two workers: worker 0 has the first two points of `noisy`,
# worker 1 the last two. Each row is one step.

# %% tags=["demo"]
m, exchanges = 0.0, []
for _ in range(5):
    exchanges.append(descent.exchange(m, 0.02, [noisy[:2], noisy[2:]]))
    m = exchanges[-1].after

own = pd.DataFrame([e.gradients for e in exchanges]).add_prefix("worker ")
rest = pd.DataFrame(exchanges)[["m", "average", "after"]]
own.join(rest).round(4)

# %% tags=["demo"]
plot.plot_exchange(exchanges)

# %% [markdown]
# **Predict first.** Is that the same training as one worker with all four points
# in a batch? And if worker 0 has one point and worker 1 has three?

# %% tags=["demo"]
guess_same = None  # "both the same", "only the first", or "neither"

# %% tags=["demo"]
def gap(cut):
    """How far one step differs from that of one worker with all points."""
    together = descent.exchange(0, 0.02, [noisy]).after
    apart = descent.exchange(0, 0.02, [noisy[:cut], noisy[cut:]]).after
    return abs(apart - together)


came = f"2 + 2 points: {gap(2):.3g} apart · 1 + 3 points: {gap(1):.3g} apart"
beside(guess_same, came, "the same step as one worker?")

# %% [markdown] nbgrader={"grade": false, "grade_id": "q12_same_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 12, in words** (2 points)
#
# Train the shards of the test above with `train_loop_distributed`, and their
# points with `train_loop_batches`, where each batch has the points of both
# workers' batches together. Why are the results equal? When would they not be?
#
# === BEGIN MARK SCHEME ===
# 1 point: the mean of equally many means is the mean of all points: each point
# is divided by 2 and by 2 again, instead of by 4; so every step is equal. 1
# point: only if the workers' batches have equal sizes; otherwise a point in a
# small batch counts more (example: one point against three).
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q12_same", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# Each worker divides by its 2 points, and the average divides by 2 workers:
# every point counts a quarter, exactly as in a batch of four. So each step is
# equal, and with it the weight. With unequal batches a point counts
# 1/(workers × its worker's batch): those in small batches count more, and the
# results differ.
# ### END SOLUTION

# %% [markdown]
# Averages of averages are right for **equal** shards only. Real data rarely
# divide evenly, so trainers drop the rest, pad it, or weigh it. The course's own
# script drops it.
#
# ## 8. Gradient aggregation: averaging over time
#
# One worker can also average over several batches before it steps. Memory then
# holds one small batch at a time, and the step is that of the large one. So **a
# batch larger than memory is trained by aggregation**. With several workers it
# saves messages too: one all-reduce for $k$ batches.
#
# **Predict first.** Memory holds 8 of the 64 points. Twenty steps of all 64, in
# 8 passes each: how far does the weight end from that of a machine that holds
# them all?

# %% tags=["demo"]
guess_apart = None  # a difference in weight

# %% tags=["demo"]
m, passes = 0.0, descent.batches_of(many, 8)
for step in range(20):
    total = sum(descent.gradient(m, part) for part in passes)
    m = m - 0.02 * total / len(passes)

whole = descent.descend(0, 0.02, [many], 20)[-1]
beside(guess_apart, abs(m - whole), "distance between the two weights")

# %% [markdown]
# Nothing but rounding: it is section 7 with time in place of workers, and equal
# parts again. In Horovod it is `backward_passes_per_step`; in `train_cifar.py`,
# `--backward-passes-per-step`. What it does not save is time: the 8 passes are
# computed one after another.
#
# ## 9. The ring: averaging without a boss
#
# Who computes the average? If all send to one worker, that one drowns: with $N$
# workers it receives $N - 1$ times the gradient. Horovod uses a **ring**. Each
# rank sends to the next one only, and the last to the first. The gradient is cut
# into $N$ chunks:
#
# 1. **reduce-scatter**, $N - 1$ steps: each rank sends one chunk, and *adds* the
#    one that arrives to its own;
# 2. **all-gather**, $N - 1$ steps: each rank sends one chunk, and *keeps* the
#    one that arrives.
#
# ![Left: three ranks send whole gradients to rank 0, which sends the average
# back. Right: four ranks in a ring, each sending a quarter to the next in each
# of six steps.](../images/ring.svg)

# %% [markdown]
# **Predict first.** Four ranks have 1000 numbers each, and want the sum on every
# rank. How many numbers does each rank send, all steps together?

# %% tags=["demo"]
guess_sent = None  # a number of numbers

# %% tags=["demo"]
states = ring.contributions(4)  # step, rank, chunk: how many ranks' data
arrived = (np.diff(states, axis=0) != 0).sum() / 4  # chunks, at each rank
beside(guess_sent, arrived * 1000 / 4, "numbers sent by each rank")

# %% tags=["demo"]
plot.plot_ring(4)

# %% [markdown]
# Each rank sends $2(N-1)$ chunks of one $N$-th: $2\frac{N-1}{N}$ of the data,
# under twice the gradient **however many ranks there are**. No all-reduce can do
# with less (Patarasuk and Yuan, 2009). Now make it work yourself.
#
# **Question 13** (2 points)
#
# Write `split(values, ranks)`: cut a 1-D NumPy array into a list of `ranks`
# chunks that follow each other. Their sizes differ by one at most, larger ones
# first: 10 values for 4 ranks make chunks of 3, 3, 2, 2. With fewer values than
# ranks, the last chunks are empty.

# %% nbgrader={"grade": false, "grade_id": "q13_split", "locked": false, "schema_version": 3, "solution": true, "task": false}
def split(values, ranks):
    """Return a list of `ranks` chunks of the array, in its order."""
    ### BEGIN SOLUTION
    size, larger = divmod(len(values), ranks)
    chunks, first = [], 0
    for rank in range(ranks):
        end = first + size + (rank < larger)
        chunks.append(values[first:end])
        first = end
    return chunks
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q13_split_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np


def cut_right(count, ranks):
    values = np.arange(count) ** 2 % 7 - 0.5  # some of them equal
    chunks = [list(map(float, c)) for c in split(values, ranks)]
    right = np.array_split(values, ranks)
    return chunks == [list(map(float, c)) for c in right]


assert cut_right(8, 4), "8 values for 4 ranks: the chunks hold 2, 2, 2, 2"
assert cut_right(10, 4), "10 values for 4 ranks: they hold 3, 3, 2, 2"
### BEGIN HIDDEN TESTS
for count in (0, 1, 3, 7, 24):
    for ranks in range(1, 9):
        assert cut_right(count, ranks)
### END HIDDEN TESTS

# %% [markdown]
# **Question 14** (4 points)
#
# All $2(N-1)$ steps are counted from 0: the first $N - 1$ are the
# reduce-scatter. Write
#
# - `chunk_to_send(step, rank, ranks)`: the number (0 to `ranks - 1`) of the
#   chunk that this rank sends to the next in this step. In one step, all ranks
#   send different chunks;
# - `combine(mine, received, step, ranks)`: what a rank has of that chunk
#   afterwards. `mine` is its own version and `received` the one that arrived, two
#   arrays of one size.
#
# In the end every rank must have the **sum**. Read the picture above: what has
# just arrived at rank 1 was sent by rank 0. `%` is your friend.

# %% nbgrader={"grade": false, "grade_id": "q14_ring", "locked": false, "schema_version": 3, "solution": true, "task": false}
def chunk_to_send(step, rank, ranks):
    """Return the number of the chunk that `rank` sends in this step."""
    ### BEGIN SOLUTION
    return (rank - step) % ranks
    ### END SOLUTION


def combine(mine, received, step, ranks):
    """Return the chunk as the receiving rank has it after this step."""
    ### BEGIN SOLUTION
    return mine + received if step < ranks - 1 else received
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q14_ring_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

from ddl.analysis.ring import all_reduce


def reduced(ranks, count):
    """Drive the ring, compare with the sum; return what each rank sent."""
    data = np.random.default_rng(ranks).normal(size=(ranks, count))
    done = all_reduce(list(data), np.array_split, chunk_to_send, combine)
    for rank, array in enumerate(done.arrays):
        assert np.allclose(array, data.sum(axis=0)), (
            f"{ranks} ranks, {count} values: rank {rank} lacks the sum"
        )
    return done.sent


for ranks in (2, 4):
    sent = set(reduced(ranks, 24))
    assert sent == {2 * (ranks - 1) * 24 // ranks}, f"sent: {sent}"
### BEGIN HIDDEN TESTS
for ranks in range(1, 9):
    assert set(reduced(ranks, 3 * ranks)) == {6 * (ranks - 1)}
    assert sum(reduced(ranks, 5)) == 2 * (ranks - 1) * 5
### END HIDDEN TESTS

# %% [markdown]
# Divide the sum by $N$, and it is the average. Two phases, one formula: did you
# notice?
#
# ## 10. Two real ranks
#
# `average_gradients.py` trains our one weight with Horovod. Each rank has every
# second of the 64 points (with more workers, every so many-th). Rank 0 writes
# down all gradients, and what Horovod made of them. After training it times
# all-reduces of four sizes.
#
# **Predict first.** How long does an all-reduce of 4 KiB between two ranks on
# this machine take at best, in microseconds?

# %% tags=["demo"]
guess_latency = None  # microseconds

# %% tags=["demo"]
run = launch(
    "average_gradients.py", name="one weight", workers=workers, steps=20
)

# %% tags=["demo"]
took = dict(run.result["all_reduce_seconds"])
beside(guess_latency, 1e6 * took[4096], "µs for an all-reduce of 4 KiB")

# %% [markdown]
# Now the promise of the title page: what Horovod averaged must equal what we
# average by hand. Every step is computed again here, and the cell fails if any
# differs.

# %% tags=["demo"]
m, rows = 0.0, []
shards = [many[rank::workers] for rank in range(workers)]
for event in (e for e in run.events() if e["event"] == "step"):
    ours = descent.exchange(m, 0.02, shards)
    assert np.allclose(event["gradients"], ours.gradients)
    assert math.isclose(event["average"], ours.average, rel_tol=1e-9)
    rows.append({"step": event["step"], "Horovod": event["average"],
                 "by hand": ours.average})
    m = ours.after
assert np.allclose(run.result["weights"], m), "the ranks' weights differ"
pd.DataFrame(rows).head()

# %% [markdown]
# Equal, and all ranks end with the same weight. So what you computed by hand is
# what two processes did over a network, and what every later lesson does with a
# million weights in place of one.
#
# ## 11. What an average costs
#
# A message takes a fixed time, the **latency** $\alpha$, and a time for each
# byte, one over the **bandwidth** $\beta$. A ring of $N$ ranks sends $2(N-1)$
# messages of an $N$-th of the data each, one after another:
#
# $$T(N) = 2(N-1)\left(\alpha + \frac{\text{bytes}}{N\,\beta}\right)$$
#
# Your run timed some all-reduces, from which $\alpha$ and $\beta$ follow.
# What is missing is the time of a gradient. It is measured below for our one
# weight, and for one dense layer of 1024 × 1024 weights with 256 samples; once
# also for 32 such passes to a message, as in section 8.

# %% [markdown]
# **Predict first.** Our model of one weight on 64 ranks: how many times as many
# samples a second as on one rank?

# %% tags=["demo"]
guess_speedup = None  # a number of times

# %% tags=["demo"]
from timeit import repeat


def seconds(function):
    return min(repeat(function, number=5, repeat=5)) / 5


batch, weights = (
    np.random.default_rng(0).normal(size=shape).astype("float32")
    for shape in ((256, 1024), (1024, 1024))
)
layer_s = seconds(lambda: batch.T @ (batch @ weights))
costs = {  # seconds of a gradient, and its bytes
    "one weight": (seconds(lambda: descent.gradient(1, many)), 8),
    "one layer": (layer_s, weights.nbytes),
    "one layer, 32 passes": (32 * layer_s, weights.nbytes),
}

# %% tags=["demo"]
links = ring.latency_and_bandwidth(run.result["all_reduce_seconds"], workers)
compute_s, size_bytes = costs["one weight"]
waiting_s = ring.ring_seconds(size_bytes, 64, *links)
speedup = 64 * compute_s / (compute_s + waiting_s)
beside(guess_speedup, speedup, "times the samples a second, 64 ranks")

# %% tags=["demo"]
plot.plot_cost(costs, *links)

# %% [markdown]
# One weight on many workers is *slower* than on one: the gradient is ready long
# before the first message is. That is what has happened when someone says "I
# went to two GPUs and it got slower". Communication pays where a gradient takes
# long against its message: large layers, large per-rank batches, aggregation
# (one message for $k$ batches), fast links.
#
# This is an estimate. The ranks here share one machine; 64 would have other
# links between them. Horovod looks for work about every millisecond, so $\alpha$ holds
# some of that waiting. And a trainer overlaps messages with computing, which the
# formula leaves out. Lesson 2 measures real links.

# %% [markdown]
# ## Your answers so far
#
# The button runs the tests that you can see on what your cells have defined so
# far, and says for each question whether it passes. Written answers are read by
# a person.

# %% tags=["demo"]
from ddl import check

check()

# %% [markdown]
# ## What to take away
#
# - The loss is a sum over points, so its gradient is one too: **batches,
#   workers and aggregation are all averages of the same gradients**.
# - Whether training **diverges** is set by learning rate and $x$,
#   $\prod(1 - 2\,\text{lr}\,x^2)$. Labels set **where it settles**.
# - Averaging $B$ gradients narrows them by $\sqrt{B}$. That makes higher
#   learning rates *usable*, in proportion to $B$, up to the **noise scale**.
# - Sharded equals batched **for equal shards**. Aggregation trains batches
#   larger than memory.
# - A ring sends $2(N-1)/N$ of the gradient per rank; whether that pays depends on
#   how long the gradient takes.
#
# Not shown: networks, whose curvature changes while they train. One weight has
# one minimum, and no generalisation to speak of.

# %% [markdown]
# ## Things to try
#
# - Launch `average_gradients.py` with `points=63`. Is the average still the
#   gradient of all points? Is it still the mean of the two gradients?
# - `plot.plot_map(noisy, (1, 2, 4))`: which batch size allows the highest
#   learning rate, and can you get it from the product?
# - Shuffle the points in each pass of `train_loop`. What becomes of the cycle?

# %% [markdown]
# ## Sources
#
# - Goyal et al. (2017), *Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour*, section 2.1
# - McCandlish, Kaplan, Amodei et al. (2018), *An Empirical Model of Large-Batch
#   Training*, section 2.2
# - Patarasuk, Yuan (2009), *Bandwidth optimal all-reduce algorithms for clusters
#   of workstations*, Journal of Parallel and Distributed Computing 69
# - Sergeev, Del Balso (2018), *Horovod: fast and easy distributed deep learning
#   in TensorFlow*, section 3
# - Shallue et al. (2019), *Measuring the Effects of Data Parallelism on Neural
#   Network Training*, section 4
#
# **Next:** [2. System topology](2.System-Topology.ipynb), where links are measured.
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
