# %% [markdown]
# # 1b. Gradients in depth
#
# **When does a larger batch allow a higher learning rate?**
#
# | about | this notebook |
# | --- | --- |
# | time | 80 minutes, in three sittings |
# | hardware | two cores |
# | before this | [1. Gradient basics](1.Gradient-Basics.ipynb) |
#
# [1c](1c.Rings-and-Costs.ipynb) shows how ranks average.
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | by hand | 1 to 2 | 15 |
# | noise | 3 to 4 | 25 |
# | larger batches | 5 to 7 | 40 |

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
# The model is $y_\text{pred} = w x$, and the two functions above match yours of lesson 1.
# The **loss** is the mean squared error, a sum with one part for each of $n$ points:
#
# $$\text{loss}(w) = \frac{1}{n}\sum_{i=1}^{n} (y_i - w x_i)^2
# = \sum_{i=1}^{n} \underbrace{\frac{(y_i - w x_i)^2}{n}}_{\text{point } i}$$

# %% [markdown] nbgrader={"grade": false, "grade_id": "q01_best_weight_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 1** (1 point)
#
# Without any calculation: (a) How can you see that $w = 1$ is best for `easy`? (b) Can the
# loss be negative, or one point's part of it? Does that make sense for a number that says
# how wrong a model is? (c) Which rule of calculus lets `grad_multi` add up what `grad_point`
# returns?
#
# === BEGIN MARK SCHEME ===
# 1 point for all three, half a point for two. (a) y equals x at every point, so w = 1
# predicts all four exactly. (b) Neither: a square is never negative, and n is positive;
# 0 means right everywhere, and nothing is better than that. (c) The derivative of a sum
# is the sum of the derivatives ("differentiation is linear").
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q01_best_weight", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# (a) At each of the four points y equals x, so w = 1 is right at all of them, and nothing
# can be better. (b) No. Each part is a square divided by a positive number, so it is at
# least 0, and so is their sum. That makes sense: 0 means that all predictions are right.
# (c) The derivative of a sum is the sum of the derivatives, and the loss is the sum of its
# points' parts, each divided by the same n.
# ### END SOLUTION

# %% [markdown]
# **Predict first.** At $w = 2$, what are the parts of the four points of `easy`, and the
# loss?

# %% tags=["demo"]
guess_loss = None  # a number

# %% tags=["demo"]
parts = [{"x": x, "y": y, "prediction": 2 * x, "part": (y - 2 * x) ** 2 / 4}
         for x, y in easy]
print(pd.DataFrame(parts).to_string(index=False))
compare_guess(guess_loss, descent.loss(2, easy), "loss at w = 2")

# %% [markdown]
# **Question 2** (1 point)
#
# Write `loss_mse(w, dataset)`. It returns the loss, as a float, of a list of points
# `[(x, y), ...]`. For an empty list, which has no mean, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q02_loss_mse", "locked": false, "schema_version": 3, "solution": true, "task": false}
def loss_mse(w, dataset):
    """Return the mean squared error of w * x over the points (x, y)."""
    ### BEGIN SOLUTION
    if not dataset:
        raise ValueError("the loss of an empty data set is not defined")
    return sum((y - w * x) ** 2 for x, y in dataset) / len(dataset)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_loss_mse
#
# 1. It is a mean: a sum over the points, divided by how many there are. What if
#    there are none?
# 2. Deal with the empty list first. Then add up the squares of y minus the
#    prediction, and divide once, at the end.
# 3. `squares = [(y - w * x) ** 2 for x, y in dataset]`

# %% nbgrader={"grade": true, "grade_id": "q02_loss_mse_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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
# **Question 3** (1 point)
#
# Write `train_loop(w, lr, dataset, iterations)`, which returns the weight after that
# many iterations. Each takes **one** point and steps along its gradient with $n = 1$.
# Take the points in order; after the last, start again with the first. With zero
# iterations, return `w`. With an empty `dataset`, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q03_train_loop", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q03_train_loop
#
# 1. A step is: new weight = old weight − learning rate × gradient. What changes from one
#    iteration to the next is which point is used.
# 2. Point number i of a list that starts over is at index i modulo its length.
#    Raise the error before the loop, and return w after it.
# 3. `point = dataset[iteration % len(dataset)]`

# %% nbgrader={"grade": true, "grade_id": "q03_train_loop_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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

# %% [markdown]
# With one point at a time, each step multiplies the distance to that point's own best
# weight by $1 - 2\,\eta\,x^2$.

# %% [markdown]
# ---
# **A good place to stop.**

