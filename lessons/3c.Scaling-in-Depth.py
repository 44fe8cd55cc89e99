# %% [markdown]
# # 3c. Scaling in depth
#
# **Where does a step's time go, and when is another rank worth it?**
#
# | about | this notebook |
# | --- | --- |
# | time | 70 minutes, in two sittings; the runs alone take 4 to 8, depending on the processor |
# | hardware | two cores; on a machine with GPUs the same cells use the GPUs |
# | before this | [3. Multi-GPU](3.Multi-GPU.ipynb) |
#
# Strong and weak scaling, the parts of a step, Horovod's settings, 16 bits, and a model of
# when two ranks are faster than one.
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | scaling, and the parts of a step | 1 to 2 | 45 |
# | 16 bits, and what is worth it | 3 to 4 | 25 |

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated images
workers = 2
seed = 0

# %%
import numpy as np

# %% tags=["demo"]
from IPython.display import clear_output

from ddl import compare, launch
from course import check, compare_guess, efficiency, hint, plot, precisions

smoke = size == "smoke"
part = (1_024, 500) if smoke else (5_000, 2_000)
images = dict(data_set=data_set, train_samples=part[0], test_samples=part[1])

# %% [markdown]
# ## 1. Strong and weak scaling
#
# - **Strong scaling**: the global batch stays the same, so each rank gets a smaller part.
#   It is the same training, finished sooner.
# - **Weak scaling**: the per-rank batch stays the same, so the global batch grows with $N$.
#   Devices stay full, but it is a different training (lesson 4).

# %% [markdown]
# The script is the course's `train_cifar.py`, with one thread for each rank.
# You run it on one rank, and on two ranks with strong and with weak scaling. One
# more run gives a single rank as many threads as all ranks have together: the
# same hardware, without messages.
#
# **Predict first.** What efficiency, in percent, will strong and weak scaling
# reach?

# %% tags=["demo"]
guess_strong = None  # percent
guess_weak = None  # percent

# %% tags=["demo"]
scaled_runs = dict(
    images, recipe="base", steps=16 if smoke else 640,
    seed=seed, threads=1, no_augment=True,
)
alone = launch(
    "train_cifar.py", name="1 rank", workers=1, global_batch=64,
    **scaled_runs,
)

# %% tags=["demo"]
undivided = launch(
    "train_cifar.py", name=f"1 rank × {workers} threads", workers=1,
    global_batch=64, **dict(scaled_runs, threads=workers),
)

# %% tags=["demo"]
counts = [2**k for k in range(1, workers.bit_length()) if 2**k <= workers]
strong = [alone, undivided] + [
    launch("train_cifar.py", name=f"{n} ranks, strong", workers=n,
           global_batch=64, **scaled_runs)
    for n in counts
]

# %% tags=["demo"]
weak = [alone] + [
    launch("train_cifar.py", name=f"{n} ranks, weak", workers=n,
           global_batch=64 * n, **scaled_runs)
    for n in counts
]

# %% tags=["demo"]
by_strong = efficiency.scaling(strong, "strong")
reached = 100 * by_strong["efficiency"].iloc[-1]
compare_guess(guess_strong, reached, "strong, %")

# %% tags=["demo"]
by_weak = efficiency.scaling(weak, "weak")
compare_guess(guess_weak, 100 * by_weak["efficiency"].iloc[-1], "weak, %")

# %% tags=["demo"]
by_strong

# %% tags=["demo"]
by_weak

# %% tags=["demo"]
plot.plot_scaling(strong, weak)

# %% [markdown]
# ### Published figures
#
# Published figures also deserve care: count only samples that were really processed.
# A public workshop's multi-GPU notebook measures the time of an epoch and divides
# 60,000 images by it. But an epoch runs only whole steps: with large batches on many
# devices, a good part of the 60,000 is never processed. The efficiency by either
# count is computed here from the throughputs that it printed:

# %% tags=["demo"]
efficiency.published()

