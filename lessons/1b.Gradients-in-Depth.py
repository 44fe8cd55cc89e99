# %% [markdown]
# # 1b. Gradients in depth
#
# **When does a larger batch allow a higher learning rate?**
#
# | about | this notebook |
# | --- | --- |
# | time | 100 minutes, in three sittings |
# | hardware | two cores |
# | before this | [1. Gradient basics](1.Gradient-Basics.ipynb) |
#
# [1c](1c.Rings-and-Costs.ipynb) shows how ranks average.
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | by hand | 1 to 2 | 50 |
# | noise | 3 to 4 | 30 |
# | larger batches | 5 to 7 | 20 |

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs

# %%
import math

import numpy as np

# Points (x, y). The lesson's model predicts y = w * x.
easy = [(1, 1), (2, 2), (3, 3), (4, 4)]
noisy = [(1, 0), (2, 1), (3, 1), (4, 6.25)]

# %% tags=["demo"]
import pandas as pd

from course import check, compare_guess, descent, hint, plot, sgd

many = descent.generated(64)  # 64 points around y = x, with noise
sizes = [1, 2, 4, 8, 16, 32, 64]
rate = 0.0018  # a learning rate for single points

# %%
def grad_point(w, data, n):
    """Return the slope of (y - w * x) ** 2 / n for one point (x, y)."""
    x, y = data
    return 2 * x * (w * x - y) / n


def grad_multi(w, data):
    """Return the slope of the loss over a list of points (x, y)."""
    return sum(grad_point(w, point, len(data)) for point in data)

# %% [markdown]
# ## 1. A loss by hand
#
# The data set `easy` has four points, and the model is $y_\text{pred} = w x$. The two
# functions above match yours of lesson 1.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q01_best_weight_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 1** (1 point)
#
# The best weight for `easy` is $w = 1$. How can you see that from the four
# points alone, without any calculation?
#
# === BEGIN MARK SCHEME ===
# 1 point: says that y equals x at every point, so that w = 1 predicts all four
# exactly (no error can be smaller than none). Half a point for "it fits"
# without a reason.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q01_best_weight", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# At each of the four points y equals x. With w = 1 the model predicts y = x, so
# it is right at all four points, and nothing can be better than that.
# ### END SOLUTION

# %% [markdown]
# The **loss** is a number for how wrong a weight is. Ours is the mean squared error,
# a sum with one part for each of $n$ points:
#
# $$\text{loss}(w) = \frac{1}{n}\sum_{i=1}^{n} (y_i - w x_i)^2
# = \sum_{i=1}^{n} \underbrace{\frac{(y_i - w x_i)^2}{n}}_{\text{point } i}$$

# %% [markdown] nbgrader={"grade": false, "grade_id": "q02_never_negative_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 2** (1 point)
#
# Can the loss be negative? Can one point's part of it? Explain why or why not,
# and whether that makes sense for a number that measures how wrong a model is.
#
# === BEGIN MARK SCHEME ===
# Half a point: the square of a real number is never negative, and n is
# positive, so neither the parts nor their sum can be negative. Half a point: a
# sensible interpretation, such as "0 means right everywhere, and nothing is
# better than that".
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q02_never_negative", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# No. Each part is a square divided by the positive number n, so it is at least
# 0, and so is their sum. That makes sense: 0 means that all predictions are
# right, and nothing is better than right.
# ### END SOLUTION

# %% [markdown]
# **Question 3** (2 points)
#
# Compute by hand, for $w = 2$ and the four points of `easy` in order ($n = 4$):
#
# - `table_ypred`: a list of the predictions;
# - `table_loss_point`: a list of each point's part of the loss;
# - `table_loss_mse`: the loss, a single number.

# %% nbgrader={"grade": false, "grade_id": "q03_table", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
# table_ypred = [?, ?, ?, ?]
# table_loss_point = [?, ?, ?, ?]
# table_loss_mse = ?
### BEGIN SOLUTION
table_ypred = [2, 4, 6, 8]
table_loss_point = [0.25, 1, 2.25, 4]
table_loss_mse = 7.5
### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_table
#
# 1. Write down the four points of `easy` first. A prediction needs only the
#    point's x, a loss also its y.
# 2. Each point's part is its squared error divided by n = 4. The loss is the sum
#    of the four parts.
# 3. `table_ypred = [2 * x for x, y in easy]`

# %% nbgrader={"grade": true, "grade_id": "q03_table_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

