# %% [markdown]
# # 3e. Failures in depth
#
# **What does a failure cost, and how often should you checkpoint?**
#
# | about | this notebook |
# | --- | --- |
# | time | 60 minutes, of which the runs take about three |
# | hardware | two cores |
# | before this | [3. Multi-GPU](3.Multi-GPU.ipynb) |
#
# Ranks of a training depend on each other: when one ends, none can go on (elastic
# training, below, is the exception). You kill one on purpose, see what the run does,
# and compute when a checkpoint is worth its time.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated images
workers = 2
seed = 0

# %%
import math

import numpy as np

# %% tags=["demo"]
import pandas as pd

from ddl import launch
from course import check, compare_guess, failures, fault_injection, hint, plot

smoke = size == "smoke"
DAY, HOUR = 24 * 3_600, 3_600  # in seconds

# %% [markdown]
# ## 1. How often does something fail?
#
# Meta trained Llama 3 on 16,384 H100 GPUs. In 54 days the job was interrupted 466 times,
# 419 of them unexpectedly: broken GPUs and memory, cables, hosts, software (Llama team
# 2024, section 3.3.4).
#
# The mean time between two failures is the **MTBF**. If GPUs fail independently of
# each other, a job's MTBF is one GPU's MTBF divided by the number of GPUs.
#
# **Predict first.** At this rate, how many days pass between two failures on 8 GPUs?

# %% tags=["demo"]
guess_days = None  # days

# %% tags=["demo"]
gpu_mtbf_s = 54 * DAY * 16_384 / 419  # of one GPU
compare_guess(guess_days, gpu_mtbf_s / 8 / DAY, "days between failures")

# %% tags=["demo"]
rows = []
for gpus in (8, 64, 512, 4_096, 16_384):
    mtbf_s = gpu_mtbf_s / gpus
    rows.append({
        "GPUs": gpus,
        "hours between failures": mtbf_s / HOUR,
        "failures in 54 days": 54 * DAY / mtbf_s,
        "54 days without one, %": 100 * math.exp(-54 * DAY / mtbf_s),
    })
pd.DataFrame(rows).set_index("GPUs").round(1)

# %% [markdown]
# The last column takes failures to be random (their times are exponential). It is one
# job's rate, on one kind of machine, and "GPU" includes everything around one.

# %% [markdown]
# ## 2. The drill
#
# `train_cifar.py` writes a **checkpoint** every few steps: weights, the
# optimizer's state, the step, and the place in the order of samples. Training stops
# while they are copied, and a thread writes the copy. With `max_restarts` the
# launcher starts all ranks again when one has failed, and they go on from the last
# checkpoint.
#
# Three runs write one every 1, 10 and 100 steps. In each, rank 1 gets the signal
# SIGKILL once the record says step 185 or later. Linux sends the same signal when
# memory runs out. (Steps are recorded twice a second.)
#
# **Predict first.** How many steps will the run with the fewest checkpoints (every 100
# steps; every 50 in a smoke run) do twice?

# %% tags=["demo"]
guess_twice = None  # steps

# %% tags=["demo"]
steps, kill_step, gaps = 400, 185, (1, 10, 100)
if smoke:
    steps, kill_step, gaps = 200, 65, (1, 10, 50)
training = dict(
    data_set=data_set, train_samples=5_000, test_samples=500, global_batch=64,
    steps=steps, seed=seed, threads=1, workers=workers, no_augment=True,
    recipe="batch_norm",
)
calm = launch("train_cifar.py", name="not killed", **training)

# %% tags=["demo"]
killed = []
for gap in gaps:
    run = launch(
        "train_cifar.py", name=f"a checkpoint every {gap}", wait=False,
        max_restarts=2, checkpoint_every=gap, **training,
    )
    killed.append(fault_injection.kill_at(run, rank=1, step=kill_step))
compare_guess(guess_twice, killed[-1].restarts[0].repeated, "steps done twice")

# %% tags=["demo"]
cost = fault_injection.costs(killed)
cost.round(3)

# %% [markdown]
# `lost_s` is the time from when that step was recorded until it was reached again.
# `step_s` is a step on the wall clock, with checkpoints and evaluations in it;
# `checkpoint_s` is how long training stops for one checkpoint. The thread that writes
# competes with the steps for cores. Compare `step_s`; other load can hide this.
#
# Is it still the same training?

