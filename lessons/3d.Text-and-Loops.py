# %% [markdown]
# # 3d. Text and loops
#
# **What changes with other data, and with your own loop?**
#
# | about | this notebook |
# | --- | --- |
# | time | 70 minutes, in two sittings; the runs take about one |
# | hardware | two cores; GPUs if there are any |
# | before this | [3b. Strategies in depth](3b.Strategies-in-Depth.ipynb), sections 1, 2 and 4 |
#
# | sitting | sections | minutes |
# | --- | --- | --- |
# | text and evaluation | 1 to 2 | 40 |
# | your own loop | 3 | 30 |

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
data_set = "auto"  # CIFAR-10 if it is here, else generated images
workers = 2
seed = 0

# %%
import numpy as np

# %% tags=["demo"]
import pandas as pd

from ddl import launch
from course import check, compare_guess, hint

smoke = size == "smoke"
part = (1_024, 500) if smoke else (5_000, 2_000)

# %% [markdown]
# ## 1. Insincere questions
#
# A website wants to find insincere questions: those that make a statement instead of
# asking. Quora published 1.3 million labeled ones. (The download needs a login: get
# `train.csv` there, then run `ddl data add quora train.csv`.) If the file is not here,
# a generated stand-in in the same format takes its place, and the table says so.
#
# The network is an **embedding** (a vector for each sentence), followed by dense layers
# of 256, 64 and 1. Here the embedding is trained with them. A pretrained one, such as
# Google's NNLM (Bengio et al., 2003), is an option: pass as `embedding=` the address
# `"https://tfhub.dev/google/nnlm-en-dim128/2"`, or without a network the folder of an
# unpacked download. It is kept as it is, unless you pass `trainable=True`.
#
# **Predict first.** About 94 of 100 questions are sincere. By how many percentage
# points will the trained network's accuracy beat always answering "sincere"?

# %% tags=["demo"]
guess_gain = None  # percentage points

# %% tags=["demo"]
sentences = dict(
    samples=2_000 if smoke else 20_000, seed=seed, epochs=3 if smoke else 8
)
on_one = launch(
    "train_text.py", name="one device", strategy="single", workers=1,
    **sentences,
)

# %% tags=["demo"]
said = on_one.result["test"]
gain = 100 * (said["accuracy"] - said["majority"])
compare_guess(guess_gain, gain, "points of accuracy gained")

# %% [markdown]
# Without reading a single question, you would be right 94 times in 100, so accuracy
# says little here. **F1** combines two shares of the insincere class: of the questions
# that the model called insincere, how many are (**precision**), and of the insincere
# ones, how many it found (**recall**).
#
# Next, the same on two replicas and on two processes.
#
# **Predict first.** How many questions per second will two Horovod processes train on,
# as a multiple of the one device's?

# %% tags=["demo"]
guess_speed = None  # times as fast

# %% tags=["demo"]
by_fit = launch(
    "train_text.py", name="Mirrored, fit", strategy="mirrored",
    workers=1, replicas=workers, **sentences,
)
by_horovod = launch(
    "train_text.py", name="Horovod", strategy="horovod",
    workers=workers, **sentences,
)

# %% tags=["demo"]
texts = [on_one, by_fit, by_horovod]
data = on_one.result["data"]
table = pd.DataFrame([
    {
        f"{data['name']} ({data['form']})": run.name,
        "accuracy, %": 100 * run.result["test"]["accuracy"],
        "majority, %": 100 * run.result["test"]["majority"],
        "F1": run.result["test"]["f1"],
        "questions/s": run.result["images_per_s"],
        "train, s": run.result["train_seconds"],
        "epochs": run.result["epochs"],
    }
    for run in texts
])
speeds = table["questions/s"]
display(table.round(3), compare_guess(
    guess_speed, speeds[2] / speeds[0], "times as fast"
))

# %% [markdown]
# All three make the same updates up to rounding, so accuracy and F1 agree. On two cores,
# the distributed ones are slower: a step takes a few milliseconds, and each replica or
# rank has the fixed costs of a whole step for half a batch.

