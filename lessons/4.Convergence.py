# %% [markdown]
# # 4. Convergence
#
# **Why does my model learn worse on more workers, and what fixes it?**
#
# | about | this lesson |
# | --- | --- |
# | time | 75 minutes, of which the runs take 3 to 8, depending on the processor |
# | hardware | two cores |
# | before this | [Start_Here](../Start_Here.ipynb); [3. Multi-GPU](3.Multi-GPU.ipynb) helps |
#
# With more ranks the global batch grows. Your own runs are small and have one seed:
# they show the method. Claims rest on **recorded** runs of five seeds, in section 2
# of three.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated images
workers = 2
small_batch = 64
large_batch = 1024
seed = 0

# %%
import math

import numpy as np

# %% tags=["demo"]
import json

from course import check, compare_guess, critical, hint, plot, recorded, tuning
from course import working
from course.training import schedule
from ddl import compare, launch
from ddl.paired_stats import by_seed, paired

SIZES = {  # 10,240 is 160 × 64 and 10 × 1,024: nothing is left over
    "reader": dict(train_samples=10_240, test_samples=10_000, epochs=6),
    "smoke": dict(train_samples=2_048, test_samples=500, epochs=2),
}
smoke, ghost = size == "smoke", 32

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


def accuracy(name):
    """Return a configuration's held-out accuracy in percent, by seed."""
    found = by_seed(only(configurations, name), "test_accuracy")
    return {seed: 100 * value for seed, value in found.items()}

# %% tags=["demo"]
def say(what, one, other):
    """Print other − one, paired by seed, and what that decides."""
    pair = paired(one, other)
    print(f"{what}: {pair.mean:+.1f} points ({pair.low:+.1f} to "
          f"{pair.high:+.1f}, {pair.n} pairs): {pair.verdict(1.0)}")
    return pair.mean

# %% [markdown]
# ## 1. What a larger batch costs, and what it buys
#
# The optimizer gets one averaged gradient for each **global batch**, from 32 ranks or
# from one rank that accumulates the gradients of 32 **passes**, forward and backward. Two
# runs see the same images six times, 64 or 1,024 at a time. Both use **batch norm** (BN)
over 32 images ([4b](4b.Convergence-in-Depth.ipynb) says why).
#
# **Predict first.** By how many points of **held-out** accuracy (on images not trained
# on) is the small batch ahead at the end?

# %% tags=["demo"]
guess_ahead = None  # points

# %% tags=["demo"]
small = launch(
    "train_cifar.py", name="small batch + BN", workers=1,
    global_batch=small_batch, **fixed,
)

# %% tags=["demo"]
large = launch(
    "train_cifar.py", name="large batch + BN, same rate", workers=workers,
    global_batch=large_batch, **fixed,
)

# %% tags=["demo"]
points = small.result["test_accuracy"] - large.result["test_accuracy"]
compare_guess(guess_ahead, 100 * points,
              "points that the small batch is ahead")

# %% tags=["demo"]
plot.plot_convergence([small, large])

# %% [markdown]
# Both trained equally long in **epochs**, but the large batch took a sixteenth of the
# **steps**. In the recorded runs each has its own best learning rate. A third configuration takes
# the small batch for as few steps as the large one, so it sees a sixteenth of the images;
# its learning rate was not tuned.

# %% tags=["demo", "recorded"]
small_seeds, large_seeds = (
    accuracy(f"{name} batch + BN") for name in ("small", "large")
)
say("equal epochs", small_seeds, large_seeds)
say("equal steps", accuracy("small batch + BN, few steps"), large_seeds);

# %% [markdown] tags=["claims"]
# At equal epochs the large batch is behind the small one, each at its own best
# learning rate. It also does worse on its own training images. At equal steps it is
# ahead by more than ten points.

# %% [markdown]
# ## 2. The critical batch size
#
# McCandlish et al. (2018) describe steps $S$ and samples $E$ to a target by
#
# $$S = S_\min \left(1 + \frac{B_\text{crit}}{B}\right), \qquad
# E = E_\min \left(1 + \frac{B}{B_\text{crit}}\right).$$
#
# At the **critical batch size** $B_\text{crit}$, training takes twice the fewest steps
# and twice the fewest samples. You train to 65 % with three batch sizes, each at its best
# learning rate, and predict the steps of a batch four times as large as your largest.

