# %% [markdown]
# # 5. Challenge
#
# **Can you beat the clock, and be believed?**
#
# | about | this lesson |
# | --- | --- |
# | time | an hour and three quarters, of which the runs take 15 to 20 minutes on two otherwise idle cores |
# | hardware | two cores, and CIFAR-10 for a place on the board: `ddl data fetch cifar10` |
# | before this | [4. Convergence](4.Convergence.ipynb) |
#
# Reach a held-out accuracy on CIFAR-10 at a fixed, large global batch, with
# fewer samples or in less time than a baseline. You bring one Python file. A
# harness brings everything that could flatter a result: the clock, the
# pictures, their order, the seeds and the evaluation.

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
# - **Your file** is written by one cell, in section 5. Change it there as
#   often as you like. The instructor runs it again, for points of its own.
# - The score in section 6 is ten runs. Start it, and read on meanwhile: you can
#   stop it at any time, and it resumes.
# - The course's **recorded** runs use real pictures. Without CIFAR-10 your own
#   runs use generated pictures, and get no place on a board.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated pictures
workers = 2

# %%
import math

import numpy as np

# %% tags=["demo"]
import itertools
import tempfile
from pathlib import Path

import pandas as pd

from ddl import beside, launch
from course import check, hint, plot, recorded
from course import challenge, critical, efficiency
from course.challenge.findings import ablations, best_of, judged
from course.challenge.build import BASELINE
from course.challenge.rules import GLOBAL_BATCH, Refused

smoke = size == "smoke"
trial = {}  # sizes of a run that counts for nothing
if smoke:
    trial = dict(samples=2_048, train_samples=2_048, public_samples=200,
                 private_samples=200)
here = dict(workers=workers, data_set=data_set)

# %% [markdown]
# ## 1. The rules, and why they are as they are

# %% tags=["demo"]
print(challenge.RULES)

# %% [markdown]
# | rule | without it |
# | --- | --- |
# | a file is traced to graphs, away from the pictures | code that runs beside the clock can stop it, wait, or look for labels |
# | batch, order, ranks and passes are given | a smaller batch would win without an idea (lesson 4) |
# | each further pass over a picture is a further sample, in training and in evaluations | "fewer samples" would be a matter of counting |
# | no knowledge comes with the file: the first layers are probed | weights that were trained elsewhere need few samples here |
# | you choose on public pictures, and private ones decide | whatever was chosen on some pictures looks better on them |
# | seeds are drawn first, no run is left out, and a second look needs a smaller p | the best of many runs is luck |
# | evaluation at fixed points, off the clock | looking often would cost time, or find a lucky moment |
# | time as a ratio to the baseline beside it | the faster machine would win |

# %% [markdown]
# ### Why taking the best run is fishing
#
# The course has recorded twenty runs of the baseline that differ *only* in their
# seed. So their differences are luck.
#
# **Predict first.** Somebody runs the baseline ten times and reports the best
# run. By how many points does it exceed the mean of all runs?

# %% tags=["demo"]
guess_fished = None  # points

# %% tags=["demo", "recorded"]
baselines = recorded("challenge-baseline")
reached = [100 * run.result["private_accuracy"] for run in baselines]
middle = np.mean(reached)
beside(
    guess_fished, best_of(reached, 10) - middle,
    "points that the best of ten is above the mean",
)

# %% tags=["demo", "recorded"]
print(f"{len(reached)} runs: mean {middle:.2f} %, standard deviation "
      f"{np.std(reached, ddof=1):.2f} points")
kept = (1, 2, 5, 10, len(reached))
pd.DataFrame({
    "best of": kept,
    "private accuracy, %": [best_of(reached, k) for k in kept],
    "above the mean": [best_of(reached, k) - middle for k in kept],
}).round(2)

# %% [markdown] tags=["claims"]
# Nothing was improved, and yet the best of ten runs is more than half a point
# above the mean of all twenty.

# %% [markdown]
# That is **fishing**: the more runs, the better the best one. It also happens in
# *time*: whoever evaluates often and stops at the first accuracy above the
# target has taken the best of many looks. So a file states `SAMPLES` beforehand,
# and is judged at its end.

