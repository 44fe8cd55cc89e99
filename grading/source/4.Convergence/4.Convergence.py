# %% [markdown]
# # 4. Convergence
#
# **Why does my model learn worse on more workers, and what fixes it?**
#
# | | |
# | --- | --- |
# | time | 30 minutes; the runs alone take 5 to 15 on two cores |
# | hardware | two cores; to use GPUs, change the parameters and run the same cells |
# | before this | [Start_Here](../Start_Here.ipynb) |
#
# Add workers, and you process more pictures a second. Often the model also gets
# worse. This lesson finds out why: what a larger batch does to training, how to
# see trouble coming, and how much each of four remedies helps. You launch the
# runs yourself, and compare them with runs recorded on real CIFAR-10 pictures.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated pictures
workers = 2
small_batch = 64
large_batch = 1024
seed = 0

# %% [markdown]
# On a machine with GPUs, set `workers` to their number, `large_batch` to 8192,
# and `size` to `"full"`, which takes all 50,000 pictures. Everything else
# follows from these.

# %%
import math

import numpy as np

# %% tags=["demo"]
import ddl
from ddl import compare, launch, plot

SIZES = {
    "reader": dict(train_samples=10_000, test_samples=10_000, epochs=8),
    "smoke": dict(train_samples=2_048, test_samples=500, epochs=2),
    "full": dict(train_samples=50_000, test_samples=10_000, epochs=12),
}
fixed = dict(
    SIZES[size], data_set=data_set, seed=seed, workers=workers,
    schedule="cosine",
)
large_steps = fixed["train_samples"] // large_batch * fixed["epochs"]
print("ddl", ddl.__version__, "·", large_steps, "steps at the large batch")

# %% [markdown]
# ## 1. What changes when workers are added
#
# Each rank takes its share of every batch, and the ranks average their
# gradients. So
#
# $$\text{global batch} = \text{ranks} \times \text{per-rank batch}.$$
#
# Usually the per-rank batch stays at the size that fills a device, and the
# global batch grows: 16 workers with 64 pictures each take steps of 1024. The
# optimizer sees one averaged gradient. It cannot tell 16 ranks × 64 from 2
# ranks × 512, so two cores are enough to study what 16 workers would do. (Only
# batch norm can tell the difference; see section 5.)
#
# The course's own script guarantees this: each step uses the same pictures,
# whatever the number of ranks, and its tests compare the resulting weights.

# %% [markdown]
# **Predict first.** Both runs below see the same 10,000 pictures eight times.
# One takes 64 at a time, the other 1024. The network, the learning rate and the
# seed are the same. Which one has learned more at the end, or have both learned
# the same?

# %% tags=["demo"]
small = launch(
    "train_cifar.py", name="small batch", recipe="base",
    global_batch=small_batch, noise_scale=True, **fixed,
)

# %% tags=["demo"]
large = launch(
    "train_cifar.py", name="large batch", recipe="base",
    global_batch=large_batch, **fixed,
)

# %% tags=["demo"]
compare([small, large])

# %% [markdown]
# Both runs saw the same number of pictures, so by the usual measure, epochs,
# they trained equally long. But look at the column *steps*: the large batch
# made 16 times fewer updates. Is that the whole story? If so, a small-batch run
# that stops after as many *steps* should do no better.

# %% tags=["demo"]
short = launch(
    "train_cifar.py", name="small batch, few steps", recipe="base",
    global_batch=small_batch, steps=large_steps,
    **{k: v for k, v in fixed.items() if k != "epochs"},
)

# %% tags=["demo"]
compare([large, short])

# %% [markdown]
# At equal *epochs* the large batch is far behind. At equal *steps* it should be
# level or ahead, since each of its steps averages over more pictures. Neither
# view is the right one: equal epochs tell you what a fixed budget of samples
# buys, equal steps what a fixed time buys if you have enough workers. A
# comparison that shows only one of them hides half of the answer. From here on
# you get both.

# %% tags=["demo"]
plot.plot_convergence([small, large])

