# %% [markdown]
# # 4c. Rules and layers
#
# **Which rules, schedules and per-layer steps help a large batch, and what can they not do?**
#
# | about | this notebook |
# | --- | --- |
# | time | 70 minutes |
# | hardware | two cores |
# | before this | [4. Convergence](4.Convergence.ipynb); [4b](4b.Convergence-in-Depth.ipynb) helps |
#
# Your own runs are small and have one seed: they show the method. Every claim rests on
# **recorded** runs: more images, five seeds, and for most configurations a learning rate that was chosen
# on images which neither training nor the final test used.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated images
workers = 2
large_batch = 1024
seed = 0

# %%
import numpy as np

# %% tags=["demo"]
from course import check, compare_guess, hint, plot, recorded, tuning
from course.training.recipes import REFERENCE_BATCH
from course.training.schedule import Schedule
from ddl import compare, launch

SIZES = {  # 10,240 is 160 × 64 and 10 × 1,024: nothing is left over
    "reader": dict(train_samples=10_240, test_samples=10_000, epochs=6),
    "smoke": dict(train_samples=2_048, test_samples=500, epochs=2),
    "full": dict(train_samples=49_152, test_samples=10_000, epochs=30),
}
ghost = 32

climb = {"reader": 1, "smoke": 0.5, "full": 5}[size]  # epochs of warm-up

# %% tags=["demo"]
search = recorded("convergence-tuning")  # of a learning rate for each configuration
grids = tuning.grids(search)
base_rate = grids["small batch + BN"].best
fixed = dict(
    SIZES[size], data_set=data_set, seed=seed, recipe="batch_norm",
    learning_rate=base_rate, ghost_batch=ghost, statistics="recomputed",
    precision="auto",
)
configurations = recorded("convergence-cifar10")  # five seeds each


def only(runs, *names):
    """Return the runs of these configurations."""
    return [run for run in runs if run.name in names]


# %% [markdown]
# ## 1. Rules and schedules, in your own runs
#
# To keep the *noise* of each step, the **square-root rule** takes $\sqrt k\,\eta$:
# the noise of a mean of $B$ images shrinks with $\sqrt B$ (Hoffer et al., 2017). Lesson
# 1's linear rule keeps something else, the spread of the weights: each step adds noise to
# them and pulls them back. For optimizers such as Adam, it is the square root that keeps
# this spread (Malladi et al., 2022).
#
# Each recorded configuration has its own grid of learning rates, a factor of 2 apart, which was to grow
# until the best was not at its edge. (Two end one step too early: their last rate is less than
# 0.1 points behind, within the noise of two seeds.) It was searched on *validation* images, with seeds that are
# not judged: choosing on the test images would flatter every configuration. A rule is right if its
# learning rate is near the top of the curve, not if it beats *no* scaling.
#
# **Predict first.** How many points lie between the two rules in your own runs, both
# without a warm-up?

# %% tags=["demo"]
guess_rules = None  # points

# %% tags=["demo"]
scaled = launch(
    "train_cifar.py", name="+ linear scaling", workers=workers,
    global_batch=large_batch, **dict(fixed, recipe="scale_lr"),
)
root = launch(
    "train_cifar.py", name="+ square-root scaling", workers=workers,
    global_batch=large_batch,
    **dict(fixed, recipe="sqrt_lr", warmup_epochs=0),
)
warm = launch(
    "train_cifar.py", name="+ square-root scaling, warm-up", workers=workers,
    global_batch=large_batch,
    **dict(fixed, recipe="sqrt_lr", warmup_epochs=climb),
)

# %% tags=["demo"]
points = root.result["test_accuracy"] - scaled.result["test_accuracy"]
compare_guess(guess_rules, 100 * points, "points for the square root")

# %% tags=["demo"]
plot.plot_convergence([scaled, root, warm], x="epochs")

# %% [markdown]
# A schedule should be a **pure function** of the step: you can plot it before you run
# anything.

# %% tags=["demo"]
epochs = fixed["epochs"]
base, k = base_rate, large_batch / REFERENCE_BATCH
schedules = {
    "small batch": Schedule(base, epochs, decay="cosine"),
    "linear": Schedule(k * base, epochs, decay="cosine"),
    "linear, warm-up": Schedule(k * base, epochs, base, climb, "cosine"),
    "square root, warm-up": Schedule(
        k**0.5 * base, epochs, base, climb, "cosine"
    ),
}
x = np.linspace(0, epochs, 201)
plot.plot_schedule({
    name: (x, [rate(at) for at in x]) for name, rate in schedules.items()
})

