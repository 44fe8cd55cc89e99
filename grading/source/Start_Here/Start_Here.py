# %% [markdown]
# # Distributed deep learning, by doing it
#
# **What do I have here, and does it work?**
#
# | | |
# | --- | --- |
# | time | 3 minutes |
# | hardware | anything from a laptop with two cores to a GPU cluster |
# | before this | nothing |
#
# This course trains real networks on several workers at once. Every lesson asks
# a question, has you predict the answer, launches a real run with
# [Horovod](https://horovod.readthedocs.io), and answers from that run's own
# records. Nothing that you see as a result was typed into a notebook.

# %% [markdown]
# ## The map
#
# ![The lessons in order: gradient basics, system topology, multi-GPU,
# convergence, challenge; the challenge is being written, the others are
# there.](images/course_map.svg)
#
# | lesson | the question it answers |
# | --- | --- |
# | [1. Gradient basics](notebooks/1.Gradient-Basics.ipynb) | Why does averaging gradients speed up training? |
# | [2. System topology](notebooks/2.System-Topology.ipynb) | How are my workers connected, and what does that cost? |
# | [3. Multi-GPU](notebooks/3.Multi-GPU.ipynb) | How do I make my script distributed? |
# | [4. Convergence](notebooks/4.Convergence.ipynb) | Why does my model learn worse on more workers, and what fixes it? |
#
# Lessons 1 to 3 have exercises, which check themselves as you go. The challenge is
# being written. Lesson 4 stands on its own: it explains what it needs.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2

# %% [markdown]
# ## What is here
#
# `doctor()` looks at this machine: cores, memory, GPUs, how Horovod was built,
# which data sets are there. Whatever is missing comes with what to do about it.
# What is only optional may stay missing.

# %%
from ddl import doctor

doctor()

# %% [markdown]
# ## A first run
#
# The next cell trains a small network on two workers. Each worker (a **rank**)
# is a process of its own, with its own copy of the network and its own half of
# every batch. After each step the ranks average their gradients: an
# **all-reduce**.
#
# ![A notebook cell becomes one shell line; horovodrun starts one process per
# worker; the ranks average gradients and write into the run's folder; what you
# see is read from that folder.](images/run_flow.svg)
#
# **Predict first.** The network has ten classes to tell apart, and sees a few
# thousand pictures, twice. Guessing gets 10 %. What will it get?

# %%
from ddl import launch

samples = {"reader": 4000, "smoke": 512}[size]
first = launch(
    "train_cifar.py",
    workers=workers,
    name="first run",
    recipe="batch_norm",
    data_set="auto",
    train_samples=samples,
    test_samples=1000,
    epochs=2,
)

# %% [markdown]
# What you saw, from the top:
#
# - the **shell line**. It is what really ran. Copy it into a terminal and the
#   same run starts again;
# - **starting**: each worker loads TensorFlow. On a laptop this takes longer
#   than the training;
# - **images/s, loss, held-out accuracy**. Held-out means measured on pictures
#   that the network never trained on. It is the only accuracy that this course
#   draws conclusions from.

# %%
first.history[["epoch", "samples", "loss", "test_accuracy"]]

# %% [markdown]
# ## Where it ran, and on what
#
# Every run leaves a folder with what was asked for, what each rank printed, and
# what came out. These are the first words of rank 1, and the part of the result
# that says which pictures it learned from.

# %%
print(first.folder.name)
print(first.logs(rank=1) or "rank 1 printed nothing: only rank 0 reports")
first.result["data"]

# %% [markdown]
# If the data set is called *synthetic*, CIFAR-10 was not on this machine: the
# course then makes pictures of the same shape and number by itself. To get the
# real ones, type `ddl data fetch cifar10` in a terminal (File → New → Terminal),
# and run the cells again.
#
# ## When something goes wrong
#
# Stop a run with the Stop button, or interrupt the cell (■ in the toolbar). Try
# it: no process stays behind. When a worker fails, you see which one, and its
# own traceback first. In a terminal, `ddl list` shows all runs, `ddl show` one.
#
# **Next:** [1. Gradient basics](notebooks/1.Gradient-Basics.ipynb)
#
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
