"""The rules of the challenge: their numbers, and the half page that states them."""

from ddl.errors import CourseError

# Training
GLOBAL_BATCH = 1024  # images in a step, over all ranks
TRAIN_SAMPLES = 45_056  # in an epoch: what held_out="validation" leaves of the training images
CLASSES = 10
PREPARE_SAMPLES = 1024  # shown to prepare() without labels; they count as samples
FILE_BYTES = 20_000
EVALUATIONS = 8  # in a launched run, evenly spaced, off its clock
INFERENCE_BATCH = 500  # images in one call of the model

# Scoring
RUNS = 5
ALPHA = 0.01  # of the one-sided t-test
CHANCE = 1 / CLASSES  # the accuracy of a run that fails
# The mean private accuracy to reach: the highest half percent at which five runs of the baseline count nine times in
# ten, by results/reference/challenge-baseline.jsonl and challenge-generated.jsonl.
TARGETS = {"cifar10": 0.725, "synthetic": 0.845}
TARGET = TARGETS["cifar10"]
BASELINE_TIMES = 4  # a run may take this many times the baseline's time and memory
START_S = 120.0  # for a process to import TensorFlow
RUN_TIMEOUT_S = 3600.0  # until the baseline has finished

# What a person should look at
CONSTANT_CHARACTERS = 1_000  # of the longest literal; the reference's, its docstring, has 583
COMPRESSED_BYTES = 6_000  # of the source; the reference takes 3,300
USUAL_IMPORTS = {"math", "numpy", "tensorflow", "keras", "functools", "itertools", "course.data.augment"}
UNTRAINED_SAMPLES = 2_000
# The largest share of images that an untrained network may classify correctly, if each answer counts as its most common
# class. Untrained networks and random linear maps reached 0.10 to 0.20.
UNTRAINED_ACCURACY = 0.26

# Points of a class: the largest share of the baseline's processor time that earns them.
BANDS = ((1.05, 4), (0.8, 6), (0.65, 8), (0.5, 10))
POINTS = max(worth for _, worth in BANDS)


class Refused(CourseError, ValueError):
    """A submission that breaks a rule."""


def points(counts: bool, ratio: float) -> int:
    """Return the points of a score that takes `ratio` times the baseline's processor time."""
    return max((worth for most, worth in BANDS if counts and ratio <= most), default=0)


RULES = f"""\
THE CHALLENGE: reach {TARGET:.1%} on CIFAR-10 at a global batch of {GLOBAL_BATCH:,}, in less processor time
than the baseline. (On generated images, reach {TARGETS["synthetic"]:.1%}.)

 1. A submission is one Python file of at most {FILE_BYTES:,} bytes. It can define the model, optimizer, schedule,
    augmentation, loss and settings. The baseline (submissions/baseline.py) supplies the rest.
 2. The harness takes the steps: one forward and one backward pass over {GLOBAL_BATCH:,} images each, SAMPLES images in
    all. Don't train in any other way, and bring no weights, data or labels in the file.
 3. Choose on the 4,944 public images, as often as you like. The private images decide.
 4. A score is {RUNS} runs, with seeds drawn beforehand. A failed run counts as {CHANCE:.0%} and ends the score.
 5. The clock counts your process's processor time, from when it gets your file until it has classified the private
    images. Extra passes, larger models and slow code all cost time.
 6. The private images arrive after training, without labels, in random order, and with a little random noise.
 7. The baseline runs at the same time with the same seed. Your time is the median ratio of the two times.
    A run is stopped at {BASELINE_TIMES} times its time or memory, and if it starts a process or uses a second core.
 8. A score counts if a one-sided t-test shows that the mean private accuracy is above the target (p < {ALPHA:g}).
 9. Your own scores are practice. The instructor scores your file in a sandbox without network or other files, and
    reads it if it has long constants, unusual imports, or an untrained network that knows the classes.
10. Points, by your share of the baseline's time: {"; ".join(f"{worth} up to {most:g}" for most, worth in BANDS)}.
"""