# %% [markdown]
# **Question 1** (3 points)
#
# Here are the settings of four runs. All use batch norm.
#
# | | pictures | epochs | global batch | ranks | passes | sync-BN | rate | seed |
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
# ## 2. Steps to a target, and where larger stops helping
#
# Shallue et al. (2019) trained many networks to a fixed target, with batch
# sizes from 1 to over 65,000, tuning each one separately. All of them showed
# three regions:
#
# 1. *perfect scaling*: twice the batch, half the steps;
# 2. *diminishing returns*: twice the batch, fewer steps, but more than half;
# 3. *maximal data parallelism*: a larger batch does not save a single step.
#
# Where the bend lies differs by orders of magnitude between networks and data
# sets. McCandlish et al. (2018) describe it by a simple model with one number,
# the **critical batch size**. At that batch size, training takes twice the
# fewest possible steps and twice the fewest possible samples.

# %% tags=["demo"]
plot.plot_batch_size_tradeoff(
    noise_scale=500.0, batches=(small_batch, large_batch)
)

# %% [markdown]
# The figure assumes a critical batch size of 500. What is yours? You don't have
# to try every batch size to find out. You can estimate it while you train, from
# how much the gradients of different batches differ.

# %% [markdown]
# ## 3. The gradient noise scale, measured live
#
# A mini-batch gradient is the true gradient $G$ plus noise that shrinks as the
# batch grows: $\mathbb{E}\,|G_B|^2 = |G|^2 + S/B$, where $S$ is the summed
# variance over samples. The ratio $S/|G|^2$ is the **simple noise scale**
# (McCandlish et al., equation 2.9): the batch size at which signal and noise
# are equal.
#
# Data-parallel training measures it at no extra cost. Each rank knows its own
# gradient (small batch) and, after the all-reduce, the averaged one (large
# batch): two equations, two unknowns. A single step tells you nothing, so $S$
# and $|G|^2$ are each averaged over many steps before one is divided by the
# other.
#
# **Predict first.** Your small-batch run has measured the noise scale. Does it
# rise or fall as the network learns?

# %% tags=["demo"]
plot.plot_noise_scale(small, batches=(small_batch, large_batch))

# %% [markdown]
# Early in training all pictures agree on what to learn first, so a few are
# enough. Later the true gradient shrinks, while the pictures disagree as much
# as before, so the noise scale rises. Compare the curve with the two batch
# sizes marked in the figure. A batch far below the curve is in the first
# region; one far above it is in the third.
#
# Towards the end $|G|^2$ can become too small to tell from zero. The curve then
# jumps, or stops.
#
# What the figure does not show: the simple noise scale ignores curvature, and
# McCandlish et al. found it right only to within a small factor. A short run of
# one network on a small machine gives an estimate, not a law.

# %% [markdown]
# **Question 2** (3 points)
#
# Write `noise_scale(small_sq, big_sq, small_batch, big_batch)`. `small_sq` and
# `big_sq` list, step by step, the squared norms of the gradients of
# `small_batch` and of `big_batch` pictures. Solve the two equations above for
# $S$ and $|G|^2$, both averaged over the steps, and return $S/|G|^2$. If
# $|G|^2$ comes out at zero or below, it can't be told from zero: return `None`.

# %% nbgrader={"grade": false, "grade_id": "q02_noise_scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
def noise_scale(small_sq, big_sq, small_batch, big_batch):
    """Return the simple noise scale in samples, or None."""
    ### BEGIN SOLUTION
    small, big = np.mean(small_sq), np.mean(big_sq)
    variance = (small - big) / (1 / small_batch - 1 / big_batch)
    gradient_sq = big - variance / big_batch
    return variance / gradient_sq if gradient_sq > 0 else None
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q02_noise_scale_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
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
for true_sq, scale, small, big in ((3.0, 700.0, 32, 1024), (0.25, 8.0, 1, 2),
                                   (1.5, 0.75, 16, 80), (0.01, 9e3, 8, 512)):
    noise = true_sq * scale
    pair = true_sq + noise / small, true_sq + noise / big
    for swing in (0, 0.1, 0.6):  # of single steps, whose mean stays
        some = [[p * (1 + swing), p * (1 - swing), p] for p in pair]
        some[1].reverse()
        value = noise_scale(*some, small, big)
        assert math.isclose(value, scale, rel_tol=1e-5)
        value = noise_scale(*map(np.array, some), small, big)
        assert math.isclose(value, scale, rel_tol=1e-5)
