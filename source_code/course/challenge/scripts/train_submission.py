"""Train what `ddl challenge` has built of a submission: its graphs, by the harness's clock, data, order and count.

    ddl challenge run FILE                                     # builds, then launches this
    ddl run --workers 2 train_submission.py --built FOLDER --pictures FILE --seed 3 --secret 5

The submission's Python has run in another process. Here are its graphs, checked once more, and one training step made
of them: augment, forward pass, loss, gradients, their average over passes and ranks, update. So every picture goes
through the network once forward and once backward, and is counted. The clock stands still during evaluations.

The file of pictures has no labels of the private ones, and ranks open no other data. Rank 0 writes events.jsonl,
result.json, and the logits of the private pictures: logits.npy. Whoever judges has their labels.
"""

import os
import tempfile

from course.challenge.confinement import confine, limit_memory
from course.challenge.rules import GLOBAL_BATCH, MEMORY_BYTES
from course.training.options import Integer, parser, run
from ddl.records.folder import RunFolder

ROLES = ("submission", "baseline")


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--built", required=True, metavar="FOLDER", help="what was built of the submission")
    add("--pictures", required=True, metavar="FILE", help="the images in three parts, the private ones unlabelled")
    add("--seed", type=Integer(0, 2**31 - 1), required=True, help="of the initial values: one that it was built with")
    drawn = "of order, augmentation, and the classes' other names: unknown to the submission"
    add("--secret", type=Integer(0, 2**63 - 1), required=True, metavar="N", help=drawn)
    add("--role", default=ROLES[0], choices=ROLES)
    add("--score-id", metavar="ID", help="of the score that this run belongs to")
    # A training with any of these is a trial, which does not count
    add("--samples", type=Integer(), metavar="N", help="train on so many samples instead of the file's SAMPLES")
    add("--train-samples", type=Integer(), metavar="N", help="images to train on (default: all)")
    add("--public-samples", type=Integer(), metavar="N", help="images to evaluate on (default: all)")
    add("--private-samples", type=Integer(), metavar="N", help="images to be judged on (default: all)")
    config = ours.parse_args(arguments)
    if config.samples and config.samples % GLOBAL_BATCH:
        ours.error(f"--samples {config.samples} is no multiple of the global batch, {GLOBAL_BATCH:,}")
    return config


def confine_rank(config):
    """Keep a rank from files that a training does not need, and from more memory than a submission may take."""
    if folder := RunFolder.here():
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder.path)
        keras = os.path.expanduser("~/.keras/keras.json")  # Keras reads it where it is there
        confine([config.built, config.pictures, keras, "/etc", "/proc", "/sys"], [folder.path, "/dev"], network=True)
    limit_memory(MEMORY_BYTES)


if __name__ == "__main__":
    config = parse()  # before the slow imports: a wrong option is refused at once
    confine_rank(config)

import math
import sys
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.challenge import rules, scrutiny
from course.challenge.graphs import Program, failed
from course.challenge.rules import Refused
from course.challenge.split import Split
from course.data import Order, shard
from course.data.tensors import constant
from course.training.exchange import average, average_statistics, cycle_time, pin_gpu, suitable_cycle_ms
from course.training.journal import Journal, Startup
from course.training.loop import DIVERGED, in_passes, train
from course.training.precision import set_precision
from course.training.recipes import passes_for
from ddl.records.files import replacing

TRIAL = ("samples", "train_samples", "public_samples", "private_samples")
LOGITS = "logits.npy"


class Secrets:
    """What nobody but the harness knows before: the same draws on every rank."""

    def __init__(self, secret, train_samples):
        self.draws = np.random.default_rng(secret)
        order_seed, self.key = (int(each) for each in self.draws.integers(0, 2**31 - 1, 2))  # the key of augmentation
        self.order = Order(train_samples, GLOBAL_BATCH, order_seed)
        self.renamed = self.draws.permutation(rules.CLASSES).astype(np.int32)  # what each class is called in this run
        self.numbers = self.draws.permutation(train_samples).astype(np.int32)  # what each picture is called