# %% [markdown]
# In the extreme case it is obvious: with 8,192 images on each of 8 devices, an epoch has no
# step at all. There the workshop's own table prints a dash.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q01_scaling_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 1** (2 points)
#
# Compare strong and weak efficiency in *your* tables. Which one is higher, and
# why would you expect that? Then suppose that someone measures one rank with
# all cores of the machine, and two ranks with half of the cores each. About what
# efficiency can they reach? What would be a fair question to ask of
# those two runs?
#
# === BEGIN MARK SCHEME ===
# 1 point: names the figures and a reason: in strong scaling each rank's
# computation shrinks while the message stays as large, so communication weighs
# more (if the figures say otherwise: says so, and names noise or spread). 1
# point: both have the same hardware, so about 50 % "efficiency" (or a ratio of
# about 1), a little more if processes use the cores better than threads: the fair
# question is whether they do.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q01_scaling", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my tables weak scaling is more efficient. In strong scaling a rank computes
# half as much per step and still exchanges the whole gradient, so the exchange
# has a larger share. In weak scaling the computation per rank stays as long.
# One rank with all cores has the hardware of both ranks together. If two ranks
# are just as fast, the formula calls that 50 %; they can reach a little more,
# because two processes may use the cores better than two threads do. It is fairer
# to ask for the ratio of the two speeds: does splitting the same cores into two
# processes gain or lose anything?
# ### END SOLUTION

# %% [markdown]
# ## 2. Where the time goes
#
# `step_times.py` splits a training step on each rank into five parts: waiting for
# *input*, *computation* of the gradient, *waiting* for the slower rank (the
# **straggler**), *communication* (the all-reduce), and *update* of the weights. Splitting
# has a cost: in a real step TensorFlow and Horovod overlap some of these. Look at the
# shares, not at the sum.

# %% tags=["demo"]
widths = [1, 2, 8] if smoke else [1, 2, 4, 8, 16, 32]
timed = dict(widths=widths, steps=8 if smoke else 40, threads=1)
one = launch(
    "step_times.py", name="steps", workers=1, part=workers, **timed
)

# %% tags=["demo"]
two = launch(
    "step_times.py", name="steps", workers=workers, **timed
)

# %% tags=["demo"]
plot.plot_step_times([one, two])

# %% [markdown]
# Before the first step, time passes that no epoch shows. In a run of a few seconds,
# this start-up can matter more than any knob below:

# %% tags=["demo"]
efficiency.start_times([one, two])

# %% [markdown]
# ### Knobs
#
# Horovod has a background thread. It wakes up once per **cycle time** (1 ms),
# sees which gradients are ready on *all* ranks, copies them into one buffer
# (**tensor fusion**, up to 128 MiB), and reduces that buffer in one go. There
# are also two ways to send less: **aggregate** the gradients of several
# batches before sending, and **compress** them to 16 bits.
#
# A narrow network computes little, so communication takes much of its step. Each knob
# runs once in each of five turns, so that other load affects all of them.
#
# **Predict first.** Which of these makes the network of width 2 fastest: no fusion, a
# longer cycle, aggregation over four batches, fp16, or none of them?

# %% tags=["demo"]
guess_knob = None  # "no fusion", "longer cycle", "aggregation", "fp16" or "none"

# %% tags=["demo"]
knobs = {
    "default": {},
    "no fusion": dict(fusion_threshold_mb=0),
    "aggregation": dict(aggregate=4),
    "longer cycle": dict(cycle_time_ms=10),
    "fp16": dict(fp16_compression=True),
}
turned = []
for _ in range(1 if smoke else 5):
    for knob, options in knobs.items():
        run = launch("step_times.py", name=knob, workers=workers,
                     threads=1, widths=[2], steps=8 if smoke else 50,
                     timeline=True, **options)
        turned.append(run)
        clear_output(wait=True)  # show one run at a time

# %% tags=["demo"]
table = efficiency.tuning(turned)
faster = table[table["verdict"] == "faster"].nlargest(1, "images_per_s")
fastest = faster["name"].iloc[0] if len(faster) else "none"
compare_guess(guess_knob, fastest, "fastest, if its interval says so")