# %% [markdown]
# **Question 1** (3 points)
#
# Write `expected_best(accuracies, k)`: the mean, over all ways to choose `k`
# of these runs (none twice), of the best of the chosen ones. `accuracies` is a
# list of numbers. If `k` is less than 1 or more than there are runs, raise a
# `ValueError`. (You could go through all choices. It is faster to ask in how
# many of them a given run is the best.)

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
assert math.isclose(value, 75), f"76, 73 and 76 have mean 75, not {value}"
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
        assert math.isclose(value, sum(best) / len(best), rel_tol=1e-9)
    for k in (0, -1, len(some) + 1, len(some) + 5):
        try:
            expected_best(list(some), k)
        except ValueError:
            pass
        else:
            raise AssertionError("so many runs cannot be chosen")
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The baseline
#
# This is the whole baseline. A submission is a file like it. What yours leaves
# out is taken from here, down to a single number: a file with the one line
# `PEAK = 2.4` is a submission.

# %% tags=["demo"]
print(BASELINE.read_text())

# %% [markdown]
# `challenge.run` trains a file once, with fresh seeds. A single run gives an
# impression but decides nothing. The held-out accuracy that you see is
# measured on the **public** pictures.
#
# **Predict first.** Four passes over 45,056 pictures, 176 steps: what percentage
# of the public pictures will the baseline get right?

# %% tags=["demo"]
guess_baseline = None  # percent

# %% tags=["demo"]
baseline = challenge.run("baseline.py", **here, **trial)

# %% tags=["demo"]
beside(
    guess_baseline, 100 * baseline.public_accuracy, "% of the public pictures"
)

# %% tags=["demo"]
baseline

# %% tags=["demo", "recorded"]
plot.plot_convergence([baseline.run, *baselines], x="samples")

# %% [markdown]
# Eight evaluations at fixed points: your run, and the recorded ones with a band
# from the lowest to the highest.

# %% [markdown] tags=["claims"]
# After half of their samples the recorded runs are past 60 % on average, and
# in the last quarter they gain less than three points. Half-way, runs of the
# same file lie more than ten points apart, and at the end less than three.

# %% [markdown]
# So an unfinished curve says next to nothing: while the learning rate is high,
# the weights jump about. To learn what a shorter training reaches, let one *end*
# there, with a schedule of its own.

# %% [markdown]
# **Question 2** (3 points)
#
# How many samples would have been enough for a lower target? Write
# `samples_to(samples, accuracies, target)`. The lists say what each evaluation
# found, in order. Find the first evaluation at which the accuracy is at least
# `target`. Between it and the one before, take the curve as a straight line,
# and return the number of samples at which that line is at `target`. If the
# first evaluation is already there, return its samples; if none is, return
# `None`.

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
assert math.isclose(value, 300), f"half-way from 200 to 400, not {value}"
value = samples_to(at, seen, 60)
assert math.isclose(value, 200), f"60 is found at 200, not at {value}"
value = samples_to(at, seen, 45)
assert math.isclose(value, 100), f"there from the first on: {value}"
value = samples_to(at, seen, 70.5)
assert value is None, f"70.5 is never reached, and {value} was returned"
### BEGIN HIDDEN TESTS
dip = [0.3, 0.5, 0.4, 0.6, 0.45, 0.7]
places = [10, 30, 60, 100, 150, 210]
for target, right in ((0.5, 30), (0.45, 25), (0.35, 15), (0.55, 90),
                      (0.6, 100), (0.65, 198), (0.7, 210), (0.3, 10),
                      (0.2, 10), (0.51, 82)):
    value = samples_to(places, dip, target)
    assert math.isclose(value, right, rel_tol=1e-9)
for target in (0.71, 1.0):
    assert samples_to(places, dip, target) is None
