"""The rules of the challenge: their numbers, and the page that states them with its sources."""

from ddl.errors import CourseError, InputError

__all__ = ["RULES", "Refused", "check_workers", "level", "points"]

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
MOST_COMPANY = 0.02  # how far logits may move with the other pictures of a batch, as a part of their spread (rounding)

# Of what a submission consists
FILE_BYTES = 20_000
CONSTANT_BYTES = 64 * 1024  # all constants in all graphs
GRAPH_BYTES = 4 * 2**20  # all graphs
MODEL_BYTES = 32 * 2**20  # all variables of the model
STATISTICS_BYTES = 256 * 1024  # what the forward pass may assign; a global batch of pictures takes 3 MiB in bytes
STATE_BYTES = 2**20  # the optimizer's, and four times what the weights take

# Judging
# Mean accuracy on the private pictures: the highest half percent at which a score of five runs of a file exactly as
# good as the baseline counts nine times in ten, by its twenty runs in results/reference/challenge-baseline.jsonl.
TARGET = 0.725
ALPHA = 0.01  # of the one-sided t-test
LEAST_RUNS = 5
CHANCE = 1 / CLASSES  # what a run that crashes has reached
RUN_TIMEOUT_S = 3600.0  # for one run, however slow
BASELINE_SAMPLES = 180_224  # that submissions/baseline.py trains on
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
    pictures; the graphs are then trained. They can't read files, run Python or keep pictures.
 3. The clock, pictures, their order, seeds, ranks and evaluation are the course's, and so is each step: one forward
    and one backward pass over each picture, averaged over two or more ranks. SAMPLES, a multiple of
    {GLOBAL_BATCH:,}, says how long a file trains, whatever happens. prepare() counts as {PREPARE_SAMPLES:,}. To smuggle
    pictures or labels into later steps, through gradients or the optimizer's state, is cheating: a person reads.

What is measured
 4. Trained on {TRAIN_SAMPLES:,} pictures. 4,944 public ones are for you to choose on, as often as you like. The
    10,000 private ones decide; their labels never enter the processes that train, which hand back logits.
 5. Evaluation is off the clock, at {EVALUATIONS} fixed points, and trains nothing. No test-time views: the model sees a
    picture once, with no more arithmetic than in training, and its answer depends on no other picture.
 6. Two boards. Samples: SAMPLES, the same on any machine. Time: seconds divided by those of the baseline that
    ran beside it, in turns; the median over pairs.

What counts
 7. A score is at least {LEAST_RUNS} runs with seeds drawn by the tool and noted before the first one, none left out. A
    run that misses counts as it is; one that crashes counts {CHANCE:.0%}. An interrupted score goes on with its seeds.
 8. It counts if a one-sided t-test shows that the mean private accuracy reaches the target: p < {ALPHA:g}. More runs of
    the same file join the first ones and halve the p that is needed, as a second look is a second chance.
 9. More than {FIRST_ACCURACY:.0%} right before the first step is refused: knowledge came with the file. A file
    that needs less than {LOOK_SHARE:.0%} of the baseline's samples is read by a person.
10. Scores on your own machine are yours. A class's board and marks come from the instructor's runs of your file, with
    fresh seeds in a sandbox; no number that you hand in is believed.
11. Of a class's {POINTS} points: {"; ".join(f"{worth} within {passes:g} passes" for passes, worth in BANDS)}.

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
   run, how much depends on the threshold, and whether what is tuned for it works on new pictures. Hence several
   runs, a target from recorded runs, and pictures that nobody chooses on.
"""
