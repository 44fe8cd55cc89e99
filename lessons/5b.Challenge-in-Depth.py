# %% [markdown]
# # 5b. Challenge in depth
#
# **Which of several changes made the difference?**
#
# | about | this notebook |
# | --- | --- |
# | time | 85 minutes, in two sittings |
# | hardware | any: its runs are recorded |
# | before this | [5. Challenge](5.Challenge.ipynb) |
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | fishing, and where samples go | 1 to 3 | 40 |
# | ideas, scores and cheats | 4 to 6 | 45 |

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs

# %%
import math

import numpy as np

# %% tags=["demo"]
import pandas as pd

from course import check, compare_guess, hint, plot, recorded
from course import challenge, critical
from course.challenge.findings import ablations, best_of, judged
from course.challenge.report import report
from course.challenge.rules import GLOBAL_BATCH

baselines = recorded("challenge-baseline")  # twenty runs, other seeds
reached = [100 * run.result["private_accuracy"] for run in baselines]
middle = np.mean(reached)
turns = recorded("challenge-times")  # whole trainings, in turns

# %% [markdown]
# ## 1. What fishing gains
#
# [Lesson 5](5.Challenge.ipynb)'s recorded runs of the baseline differ only in their
# seed.
#
# **Predict first.** The best of five runs lies above the mean. By what factor farther
# above it is the best of twenty?

# %% tags=["demo"]
guess_times = None  # times

# %% tags=["demo", "recorded"]
gains = [best_of(reached, k) - middle for k in (5, 20)]
compare_guess(guess_times, gains[1] / gains[0],
              "times the gain of the best of five")

# %% [markdown]
# **Question 1** (3 points)
#
# Write `expected_best(accuracies, k)`: the mean, over all ways to choose `k` of these
# runs (none twice), of the best of the chosen ones. `accuracies` is a list of numbers.
# If `k` is less than 1 or more than there are runs, raise a `ValueError`.

# %% nbgrader={"grade": false, "grade_id": "q01_expected_best", "locked": false, "schema_version": 3, "solution": true, "task": false}
def expected_best(accuracies, k):
    """Return the mean of the best of k runs, over all choices of k."""
    ### BEGIN SOLUTION
    n = len(accuracies)
    if not 1 <= k <= n:
        raise ValueError(f"{k} of {n} runs cannot be chosen")
    # the run at place i is the best where the others are from the i below
    total = sum(
        math.comb(place, k - 1) * accuracy
        for place, accuracy in enumerate(sorted(accuracies))
    )
    return total / math.comb(n, k)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_expected_best
#
# 1. Sort the runs. When is the run at place i, counted from 0, the best of those
#    chosen?
# 2. It is the best if the other k − 1 come from the i runs below it: there are
#    `math.comb(i, k - 1)` such choices, of `math.comb(n, k)` in all. Weight
#    the accuracies with that.
# 3. `ways = [math.comb(place, k - 1) for place in range(len(accuracies))]`

# %% nbgrader={"grade": true, "grade_id": "q01_expected_best_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

value = expected_best([70.0, 76.0, 73.0], 2)
assert math.isclose(value, 75), (
    f"expected_best returned {value}, not 75, the mean of 76, 73 and 76"
)
value = expected_best([70.0, 76.0, 73.0], 1)
assert math.isclose(value, 73), f"with one run, the mean: not {value}"
try:
    expected_best([70.0, 76.0], 3)
except ValueError:
    pass
else:
    raise AssertionError("three of two runs: raise a ValueError")
### BEGIN HIDDEN TESTS
import itertools

for some in ([61.5, 60, 66, 62, 60, 70.25, 64], [3.0, 1.0], [5.5],
             [-2, 0.5, 9, 9, 9, 1], list(range(9, 0, -1))):
    for k in range(1, len(some) + 1):
        best = [max(chosen) for chosen in itertools.combinations(some, k)]
        value = expected_best(list(some), k)
        assert math.isclose(value, sum(best) / len(best), rel_tol=1e-6)
    for k in (0, -1, len(some) + 1, len(some) + 5):
        try:
            expected_best(list(some), k)
        except ValueError:
            pass
        else:
            raise AssertionError("so many runs cannot be chosen")