assert samples_to([], [], 0.5) is None
assert math.isclose(samples_to([8], [0.5], 0.5), 8)
assert samples_to([8], [0.5], 0.6) is None
value = samples_to([5, 6, 7], [0.4, 0.4, 0.8], 0.5)  # a level stretch
assert math.isclose(value, 6.25, rel_tol=1e-9)
value = samples_to([0, 4], [0.0, 0.8], 0.2)
assert math.isclose(value, 1, rel_tol=1e-9)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Where its time and its samples go
#
# ### Time
#
# A rank takes its 512 pictures in passes of 32, adds up their gradients, and
# then the ranks average them in one all-reduce. `step_times.py` times the parts
# of such a step. Its network has about as many weights as the baseline's, and
# computes more with each, so look at the shares.
#
# **Predict first.** What percentage of the step goes into communication?

# %% tags=["demo"]
guess_sent = None  # percent of a step

# %% tags=["demo"]
passes = 2 if smoke else GLOBAL_BATCH // (32 * workers)
parts = launch(
    "step_times.py", name="a step of the challenge", workers=workers,
    widths=[32], global_batch=32 * workers, aggregate=passes,
    steps=2 if smoke else 10,
)

# %% tags=["demo"]
step = efficiency.step_parts([parts]).iloc[0]
beside(
    guess_sent, 100 * step["communication_ms"] / step["step_ms"],
    "% of a step is communication",
)

# %% tags=["demo"]
plot.plot_step_times([parts])

# %% [markdown]
# And around the steps of your baseline run:

# %% tags=["demo"]
timed = [each for each in baseline.run.events() if "seconds" in each]
start, *_ = (e for e in baseline.run.events() if e["event"] == "start")
whole = timed[-1]["time"] - start["time"]
pd.Series({
    "until the first step": baseline.run.result["time_to_first_step_s"],
    "on the clock: training": baseline.seconds,
    "off the clock: evaluations": whole - baseline.seconds,
    "of all ranks' processors, on the clock":
        baseline.run.result["cpu_seconds"],
}, name="seconds").round(1).to_frame()

# %% [markdown]
# On one machine, time is arithmetic. So time is won by computing less for each
# picture (a narrower network, or fewer layers where the pictures are large), by
# computing it in a cheaper format (`PRECISION = "bfloat16"` halves the time on a
# processor with AMX, and is refused where there are no instructions for it), or
# by needing fewer pictures. `COMPRESSION = "fp16"` halves only the message.

# %% [markdown]
# ### Samples
#
# Lesson 4 fitted the samples to a target at batch $B$ by
#
# $$E = E_\min \left(1 + \frac{B}{B_\text{crit}}\right)$$
#
# on this network and these pictures, with a constant rate.
#
# **Predict first.** By that curve, how many times the samples of batch 64 does
# the challenge's batch of 1,024 need?

# %% tags=["demo"]
guess_more = None  # times

# %% tags=["demo", "recorded"]
curve = critical.critical_batch(
    recorded("critical-batch"), arm="SGD with momentum"
)
samples = GLOBAL_BATCH * curve.fit.steps(GLOBAL_BATCH)
beside(
    guess_more, samples / (64 * curve.fit.steps(64)),
    "times the samples of batch 64",
)

# %% tags=["demo", "recorded"]
frozen = critical.Noise(tuple(
    run.result["noise"]["noise_scale"] or math.inf
    for run in recorded("noise-frozen")
))
plot.plot_critical_batch(curve, noise={"at frozen weights": frozen})

# %% tags=["demo", "recorded"]
plot.plot_batch_size_tradeoff(curve.fit, batches=(64, GLOBAL_BATCH))

# %% [markdown] tags=["claims"]
# By the fitted curve a batch of 1,024 needs more than twice the samples of a
# batch of 64, and more than half of its samples are the price of the batch. All
# noise scales at frozen weights lie below 1,024.

# %% [markdown]
# So at 1,024 the gradient is already more signal than noise. Averaging over more
# pictures would help little. What helps is
#
# - **steps that get further**: a better-conditioned network or optimizer, whose
#   curve bends later (Zhang et al., 2019), or a better start;
# - **less that has to be learned**: augmentation and loss that suit a short
#   training;
# - **a quiet end**: a rate that falls to 0, or an average over the last weights,
#   which removes the noise that is left.

# %% tags=["demo"]
check()