assert len(table_ypred) == 4, f"table_ypred has {len(table_ypred)} numbers, not 4"
assert len(table_loss_point) == 4, "table_loss_point needs four numbers"
assert math.isclose(table_ypred[3], 8), "at x = 4 the model predicts 2 * 4"
assert math.isclose(table_loss_point[1], 1), "point (2, 2): (2 - 4)² / 4 = 1"
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
# Write `loss_mse(w, dataset)`. It returns the loss, as a float, of a list of points
# `[(x, y), ...]`. For an empty list, which has no mean, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q04_loss_mse", "locked": false, "schema_version": 3, "solution": true, "task": false}
def loss_mse(w, dataset):
    """Return the mean squared error of w * x over the points (x, y)."""
    ### BEGIN SOLUTION
    if not dataset:
        raise ValueError("the loss of an empty data set is not defined")
    return sum((y - w * x) ** 2 for x, y in dataset) / len(dataset)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q04_loss_mse
#
# 1. It is a mean: a sum over the points, divided by how many there are. What if
#    there are none?
# 2. Deal with the empty list first. Then add up the squares of y minus the
#    prediction, and divide once, at the end.
# 3. `squares = [(y - w * x) ** 2 for x, y in dataset]`

# %% nbgrader={"grade": true, "grade_id": "q04_loss_mse_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

points = [(1, 1), (2, 2), (3, 3), (4, 4)]
value = loss_mse(2, points)
assert math.isclose(value, 7.5), f"loss_mse(2, easy) returned {value}, not 7.5"
value = loss_mse(1, points)
assert math.isclose(value, 0, abs_tol=1e-12), f"at w = 1 it is {value}"
value = loss_mse(3, [(1, 2), (3, 1)])  # errors of -1 and -8
assert math.isclose(value, 32.5), f"half of 1 + 64 is not {value}"
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
    raise AssertionError("an empty data set should raise a ValueError")
### END HIDDEN TESTS

# %% [markdown]
# ## 2. One point at a time
#
# A step is $\eta$ times the slope of one point, $-2 x (y - w x)$: long where the loss is
# steep. As nobody knows a rate that lands on the best weight, one takes many short steps.
#
# **Question 5** (3 points)
#
# Write `train_loop(w, lr, dataset, iterations)`, which returns the weight after that
# many iterations. Each takes **one** point and steps along its gradient with $n = 1$.
# Take the points in order; after the last, start again with the first. With zero
# iterations, return `w`. With an empty `dataset`, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q05_train_loop", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_loop(w, lr, dataset, iterations):
    """Return the weight after `iterations` steps, one point each."""
    ### BEGIN SOLUTION
    if not dataset:
        raise ValueError("there are no points to train on")
    for iteration in range(iterations):
        point = dataset[iteration % len(dataset)]
        w = w - lr * grad_point(w, point, 1)
    return w
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q05_train_loop
#
# 1. A step is: new weight = old weight − learning rate × gradient. What changes from one
#    iteration to the next is which point is used.
# 2. Point number i of a list that starts over is at index i modulo its length.
#    Raise the error before the loop, and return w after it.
# 3. `point = dataset[iteration % len(dataset)]`

# %% nbgrader={"grade": true, "grade_id": "q05_train_loop_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

four = [(1, 1), (2, 2), (3, 3), (4, 4)]
cases = [([(1, 1)], 1, 0.002), ([(1, 1)], 100, 0.18143),
         (four, 4, 0.05891), (four, 100, 0.78086)]
for points, count, right in cases:
    value = train_loop(w=0, lr=0.001, dataset=points, iterations=count)
    assert math.isclose(value, right, abs_tol=5e-6), (
        f"train_loop returned {value} after {count} iterations, not {right}"
    )
value = train_loop(w=1, lr=0.1, dataset=[(1, 0), (2, 1)], iterations=3)
assert math.isclose(value, 0.448, rel_tol=1e-6), f"0.8, 0.56, 0.448: {value}"
try:
    train_loop(w=0, lr=0.1, dataset=[], iterations=5)
except ValueError:
    pass
else:
    raise AssertionError("an empty data set should raise a ValueError")
### BEGIN HIDDEN TESTS
value = train_loop(w=0, lr=0.1, dataset=[(1, 1), (2, 0)], iterations=3)
assert math.isclose(value, 0.232, rel_tol=1e-6)  # the first point again
w, mixed = 0.3, [(2, 0), (1, 1), (2, 0), (0, 1), (0.5, -3), (-1, 2)]
value = train_loop(w, 0.1, mixed, 8)
for x, y in mixed + mixed[:2]:
    w += 0.2 * x * (y - w * x)