# %% tags=["demo"]
plot.plot_convergence([calm, *killed], x="steps")

# %% tags=["demo"]
losses = {run.name: run.result["loss"] for run in (calm, *killed)}
pd.DataFrame({"loss of the last epoch": losses})

# %% [markdown]
# Samples come in the same order after a restart, and a checkpoint has all that a step
# changes. So the curves match an undisturbed run, up to rounding. A checkpoint
# without the optimizer's state, or a new random order, would show here.

# %% [markdown]
# ## 3. The best interval
#
# Few checkpoints lose steps, and many lose time. Let `interval_s` be the seconds of
# *training* between two checkpoints, `checkpoint_s` the time to write one, `restart_s`
# the time from a failure until ranks train again, and `mtbf_s` the job's MTBF.
#
# **Question 1** (2 points)
#
# Write `lost_share`: seconds lost for each second of training, to first order.
#
# - Each interval ends with one checkpoint.
# - Failures occur every `mtbf_s` seconds on average. Each costs a restart, and half
#   an interval on average, since it can happen at any time.
# - Nothing fails during checkpoints and restarts.

# %% nbgrader={"grade": false, "grade_id": "q01_lost_share", "locked": false, "schema_version": 3, "solution": true, "task": false}
def lost_share(interval_s, checkpoint_s, restart_s, mtbf_s):
    """Return the seconds lost for each second of training."""
    ### BEGIN SOLUTION
    written = checkpoint_s / interval_s
    failed = (interval_s / 2 + restart_s) / mtbf_s
    return written + failed
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q01_lost_share
#
# 1. Two terms: what checkpoints cost for each second of training, and what failures do.
# 2. A cost paid once in $n$ seconds is, for each second, the cost divided by
#    these seconds. Only failures cost half an interval and a restart.
# 3. `failed = (interval_s / 2 + restart_s) / mtbf_s`

# %% nbgrader={"grade": true, "grade_id": "q01_lost_share_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

import numpy as np

value = lost_share(100, 10, 0, 1e12)
assert math.isclose(value, 0.1, rel_tol=1e-6), (
    f"lost_share(100, 10, 0, 1e12) returned {value}, not 0.1: 10 s of each 100 s"
)
value = lost_share(100, 0, 50, 1_000)
assert math.isclose(value, 0.1, rel_tol=1e-6), (
    f"each failure costs 50 s + 50 s, in 1,000 s: {value}, not 0.1"
)
value = lost_share(100, 10, 50, 1_000)
assert math.isclose(value, 0.2, rel_tol=1e-6), (
    f"with both, and no failure during a checkpoint: {value}, not 0.2"
)
### BEGIN HIDDEN TESTS
draw = np.random.default_rng(5)
for interval_s, checkpoint_s, mtbf_s in ((600, 6, 1e6), (2_000, 60, 1e6)):
    until = draw.exponential(mtbf_s, 40_000)  # failures of a simulated job
    whole = np.floor(until / (interval_s + checkpoint_s)).sum()
    lost = (until + 300).sum() / (whole * interval_s) - 1
    value = lost_share(interval_s, checkpoint_s, 300, mtbf_s)
    assert math.isclose(value, lost, rel_tol=0.05)
for case, wanted in (
    ((50, 3, 7, 90), 0.06 + 32 / 90), ((8, 8, 8, 8), 2.5),
    ((0.5, 0.25, 0.5, 3), 0.75), ((1_000, 30, 600, 11_124), 0.1288853),
):
    assert math.isclose(lost_share(*case), wanted, rel_tol=1e-5)
### END HIDDEN TESTS

# %% [markdown]
# **Predict first.** A checkpoint takes 60 s, and the job has Llama 3's failures: one in 3.1
# hours. How many minutes apart should checkpoints be?

# %% tags=["demo"]
guess_minutes = None  # minutes

# %% tags=["demo"]
compare_guess(guess_minutes, failures.young(60, gpu_mtbf_s / 16_384) / 60,
              "minutes between checkpoints")