# %% [markdown]
# ## 4. Six ideas, and what each costs to try
#
# The course has a submission of its own, `submissions/reference.py`. It is made
# of tricks that others found and measured, each with a switch at its top. Here
# are six of them.
#
# | idea | what it does | source |
# | --- | --- | --- |
# | **Muon** | makes a kernel's step nearly orthogonal, so that no direction is learned much faster than another | Jordan et al. (2024) |
# | **whitening** | the first layer takes pictures apart into uncorrelated parts, and is not trained | Page, part 8; Jordan, 3.2 |
# | **width late** | few filters where pictures are large, many where they are small: more weights for the same arithmetic | Jordan, 3.1 |
# | **faster biases** | the biases of batch norm have a much higher rate | Page, part 8; Jordan, 3.4 |
# | **label smoothing** | asks for 0.8, not 1: pictures already right hardly change the weights | Szegedy et al., 7 |
# | **Lookahead** | weights go back to a slow average of themselves, which is quieter | Zhang et al.; Jordan, 3.4 |

# %% [markdown]
# To learn what an idea is worth *here*, leave it out and keep all the rest,
# the seeds too. The recorded runs take one pass over the pictures, 44 steps,
# in bfloat16. Differences are paired, as in lesson 4.
#
# **Predict first.** Leaving out which of the reference's tricks costs most?

# %% tags=["demo"]
guess_missed = None  # a name from the table above

# %% tags=["demo", "recorded"]
left_out = recorded("challenge-ablations")
share = 45_056 / baseline.samples  # of the time of your baseline run
table = ablations(left_out, "one pass", seconds=share * baseline.seconds)
beside(guess_missed, table["trick"].iloc[0], "is missed most")

# %% tags=["demo", "recorded"]
table

# %% tags=["demo", "recorded"]
names = ["one pass", *("without " + trick for trick in table["trick"])]
plot.plot_differences(
    [run for run in judged(left_out) if run.name in names],
    against="one pass", margin=0.5,
)

# %% [markdown] tags=["claims"]
# Without Muon one pass ends more than five points lower; no other trick matters
# as much. Width late and whitening help, too. Without Lookahead, and without
# small shifts, one pass ends higher. For the dirac start and for GELU the
# intervals contain 0.

# %% [markdown]
# So what helped others can harm a training of only 44 steps: an average of the
# past lags far behind, and there is no time to learn pictures by heart.
#
# Flips can alternate only where pictures are seen several times. So that trick
# was left out of the reference's whole training:

# %% tags=["demo", "recorded"]
turns = recorded("challenge-times")  # whole trainings, in turns
ablations(turns, "in bfloat16")

# %% [markdown]
# Look at *pairs to see it*: how many pairs of runs it takes until the interval
# is likely to exclude 0. Where that is a handful, you can test the idea in
# your hour. Where it is dozens, your table shows luck. So **what an idea costs
# to try** is not its ten lines of code, but the runs until you can tell that
# it works.
#
# The tricks do not add up: each difference was measured with all other tricks
# present. Here is each trick alone, in the same file with all others switched
# off, as a mean over two seeds:

# %% tags=["demo", "recorded"]
alone = pd.DataFrame(
    {"one pass with": run.name,
     "private accuracy, %": 100 * run.result["test_accuracy"]}
    for run in judged(recorded("challenge-alone"))
)
alone.groupby("one pass with").mean().round(1).sort_values(
    "private accuracy, %", ascending=False
)

# %% [markdown] tags=["claims"]
# No trick alone brings one pass to the target, but all of them together do,
# with both seeds. The best one alone, Muon, stays more than five points below.

# %% [markdown]
# The settings suit all tricks together; one alone might do better with others.

# %% [markdown]
# ## 5. An attempt
#
# The question is how few samples are enough. The recorded baseline leaves room:

# %% [markdown] tags=["claims"]
# The mean of its twenty runs is more than a point above the target.

# %% [markdown]
# This cell writes your file. Make it yours: everything that the baseline defines
# can be defined here, `model`, `augment`, `loss`, `optimizer`, `schedule`, the
# capitals, and also `prepare` and `finish`, which it lacks. If something is
# wrong, the next cell says so, with the line.