# %% [markdown]
# ## 3. Noise
#
# The best weight of `noisy` is also exactly 1, but no weight is right everywhere.
#
# %% [markdown] nbgrader={"grade": false, "grade_id": "q04_rates_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 4** (2 points)
#
# With your own `train_loop`, train on `noisy` from $w = 0$ for 1000 iterations
# at the learning rates 0.001, 0.002, 0.004, and so on, doubling up to 0.256, and for four at
# 1e-9 and at 10. What do far too low ones cost? Which ones diverge, and which factors
# $1 - 2\,\eta\,x^2$ have they? Which end at or very near the best weight, 1? What
# happens at those in between? Try to explain why.
#
# === BEGIN MARK SCHEME ===
# Half a point: at 1e-9 the weight barely moves from 0, so time is wasted; the lowest of
# the others (0.001 to about 0.004) end within a few percent of 1. Half a point: only 0.256
# and 10 diverge: steps jump over the best weight and land farther away (at 10 the factors are
# -19, -79, -179, -319). 1 point: those in between end at a fixed wrong weight (0.016:
# 1.23; 0.128: 5.68), because each point pulls in a different direction, and the last one
# pulled most recently (or overshot). Don't accept that labels cause the divergence.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q04_rates", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# At 1e-9 the weight ends at about 1e-7: every step has the right direction, but it would take
# hundreds of millions of them. 0.256 diverges, and 10 at once: its factors, 1 − 20x², are
# −19, −79, −179, −319, so each step jumps over the best weight and lands farther out. 0.001,
# 0.002 and 0.004 end at 1.01 to 1.05. In between, training settles, but away from 1: 1.10,
# 1.23, 1.58, 3.04, 5.68. There the weight goes round in a cycle: each point pulls it toward
# its own best weight, and from 0.032 on the last one even past it, because 1 − 2ηx² is
# negative. We look just after the pull of the last point, (4, 6.25).
# ### END SOLUTION

# %% [markdown]
# `easy` and `noisy` differ only in their $y$, the **labels**. On `noisy` training settles
# in a **limit cycle**. Each pass multiplies the distance from it by
#
# $$\prod_i \left(1 - 2\,\eta\,x_i^2\right),$$
#
# and there is no $y$ in that product. So **the $x$ alone decide what diverges**, and both
# data sets diverge at the same rates. Labels decide **where training settles**: the higher
# the learning rate, the farther from the best weight. So noise limits the learning rate
# long before divergence does.

# %% [markdown]
# ## 4. Batches: averaging over points
#
# A **batch** is several points whose gradients, at the same weight, are averaged for
# one step.
#
# **Question 5** (1 point)
#
# By hand or by code, at $w = 2$ for the points of `noisy`:
#
# - `table_grad_point`: a list with `grad_point` of each point, where $n = 1$;
# - `table_grad_multi`: a list with `grad_multi` of two batches: the first two
#   points and the last two.

# %% nbgrader={"grade": false, "grade_id": "q05_table", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
# table_grad_point = [?, ?, ?, ?]
# table_grad_multi = [?, ?]
### BEGIN SOLUTION
table_grad_point = [4, 12, 30, 14]
table_grad_multi = [8, 22]
### END SOLUTION

# %% [markdown] tags=["hints"]
# q05_table
#
# 1. Both functions are at the top of this notebook: call them with w = 2 on
# the points of `noisy`.
# 2. A batch is a slice of the list: the first two points, and those after them.
#    For single points, n = 1.
# 3. `first, last = noisy[:2], noisy[2:]`

# %% nbgrader={"grade": true, "grade_id": "q05_table_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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

# %% [markdown] nbgrader={"grade": false, "grade_id": "q06_scale_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 6** (1 point)
#
# In each of the two lists of question 5, how many times larger is the largest gradient than
# the smallest? What did averaging change, and what did it leave unchanged?
#
# === BEGIN MARK SCHEME ===
# Half a point: 30/4 = 7.5 against 22/8 = 2.75. Half a point: averaging brings
# the gradients closer together (less noise), while their mean, the gradient of
# the whole data set (15), stays the same. Accept any clear description of one
# of the two effects if the numbers are right.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q06_scale", "locked": false, "points": 1, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# 7.5 times (30 against 4) and 2.75 times (22 against 8). Averaging pulled the
# gradients together, because large and small ones partly cancel. Their mean
# stayed the same: 15, the gradient of all four points.
# ### END SOLUTION

# %% [markdown]
# **Question 7** (2 points)
#
# Write `train_loop_batches(w, lr, dataset, iterations)`. It works like `train_loop`,
# but `dataset` is a list of **batches**, lists of points that may differ in size. Each
# iteration steps once, along the next batch's gradient. If there are no batches, raise
# a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q07_train_loop_batches", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q07_train_loop_batches
#
# 1. Compare with `train_loop`: only what each iteration takes, and its
#    gradient, differ.
# 2. The gradient of a batch is what `grad_multi` returns; it divides by the
#    batch's own size, so sizes may differ.
# 3. `batch = dataset[iteration % len(dataset)]`

