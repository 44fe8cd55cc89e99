# %% [markdown]
# # 4. Convergence
#
# **Why does my model learn worse on more workers, and what fixes it?**
#
# | about | this lesson |
# | --- | --- |
# | time | three hours with the exercises, in two sittings: sections 1 to 4, then 5 to 11; the runs alone took 5 minutes on two cores with AMX, and take longer elsewhere |
# | hardware | two cores; for GPUs see section 11 |
# | before this | [Start_Here](../Start_Here.ipynb); [3. Multi-GPU](3.Multi-GPU.ipynb) helps |
#
# Add workers, and you process more pictures a second. Often the model also
# gets worse. Here you find out why, predict where larger batches stop helping,
# check that, and measure what each remedy brings.

# %% [markdown]
# ## How this lesson works
#
# - **Questions** are numbered and show their points. Write code where it says
#   `YOUR CODE HERE`, and words where it says `YOUR ANSWER HERE`. The cell after
#   your code contains tests; there are more, which you don't see.
# - **Stuck?** `hint("q01")` gives a hint, and one more each time. Only you see
#   them.
# - **Predict first**: put your guess into a `guess` cell before you go on. It
#   is shown beside the result. Guesses are not marked.
# - Your own runs are small: 10,240 pictures, one seed. They show you *how*. What
#   the course claims rests on **recorded** runs: more pictures, five seeds, and
#   a learning rate for each arm that was chosen on pictures which neither
#   training nor the final test used.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated pictures
workers = 2
small_batch = 64
large_batch = 1024
seed = 0

# %%
import math

import numpy as np

# %% tags=["demo"]
import pandas as pd
from course import critical, plot, recorded, tuning
from course.convergence.sharpness import MEASURES, rank_correlation, sharpness
from course.training.recipes import REFERENCE_BATCH
from course.training.schedule import Schedule
from ddl import beside, compare, launch
from ddl.pairs import by_seed, paired