### END HIDDEN TESTS

# %% [markdown]
# ## 2. When is a training done?
#
# **Predict first.** Half-way through their samples, how many points lie between
# the best and the worst of the twenty runs?

# %% tags=["demo"]
guess_band = None  # points

# %% tags=["demo", "recorded"]
half = [
    next(row["test_accuracy"] for row in run.result["history"]
         if row["samples"] >= run.result["samples"] / 2)
    for run in baselines
]
compare_guess(guess_band, 100 * (max(half) - min(half)),
              "points apart, half-way")

# %% tags=["demo", "recorded"]
plot.plot_convergence(baselines, x="samples")

# %% [markdown] tags=["claims"]
# After half of their samples the recorded runs are past 60 % on average, and
# in the last quarter they gain less than three points. In these runs the same
# file's accuracies lie more than ten points apart half-way, and at the end
# less than three.

# %% [markdown]
# An unfinished curve says little: at a high learning rate, the weights jump about. To
# learn what a shorter training reaches, let one *end* there.
#
# **Question 2** (3 points)
#
# Write `samples_to(samples, accuracies, target)`. The lists hold what each evaluation
# found, in order. Find the first evaluation whose accuracy is at least `target`. Take
# the curve from the one before to it as a straight line, and return the number of
# samples at which that line is at `target`. If the first evaluation is already there,
# return its samples; if none is, return `None`.

# %% nbgrader={"grade": false, "grade_id": "q02_samples_to", "locked": false, "schema_version": 3, "solution": true, "task": false}
def samples_to(samples, accuracies, target):
    """Return the samples after which the curve first is at the target."""
    ### BEGIN SOLUTION
    before = None
    for at, accuracy in zip(samples, accuracies):
        if accuracy >= target:
            if before is None:
                return at
            start, low = before
            return start + (at - start) * (target - low) / (accuracy - low)
        before = at, accuracy
    return None
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_samples_to
#
# 1. Go through the evaluations in order and stop at the first one that reaches
#    the target. What of the one before do you need?
# 2. Keep the evaluation before. Between the two, the samples needed are the start
#    plus a share of the way: (target − low)/(high − low).
# 3. `share = (target - low) / (accuracy - low)`

# %% nbgrader={"grade": true, "grade_id": "q02_samples_to_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

at, seen = [100, 200, 400], [50.0, 60.0, 70.0]
value = samples_to(at, seen, 65)
assert math.isclose(value, 300), (
    f"samples_to returned {value}, not 300, half-way from 200 to 400"
)
value = samples_to(at, seen, 60)
assert math.isclose(value, 200), f"60 is found at 200, not at {value}"
value = samples_to(at, seen, 45)
assert math.isclose(value, 100), f"there from the first on: {value}"
value = samples_to(at, seen, 70.5)
assert value is None, f"70.5 is never reached, and {value} was returned"
value = samples_to([100, 300, 400], [40.0, 60.0, 45.0], 50)
assert math.isclose(value, 200), f"first at 200, before the dip: not {value}"
### BEGIN HIDDEN TESTS
dip = [0.3, 0.5, 0.4, 0.6, 0.45, 0.7]
places = [10, 30, 60, 100, 150, 210]
for target, right in ((0.5, 30), (0.45, 25), (0.35, 15), (0.55, 90),
                      (0.6, 100), (0.65, 198), (0.7, 210), (0.3, 10),
                      (0.2, 10), (0.51, 82)):
    value = samples_to(places, dip, target)
    assert math.isclose(value, right, rel_tol=1e-6)
for target in (0.71, 1.0):
    assert samples_to(places, dip, target) is None