# %% nbgrader={"grade": true, "grade_id": "q07_train_loop_batches_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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


print(f"at a tenth of that rate: {times_of(rate / 10, 16):.3g} times")
compare_guess(guess_times, times_of(rate, 16),
              "times 0.0018, at the same spread")

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
# terms in $\eta^2$.)

# %% [markdown]
# **Question 8** (2 points)
#
# Write `settled_variance(lr, size, data)`: the variance of the settled weight by this
# formula, for batches of `size` of the points `data`, a list of pairs. $\sigma^2$ is the
# variance of the single points' gradients at the best weight,
# $\sum x_i y_i / \sum x_i^2$.

# %% nbgrader={"grade": false, "grade_id": "q08_settled_variance", "locked": false, "schema_version": 3, "solution": true, "task": false}
def settled_variance(lr, size, data):
    """Return the variance at which the weight settles, at low rates."""
    ### BEGIN SOLUTION
    best = sum(x * y for x, y in data) / sum(x * x for x, y in data)
    noise = np.var([grad_point(best, point, 1) for point in data])
    return lr / size * noise / (4 * np.mean([x * x for x, y in data]))
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q08_settled_variance
#
# 1. Nothing is trained here: the formula needs a learning rate over a batch size, and two
#    numbers that depend on the points alone.
# 2. Find the best weight, then each point's gradient there. σ² is the mean squared
#    deviation of these gradients, and the other number is the mean of x².
# 3. `noise = np.var([grad_point(best, point, 1) for point in data])`

# %% nbgrader={"grade": true, "grade_id": "q08_settled_variance_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

some = [(1, 0), (2, 1), (3, 1), (4, 6.25)]  # gradients at 1: 2, 4, 12, -18
value = settled_variance(0.03, 1, some)
assert math.isclose(value, 0.122, rel_tol=1e-6), (
    f"settled_variance(0.03, 1, noisy) returned {value}, not 0.03 * 122 / (4 * 7.5)"
)
value = settled_variance(0.03, 4, some)
assert math.isclose(value, 0.0305, rel_tol=1e-6), f"batches of 4: {value}"
value = settled_variance(0.06, 4, some)
assert math.isclose(value, 0.061, rel_tol=1e-6), f"twice the rate: {value}"
value = settled_variance(0.5, 4, [(1, 3), (2, 2)])
assert math.isclose(value, 0.128, rel_tol=1e-6), (
    f"the best weight is 1.4 here, the gradients there are ±3.2: {value}"
)
### BEGIN HIDDEN TESTS
import numpy as np

x = np.arange(1, 8) / 3
y = 0.7 * x + np.array([1, -2, 0.5, 0, 3, -1, 0])
slopes = 2 * x * (x * (x @ y) / (x @ x) - y)
for lr, size in ((0.001, 1), (0.02, 16), (0.3, 1_000)):
    value = settled_variance(lr, size, list(zip(x.tolist(), y.tolist())))
    right = lr / size * slopes.var() / (4 * np.mean(x * x))
    assert math.isclose(value, right, rel_tol=1e-4)
value = settled_variance(0.1, 2, [(1, 2), (3, 6)])  # no noise
assert math.isclose(value, 0, abs_tol=1e-9)
### END HIDDEN TESTS

# %% [markdown]
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
# **Question 9** (2 points)
#
# - `noise_scale(w, data)`: the gradient noise scale at the weight `w`, for a list of points.
#   If their gradient is 0, return `math.inf`.
# - `part_of_best(w, data, size)`: the best learning rate for a single step with a batch of
#   `size` points, as a part of the best one without noise.

# %% nbgrader={"grade": false, "grade_id": "q09_part_of_best", "locked": false, "schema_version": 3, "solution": true, "task": false}
def noise_scale(w, data):
    """Return the gradient noise scale, in points."""
    ### BEGIN SOLUTION
    gradient = grad_multi(w, data)
    if gradient == 0:
        return math.inf
    return np.var([grad_point(w, point, 1) for point in data]) / gradient**2
    ### END SOLUTION


def part_of_best(w, data, size):
    """Return the best learning rate, where 1 is the best one without noise."""
    ### BEGIN SOLUTION
    return 1 / (1 + noise_scale(w, data) / size)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q09_part_of_best
#
# 1. It is a variance divided by a square. You need both for the points' gradients at w.
# 2. Take the gradient of each point alone (n = 1): their variance, over the square of their
#    mean. Look at the mean first.
# 3. `np.var([grad_point(w, point, 1) for point in data])`

# %% nbgrader={"grade": true, "grade_id": "q09_part_of_best_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