# %% [markdown] nbgrader={"grade": false, "grade_id": "q01_faster_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Question 1** (3 points)
#
# *Which one is faster?* In your table, compare the time for an epoch (*train,
# s* ÷ *epochs*) on one device and on two replicas. With four GPUs and this
# network, would you expect `MirroredStrategy` to be faster than pinning
# everything to one GPU? Name the two or three things that decide it, and what
# you would change in the training (not in the network) to make four GPUs worth
# it. What does that change besides the time?
#
# === BEGIN MARK SCHEME ===
# 1 point: the reader's figures, read correctly (equal cores: no gain expected).
# 1 point: the network is tiny: computation per step is short compared with
# launching kernels, exchanging gradients and reading strings on the CPU, so
# four GPUs may well be slower. 1 point: a larger per-replica batch (fewer,
# larger steps; input pipeline prefetched), and its price: fewer updates per
# epoch, so another learning rate and possibly another accuracy.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q01_faster", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# In my table two replicas process half as many questions/s as one device. Both have
# the same cores, but each replica runs all operations on half a batch, so their fixed
# costs are paid twice, and gradients are exchanged. With four GPUs I would
# expect one GPU to win, or nearly so. A step of three small dense layers takes
# far less time than the all-reduce and the launch of its kernels, and the
# embedding looks up strings on the CPU, which four GPUs share. A much larger
# per-replica batch makes the computation longer compared with that fixed cost.
# But then there are fewer updates per epoch: the learning rate has to follow,
# and the model may need more epochs for the same F1.
# ### END SOLUTION

# %% [markdown]
# ## 2. Evaluating by hand
#
# In your own loop, three things often go wrong: the last batch is shorter, so the mean
# of the batches' accuracies is not the accuracy; a metric is updated twice; and the
# threshold for a rare class is chosen on the test set.
#
# **Predict first.** Batches of 64, 64 and 2 have 32, 32 and 2 right. By how many points
# is the mean of the batches' accuracies off?

# %% tags=["demo"]
guess_mean = None  # points

# %% tags=["demo"]
right, sizes = np.array([32, 32, 2]), np.array([64, 64, 2])
off = 100 * (np.mean(right / sizes) - right.sum() / sizes.sum())
compare_guess(guess_mean, off, "points off")

# %% [markdown]
# **Question 2** (3 points)
#
# Write `evaluate(batches)`. It takes a list of pairs (labels, probabilities) of NumPy
# arrays; batches may differ in length. Return a dictionary with `"accuracy"`,
# `"precision"`, `"recall"` and `"f1"` over all samples, each counted once. Predict 1 if
# the probability is at least 0.5. If nothing was predicted as 1, precision is 0; if no
# label is 1, recall is 0; if both are 0, so is F1.

# %% nbgrader={"grade": false, "grade_id": "q02_evaluate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def evaluate(batches):
    """Return accuracy, precision, recall and F1 of all batches together."""
    ### BEGIN SOLUTION
    labels = np.concatenate([labels for labels, _ in batches]) == 1
    said = np.concatenate([given for _, given in batches]) >= 0.5
    hits = np.sum(labels & said)
    precision = hits / said.sum() if said.any() else 0.0
    recall = hits / labels.sum() if labels.any() else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"accuracy": np.mean(labels == said),
            "precision": precision, "recall": recall, "f1": f1}
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q02_evaluate
#
# 1. Ratios of batches cannot be averaged: put all batches together first, then
#    count.
# 2. Hits are those that are 1 and were predicted as 1. Precision divides hits by
#    all predicted as 1, recall by all that are 1; F1 is 2PR/(P + R). Each of the
#    three divides by something that may be 0.
# 3. `labels = np.concatenate([labels for labels, _ in batches]) == 1`

# %% nbgrader={"grade": true, "grade_id": "q02_evaluate_test", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import math

import numpy as np

labels = np.array([1, 0, 0, 1, 0, 1, 0])
given = np.array([.9, .2, .7, .4, .1, .3, .2])
value = evaluate([(labels[:4], given[:4]), (labels[4:], given[4:])])
right = {"accuracy": 4 / 7, "precision": 1 / 2, "recall": 1 / 3, "f1": 0.4}
for name in right:
    assert math.isclose(value[name], right[name], rel_tol=1e-5), (
        f"evaluate returned {name} = {value[name]}, not {right[name]:.3f}"
    )