assert samples_to([], [], 0.5) is None
assert math.isclose(samples_to([8], [0.5], 0.5), 8)
assert samples_to([8], [0.5], 0.6) is None
value = samples_to([5, 6, 7], [0.4, 0.4, 0.8], 0.5)  # a level stretch
assert math.isclose(value, 6.25, rel_tol=1e-6)
value = samples_to([0, 4], [0.0, 0.8], 0.2)
assert math.isclose(value, 1, rel_tol=1e-6)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Where the baseline's time and samples go
#
# ### Time
#
# Time is mostly arithmetic ([3c](3c.Scaling-in-Depth.ipynb), section 2, times the parts of a
# step), and a score's one process sends nothing. So compute less: for fewer images, with a
# narrower network or fewer layers while images are large, or in a cheaper format. On an AMD
# EPYC with AVX512_BF16, `PRECISION = "bfloat16"` cut the reference's time per sample to this
# fraction of float32's:

# %% tags=["demo", "recorded"]
seconds = {
    configuration: np.median([run.result["seconds"] / run.result["samples"]
                    for run in turns if run.result["configuration"] == configuration])
    for configuration in ("reference", "longer, in bfloat16")
}
round(seconds["longer, in bfloat16"] / seconds["reference"], 2)

# %% [markdown]
# ### Samples
#
# Lesson 4 fitted the samples to a target at batch $B$, on this network and these images
# with a constant learning rate:
#
# $$E = E_\min \left(1 + \frac{B}{B_\text{crit}}\right)$$
#
# **Predict first.** By that curve, how many times the samples of batch 64 does the
# challenge's 1,024 need?

# %% tags=["demo"]
guess_more = None  # times

# %% tags=["demo", "recorded"]
curve = critical.critical_batch(
    recorded("critical-batch"), configuration="SGD with momentum"
)
samples = GLOBAL_BATCH * curve.fit.steps(GLOBAL_BATCH)
compare_guess(guess_more, samples / (64 * curve.fit.steps(64)),
              "times the samples of batch 64")

# %% [markdown] tags=["claims"]
# By the fitted curve a batch of 1,024 needs more than twice the samples of a
# batch of 64, and more than half of its samples are the price of the batch. In
# these runs all noise scales at frozen weights lie below 1,024.

# %% [markdown]
# At the **gradient noise scale**, noise and signal are equally strong
# ([4b](4b.Convergence-in-Depth.ipynb), section 2). So up to 65 % accuracy, where it was
# measured, the gradient of 1,024 images is mostly signal, and more images would help little.
# What helps is
#
# - **steps that get further**: a better-conditioned network or optimizer, whose curve
#   bends later (Zhang et al., 2019);
# - **less to learn**: augmentation and loss that suit a short training;
# - **a quiet end**: a learning rate that falls to 0, or an average over the last
#   weights.
#
# **A good place to stop.**

# %% [markdown]
# ## 4. Six ideas, and what each costs to try
#
# Here are six of the nine tricks in the course's own `submissions/reference.py`:
#
# - **Muon** makes a kernel's step nearly orthogonal, so no direction is learned much
#   faster than another (Jordan et al., 2024).
# - **whitening**: the first layer decorrelates images, and is not trained (Page, part
#   8; Jordan, 3.2).
# - **width late**: few filters where images are large, many where they are small
#   (Jordan, 3.1).
# - **faster biases**: a higher learning rate for batch norm's (Page, part 8; Jordan, 3.4).
# - **label smoothing** asks for 0.82, not 1 (Szegedy et al., 7).
# - **faster norm statistics**: evaluations use the means of about twenty passes
#   (Jordan's code).

# %% [markdown]
# To learn what an idea is worth *here*, leave it out and keep all the rest, the seeds
# too. Each configuration has its own best learning rate and momentum. The recorded runs
# take one epoch in bfloat16, with a narrower network; five tricks were left out on another
# processor ([more](../docs/findings.md#lesson-5-the-reference-submission)). Late widening
# is taken out twice: at equal multiplications, and at equal weights.
#
# **Predict first.** Leaving out which trick costs most?

# %% tags=["demo"]
guess_missed = None  # a name from the list above

# %% tags=["demo", "recorded"]
left_out = recorded("challenge-ablations")
table = ablations(left_out, "one pass")
compare_guess(guess_missed, table["trick"].iloc[0], "is missed most")

# %% tags=["demo", "recorded"]
table

# %% tags=["demo", "recorded"]
plot.plot_differences(judged(left_out), against="one pass", margin=0.5)