assert math.isclose(value, w, rel_tol=1e-6)
# Zero, tiny and huge gradients: training goes on.
assert math.isclose(train_loop(0, 0.25, [(1, 0), (1, 2)], 4), 1.25)
value = train_loop(0, 1000, [(0.01, 0.02)], 20)
assert math.isclose(value, 2 - 2 * 0.8**20, rel_tol=1e-5)
value = train_loop(0, 10, [(1, 1), (2, 2), (3, 3), (4, 4)], 4)
assert math.isclose(value, 1 - 19 * 79 * 179 * 319, rel_tol=1e-6)
assert math.isclose(train_loop(3, 0.1, [(1, 5)], 0), 3)
assert math.isclose(train_loop(-1, 0.25, [(1, 1)], 2), 0.5)
### END HIDDEN TESTS

# %% [markdown] nbgrader={"grade": false, "grade_id": "q06_sum_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 6** (1 point)
#
# Is it correct to write `grad_multi` by calling `grad_point` for each point
# and adding up the results? Which rule of calculus allows or forbids it?
#
# === BEGIN MARK SCHEME ===
# 1 point: yes, because the loss is a sum of the points' parts, and the
# derivative of a sum is the sum of the derivatives (each with the same n). Half
# a point without the rule. Accept "differentiation is linear".
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q06_sum", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# Yes. The loss is the sum of the points' parts, and the derivative of a sum is
# the sum of the derivatives. Each part has to be divided by the same n, the
# number of points in the list.
# ### END SOLUTION

# %% [markdown]
# With one point at a time, each step multiplies the distance to that point's own best
# weight by $1 - 2\,\eta\,x^2$.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q07_tiny_rate_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 7** (1 point)
#
# Run `train_loop(0, 1e-9, [(1, 2), (2, 6), (3, 7), (4, 4)], 4)` in a cell of
# your own. What happens when the learning rate is far too low? Describe it, and
# say what that costs in practice.
#
# === BEGIN MARK SCHEME ===
# Half a point: the weight barely moves from 0 (to about 1e-7), since each step
# is lr times the gradient. Half a point: it moves in the right direction but
# would need a huge number of iterations, so time or compute is wasted.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q07_tiny_rate", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# The weight ends at about 1e-7, so it barely moved. Every step has the right
# direction, but its length is the gradient times 1e-9. It would take hundreds
# of millions of steps to arrive. Nothing fails; the time is just wasted.
# ### END SOLUTION

# %% [markdown] nbgrader={"grade": false, "grade_id": "q08_huge_rate_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 8** (2 points)
#
# Run `train_loop(0, 10, [(1, 1), (2, 2), (3, 3), (4, 4)], 4)` in a cell of your
# own. What happens when the learning rate is far too high? Describe how the
# weight changes along the way, and use the factor $1 - 2\,\eta\,x^2$ to
# explain it.
#
# === BEGIN MARK SCHEME ===
# 1 point: every step jumps over the best weight and lands farther away on the
# other side; about -86 million after four steps. 1 point: the factors are -19,
# -79, -179, -319; their absolute values exceed 1, so the distance grows.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q08_huge_rate", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# The weight explodes: 20, −1500, about 269,000, about −86 million. Each step
# points the right way but jumps over the best weight and lands farther out on
# the other side. The factors are 1 − 20x²: −19, −79, −179, −319. Their absolute
# values are all above 1, so the distance to the best weight grows in every
# step.
# ### END SOLUTION

# %% [markdown]
# ---
# **A good place to stop.**

# %% [markdown]
# ## 3. Noise
#
# The best weight of `noisy` is also exactly 1, but no weight is right everywhere.
#
# %% [markdown] nbgrader={"grade": false, "grade_id": "q09_rates_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 9** (2 points)
#
# With your own `train_loop`, train on `noisy` from $w = 0$ for 1000 iterations
# at the learning rates 0.001, 0.002, 0.004, and so on, doubling up to 0.256.
# Which ones diverge? Which end at or very near the best weight, 1? What
# happens at those in between? Try to explain why.
#
# === BEGIN MARK SCHEME ===
# Half a point: only 0.256 diverges. Half a point: the lowest learning rates (0.001 to
# about 0.004) end within a few percent of 1. 1 point: those in between end at a
# fixed wrong weight (0.016: 1.23; 0.128: 5.68), because each point pulls in a
# different direction, and the last one pulled most recently (or overshot). Don't accept that
# labels cause the divergence.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q09_rates", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# Only 0.256 diverges. 0.001, 0.002 and 0.004 end at 1.01 to 1.05. In between,
# training settles, but away from 1: 1.10, 1.23, 1.58, 3.04, 5.68. There the
# weight goes round in a cycle: each point pulls it toward its own best weight,
# and from 0.032 on the last one even past it, because 1 − 2ηx² is negative. We
# look just after the pull of the last point, (4, 6.25).
# ### END SOLUTION

