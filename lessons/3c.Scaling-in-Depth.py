# %% [markdown]
# # 3c. Scaling in depth
#
# **Where does a step's time go, and when is another rank worth it?**
#
# | about | this notebook |
# | --- | --- |
# | time | 70 minutes, in two sittings; the runs alone take 8 to 15, depending on the processor |
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
# Taken to the extreme, nobody could miss the mistake: 8,192 images on each of
# 8 devices make zero steps per epoch. There the workshop's own table
# prints a dash.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q01_scaling_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 1** (2 points)
#
# Compare strong and weak efficiency in *your* tables. Which one is higher, and
# why would you expect that? Then suppose that someone measures one rank with
# all cores of the machine, and two ranks with half of the cores each. What
# efficiency can they reach at most? What would be a fair question to ask of
# those two runs?
#
# === BEGIN MARK SCHEME ===
# 1 point: names the figures and a reason: in strong scaling each rank's
# computation shrinks while the message stays as large, so communication weighs
# more (if the figures say otherwise: says so, and names noise or spread). 1
# point: both have the same hardware, so at most about 50 % "efficiency" (or a
# ratio of about 1): the fair question is whether two processes use the same
# cores better than one.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q01_scaling", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my tables weak scaling is more efficient. In strong scaling a rank computes
# half as much per step and still exchanges the whole gradient, so the exchange
# has a larger share. In weak scaling the computation per rank stays as long.
# One rank with all cores has the hardware of both ranks together. At best two
# ranks are just as fast, which the formula calls 50 %. It is fairer to ask for
# the ratio of the two speeds: does splitting the same cores into two processes
# gain or lose anything?
# ### END SOLUTION

# %% [markdown]
# ## 2. Where the time goes
#
# `step_times.py` splits a training step on each rank into five parts: waiting for
# *input*, *computation* of the gradient, *waiting* for the slower rank,
# *communication* (the all-reduce), and *update* of the weights. Splitting has a cost:
# in a real step TensorFlow and Horovod overlap some of these. Look at the shares, not
# at the sum.

# %% tags=["demo"]
widths = [8, 16, 32] if smoke else [8, 16, 32, 64, 96]
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
# **Predict first.** Which of these makes the widest network clearly faster: no fusion, a
# longer cycle, aggregation over four batches, fp16, or none of them?

# %% tags=["demo"]
guess_knob = None  # "no fusion", "longer cycle", "aggregation", "fp16" or "none"

# %% tags=["demo"]
knobs = {
    "default": dict(timeline=True),
    "no fusion": dict(fusion_threshold_mb=0),
    "aggregation": dict(aggregate=4),
}
if not smoke:
    knobs["longer cycle"] = dict(cycle_time_ms=10)
    knobs["fp16"] = dict(fp16_compression=True)
turned = [
    launch("step_times.py", name=knob, workers=workers, threads=1,
           widths=widths[-1:], steps=timed["steps"], **options)
    for knob, options in knobs.items()
]

# %% tags=["demo"]
table = efficiency.tuning(turned)
faster = table[table["verdict"] == "faster"].nlargest(1, "images_per_s")
fastest = faster["name"].iloc[0] if len(faster) else "none"
compare_guess(guess_knob, fastest, "clearly faster than the default")

# %% tags=["demo"]
table

# %% [markdown]
# Differences within the spread don't count. On one host with little to send, the knobs
# change a small part of the step, and fp16 makes the cores that train convert every
# gradient twice, only to halve a message that never leaves memory. On a slow network the
# same knobs help. That is why you measure where you train.
#
# ### The timeline
#
# The first run also recorded Horovod's **timeline**: for each gradient, when it
# was *negotiated* (who is ready?), queued, copied, and reduced.

# %% tags=["demo"]
plot.plot_timeline(turned[0])

# %% [markdown] nbgrader={"grade": false, "grade_id": "q02_knobs_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 2** (2 points)
#
# Which knob changed your step time by more than its spread, and in which
# direction? Which part of the step did it change? Use the timeline or the
# figure of step times to explain it. Then name one change of hardware or model
# that would make a *different* knob the best one, and say why.
#
# === BEGIN MARK SCHEME ===
# 1 point: a knob (or "none") with its figure and spread from the table, and the
# part of the step that it affects (communication; aggregation: once in k
# batches). 1 point: a sensible change with its reason: slow network or large
# dense layers → compression; many small layers → fusion and cycle time; small
# per-rank batch → aggregation.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q02_knobs", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my table aggregation (1.20 times the images/s) and the longer cycle (1.22) are
# faster; no fusion and fp16 make no difference. Aggregation communicates once in four
# batches. But communication takes only 23 ms of a step of 1,226 ms, and 27 ms with the
# longer cycle, so it cannot explain 1.22. Possible reasons are fewer wake-ups of
# Horovod's thread, the timeline, which only the default run recorded, and other load,
# as each knob ran once. fp16 raises communication to 66 ms, probably because the cores convert
# every gradient twice. Over a slow network between two hosts the
# message itself would take most of the step. Then fp16, which halves it, would help
# although it computes more.
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
# Change `widths` in section 2, or its batch size (`global_batch=256`), and look
# again. The model leaves out the overlap of communication with computation, the
# slower rank that all others wait for, and the cores and caches that the ranks
# share.

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
# - A second rank is worth it when computation is long compared with the message. A
#   few measurements predict that roughly.
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
