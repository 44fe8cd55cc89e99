"""The rules of the challenge: their numbers, and the page that states them with its sources."""

from ddl.errors import CourseError, InputError

# Training
GLOBAL_BATCH = 1024  # pictures in a step of all ranks together
TRAIN_SAMPLES = 45_056  # in an epoch: what `held_out="validation"` leaves of CIFAR-10's training pictures
CLASSES = 10
PREPARE_SAMPLES = 1024  # that `prepare` sees, without labels; they count
MOST_SAMPLES = 100 * TRAIN_SAMPLES
COMPRESSIONS = ("none", "fp16")
PRECISIONS = ("float32", "bfloat16")

# Evaluation, off the clock
EVALUATIONS = 8  # at even distances; the last one at the end
INFERENCE_BATCH = 500  # pictures in one call of the model
# Most that weights which nobody has trained may get right, each answer counted as the class that it most often goes
# with; of n pictures 2/√n more. Untrained networks and random linear maps got 0.10 to 0.20 (16 seeds, 2,500 pictures).
FIRST_ACCURACY = 0.22
MOST_ARITHMETIC = 1.05  # of the model in evaluations, for a picture, as a multiple of training's forward pass
# With other pictures in the batch, the lead of the first class may move by this part of itself (rounding), and this
# part of the answers may change.
MOST_COMPANY = 0.02
# How many more pictures a linear classifier may get right on what the layers of the untrained model give than on what
# the same weights give, shuffled in three ways; of n pictures 1/√n more. With n = 2,000 the baseline and the reference
# were between -0.02 and 0.02; a trained network of 9,000 weights, its last layer set to zero, was at 0.12.
MOST_KNOWLEDGE = 0.06

# Of what a submission consists
FILE_BYTES = 20_000
CONSTANT_BYTES = 64 * 1024  # all constants in all graphs
DATA_BYTES = 1024  # of them that are more than a few numbers, in a function that assigns weights
GRAPH_BYTES = 4 * 2**20  # all graphs
MODEL_BYTES = 32 * 2**20  # all variables of the model
STATISTICS_BYTES = 256 * 1024  # what the forward pass may assign; a global batch of pictures takes 3 MiB in bytes
MEMORY_BYTES = 4 * 2**30  # that a rank may take, besides what it has taken when it begins
STATE_BYTES = 2**20  # the optimizer's, and four times what the weights take

# Judging
# Mean accuracy on the private pictures: the highest half percent at which a score of five runs of a file exactly as
# good as the baseline counts nine times in ten, by its twenty runs in results/reference/challenge-baseline.jsonl.
TARGET = 0.725
# Private accuracy above the public one, in units of 1/√n: 126 recorded runs are between -0.8 and 1.2 at n = 4,944.
MOST_GAP = 3.0
ALPHA = 0.01  # of the one-sided t-test
LEAST_RUNS = 5
CHANCE = 1 / CLASSES  # what a run that crashes has reached
RUN_TIMEOUT_S = 3600.0  # for one run, where no run of the baseline tells how fast the machine is
BASELINE_TIMES = 10  # as much as the baseline takes a run may take
AROUND_S = 120.0  # and this for its start and evaluations
BASELINE_SAMPLES = 180_224  # that submissions/baseline.py trains on
BASELINE_ARITHMETIC = 12_700_000  # of its forward pass, for a picture
LOOK_SHARE = 0.25  # of the baseline's samples: a person reads what reaches the target with less

# A class's marks: points for reaching the target within so many passes over the training pictures.
BANDS = ((4.0, 4), (3.0, 6), (2.0, 8), (1.5, 10))
POINTS = max(worth for _, worth in BANDS)


class Refused(CourseError, ValueError):
    """A submission that breaks a rule; the message says what, where, and what to do."""


def level(looks: int) -> float:
    """The p that a file's runs have to stay below when they have been looked at `looks` times.

    It halves with each further score, as each is another chance: all together stay below twice `ALPHA`.
    """
    return ALPHA / 2 ** (looks - 1)


def points(counts: bool, samples: int) -> int:
    """The points of a score: those of the narrowest band of `BANDS` that it lies in; none where it does not count."""
    return max((worth for passes, worth in BANDS if counts and samples <= passes * TRAIN_SAMPLES), default=0)


def check_workers(workers: int) -> None:
    """Raise InputError unless the global batch can be divided among so many workers."""
    if type(workers) is not int or workers < 2 or GLOBAL_BATCH % workers:
        possible = ", ".join(str(2**power) for power in range(1, 6))
        raise InputError(
            f"workers={workers!r}: the global batch of {GLOBAL_BATCH:,} is divided equally among two workers or more: "
            f"take {possible} or another power of two"
        )