# %% tags=["demo", "recorded"]
compare(
    only(configurations, "large batch + BN, same rate", "+ linear scaling",
         "+ linear scaling, warm-up", "+ square-root scaling, warm-up",
         "large batch + BN"),
    against="large batch + BN",
)

# %% [markdown]
# Warm-up and the square-root rule do something similar: both keep the first steps
# short. So ask what each remedy adds once the others are in place. Warm-up also costs
# steps: one of four epochs in the recorded runs, one of six in working, 5 of 90 in the
# paper.
#
# Horovod's `LearningRateWarmupCallback` takes the *scaled* learning rate, and starts at 1/size
# of it. Calls from before
# [#2459](https://github.com/horovod/horovod/pull/2459), without `initial_lr`,
# raise an error today; the silent mistake is an `initial_lr` that nobody
# scaled. Then the whole training has a learning rate that is too low by a factor
# equal to the number of ranks.
#
# **A good place to stop.**

# %% [markdown]
# ## 2. A step size for each layer
#
# One learning rate has to suit all layers. You, Gitman and Ginsburg (2017) found that
# $\|w\| / \|g\|$ (weights over gradient) differs between layers by orders of
# magnitude. Their **LARS** gives each layer a step in proportion to the norm of
# its weights:
#
# $$u \leftarrow \beta_1 u + \eta\,\tau\,\frac{\|w\|}{\|g\| + \lambda \|w\|}\,(g + \lambda w),
# \qquad w \leftarrow w - u$$
#
# Here $\eta$ is the learning rate, $u$ the momentum buffer, $\beta_1$ the momentum,
# $\lambda$ the weight decay, and $\tau$ the **trust coefficient**.

# %% [markdown]
# **Question 1** (3 points)
#
# Write one step of LARS for one layer:
# `lars_step(weights, gradient, velocity, rate, momentum, trust, decay)`. With
# the names of the equations above, they are $w$, $g$, $u$, $\eta$, $\beta_1$,
# $\tau$, $\lambda$. Weights, gradient and velocity are arrays of one shape, such
# as `[3, 3, 16, 32]`. If the norm of the weights or the
# denominator is 0, take 1 in place of $\tau$ and the fraction. Return the pair (new weights, new
# velocity).

# %% nbgrader={"grade": false, "grade_id": "q01_lars_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
def lars_step(weights, gradient, velocity, rate, momentum, trust, decay):
    """Return a layer's weights and velocity after one step of LARS."""
    ### BEGIN SOLUTION
    norm = np.sqrt(np.sum(weights**2))
    scale = np.sqrt(np.sum(gradient**2)) + decay * norm
    ratio = trust * norm / scale if norm > 0 and scale > 0 else 1.0
    push = rate * ratio * (gradient + decay * weights)
    velocity = momentum * velocity + push
    return weights - velocity, velocity
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_lars_step
#
# 1. Three lines of formulas: the layer's factor, the velocity, the weights. Norms are
#    over the whole layer, for any shape.
# 2. The factor is trust·‖w‖/(‖g‖ + decay·‖w‖), or 1 where that is not defined. The new
#    velocity is momentum times the old one plus rate·factor·(g + decay·w); the weights
#    lose the new velocity. Don't change the arrays that you are given.
# 3. `norm = np.sqrt(np.sum(weights**2))`

# %% nbgrader={"grade": true, "grade_id": "q01_lars_step_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