# %%
%%writefile my_submission.py
"""My submission: the baseline, shorter, with label smoothing."""

import tensorflow as tf

SAMPLES = 157_696  # how long it trains: a multiple of 1,024
SMOOTHING = 0.2


def loss(logits, labels):
    """Return the loss of each picture, float32 [n]; labels are int32 [n]."""
    chances = tf.nn.log_softmax(logits)
    right = tf.reduce_sum(tf.one_hot(labels, 10) * chances, 1)
    every = tf.reduce_mean(chances, 1)
    return -(1 - SMOOTHING) * right - SMOOTHING * every

# %% [markdown]
# **Predict first.** What percentage of the public pictures will your file get
# right, on one seed?

# %% tags=["demo"]
guess_attempt = None  # percent

# %% tags=["demo"]
attempt = challenge.run("my_submission.py", **here, **trial)

# %% tags=["demo"]
beside(
    guess_attempt, 100 * attempt.public_accuracy, "% of the public pictures"
)

# %% tags=["demo"]
attempt

# %% tags=["demo"]
plot.plot_challenge(challenge.board(), challenge.attempts())

# %% [markdown]
# Your attempts are hollow marks, one for each run on CIFAR-10; scores are
# filled and have a bar. Change the file, run the cells again, and watch the
# marks move. Three habits help:
#
# - **One change at a time**, and a sentence beforehand about what you expect.
#   You need it for question 4.
# - **Short looks first**: `challenge.run("my_submission.py", samples=45_056)`
#   takes a quarter of the time. It finds mistakes, and large differences.
# - **The same seed** for two files, `challenge.run(…, seed=1)`: they get the
#   same initial weights, if they have the same network. The order of pictures
#   stays new.

# %% [markdown]
# ## 6. A score, with its interval
#
# A score takes five runs. Their seeds are drawn and noted before the first
# one. Beside each runs the baseline, in turns, for the board of times. The
# mean of the *private* accuracies has to be so far above the target that luck
# is no explanation: a one-sided t-test, p < 0.01.
#
# **Predict first.** How wide will the 95 % interval of the mean of five runs be,
# ± how many points?

# %% tags=["demo"]
guess_half = None  # points, half of the interval's width

# %% tags=["demo"]
runs = 2 if smoke else 5
minutes = runs * (baseline.seconds + attempt.seconds) / 60
print(f"{2 * runs} runs: on the clock about {minutes:.0f} minutes")
scored = challenge.score("my_submission.py", n=runs, **here, **trial)

# %% tags=["demo"]
beside(guess_half, 100 * scored.half_width, "points, ±")

# %% tags=["demo"]
scored

# %% [markdown]
# A file that has a score is not run again when you execute the cell again. If
# you stop it (■), the next execution continues with the same seeds. With
# `again=True` five more runs join the first ones, and p has to be half as
# small: repeating until it fits would be fishing, too. With `beside=False` a
# score takes half as long and has no place on the board of times.
#
# "Not shown to reach the target" does not mean below it. How far above it must a
# file be for five runs to show it? The twenty recorded runs of the
# baseline hold 15,504 scores of five:

# %% tags=["demo", "recorded"]
fives = np.array(list(itertools.combinations(reached, 5)))
errors = fives.std(axis=1, ddof=1) / math.sqrt(5)
targets = 100 * challenge.TARGET + np.array([0, 0.5, 1, 1.5])
pd.DataFrame({
    "target, %": targets,
    "the mean is above it by": middle - targets,
    "scores that count, %": [
        100 * np.mean((fives.mean(axis=1) - target) / errors > 3.747)
        for target in targets  # 3.747: t for p = 0.01 and five runs
    ],
}).round(1)

# %% [markdown] tags=["claims"]
# At the target every score of five counts. One point higher, still below the
# mean of all runs, fewer than one in ten does.

# %% [markdown]
# **Question 3** (4 points)
#
# Write `counts(accuracies, target)`. `accuracies` lists the private accuracy of
# every run of a score in percent, with `None` for a run that crashed, which has
# reached chance: 10. Return `True` if there are at least five runs and
#
# $$\frac{\bar a - \text{target}}{s / \sqrt n} > t_{n-1}$$
#
# where $\bar a$ is the mean, $s$ the sample standard deviation (divided by
# $n-1$), and $t_{n-1}$ is `T99[n - 1]`, the value that luck alone exceeds in one
# of a hundred scores. Otherwise return `False`. If all runs are equal, $s$ is 0:
# then they count if they are above the target.