assert noise_scale([4.0, 4.0], [1.5, 1.5], 1, 2) is None
assert noise_scale([6.0, 2.0], [1.0, 3.0], 1, 2) is None
value = noise_scale([1.0, 1.0, 9.0], [2.0, 2.0, 2.0], 2, 4)
assert math.isclose(value, (5 / 3 / 0.25) / (1 / 3), rel_tol=1e-5)
value = noise_scale([8.0, 8.0, 8.0], [2.0, 2.0, 11.0], 2, 4)
assert math.isclose(value, 12 / 2, rel_tol=1e-5)  # means 8 and 5
value = noise_scale([5.0, 5.0], [5.0, 5.0], 2, 8)
assert math.isclose(value, 0, abs_tol=1e-9)  # every rank had the same data
### END HIDDEN TESTS

# %% [markdown]
# **Question 3** (3 points)
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

# %% nbgrader={"grade": false, "grade_id": "q03_fit", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fit(batches, steps):
    """Return the fewest steps S_min and the critical batch size B_crit."""
    ### BEGIN SOLUTION
    batches, steps = np.array(batches, float), np.array(steps, float)
    slope, fewest = np.polyfit(1 / batches, steps, 1, w=1 / steps)
    return fewest, slope / fewest
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q03_fit_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right, part=1e-3):
    return math.isclose(value, right, rel_tol=part)


s_min, b_crit = fit([32, 128, 512], [1_700, 500, 200])
assert near(s_min, 100), f"100 (1 + 512/B): S_min is not {s_min}"
assert near(b_crit, 512), f"100 (1 + 512/B): B_crit is not {b_crit}"
### BEGIN HIDDEN TESTS
doubled = [32, 64, 128, 256, 512, 1024, 2048, 4096]
for fewest, critical in ((250, 900), (1_000, 100), (80.5, 60), (40, 2_500)):
    for some in (doubled, doubled[:3], [100, 17, 3_000, 800], doubled):
        exact = [fewest * (1 + critical / batch) for batch in some]
        s_min, b_crit = fit(some, exact)
        assert near(s_min, fewest) and near(b_crit, critical)
    s_min, b_crit = fit(doubled[2:7:4], exact[2:7:4])  # two are enough
    assert near(s_min, fewest) and near(b_crit, critical)
# some percent more and less, as seeds give
swings = [0.9, 1.03, 1.08, 1.11, 0.9, 0.9, 0.95, 1.11]
for turn in (1, -1):
    noisy = [200 * (1 + 600 / batch) * swing**turn
             for batch, swing in zip(doubled, swings)]
    s_min, b_crit = fit(doubled, noisy)
    assert near(s_min, 200, 0.06) and near(b_crit, 600, 0.06)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Held-out accuracy against batch size
#
# You et al. (2018) saw the held-out accuracy of ImageNet networks fall when the
# batch grew beyond 8,192, unless they changed the optimizer. Keskar et al.
# (2017) offered a picture to explain this: small batches are noisy, so they get
# thrown out of *sharp* minima and end in *flat* ones, while large batches stay
# in sharp ones. If the held-out loss is the training loss shifted a little, the
# shift costs more in a sharp minimum.

# %% tags=["demo"]
plot.plot_minima()

# %% [markdown]
# This is a picture, not a proof. Dinh et al. (2017) show that you can make a
# flat minimum as sharp as you like by rescaling weights, without changing what
# the network computes. Hoffer et al. (2017) close most of the gap simply by
# training longer. This lesson does not measure sharpness itself (the largest
# eigenvalues of the Hessian).
#
# What you can check is *which* gap you have. In a generalisation gap, the large
# batch would have a training accuracy as good as the small one's, but a worse
# held-out accuracy.