SIZES = {  # 10,240 is 160 × 64 and 10 × 1,024: nothing is left over
    "reader": dict(train_samples=10_240, test_samples=10_000, epochs=6),
    "smoke": dict(train_samples=2_048, test_samples=500, epochs=2),
    "full": dict(train_samples=49_152, test_samples=10_000, epochs=30),
}
CLIMB = {"reader": 1, "smoke": 0.5, "full": 5}  # epochs of warm-up
smoke, ghost = size == "smoke", 32
few = max(1, min(workers, small_batch // ghost))
search = recorded("convergence-tuning")  # of a rate for each arm
grids = tuning.grids(search)
base_rate = grids["small batch + BN"].best
fixed = dict(
    SIZES[size], data_set=data_set, seed=seed, recipe="batch_norm",
    learning_rate=base_rate, ghost_batch=ghost, statistics="recomputed",
    precision="auto",
)
large_steps = fixed["train_samples"] // large_batch * fixed["epochs"]

# %% tags=["demo"]
from course import check, hint


def only(runs, *names):
    """Return the runs of these arms."""
    return [run for run in runs if run.name in names]

# %% [markdown]
# ## 1. What changes when workers are added
#
# In data-parallel training every rank takes its part of each batch, in one or
# more **passes** (forward and backward), and all gradients are averaged before
# the weights move:
#
# $$\text{global batch} = \text{ranks} \times \text{passes}
# \times \text{pictures in a pass}$$
#
# Usually the pictures in a pass stay as many as fill a device, so the global
# batch grows with the ranks. The optimizer gets one averaged gradient. It
# cannot tell 32 ranks with one pass from one rank with 32. So two cores can
# find out what 32 workers would do.

# %% [markdown]
# One layer can tell. **Batch norm** gives each channel mean 0 and variance 1
# over the pictures that it looks at together: those of one pass on one rank,
# which Hoffer et al. (2017) call a **ghost batch**. If that size changed along
# with the global batch, you would compare two things at once. So here it is 32
# in every run, whatever the global batch, until section 5 changes it on
# purpose.
#
# **Predict first.** One rank takes eight steps of 1,024 pictures in 32 passes
# each. Then all ranks share the same steps. By how many percent do the two
# training losses differ?

# %% tags=["demo"]
guess_apart = None  # percent

# %% tags=["demo"]
brief = dict(fixed, global_batch=large_batch, steps=2 if smoke else 8)
on_one = launch("train_cifar.py", name="one rank", workers=1, **brief)

# %% tags=["demo"]
on_all = launch(
    "train_cifar.py", name=f"{workers} ranks", workers=workers, **brief
)

# %% tags=["demo"]
ratio = on_all.result["loss"] / on_one.result["loss"]
beside(guess_apart, 100 * abs(ratio - 1), "% between the two losses")

# %% [markdown]
# What is left is rounding. From here on, "1,024" means 32 workers with 32
# pictures each, however many ranks compute them.

# %% [markdown]
# ## 2. What a larger batch costs, and what it buys
#
# Some words first. An **epoch** takes every training picture once. **SGD
# with momentum** moves the weights by the learning rate times the gradient,
# plus 0.9 of the step before. With **cosine decay**, the rate falls from its
# peak to 0 along half a cosine wave. **Held-out** accuracy is measured on
# pictures that were not trained on. Training pictures are mirrored and shifted
# at random (**augmentation**); *clean* training accuracy is measured on them as
# they are.
#
# Two runs see the same pictures six times: one takes 64 at a time, the other
# 1,024. Network and seed are the same, and so is the learning rate: the small
# batch's best of the recorded search.
#
# **Predict first.** By how many points of held-out accuracy is the small batch
# ahead at the end?

# %% tags=["demo"]
guess_ahead = None  # points

# %% tags=["demo"]
small = launch(
    "train_cifar.py", name="small batch + BN", workers=few,
    global_batch=small_batch, keep_weights=True, **fixed,
)

# %% tags=["demo"]
large = launch(
    "train_cifar.py", name="large batch + BN, same rate", workers=workers,
    global_batch=large_batch, keep_weights=True, **fixed,
)

# %% tags=["demo"]
points = small.result["test_accuracy"] - large.result["test_accuracy"]
beside(guess_ahead, 100 * points, "points that the small batch is ahead")

# %% tags=["demo"]
compare([small, large])

# %% [markdown]
# By the usual measure, epochs, both trained equally long. But the large batch
# made 16 times fewer steps. Is that all? Then a small-batch run that ends after
# as many *steps* should be no better than the large one.

# %% tags=["demo"]
short = launch(
    "train_cifar.py", name="small batch + BN, few steps", workers=few,
    global_batch=small_batch, **dict(fixed, steps=large_steps),
)

# %% tags=["demo"]
compare([large, short])

# %% tags=["demo"]
plot.plot_convergence([small, large, short])

# %% [markdown]
# Compare the same runs over epochs and over steps. **Equal epochs** show what
# a budget of samples buys. **Equal steps** show what time buys, if you have
# enough workers. Neither is *the* comparison, and a table that shows only one
# hides half of the answer. (These runs all have one rate; section 6 gives each
# its own.)
#
# A comparison can also go wrong because two things change at once.

# %% [markdown]
# **Question 1** (3 points)
#
# Here are the settings of four runs. All use batch norm.
#
# | run | pictures | epochs | global batch | ranks | passes | sync-BN | rate | seed |
# | --- | --- | --- | --- | --- | --- | --- | --- | --- |
# | A | 10,240 | 8 | 64 | 2 | 1 | no | 0.1 | 0 |
# | B | 10,240 | 8 | 1,024 | 2 | 1 | no | 0.1 | 0 |
# | C | 10,240 | 8 | 1,024 | 2 | 16 | no | 0.1 | 0 |
# | D | 10,000 | 8 | 1,024 | 2 | 16 | no | 0.1 | 0 |
#
# Somebody compares A with B and speaks of the effect of "the batch". But two
# things changed. Write `changed(one, other)`. It takes two such rows as
# dictionaries, with the keys of the test below, and returns the set of what
# differs, in these words:

# %% [markdown]
# - `"global batch"`
# - `"norm batch"`: how many pictures batch norm looks at together: one rank's
#   part of one pass or, with sync-BN, all ranks' parts of one pass
# - `"pictures seen"` in the whole training: an epoch consists of whole global
#   batches, and the remainder is left out
# - `"rate"`, `"seed"`

# %% nbgrader={"grade": false, "grade_id": "q01_changed", "locked": false, "schema_version": 3, "solution": true, "task": false}
def changed(one, other):
    """Return the set of what differs between two runs."""
    ### BEGIN SOLUTION
    def facts(run):
        batch = run["global_batch"]
        parts = run["passes"] * (1 if run["sync_bn"] else run["ranks"])
        return {
            "global batch": batch,
            "norm batch": batch / parts,
            "pictures seen": run["pictures"] // batch * batch * run["epochs"],
            "rate": run["rate"],
            "seed": run["seed"],
        }

    first, second = facts(one), facts(other)
    return {name for name in first if first[name] != second[name]}
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_changed
#
# 1. Write a helper that returns the five facts of *one* run as a dictionary. Then
#    compare the two dictionaries.
# 2. Batch norm sees the global batch divided by the passes and, unless it is
#    synchronous, also by the ranks. Pictures seen: whole global batches in an
#    epoch, times their size, times the epochs.
# 3. `parts = run["passes"] * (1 if run["sync_bn"] else run["ranks"])`

# %% nbgrader={"grade": true, "grade_id": "q01_changed_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
a = dict(pictures=10_240, epochs=8, global_batch=64, ranks=2, passes=1,
         sync_bn=False, rate=0.1, seed=0)
b = dict(a, global_batch=1024)
c = dict(b, passes=16)
d = dict(c, pictures=10_000)
found = set(changed(a, b))
assert found == {"global batch", "norm batch"}, f"A and B: {found}"
found = set(changed(a, c))
assert found == {"global batch"}, f"A and C: {found}"
found = set(changed(c, d))
assert found == {"pictures seen"}, f"C and D: {found}"
### BEGIN HIDDEN TESTS
same = [(a, a), (d, dict(d, pictures=9_300)), (b, dict(b, pictures=11_000)),
        (dict(a, ranks=1), dict(a, ranks=2, sync_bn=True)),
        (dict(a, ranks=4), dict(a, ranks=2, passes=2)),
        (dict(c, ranks=4, sync_bn=True), dict(c, ranks=1)),
        (dict(a, epochs=3), dict(a, epochs=4, pictures=7_680)),
        (dict(a, ranks=1), dict(a, ranks=1, sync_bn=True))]
for one, other in same:
    assert set(changed(one, other)) == set() == set(changed(other, one))
seen = {"pictures seen"}
for one, other, right in (
    (b, dict(b, sync_bn=True), {"norm batch"}),
    (c, dict(c, sync_bn=True), {"norm batch"}),
    (dict(c, sync_bn=True), dict(b, sync_bn=True), {"norm batch"}),
    (a, dict(a, ranks=4), {"norm batch"}),
    (a, dict(a, passes=4), {"norm batch"}),
    (a, dict(b, ranks=32), {"global batch"}),
    (a, dict(a, ranks=8, sync_bn=True), {"norm batch"}),
    (a, dict(a, rate=0.2), {"rate"}), (a, dict(a, seed=1), {"seed"}),
    (a, dict(a, epochs=9), seen), (a, dict(a, pictures=10_176), seen),
    (b, dict(b, pictures=11_264), seen),
    (d, dict(d, global_batch=64, passes=1), {"global batch"} | seen),
    (dict(a, epochs=0.5), dict(a, epochs=1), seen),
    (dict(a, rate=0.1, seed=3), dict(b, rate=1.6, passes=16, seed=4),
     {"global batch", "rate", "seed"}),
):
    assert set(changed(one, other)) == right == set(changed(other, one))
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The critical batch size
#
# Shallue et al. (2019) trained networks to a fixed target with many batch
# sizes, each with its own tuned rate. They found three regions:
#
# 1. *perfect scaling*: twice the batch, half the steps;
# 2. *diminishing returns*: fewer steps, but more than half;
# 3. *maximal data parallelism*: a larger batch saves no step.
#
# McCandlish et al. (2018) describe steps $S$ and samples $E$ to a target by
#
# $$S = S_\min \left(1 + \frac{B_\text{crit}}{B}\right), \qquad
# E = E_\min \left(1 + \frac{B}{B_\text{crit}}\right).$$
#
# At the **critical batch size** $B_\text{crit}$, training takes twice the fewest
# steps and twice the fewest samples.

# %% [markdown]
# ### You run three, and predict the fourth
#
# You train on 45,056 pictures with a *constant* rate, until the accuracy on
# *validation* pictures (training pictures that are set aside) reaches the
# recorded target. Each batch size has the rate that was best for it in the
# recorded search.

# %% tags=["demo", "recorded"]
sweeps = recorded("critical-batch")
curve = critical.critical_batch(sweeps, arm="SGD with momentum")
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
        workers=max(1, min(workers, batch // ghost)), noise_scale=True,
        schedule="constant", held_out="validation",
        **dict(until, learning_rate=best_rate[batch]),
    )


tried = [to_target(batch) for batch in (64, 256, 1024)]

# %% tags=["demo", "recorded"]
own = critical.critical_batch(tried, target=curve.target)
own.table()

# %% [markdown]
# **Predict first.** In how many steps will a batch of 512 get there?

# %% tags=["demo"]
guess_steps = None  # steps at batch 512

# %% tags=["demo", "recorded"]
fourth = to_target(512)

# %% tags=["demo", "recorded"]
by_fit = own.fit.steps(512) if own.has_fit else math.nan
print(f"the curve through your three runs says {by_fit:,.0f} steps")
arrived = critical.reached(fourth, curve.target)
beside(guess_steps, arrived.steps if arrived else "not reached", "steps")

# %% [markdown]
# Now the recorded runs, three seeds per batch size, with your own as stars.
# (Other pictures than CIFAR-10, such as the generated ones, have a curve of
# their own.)

# %% tags=["demo", "recorded"]
plot.plot_critical_batch(curve, reader=[*tried, fourth])

# %% tags=["demo", "recorded"]
curve.table()

# %% [markdown]
# Read the column *times fewer than at half*: 2 is perfect scaling, 1 means that
# the larger batch saved nothing. Your stars have one seed each. How far do
# seeds scatter around the curve? And is the curve right at both ends, or only
# in the middle?
#
# What does the fitted curve say about the two batch sizes of section 2, in
# steps and in samples?

# %% tags=["demo", "recorded"]
plot.plot_batch_size_tradeoff(curve.fit, batches=(64, 1024))

# %% [markdown]
# **Question 2** (3 points)
#
# Write `fit(batches, steps)`: from batch sizes and the steps that each took to
# the target, estimate $S_\min$ and $B_\text{crit}$ in
#
# $$S = S_\min \, (1 + B_\text{crit} / B).$$
#
# That is a straight line in $1/B$. Use all of the points. Runs differ by some
# percent, whether they take 100 steps or 10,000, so *relative* errors should be
# small: `np.polyfit(x, y, 1, w=1 / y)` returns the slope and the intercept of
# the line for which they are. Return the pair ($S_\min$, $B_\text{crit}$).

# %% nbgrader={"grade": false, "grade_id": "q02_fit", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fit(batches, steps):
    """Return the fewest steps S_min and the critical batch size B_crit."""
    ### BEGIN SOLUTION
    batches, steps = np.array(batches, float), np.array(steps, float)
    slope, fewest = np.polyfit(1 / batches, steps, 1, w=1 / steps)
    return fewest, slope / fewest
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_fit
#
# 1. With x = 1/B the formula is a straight line. What is its intercept, and what
#    its slope?
# 2. The intercept is S_min, the slope S_min·B_crit. So the critical batch is the
#    slope over the intercept. Make arrays of the lists first, and give
#    `np.polyfit` the weights 1/y.
# 3. `batches, steps = np.array(batches, float), np.array(steps, float)`

# %% nbgrader={"grade": true, "grade_id": "q02_fit_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right, part=1e-3):
    return math.isclose(value, right, rel_tol=part)


s_min, b_crit = fit([32, 128, 512], [1_700, 500, 200])
assert near(s_min, 100), f"100 (1 + 512/B): S_min is not {s_min}"
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
# ### The gradient noise scale
#
# Can you know $B_\text{crit}$ without trying every batch size? The gradient of
# $B$ pictures is the true gradient $G$ plus noise:
#
# $$\mathbb{E}\,|G_B|^2 = |G|^2 + S/B$$
#
# where $S$ is now the variance of one picture's gradient, summed over all
# weights. $S/|G|^2$ is the **simple noise scale** (McCandlish et al., equation
# 2.9): at that batch size, signal and noise are equal.
#
# Data-parallel training has two gradients anyway: that of a pass (a small
# batch) and the averaged one (a large batch). Two batch sizes make two
# equations.

# %% [markdown]
# **Question 3** (3 points)
#
# Write `noise_scale(small_sq, big_sq, small_batch, big_batch)`. `small_sq` and
# `big_sq` list, step by step, the squared norms of the gradients of
# `small_batch` and of `big_batch` pictures. Solve the two equations above for
# $S$ and $|G|^2$, both averaged over the steps, and return $S/|G|^2$. If
# $|G|^2$ comes out at zero or below, it can't be told from zero: return
# `None`. $S$ may come out below zero, too, by chance: leave it as it is, so
# that means over many steps stay unbiased.

# %% nbgrader={"grade": false, "grade_id": "q03_noise_scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
def noise_scale(small_sq, big_sq, small_batch, big_batch):
    """Return the simple noise scale in samples, or None."""
    ### BEGIN SOLUTION
    small, big = np.mean(small_sq), np.mean(big_sq)
    variance = (small - big) / (1 / small_batch - 1 / big_batch)
    gradient_sq = big - variance / big_batch
    return variance / gradient_sq if gradient_sq > 0 else None
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_noise_scale
#
# 1. Two equations, two unknowns: subtract one from the other, and |G|² is gone.
# 2. Average the squared norms over the steps first, and only then solve. S is the
#    difference of the means over (1/small batch − 1/big batch); put it back into
#    one equation for |G|².
# 3. `small, big = np.mean(small_sq), np.mean(big_sq)`

# %% nbgrader={"grade": true, "grade_id": "q03_noise_scale_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

import numpy as np

# |G|² = 2 and S = 640: 2 + 640/32 = 22 and 2 + 640/64 = 12
value = noise_scale([22.0], [12.0], 32, 64)
assert math.isclose(value, 320, rel_tol=1e-6), f"640 ÷ 2, not {value}"
value = noise_scale([20.0, 24.0], [13.0, 11.0], 32, 64)
assert math.isclose(value, 320, rel_tol=1e-6), f"the same means: {value}"
value = noise_scale([22.0], [11.0], 32, 64)
assert value is None, f"|G|² is 0 here: {value}"
### BEGIN HIDDEN TESTS
for true_sq, scale, low, high in ((3.0, 700.0, 32, 1024), (0.25, 8.0, 1, 2),
                                   (1.5, 0.75, 16, 80), (0.01, 9e3, 8, 512)):
    noise = true_sq * scale
    pair = true_sq + noise / low, true_sq + noise / high
    for swing in (0, 0.1, 0.6):  # of single steps, whose mean stays
        some = [[p * (1 + swing), p * (1 - swing), p] for p in pair]
        some[1].reverse()
        value = noise_scale(*some, low, high)
        assert math.isclose(value, scale, rel_tol=1e-5)
        value = noise_scale(*map(np.array, some), low, high)
        assert math.isclose(value, scale, rel_tol=1e-5)
assert noise_scale([4.0, 4.0], [1.5, 1.5], 1, 2) is None
assert noise_scale([6.0, 2.0], [1.0, 3.0], 1, 2) is None
value = noise_scale([1.0, 1.0, 9.0], [2.0, 2.0, 2.0], 2, 4)
assert math.isclose(value, (5 / 3 / 0.25) / (1 / 3), rel_tol=1e-5)
value = noise_scale([8.0, 8.0, 8.0], [2.0, 2.0, 11.0], 2, 4)
assert math.isclose(value, 12 / 2, rel_tol=1e-5)  # means 8 and 5
value = noise_scale([4.0], [5.0], 1, 2)  # S is -2 here, and |G|² is 6
assert math.isclose(value, -1 / 3, rel_tol=1e-5)
value = noise_scale([5.0, 5.0], [5.0, 5.0], 2, 8)
assert math.isclose(value, 0, abs_tol=1e-9)  # every rank had the same data
### END HIDDEN TESTS

# %% [markdown]
# A single step tells you next to nothing. With two gradients of 32 pictures,
# $|G|^2$ is estimated by their scalar product, which is often negative. So the
# course keeps a **moving average** of each of the two numbers (98 % of the old
# average, 2 % of the new step) before it divides. Your runs measured this while
# they trained:

# %% tags=["demo", "recorded"]
plot.plot_noise_scale([tried[0], tried[2]], batches=(64, 1024))

# %% [markdown]
# Which of the two curves is less noisy? 1,024 pictures are 32 gradients a
# step, not two. As a reference, the recorded estimate at *frozen* weights
# averages over many batches without a single update.
#
# **Predict first.** How many times the critical batch size is the noise scale
# at frozen weights? (For CIFAR-10, McCandlish et al. report a noise scale that
# grows to about 2,000, and a critical batch size of about 900.)

# %% tags=["demo"]
guess_times = None  # noise scale ÷ critical batch size

# %% tags=["demo", "recorded"]
scales = [
    run.result["noise"]["noise_scale"] or math.inf
    for run in recorded("noise-frozen")
]
frozen = critical.Noise(tuple(scales))
beside(guess_times, frozen.middle / curve.fit.critical, "times")

# %% tags=["demo", "recorded"]
judged = [
    run for run in sweeps
    if (run.result["arm"], run.result["role"])
    == ("SGD with momentum", "judged")
]
noise = {"frozen weights": frozen}
for batch in (64, 1024):
    noise[f"live, batch {batch:,}"] = critical.noise(
        run for run in judged if run.result["global_batch"] == batch
    )
plot.plot_critical_batch(curve, noise=noise)

# %% [markdown]
# The simple noise scale ignores curvature, and it changes during training,
# while $B_\text{crit}$ is one number for all of it. So agreement within a
# factor of two or three is as much as you can expect.
#
# Is the critical batch a property of the data, or of the optimizer, too? Zhang
# et al. (2019) found that momentum, and even more so **preconditioning** (a step
# size for each direction, as in Adam or LAMB), move the bend to larger batches.

# %% tags=["demo", "recorded"]
plot.plot_critical_batch([
    critical.critical_batch(sweeps, arm=arm)
    for arm in ("plain SGD", "SGD with momentum", "LAMB")
])

# %% [markdown]
# The lower panel has each optimizer's bend with its 95 % interval. Where two
# intervals overlap a lot, these runs do not rank the two. A later bend is
# worth something only if the curve is not higher everywhere: compare the
# steps, too.

# %% [markdown]
# ## 4. Is there a generalisation gap, and is it sharpness?
#
# So far, the only fault of large batches was too few steps. A **generalisation
# gap** would be something else: *as good in training*, but worse on held-out
# pictures. Keskar et al. (2017) reported one, and a cause: large batches end
# in *sharp* minima, small ones in *flat* ones.

# %% tags=["demo"]
plot.plot_minima()

# %% [markdown]
# If the held-out loss is the training loss shifted a little, the shift costs
# more where it is sharp. That is a picture, not a proof. Hoffer et al. (2017)
# closed most of the gap by training for as many *steps* (**regime
# adaptation**), and Shallue et al. (2019) saw no evidence that larger batches
# do worse on held-out data, once everything was tuned.
#
# So look where a gap should show: with few pictures, neither mirrored nor
# shifted, so that the network can learn them by heart. And compare arms that
# stop at the same *training* loss.
#
# **Predict first.** At the same training loss, how many points of held-out
# accuracy does batch 1,024 lose against 64?

# %% tags=["demo"]
guess_gap = None  # points

# %% tags=["demo", "recorded"]
regimes = [
    run for run in recorded("generalisation") if run.result["role"] == "judged"
]
matched = [run for run in regimes if run.name.endswith("to a loss")]
lost = paired(
    by_seed(only(regimes, "large batch, to a loss"), "test_accuracy"),
    by_seed(only(regimes, "small batch, to a loss"), "test_accuracy"),
)
beside(guess_gap, 100 * lost.mean, "points lost at equal training loss")

# %% tags=["demo", "recorded"]
compare(
    [run for run in regimes if run not in matched], against="small batch"
)

# %% tags=["demo", "recorded"]
compare(matched, against="small batch, to a loss")

# %% tags=["demo", "recorded"]
plot.plot_differences(matched, against="small batch, to a loss")

# %% [markdown]
# The first table has equal epochs and, in its last row, equal steps. The
# second has equal training losses, each batch size at two rates. Each
# difference is **paired**: what a seed does to both arms cancels. The line is
# the 95 % interval of the mean difference. If it crosses 0, the sign is not
# known. "No difference" is a *claim*, and needs an interval inside a margin
# that was set before (here ±1 point, shaded).

# %% [markdown]
# **Question 4** (4 points)
#
# Write `verdict(first, second, margin)`. `first` and `second` map seeds to the
# held-out accuracy (%) of two arms. Take the differences second − first of the
# seeds that both have, and their 95 % interval: mean ± $t\,s/\sqrt n$, where
# $s$ is the sample standard deviation (divided by $n-1$) and $t$ is
# `T95[n - 1]`. Return
#
# - `"no difference"` if the whole interval lies within ± `margin`;
# - otherwise `"better"` if all of it is above 0, `"worse"` if all is below;
# - otherwise `"not decided"`, also if fewer than two seeds are shared.

# %%
T95 = dict(enumerate(  # Student's t for a 95 % interval, by n - 1
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262], 1
))

# %% nbgrader={"grade": false, "grade_id": "q04_verdict", "locked": false, "schema_version": 3, "solution": true, "task": false}
def verdict(first, second, margin):
    """Return what paired seeds say of `second` against `first`."""
    ### BEGIN SOLUTION
    pairs = [second[seed] - first[seed] for seed in first if seed in second]
    if len(pairs) < 2:
        return "not decided"
    spread = np.std(pairs, ddof=1) / math.sqrt(len(pairs))
    half = T95[len(pairs) - 1] * spread
    low, high = np.mean(pairs) - half, np.mean(pairs) + half
    if -margin < low and high < margin:
        return "no difference"
    if low > 0:
        return "better"
    return "worse" if high < 0 else "not decided"
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q04_verdict
#
# 1. Pair by seed: one list of differences. Everything else is computed from that
#    list.
# 2. Fewer than two pairs: not decided. Else the half width is T95[n − 1] times
#    the standard deviation (ddof=1) over √n. Check for “no difference” first,
#    then for better and worse.
# 3. `pairs = [second[seed] - first[seed] for seed in first if seed in second]`

# %% nbgrader={"grade": true, "grade_id": "q04_verdict_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
first = {0: 70.0, 1: 74.0, 2: 66.0, 3: 72.0, 4: 68.0}
up = {seed: value + 3 + seed / 4 for seed, value in first.items()}
word = verdict(first, up, 1.0)
assert word == "better", f"every seed gains 3 to 4 points: {word!r}"
word = verdict(up, first, 1.0)
assert word == "worse", f"the other way round: {word!r}"
near_by = {seed: value + (-1) ** seed / 4 for seed, value in first.items()}
word = verdict(first, near_by, 1.0)
assert word == "no difference", f"± a quarter of a point: {word!r}"
word = verdict(first, near_by, 0.1)
assert word == "not decided", f"with a margin of 0.1: {word!r}"
### BEGIN HIDDEN TESTS
def moved(*by):
    return {seed: first[seed] + some for seed, some in enumerate(by)}


for by, margin, word in (
    ((0.5, 0.6, 0.4, 0.5, 0.55), 1, "no difference"),  # above 0, but small
    ((0.5, 0.6, 0.4, 0.5, 0.55), 0.55, "better"),
    ((-0.5, -0.6, -0.4, -0.5, -0.55), 0.55, "worse"),
    ((-0.5, -0.6, -0.4, -0.5, -0.55), 1, "no difference"),
    ((1, 2), 5, "not decided"),  # 1.5 ± 6.4
    ((1, 2), 9, "no difference"), ((1, 2), 7.5, "not decided"),
    ((5.9, 7.1), 1, "not decided"),  # 6.5 ± 7.6, ± 5.4 with n in place of n-1
    ((5.9, 6.8), 1, "better"), ((-6.8, -5.9), 1, "worse"),
    ((1, 2, 3), 1, "not decided"),  # 2 ± 2.48
    ((1.3, 2, 2.7), 1, "better"), ((-1.3, -2, -2.7), 1, "worse"),
    ((1.3, 2, 2.7), 3.9, "no difference"), ((1.3, 2, 2.7), 3.6, "better"),
    ((0, 0, 0, 0, 0), 0.1, "no difference"),
    ((9, 1, 5, 3, 4), 1, "better"),  # 4.4 ± 3.7
    ((9, 1, 5, 3, 0.4), 1, "not decided"),  # 3.7 ± 4.2
    ((9, 1, 5, 3, 4), 8.3, "no difference"), ((9, 1, 5, 3, 4), 7.8, "better"),
    ((4, 4.2, 4.4, 4.3, -2.4), 1, "not decided"),  # 2.9 ± 3.7
    ((-4, -4.2, -4.4, -4.3, 2.4), 1, "not decided"),
    ((9.0,), 1, "not decided"), ((), 1, "not decided"),
):
    assert verdict(first, moved(*by), margin) == word
some = {seed: first[seed] + 2 for seed in (4, 2, 3)} | {7: 0, 9: 99}
assert verdict(first, some, 1) == "better"
assert verdict(some, first, 1) == "worse"
few, more = {0: 1, 1: 2, 2: 3}, dict.fromkeys(range(9), 0)
assert verdict(few, more, 1) == "not decided"  # three pairs: -2 ± 2.48
assert verdict(more, few, 1) == "not decided"
assert verdict(first, {8: 70, 9: 70}, 1) == "not decided"
assert verdict({0: 1, 5: 2}, {5: 2, 6: 1}, 1) == "not decided"
many = {seed: 60 + seed for seed in range(10)}
lower = {seed: 59 + seed + (-1) ** seed for seed in range(10)}  # ± 0.75
assert verdict(many, lower, 1) == "worse"
assert verdict(many, lower, 2) == "no difference"
tenth = {seed: 62.49 + seed + 3.3 * (-1) ** seed for seed in range(10)}
assert verdict(many, tenth, 1) == "better"  # 2.49 ± 2.488
tenth = {seed: 62.48 + seed + 3.3 * (-1) ** seed for seed in range(10)}
assert verdict(many, tenth, 1) == "not decided"
### END HIDDEN TESTS

# %% [markdown]
# ### Sharpness, measured
#
# The **Hessian** is the matrix of all second derivatives of the loss. Its largest
# **eigenvalue** is the curvature along the steepest direction: sharpness. The
# matrix has billions of entries, but a *product* with a vector costs only a few
# gradients, and a few such products are enough (Lanczos' method). The **trace**,
# the sum of all eigenvalues, comes from products with random vectors
# (Hutchinson).
#
# Your two runs of section 2 kept their weights. A **slice** walks from them in a
# random direction in which each **filter** (the weights of one output channel)
# is as long as the network's own (Li et al., 2018), so that networks with large
# and with small weights can be compared.

# %% tags=["demo"]
products = dict(
    workers=workers, eigenvalues=1, samples=64 if smoke else 512,
    chunk=32 if smoke else 256, iterations=3 if smoke else 8,
)
around = [
    launch("landscape.py", name=run.name, weights=run.id,
           measure=["eigenvalue", "slices"], **products)
    for run in (small, large)
]

# %% tags=["demo"]
plot.plot_slices(around)

# %% [markdown]
# Is the wider valley the better one? Before you answer: Dinh et al. (2017)
# multiply weights so that the network computes *the same function*. Batch norm
# divides by the scale of what comes in, so you may multiply every kernel before
# it by 0.5, and no output changes.
#
# **Predict first.** By what factor does the largest eigenvalue change?

# %% tags=["demo"]
guess_factor = None  # times as sharp

# %% tags=["demo"]
rescaled = launch(
    "landscape.py", name="rescaled", weights=small.id, alphas=[0.5, 2.0],
    measure=["eigenvalue", "invariant", "rescaling"], **products,
)

# %% tags=["demo"]
def sharp(figures):
    return figures["eigenvalues"][0]


rows = [dict(rescaled.result, alpha=1.0), *rescaled.result["rescaling"]]
table = pd.DataFrame({
    "kernels times": [row["alpha"] for row in rows],
    "loss": [row["loss"] for row in rows],
    "largest eigenvalue": [sharp(row["eigenvalue"]) for row in rows],
    "by relative change": [sharp(row["invariant"]) for row in rows],
})
factor = table["largest eigenvalue"][1] / table["largest eigenvalue"][0]
beside(guess_factor, factor, "times as sharp")

# %% tags=["demo"]
table

# %% [markdown]
# The same function can be as sharp as you like: the eigenvalue alone cannot
# explain how well a network generalises. The last column measures curvature by
# *relative* change of each filter, and stays the same.
#
# Does either of them rank the recorded networks by their held-out *loss*, or
# by their held-out *error*, the pictures that they get wrong? All of these
# stopped at the same training loss. A rank correlation of +1 means that the
# sharper of two networks always does worse, 0 that sharpness says nothing.

# %% tags=["demo", "recorded"]
plot.plot_sharpness(recorded("landscape"))

# %% tags=["demo", "recorded"]
plot.plot_sharpness(recorded("landscape"), y="test_error")

# %% [markdown]
# Look at the interval of each correlation before you read its sign. It treats the
# networks as independent, but they are four settings with five seeds each.
# And even a clear correlation would not say that sharpness *causes* anything:
# batch size and rate differ between these networks as well.

# %% [markdown]
# *End of the first sitting.* To go on another day, run the cells of sections 1
# and 2 again, then go on here.

# %% tags=["demo"]
check()

# %% [markdown]
# ## 5. One axis of norms
#
# Batch norm may look at 32 pictures, or at all 1,024. With **synchronous** batch
# norm (`sync_bn=True`) the ranks exchange their statistics in every layer:
#
# ![Left: each rank normalises with the mean and variance of its own 512
# pictures. Right: sums are exchanged in every layer, so that all ranks
# normalise over all 1,024.](../images/batch_norm.svg)
#
# A small ghost batch has noisy statistics. Does that harm or help? Hoffer et
# al. (2017) found small ghost batches *better*.
#
# **Predict first.** At a global batch of 1,024: which ghost batch gives the
# highest held-out accuracy in the recorded runs, 32, 64, 128, 512 or all 1,024?

# %% tags=["demo"]
guess_ghost = None  # pictures

# %% tags=["demo"]
synchronous = launch(
    "train_cifar.py", name="synchronous, 1024", workers=workers,
    global_batch=large_batch,
    **dict(fixed, sync_bn=True, ghost_batch=large_batch // workers),
)

# %% tags=["demo"]
compare([large, synchronous])

# %% tags=["demo", "recorded"]
ghosts = recorded("ghost-batches")
ranking = compare(ghosts).sort_values("test_accuracy")
beside(guess_ghost, ranking["arm"].iloc[-1], "has the highest mean")

# %% tags=["demo", "recorded"]
plot.plot_differences(ghosts, against="ghost batch 32")

# %% [markdown]
# In training, a norm uses the statistics of its ghost batch; in an evaluation,
# those of many pictures. Usually these are moving averages of past batches,
# which lag behind the weights. Here they are **recomputed** from 1,000 training
# pictures before each evaluation, so that the arms differ only in how they
# trained.

# %% [markdown]
# **Question 5** (3 points)
#
# Synchronous batch norm computes the mean and the variance over the whole
# global batch, although no rank sees all of its pictures. Write
# `whole_batch(means, variances)`. Both arguments are lists with one array for
# each ghost batch, with one number for each channel. All ghost batches are
# equally large, and variances are divided by their number of pictures, not by
# one less. Return the pair (mean, variance) of the whole batch, by channel.

# %% nbgrader={"grade": false, "grade_id": "q05_whole_batch", "locked": false, "schema_version": 3, "solution": true, "task": false}
def whole_batch(means, variances):
    """Return the mean and the variance of the batch that ghosts make up."""
    ### BEGIN SOLUTION
    between = np.var(means, axis=0)
    return np.mean(means, axis=0), np.mean(variances, axis=0) + between
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q05_whole_batch
#
# 1. The mean is easy, as all ghosts are equally large. Does the variance only
#    average, too, if the ghosts' means differ?
# 2. Variance of the whole = mean of the variances *within* the ghosts + variance
#    of the means *between* them. Work along the first axis, so that channels stay
#    apart.
# 3. `between = np.var(means, axis=0)`

# %% nbgrader={"grade": true, "grade_id": "q05_whole_batch_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

# one channel: the ghosts 0, 2 and 4, 6 make up 0, 2, 4, 6
means, variances = [np.array([1.0]), np.array([5.0])], [np.array([1.0])] * 2
mean, variance = whole_batch(means, variances)
assert np.shape(mean) == np.shape(variance) == (1,), "one number a channel"
assert np.allclose(mean, 3), f"the mean of 0, 2, 4, 6 is not {mean}"
assert np.allclose(variance, 5), f"their variance is not {variance}"
### BEGIN HIDDEN TESTS
rng = np.random.default_rng(5)
for parts, count, channels in ((2, 3, 1), (3, 8, 4), (32, 32, 3), (1, 5, 2)):
    centre = rng.normal(size=(parts, 1, channels)) * 2 + 1
    batch = centre + rng.normal(size=(parts, count, channels))
    mean, variance = whole_batch(list(batch.mean(axis=1)),
                                 list(batch.var(axis=1)))
    every = batch.reshape(-1, channels)
    assert np.shape(mean) == np.shape(variance) == (channels,)
    assert np.allclose(mean, every.mean(axis=0))
    assert np.allclose(variance, every.var(axis=0))
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Scale the learning rate
#
# With $k$ times the batch, one step replaces $k$ steps. If the gradient hardly
# changes over those, a step of $k\eta$ gets as far: the **linear rule** of
# Goyal et al. (2017, section 2.1). To keep the *noise* of each step instead,
# use the **square-root rule**, $\sqrt k\,\eta$: the noise of a mean of $B$
# pictures shrinks with $\sqrt B$ (Hoffer et al., 2017).
#
# **Predict first.** Here $k$ is 16. How many times as high is the recorded best
# rate of batch 1,024 as that of 64?

# %% tags=["demo"]
guess_rates = None  # times

# %% tags=["demo", "recorded"]
ratio = grids["large batch + BN"].best / grids["small batch + BN"].best
beside(guess_rates, ratio, "times the small batch's best rate")

# %% tags=["demo", "recorded"]
plot.plot_tuning(only(search, "small batch + BN", "large batch + BN"))

# %% [markdown]
# Each arm has its own grid of rates, a factor of 2 apart, which grew until the
# best was not at its edge. It was searched on *validation* pictures, with seeds
# that are not judged: choosing on the test pictures would flatter every arm. A
# rule is right if its rate is near the top of the curve, not if it beats *no*
# scaling. Try both rules:

# %% tags=["demo"]
scaled = launch(
    "train_cifar.py", name="+ linear scaling", workers=workers,
    global_batch=large_batch, **dict(fixed, recipe="scale_lr"),
)

# %% tags=["demo"]
root = launch(
    "train_cifar.py", name="+ square-root scaling", workers=workers,
    global_batch=large_batch,
    **dict(fixed, recipe="sqrt_lr", warmup_epochs=0),
)

# %% tags=["demo"]
plot.plot_convergence([large, scaled, root], x="epochs")

# %% [markdown]
# The recorded arms, at the rule's rate and at their own best:

# %% tags=["demo", "recorded"]
arms = recorded("convergence-cifar10")
compare(
    only(arms, "large batch + BN, same rate", "+ linear scaling",
         "large batch + BN"),
    against="large batch + BN",
)

# %% [markdown]
# The first row has the large batch's own best rate, so the others say what each
# choice costs against it. "Same rate" is what you get if you add workers and
# change nothing.

# %% [markdown]
# ## 7. Warm up
#
# The network changes fastest at the start, where the linear rule holds least.
# So Goyal et al. (section 2.2) start at $\eta$ and climb to $k\eta$ over the
# first epochs: 5 of their 90.
#
# A schedule should be a **pure function** of the step: you can plot it before
# you run anything. Horovod's callback shows what happens otherwise. Until 2017
# it climbed from `initial_lr` to `initial_lr × size`; since then
# ([#88](https://github.com/horovod/horovod/pull/88)) from `initial_lr / size`
# to `initial_lr`, so it wants the *scaled* rate; and since 2020
# ([#2459](https://github.com/horovod/horovod/pull/2459)) you have to state it.
# Examples from before are off by the number of ranks, without an error.

# %% tags=["demo"]
epochs, climb = fixed["epochs"], CLIMB[size]
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

# %% [markdown]
# **Question 6** (3 points)
#
# Write `rate_at(step, steps, climb, base, batch, rule)`: the learning rate at a
# step, from 0 to `steps`. `base` is the rate at a batch of 64. The *peak* is
# `base` times $k$ for the rule `"linear"`, times $\sqrt k$ for `"sqrt"`, where
# $k$ is `batch` / 64. From step 0 on, the rate climbs in a straight line from
# `base` to the peak, which it reaches at step `climb`. From there it follows
# half a cosine wave, from the peak down to 0 at step `steps`. If `climb` is 0,
# it starts at the peak. For any other rule, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q06_rate_at", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q06_rate_at
#
# 1. Compute the peak first, then ask on which side of `climb` the step is.
# 2. The peak is base·k or base·√k. Climbing: from base, the share step/climb of
#    the way up. After it: how much of the rest is done, from 0 to 1, and (1 +
#    cos(π·done))/2 of the peak.
# 3. `done = (step - climb) / (steps - climb)`

# %% nbgrader={"grade": true, "grade_id": "q06_rate_at_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6, abs_tol=1e-12)


for step, right in ((0, 0.1), (5, 0.85), (10, 1.6), (50, 0.8), (90, 0)):
    value = rate_at(step, 90, 10, 0.1, 1024, "linear")
    assert near(value, right), f"linear, step {step}: {value}, not {right}"
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
# **Predict first.** How many points does warm-up add to the linear rule, in the
# recorded runs?

# %% tags=["demo"]
guess_warm = None  # points

# %% tags=["demo"]
warm = launch(
    "train_cifar.py", name="+ linear scaling, warm-up", workers=workers,
    global_batch=large_batch,
    **dict(fixed, recipe="warmup", warmup_epochs=climb),
)

# %% tags=["demo"]
plot.plot_convergence([large, scaled, warm], x="epochs")

# %% tags=["demo", "recorded"]
gain = paired(
    by_seed(only(arms, "+ linear scaling"), "test_accuracy"),
    by_seed(only(arms, "+ linear scaling, warm-up"), "test_accuracy"),
)
beside(guess_warm, 100 * gain.mean, "points that warm-up adds")

# %% tags=["demo", "recorded"]
compare(
    only(arms, "+ linear scaling", "+ linear scaling, warm-up",
         "+ square-root scaling, warm-up"),
    against="+ linear scaling",
)

# %% [markdown]
# Warm-up and the square-root rule do something similar: both keep the first
# steps short. So ask of each remedy what it adds to the *others*. Warm-up also
# costs steps: one of four epochs here, 5 of 90 in the paper.

# %% [markdown]
# ## 8. A step size for each layer
#
# One rate has to suit all layers. You, Gitman and Ginsburg (2017) found that
# $\|w\| / \|g\|$ (weights over gradient) differs between layers by orders of
# magnitude. Their **LARS** gives each layer a step in proportion to the norm of
# its weights:
#
# $$\lambda = \eta\,\frac{\|w\|}{\|g\| + \beta \|w\|}, \qquad
# v \leftarrow m v + \gamma \lambda (g + \beta w), \qquad w \leftarrow w - v$$
#
# Here $\gamma$ is the learning rate, $m$ the momentum, $\beta$ the weight decay,
# $v$ the velocity, and $\eta$ the **trust ratio**. **LAMB** (You et al., 2020)
# does the same to Adam's direction.

# %% [markdown]
# **Question 7** (3 points)
#
# Write one step of LARS for one layer:
# `lars_step(weights, gradient, velocity, rate, momentum, trust, decay)`. With
# the names of the equations above, they are $w$, $g$, $v$, $\gamma$, $m$,
# $\eta$, $\beta$. Weights, gradient and velocity are arrays of one shape, such
# as `[3, 3, 16, 32]`. If the norm of the weights or the denominator of
# $\lambda$ is 0, take $\lambda = 1$. Return the pair (new weights, new
# velocity).

# %% nbgrader={"grade": false, "grade_id": "q07_lars_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
# q07_lars_step
#
# 1. Three lines of formulas: the ratio λ, the velocity, the weights. Norms are
#    over the whole layer, whatever its shape.
# 2. λ = trust·‖w‖/(‖g‖ + decay·‖w‖), or 1 where that is not defined. The new
#    velocity is momentum times the old one plus rate·λ·(g + decay·w); the weights
#    lose the new velocity. Don't change the arrays that you are given.
# 3. `norm = np.sqrt(np.sum(weights**2))`

# %% nbgrader={"grade": true, "grade_id": "q07_lars_step_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

w, g, v = np.array([3.0, 4.0]), np.array([0.0, 10.0]), np.array([1.0, 0.0])
new, speed = lars_step(w, g, v, rate=2, momentum=0.5, trust=0.1, decay=0)
assert np.shape(new) == np.shape(speed) == (2,), "the shape of the layer"
assert np.allclose(speed, [0.5, 1.0]), f"λ is 0.05; velocity {speed}"
assert np.allclose(new, [2.5, 3.0]), f"weights {new}"
new, speed = lars_step(w, g, 0 * v, rate=2, momentum=0.5, trust=0.1, decay=2)
assert np.allclose(speed, [0.3, 0.9]), f"λ is 0.025 with decay; {speed}"
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
# The paper's trust ratio is 0.001; the course's default is 0.02, with
# correspondingly lower rates. **Weight decay** pulls all weights towards 0 in
# every step; it is 0 in *every* arm of this lesson, but not in the papers.
# Biases and the norms' own weights take $\lambda = 1$.
#
# **Predict first.** How many points will LARS gain on SGD with warm-up, in your
# run?

# %% tags=["demo"]
guess_lars = None  # points

# %% tags=["demo"]
layerwise = dict(  # with the optimizers' own base rates
    fixed, learning_rate=None, warmup_epochs=climb, global_batch=large_batch
)
lars = launch(
    "train_cifar.py", name="LARS", workers=workers,
    **dict(layerwise, recipe="lars"),
)

# %% tags=["demo"]
lamb = launch(
    "train_cifar.py", name="LAMB", workers=workers,
    **dict(layerwise, recipe="lamb"),
)

# %% tags=["demo"]
points = lars.result["test_accuracy"] - warm.result["test_accuracy"]
beside(guess_lars, 100 * points, "points that LARS gains in your run")

# %% [markdown]
# One seed, and rates from another number of pictures: don't believe it yet. The
# recorded arms have five seeds, a rate of their own each, and both trust ratios:

# %% tags=["demo", "recorded"]
compare(
    only(arms, "+ warm-up", "LARS", "LARS, trust 0.001", "LAMB"),
    against="+ warm-up",
)

# %% [markdown]
# Read the last two columns together. An interval that reaches beyond the margin
# on both sides of 0 decides nothing, however small its mean.

# %% [markdown]
# ## 9. The comparison
#
# First your own arms, at equal epochs and at equal steps. With one seed no
# difference has an interval, so nothing is decided.

# %% tags=["demo"]
mine = [small, short, large, synchronous, scaled, root, warm, lars, lamb]
compare(mine, against=small.name)

# %% tags=["demo"]
compare(mine, at="steps", steps=large_steps)

# %% [markdown]
# Now the recorded ones. Arms are named after what they add. "Same rate" has
# the small batch's best rate; "scaling" has the rate that a rule derives from
# it; all others, even those without batch norm, have the best of their own
# grid. Runs compute in bfloat16 where the processor is faster in it; the
# caption says so.
#
# **Predict first.** How many points behind the small batch is the *best*
# large-batch arm?

# %% tags=["demo"]
guess_left = None  # points

# %% tags=["demo", "recorded"]
table = compare(arms, against="small batch + BN", margin=1.0)
behind = table[table["global_batch"] == 1024].sort_values("test_accuracy")
beside(
    guess_left, -behind["difference_points"].iloc[-1],
    f"points that the best, {behind['arm'].iloc[-1]}, is behind",
)

# %% tags=["demo", "recorded"]
table

# %% tags=["demo", "recorded"]
plot.plot_differences(arms, against="small batch + BN", margin=1.0)

# %% tags=["demo", "recorded"]
plot.plot_convergence(only(
    arms, "small batch + BN", "large batch + BN", "+ linear scaling, warm-up",
    "LARS", "LAMB",
))

# %% [markdown]
# ## 10. What it shows, and what it does not
#
# Each sentence stands beside the cell that computes its numbers.
#
# **Predict first.** Of batch norm, the best rate, and a step size for each
# layer: which helps the large batch most?

# %% tags=["demo"]
guess_most = None  # "batch norm", "rate" or "layers"

# %% tags=["demo", "recorded"]
def accuracy(name):
    """Return an arm's held-out accuracy in percent, by seed."""
    found = by_seed(only(arms, name), "test_accuracy")
    return {seed: 100 * value for seed, value in found.items()}


def say(what, one, other):
    """Print other − one, paired by seed, and what that decides."""
    pair = paired(one, other)
    print(f"{what}: {pair.mean:+.1f} points ({pair.low:+.1f} to "
          f"{pair.high:+.1f}, {pair.n} pairs): {pair.verdict(1.0)}")
    return pair.mean


# %% tags=["demo", "recorded"]
best, warmed = accuracy("large batch + BN"), accuracy("+ warm-up")
means = {
    "batch norm": say("batch norm", accuracy("large batch"), best),
    "rate": say("rate", accuracy("large batch + BN, same rate"), best),
    "layers": say("layers", warmed, accuracy("LARS")),
}
beside(guess_most, max(means, key=means.get), "brings most")

# %% [markdown]
# **Equal epochs.** The large batch against the small one, each at its own best
# rate: how much is lost, and is it lost in training, too?

# %% tags=["demo", "recorded"]
compare(
    only(arms, "small batch + BN", "large batch + BN"),
    against="small batch + BN",
)

# %% [markdown] tags=["claims"]
# At equal epochs the large batch is behind the small one, each at its own best
# rate. It is behind on the pictures that it trained on, too.

# %% [markdown]
# **Equal steps.** The large batch against a small one that stops after as many
# steps:

# %% tags=["demo", "recorded"]
equal = say("equal steps", accuracy("small batch + BN, few steps"), best)

# %% [markdown] tags=["claims"]
# At equal steps it is far ahead.

# %% [markdown]
# **Batch norm** could help the large batch in particular. Then its gain there
# would be larger than at the small batch:

# %% tags=["demo", "recorded"]
gains = []
for name in ("small batch", "large batch"):
    bare, normed = accuracy(name), accuracy(f"{name} + BN")
    gains.append({seed: normed[seed] - bare[seed] for seed in bare})
extra = say("gain at 1,024 minus gain at 64", *gains)

# %% [markdown] tags=["claims"]
# Batch norm helps the large batch more than the small one.

# %% [markdown]
# **The rules**: how far each stays below the best rate, and what warm-up
# changes.

# %% tags=["demo", "recorded"]
linear = accuracy("+ linear scaling")
climbed = accuracy("+ linear scaling, warm-up")
rooted = accuracy("+ square-root scaling, warm-up")
plain = accuracy("large batch + BN, same rate")
below = say("linear rule, against no scaling", plain, linear)
added = say("with warm-up, against the best rate without", best, climbed)
moved = say("square root for linear, both warmed up", climbed, rooted)
short_of = say("linear rule, against the best rate, both", warmed, climbed)

# %% [markdown] tags=["claims"]
# The linear rule without a warm-up is far worse than no scaling at all. With a
# warm-up it beats the best rate that has none. After a warm-up there is no
# difference between the linear and the square-root rule. Both fall short of the
# best rate, which lies between them.

# %% [markdown]
# **LARS and LAMB**, against SGD with warm-up at its own best rate:

# %% tags=["demo", "recorded"]
for name in ("LARS", "LARS, trust 0.001", "LAMB"):
    say(name, warmed, accuracy(name))

# %% [markdown] tags=["claims"]
# Between LARS and SGD with warm-up the records do not decide. LAMB is behind SGD
# with warm-up. LARS at its paper's trust ratio is behind LARS at ours. Nothing
# closes the gap to the small batch.

# %% [markdown]
# **The critical batch size**: found, and predicted by the noise scale.

# %% tags=["demo", "recorded"]
found = {
    arm: critical.critical_batch(recorded("critical-batch"), arm=arm)
    for arm in ("plain SGD", "SGD with momentum", "LAMB")
}
for arm, curve in found.items():
    print(f"{arm}: critical batch {curve.fit}; fewest steps "
          f"{curve.fit.steps_min:,.0f}, samples {curve.fit.samples_min:,.0f}")
curve = found["SGD with momentum"]
print(f"with momentum: perfect scaling up to {curve.perfect_until}, next to "
      f"no step saved from {curve.maximal_from} on")

# %% tags=["demo", "recorded"]
estimates = {"at frozen weights": critical.Noise(tuple(
    run.result["noise"]["noise_scale"] or math.inf
    for run in recorded("noise-frozen")
))}
for batch in (64, 1024):
    estimates[f"live, batch {batch:,}"] = critical.noise(
        run for run in recorded("critical-batch")
        if run.name == f"SGD with momentum, batch {batch}"
        and run.result["role"] == "judged"
    )
for what, scale in estimates.items():
    low, high = scale.spread
    print(f"noise scale {what}: {scale.middle:,.0f} (middle 80 %: {low:,.0f} "
          f"to {high:,.0f}); critical batch ÷ noise scale: "
          f"{curve.fit.critical / scale.middle:.1f}")

# %% [markdown] tags=["claims"]
# The critical batch size of SGD with momentum lies between 400 and 900. From
# 32 to 64 the steps halve, and from 2,048 on a larger batch saves next to
# none. The noise scale, live or at frozen weights, lies within a factor of
# three of it. At frozen weights it is larger at an accuracy of 65 % than at 50
# %, for every seed. Plain SGD bends earlier and LAMB later, and the three
# intervals do not overlap. So no single number, such as the noise scale, lies
# within a factor of two of all three. At 64 LAMB takes more steps than SGD
# with momentum, at 4,096 fewer.

# %% [markdown]
# **The gap**, with few pictures that are neither mirrored nor shifted: at equal
# epochs, at equal steps, and at equal training loss.

# %% tags=["demo", "recorded"]
regimes = [
    run for run in recorded("generalisation") if run.result["role"] == "judged"
]


def among(name, figure="test_accuracy"):
    """Return a figure of an arm that may learn by heart, in percent."""
    found = by_seed(only(regimes, name), figure)
    return {seed: 100 * value for seed, value in found.items()}


for name in ("large batch", "large batch, equal steps"):
    say(name, among("small batch"), among(name))
    known = among(name, "clean_accuracy").values()
    print(f"    training accuracy: {np.mean(list(known)):.1f} %")
by_heart = among("small batch", "clean_accuracy").values()
print(f"small batch: training accuracy {np.mean(list(by_heart)):.1f} %")

# %% tags=["demo", "recorded"]
at_loss = among("small batch, to a loss")
for name in ("large batch", "small batch, low rate", "large batch, low rate"):
    say(f"{name}, to a loss", at_loss, among(f"{name}, to a loss"))

# %% [markdown] tags=["claims"]
# At equal epochs the large batch is more than five points behind, but it has
# not learned its pictures, and the small one has. At equal steps it has
# learned all of them and is still behind. At equal training loss it is behind,
# too. So is the small batch with an eighth of its rate, and between these two
# the records do not decide. With an eighth of its rate the large batch is
# behind all three.

# %% [markdown]
# **Sharpness**, of these networks at equal training loss:

# %% tags=["demo", "recorded"]
table = sharpness(recorded("landscape"))
for column, measure in MEASURES.items():
    for figure in ("test_loss", "test_error"):
        print(f"{measure}, {figure}: "
              f"{rank_correlation(table[column], table[figure])}")
columns = [*MEASURES, "trace", "test_loss", "test_error"]
pd.DataFrame(table).groupby("arm", sort=False)[columns].mean()

# %% [markdown] tags=["claims"]
# By both measures the sharper network has the higher held-out error. By
# neither does it have the higher held-out loss: both intervals contain 0. An
# eighth of the rate ends in a sharper place, at both batch sizes and for every
# seed.

# %% [markdown]
# **Norms.** Every ghost batch against 32, at a global batch of 1,024:

# %% tags=["demo", "recorded"]
compare(recorded("ghost-batches"), against="ghost batch 32")

# %% [markdown] tags=["claims"]
# Against a ghost batch of 32 every interval contains 0. For 64 and for 512 there is
# no difference, and for 128 and synchronous batch norm the records do not decide.

# %% [markdown]
# So Hoffer et al.'s order, small ghost batches first, does not show here.
# Perhaps four epochs are too few for the noise of small ghost batches to
# prevent much.
#
# Not shown: other networks and data, longer training, weight decay, real GPUs.
# Goyal et al. train on ImageNet for 90 epochs, about 14,000 steps at batch
# 8,192; here are far fewer. A remedy that makes large steps *possible* needs
# time to show it. Where this lesson disagrees with a paper, that is the first
# difference to look at.

# %% [markdown]
# ## 11. On GPUs: a plan, before it runs
#
# With `size = "full"`, `workers` set to the number of your GPUs and
# `large_batch = 8192`, the same cells train on 49,152 pictures. Nobody has
# measured that for you. So plan it first.
#
# **Predict first.** What learning rate does the linear rule give for 8,192, and
# would you try it?

# %% tags=["demo"]
guess_linear = None  # learning rate

# %% tags=["demo"]
def plan(size, batches):
    """Return steps, warm-up and rates of a size, by batch."""
    samples, epochs = SIZES[size]["train_samples"], SIZES[size]["epochs"]
    scale = {batch: batch / REFERENCE_BATCH for batch in batches}
    return pd.DataFrame({
        "batch": batches,
        "epochs": [epochs] * len(batches),
        "steps": [samples // batch * epochs for batch in batches],
        "warm-up": [samples // batch * CLIMB[size] for batch in batches],
        "linear": [base_rate * k for k in scale.values()],
        "square root": [base_rate * k**0.5 for k in scale.values()],
    }).set_index("batch")


planned = plan("full", (64, 1024, 8192))
beside(guess_linear, planned["linear"][8192], "by the linear rule")

# %% tags=["demo"]
planned

# %% [markdown]
# Compare the row of 8,192 with section 3: its steps with your $S_\min$, its
# batch with your $B_\text{crit}$, and $k$ = 128 with the best ratio in section
# 6. Start with the square-root rule and a grid around it, factor 2, on
# validation pictures (`held_out="validation"`). The small batch uses fewer
# ranks, so that a ghost batch still has 32 pictures.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q08_plan_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 8** (4 points)
#
# A colleague wants to train this network with a batch of 8,192 on 64 GPUs, for
# as many epochs as you trained with 64. Predict: how many steps to the target
# does this save against 1,024 (calculate with *your* fit of section 3)? Which
# rates do the two rules give, and which one would you not trust? Will warm-up
# or LARS make up for the missing steps? Which measurement would prove you
# wrong?
#
# === BEGIN MARK SCHEME ===
# 1 point: S_min (1 + B_crit/B) at both batches, with numbers; far less than a
# factor of 8. 1 point: k = 128: 128 times and 11.3 times the base rate; trusts
# the linear rule least, with a reason. 1 point: neither makes steps, S_min is a
# floor (or another opinion that the records support). 1 point: a measurement
# with a threshold: rate tuned, several seeds.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q08_plan", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# If my fit gave, say, $S_\min$ = 400 and $B_\text{crit}$ = 500, then 1,024
# takes 400 (1 + 500/1024) = 595 steps and 8,192 takes 400 (1 + 500/8192) = 424:
# eight times the pictures a step for 1.4 times fewer steps. With $k$ = 128 the
# linear rule gives 128 times the base rate, the square-root rule 11.3 times. I
# would not trust the linear one: it assumes that the gradient stays the same
# over 128 small steps, which fails far above the critical batch. Warm-up and
# LARS make large steps possible, but $S_\min$ is a floor for their number, so I
# expect no cure. I would be wrong if, with its rate tuned and five seeds, 8,192
# reached the target in at most half the steps of 1,024.
# ### END SOLUTION

# %% [markdown]
# ## Your answers so far
#
# The button saves the notebook, runs its cells again from top to bottom, and
# says which questions pass the tests that you can see. A question's number
# links to your answer. A person reads the written answer.

# %% tags=["demo"]
check()

# %% [markdown]
# ## Things to try
#
# - Launch `scaled` and `warm` with `learning_rate=2 * base_rate`. What does
#   warm-up rescue now?
# - Give the large batch 16 times the epochs, as many steps as the small one.
#   Does the gap close, as Hoffer et al. say?
# - Launch `small` with `identical_data=True` and `noise_scale=True`: every rank
#   gets the same pictures, a common mistake. What does the noise scale read?
# - `to_target(2048)`: what does your curve predict, and what happens?

# %% [markdown]
# ## Sources
#
# - Dinh et al. (2017), *Sharp Minima Can Generalize For Deep Nets*, sections 3, 4
# - Goyal et al. (2017), *Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour*, sections 2.1, 2.2, 5.1
# - Hoffer, Hubara, Soudry (2017), *Train longer, generalize better*, sections 4,
#   5
# - Keskar et al. (2017), *On Large-Batch Training for Deep Learning*, section 2
# - Li et al. (2018), *Visualizing the Loss Landscape of Neural Nets*, section 4
# - Loshchilov, Hutter (2017), *SGDR: Stochastic Gradient Descent with Warm
#   Restarts* (cosine decay)
# - McCandlish et al. (2018), *An Empirical Model of Large-Batch Training*,
#   section 2, appendix A
# - Shallue et al. (2019), *Measuring the Effects of Data Parallelism on Neural
#   Network Training*, section 4

# %% [markdown]
# - You, Gitman, Ginsburg (2017), *Large Batch Training of Convolutional
#   Networks*, sections 4, 5
# - You et al. (2018), *ImageNet Training in Minutes*
# - You et al. (2020), *Large Batch Optimization for Deep Learning: Training BERT
#   in 76 Minutes*
# - Zhang et al. (2019), *Which Algorithmic Choices Matter at Which Batch Sizes?
#   Insights From a Noisy Quadratic Model*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