# %% [markdown]
# The data sets differ only in their $y$, the **labels**. On `noisy` training settles in
# a **limit cycle**. Each pass multiplies the distance from it by
#
# $$\prod_i \left(1 - 2\,\eta\,x_i^2\right),$$
#
# and there is no $y$ in that product.

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
# **The $x$ alone decide what diverges.** Labels decide **where training settles**: the
# higher the learning rate, the farther from the best weight. So noise limits the
# learning rate long before divergence does.

# %% [markdown]
# ## 4. Batches: averaging over points
#
# A **batch** is several points whose gradients, at the same weight, are averaged for
# one step.
#
# **Question 10** (2 points)
#
# By hand or by code, at $w = 2$ for the points of `noisy`:
#
# - `table_grad_point`: a list with `grad_point` of each point, where $n = 1$;
# - `table_grad_multi`: a list with `grad_multi` of two batches: the first two
#   points and the last two.

# %% nbgrader={"grade": false, "grade_id": "q10_table", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
# table_grad_point = [?, ?, ?, ?]
# table_grad_multi = [?, ?]
### BEGIN SOLUTION
table_grad_point = [4, 12, 30, 14]
table_grad_multi = [8, 22]
### END SOLUTION

# %% [markdown] tags=["hints"]
# q10_table
#
# 1. Both functions are at the top of this notebook: call them with w = 2 on
# the points of `noisy`.
# 2. A batch is a slice of the list: the first two points, and those after them.
#    For single points, n = 1.
# 3. `first, last = noisy[:2], noisy[2:]`

# %% nbgrader={"grade": true, "grade_id": "q10_table_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

assert len(table_grad_point) == 4, (
    f"table_grad_point has {len(table_grad_point)} numbers, not 4"
)
assert len(table_grad_multi) == 2, "table_grad_multi needs two numbers"
assert math.isclose(table_grad_point[1], 12), "the point (2, 1) has 12"
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

# %% [markdown] nbgrader={"grade": false, "grade_id": "q11_scale_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 11** (1 point)
#
# In each of the two lists of question 10, how many times larger is the largest gradient than
# the smallest? What did averaging change, and what did it leave unchanged?
#
# === BEGIN MARK SCHEME ===
# Half a point: 30/4 = 7.5 against 22/8 = 2.75. Half a point: averaging brings
# the gradients closer together (less noise), while their mean, the gradient of
# the whole data set (15), stays the same. Accept any clear description of one
# of the two effects if the numbers are right.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q11_scale", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# 7.5 times (30 against 4) and 2.75 times (22 against 8). Averaging pulled the
# gradients together, because large and small ones partly cancel. Their mean
# stayed the same: 15, the gradient of all four points.
# ### END SOLUTION

# %% [markdown]
# **Question 12** (2 points)
#
# Write `train_loop_batches(w, lr, dataset, iterations)`. It works like `train_loop`,
# but `dataset` is a list of **batches**, lists of points that may differ in size. Each
# iteration steps once, along the next batch's gradient. If there are no batches, raise
# a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q12_train_loop_batches", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_loop_batches(w, lr, dataset, iterations):
    """Return the weight after `iterations` steps, one batch each."""
    ### BEGIN SOLUTION
    if not dataset:
        raise ValueError("there are no batches to train on")
    for iteration in range(iterations):
        w = w - lr * grad_multi(w, dataset[iteration % len(dataset)])
    return w
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q12_train_loop_batches
#
# 1. Compare with `train_loop`: only what each iteration takes, and its
#    gradient, differ.
# 2. The gradient of a batch is what `grad_multi` returns; it divides by the
#    batch's own size, so sizes may differ.
# 3. `batch = dataset[iteration % len(dataset)]`

# %% nbgrader={"grade": true, "grade_id": "q12_train_loop_batches_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