# %%
T99 = dict(enumerate(  # Student's t, one-sided, p = 0.01, by n - 1
    [3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718, 2.681, 2.650,
     2.624, 2.602, 2.583, 2.567, 2.552, 2.539], 4
))

# %% nbgrader={"grade": false, "grade_id": "q03_counts", "locked": false, "schema_version": 3, "solution": true, "task": false}
def counts(accuracies, target):
    """Return whether these runs show that their mean is above the target."""
    ### BEGIN SOLUTION
    reached = [10.0 if each is None else each for each in accuracies]
    n = len(reached)
    if n < 5:
        return False
    error = np.std(reached, ddof=1) / math.sqrt(n)
    return bool(np.mean(reached) - target > T99[n - 1] * error)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_counts
#
# 1. First turn all runs into numbers: what does a crashed one count as? How
#    many must there be?
# 2. Use `ddof=1`. Where s is 0 you cannot divide by it: multiply the
#    inequality by s/√n, and equal runs need no special case.
# 3. `reached = [10.0 if each is None else each for each in accuracies]`

# %% nbgrader={"grade": true, "grade_id": "q03_counts_test", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
five = [72.5, 73.0, 73.5, 73.0, 73.0]  # 73 ± 0.16: t is 6.3 at 72
assert counts(five, 72) == True, "five runs, one point above 72"
near_by = 72.6
assert counts(five, near_by) == False, "t is 2.5, and 3.747 is needed"
assert counts(five, 74) == False, "their mean is below 74"
assert counts(five[:4], 70) == False, "four runs are too few"
assert counts([*five, None], 70) == False, "a crash counts as 10 %"
### BEGIN HIDDEN TESTS
spread, more = [50, 52, 51, 49, 53], [60, 61, 62, 63, 64, 65]
many = [60 + number % 3 for number in range(20)]
for some, target, right in (
    (spread, 48.3, True), (spread, 48.4, False),  # 3.82 and 3.68, of 3.747
    (more, 59.9, True), (more, 60, False),  # 3.40 and 3.27, of 3.365
    (many, 60.4, True), (many, 60.5, False),  # 2.98 and 2.44, of 2.539
    (spread, 60, False), (more, 62.5, False), (spread[:4], 1, False),
    ([70.0] * 5, 69.9, True), ([70.0] * 5, 70, False),
    ([70.0] * 5, 71, False), ([70.0] * 4, 60, False),
    ([70.0] * 3 + [None] * 2, 30, False), ([], 0, False), ([80], 1, False),
    ([None] * 6, 9.9, True), ([None] * 6, 10, False),
    ([None] * 4, 5, False), ([90, None, 90, 90, 90], 14, True),
    ([90, None, 90, 90, 90], 14.5, False),  # 3.75 and 3.72, of 3.747
    ([None, 11, 12, 10.5, 11.5, 12, 11], 10.1, True),  # 3.69 of 3.143
    ([None, 11, 12, 10.5, 11.5, 12, 11], 10.4, False),
    ([0.0, 30, 30, 30, 30], 2, False),  # 3.67; 6 with 10 in its place
    ([9.0] * 5, 9.5, False),
):
    for given in (list(some), list(some)[::-1]):
        assert counts(given, target) == right
assert counts(spread, 48) in (True, False)  # and nothing else
### END HIDDEN TESTS

# %% [markdown]
# ## 7. Nobody fools it
#
# Where a program scores people, they look for its gaps. Here are five files
# that try. Your file's Python runs once, in a process of its own without
# pictures, files or network, and only the graphs that it makes go on.
#
# **Predict first.** How many of the five are refused before they train?

# %% tags=["demo"]
guess_refused = None  # how many of five