# %% [markdown]
# **Question 2** (1 point)
#
# Write `young(checkpoint_s, mtbf_s)`: the interval, in seconds, at which `lost_share` is
# smallest (Young 1974). Set the derivative by `interval_s` to 0.

# %% nbgrader={"grade": false, "grade_id": "q02_young", "locked": false, "schema_version": 3, "solution": true, "task": false}
def young(checkpoint_s, mtbf_s):
    """Return the seconds of training between checkpoints that lose least."""
    ### BEGIN SOLUTION
    return math.sqrt(2 * checkpoint_s * mtbf_s)
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_young
#
# 1. The restart is a constant: it doesn't affect where the minimum is.
# 2. `-checkpoint_s / interval_s**2 + 1 / (2 * mtbf_s)` is 0 at the minimum.
# 3. `squared = 2 * checkpoint_s * mtbf_s`

# %% nbgrader={"grade": true, "grade_id": "q02_young_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

value = young(2, 100)
assert math.isclose(value, 20, rel_tol=1e-6), (
    f"young(2, 100) returned {value}, not 20: 2/20 = 20/2/100"
)
value = young(8, 100)
assert math.isclose(value, 40, rel_tol=1e-6), (
    f"a checkpoint that takes 4 times as long: twice the interval, not {value}"
)
value = young(3, 5)
assert math.isclose(value, 30**0.5, rel_tol=1e-6), f"√30 s: {value}"
### BEGIN HIDDEN TESTS
for case, wanted in (((300, 86_400), 7_200), ((0.5, 4), 2), ((3, 6), 6),
                     ((60, 11_124), 1_155.37)):
    assert math.isclose(young(*case), wanted, rel_tol=1e-5)
### END HIDDEN TESTS

# %% [markdown]
# **Question 3** (1 point)
#
# If failures come often, first order is not enough: failures also hit checkpoints and
# restarts. Write `daly(checkpoint_s, mtbf_s)` (Daly 2006). With `ratio` for
# `checkpoint_s / (2 * mtbf_s)`:
#
# - if `ratio` is below 1: Young's interval × (1 + √`ratio` ÷ 3 + `ratio` ÷ 9), minus
#   `checkpoint_s`;
# - otherwise `mtbf_s`.

# %% nbgrader={"grade": false, "grade_id": "q03_daly", "locked": false, "schema_version": 3, "solution": true, "task": false}
def daly(checkpoint_s, mtbf_s):
    """Return the seconds of training between checkpoints, by Daly."""
    ### BEGIN SOLUTION
    ratio = checkpoint_s / (2 * mtbf_s)
    if ratio >= 1:
        return mtbf_s
    series = 1 + math.sqrt(ratio) / 3 + ratio / 9
    return math.sqrt(2 * checkpoint_s * mtbf_s) * series - checkpoint_s
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_daly
#
# 1. Look at the case in which a checkpoint takes longer than twice the MTBF first.
# 2. Only Young's interval is multiplied by the series; the checkpoint is subtracted from
#    the product, once.
# 3. `series = 1 + math.sqrt(ratio) / 3 + ratio / 9`

# %% nbgrader={"grade": true, "grade_id": "q03_daly_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

value = daly(5, 24 * 60)  # in minutes, as in the figures 3 and 5 of the paper
assert math.isclose(value, 116.69, rel_tol=1e-4), (
    f"daly(5, 24 * 60) returned {value}, not 116.69"
)
value = daly(5, 15)
assert math.isclose(value, 9.1409, rel_tol=1e-4), f"9.1 minutes, not {value}"
value = daly(70, 15)
assert math.isclose(value, 15), f"70 is above 2 × 15: the MTBF, not {value}"
value = daly(20, 15)
assert math.isclose(value, 12.976, rel_tol=1e-4), (
    f"20 is below 2 × 15: 12.976 minutes, not {value}"
)
### BEGIN HIDDEN TESTS
for case, wanted in (
    ((5, 360), 56.712963), ((8, 16), 11.111111), ((3, 2), 1.752777),
    ((2, 1), 1), ((300, 7), 7), ((60, 11_124), 1_115.716),
    ((0.5, 100), 9.669444), ((1.9, 1), 0.888458), ((2.1, 1), 1),
):
    value = daly(*case)
    assert math.isclose(value, wanted, rel_tol=1e-5), (case, value)
