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

# %%
small = launch(
    "train_cifar.py", name="small batch", recipe="base",
    global_batch=small_batch, noise_scale=True, **fixed,
)

# %%
large = launch(
    "train_cifar.py", name="large batch", recipe="base",
    global_batch=large_batch, **fixed,
)

# %%
compare([small, large])

# %% [markdown]
# Both runs saw the same number of pictures, so by the usual measure, epochs,
# they trained equally long. But look at the column *steps*: the large batch
# made 16 times fewer updates. Is that the whole story? If so, a small-batch run
# that stops after as many *steps* should do no better.

# %%
short = launch(
    "train_cifar.py", name="small batch, few steps", recipe="base",
    global_batch=small_batch, steps=large_steps,
    **{k: v for k, v in fixed.items() if k != "epochs"},
)

# %%
compare([large, short])

# %% [markdown]
# At equal *epochs* the large batch is far behind. At equal *steps* it should be
# level or ahead, since each of its steps averages over more pictures. Neither
# view is the right one: equal epochs tell you what a fixed budget of samples
# buys, equal steps what a fixed time buys if you have enough workers. A
# comparison that shows only one of them hides half of the answer. From here on
# you get both.

# %%
plot.plot_convergence([small, large])

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

# %%
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

# %%
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
# ## 4. Held-out accuracy against batch size
#
# You et al. (2018) saw the held-out accuracy of ImageNet networks fall when the
# batch grew beyond 8,192, unless they changed the optimizer. Keskar et al.
# (2017) offered a picture to explain this: small batches are noisy, so they get
# thrown out of *sharp* minima and end in *flat* ones, while large batches stay
# in sharp ones. If the held-out loss is the training loss shifted a little, the
# shift costs more in a sharp minimum.

# %%
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

# %%
compare([small, large])[["arm", "train_accuracy", "test_accuracy"]]

# %% [markdown]
# If training accuracy is low too, the large batch has not found a bad minimum:
# it has not reached any. Then the problem is one of *optimization*: too few
# steps, and each of them too short. That is what the remedies below address.

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

# %%
small_bn = launch(
    "train_cifar.py", name="small batch + BN", recipe="batch_norm",
    global_batch=small_batch, **fixed,
)

# %%
large_bn = launch(
    "train_cifar.py", name="large batch + BN", recipe="batch_norm",
    global_batch=large_batch, **fixed,
)

# %%
compare([small, small_bn, large, large_bn])

# %% [markdown]
# How many percentage points did this change bring to the small batch, and how
# many to the large one? If the large batch gains more, batch norm does
# something that a large batch in particular needs. Had you compared *large
# with* against *small without*, you could not have told.

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

# %%
scaled = launch(
    "train_cifar.py", name="+ linear scaling", recipe="scale_lr",
    global_batch=large_batch, **fixed,
)

# %%
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

# %%
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

# %%
warm = launch(
    "train_cifar.py", name="+ warm-up", recipe="warmup",
    global_batch=large_batch, **fixed,
)

# %%
plot.plot_convergence([large_bn, scaled, warm], x="epochs")

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

# %%
lars = launch(
    "train_cifar.py", name="LARS", recipe="lars",
    global_batch=large_batch, **fixed,
)

# %%
lamb = launch(
    "train_cifar.py", name="LAMB", recipe="lamb",
    global_batch=large_batch, **fixed,
)

# %% [markdown]
# ## 9. The comparison
#
# Here are all your arms, one per row: first at equal epochs, then at equal
# steps.

# %%
runs = [small, short, large, small_bn, large_bn, scaled, warm, lars, lamb]
compare(runs)

# %%
compare(runs, at="steps", steps=large_steps)

# %% [markdown]
# In the second table, each small-batch arm shows its last evaluation within
# that many steps. If one epoch of small batches takes longer than the whole
# large-batch training, there is no such evaluation, except in the run that was
# stopped there on purpose.

# %%
plot.plot_convergence([small, small_bn, large, large_bn, warm, lars, lamb])

# %% [markdown]
# One seed is an anecdote. The runs below were recorded with three seeds on real
# CIFAR-10 pictures, by the cells of this very notebook. The table names the
# hardware and the form of the data.

# %% tags=["recorded"]
recorded = ddl.recorded("convergence-cifar10")
compare(recorded)

# %% tags=["recorded"]
plot.plot_arms(recorded)

# %% tags=["recorded"]
print(sorted({run.result["data"]["form"] for run in recorded}))
print(sorted({run.result["finished"][:10] for run in recorded}))
plot.plot_convergence(
    [run for run in recorded if run.name != "small batch, few steps"]
)

# %% [markdown]
# The optimizers were compared only after each had been given the same grid,
# with another seed: the recipe's base rate, half of it, and twice it. The small
# batch got the same grid, to show what its choice of rate costs it.

# %% tags=["recorded"]
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