w, g, v = np.array([3.0, 4.0]), np.array([0.0, 10.0]), np.array([1.0, 0.0])
new, speed = lars_step(w, g, v, rate=2, momentum=0.5, trust=0.1, decay=0)
assert np.shape(new) == np.shape(speed) == (2,), (
    f"lars_step returned shapes {np.shape(new)} and {np.shape(speed)}, not (2,), the layer's"
)
assert np.allclose(speed, [0.5, 1.0]), f"the factor is 0.05; velocity {speed}"
assert np.allclose(new, [2.5, 3.0]), f"weights {new}"
new, speed = lars_step(w, g, 0 * v, rate=2, momentum=0.5, trust=0.1, decay=2)
assert np.allclose(speed, [0.3, 0.9]), f"0.025 with decay; {speed}"
### BEGIN HIDDEN TESTS
def wanted(w, g, v, rate, momentum, trust, decay):
    size, scale = np.sqrt((w * w).sum()), np.sqrt((g * g).sum())
    scale = scale + decay * size
    ratio = trust * size / scale if size > 0 and scale > 0 else 1
    v = momentum * v + rate * ratio * (g + decay * w)
    return w - v, v


rng = np.random.default_rng(7)
for shape in ((4,), (3, 5), (3, 3, 2, 4)):
    w, g, v = (rng.normal(size=shape) * size for size in (2, 0.3, 0.01))
    for numbers in ((0.5, 0.9, 0.001, 0), (2.0, 0, 0.02, 0.1),
                    (0.1, 0.5, 1.0, 3.0)):
        for layer in ((w, g, v), (w, 50 * g, v), (0 * w, g, v),
                      (w, 0 * g, v), (0 * w, 0 * g, v), (w, g, 0 * v),
                      (1e-3 * w, g, v), (w, 1e-3 * g, v)):
            given = lars_step(*layer, *numbers)
            for value, right in zip(given, wanted(*layer, *numbers)):
                assert np.shape(value) == shape and len(given) == 2
                assert np.allclose(value, right, rtol=1e-5, atol=1e-9)
### END HIDDEN TESTS

# %% [markdown]
# **LAMB** (You et al., 2020, algorithm 2) does the same to Adam's direction. In step $i$,
# counted from 1, for each layer:
#
# $$m \leftarrow \beta_1 m + (1-\beta_1)\,g, \qquad
# v \leftarrow \beta_2 v + (1-\beta_2)\,g^2, \qquad
# d = \frac{m / (1-\beta_1^i)}{\sqrt{v / (1-\beta_2^i)} + \epsilon} + \lambda w$$
#
# $$w \leftarrow w - \eta\,\frac{\|w\|}{\|d\|}\,d$$
#
# **Question 2** (3 points)
#
# Write `lamb_step(weights, gradient, m, v, i, rate, beta_1, beta_2, epsilon, decay)`. All
# but the last six are arrays of one shape. If $\|w\|$ or $\|d\|$ is 0, take 1 in place of
# the fraction. Return the triple (new weights, new $m$, new $v$).

# %% nbgrader={"grade": false, "grade_id": "q02_lamb_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
def lamb_step(
    weights, gradient, m, v, i, rate, beta_1, beta_2, epsilon, decay
):
    """Return a layer's weights and both averages after step i of LAMB."""
    ### BEGIN SOLUTION
    m = beta_1 * m + (1 - beta_1) * gradient
    v = beta_2 * v + (1 - beta_2) * gradient**2
    mean, square = m / (1 - beta_1**i), v / (1 - beta_2**i)
    direction = mean / (np.sqrt(square) + epsilon) + decay * weights
    norm, length = np.linalg.norm(weights), np.linalg.norm(direction)
    trust = norm / length if norm > 0 and length > 0 else 1.0
    return weights - rate * trust * direction, m, v
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_lamb_step
#
# 1. Five lines, in the order of the formulas: m, v, the direction d, the fraction, the
#    weights.
# 2. The corrections 1 − β^i are for the direction only: the m and v that you return are
#    without them. Weight decay belongs to d, before its norm is taken.
# 3. `mean, square = m / (1 - beta_1**i), v / (1 - beta_2**i)`

# %% nbgrader={"grade": true, "grade_id": "q02_lamb_step_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