# %% tags=["demo"]
cheats = {
    "labels.py": "KNOWN = open('/data/cifar10/labels.bin').read()\n",
    "quits.py": "raise SystemExit(0)  # all is well\n",
    "clock.py": "import time\n\ntime.monotonic = lambda: 0.0\n",
    "python.py": """import tensorflow as tf

def loss(logits, labels):
    return tf.py_function(lambda x: 0 * x, [logits[:, 0]], tf.float32)
""",
    "weights.py": """import tensorflow as tf

BROUGHT = tf.random.stateless_uniform([99, 999], [1, 2]).numpy()

def loss(logits, labels):
    return tf.reduce_mean(BROUGHT) * logits[:, 0]
""",
}

# %% tags=["demo"]
tiny = dict(samples=1_024, train_samples=1_024, public_samples=100,
            private_samples=100)
refused = []
with tempfile.TemporaryDirectory() as folder:
    for name, text in cheats.items():
        path = Path(folder, name)
        path.write_text(text)
        try:
            run = challenge.run(path, **here, **tiny)
            print(f"{name} ran: {run.seconds:.1f} s on the clock\n")
        except Refused as error:
            refused.append(name)
            print(f"{error}\n")

# %% tags=["demo"]
beside(guess_refused, len(refused), "of five are refused")

# %% [markdown]
# The one that ran changed a clock that nobody reads: that of its own process.
# The ranks run the course's Python and your graphs, so it is scored as what it
# is, the baseline. What remains possible can only be forbidden by the rules,
# such as knowledge about CIFAR-10 in the choice of a network. That is why a
# person reads a file that is too fast to be true.

# %% [markdown]
# ## 8. The board
#
# **Predict first.** What percentage of the private pictures does the course's
# reference get right on average?

# %% tags=["demo"]
guess_reference = None  # percent

# %% tags=["demo", "recorded"]
reference = [
    100 * run.result["private_accuracy"]
    for run in turns if run.result["arm"] == "reference"
]
beside(guess_reference, np.mean(reference), "% of the private pictures")

# %% tags=["demo"]
challenge.board()

# %% tags=["demo"]
plot.plot_challenge(challenge.board(), challenge.attempts())

# %% [markdown]
# `challenge.board("time")` orders by time. When you are satisfied, pack the file:

# %% tags=["demo"]
challenge.submit("my_submission.py")

# %% [markdown]
# The archive holds your file, the records of its score, and versions. Hand it in
# with this notebook. Its numbers are not taken on trust: the instructor runs the
# file again, with fresh seeds, and that gives the points (rule 14).
#
# ## What you tried
#
# A person reads these three answers. They are worth as much for a file that
# missed the target as for one that reached it.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q04_tried_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 4** (3 points)
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
# and that the choice was made on public pictures.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q04_tried", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# First label smoothing of 0.2: Szegedy et al. (section 7) keep a network from
# growing its logits for pictures that it already classifies correctly, and in
# a short training I expected that to leave more for the others. One run. Then
# the same with `PEAK = 2.4`: section 3 says that at 1,024 the gradient is
# hardly noisy, so longer steps should be possible. One run was worse than the
# one before by less than the recorded runs scatter, so I dropped it without
# knowing. Last, `SAMPLES = 135_168` with smoothing. Three runs in all, chosen
# by the public accuracy.
# ### END SOLUTION

# %% [markdown] nbgrader={"grade": false, "grade_id": "q05_expected_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 5** (3 points)
#
# *What did you expect?* For the change that matters most in your file: write down
# the number that you predicted before you ran it, with the reasoning behind it,
# and what came out. How large would the difference have to be for you to see it
# in as many runs as you made? Use the recorded spread of section 1, or the table
# of section 4.
#
# === BEGIN MARK SCHEME ===
# 1 point: a predicted number, its reasoning, and the outcome. 1 point: compares
# the difference with the spread of runs that differ only in their seed (for two
# single runs about √2 standard deviations), or with "pairs to see it". 1 point:
# draws the consequence honestly: seen, not seen, or not decided; a wrong
# prediction that is admitted gets all points.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q05_expected", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# I predicted one point more from label smoothing, because it brings about that
# much in longer trainings. One run gave 0.4 points more than my run of the
# baseline. Two single runs differ by about √2 times the standard deviation of
# section 1, by luck alone, so a difference would have to be about three times
# that to be seen in one run each. It was not: my prediction may be right or
# wrong, these two runs do not decide. By the table of section 4 I would have
# needed some ten pairs.
# ### END SOLUTION

