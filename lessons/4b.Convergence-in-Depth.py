# %% [markdown]
# # 4b. Convergence in depth
#
# **How do noise, sharpness and batch norm explain what large batches do?**
#
# | about | this notebook |
# | --- | --- |
# | time | 95 minutes, in three sittings |
# | hardware | two cores |
# | before this | [4. Convergence](4.Convergence.ipynb) |
#
# Your own runs are small and have one seed: they show the method. Every claim rests on
# **recorded** runs with three to ten seeds, of 45,056 images (5,120 in sections 3 and 4).
# [4c](4c.Rules-and-Layers.ipynb) continues with what helps large batches.
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | what changes, and noise | 1 to 2 | 45 |
# | gap and sharpness | 3 to 4 | 30 |
# | norms, and today's practice | 5 to 6 | 20 |

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
import pandas as pd

from course import check, compare_guess, critical, hint, plot, recorded, tuning
from course.convergence.sharpness import sharpness, within_settings
from ddl import compare, launch
from ddl.paired_stats import by_seed, paired

SIZES = {  # 10,240 is 160 × 64 and 10 × 1,024: nothing is left over
    "reader": dict(train_samples=10_240, test_samples=10_000, epochs=6),
    "smoke": dict(train_samples=2_048, test_samples=500, epochs=2),
    "full": dict(train_samples=49_152, test_samples=10_000, epochs=30),
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


def only(runs, *names):
    """Return the runs of these configurations."""
    return [run for run in runs if run.name in names]

# %% [markdown]
# ## 1. What changes when ranks are added
#
# Every rank takes its part of each batch in one or more **passes** (forward and
# backward), and all gradients are averaged before the weights move:
#
# $$\text{global batch} = \text{ranks} \times \text{passes}
# \times \text{images in a pass}$$
#
# The optimizer cannot tell 32 ranks with one pass from one rank with 32. So two cores can
# find out what 32 ranks would do.
#
# One layer can tell. **Batch norm** gives each channel mean 0 and variance 1 over the
# images of one pass on one rank, which Hoffer et al. (2017) call a **ghost batch**. If
# it changed along with the global batch, you would compare two things at once. So it
# is 32 in every run until section 5.

# %% [markdown]
# **Question 1** (3 points)
#
# Four runs, all with batch norm; sync-BN is synchronous batch norm (section 5):
#
# | run | images | epochs | global batch | ranks | passes | sync-BN | learning rate | seed |
# | --- | --- | --- | --- | --- | --- | --- | --- | --- |
# | A | 10,240 | 8 | 64 | 2 | 1 | no | 0.1 | 0 |
# | B | 10,240 | 8 | 1,024 | 2 | 1 | no | 0.1 | 0 |
# | C | 10,240 | 8 | 1,024 | 2 | 16 | no | 0.1 | 0 |
# | D | 10,000 | 8 | 1,024 | 2 | 16 | no | 0.1 | 0 |
#
# From A to B not only "the batch" changed, but two things. Write `changed(one,
# other)`. It takes two such rows as dictionaries, with the keys of the test below,
# and returns the set of what differs, in these words:
#
# - `"global batch"`
# - `"norm batch"`: how many images batch norm looks at together: one rank's
#   part of one pass or, with sync-BN, all ranks' parts of one pass
# - `"images seen"` in the whole training: an epoch consists of whole global
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
            "images seen": run["images"] // batch * batch * run["epochs"],
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
#    synchronous, also by the ranks. Images seen: whole global batches in an
#    epoch, times their size, times the epochs.
# 3. `parts = run["passes"] * (1 if run["sync_bn"] else run["ranks"])`

# %% nbgrader={"grade": true, "grade_id": "q01_changed_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
a = dict(images=10_240, epochs=8, global_batch=64, ranks=2, passes=1,
         sync_bn=False, rate=0.1, seed=0)
b = dict(a, global_batch=1024)
c = dict(b, passes=16)
d = dict(c, images=10_000)
found = set(changed(a, b))
assert found == {"global batch", "norm batch"}, (
    f"changed(a, b) returned {found}, not the global batch and the norm batch"
)
found = set(changed(a, c))
assert found == {"global batch"}, f"A and C: {found}"
found = set(changed(c, d))
assert found == {"images seen"}, f"C and D: {found}"
found = set(changed(dict(b, sync_bn=True), dict(c, sync_bn=True)))
assert found == {"norm batch"}, f"passes keep their own norm batches: {found}"
found = set(changed(d, dict(d, images=9_300)))
assert found == set(), f"9 steps of 1,024 either way: {found}"
### BEGIN HIDDEN TESTS
same = [(a, a), (b, dict(b, images=11_000)),
        (dict(a, ranks=1), dict(a, ranks=2, sync_bn=True)),
        (dict(a, ranks=4), dict(a, ranks=2, passes=2)),
        (dict(c, ranks=4, sync_bn=True), dict(c, ranks=1)),
        (dict(a, epochs=3), dict(a, epochs=4, images=7_680)),
        (dict(a, ranks=1), dict(a, ranks=1, sync_bn=True))]
for one, other in same:
    assert set(changed(one, other)) == set() == set(changed(other, one))
seen = {"images seen"}
for one, other, right in (
    (b, dict(b, sync_bn=True), {"norm batch"}),
    (c, dict(c, sync_bn=True), {"norm batch"}),
    (dict(c, sync_bn=True), dict(b, sync_bn=True), {"norm batch"}),
    (a, dict(a, ranks=4), {"norm batch"}),
    (a, dict(a, passes=4), {"norm batch"}),
    (a, dict(b, ranks=32), {"global batch"}),
    (a, dict(a, ranks=8, sync_bn=True), {"norm batch"}),
    (a, dict(a, rate=0.2), {"rate"}), (a, dict(a, seed=1), {"seed"}),
    (a, dict(a, epochs=9), seen), (a, dict(a, images=10_176), seen),
    (b, dict(b, images=11_264), seen),
    (d, dict(d, global_batch=64, passes=1), {"global batch"} | seen),
    (dict(a, epochs=0.5), dict(a, epochs=1), seen),
    (dict(a, rate=0.1, seed=3), dict(b, rate=1.6, passes=16, seed=4),
     {"global batch", "rate", "seed"}),
):
    assert set(changed(one, other)) == right == set(changed(other, one))
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The gradient noise scale
#
# Can you know $B_\text{crit}$ without trying every batch size? The gradient
# $g$ of $B$ images is the true gradient $G$ plus noise:
#
# $$\text{mean of } |g|^2 = |G|^2 + \operatorname{tr}\Sigma / B$$
#
# where $\operatorname{tr}\Sigma$ is the variance of one image's gradient,
# summed over all weights. $\operatorname{tr}\Sigma / |G|^2$ is the **simple
# noise scale** (McCandlish et al., 2018, equation 2.9): at that batch size,
# signal and noise are equal.
#
# Data-parallel training has gradients of two batch sizes anyway, a pass's and the
# averaged one. They make two equations.

# %% [markdown]
# **Question 2** (3 points)
#
# Write `noise_scale(small_sq, big_sq, small_batch, big_batch)`. `small_sq` and
# `big_sq` list, step by step, the squared norms of the gradients of
# `small_batch` and of `big_batch` images. Solve the two equations for
# $\operatorname{tr}\Sigma$ and $|G|^2$, both averaged over the steps, and return
# $\operatorname{tr}\Sigma / |G|^2$. If $|G|^2$ comes out at zero or below, return `None`.
# If $\operatorname{tr}\Sigma$ does, by chance, leave it as it is, so that means over many
# steps stay unbiased.

# %% nbgrader={"grade": false, "grade_id": "q02_noise_scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
def noise_scale(small_sq, big_sq, small_batch, big_batch):
    """Return the simple noise scale in samples, or None."""
    ### BEGIN SOLUTION
    small, big = np.mean(small_sq), np.mean(big_sq)
    variance = (small - big) / (1 / small_batch - 1 / big_batch)
    gradient_sq = big - variance / big_batch
    return variance / gradient_sq if gradient_sq > 0 else None
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_noise_scale
#
# 1. Two equations, two unknowns: subtract one from the other, and |G|² is gone.
# 2. Average the squared norms over the steps first, and only then solve. The
#    trace is the difference of the means over (1/small batch − 1/big batch); put it back into
#    one equation for |G|².
# 3. `small, big = np.mean(small_sq), np.mean(big_sq)`

# %% nbgrader={"grade": true, "grade_id": "q02_noise_scale_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

import numpy as np

# |G|² = 2 and S = 640: 2 + 640/32 = 22 and 2 + 640/64 = 12
value = noise_scale([22.0], [12.0], 32, 64)
assert math.isclose(value, 320, rel_tol=1e-6), (
    f"noise_scale returned {value}, not 320, which is 640 ÷ 2"
)
value = noise_scale([20.0, 24.0], [13.0, 11.0], 32, 64)
assert math.isclose(value, 320, rel_tol=1e-6), f"the same means: {value}"
value = noise_scale([22.0], [11.0], 32, 64)
assert value is None, f"|G|² is 0 here: {value}"
value = noise_scale([20.0, 20.0, 26.0], [12.0, 12.0, 12.0], 32, 64)
assert math.isclose(value, 320, rel_tol=1e-6), f"the means of three: {value}"
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
# A single step tells you little, so the course divides **moving averages** of the two
# numbers (98 % old, 2 % new step). Two runs measure it while they train:

# %% tags=["demo", "recorded"]
sweeps = recorded("critical-batch")
curve = critical.critical_batch(sweeps, configuration="SGD with momentum")
tried = [
    launch(
        "train_cifar.py", name=f"batch {batch}", global_batch=batch,
        workers=max(1, min(workers, batch // ghost)), noise_scale=True,
        **fixed,
    )
    for batch in (small_batch, large_batch)
]

# %% tags=["demo"]
plot.plot_noise_scale(tried, batches=(small_batch, large_batch))

# %% [markdown]
# A recorded estimate at *frozen* weights averages over many batches without an update.
#
# **Predict first.** What is the noise scale at frozen weights, as a multiple of the
# critical batch size? (For CIFAR-10, McCandlish et al. report a noise scale of about
# 2,000 on average, and a critical batch size of about 900.)

# %% tags=["demo"]
guess_times = None  # noise scale ÷ critical batch size

# %% tags=["demo", "recorded"]
scales = [
    run.result["noise"]["noise_scale"] or math.inf
    for run in recorded("noise-frozen")
]
frozen = critical.Noise(tuple(scales))
compare_guess(guess_times, frozen.middle / curve.fit.critical, "times")

# %% tags=["demo", "recorded"]
judged = [
    run for run in sweeps
    if (run.result["configuration"], run.result["role"])
    == ("SGD with momentum", "judged")
]
noise = {"frozen weights": frozen}
for batch in (64, 1024):
    noise[f"live, batch {batch:,}"] = critical.noise(
        run for run in judged if run.result["global_batch"] == batch
    )
for what, scale in noise.items():
    print(f"noise scale {what}: {scale.middle:,.0f}; critical batch ÷ noise "
          f"scale: {curve.fit.critical / scale.middle:.1f}")

# %% [markdown]
# The simple noise scale ignores curvature and changes during training, while
# $B_\text{crit}$ is one number. Of eight tasks in the table of McCandlish et al., four
# differ by a factor of 4 to 20: expect the order of magnitude.
#
# Does the optimizer matter? Zhang et al. (2019) found that momentum, and even more so
# **preconditioning** (a step size for each direction, as in Adam or LAMB), move the
# bend to larger batches.

# %% tags=["demo", "recorded"]
for configuration in ("plain SGD", "SGD with momentum", "LAMB"):
    fit = critical.critical_batch(sweeps, configuration=configuration).fit
    print(f"{configuration}: critical batch {fit}; fewest steps "
          f"{fit.steps_min:,.0f}, samples {fit.samples_min:,.0f}")

# %% [markdown] tags=["claims"]
# In these runs, and if its curve is right, the critical batch size of SGD with
# momentum lies between 400 and 900. But its points differ from the curve by more than
# seeds do in these runs: lack of fit has p < 0.01. In these runs the noise scale, live or
# at frozen weights, is within a factor of three of it. Plain SGD bends earlier and LAMB
# later, and the three intervals do not overlap.

# %% [markdown]
# The bounds 400, 900 and the factor of three were written down after these results, so
# they predict nothing ([findings](../docs/findings.md#critical-batch-size)).
#
# **A good place to stop.**

# %% [markdown]
# ## 3. Is there a generalization gap?
#
# In lesson 4 the problem was too few steps. A **generalization gap** is another: *as good
# in training*, but worse on held-out images. Hoffer et al. (2017) report that training for
# as many *steps* eliminates it, and Shallue et al. (2019) saw no evidence for one, once
# everything was tuned.
#
# A gap should show with few images and no augmentation, so that the network can memorize
# them, and between configurations that stop at the first epoch with a *training* loss below 0.3.
#
# **Predict first.** At the same training loss, how many points of held-out
# accuracy does batch 1,024 lose against 64?

# %% tags=["demo"]
guess_gap = None  # points

# %% tags=["demo", "recorded"]
regimes = [
    run for run in recorded("generalization") if run.result["role"] == "judged"
]
matched = [run for run in regimes if run.name.endswith("to a loss")]
lost = paired(
    by_seed(only(regimes, "large batch, to a loss"), "test_accuracy"),
    by_seed(only(regimes, "small batch, to a loss"), "test_accuracy"),
)
compare_guess(guess_gap, 100 * lost.mean, "points lost at equal training loss")

# %% tags=["demo", "recorded"]
compare(
    [run for run in regimes if run not in matched], against="small batch"
)

# %% tags=["demo", "recorded"]
compare(matched, against="small batch, to a loss")

# %% [markdown]
# The first table has equal epochs and, in its last row, equal steps; the second equal
# training losses. Differences are **paired**: what a seed does to both configurations cancels. If the
# 95 % interval of the mean difference crosses 0, the sign is not known. "Within the margin"
# is a *claim*: the interval lies inside a margin that was set before (here ±1 point). A
# smaller difference may well be real.

# %% [markdown]
# **Question 3** (4 points)
#
# Write `verdict(first, second, margin)`. `first` and `second` map seeds to the
# held-out accuracy (%) of two configurations. Take the differences second − first of the
# seeds that both have, and their 95 % interval: mean ± $t\,s/\sqrt n$, where
# $s$ is the sample standard deviation (divided by $n-1$) and $t$ is
# `T95[n - 1]`. Return
#
# - `"within the margin"` if the whole interval lies within ± `margin`;
# - otherwise `"better"` if all of it is above 0, `"worse"` if all is below;
# - otherwise `"not decided"`, also if fewer than two seeds are shared.

# %%
T95 = dict(enumerate(  # Student's t for a 95 % interval, by n - 1
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262], 1
))

# %% nbgrader={"grade": false, "grade_id": "q03_verdict", "locked": false, "schema_version": 3, "solution": true, "task": false}
def verdict(first, second, margin):
    """Return the verdict of paired seeds on `second` against `first`."""
    ### BEGIN SOLUTION
    pairs = [second[seed] - first[seed] for seed in first if seed in second]
    if len(pairs) < 2:
        return "not decided"
    spread = np.std(pairs, ddof=1) / math.sqrt(len(pairs))
    half = T95[len(pairs) - 1] * spread
    low, high = np.mean(pairs) - half, np.mean(pairs) + half
    if -margin < low and high < margin:
        return "within the margin"
    if low > 0:
        return "better"
    return "worse" if high < 0 else "not decided"
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_verdict
#
# 1. Pair by seed: one list of differences. Everything else is computed from that
#    list.
# 2. Fewer than two pairs: not decided. Else the half width is T95[n − 1] times
#    the standard deviation (ddof=1) over √n. Check for “within the margin” first,
#    then for better and worse.
# 3. `pairs = [second[seed] - first[seed] for seed in first if seed in second]`

# %% nbgrader={"grade": true, "grade_id": "q03_verdict_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
first = {0: 70.0, 1: 74.0, 2: 66.0, 3: 72.0, 4: 68.0}
up = {seed: value + 3 + seed / 4 for seed, value in first.items()}
word = verdict(first, up, 1.0)
assert word == "better", (
    f"verdict returned {word!r}, not 'better': every seed gains 3 to 4 points"
)
word = verdict(up, first, 1.0)
assert word == "worse", f"the other way round: {word!r}"
near_by = {seed: value + (-1) ** seed / 4 for seed, value in first.items()}
word = verdict(first, near_by, 1.0)
assert word == "within the margin", f"± a quarter of a point: {word!r}"
word = verdict(first, near_by, 0.1)
assert word == "not decided", f"with a margin of 0.1: {word!r}"
word = verdict(first, {seed: up[seed] for seed in (1, 3, 0, 4, 2)}, 1.0)
assert word == "better", f"the same pairs in another order: {word!r}"
### BEGIN HIDDEN TESTS
def moved(*by):
    return {seed: first[seed] + some for seed, some in enumerate(by)}


for by, margin, word in (
    ((0.5, 0.6, 0.4, 0.5, 0.55), 1, "within the margin"),  # above 0, but small
    ((0.5, 0.6, 0.4, 0.5, 0.55), 0.55, "better"),
    ((-0.5, -0.6, -0.4, -0.5, -0.55), 0.55, "worse"),
    ((-0.5, -0.6, -0.4, -0.5, -0.55), 1, "within the margin"),
    ((1, 2), 5, "not decided"),  # 1.5 ± 6.4
    ((1, 2), 9, "within the margin"), ((1, 2), 7.5, "not decided"),
    ((5.9, 7.1), 1, "not decided"),  # 6.5 ± 7.6, ± 5.4 with n in place of n-1
    ((5.9, 6.8), 1, "better"), ((-6.8, -5.9), 1, "worse"),
    ((1, 2, 3), 1, "not decided"),  # 2 ± 2.48
    ((1.3, 2, 2.7), 1, "better"), ((-1.3, -2, -2.7), 1, "worse"),
    ((1.3, 2, 2.7), 3.9, "within the margin"), ((1.3, 2, 2.7), 3.6, "better"),
    ((0, 0, 0, 0, 0), 0.1, "within the margin"),
    ((9, 1, 5, 3, 4), 1, "better"),  # 4.4 ± 3.7
    ((9, 1, 5, 3, 0.4), 1, "not decided"),  # 3.7 ± 4.2
    ((9, 1, 5, 3, 4), 8.3, "within the margin"), ((9, 1, 5, 3, 4), 7.8, "better"),
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
assert verdict(many, lower, 2) == "within the margin"
tenth = {seed: 62.49 + seed + 3.3 * (-1) ** seed for seed in range(10)}
assert verdict(many, tenth, 1) == "better"  # 2.49 ± 2.488
tenth = {seed: 62.48 + seed + 3.3 * (-1) ** seed for seed in range(10)}
assert verdict(many, tenth, 1) == "not decided"
### END HIDDEN TESTS

# %% [markdown] tags=["claims"]
# At equal epochs the large batch is more than five points behind, but it has not
# learned its images, and the small one has. At equal steps it has learned all of them
# and is still behind. At equal training loss its held-out accuracy is lower. With ten
# other seeds its held-out loss is also lower, which is better.

# %% [markdown]
# ## 4. Sharpness, measured
#
# The **Hessian** is the matrix of all second derivatives of the loss. Its largest
# **eigenvalue** is the largest curvature in any direction: sharpness. In a large network, a
# *product* of the Hessian with a vector costs only a few gradients, and a few such products
# are enough (Lanczos' method).
#
# Keskar et al. (2017) proposed that large batches end in *sharp* minima, small ones in *flat*
# ones:

# %% tags=["demo"]
plot.plot_minima()

# %% [markdown]
# If the held-out loss is the training loss shifted a little, the shift costs more where
# it is sharp: an illustration, not a proof.
#
# Is a flatter minimum the better one? Dinh et al. (2017) multiply weights so that the
# network computes *the same function*. Batch norm divides by the scale of its input, so
# multiply every kernel before it by 0.5, and no output changes. Here is the smallest such
# network, a kernel of two weights and a norm:

# %% tags=["demo"]
x, y = np.random.default_rng(seed).normal(size=(2, 64, 2))


def small_loss(kernel):
    normal = (x @ kernel - np.mean(x @ kernel)) / np.std(x @ kernel)
    return np.mean((normal - y[:, 0]) ** 2)


def eigenvalue(kernel, h=1e-3):
    """Return the largest eigenvalue of the Hessian, by differences."""
    one, other = h * np.eye(2)
    loss = small_loss
    hessian = np.array([
        [loss(kernel + a + b) - loss(kernel + a - b)
         - loss(kernel - a + b) + loss(kernel - a - b) for b in (one, other)]
        for a in (one, other)
    ]) / (4 * h**2)
    return np.linalg.eigvalsh(hessian)[-1]

# %% [markdown]
# **Predict first.** By what factor does the largest eigenvalue change, if the kernel is
# multiplied by 0.5?

# %% tags=["demo"]
guess_factor = None  # times as sharp

# %% tags=["demo"]
kernel = np.array([1.0, 0.5])
factors = [1.0, 0.5, 2.0]
table = pd.DataFrame({
    "kernel times": factors,
    "loss": [small_loss(a * kernel) for a in factors],
    "largest eigenvalue": [eigenvalue(a * kernel) for a in factors],
})
length = [a**2 * kernel @ kernel for a in factors]
table["by relative change"] = length * table["largest eigenvalue"]
factor = table["largest eigenvalue"][1] / table["largest eigenvalue"][0]
compare_guess(guess_factor, factor, "times as sharp")

# %% tags=["demo"]
table

# %% [markdown]
# The same function can be as sharp as you like: the eigenvalue alone cannot explain how
# well a network generalizes. The last column, curvature by *relative* change of the kernel,
# stays the same; it is **scale-invariant**. (In a large network each filter has its own
# length.)
#
# Does either rank recorded networks by held-out error, the images that they get wrong?
# Batches of 64, 256 and 1,024, each with four learning rates and six seeds: all stopped at
# the first epoch with a training loss below 0.3. A rank correlation of +1 **between** the twelve settings means that the sharper of two
# always does worse. **Within** a setting networks differ in their seed alone.
#
# **Predict first.** Which of the two will be larger, between or within?

# %% tags=["demo", "recorded"]
plot.plot_sharpness(recorded("landscape"))

# %% [markdown]
# Between settings, batch size and learning rate differ as well, and may move both. If
# sharpness itself mattered, it should also rank networks of *one* setting.

# %% [markdown] tags=["claims"]
# Between the twelve settings, sharper networks get more held-out images wrong, by both
# measures. Within a setting, runs with a larger eigenvalue do so as well, in these runs. For
# the scale-invariant one the interval barely excludes 0 in these runs, and its corrected p is
# above 0.05.

# %% [markdown]
# All of this was exploratory: three seeds of each setting were added because the first
# three barely excluded 0. So one statement was chosen, and eight new seeds of each setting
# recorded, a number that was fixed beforehand:

# %% tags=["demo", "recorded"]
again = sharpness(recorded("landscape-again"))
print(within_settings(again, "sharpness", "test_error"))
print("of training loss:", within_settings(again, "clean_loss", "test_error"))

# %% [markdown] tags=["claims"]
# In these runs, new seeds with the larger eigenvalue again have more images wrong within
# a setting. Whether errors correlate with the training loss at which runs stopped is not
# decided: the interval contains 0.

# %% [markdown]
# So sharpness correlates with error across settings and, more weakly, across seeds. But
# rescaling changes sharpness and nothing else, so sharpness need not be the cause.
#
# **A good place to stop.**

# %% [markdown]
# ## 5. How many images should batch norm see?
#
# With **synchronous** batch norm (`sync_bn=True`) the ranks exchange their statistics in
# every layer, so that it looks at all 1,024 images:
#
# ![Left: each rank normalizes with the mean and variance of its own 512
# images. Right: sums are exchanged in every layer, so that all ranks
# normalize over all 1,024.](../images/batch_norm.svg)
#
# A small ghost batch has noisy statistics. Hoffer et al. (2017) found that *better*.
#
# **Predict first.** At a global batch of 1,024: which ghost batch gives the
# highest held-out accuracy in the recorded runs, 32, 64, 128, 512 or all 1,024?

# %% tags=["demo"]
guess_ghost = None  # images

# %% tags=["demo", "recorded"]
ghosts = recorded("ghost-batches")
ranking = compare(ghosts).sort_values("test_accuracy")
compare_guess(guess_ghost, ranking["configuration"].iloc[-1], "has the highest mean")

# %% tags=["demo", "recorded"]
plot.plot_differences(ghosts, against="ghost batch 32")

# %% [markdown]
# Before each evaluation the statistics are **recomputed** from 1,000 training images, so
# that the configurations differ only in how they trained. All use the learning rate that was best for
# a ghost batch of 32.

# %% [markdown]
# **Question 4** (3 points)
#
# Synchronous batch norm computes the mean and the variance over the whole
# global batch, although no rank sees all of its images. Write
# `whole_batch(means, variances)`. Both arguments are lists with one array for
# each ghost batch, with one number for each channel. All ghost batches are
# equally large, and variances are divided by their number of images, not by
# one less. Return the pair (mean, variance) of the whole batch, by channel.

# %% nbgrader={"grade": false, "grade_id": "q04_whole_batch", "locked": false, "schema_version": 3, "solution": true, "task": false}
def whole_batch(means, variances):
    """Return the mean and the variance of the batch that ghosts make up."""
    ### BEGIN SOLUTION
    between = np.var(means, axis=0)
    return np.mean(means, axis=0), np.mean(variances, axis=0) + between
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q04_whole_batch
#
# 1. The mean is easy, as all ghosts are equally large. Does the variance only
#    average, too, if the ghosts' means differ?
# 2. Variance of the whole = mean of the variances *within* the ghosts + variance
#    of the means *between* them. Work along the first axis, so that channels stay
#    apart.
# 3. `between = np.var(means, axis=0)`

# %% nbgrader={"grade": true, "grade_id": "q04_whole_batch_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

# one channel: the ghosts 0, 2 and 4, 6 make up 0, 2, 4, 6
means, variances = [np.array([1.0]), np.array([5.0])], [np.array([1.0])] * 2
mean, variance = whole_batch(means, variances)
assert np.shape(mean) == np.shape(variance) == (1,), (
    f"whole_batch returned shapes {np.shape(mean)} and {np.shape(variance)}, not (1,): "
    "one number a channel"
)
assert np.allclose(mean, 3), f"the mean of 0, 2, 4, 6 is not {mean}"
assert np.allclose(variance, 5), f"their variance is not {variance}"
### BEGIN HIDDEN TESTS
rng = np.random.default_rng(5)
for parts, count, channels in ((2, 3, 1), (3, 8, 4), (32, 32, 3), (1, 5, 2)):
    center = rng.normal(size=(parts, 1, channels)) * 2 + 1
    batch = center + rng.normal(size=(parts, count, channels))
    mean, variance = whole_batch(list(batch.mean(axis=1)),
                                 list(batch.var(axis=1)))
    every = batch.reshape(-1, channels)
    assert np.shape(mean) == np.shape(variance) == (channels,)
    assert np.allclose(mean, every.mean(axis=0))
    assert np.allclose(variance, every.var(axis=0))
### END HIDDEN TESTS

# %% [markdown] tags=["claims"]
# In these runs every interval against a ghost batch of 32 contains 0. For 64
# and for 512 it lies within the margin, and for 128 and synchronous batch norm
# the records do not decide.

# %% [markdown]
# So Hoffer et al.'s order does not show here.

# %% [markdown]
# ## 6. Today's practice
#
# Language models have no batch norm, and see each sample about once. What carries over?
#
# - **Batches in tokens.** The critical batch grows as the loss falls (Kaplan et al., 2020),
#   and with the number of training tokens more than with the size of the model (Zhang, H.
#   et al., 2024). Batches of millions of tokens are usual.
# - **Batch ramps.** The critical batch is near 0 at first, grows fast, then flattens
#   (Merrill et al., 2025), so trainings enlarge their batches: Llama 3 405B from 4 to 8 and
#   16 million tokens.
# - **AdamW**, with decoupled weight decay and a warm-up, is the default. Its rule is the
#   square root (Malladi et al., 2022), and $1-\beta_1$, $1-\beta_2$ grow with the batch. Muon
#   ([5b](5b.Challenge-in-Depth.ipynb), section 4) competes with it.
# - **Gradient clipping**: if the norm of the *averaged* gradient is above a threshold, often
#   1, scale it down. Clipped before averaging, ranks are scaled differently, and their mean
#   points elsewhere.
# - **LAMB** is `keras.optimizers.Lamb` in Keras 3, and `tfa.optimizers.LAMB` in
#   tensorflow-addons, which has ended and knows TensorFlow up to 2.15.
#
# A trap for schedules and Adam is in [3f](3f.Bets.ipynb), bet 7: Horovod counts accumulated
# passes as steps. `train_cifar.py` accumulates in its own loop, and applies the optimizer once.

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## Sources
#
# - Dinh et al. (2017), *Sharp Minima Can Generalize For Deep Nets*, sections 3, 4
# - Hoffer, Hubara, Soudry (2017), *Train longer, generalize better*, sections 4,
#   5
# - Keskar et al. (2017), *On Large-Batch Training for Deep Learning*
# - Kaplan et al. (2020), *Scaling Laws for Neural Language Models*, section 5.1
# - McCandlish et al. (2018), *An Empirical Model of Large-Batch Training*,
#   section 2, appendix A
# - Malladi et al. (2022), *On the SDEs and Scaling Rules for Adaptive Gradient Algorithms*
# - Llama team (2024), *The Llama 3 Herd of Models*, section 3.4.1 (batch ramp)
# - Merrill et al. (2025), *Critical Batch Size Revisited*
# - Shallue et al. (2019), *Measuring the Effects of Data Parallelism on Neural
#   Network Training*, section 4
# - Zhang et al. (2019), *Which Algorithmic Choices Matter at Which Batch Sizes?
#   Insights From a Noisy Quadratic Model*
# - Zhang, H. et al. (2024), *How Does Critical Batch Size Scale in Pre-training?*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