# %% tags=["demo"]
compare([small, large])[["arm", "train_accuracy", "test_accuracy"]]

# %% [markdown]
# If training accuracy is low too, the large batch has not found a bad minimum:
# it has not reached any. Then the problem is one of *optimization*: too few
# steps, and each of them too short. That is what the remedies below address.

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
assert verdict(many, lower, 1.8) == "no difference"
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Remedy one: batch norm, per worker
#
# Batch normalisation gives each layer inputs with mean 0 and variance 1,
# computed over the batch. This makes larger steps possible. With several
# workers you have a choice: compute the statistics over each worker's own part,
# or over the whole global batch (`--sync-bn`, which costs one more message per
# layer).
#
# ![Left: each rank normalises with the mean and variance of its own 512
# pictures. Right: sums are exchanged in every layer, so that all ranks
# normalise over all 1,024.](../images/batch_norm.svg)
#
# Hoffer et al. (2017) found the small "ghost" batches *better*, even where the
# whole batch fits: their noise regularises. So the default here is per worker.
# There is one trap: each rank then has its own moving averages. They have to be
# averaged before an evaluation, or every rank would evaluate a different model.

# %% [markdown]
# So we make one change to the large-batch run. And because a baseline deserves
# the same help, we make it to the small-batch run as well.

# %% tags=["demo"]
small_bn = launch(
    "train_cifar.py", name="small batch + BN", recipe="batch_norm",
    global_batch=small_batch, **fixed,
)

# %% tags=["demo"]
large_bn = launch(
    "train_cifar.py", name="large batch + BN", recipe="batch_norm",
    global_batch=large_batch, **fixed,
)

# %% tags=["demo"]
compare([small, small_bn, large, large_bn])

# %% [markdown]
# How many percentage points did this change bring to the small batch, and how
# many to the large one? If the large batch gains more, batch norm does
# something that a large batch in particular needs. Had you compared *large
# with* against *small without*, you could not have told.

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
for ghosts, size, channels in ((2, 3, 1), (3, 8, 4), (32, 32, 3), (1, 5, 2)):
    centre = rng.normal(size=(ghosts, 1, channels)) * 2 + 1
    batch = centre + rng.normal(size=(ghosts, size, channels))
    mean, variance = whole_batch(list(batch.mean(axis=1)),
                                 list(batch.var(axis=1)))
    every = batch.reshape(-1, channels)
    assert np.shape(mean) == np.shape(variance) == (channels,)
    assert np.allclose(mean, every.mean(axis=0))
    assert np.allclose(variance, every.var(axis=0))
### END HIDDEN TESTS

# %% [markdown]
# ## 6. Remedy two: scale the learning rate
#
# With a batch $k$ times as large, one step replaces $k$ steps. If the gradient
# hardly changes over those $k$ steps, one step of $k\eta$ gets just as far.
# This is the linear scaling rule of Goyal et al. (2017, section 2.1): *when the
# minibatch is multiplied by k, multiply the learning rate by k.*
#
# **Predict first.** Here $k$ is 16. The rule assumes that the gradient hardly
# changes over those steps. When during training is that least true?

# %% tags=["demo"]
scaled = launch(
    "train_cifar.py", name="+ linear scaling", recipe="scale_lr",
    global_batch=large_batch, **fixed,
)

# %% tags=["demo"]
plot.plot_convergence([large_bn, scaled], x="epochs")

# %% [markdown]
# The network changes fastest at the start, and there the rule is at its worst:
# the first steps can throw the network somewhere from which it takes epochs to
# return. A single seed can also be lucky. The recorded runs in section 9 have
# three.

# %% [markdown]
# ## 7. Remedy three: warm up
#
# Goyal et al. (section 2.2) start at the unscaled rate $\eta$ and climb to
# $k\eta$ in equal steps over the first epochs. They spent 5 of about 90 epochs
# on this; with 8 epochs in all, this recipe spends 2.
#
# Horovod's Keras callback, `LearningRateWarmupCallback(initial_lr=…)`, expects
# the rate *after* scaling. Older examples pass the unscaled rate, and are off
# by a factor of the number of ranks without any error. Here the rate is a pure
# function of the epoch, so you can plot it before you run anything.