# %% tags=["demo"]
table

# %% [markdown]
# A ratio whose interval contains 1 is not decided. Without fusion, each of 14 gradients
# is a message. Aggregation pays for one message in four passes. fp16 halves the bytes,
# but converts every gradient twice, so it helps only if the network is slow.
#
# A longer cycle has two effects. Each wake-up takes about 0.09 ms from the cores that
# compute, nearly a tenth of a cycle of 1 ms ([measured](../docs/measured.md)), and a longer
# cycle saves most of that. But gradients wait half a cycle on average. Steps of $t$ ms
# lose least at $\sqrt{2 \cdot 0.09\,t}$ ms. `train_cifar.py` sets that cycle itself (1.9 ms
# with 32 images per rank); `step_times.py` leaves Horovod's.
#
# ### The timeline
#
# Each of these runs recorded Horovod's **timeline**: for each gradient, when it
# was *negotiated* (who is ready?), queued, copied, and reduced.

# %% tags=["demo"]
plot.plot_timeline(turned[0])

# %% [markdown] nbgrader={"grade": false, "grade_id": "q02_knobs_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 2** (2 points)
#
# Which knob's ratio has an interval without 1, and in which direction? Which part of the
# step did it change? Use the timeline or the
# figure of step times to explain it. Then name one change of hardware or model
# that would make a *different* knob the best one, and say why.
#
# === BEGIN MARK SCHEME ===
# 1 point: a knob (or "none") with its ratio and interval from the table, and the
# part of the step that it affects (communication; aggregation: once in k
# batches). 1 point: a sensible change with its reason: slow network or large
# dense layers → compression; many small layers → fusion and cycle time; small
# per-rank batch → aggregation.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q02_knobs", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my table, no fusion is slower (0.40 times the images/s, from 0.18 to 0.85), and
# aggregation is faster (1.65, from 1.03 to 2.63). The longer cycle and fp16 are not
# decided. Both that are decided change communication: without fusion, 14 messages take
# 41 ms where one takes 6 ms; with aggregation, four passes share one message, so they take
# 36 ms, and four default steps 58 ms. Over a slow network between two hosts, a large
# message would take most of the step. Then fp16, which halves it, would help although
# it computes more.
# ### END SOLUTION

# %% [markdown]
# **A good place to stop.**

# %% [markdown]
# ## 3. Computing in 16 bits
#
# Compression sends 16 bits for each number. A network can also *compute* in 16
# bits: it keeps its weights in float32 and multiplies copies of them. There are
# two such formats. float16 has more digits, **bfloat16** the range of float32.
# What becomes of a small gradient, and of a weight that moves a little?

# %% tags=["demo"]
from ml_dtypes import bfloat16, finfo

gradient, scale = np.float32(2e-9), np.float32(2**16)
for kind in (np.float32, np.float16, bfloat16):
    limits = finfo(kind)
    scaled = np.float32(kind(gradient * scale)) / scale
    print(
        f"{limits.dtype!s:8} up to {float(limits.max):.0e},",
        f"step at 1: {float(limits.eps):.0e};",
        f"2e-9 becomes {float(kind(gradient)):.0e}, scaled",
        f"{scaled:.0e}; 1 + 0.001 = {float(kind(1) + kind(1e-3)):g}",
    )

# %% [markdown]
# In float16 the gradient **underflows** to 0, which is why it needs **loss scaling**:
# multiply the loss by, say, $2^{16}$ before the backward pass, and divide the
# gradients by it after. bfloat16 needs none. What it lacks is digits: added to a
# weight of 1, an update of 0.001 is lost. So weights, their gradients, optimizer
# state, batch statistics, logits and loss are kept in float32; between layers, the
# backward pass computes in bfloat16.
#
# `precision="auto"` computes in bfloat16 where that is faster: on a processor
# with AMX, or an NVIDIA GPU from Ampere on. In Keras this is
# `tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")`, in PyTorch the forward
# pass within `with torch.autocast("cuda", dtype=torch.bfloat16):`.
#
# **Predict first.** By what factor will it raise the images per second of float32? And
# by what factor will the bytes that it sends change?