# %% [markdown] tags=["claims"]
# Without Muon one pass ends more than five points lower; no other trick
# matters as much. Without late widening accuracy is lower at equal multiplications, but not at
# equal weights. In these runs whitening and faster norm statistics also matter. Without small
# shifts, without faster biases, and with plain widths of equal weights these runs end higher
# on average: three of the published tricks cost accuracy in one epoch.

# %% [markdown]
# If an interval contains 0, five pairs were too few to see a difference of that size. With
# ten independent intervals, at least one misses with a chance of 40 %, so the table
# corrects p (Holm, 1979).
#
# *Pairs to see it*, with which the interval excludes 0 half of the time, are **what an idea
# costs to try**. A handful takes an hour; if an idea needs dozens, your table shows noise.

# %% [markdown]
# ## 5. How far above the target?
#
# Draw five of the baseline's twenty runs many times, and count how often they pass.
#
# **Predict first.** The baseline's mean is about a point and a half above 72.5 %. How
# many of a hundred scores of five count?

# %% tags=["demo"]
guess_counted = None  # of a hundred

# %% tags=["demo", "recorded"]
draws = np.random.default_rng(0).choice(reached, (20_000, 5))
errors = draws.std(axis=1, ddof=1) / math.sqrt(5)
targets = 100 * challenge.TARGET + np.array([0, 0.5, 1, 1.5])
counted = [
    100 * np.mean(draws.mean(axis=1) - target > 3.747 * errors)
    for target in targets  # 3.747: t for p = 0.01 and five runs
]
compare_guess(guess_counted, counted[0], "of a hundred count at the target")

# %% tags=["demo", "recorded"]
pd.DataFrame({
    "target, %": targets,
    "the mean is above it by": middle - targets,
    "scores that count, %": counted,
}).round(1)

# %% [markdown] tags=["claims"]
# At a target one point higher, still below the mean of all runs, fewer than
# one score in five of these runs counts.

# %% [markdown]
# The first row is not a finding: the target was set so that the baseline counts at least
# nine times in ten. A file is scored once.

# %% [markdown]
# ## 6. Can the scorer be fooled?
#
# [Lesson 5's rules](5.Challenge.ipynb) leave few ways to cheat, and a report flags files
# for an instructor to read.
#
# **Predict first.** Four files below try to cheat. How many are flagged?

# %% tags=["demo"]
guess_flagged = None  # how many of four

# %% tags=["demo"]
weights = np.random.default_rng(0).normal(size=400).round(3).tolist()
cheats = {
    "labels.py": "KNOWN = open('/data/cifar10/labels.bin').read()\n",
    "weights.py": f"BROUGHT = {weights}\n",
    "clock.py": "import time\n\ntime.process_time = lambda: 0.0\n",
    "views.py": """def views(network, images):
    return network(images) + network(images[:, :, ::-1])
""",
}
flags = {name: report(text.encode()).flags for name, text in cheats.items()}
for name, found in flags.items():
    print(f"{name}: {'; '.join(found) or 'nothing to look at'}")

# %% tags=["demo"]
compare_guess(guess_flagged, sum(map(bool, flags.values())),
              "of four are flagged")

# %% [markdown]
# `views.py` shows each image to the network twice; the second pass is on the clock.
# `labels.py` and `clock.py` gain nothing either: the sandbox has no file with labels, and
# processor time is measured from outside. Weights from elsewhere would help, and no program
# can tell them from a good idea, so a person reads that file. Some cheats can only be
# forbidden, such as extra steps inside `augment()`.

# %% [markdown]
# ## What you tried, expected and found
#
# These answers are about your own file of lesson 5.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q03_tried_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 3** (3 points)
#
# *What did you try?* Name the changes that you ran, in their order, and for
# each one the reason: what in section 3 or 4, in a source, or in an earlier
# run made you think that it would help? Say which ones you dropped, and how
# many runs your choice rests on.
#
# === BEGIN MARK SCHEME ===
# 1 point: at least two changes, told apart (or one change at several values),
# dropped ones included. 1 point: a reason for each that points to a section,
# source or run, not "it is known to be better". 1 point: the number of runs,
# and that the choice was made on public images.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q03_tried", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# First the baseline with label smoothing of 0.2 and nothing else: Szegedy et al. (section 7)
# keep a network from growing its logits for images that it already classifies correctly, and
# in a short training I expected that to leave more for the others. One run. Then lesson 5's
# file, which is the same with 157,696 samples, because the baseline leaves room. One run. Then
# that with `PEAK = 2.4`: section 3 says that the gradient is barely noisy early on, so longer
# steps should be possible. One run was worse than the one before by less than the recorded
# runs scatter, so I dropped it without knowing. Last, `SAMPLES = 135_168` with smoothing, which
# was worse, so I scored the second file. Four runs in all, chosen by the public accuracy.
# ### END SOLUTION

