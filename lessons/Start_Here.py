# %% [markdown]
# # Distributed deep learning, by doing it
#
# **What do I have here, and does it work?**
#
# | about | this notebook |
# | --- | --- |
# | time | 10 minutes |
# | hardware | anything from a laptop with two cores to a GPU cluster |
# | before this | nothing |
#
# This course trains real networks on several workers at once. Each lesson asks a
# question, lets you predict the answer, launches a real run with
# [Horovod](https://horovod.readthedocs.io), and finds the answer in that run's own
# records. Results are computed when you run the cell, or come from recorded runs that
# name their hardware and date. Tests check what the text says about recorded runs.
#
# **How to go through a notebook.** Click on this text and press
# **Shift+Enter**: it selects the next cell, and runs it if it is code. Go on
# like that to the end. A cell that runs shows `[*]` on its left; ■ in the
# toolbar stops it. All commands are on the [cheat sheet](docs/cheat-sheet.md),
# and words such as *rank* in the [glossary](docs/glossary.md).

# %% [markdown]
# ## The map
#
# ![The lessons in order, as one way, with the minutes that each takes; under
# each one or more notebooks that go deeper.](images/course_map.svg)
#
# | lesson | the question it answers | deeper |
# | --- | --- | --- |
# | [1. Gradient basics](notebooks/1.Gradient-Basics.ipynb) | Why does averaging gradients speed up training? | [1b](notebooks/1b.Gradients-in-Depth.ipynb), [1c](notebooks/1c.Rings-and-Costs.ipynb) |
# | [2. System topology](notebooks/2.System-Topology.ipynb) | How are my workers connected, and what does that cost? | [2b](notebooks/2b.Links-in-Depth.ipynb), [2c](notebooks/2c.Algorithms-and-Predictions.ipynb) |
# | [3. Multi-GPU](notebooks/3.Multi-GPU.ipynb) | How do I make my script distributed? | [3b](notebooks/3b.Strategies-in-Depth.ipynb), [3c](notebooks/3c.Scaling-in-Depth.ipynb), [3d](notebooks/3d.Text-and-Loops.ipynb), [3e](notebooks/3e.Failures-in-Depth.ipynb), [3f](notebooks/3f.Bets.ipynb) |
# | [4. Convergence](notebooks/4.Convergence.ipynb) | Why does my model learn worse on more workers, and what fixes it? | [4b](notebooks/4b.Convergence-in-Depth.ipynb), [4c](notebooks/4c.Rules-and-Layers.ipynb) |
# | [5. Challenge](notebooks/5.Challenge.ipynb) | Can you beat the clock, and be believed? | [5b](notebooks/5b.Challenge-in-Depth.ipynb) |
# | [6. Sharding](notebooks/6.Sharding.ipynb) | What if the model does not fit? | [6b](notebooks/6b.Sharding-in-Depth.ipynb), [6c](notebooks/6c.Sharding-in-Practice.ipynb) |

# %% [markdown]
# The six lessons take 45 to 75 minutes each, or a day together. No lesson needs the
# notebooks in the last column (dashed on the map): they take up what a lesson leaves
# open. If you are short of time, do 1 and 3; lesson 4 needs no other, and 5 builds on
# 4.

# %% [markdown]
# In every lesson:
#
# - **Predict first.** Put your guess in place of `None` in a `guess` cell, and run
#   the next cells: your guess appears next to the result. Nobody marks guesses.
# - **Questions** are numbered and show their points. Write code where it says
#   `YOUR CODE HERE`, and words where it says `YOUR ANSWER HERE`. The cell below
#   tests your code; there are more tests, which you don't see.
# - **Stuck?** `hint("q01")` gives a hint on question 1, and one more each time.
# - **After a break**, select the cell where you stopped and choose *Run → Run All
#   Above Selected Cell*. Only cells that launch files of your own need your answers,
#   so you can look ahead.

# %% tags=["parameters"]
size = "reader"  # "smoke" only checks that everything runs
workers = 2

# %% [markdown]
# ## What do I have here?
#
# `doctor()` looks at this machine: its cores, memory and GPUs, how Horovod was
# built, and which data sets are installed. For whatever is missing, it tells
# you what to do. You can do without anything marked as optional.

# %%
from ddl import doctor

doctor()

# %% [markdown]
# ## A first run
#
# The next cell trains a small network on two workers. Each worker (a **rank**) is a
# separate process with its own copy of the network and its own half of every batch.
# In each step, before they update the weights, the ranks average their gradients.
# That exchange is called an **all-reduce**.
#
# ![A notebook cell becomes one shell line; horovodrun starts one process per
# worker; the ranks average gradients and write to the run's folder; what you
# see is read from that folder.](images/run_flow.svg)
#
# **Predict first.** The network has to tell ten classes apart, and it sees a
# few thousand images three times. Guessing gets 10 % right. What percentage will
# the network get right? Put your guess into the next cell, in place of `None`.

# %%
guess_right = None  # percent

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
    global_batch=32,
    epochs=3,
)

# %% [markdown]
# What you saw, from top to bottom:
#
# - the **shell line**: how Horovod's own `horovodrun` starts the same training.
#   Copied into a terminal, it trains again, without this view and its records;
# - **starting**: each worker loads TensorFlow, which takes a few seconds, the first time
#   the longest;
# - **images/s, loss, held-out accuracy**: *held-out* means measured on images
#   that the network never trained on. It is the only accuracy from which this
#   course draws conclusions.

# %%
from course import compare_guess

compare_guess(
    guess_right,
    100 * first.result["test_accuracy"],
    "% of the held-out images that are right",
)

# %% [markdown]
# It is not higher because the network saw only 4,000 images, three times.

# %% [markdown] tags=["claims"]
# On CIFAR-10, four passes over 45,056 images reach about 78 % (lesson 4).

# %%
first.history[["epoch", "samples", "loss", "test_accuracy"]]

# %% [markdown]
# ## The machine that it ran on, and the data
#
# Every run leaves a folder with its options, what each rank printed, and its results.
# Below are the output of rank 1 and the part of the result that describes the images the
# network learned from.

# %%
print(first.folder.name)
print(first.logs(rank=1) or "rank 1 printed nothing: only rank 0 reports")
first.result["data"]

# %% [markdown]
# If the data set is called *synthetic*, CIFAR-10 was not found on this machine,
# so the course generated the same number of images in the same format. To get
# the real ones, type `ddl data fetch cifar10` in a terminal (File → New →
# Terminal) and run the cells again.
#
# ## When something goes wrong
#
# To stop a run, press its Stop button or interrupt the cell (■ in the toolbar).
# Try it: no process stays behind. If a worker fails, you see which one it was,
# and its own traceback comes first. In a terminal, `ddl list` lists all runs,
# and `ddl show` shows one of them.

# %% [markdown]
# ## Where you stand
#
# Come back here whenever you like, and run the next cell: it counts what you
# have answered, which answers passed when you last ran a lesson's `check()`,
# and your runs. None of this leaves this machine. In a terminal:
# `ddl progress`.

# %%
from course import progress

progress()

# %% [markdown]
# ---
# Text and diagrams: CC BY 4.0. Code: Apache-2.0.