# %% tags=["demo"]
guess_faster = None  # times as many images per second
guess_sent = None  # times as many bytes

# %% tags=["demo"]
fewer = dict(
    images, recipe="batch_norm", global_batch=512, threads=1,
    steps=4 if smoke else 40, seed=seed, timeline=True,
)
in_each = [
    launch("train_cifar.py", name=name, workers=workers,
           precision=name, **fewer)
    for name in ("float32", "auto")
]

# %% tags=["demo"]
shown = precisions.here_or_recorded(in_each)
table = compare(shown)
compare_guess(guess_faster, table["ratio"].iloc[1], "times the images/s")

# %% tags=["demo"]
bits = precisions.sent(shown)
compare_guess(guess_sent, bits["bytes"].iloc[1] / bits["bytes"].iloc[0],
              "times the bytes")

# %% tags=["demo"]
bits

# %% [markdown]
# Computation got faster, and the message stayed the same: communication now
# takes a larger share of the step. (To send less, add
# `fp16_compression=True`.) And the accuracy? One seed, in the first table, says little;
# the second table has recorded pairs with the same seeds:

# %% tags=["demo"]
table

# %% tags=["demo"]
precisions.table()

# %% [markdown]
# ## 4. When is it worth it?
#
# Two ranks halve the computation of a step (strong scaling) and add an
# exchange. Here is a first model. If one rank's computation for its part takes
# $t_1$, and the gradient has $M$ bytes,
#
# $$t = t_1 + \underbrace{2(N-1)\,\alpha}_{\text{latency}}
# + \underbrace{\frac{2(N-1)}{N}\,M\beta}_{\text{bandwidth}}$$
#
# where $\alpha$ and $\beta$ are a link's latency and one over its bandwidth,
# for a ring (lessons 1 and 2). A wider network has more to compute *and* more
# to send. A convolution uses each weight once for every pixel of every image;
# a dense layer, once for every image. So the outcome depends on width, images
# per rank and kind of layer.

# %% [markdown]
# **Question 3** (3 points)
#
# - `step_seconds(compute_s, size_bytes, ranks, alpha_s, bandwidth)`: the time of a
#   step by the formula. `compute_s` is one rank's computation for its part;
#   with one rank, there is no exchange.
# - `pays(whole_s, part_s, size_bytes, ranks, alpha_s, bandwidth)`: whether a step
#   takes less time on `ranks` ranks than on one. `whole_s` is the computation
#   of the whole batch on one rank, `part_s` the time of a rank's part.

# %% nbgrader={"grade": false, "grade_id": "q03_pays", "locked": false, "schema_version": 3, "solution": true, "task": false}
def step_seconds(compute_s, size_bytes, ranks, alpha_s, bandwidth):
    """Return the seconds of a step; bandwidth is in bytes per second."""
    ### BEGIN SOLUTION
    rounds = 2 * (ranks - 1)
    return compute_s + rounds * (alpha_s + size_bytes / (ranks * bandwidth))
    ### END SOLUTION


def pays(whole_s, part_s, size_bytes, ranks, alpha_s, bandwidth):
    """Return whether `ranks` ranks are faster than one."""
    ### BEGIN SOLUTION
    many = step_seconds(part_s, size_bytes, ranks, alpha_s, bandwidth)
    return many < whole_s
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_pays
#
# 1. The formula is the ring's: 2(N − 1) messages of 1/N of the bytes. What is
#    it with N = 1?
# 2. A bandwidth is in bytes *per second*, so bytes are divided by it.
#    Compare a step on many ranks, with a part's computation, with the computation
#    of the whole batch.
# 3. `rounds = 2 * (ranks - 1)`

# %% nbgrader={"grade": true, "grade_id": "q03_pays_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math


def near(value, right):
    return math.isclose(value, right, rel_tol=1e-6)


