"""The rules of the challenge, as numbers."""

from ddl.errors import CourseError

__all__ = ["Refused"]

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

# Of what a submission consists
FILE_BYTES = 20_000
CONSTANT_BYTES = 64 * 1024  # all constants in all graphs
GRAPH_BYTES = 4 * 2**20  # all graphs
MODEL_BYTES = 32 * 2**20  # all variables of the model
STATISTICS_BYTES = 256 * 1024  # what the forward pass may assign; a global batch of pictures takes 3 MiB in bytes
STATE_BYTES = 2**20  # the optimizer's, and four times what the weights take

# Judging
TARGET = 0.72  # PLACEHOLDER, until the baseline's runs are recorded: mean accuracy on the private pictures
ALPHA = 0.01  # of the one-sided t-test
LEAST_RUNS = 5


class Refused(CourseError, ValueError):
    """A submission that breaks a rule; the message says what, where, and what to do."""