# %% tags=["demo", "recorded"]
sweeps = recorded("critical-batch")
curve = critical.critical_batch(sweeps, configuration="SGD with momentum")
best_rate = {point.batch: point.rate for point in curve.points}

# %% tags=["demo", "recorded"]
def to_target(batch):
    """Train with this batch size until the target is reached."""
    looks = 45_056 * (1 + batch / 500) / 24  # samples between evaluations
    until = dict(
        fixed, train_samples=45_056, epochs=12, test_samples=None,
        target_accuracy=curve.target, evaluate_every=round(looks / batch),
    )
    if smoke:
        until = dict(fixed, steps=4)
    return launch(
        "train_cifar.py", name=f"batch {batch}", global_batch=batch,
        workers=max(1, min(workers, batch // ghost)),
        schedule="constant", held_out="validation",
        **dict(until, learning_rate=best_rate[batch]),
    )


tried = [to_target(batch) for batch in (64, 256, 1024)]

# %% tags=["demo", "recorded"]
arrivals = [critical.reached(run, curve.target) for run in tried]
at = {run.result["global_batch"]: there.steps
      for run, there in zip(tried, arrivals) if there}
print({batch: round(steps) for batch, steps in at.items()}, "steps")

# %% [markdown]
# **Question 1** (3 points)
#
# Write `fit(batches, steps)`: from batch sizes and the steps that each took to the
# target, estimate both constants of
#
# $$S = S_\min \, (1 + B_\text{crit} / B).$$
#
# That is a straight line in $1/B$. Use all of the points. Runs differ by a few percent, so
# minimize *relative* errors: `np.polyfit(x, y, 1, w=1 / y)` does, and returns slope and
# intercept. Return the pair ($S_\min$, $B_\text{crit}$).

# %% nbgrader={"grade": false, "grade_id": "q01_fit", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fit(batches, steps):
    """Return the fewest steps S_min and the critical batch size B_crit."""
    ### BEGIN SOLUTION
    batches, steps = np.array(batches, float), np.array(steps, float)
    slope, fewest = np.polyfit(1 / batches, steps, 1, w=1 / steps)
    return fewest, slope / fewest
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_fit
#
# 1. With x = 1/B the formula is a straight line. What is its intercept, and what
#    its slope?
# 2. The intercept is S_min, the slope S_min·B_crit. So the critical batch is the
#    slope over the intercept. Make arrays of the lists first, and give
#    `np.polyfit` the weights 1/y.
# 3. `batches, steps = np.array(batches, float), np.array(steps, float)`

# %% nbgrader={"grade": true, "grade_id": "q01_fit_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right, part=1e-3):
    return math.isclose(value, right, rel_tol=part)


s_min, b_crit = fit([32, 128, 512], [1_700, 500, 200])
assert near(s_min, 100), (
    f"fit returned S_min = {s_min}, not 100: the steps are 100 (1 + 512/B)"
)
assert near(b_crit, 512), f"100 (1 + 512/B): B_crit is not {b_crit}"
### BEGIN HIDDEN TESTS
doubled = [32, 64, 128, 256, 512, 1024, 2048, 4096]
for fewest, bend in ((250, 900), (1_000, 100), (80.5, 60), (40, 2_500)):
    for some in (doubled, doubled[:3], [100, 17, 3_000, 800], doubled):
        exact = [fewest * (1 + bend / batch) for batch in some]
        s_min, b_crit = fit(some, exact)
        assert near(s_min, fewest) and near(b_crit, bend)
    s_min, b_crit = fit(doubled[2:7:4], exact[2:7:4])  # two are enough
    assert near(s_min, fewest) and near(b_crit, bend)
# some percent more and less, as seeds give
swings = [0.9, 1.03, 1.08, 1.11, 0.9, 0.9, 0.95, 1.11]
for turn in (1, -1):
    noisy = [200 * (1 + 600 / batch) * swing**turn
             for batch, swing in zip(doubled, swings)]
    s_min, b_crit = fit(doubled, noisy)
    assert near(s_min, 200, 0.06) and near(b_crit, 600, 0.06)
### END HIDDEN TESTS

# %% [markdown]
# **Predict first.** By your three points (with generated images: by the recorded ones), in how
# many steps does a batch of 4,096 get there?

# %% tags=["demo"]
guess_steps = None  # steps at batch 4,096

# %% tags=["demo", "recorded"]
def course_fit(batches, steps):
    found = critical.fit(batches, steps)
    return found.steps_min, found.critical


if tried[0].result["data"]["name"] != "cifar10":  # as the recorded runs
    at = {p.batch: p.steps for p in curve.points
          if p.batch in (64, 256, 1024)}
line = working(fit, course_fit, [32, 128, 512], [1_700, 500, 200])
s_min, b_crit = line([*at], [*at.values()]) if len(at) > 1 else (math.nan, 0)
print(f"S_min {s_min:,.0f}, B_crit {b_crit:,.0f}: batch 4,096 takes "
      f"{s_min * (1 + b_crit / 4096):,.0f} steps by your curve")
largest = curve.points[-1]  # 4,096
seeds = sorted(run.steps for run in largest.seeds.values())
compare_guess(guess_steps, largest.steps,
              f"steps, recorded ({seeds[0]:.0f} to {seeds[-1]:.0f})")

# %% [markdown] tags=["claims"]
# At 4,096 each of the recorded runs takes longer than a curve through the recorded
# batches of 64, 256 and 1,024 says. All batches of these runs together also reject the
# curve, because they differ from it by more than seeds do: lack of fit has p < 0.01.

# %% [markdown]
# The curve bends into its floor too slowly, so $B_\text{crit}$ depends on it: trust its
# order of magnitude, and no prediction far outside your points.
#
# Gradients can predict $B_\text{crit}$. The **gradient noise scale** is the variance of single
# images' gradients over the squared length of their mean,
# $\operatorname{tr}\Sigma / |G|^2$: below that many images an average is mostly noise,
# so a larger batch helps. The recorded runs, with your own as stars, and the noise
# scale at weights that stay the same:

# %% tags=["demo", "recorded"]
noise = critical.Noise(tuple(
    run.result["noise"]["noise_scale"] or math.inf
    for run in recorded("noise-frozen")
))
plot.plot_critical_batch(curve, noise={"noise scale": noise}, reader=tried)

# %% [markdown]
# The interval in the figure assumes the curve. In the table of McCandlish et al. the noise
# scale of four of eight tasks is off by a factor of 4 to 20, so expect the order of
# magnitude. Between tasks both differ by far more:

# %% tags=["demo", "recorded"]
plot.plot_tasks(curve, noise)

# %% [markdown]
# From a digit to a game of Dota 2, the useful batch grows from hundreds to millions of
# samples. The harder the task and the lower its loss, the less the gradients of two
# samples agree, and the more of them are worth averaging. Language models count batches in
# *tokens* ([4b](4b.Convergence-in-Depth.ipynb), section 6).

# %% [markdown]
# ## 3. Scale the learning rate, and warm up
#
# One step with $k$ times the batch replaces $k$ steps. If the gradient barely changes
# over those, a step of $k\eta$ gets as far: the **linear rule** (Goyal et al., 2017).
# The **square-root rule** takes $\sqrt k\,\eta$.
#
# **Predict first.** Here $k$ is 16. By what factor does the recorded best learning
# rate grow from batch 64 to 1,024?

# %% tags=["demo"]
guess_rates = None  # times

# %% tags=["demo", "recorded"]
ratio = grids["large batch + BN"].best / grids["small batch + BN"].best
compare_guess(guess_rates, ratio, "times the small batch's best rate")

# %% tags=["demo", "recorded"]
plot.plot_tuning(only(search, "small batch + BN", "large batch + BN"))

# %% [markdown]
# The network changes fastest at the start, where the linear rule is least accurate. So
# Goyal et al. **warm up**: they climb from $\eta$ to $k\eta$ over the first epochs.
#
# **Question 2** (3 points)
#
# Write `rate_at(step, steps, climb, base, batch, rule)`: the learning rate at a step,
# from 0 to `steps`. `base` is the learning rate for a batch of 64. The *peak* is `base`
# times $k$ for the rule `"linear"`, times $\sqrt k$ for `"sqrt"`, where $k$ is `batch` /
# 64. For any other rule, raise a `ValueError`. From `base` at step 0, the learning rate
# climbs in a straight line to the peak at step `climb`. From there it follows half a
# cosine wave down to 0 at step `steps`. If `climb` is 0, it starts at the peak.

# %% nbgrader={"grade": false, "grade_id": "q02_rate_at", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rate_at(step, steps, climb, base, batch, rule):
    """Return the learning rate at a step."""
    ### BEGIN SOLUTION
    powers = {"linear": 1, "sqrt": 0.5}
    if rule not in powers:
        raise ValueError(f"{rule!r} is neither 'linear' nor 'sqrt'")
    peak = base * (batch / 64) ** powers[rule]
    if step < climb:
        return base + (peak - base) * step / climb
    done = (step - climb) / (steps - climb)
    return peak * (1 + math.cos(math.pi * done)) / 2
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_rate_at
#
# 1. Compute the peak first, then ask on which side of `climb` the step is.
# 2. The peak is base·k or base·√k. Climbing: from base, the share step/climb of
#    the way up. After it: how much of the rest is done, from 0 to 1, and (1 +
#    cos(π·done))/2 of the peak.
# 3. `done = (step - climb) / (steps - climb)`

# %% nbgrader={"grade": true, "grade_id": "q02_rate_at_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-5, abs_tol=1e-6)


for step, right in ((0, 0.1), (5, 0.85), (10, 1.6), (30, 1.365685),
                    (50, 0.8), (90, 0)):
    value = rate_at(step, 90, 10, 0.1, 1024, "linear")
    assert near(value, right), (
        f"rate_at step {step}, linear, returned {value}, not {right}"
    )
value = rate_at(10, 90, 10, 0.1, 1024, "sqrt")
assert near(value, 0.4), f"sqrt: the peak is 0.4, not {value}"
### BEGIN HIDDEN TESTS
for rule, peak in (("linear", 0.8), ("sqrt", 0.2)):
    for steps, rising in ((80, 20), (33, 1), (40, 0), (7, 5)):
        for step in range(steps + 1):
            part = step / rising if step < rising else None
            half = math.pi * (step - rising) / (steps - rising)
            right = (0.05 + (peak - 0.05) * part if part is not None
                     else peak * (0.5 + 0.5 * math.cos(half)))
            value = rate_at(step, steps, rising, 0.05, 1024, rule)
            assert near(value, right)
assert near(rate_at(0, 10, 0, 0.1, 32, "linear"), 0.05)  # k is a half
assert near(rate_at(4, 10, 4, 2, 16, "sqrt"), 1)
assert near(rate_at(1, 10, 4, 2, 16, "sqrt"), 1.75)
assert near(rate_at(3, 12, 4, 0.3, 64, "linear"), 0.3)
assert near(rate_at(2, 9, 2, 0.2, 96, "linear"), 0.3)  # k is 1.5
assert near(rate_at(2, 9, 2, 0.2, 320, "sqrt"), 0.2 * 5**0.5)
for rule in ("fixed", "Linear", None, "", "lin"):
    for step in (0, 3, 10):
        try:
            rate_at(step, 10, 3, 0.1, 64, rule)
        except ValueError:
            pass
        else:
            raise AssertionError("there is no such rule")
### END HIDDEN TESTS

# %% [markdown]
# Train the large batch with your learning rates, by the square-root rule:

# %% tags=["demo"]
rate = working(rate_at, schedule.rate_at, 5, 90, 10, 0.1, 1024, "linear")
epoch_steps = fixed["train_samples"] // large_batch
steps = epoch_steps * fixed["epochs"]
rates = [rate(step, steps, epoch_steps, base_rate, large_batch, "sqrt")
         for step in range(steps)]
with open("rates.json", "w") as file:
    json.dump(rates, file)

warm = launch(
    "train_cifar.py", name="+ square-root scaling, warm-up", workers=workers,
    global_batch=large_batch, rates="rates.json", **fixed,
)
plot.plot_convergence([small, large, warm])

# %% [markdown]
# It gets further in the same 60 steps. The linear rule's peak, four times as high, is too
# much for 60 steps: try `"linear"`. The recorded runs have 176.
#
# **Predict first.** How many points does warm-up add to the linear rule, in the
# recorded runs?

# %% tags=["demo"]
guess_warm = None  # points

# %% tags=["demo", "recorded"]
gain = paired(
    by_seed(only(configurations, "+ linear scaling"), "test_accuracy"),
    by_seed(only(configurations, "+ linear scaling, warm-up"), "test_accuracy"),
)
compare_guess(guess_warm, 100 * gain.mean, "points that warm-up adds")

# %% tags=["demo", "recorded"]
linear = accuracy("+ linear scaling, warm-up")
plain = accuracy("large batch + BN, same rate")
say("linear rule, against no scaling", plain, accuracy("+ linear scaling"))
say("with warm-up, against the best without", large_seeds, linear)
rooted = accuracy("+ square-root scaling, warm-up")
say("square root for linear, both warmed up", linear, rooted)
say("linear, against the best, both warmed up", accuracy("+ warm-up"), linear);

# %% [markdown] tags=["claims"]
# The linear rule without a warm-up is worse than no scaling at all by more than ten
# points. With a warm-up it beats the best learning rate that has none. After a
# warm-up the linear and the square-root rule differ by less than our margin of a point. In
# these runs both fall short of the best learning rate, which lies between them. With ten
# other seeds the linear rule and that best rate differ by less than the margin.

# %% [markdown]
# By what factor does the best learning rate grow, now with a warm-up? Rates are steps of 2
# apart with two seeds each, so take all within 0.2 points of the best:

# %% tags=["demo", "recorded"]
def near_best(configuration):
    means = grids[configuration].means
    return [r for r in means if means[r] > means[grids[configuration].best] - 0.002]


single = near_best("small batch + BN")
for configuration in ("large batch + BN", "+ warm-up"):
    rates = near_best(configuration)
    print(f"{configuration}: {rates[0] / single[-1]:g} to {rates[-1] / single[0]:g} "
          "times; by the linear rule 16 times")

# %% [markdown]
# So this grid cannot tell a factor of 8 from the linear rule's 16.

# %% [markdown] tags=["recipe"]
# In your own script, with Keras and Horovod:
#
# ```python
# import horovod.tensorflow.keras as hvd
# import tensorflow_addons as tfa  # TensorFlow <= 2.15; Keras 3: keras.optimizers.Lamb
#
# layer = tf.keras.layers.BatchNormalization()
# optimizer = tf.keras.optimizers.SGD(0.05 * hvd.size())  # or
# optimizer = tfa.optimizers.LAMB(0.0025)  # then initial_lr=0.0025
# optimizer = hvd.DistributedOptimizer(optimizer)
# climb = hvd.callbacks.LearningRateWarmupCallback(
#     initial_lr=0.05 * hvd.size(), warmup_epochs=1, momentum_correction=False)
# ```

# %% [markdown]
# ## 4. The comparison
#
# The table has all recorded **configurations** (each with runs of different seeds), each
# named after what it adds. **LARS** and **LAMB** give each layer a step size of its own
# ([4c](4c.Rules-and-Layers.ipynb), section 2).
#
# **Predict first.** How many points behind the small batch is the *best* large-batch configuration?

# %% tags=["demo"]
guess_left = None  # points

# %% tags=["demo", "recorded"]
table = compare(configurations, against="small batch + BN", margin=1.0)
behind = table[table["global_batch"] == 1024].sort_values("test_accuracy")
compare_guess(guess_left, -behind["difference_points"].iloc[-1],
              f"points that the best, {behind['configuration'].iloc[-1]}, is behind")

# %% tags=["demo", "recorded"]
table

# %% tags=["demo", "recorded"]
plot.plot_differences(configurations, against="small batch + BN", margin=1.0)

# %% [markdown] tags=["claims"]
# Nothing closes the gap to the small batch. With ten other seeds a warm-up helps the small
# batch of these runs as well; with a warm-up on both sides, the large batch trails by more
# than three points.

# %% [markdown]
# Each line is the 95 % interval of a mean difference, **paired** by seed. "Within the
# margin" means an interval within ±1 point, so a smaller difference may exist; "not decided" says
# that five seeds were too few. At 1,024 these runs take 176 steps; Goyal et al. took about
# 14,000.
#
# Is the rest a **generalization gap**: as good in training, but worse on held-out
# images? [4b](4b.Convergence-in-Depth.ipynb), sections 3 and 4, measures that, and whether
# large batches end in *sharp* minima.
#
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - At equal epochs a large batch takes fewer **steps**. Where images can be memorized,
#   that explains about half of the lost accuracy
#   ([4b](4b.Convergence-in-Depth.ipynb), section 3).
# - Far beyond the **critical batch size** more ranks save few steps.
# - A higher learning rate needs a **warm-up**, and has to be tuned.
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