w, g, zero = np.array([3.0, 4.0]), np.array([0.5, -0.25]), np.zeros(2)
# In the first step the direction is the gradient's sign: of length √2.
new, m, v = lamb_step(w, g, zero, zero, 1, 0.1, 0.9, 0.99, 0, 0)
step = 0.1 * 5 / np.sqrt(2)
assert np.allclose(new, [3 - step, 4 + step]), (
    f"lamb_step returned weights {new}, not {[3 - step, 4 + step]}"
)
assert np.allclose(m, 0.1 * g), f"m is {m}, not {0.1 * g}"
assert np.allclose(v, 0.01 * g**2), f"v is {v}, not {0.01 * g**2}"
new, _, _ = lamb_step(zero, g, zero, zero, 1, 0.1, 0.9, 0.99, 0, 0)
assert np.allclose(new, [-0.1, 0.1]), "weights of 0: the factor is 1"
new, _, _ = lamb_step(w, g, zero, zero, 1, 0.1, 0.9, 0.96, 0, 0.5)
assert np.allclose(new, [2.535762, 3.814305]), (
    f"with decay, along the sign + w / 2, which is [2.5, 1]: {new}"
)
new, _, _ = lamb_step(w, g, zero, zero, 1, 0.1, 0.9, 0.99, 1, 0)
assert np.allclose(new, [2.571254, 4.257248]), (
    f"epsilon 1: along [1/3, -1/5], not to {new}"
)
### BEGIN HIDDEN TESTS
def other_way(w, g, m, v, i, rate, b1, b2, eps, decay):
    m, v = m + (1 - b1) * (g - m), v + (1 - b2) * (g * g - v)
    root = np.sqrt(v / (1 - np.power(b2, i))) + eps
    d = m / (1 - np.power(b1, i)) / root + decay * w
    size, length = np.sqrt((w * w).sum()), np.sqrt((d * d).sum())
    return w - rate * (size / length if size * length else 1) * d, m, v


draw = np.random.default_rng(0)
for shape in ((4,), (3, 3, 2, 5), (1,)):
    for i, eps, decay in ((1, 1e-6, 0.0), (3, 0.5, 0.1), (7, 0.01, 2.0)):
        w, g, m = draw.normal(size=(3, *shape))
        v = draw.uniform(0.1, 1, shape)
        found = lamb_step(w, g, m, v, i, 0.3, 0.9, 0.95, eps, decay)
        right = other_way(w, g, m, v, i, 0.3, 0.9, 0.95, eps, decay)
        for one, other in zip(found, right, strict=True):
            assert np.allclose(one, other, rtol=1e-5, atol=1e-6)
still = lamb_step(np.ones(2), zero, zero, zero, 1, 0.1, 0.9, 0.9, 1e-6, 0)
assert np.allclose(still[0], 1), "no gradient, no decay: no step"
tiny = lamb_step(np.ones(2) / 4, zero + 1, zero, zero, 1, 1, 0.5, 0.5, 1, 0)
assert np.allclose(tiny[0], 0), "the length of the step is that of w"
### END HIDDEN TESTS

# %% [markdown]
# LARS's paper has the trust coefficient 0.001; the course's default is 0.02,
# with correspondingly lower learning rates. **Weight decay** pulls all weights
# toward 0 in every step; it is 0 in *every* configuration here, but not in the papers.
# Biases and the norms' own weights take 1 for the factor.
#
# Your 60 steps are a third of the recorded ones, so SGD (section 1, with a warm-up), LARS and
# LAMB get half of their best recorded learning rates.
#
# **Predict first.** How many points will LARS gain on SGD with warm-up, in your
# run?

# %% tags=["demo"]
guess_lars = None  # points

# %% tags=["demo"]
def layerwise(name, recipe):
    """Train with half of a configuration's best recorded learning rate."""
    half = grids[name].best / 2
    options = dict(fixed, recipe=recipe, learning_rate=half / k)  # at 64
    return launch(
        "train_cifar.py", name=name, workers=workers, warmup_epochs=climb,
        global_batch=large_batch, **options,
    )


lars = layerwise("LARS", "lars")

# %% tags=["demo"]
lamb = layerwise("LAMB", "lamb")

# %% tags=["demo"]
points = lars.result["test_accuracy"] - warm.result["test_accuracy"]
compare_guess(guess_lars, 100 * points, "points that LARS gains in your run")

# %% [markdown]
# One seed, and learning rates that were tuned for more steps: don't believe it yet. The
# recorded configurations have five seeds, a learning rate tuned for each, and both trust coefficients:

# %% tags=["demo", "recorded"]
compare(
    only(configurations, "+ warm-up", "LARS", "LARS, trust 0.001", "LAMB"),
    against="+ warm-up",
)