# %% [markdown] nbgrader={"grade": false, "grade_id": "q04_expected_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 4** (3 points)
#
# *What did you expect?* For the change that matters most in your file: write down
# the number that you predicted before you ran it, with the reasoning behind it,
# and its result. How large would the difference have to be for you to see it
# in as many runs as you made? Use the spread of the recorded runs, or the table of
# section 4.
#
# === BEGIN MARK SCHEME ===
# 1 point: a predicted number, its reasoning, and the outcome. 1 point: compares
# the difference with the spread of runs that differ only in their seed (for two
# single runs about √2 standard deviations), or with "pairs to see it". 1 point:
# draws the consequence honestly: seen, not seen, or not decided; a wrong
# prediction that is admitted gets all points.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q04_expected", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# I predicted one point more from label smoothing at the full length, because it brings about
# that much in longer trainings. One run gave 0.4 points more than my run of the
# baseline. Two single runs differ by about √2 times their standard deviation,
# by luck alone, so a difference would have to be about three times
# that to be seen in one run each. It was smaller, so these two runs don't decide whether my
# prediction was right. With label smoothing's spread in section 4,
# 0.4 points would need about ten pairs; the 0.9 points of its table, four.
# ### END SOLUTION

# %% [markdown] nbgrader={"grade": false, "grade_id": "q05_intervals_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 5** (4 points)
#
# *What do the intervals say?* Quote your score: the mean, its interval, p, and
# the verdict. Does it count, and why, or why not? Where is the public accuracy of
# your single runs relative to that interval, and why might it lie above? What
# does the range of the time ratios say? What would you run next, and how
# many times?
#
# === BEGIN MARK SCHEME ===
# 1 point: mean, interval, p and verdict, read correctly ("not shown" is not
# "below"). 1 point: public against private: chosen on the public images, other
# images, one run against a mean. 1 point: the range of the time ratios, against 1.
# 1 point: a next run with a number of runs that follows from an interval (or
# from "pairs to see it"), not "more".
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q05_intervals", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# My five runs have a mean of, say, 73.0 % ± 0.5 %, p = 0.025. The target of
# 72.5 % is at the lower end of the interval, and p < 0.01 is needed, so the score
# does not count: that the mean is above the target is likely, and not shown. My
# best single run had 73.6 % on the public images. It lies above the interval,
# as I chose the file by that number, and as one run scatters more than a mean of
# five. The time ratio is 0.89, from 0.86 to 0.93: faster in all five pairs, as it
# trains 12 % less. With this spread seven runs would be enough, but a file is scored
# once, so I would train 5 % longer and score that file.
# ### END SOLUTION

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## Sources
#
# - Holm (1979), *A Simple Sequentially Rejective Multiple Test Procedure*
# - Jordan (2024), *94% on CIFAR-10 in 3.29 Seconds* (arXiv:2404.00498)
# - Jordan et al. (2024), *Muon* (kellerjordan.github.io/posts/muon)
# - Page (2018, 2019), *How to Train Your ResNet*, part 8
# - Rules: *DAWNBench* (arXiv:1806.01427), *AlgoPerf* (arXiv:2306.07179), *MLPerf*
#   (github.com/mlcommons/training_policies), *Modded-NanoGPT*
#   (github.com/KellerJordan/modded-nanogpt)
# - Szegedy et al. (2016), *Rethinking the Inception Architecture*, section 7
# - Zhang, Li et al. (2019), *Which Algorithmic Choices Matter at Which Batch Sizes?*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