value = step_seconds(0.1, 1_000_000, 2, 0.001, 100_000_000)
assert near(value, 0.1 + 0.002 + 0.01), (
    f"step_seconds on two ranks returned {value}, not 0.112"
)
value = step_seconds(0.1, 1_000_000, 1, 0.001, 100_000_000)
assert near(value, 0.1), f"{value} s on one rank"
assert pays(0.2, 0.1, 1_000_000, 2, 0.001, 100_000_000)
assert not pays(0.02, 0.01, 1_000_000, 2, 0.001, 100_000_000)
value = step_seconds(0.1, 1_000_000, 4, 0.001, 100_000_000)
assert near(value, 0.1 + 0.006 + 0.015), f"four ranks, six messages: {value}"
### BEGIN HIDDEN TESTS
value = step_seconds(0.05, 8_000_000, 8, 0.0001, 1e9)
assert near(value, 0.05 + 14 * 0.0001 + 14 * 0.001)
assert near(step_seconds(0, 0, 4, 0.5, 1.0), 3)
assert near(step_seconds(5, 1_000, 3, 0.25, 1.0), 6 + 4_000 / 3)
assert not pays(1, 1, 0, 2, 0.0001, 1e9)
assert not pays(1, 0.5, 0, 2, 0.25, 1e9)  # equal to one rank: not faster
assert not pays(3, 3, 1e9, 1, 0.25, 1e9)
assert pays(10.5, 1, 4e9, 4, 0.5, 1e9)  # 1 + 3 + 6 s
assert not pays(9.5, 1, 4e9, 4, 0.5, 1e9)
assert pays(9e-6, 4e-6, 1_000, 2, 1e-6, 1e9)  # 4 + 2 + 1 µs
assert not pays(6e-6, 4e-6, 1_000, 2, 1e-6, 1e9)
assert pays(8, 1, 1e9, 8, 0.0001, 1e9)
assert not pays(2, 1, 1e9, 2, 0.0001, 1e9)
### END HIDDEN TESTS

# %% [markdown]
# And in reality? Section 2 measured the step times of networks of several
# widths on one rank and on two. The figure fits latency and bandwidth to *some*
# of the widths and predicts the others.
#
# **Predict first.** You saw in section 2 how long the steps took. The model
# knows the communication of some widths, and one rank's work. By how many
# percent is it off, on average, for the widths that it has not seen?

# %% tags=["demo"]
guess_off = None  # percent

# %% tags=["demo"]
payoff = efficiency.payoff(one, two)
off = [
    abs(said / took - 1)
    for said, took, seen in zip(
        payoff.predicted_s, payoff.many_s, payoff.fitted
    )
    if not seen
]
compare_guess(guess_off, 100 * np.mean(off), "% off, widths not seen")

# %% tags=["demo"]
plot.plot_payoff(one, two)

# %% [markdown]
# For the narrowest network, a second rank is not worth it: the message takes longer
# than the computation that it saves. If the prediction is too low at nearly every
# width, that is a bias, not noise. The model leaves out the straggler that all others
# wait for, and the cores and caches that the ranks share. Change `widths` in section 2,
# or its batch size (`global_batch=256`), and look again.

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - Efficiency counts **samples really processed**, with the **same hardware for each
#   rank**.
# - bfloat16 needs no loss scaling. Here it sends as much as float32, because
#   gradients are cast before the all-reduce.
# - A second rank is worth it when computation is long compared with the message. A few
#   measurements predict from which size on, roughly; here they are biased.
#
# ## Things to try
#
# - If two hosts can be made ([2c](2c.Algorithms-and-Predictions.ipynb), section 3), run the
#   knobs with `nodes=2, site=hosts.site(rate_mbit=100), widths=[16]` (`from ddl import
#   hosts`). Which one helps on a slow cable?
#
# ## Sources
#
# - Kalamkar et al. (2019), *A Study of BFLOAT16 for Deep Learning Training*
# - Micikevicius et al. (2018), *Mixed Precision Training*, section 3 (loss scaling)
# - Thakur, Rabenseifner, Gropp (2005), *Optimization of Collective Communication
#   Operations in MPICH*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