# %% tags=["demo"]
from ddl.training.recipes import BASE_RATES, RECIPES, REFERENCE_BATCH
from ddl.training.schedule import Schedule

base = BASE_RATES["sgd"]
peak = base * large_batch / REFERENCE_BATCH
epochs = fixed["epochs"]
climb = min(RECIPES["warmup"].warmup_epochs, epochs / 2)
arms = {
    "small batch": Schedule(base, epochs, decay="cosine"),
    "+ linear scaling": Schedule(peak, epochs, decay="cosine"),
    "+ warm-up": Schedule(peak, epochs, base, climb, "cosine"),
}
x = [epochs * i / 200 for i in range(201)]
plot.plot_schedule({k: (x, [rate(e) for e in x]) for k, rate in arms.items()})

# %% tags=["demo"]
warm = launch(
    "train_cifar.py", name="+ warm-up", recipe="warmup",
    global_batch=large_batch, **fixed,
)

# %% tags=["demo"]
plot.plot_convergence([large_bn, scaled, warm], x="epochs")

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
    for steps, climb in ((80, 20), (33, 1), (40, 0), (7, 5)):
        for step in range(steps + 1):
            part = step / climb if step < climb else None
            half = math.pi * (step - climb) / (steps - climb)
            right = (0.05 + (peak - 0.05) * part if part is not None
                     else peak * (0.5 + 0.5 * math.cos(half)))
            value = rate_at(step, steps, climb, 0.05, 1024, rule)
            assert near(value, right)
assert near(rate_at(0, 10, 0, 0.1, 32, "linear"), 0.05)  # k is a half
assert near(rate_at(4, 10, 4, 2, 16, "sqrt"), 1)
assert near(rate_at(1, 10, 4, 2, 16, "sqrt"), 1.75)
assert near(rate_at(3, 12, 4, 0.3, 64, "linear"), 0.3)
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
# ## 8. Remedy four: a step size for each layer
#
# One learning rate has to suit all layers. You, Gitman and Ginsburg (2017)
# looked at $\|w\| / \|\nabla w\|$ layer by layer and found that it differs by
# orders of magnitude: a rate that is right for one layer makes another diverge.
# Their **LARS** gives each layer a step in proportion to the norm of its
# weights. **LAMB** (You et al., 2020) does the same to Adam's direction; it
# trained BERT with batches of 32,768.
#
# Both start from the warm-up recipe and change only the optimizer. Their base
# rates come from the same grid as SGD's (section 9).

# %% tags=["demo"]
lars = launch(
    "train_cifar.py", name="LARS", recipe="lars",
    global_batch=large_batch, **fixed,
)

# %% tags=["demo"]
lamb = launch(
    "train_cifar.py", name="LAMB", recipe="lamb",
    global_batch=large_batch, **fixed,
)

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
# ## 9. The comparison
#
# Here are all your arms, one per row: first at equal epochs, then at equal
# steps.

# %% tags=["demo"]
runs = [small, short, large, small_bn, large_bn, scaled, warm, lars, lamb]
compare(runs)

# %% tags=["demo"]
compare(runs, at="steps", steps=large_steps)

# %% [markdown]
# In the second table, each small-batch arm shows its last evaluation within
# that many steps. If one epoch of small batches takes longer than the whole
# large-batch training, there is no such evaluation, except in the run that was
# stopped there on purpose.

# %% tags=["demo"]
plot.plot_convergence([small, small_bn, large, large_bn, warm, lars, lamb])

# %% [markdown]
# One seed is an anecdote. The runs below were recorded with three seeds on real
# CIFAR-10 pictures, by the cells of this very notebook. The table names the
# hardware and the form of the data.

# %% tags=["demo", "recorded"]
recorded = ddl.recorded("convergence-cifar10")
compare(recorded)