### BEGIN HIDDEN TESTS
for labels in ([1, 0], [0, 0], [1, 1]):
    none = evaluate([(np.array(labels), np.array([0.1, 0.2]))])
    assert none["precision"] == none["recall"] == none["f1"] == 0
empty = evaluate([(np.array([0, 0]), np.array([0.9, 0.2]))])
assert empty["precision"] == empty["recall"] == empty["f1"] == 0
edge = evaluate([(np.array([1]), np.array([0.5]))])
assert math.isclose(edge["f1"], 1, rel_tol=1e-5)
rng = np.random.default_rng(3)
for rare, lift in ((0.3, 0.1), (0.6, -0.2)):
    truth = (rng.random(103) < rare).astype(int)
    given = np.clip(rng.random(103) + lift, 0, 1)
    parts = [slice(i, i + 20) for i in range(0, 103, 20)]
    cut = evaluate([(truth[part], given[part]) for part in parts])
    said = given >= 0.5
    right = {"accuracy": np.mean(truth == said),
             "precision": truth[said].mean(),
             "recall": said[truth == 1].mean(),
             "f1": 2 * truth[said].sum() / (said.sum() + truth.sum())}
    for name in right:
        assert math.isclose(cut[name], right[name], rel_tol=1e-5)
### END HIDDEN TESTS

# %% [markdown]
# On several replicas a **distributed evaluation step** makes the counts, which are
# summed before dividing. Keras' metrics do that if they are made in the strategy's
# scope:
#
# ```python
# with strategy.scope():
#     accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
#
# @tf.function
# def evaluate_all(dataset):
#     for images, labels in dataset:  # a loop in the graph: no Python between steps
#         strategy.run(lambda x, y: accuracy.update_state(y, model(x)), (images, labels))
# ```
#
# **A good place to stop.**

# %% [markdown]
# ## 3. House numbers
#
# SVHN (Netzer et al., 2011) has colored images of house-number digits: 73,257 for
# training and 26,032 for testing, 32 × 32 like CIFAR-10's. `ddl data fetch svhn`
# downloads them (250 MB). If they are not here, generated images take their place.
#
# **Question 3** (2 points)
#
# Write `images_of(mat)`. `mat` is the content of such a file: a dictionary with `"X"`,
# uint8 of shape `[32, 32, 3, n]`, and `"y"`, of shape `[n, 1]`, with labels from 1 to
# 10, where 10 means the digit 0. Return the images as uint8 `[n, 32, 32, 3]` and the
# labels as int32 `[n]`, from 0 to 9.

# %% nbgrader={"grade": false, "grade_id": "q03_pictures_of", "locked": false, "schema_version": 3, "solution": true, "task": false}
def images_of(mat):
    """Return images [n, 32, 32, 3] and labels [n] of an SVHN file."""
    ### BEGIN SOLUTION
    images = np.moveaxis(mat["X"], 3, 0)
    labels = mat["y"].reshape(-1).astype(np.int32) % 10
    return images, labels
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q03_pictures_of
#
# 1. Look at the shapes: which axis has to go where? An image must stay an image, so
#    axes are moved, not reshaped.
# 2. `np.moveaxis` brings the last axis to the front. Labels lose their second
#    axis and change their type; 10 becomes 0 and everything else stays: think of
#    a remainder.
# 3. `images = np.moveaxis(mat["X"], 3, 0)`

# %% nbgrader={"grade": true, "grade_id": "q03_pictures_of_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
import numpy as np

rng = np.random.default_rng(0)
x = rng.integers(0, 256, (32, 32, 3, 4)).astype(np.uint8)
y = np.array([[1], [10], [9], [3]], np.uint8)
images, labels = images_of({"X": x, "y": y})
assert images.shape == (4, 32, 32, 3), (
    f"images_of returned images of shape {images.shape}, not (4, 32, 32, 3)"
)
assert labels.tolist() == [1, 0, 9, 3], labels
assert images.dtype == np.uint8, f"images are {images.dtype}, not uint8"
assert np.array_equal(images[1], x[..., 1]), "image 1 is not X[..., 1]"
### BEGIN HIDDEN TESTS
assert labels.dtype == np.int32
assert all(np.array_equal(images[i], x[..., i]) for i in range(4))
one, label = images_of({"X": x[..., :1], "y": y[1:2]})
assert one.shape == (1, 32, 32, 3) and label.tolist() == [0]
assert label.shape == (1,)
y = np.arange(1, 11, dtype=np.uint8)[:, None]
ten, digits = images_of({"X": np.repeat(x[..., 1:2], 10, axis=3), "y": y})
assert ten.shape == (10, 32, 32, 3)
assert digits.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
### END HIDDEN TESTS