some = [(1, 0), (2, 1), (3, 1), (4, 6.25)]  # gradients at 2: 4, 12, 30, 14
value = noise_scale(2, some)
assert math.isclose(value, 89 / 225, rel_tol=1e-6), (
    f"noise_scale(2, noisy) returned {value}, not 89 / 15²"
)
value = noise_scale(1, some)
assert value == math.inf, f"at the best weight, where the gradient is 0: {value}"
for size, right in ((1, 225 / 314), (4, 900 / 989)):
    value = part_of_best(2, some, size)
    assert math.isclose(value, right, rel_tol=1e-6), (
        f"part_of_best(2, noisy, {size}) returned {value}, not {right}"
    )
value = part_of_best(1, some, 64)
assert math.isclose(value, 0, abs_tol=1e-9), f"at the best weight: {value}"
### BEGIN HIDDEN TESTS
assert math.isclose(noise_scale(1.5, some), 73.25 / 56.25, rel_tol=1e-6)
assert math.isclose(noise_scale(0, [(1, 2), (3, 1)]), 1 / 25, rel_tol=1e-6)
assert math.isclose(noise_scale(0, [(2, 5)]), 0, abs_tol=1e-9)
assert noise_scale(0, [(1, 1), (1, -1)]) == math.inf
for size in (1, 16, 256):
    value = part_of_best(1.5, some, size)
    right = size * 56.25 / (size * 56.25 + 73.25)
    assert math.isclose(value, right, rel_tol=1e-6)
assert math.isclose(part_of_best(0, [(2, 5)], 8), 1, rel_tol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Gradient aggregation: averaging over time
#
# A single worker can also average over several batches before it steps. So it can
# **train with a batch larger than memory**, and several workers exchange only one
# average for $k$ batches. With equal batches, that is the average of all their points, and
# only rounding differs. (Batch norm breaks it: [1c](1c.Rings-and-Costs.ipynb), section 1.) It
# saves no time: the passes follow each other.

# %% [markdown]
# **Question 10** (2 points)
#
# Write `train_loop_aggregated(w, lr, batches, passes, steps)`, which returns the weight. Each
# step takes the next `passes` batches; after the last batch, the first is next. It computes
# their gradients, all at the same weight, and steps once, along their **mean**.

# %% nbgrader={"grade": false, "grade_id": "q10_train_loop_aggregated", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_loop_aggregated(w, lr, batches, passes, steps):
    """Return the weight after steps of several batches each."""
    ### BEGIN SOLUTION
    for first in range(0, steps * passes, passes):
        taken = [batches[(first + i) % len(batches)] for i in range(passes)]
        w = w - lr * sum(grad_multi(w, batch) for batch in taken) / passes
    return w
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q10_train_loop_aggregated
#
# 1. There are two loops: over steps, and inside it over passes. In which of the two does the
#    weight change?
# 2. Pass i of step s takes batch number s times `passes` plus i, modulo their number. Add up
#    the gradients, divide by `passes`, then step.
# 3. `batch = batches[(step * passes + i) % len(batches)]`

# %% nbgrader={"grade": true, "grade_id": "q10_train_loop_aggregated_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

three = [[(1, 1)], [(1, 3)], [(1, 2)]]
for steps, right in ((1, 1), (2, 1.25), (3, 1.875)):
    value = train_loop_aggregated(0, 0.25, three, passes=2, steps=steps)
    assert math.isclose(value, right, rel_tol=1e-6), (
        f"train_loop_aggregated of 2 passes returned {value} after {steps} "
        f"steps, not {right}"
    )
value = train_loop_aggregated(5, 0.1, three, passes=3, steps=0)
assert math.isclose(value, 5), f"no step, and {value}, not 5"
### BEGIN HIDDEN TESTS
for k in (1, 3, 7):
    value, w = train_loop_aggregated(0, 0.25, three, k, 3), 0
    for step in range(3):
        own = [three[(step * k + i) % 3][0][1] for i in range(k)]
        w += 0.5 * (sum(own) / k - w)
    assert math.isclose(value, w, rel_tol=1e-6)
uneven = [[(1, 1)], [(2, 0), (1, 2)]]  # means of -2 and of 0 and -4
value = train_loop_aggregated(0, 0.1, uneven, 2, 1)
assert math.isclose(value, 0.2, rel_tol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# Horovod's option is `backward_passes_per_step`. It **adds** the gradients of the
# passes, unless you also say `average_aggregated_gradients=True`.
#
# **Predict first.** At the learning rate 0.02, training on all 64 points settles. Memory
# holds 8 of them, so each step takes 8 passes. Where does it end, after 20 steps from 0, if
# the 8 gradients are added?

# %% tags=["demo"]
guess_added = None  # a weight

# %% tags=["demo"]
averaged, added = (
    descent.descend(0, rate, [many], 20)[-1] for rate in (0.02, 8 * 0.02)
)
print(f"averaged: {averaged:.4g}")
compare_guess(guess_added, added, "weight after 20 steps, added")

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
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