pairs = [[(1, 0), (2, 1)], [(3, 1), (4, 6.25)]]
for count, right in [(2, 0.02995), (20, 0.26228)]:
    value = train_loop_batches(0, lr=0.001, dataset=pairs, iterations=count)
    assert math.isclose(value, right, abs_tol=5e-6), (
        f"train_loop_batches returned {value} after {count} iterations, not {right}"
    )
three = [[(1, 0)], [(2, 1), (1, 2), (0, 5)], [(1, 3), (1, 1)]]
value = train_loop_batches(1, lr=0.15, dataset=three, iterations=4)
assert math.isclose(value, 0.7875, rel_tol=1e-6), (
    f"after its four iterations: 0.7, 0.75, 1.125, 0.7875, not {value}"
)
try:
    train_loop_batches(0, 0.1, [], 3)
except ValueError:
    pass
else:
    raise AssertionError("no batches should raise a ValueError")
### BEGIN HIDDEN TESTS
batches = [[(1, 1)], [(2, 0), (0, 5), (1, 3)], [(1, 1)], [(2, 1), (-1, 1)]]
w, value = 0.3, train_loop_batches(0.3, lr=0.1, dataset=batches, iterations=6)
for batch in batches + batches[:2]:
    w += 0.2 * sum(x * (y - w * x) for x, y in batch) / len(batch)
assert math.isclose(value, w, rel_tol=1e-6)
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
### END HIDDEN TESTS

# %% [markdown]
# **A good place to stop.**

# %% [markdown]
# ## 5. A higher learning rate for a larger batch
#
# From here on, each batch is drawn at random with replacement, so the weight strays
# around the best one.
#
# **Predict first.** The gradients of batches of 16 spread a quarter as wide as single
# points', so their weight strays less. Raise their learning rate until it strays as
# far as with single points at 0.0018. How many times 0.0018 is that?

# %% tags=["demo"]
guess_times = None  # how many times

# %% tags=["demo"]
def times_of(rate, size):
    spread = sgd.settled_spread(rate, 1, many)
    return sgd.rate_of_spread(spread, size, many) / rate


print(f"from a tenth of that rate on: {times_of(rate / 10, 16):.3g} times")
compare_guess(guess_times, times_of(rate, 16),
              "times 0.0018, at the same spread")

# %% tags=["demo"]
plot.plot_settled(
    many, [(rate, 1), (rate, 16), (4 * rate, 4), (16 * rate, 16)]
)

# %% [markdown]
# Nearly 16; the lower the learning rates, the closer. Two things balance:
#
# - each step **adds** noise: a variance of $\eta^2\sigma^2/B$, where
#   $\sigma$ is the spread of single-point gradients;
# - each step **forgets**: it takes the fraction $2\,\eta\,\overline{x^2}$
#   off the distance, and about twice that fraction off its variance.
#
# They balance where the variance is
#
# $$\frac{\eta^2\sigma^2/B}{4\,\eta\,\overline{x^2}}
# = \frac{\eta}{B}\cdot\frac{\sigma^2}{4\,\overline{x^2}}.$$
#
# **The learning rate over the batch size decides.** A learning rate $\sqrt{B}$ times as
# high restores the noise of each step, but it also forgets faster. (The formula leaves out
# terms in $\eta^2$; the figure has them.)
#
# This is SGD's rule. Adam divides by a running size of the gradient, so its steps
# have about the same length whatever the batch. Its rule is a learning rate in
# proportion to $\sqrt{B}$, with the other constants adjusted (Malladi et al., 2022).

# %% [markdown]
# **Predict first.** From some learning rate on, training on random single points
# diverges: the mean squared distance grows without limit. How many times as
# high is it with all 64 points in every step?

# %% tags=["demo"]
guess_border = None  # how many times

# %% tags=["demo"]
single, whole = (sgd.rate_border(count, many) for count in (1, math.inf))
print(f"single points: {single:.3f} · all together: {whole:.3f}")
compare_guess(guess_border, whole / single,
              "times the learning rate of divergence")

# %% tags=["demo"]
plot.plot_map(many, sizes, rate)

# %% [markdown]
# - The border of the region **diverges** depends on the $x$. Batches differ less in $x^2$ than
#   single points, so it moves a little, up to the limit for all points.
# - The border of the region **settles narrowly** follows the dashed line, the learning
#   rate in proportion to the batch size: the **linear scaling rule** (Goyal et al., 2017). It
#   ends at the other border.
#
# So averaging raises the learning rate at which training diverges only a little here (more
# if the points' $x^2$ differ more). Mainly, it keeps higher ones accurate.