RULES = f"""\
THE CHALLENGE: reach {TARGET:.1%} on CIFAR-10 at a global batch of {GLOBAL_BATCH:,}, with less.

What you hand in
 1. One Python file of at most {FILE_BYTES:,} bytes. It may define the model, optimizer, schedule, augmentation,
    loss, passes and compression of gradients; what it leaves out is the baseline's (submissions/baseline.py).
 2. No weights or data from elsewhere. What a file computes is traced to TensorFlow graphs once, away from the
    images; the graphs are then trained. They can't read files, run Python or keep images.
 3. The clock, images, their order, seeds, ranks and evaluation are the course's, and so is each step: one forward
    and one backward pass over each image, averaged over two or more ranks. To smuggle images or labels into later
    steps, through gradients or the optimizer's state, is cheating: a person reads.

What is counted
 4. SAMPLES, a multiple of {GLOBAL_BATCH:,}, says how long a file trains, whatever happens. augment() may change each
    image of a step as it likes: that is free.
 5. A layer that goes over an image k times in a step (copies or views of it, or the layer used again) counts it k
    times, whether in training or in evaluations. So does a training step whose forward pass takes k times the
    arithmetic of one in evaluations; up to a quarter more is free.
 6. prepare() sees {PREPARE_SAMPLES:,} images without labels and counts as {PREPARE_SAMPLES:,} samples. These pay for
    as much arithmetic as a step takes on them; it counts as often as it needs that much. Model and prepare() have no
    loops and conditions of the graph, which cannot be counted: Python's own, over numbers, can.

What is measured
 7. Trained on {TRAIN_SAMPLES:,} images. 4,944 public ones are for you to choose on, as often as you like. The
    10,000 private ones decide; their labels never enter the processes that train, which hand back logits.
 8. Evaluation is off the clock, at {EVALUATIONS} fixed points, and trains nothing. The model takes no more
    arithmetic than in training, and its answer depends on no other image of the batch.
 9. Two boards. Samples: as counted, the same on any machine. Time: seconds divided by those of the baseline that
    ran beside it, in turns; the median over pairs. What takes more than {BASELINE_TIMES} times the baseline's time, or
    more than {MEMORY_BYTES // 2**30} GiB of memory on a rank, is ended.

What counts
10. A score is at least {LEAST_RUNS} runs with seeds drawn by the tool and noted before the first one, none left out. A
    run that misses counts as it is; one that crashes counts {CHANCE:.0%}. An interrupted score goes on with its seeds.
11. It counts if a one-sided t-test shows that the mean private accuracy reaches the target: p < {ALPHA:g}. More runs of
    the same file join the first ones. Each further look halves the p that is needed, as it is a further chance: at the
    same program, however it is commented; in a class, at any file of the same student.
12. Knowledge that came with the file is refused: more than {FIRST_ACCURACY:.0%} right before the first step; layers
    from which a linear classifier reads some {100 * MOST_KNOWLEDGE:.0f} points more than from the same weights
    shuffled; arrays of numbers to assign to weights; more right of the private images than of the public ones.
    A file that needs less than {LOOK_SHARE:.0%} of the baseline's samples is read by a person.
13. Scores on your own machine are yours. A class's board and marks come from the instructor's runs of your file, with
    fresh seeds in a sandbox; no number that you hand in is believed.
14. Of a class's {POINTS} points: {"; ".join(f"{worth} within {passes:g} passes" for passes, worth in BANDS)}.

Where these rules come from
 - MLPerf training rules (github.com/mlcommons/training_policies): a fixed number of runs per benchmark against
   variance and cherry-picking, no repeating a set of runs to find a better one, seeds logged, data order not chosen
   to help, and convergence compared with reference runs (RCPs), as too fast is suspicious. They drop the fastest and
   the slowest run; here none is dropped.
 - AlgoPerf (Dahl et al. 2023, arXiv:2306.07179; its documentation): evaluation is untimed and at a fixed period, so
   that there is nothing to win by evaluating often; what one may tune is fixed beforehand.
 - Modded-NanoGPT's rules for records (github.com/KellerJordan/modded-nanogpt): the data pipeline stays as it is;
   enough runs for p < 0.01 that the mean reaches the target; faster than the last record on the same hardware.
 - DAWNBench (Coleman et al. 2018, arXiv:1806.01427): looking back, it had to ask whether entries picked their best
   run, how much depends on the threshold, and whether what is tuned for it works on new images. Hence several
   runs, a target from recorded runs, and images that nobody chooses on.
"""