### END HIDDEN TESTS

# %% [markdown]
# Below, the line is the course's own `lost_share`: `checkpoint_s / interval_s +
# (interval_s / 2 + restart_s) / mtbf_s`. Dots are a simulation of 4,000 failures, each
# after an exponential time, in which checkpoints can also fail.

# %% tags=["demo"]
plot.plot_lost_share(60, 300, gpu_mtbf_s / 16_384, seed=seed)

# %% [markdown]
# Where little is lost, both agree; where much is lost, the first-order formula
# underestimates. The minimum is flat: at half or twice the best interval, checkpoints
# and repeated steps cost a quarter more. Now jobs of all sizes, if a checkpoint takes
# 60 s and a restart 300 s (both are assumed):

# %% tags=["demo"]
rows = []
for gpus in (8, 64, 512, 4_096, 16_384):
    mtbf_s = gpu_mtbf_s / gpus
    by_daly = failures.daly(60, mtbf_s)
    times = by_daly, 60, 300, mtbf_s
    rows.append({
        "GPUs": gpus,
        "hours between failures": mtbf_s / HOUR,
        "Young, minutes": failures.young(60, mtbf_s) / 60,
        "Daly, minutes": by_daly / 60,
        "lost, % of training": 100 * failures.lost_share(*times),
        "simulated": 100 * failures.simulated_share(*times, seed=seed),
        "lost with one a day": 100 * failures.lost_share(DAY, *times[1:]),
    })
pd.DataFrame(rows).set_index("GPUs").round(2)

# %% [markdown]
# ## 4. Predicted and measured
#
# A failure of your drill ought to cost `steps twice × step_s + restart_s`. How long a
# restart takes is read off the run with a checkpoint every 10 steps, and the run with the
# fewest checkpoints is predicted with it.
#
# **Predict first.** In the run with the fewest checkpoints, what percentage of the lost
# seconds went into steps done twice?

# %% tags=["demo"]
guess_share = None  # percent

# %% tags=["demo"]
repeated_s = cost["steps twice"] * cost["step_s"]
compare_guess(guess_share, 100 * repeated_s.iloc[-1] / cost["lost_s"].iloc[-1],
              "% of the lost seconds")

# %% tags=["demo"]
restart_s = cost["lost_s"].iloc[1] - repeated_s.iloc[1]
told = pd.DataFrame({
    "predicted, s": repeated_s + restart_s,
    "measured, s": cost["lost_s"],
})
told["off by, %"] = 100 * (told["predicted, s"] / told["measured, s"] - 1)
print(f"a restart: {restart_s:.2f} s")
told.iloc[[2]].round(2)

# %% [markdown]
# One restart is one measurement, and on a busy machine the next takes longer.
#
# With your own checkpoint, step and restart: how many steps apart should checkpoints be,
# if a rank were killed as often as below?

# %% tags=["demo"]
written_s, step_s = cost["checkpoint_s"].iloc[0], cost["step_s"].iloc[-1]
rows = []
for name, mtbf_s in (
    ("a minute", 60), ("an hour", HOUR), ("a day", DAY),
    ("Llama 3's MTBF of 8 GPUs", gpu_mtbf_s / 8),
):
    best_s = failures.daly(written_s, mtbf_s)
    lost = failures.lost_share(best_s, written_s, restart_s, mtbf_s)
    rows.append({
        "one failure in": name, "best interval, s": best_s,
        "in steps": round(best_s / step_s),
        "lost, % of training": 100 * lost,
        "of which restarts, %": 100 * restart_s / mtbf_s,
    })
print(f"a checkpoint: {1e3 * written_s:.1f} ms; a step: {1e3 * step_s:.1f} ms")
pd.DataFrame(rows).set_index("one failure in").round(3)