# %% [markdown] tags=["claims"]
# Between LARS and SGD with warm-up the records do not decide. LAMB is behind SGD with
# warm-up; with ten other seeds of these runs it is still behind, but by less than our margin
# of a point. LARS with its paper's trust coefficient is behind LARS with ours.

# %% [markdown]
# An interval that contains 0 and reaches beyond the margin decides nothing, however
# small its mean: five seeds were too few. With the coefficient 0.001 the
# layers' steps get shorter, but the global rate, raised to suit the layers, also hits
# biases and norms. Does that configuration test *their* learning rate? `bias_rate` gives them a
# part of it, here an eighth, which was chosen like the learning rates. Five other
# seeds:

# %% tags=["demo", "recorded"]
compare(
    [run for run in recorded("lars-biases") if run.result["role"] == "judged"],
    against="LARS",
)

# %% [markdown] tags=["claims"]
# With a separate learning rate for biases and norms, LARS with its paper's coefficient is
# ahead of the same without, and within the margin of LARS with ours.

# %% [markdown]
# You et al. (2020) train BERT with LAMB at batches of up to 65,536, in 8,599 steps
# instead of a million, and its F1 on SQuAD is 90.6, against 90.4 for the baseline.
# Theirs are thousands of steps, ours hundreds.

# %% tags=["demo"]
compare([scaled, root, warm, lars, lamb])

# %% [markdown]
# **A good place to stop.**

# %% [markdown]
# ## 3. A plan, before it runs
#
# Before a run on many GPUs, calculate what it can bring.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q03_plan_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 3** (4 points)
#
# A colleague wants to train this network to 65 % with a batch of 8,192 on 64 GPUs, and has
# planned four epochs of 45,056 images, as for a batch of 64. By *your* fit of lesson 4 (or
# $S_\min$ = 45, $B_\text{crit}$ = 850): how many steps to the target does 8,192 save against
# 1,024, and are four epochs enough? Which learning rates do the two rules give, and which one
# would you not trust? Will warm-up or LARS make up for the missing steps? Which measurement
# would prove you wrong?
#
# === BEGIN MARK SCHEME ===
# 1 point: S_min (1 + B_crit/B) at both batches, with numbers; far less than a
# factor of 8; four epochs are at most 22 steps, below S_min: the target is out of reach.
# 1 point: k = 128: 128 times and 11.3 times the base rate; trusts
# the linear rule least, with a reason. 1 point: neither makes steps, S_min is a
# floor (or another opinion that the records support). 1 point: a measurement
# with a threshold: rate tuned, several seeds.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q03_plan", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# With $S_\min$ = 45 and $B_\text{crit}$ = 850, 1,024 takes 45 (1 + 850/1024) = 82 steps and
# 8,192 takes 45 (1 + 850/8192) = 50: eight times the images a step for 1.7 times fewer steps.
# Lesson 4's curve was too low at 4,096, so the truth is probably worse. Four epochs of 45,056
# images are 22 steps of 8,192, fewer than $S_\min$: the target needs nine epochs or more. With $k$ = 128 the
# linear rule gives 128 times the base rate, the square-root rule 11.3 times. I
# would not trust the linear one: it assumes that the gradient stays the same
# over 128 small steps, which fails far above the critical batch. Warm-up and
# LARS make large steps possible, but $S_\min$ is a floor for their number, so I
# expect no cure. I would be wrong if, with its rate tuned and five seeds, 8,192
# reached the target in at most half the steps of 1,024.
# ### END SOLUTION

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## Things to try
#
# - Launch `warm` (section 1) with twice the learning rate, once with a warm-up
#   and once with `warmup_epochs=0`. What does warm-up rescue now?

# %% [markdown]
# ## Sources
#
# - Goyal et al. (2017), *Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour*, sections 2.1, 2.2, 5.1
# - Hoffer, Hubara, Soudry (2017), *Train longer, generalize better*, section 4
# - Loshchilov, Hutter (2017), *SGDR: Stochastic Gradient Descent with Warm
#   Restarts* (cosine decay)
# - Malladi et al. (2022), *On the SDEs and Scaling Rules for Adaptive Gradient
#   Algorithms*
# - You, Gitman, Ginsburg (2017), *Large Batch Training of Convolutional
#   Networks*, sections 4, 5
# - You et al. (2020), *Large Batch Optimization for Deep Learning: Training BERT
#   in 76 Minutes*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