# %% [markdown] nbgrader={"grade": false, "grade_id": "q06_intervals_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 6** (4 points)
#
# *What do the intervals say?* Quote your score: the mean, its interval, p, and
# the verdict. Does it count, and why, or why not? Where is the public accuracy of
# your single runs relative to that interval, and why might it lie above? What
# does the interval of the time ratio decide? What would you run next, and how
# many times?
#
# === BEGIN MARK SCHEME ===
# 1 point: mean, interval, p and verdict, read correctly ("not shown" is not
# "below"). 1 point: public against private: chosen on the public pictures, other
# pictures, one run against a mean. 1 point: the time ratio's interval, against 1.
# 1 point: a next run with a number of runs that follows from an interval (or
# from "pairs to see it"), not "more".
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q06_intervals", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# My five runs have a mean of, say, 73.0 % ± 0.5 %, p = 0.025. The target of
# 72.5 % is at the lower end of the interval, and p < 0.01 is needed, so the score
# does not count: that the mean is above the target is likely, and not shown. My
# best single run had 73.6 % on the public pictures. It lies above the interval,
# as I chose the file by that number, and as one run scatters more than a mean of
# five. The time ratio is 0.89, from 0.86 to 0.93: faster, as it trains 12 % less.
# With this spread seven runs would be enough. As a second look halves the p that
# is needed, I would rather train 5 % longer and score that file anew.
# ### END SOLUTION

# %% [markdown]
# ## Your answers so far
#
# The button saves the notebook, runs its cells again from top to bottom, and
# says which questions pass the tests that you can see. A question's number
# links to your answer. A person reads the written answers, and the instructor
# scores your file.

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - A result is a **mean of runs that nobody picked**, with an interval,
#   against a target fixed beforehand.
# - The best of many runs measures only how many there were.
# - What an idea costs to try is the number of runs until it can be seen.
# - At a large batch, samples go into averaging. What helps is steps that get
#   further, not gradients that are less noisy.
# - A harness that trusts nothing it is told makes cheating pointless, and honest
#   results easy to believe.
#
# ## Things to try
#
# - Score the baseline itself: does it count?
# - Two files that differ in one idea, eight seeds each. Does the interval of the
#   paired difference agree with section 4?
# - A file with `SAMPLES = 1_024` and an honest verdict.
# - `workers=4`: which of the two boards changes?

# %% [markdown]
# ## Sources
#
# - Coleman et al. (2019), *Analysis of DAWNBench, a Time-to-Accuracy Machine
#   Learning Performance Benchmark* (arXiv:1806.01427)
# - Dahl et al. (2023), *Benchmarking Neural Network Training Algorithms*
#   (AlgoPerf, arXiv:2306.07179)
# - Jordan (2024), *94% on CIFAR-10 in 3.29 Seconds on a Single GPU*
#   (arXiv:2404.00498), sections 3.1 to 3.6
# - Jordan et al. (2024), *Muon: An optimizer for hidden layers in neural
#   networks* (kellerjordan.github.io/posts/muon)
# - McCandlish et al. (2018), *An Empirical Model of Large-Batch Training*
# - MLCommons, *MLPerf Training Rules* (github.com/mlcommons/training_policies)
# - Modded-NanoGPT, *rules for records* (github.com/KellerJordan/modded-nanogpt)
# - Page (2018, 2019), *How to Train Your ResNet*, part 8: *Bag of Tricks*
# - Szegedy et al. (2016), *Rethinking the Inception Architecture for Computer
#   Vision*, section 7 (label smoothing)

# %% [markdown]
# - Zhang, Lucas, Hinton, Ba (2019), *Lookahead Optimizer: k steps forward, 1 step
#   back*
# - Zhang, Li et al. (2019), *Which Algorithmic Choices Matter at Which Batch
#   Sizes? Insights From a Noisy Quadratic Model*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