# %% [markdown] nbgrader={"grade": false, "grade_id": "q04_choose_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 4** (2 points)
#
# *What would you change first?* Your job runs on 4,096 GPUs with the times of the
# table in section 3. You can make checkpoints, or restarts, take half as long. Which
# of the two gains more, by that table's formula? And what does this formula leave out
# that happens on a real cluster?
#
# === BEGIN MARK SCHEME ===
# 1 point: at 4,096 GPUs the MTBF is 12.4 h; checkpoints and repeated work lose about
# sqrt(2 × 60 / 44,500) = 5.2 % at the best interval, restarts 300 / 44,500 = 0.7 %. Half
# the checkpoint loses 3.7 % (a factor of sqrt(2)): 1.5 points gained, and 0.3 by half the
# restart. 1 point for one thing that is left out, with its consequence: failures that come
# together (a host, a rack, a broken GPU that fails again), waiting for a spare machine,
# failures that are noticed late or never, or that come before a thread has written a copy.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q04_choose", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# At 4,096 GPUs there is a failure in 12.4 hours. At the best interval, checkpoints and
# repeated work lose √(2 × 60 ÷ 44,500) = 5.2 %, restarts 0.7 %. Half the checkpoint time
# makes 3.7 % of the first, a gain of 1.5 points; half the restart time gains 0.3 points.
# So checkpoints first. Left out: failures come together. A broken GPU fails again until
# somebody takes it out, and then the job waits for a spare host, so real restarts may take
# hours, and the second term would be larger.
# ### END SOLUTION

# %% [markdown]
# ## 5. Ranks that wait
#
# A killed process is the simplest failure. More often a mistake in the script lets ranks
# wait for one another. `waiting_ranks.py` averages a gradient and a loss in each step, and
# has three such mistakes to choose from:
#
# - `uneven`: rank 0 takes fewer steps than the others, as with an uneven split of the data.
# - `rank-0-only`: only rank 0 averages the loss, "because only rank 0 prints it".
# - `raises`: the last rank raises an error in the middle of training.
#
# **Predict first.** Two of them end within seconds, with an error. One **hangs**, until a
# time limit ends it. Which?

# %% tags=["demo"]
guess_hangs = None  # "uneven", "rank-0-only" or "raises"

# %% tags=["demo"]
waited = {
    case: launch("waiting_ranks.py", name=case, case=case, workers=workers,
                 timeout_s=25, check=False)
    for case in ("uneven", "rank-0-only", "raises")
}

# %% tags=["demo"]
hung = [case for case, run in waited.items()
        if "time limit" in run.failure.sentence]
compare_guess(guess_hangs, ", ".join(hung), "hangs")

# %% [markdown]
# Read the three reports above. Each names a rank:
#
# - With `uneven`, rank 0 has ended while the others still wait for it. Horovod tells them
#   that it has shut down. Cut every shard to the same number of steps (`drop_remainder`).
# - With `rank-0-only`, nobody has ended. The stacks say why: rank 0 waits in
#   `average_loss`, and the other rank in `average_gradient` of the next step. Call a
#   collective operation on all ranks, and print on rank 0.
# - With `raises`, the first error is on one rank. The errors of the others, which had to
#   stop, only follow from it. So look for the earliest error, not for the last line.

# %% [markdown]
# Which of them hangs depends on the backend. These runs used Gloo, which notices that a
# connection has closed. With NCCL, `uneven` is the classic hang: the others wait until
# PyTorch's watchdog ends them, 10 minutes by default. There, `Join` lets ranks with fewer
# batches finish, `torchrun` ends all ranks when one `raises`, and PyTorch's flight recorder
# tells which collective each rank waits in. Without pinning, NCCL refuses two ranks on
# one GPU ([measured](../docs/gpu.md)).

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - A job's MTBF is one GPU's MTBF divided by the number of GPUs.
# - A failure costs a restart, and the steps since the last checkpoint.
# - The best interval grows with the square roots of checkpoint time and MTBF, and its
#   minimum is flat.
#
# To try: launch such a run with `max_restarts=2` and press *Kill rank 1* in its view in
# JupyterLab. Or let the other ranks continue while one is replaced:
# `launch("elastic_loop.py", elastic=True)` runs Horovod's elastic training. Edit
# `discover_hosts.sh` in its folder while it trains.
#
# Sources: Llama team 2024 (arXiv:2407.21783), Young 1974 (*A first order approximation to
# the optimum checkpoint interval*, CACM 17(9)), Daly 2006 (*A higher order estimate of the
# optimum checkpoint interval for restart dumps*, FGCS 22(3)).
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