# %% [markdown]
# ## 6. What ends linear scaling
#
# The rule ends where the noise has been averaged away. From there on the curvature of
# the loss, how fast its slope changes, limits the step.
#
# The **gradient noise scale** tells you when: the variance of single-point gradients
# divided by the squared gradient. The best learning rate for a single step is
# $1/(1 + \text{noise scale}/B)$ times the best one without noise (McCandlish et al.,
# 2018, equation 2.6).
#
# **Predict first.** Far from the minimum, at $w = 0$, the batch grows from 16 to 256.
# How many times larger does the best learning rate become?

# %% tags=["demo"]
guess_best = None  # how many times

# %% tags=["demo"]
b16, b256 = (descent.best_rate(0, many, count) for count in (16, 256))
compare_guess(guess_best, b256 / b16, "times the learning rate, tried")

# %% tags=["demo"]
plot.plot_best_rate(many, weights=(0, 1.5, 1.15), sizes=(1, 4, 16, 64, 256))

# %% [markdown]
# Far from the minimum all points agree: the noise scale is below 1, and a larger
# batch is barely worth its cost. Near it the gradient shrinks and the noise scale is
# large: the best learning rate grows in proportion to the batch, until the batch
# reaches it.
#
# So the noise scale says how much a larger batch helps *on the way*, and grows without
# end where training settles. How far settled training strays (section 5) follows from
# the variance alone. ([4b](4b.Convergence-in-Depth.ipynb), section 2, estimates a
# network's.)

# %% [markdown]
# ## 7. Gradient aggregation: averaging over time
#
# A single worker can also average over several batches before it steps. So it can
# **train with a batch larger than memory**, and several workers exchange only one
# average for $k$ batches.
#
# **Predict first.** Memory holds 8 of the 64 points. One worker takes twenty steps of
# all 64, in 8 passes each. How far is its final weight from that of a machine that
# holds all points at once?

# %% tags=["demo"]
guess_apart = None  # a difference in weight

# %% tags=["demo"]
def aggregated(passes, divided_by):
    w = 0.0
    for step in range(20):
        total = sum(descent.gradient(w, part) for part in passes)
        w = w - 0.02 * total / divided_by
    return w


passes, at_once = descent.batches_of(many, 8), [many]
final = descent.descend(0, 0.02, at_once, 20)[-1]
apart = abs(aggregated(passes, len(passes)) - final)
compare_guess(guess_apart, apart, "distance between the two weights")

# %% [markdown]
# Only rounding, with equal batches. (Batch norm breaks it:
# [1c](1c.Rings-and-Costs.ipynb), section 1.) It saves no time: the passes follow each
# other.
#
# Horovod's option is `backward_passes_per_step`. It **adds** the gradients of the
# passes, unless you also say `average_aggregated_gradients=True`.
#
# **Predict first.** Where does the same training end when the 8 gradients are added?

# %% tags=["demo"]
guess_added = None  # a weight

# %% tags=["demo"]
compare_guess(guess_added, aggregated(passes, 1), "weight after 20 steps")

# %% [markdown]
# With SGD, adding is averaging at 8 times the learning rate, here beyond the border of
# section 5. So average, as `train_cifar.py` does, or scale the learning rate. That is all
# for SGD only: Horovod 0.28.1 counts *passes* as steps, even if it averages. So schedules
# run 8 times as fast, and Adam's first update has half of its length.

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - Averaging $B$ gradients narrows the noise by $\sqrt{B}$. That allows a higher learning
#   rate, up to the limit that the loss itself sets.
#
# ## Things to try
#
# - Raise the noise of the points: `many = descent.generated(64, noise=3)`. Which border of
#   the map moves?

# %% [markdown]
# ## Sources
#
# - Goyal et al. (2017), *Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour*, section 2.1
# - Malladi et al. (2022), *On the SDEs and Scaling Rules for Adaptive Gradient
#   Algorithms*, section 5
# - Mandt, Hoffman, Blei (2017), *Stochastic Gradient Descent as Approximate
#   Bayesian Inference*, section 3
# - McCandlish et al. (2018), *An Empirical Model of Large-Batch Training*, section 2.2
# - Shallue et al. (2019), *Measuring the Effects of Data Parallelism on Neural
#   Network Training*, section 4
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