# %% tags=["demo", "recorded"]
plot.plot_arms(recorded)

# %% tags=["demo", "recorded"]
print(sorted({run.result["data"]["form"] for run in recorded}))
print(sorted({run.result["finished"][:10] for run in recorded}))
plot.plot_convergence(
    [run for run in recorded if run.name != "small batch, few steps"]
)

# %% [markdown]
# The optimizers were compared only after each had been given the same grid,
# with another seed: the recipe's base rate, half of it, and twice it. The small
# batch got the same grid, to show what its choice of rate costs it.

# %% tags=["demo", "recorded"]
grid = ddl.recorded("convergence-grid")
compare(grid)[["arm", "test_accuracy", "train_accuracy"]]

# %% [markdown]
# ## 10. What it shows, and what it does not
#
# This is what the recorded tables show. Check it against your own:
#
# - **At equal epochs** the large batch is far behind, in training accuracy as
#   much as in held-out accuracy. So this is no generalisation gap. **At equal
#   steps** it is ahead: its steps are better, but there are too few of them.
# - **Batch norm** lifts the small batch about as much as the large one. A table
#   with batch norm only in the large arms would have called it a cure.
# - **Linear scaling** helps, but much less than its rule promises.
# - **Warm-up** adds as much again.
# - **LARS and LAMB** differ from SGD with warm-up by no more than their own
#   spread.
# - **Nothing closes the gap** to the small batch with batch norm.

# %% [markdown]
# The last two points are not what the papers report. Why? Goyal et al. train on
# ImageNet for 90 epochs: about 14,000 steps at batch 8,192. Here there are 72
# steps, at a batch beyond most of the noise scale that section 3 measured.
# Warm-up takes a quarter of them. LARS and LAMB were made for batches where SGD
# with warm-up fails; at 1,024 it does not.
#
# Not shown: other networks and data, more than 10,000 pictures, more than two
# workers, any GPU. All SGD arms share one base rate, so that each differs from
# the one before in exactly one thing. The grid shows what another rate would
# do, also for the small batch without batch norm. Dips of held-out accuracy in
# mid-training come partly from batch norm's moving averages, which lag behind
# fast weights. The machine did other work during the recording, so compare
# accuracies, not seconds.

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
# ## Things to try
#
# - Launch `scaled` and `warm` again with `learning_rate=0.1`, twice the base
#   rate. What does warm-up rescue now?
# - Give the large batch eight times the epochs (`epochs=64`). Does the gap
#   close, as Hoffer et al. say?
# - Launch `large_bn` with `sync_bn=True`. Do ghost batches of 512 behave
#   differently from one batch of 1024?
# - Launch `small` with `identical_data=True` and `noise_scale=True`: every rank
#   gets the same pictures, a common mistake. What does the noise scale read?
#
# Each of these is one cell: copy a `launch` from above, change one argument and
# the name, and compare.

# %% [markdown]
# ## Sources
#
# - Dinh, Pascanu, Bengio, Bengio (2017), *Sharp Minima Can Generalize For Deep
#   Nets*, section 4
# - Goyal et al. (2017), *Accurate, Large Minibatch SGD: Training ImageNet in 1
#   Hour*, sections 2.1, 2.2, 5.1
# - Hoffer, Hubara, Soudry (2017), *Train longer, generalize better*, sections 4,
#   5
# - Keskar et al. (2017), *On Large-Batch Training for Deep Learning*, section 2
# - McCandlish, Kaplan, Amodei et al. (2018), *An Empirical Model of Large-Batch
#   Training*, section 2, appendix A
# - Shallue et al. (2019), *Measuring the Effects of Data Parallelism on Neural
#   Network Training*, section 4
# - You, Gitman, Ginsburg (2017), *Large Batch Training of Convolutional
#   Networks*, sections 4, 5
# - You, Zhang, Hsieh, Demmel, Keutzer (2018), *ImageNet Training in Minutes*
# - You et al. (2020), *Large Batch Optimization for Deep Learning: Training BERT
#   in 76 Minutes*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