# %% [markdown]
# ### A training step of your own
#
# **Question 4** (4 points)
#
# The script `svhn_loop.py` is complete except for its core. Your file, written by the
# next cell, has to define `make_step(strategy, model, optimizer, global_batch)`. It
# returns a function of a distributed batch (images and labels) that takes one training
# step on all replicas and returns the mean loss over the global batch. The model gives
# logits for ten classes. `strategies/mirrored_loop.py` helps.
#
# Two points: with a linear model, on two or more replicas and with any batch size, your
# step changes the weights and returns the loss as a single device would. Two more: a network
# that it trains classifies images whose labels it never saw. It has a minute for both.

# %% nbgrader={"grade": false, "grade_id": "q04_svhn_loop", "locked": false, "schema_version": 3, "solution": true, "task": false} tags=["raises-exception"]
%%writefile my_loop.py
import tensorflow as tf


def make_step(strategy, model, optimizer, global_batch):
    ### BEGIN SOLUTION
    each = tf.nn.sparse_softmax_cross_entropy_with_logits

    def on_replica(images, labels):
        with tf.GradientTape() as tape:
            losses = each(labels, model(images, training=True))
            loss = tf.nn.compute_average_loss(
                losses, global_batch_size=global_batch)
        weights = model.trainable_variables
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights))
        return loss

    @tf.function
    def step(images, labels):
        losses = strategy.run(on_replica, args=(images, labels))
        return strategy.reduce("SUM", losses, axis=None)

    return step
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# q04_svhn_loop
#
# 1. Two functions, one within the other: what one replica does with its part, and
#    a step that runs it on all replicas and adds up their losses.
# 2. On a replica: loss of each image, `tf.nn.compute_average_loss` with the
#    *global* batch, gradients, `apply_gradients`. In the step: `strategy.run`,
#    then `strategy.reduce` with a sum. Decorate the step with `@tf.function`.
# 3. `losses = strategy.run(on_replica, args=(images, labels))`

# %% nbgrader={"grade": true, "grade_id": "q04_svhn_loop_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import own_loop

own_loop.single_step(own_loop.trial("my_loop.py", seed=1))
### BEGIN HIDDEN TESTS
own_loop.single_step(own_loop.trial("my_loop.py", seed=5831, replicas=3))
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "q04_learns_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false} tags=["raises-exception"]
from course.multi_gpu import own_loop

own_loop.learns(own_loop.trial("my_loop.py", seed=1))
### BEGIN HIDDEN TESTS
own_loop.learns(own_loop.trial("my_loop.py", seed=5831, replicas=3))
### END HIDDEN TESTS

# %% [markdown]
# Your step trains the course's network:

# %% tags=["demo", "raises-exception"]
svhn = launch(
    "svhn_loop.py", name="SVHN, my loop", workers=1, loop="my_loop.py",
    replicas=workers, steps=10 if smoke else 200, seed=seed,
    train_samples=part[0], test_samples=part[1],
)

# %% [markdown]
# If the data are generated, this accuracy shows that your loop learns, and nothing
# about house numbers.

# %% [markdown]
# ## Your answers so far

# %% tags=["demo"]
check()

# %% [markdown]
# ## What to take away
#
# - If one class makes up 94 % of the data, accuracy says little.
# - A mean of ratios is not the ratio of sums: collect counts, then divide.
#
# ## Things to try
#
# - Launch `train_text.py` with a larger `global_batch`. When are two processes worth it?
#
# ## Sources
#
# - Bengio et al. (2003), *A Neural Probabilistic Language Model* (the pretrained
#   embedding)
# - Netzer et al. (2011), *Reading Digits in Natural Images with Unsupervised Feature
#   Learning*
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