def main(config):
    """Train, and return what goes into result.json."""
    startup = Startup()  # where the seconds until the first step go
    # Horovod: initialise, and pin each rank to one GPU, where there are any.
    with cycle_time(suitable_cycle_ms(GLOBAL_BATCH)):
        hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    gpu = pin_gpu()
    startup.ends("init")

    data = Split.at(config.pictures).beginning(config.train_samples, config.public_samples, config.private_samples)
    secrets = Secrets(config.secret, len(data.train_labels))
    images, labels = constant(data.train_images), constant(secrets.renamed[data.train_labels])
    public = data.public_images, secrets.renamed[data.public_labels]
    startup.ends("data")

    program = Program(config.built)
    set_precision(program.settings["precision"], gpu)  # a rank whose processor has no bfloat16 says so
    steps = (config.samples or program.settings["samples"]) // GLOBAL_BATCH
    passes = passes_for(program.ghost_batch, GLOBAL_BATCH, ranks)
    program.start(config.seed)
    train_step = make_train_step(
        program, images, labels, secrets.numbers, secrets.key, passes, rank * (GLOBAL_BATCH // ranks)
    )
    prepare = make_optional(program, "prepare", lambda: [shown(images)])
    finish = make_optional(program, "finish")
    predict = make_prediction(program, rank, ranks)

    first_logits = predict(public[0])
    scrutiny.refuse_company(program, predict, public[0], first_logits, secrets.draws)
    first_accuracy = scrutiny.refuse_knowledge(program, *public, first_logits)
    # Everything once, so that what is built at its first call is built; then back to the initial values.
    prepare()
    train_step(shard(secrets.order.epoch(0)[0], rank, ranks), 0, 0, 0.0)
    finish()
    program.start(config.seed)
    # Horovod: broadcast rank 0's weights and optimizer state.
    hvd.broadcast_variables(program.variables, root_rank=0, inplace=True)
    startup.ends("model")

    journal = begin(config, program, startup, secrets.order, steps, passes, data)
    cpu_seconds, diverged = take_steps(program, journal, secrets.order, prepare, train_step, finish, predict, public)

    logits = predict(data.private_images)
    scrutiny.refuse_company(program, predict, data.private_images, logits, secrets.draws)
    logits = logits[:, secrets.renamed]  # column c is class c again
    keep(logits)
    return journal.result(
        **described(config, program),
        data=data.describe(),
        private_samples=len(data.private_images),
        world=ranks,
        ranks=ranks,
        per_rank_batch=GLOBAL_BATCH // ranks,
        global_batch=GLOBAL_BATCH,
        seconds=journal.history[-1]["seconds"],
        cpu_seconds=float(hvd.allreduce(tf.constant(cpu_seconds, tf.float64), op=hvd.Sum, name="seconds")),
        first_accuracy=first_accuracy,
        public_accuracy=journal.history[-1]["test_accuracy"],
        diverged=diverged,
    )


def begin(config, program, startup, order, steps, passes, data):
    """Say what is trained, and start the clock; return the journal, which counts each pass over a picture."""
    counted, ranks, first = GLOBAL_BATCH * program.passes, hvd.size(), program.prepare_samples
    journal = Journal(hvd.rank() == 0, steps, order.steps, counted, startup=startup, samples_before=first)
    journal.print(
        f"{program.file_name} ({config.role}): {first + steps * counted:,} samples in {steps} steps, batch: {ranks} "
        f"ranks x {passes} passes x {program.ghost_batch} = {GLOBAL_BATCH}\n"
        f"data: {data.name} ({data.form}), {len(data.train_labels)} training and {len(data.public_labels)} public "
        "pictures"
    )
    barrier(program)
    journal.start(
        world=ranks, per_rank_batch=GLOBAL_BATCH // ranks, data=data.describe(), precision=program.settings["precision"]
    )
    return journal


def keep(logits):
    """Leave the logits of the private pictures in the run's folder, where there is one: rank 0 does."""
    if hvd.rank() == 0 and (folder := RunFolder.here()):
        with replacing(folder.path / LOGITS) as file:
            np.save(file, logits, allow_pickle=False)


def take_steps(program, journal, order, prepare, train_step, finish, predict, public):
    """Train all steps on the clock; return this rank's processor seconds, and whether the training diverged."""
    rank, ranks, steps = hvd.rank(), hvd.size(), journal.steps
    points = {math.ceil(steps * part / rules.EVALUATIONS) for part in range(1, rules.EVALUATIONS + 1)}
    cpu_seconds, since = 0.0, time.process_time()

    def take(step, batch):
        return train_step(shard(batch, rank, ranks), step, step // order.steps, step / steps), None

    def settle(done, diverged):
        """End the training where it ends; stop the clocks where an evaluation is due."""
        nonlocal cpu_seconds
        if done == steps or diverged:
            finish()
        due = done in points or diverged
        if due:
            barrier(program)  # the clocks stop when all ranks have done this part
            cpu_seconds += time.process_time() - since
        return due

    def evaluate():
        nonlocal since
        average_statistics([variable for variable in program.statistics if variable.dtype.is_floating])
        found = loss_and_accuracy(predict(public[0]), public[1])
        barrier(program)  # all clocks go on together
        since = time.process_time()
        return found

    prepare()
    stopped_by = train(journal, order.batches(0, steps), take, evaluate=evaluate, epochs=steps, settle=settle)
    return cpu_seconds, stopped_by == DIVERGED


def described(config, program):
    """Return what a result says of the file and the options."""
    facts = {"file": program.file, "file_name": program.file_name, "role": config.role, "score_id": config.score_id}
    return {
        "challenge": {**facts, "passes": program.passes},
        "config": vars(config),
        "settings": program.settings,
        "trial": any(getattr(config, name) is not None for name in TRIAL),
        "model": program.file_name,
        "held_out": "validation",
        "parameters": sum(int(np.prod(weight.shape)) for weight in program.weights),
        "ghost_batch": program.ghost_batch,
        "precision": program.settings["precision"],
        "seed": config.seed,
        "secret": config.secret,
    }


def make_train_step(program, images, labels, numbers, key, passes, first):
    """Return a function of (chosen pictures, step, epoch, done) that trains one step; it returns loss and accuracy.

    `numbers` are what the submission knows the pictures by, `first` is this rank's place in the global batch.
    """
    ghost, weights, names = program.ghost_batch, program.weights, constant(numbers)
    fp16 = program.settings["compression"] == "fp16"

    def forward_backward(chosen, step, epoch, place):
        pictures = tf.cast(tf.gather(images, chosen), tf.float32) / 255
        target = tf.gather(labels, chosen)
        # The key depends on the place in the global batch alone: any number of ranks augments alike.
        pictures = program.call("augment", pictures, tf.gather(names, chosen), epoch, tf.stack([key + place, step]))
        logits = program.call("forward_training", pictures)
        loss = tf.reduce_mean(program.call("loss", logits, target))
        hits = tf.reduce_mean(tf.cast(tf.argmax(logits, 1, tf.int32) == target, tf.float32))
        gradients = tf.gradients(loss, weights, unconnected_gradients="zero")
        return [*map(tf.convert_to_tensor, gradients), tf.stack([loss, hits])]

    number = tf.TensorSpec([], tf.int32)
    signature = [tf.TensorSpec([ghost * passes], tf.int32), number, number, tf.TensorSpec([])]

    @tf.function(autograph=False, input_signature=signature)
    def train_step(chosen, step, epoch, done):
        *gradients, metrics = in_passes(
            lambda some, start: forward_backward(some, step, epoch, first + start), chosen, passes, weights, 2
        )
        # Horovod: average over ranks, all gradients in one message.
        gradients, metrics = average(gradients, metrics, fp16)
        with tf.control_dependencies([program.call("update", *gradients, done)]):
            return tf.identity(metrics)

    return train_step


def make_optional(program, name, inputs=lambda: ()):
    """Return a function that calls one of the file's, or does nothing where the file has none of that name."""
    if name not in program:
        return lambda: None
    return tf.function(lambda: program.call(name, *inputs()), autograph=False)


def shown(images):
    """Return the first pictures, which `prepare` sees without labels."""
    if len(images) < rules.PREPARE_SAMPLES:
        raise Refused(f"prepare is shown {rules.PREPARE_SAMPLES:,} images, and there are {len(images):,}: take more")
    return tf.cast(images[: rules.PREPARE_SAMPLES], tf.float32) / 255


def make_prediction(program, rank, ranks):
    """Return a function from pictures, uint8 `[n, 32, 32, 3]`, to logits, float32 `[n, 10]`, all of them on every rank.

    Each rank takes a part.
    """
    batch = rules.INFERENCE_BATCH

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([batch, 32, 32, 3], tf.uint8)])
    def infer(pictures):
        return program.call("forward_inference", tf.cast(pictures, tf.float32) / 255)

    def predict(pictures):
        mine = np.array_split(pictures, ranks)[rank]
        logits = tf.concat([tf.zeros([0, rules.CLASSES]), *scrutiny.in_batches(infer, mine)], 0)[: len(mine)]
        # Horovod: gather. The parts come in the order of ranks, which is the pictures' own.
        return hvd.allgather(logits, name="logits").numpy()

    predict.whole = batch * ranks  # so many pictures need no filling up
    return predict


def loss_and_accuracy(logits, labels):
    """Return mean cross-entropy and the part of pictures whose largest logit is right; not finite is wrong."""
    finite = np.isfinite(logits).all(1)
    hits = finite & (logits.argmax(1) == labels)
    shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(labels)), labels]
    return float(losses.mean()), float(hits.mean())


def barrier(program):
    """Wait for all ranks, and for this one's device."""
    program.weights[0].numpy()
    hvd.allreduce(tf.zeros(1), name="barrier")


if __name__ == "__main__":
    try:
        run(main, config)
    except (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError) as error:
        sys.exit(f"train_submission.py: {failed(error)}")
