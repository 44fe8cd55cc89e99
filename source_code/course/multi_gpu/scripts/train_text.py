"""Classify insincere questions, in one or more processes, with five strategies.

    ddl run --workers 1 train_text.py --strategy single
    ddl run --workers 1 train_text.py --strategy mirrored --replicas 2
    ddl run --workers 1 train_text.py --strategy mirrored_loop
    ddl run --workers 2 --cluster multi_worker train_text.py --strategy multi_worker
    ddl run --workers 2 train_text.py --strategy horovod --embedding FOLDER_OR_ADDRESS

A sentence embedding and three dense layers, trained until the validation loss stops falling. All
strategies see the same batches and keep the same records; under `ddl run` the run's folder has
TensorBoard's logs as well. `--export FOLDER` writes our own embedding as a folder for `--embedding`.
"""

from pathlib import Path

from course.training.options import OWN, SEED, Integer, Number, parser, run, split_evenly

STRATEGIES = ("single", "mirrored", "mirrored_loop", "multi_worker", "horovod")


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--strategy", default="single", choices=STRATEGIES)
    add("--replicas", type=Integer(), default=2, help="of the mirrored ones: GPUs, or logical devices")
    # Data
    add("--data-set", default="auto", choices=("auto", "quora", "questions"))
    add("--samples", type=Integer(), metavar="N", help="use a part (default: all; 20,000 generated questions)")
    # Network
    which = f"{OWN!r}, the folder of a SavedModel, or a TensorFlow Hub address"
    add("--embedding", default=OWN, metavar="WHICH", help=which)
    add("--trainable", action="store_true", help="train a pretrained embedding further")
    add("--export", metavar="FOLDER", help="write our own embedding there at the end")
    # Training
    add("--epochs", type=Integer(), default=20, help="at most")
    patience = "stop after N epochs without a lower validation loss, with the best weights; 0: never (default: 2)"
    add("--patience", type=Integer(0), default=2, metavar="EPOCHS", help=patience)
    add("--global-batch", type=Integer(), default=128, help="samples in a step of all replicas together")
    add("--learning-rate", type=Number(above=0), default=1e-3, metavar="RATE", help="of Adam")
    add("--seed", type=SEED, default=0, help="of initial weights and order")
    config = ours.parse_args(arguments)
    if config.export and config.embedding != OWN:
        ours.error(f"--export writes our own embedding: use --embedding {OWN}")
    named = config.embedding == OWN or "://" in config.embedding
    if not named and not (config.embedding and Path(config.embedding).expanduser().is_dir()):
        ours.error(
            f"--embedding {config.embedding!r} is neither {OWN!r}, nor a folder, nor an "
            "address that begins with https://"
        )
    if config.strategy.startswith("mirrored"):
        split_evenly(ours, config)
    return config


if __name__ == "__main__":
    config = parse()  # before the slow imports, to refuse wrong options at once

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from course.data import Order, load_questions, shard
from course.multi_gpu import embedding
from course.multi_gpu.binary_metrics import best_threshold, figures, loss_and_accuracy, precision_recall
from course.multi_gpu.callbacks import Records, Stopping, Validation, horovod_callbacks, make_scores
from course.training.journal import Journal
from course.training.strategy import devices_for
from ddl import cluster

CURVE_POINTS = 200


def main(config):
    """Train, and return what goes into result.json."""
    process = this_process(config)
    parts = load_questions(config.data_set, samples=config.samples).parts()
    order = Order(len(parts.train), config.global_batch, config.seed)
    shard(np.empty(config.global_batch), 0, process.replicas)  # refuses uneven parts
    batches = make_batches(config, parts.train, order)

    with process.strategy.scope():  # what has variables is made here: each replica gets them
        model = build(config)
        optimizer = tf.keras.optimizers.Adam(config.learning_rate)

    # Only rank 0 writes.
    journal = Journal(process.rank == 0, config.epochs * order.steps, order.steps, config.global_batch)
    announce(journal, config, process, parts)
    callbacks = make_callbacks(config, process, model, parts, journal)

    train = loop if config.strategy == "mirrored_loop" else fit
    train(config, process, model, optimizer, batches, order, callbacks)

    if config.export and process.rank == 0:
        embedding.export(model.layers[0], config.export)
    return finish(config, process, model, parts, journal)


# ---------------------------------------------------------------- where this process computes


@dataclass(frozen=True)
class Process:
    """One process among all that compute, and the replicas of all of them together."""

    strategy: tf.distribute.Strategy
    rank: int = 0
    ranks: int = 1
    replicas: int = 1
    note: str | None = None


def this_process(config):
    """Find out which process this is, choose its devices, and make its strategy."""
    if config.strategy == "horovod":
        import horovod.tensorflow.keras as hvd

        from course.training.gpu import pin_gpu

        hvd.init()
        pin_gpu()
        # Horovod is not a strategy: each rank trains independently and averages gradients.
        return Process(tf.distribute.get_strategy(), hvd.rank(), hvd.size(), hvd.size())
    if config.strategy == "multi_worker":
        task = cluster.read()
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        return Process(strategy, task.index, len(task.workers), strategy.num_replicas_in_sync)
    if config.strategy == "single":
        return Process(tf.distribute.get_strategy())
    devices, note = devices_for(config.replicas)
    return Process(tf.distribute.MirroredStrategy(devices), replicas=config.replicas, note=note)


def make_batches(config, questions, order):
    """Return a function from an input context to a data set of one replica's batch after another.

    The context says how many replicas there are, and which of them this process feeds.
    """
    texts = tf.constant(questions.texts)
    targets = questions.targets.astype(np.float32)

    def batches(context):
        replicas = context.num_replicas_in_sync
        mine = replicas // context.num_input_pipelines
        first = mine * context.input_pipeline_id

        def numbers(epoch):
            parts = order.epoch(epoch).reshape(order.steps, replicas, -1)
            return parts[:, first : first + mine].reshape(order.steps * mine, -1)

        def epoch(number):
            shape = order.steps * mine, order.global_batch // replicas
            some = tf.numpy_function(numbers, [number], tf.int32)
            return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(some, shape))

        def samples(some):
            return tf.gather(texts, some), tf.gather(targets, some)[:, None]

        return tf.data.Dataset.range(config.epochs).flat_map(epoch).map(samples).prefetch(2)

    return batches


# ---------------------------------------------------------------- network and training


def build(config):
    """Return the network: texts, string ``[n]``, to probabilities, float32 ``[n, 1]``."""

    def dense(units, activation, number):
        start = tf.keras.initializers.GlorotUniform(seed=1000 * config.seed + number)
        return tf.keras.layers.Dense(units, activation, kernel_initializer=start)

    return tf.keras.Sequential(
        [
            tf.keras.Input((), dtype=tf.string),
            embedding.make(config.embedding, config.trainable, config.seed),
            dense(256, "relu", 1),
            dense(64, "relu", 2),
            dense(1, "sigmoid", 3),
        ]
    )


def fit(config, process, model, optimizer, batches, order, callbacks):
    """Train with Model.fit; the strategy, or Horovod's optimizer, averages the gradients."""
    if config.strategy == "horovod":
        import horovod.tensorflow.keras as hvd

        # Not scaled: the rate is for the global batch, which does not depend on the number of ranks.
        optimizer = hvd.DistributedOptimizer(optimizer)
        dataset = batches(tf.distribute.InputContext(process.ranks, process.rank, process.ranks))
    else:
        dataset = process.strategy.distribute_datasets_from_function(batches)
    with process.strategy.scope():
        model.compile(
            optimizer, tf.keras.losses.BinaryCrossentropy(), metrics=[tf.keras.metrics.BinaryAccuracy("accuracy")]
        )
    model.fit(dataset, epochs=config.epochs, steps_per_epoch=order.steps, callbacks=callbacks, verbose=0)


def loop(config, process, model, optimizer, batches, order, callbacks):
    """Train with a custom loop that calls Keras' callbacks."""
    strategy = process.strategy
    cross_entropy = tf.keras.losses.BinaryCrossentropy(reduction=tf.keras.losses.Reduction.NONE)

    def replica_step(texts, targets):
        with tf.GradientTape() as tape:
            scores = model(texts, training=True)
            # Replicas' gradients are summed, so each divides by the size of the global batch.
            loss = tf.nn.compute_average_loss(cross_entropy(targets, scores), global_batch_size=config.global_batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        hits = tf.reduce_sum(tf.cast((scores > 0.5) == (targets > 0.5), tf.float32))
        return tf.stack([loss, hits / config.global_batch])

    @tf.function
    def train_step(batch):
        figures = strategy.run(replica_step, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, figures, axis=None)

    model.optimizer = optimizer  # where TensorBoard's callback finds the learning rate
    model.stop_training = False
    callbacks = tf.keras.callbacks.CallbackList(callbacks, model=model)
    callbacks.on_train_begin()
    dataset = iter(strategy.distribute_datasets_from_function(batches))
    for epoch in range(config.epochs):
        callbacks.on_epoch_begin(epoch)
        totals = 0.0
        for step in range(order.steps):
            callbacks.on_train_batch_begin(step)
            totals = totals + train_step(next(dataset))
            loss, accuracy = (totals / (step + 1)).numpy().tolist()
            callbacks.on_train_batch_end(step, {"loss": loss, "accuracy": accuracy})
        callbacks.on_epoch_end(epoch, {"loss": loss, "accuracy": accuracy})
        if model.stop_training:
            break
    callbacks.on_train_end()


# ---------------------------------------------------------------- what is kept of each epoch


def make_callbacks(config, process, model, parts, journal):
    """Return Keras' callbacks and ours, in order of their dependencies."""
    scores = make_scores(process.strategy, model)

    def evaluate(part):
        return loss_and_accuracy(part.targets, scores(part.texts))

    callbacks = [Validation(evaluate, parts.validation, journal)]
    if config.strategy == "horovod":
        of_horovod = horovod_callbacks()
        # A rank's training loss covers only its own part.
        callbacks = [
            of_horovod.BroadcastGlobalVariablesCallback(root_rank=0),
            *callbacks,
            of_horovod.MetricAverageCallback(),
        ]
    callbacks.append(
        Records(
            evaluate,
            parts.test,
            journal,
            config.learning_rate,
            world=process.ranks,
            per_rank_batch=config.global_batch // process.ranks,
            data=parts.describe(),
        )
    )
    if config.patience:
        callbacks.append(Stopping("val_loss", patience=config.patience, mode="min", restore_best_weights=True))
    if process.rank == 0 and journal.recorder.folder:
        callbacks.append(tf.keras.callbacks.TensorBoard(journal.recorder.folder.tensorboard, write_graph=False))
    return callbacks


def announce(journal, config, process, parts):
    """Print the configuration and the data."""
    facts = parts.describe()
    journal.print(
        f"data: {facts['name']} ({facts['form']}), {facts['train_samples']} training, "
        f"{facts['validation_samples']} validation and {facts['test_samples']} test questions, "
        f"{facts['positive_share']:.1%} of them insincere\n"
        f"{config.strategy}: {process.replicas} replicas in {process.ranks} processes, batch "
        f"{config.global_batch}, embedding {config.embedding}"
    )
    for note in filter(None, [parts.train.note, process.note]):
        journal.note(note)


def finish(config, process, model, parts, journal):
    """Evaluate the final model on the test part, and write the result on rank 0."""
    if process.rank:
        return None
    scores = make_scores(process.strategy, model)
    of_validation, of_test = scores(parts.validation.texts), scores(parts.test.texts)
    threshold = best_threshold(parts.validation.targets, of_validation)
    test = figures(parts.test.targets, of_test)
    tuned = figures(parts.test.targets, of_test, threshold)
    curve = precision_recall(parts.test.targets, of_test, CURVE_POINTS)
    losses = [row["validation_loss"] for row in journal.history]
    best, last = int(np.argmin(losses)), len(losses) - 1
    kept = journal.history[best if config.patience else last]
    if kept is not journal.history[last]:
        journal.note(
            f"the validation loss was lowest after epoch {best + 1} of {last + 1}: the result uses those weights"
        )
    journal.print(
        f"test part: accuracy {test['accuracy']:.1%} (majority {test['majority']:.1%}), "
        f"F1 {test['f1']:.3f}, tuned {tuned['f1']:.3f}"
    )
    if journal.recorder.folder:
        np.savez(journal.recorder.folder.weights, *[weight.numpy() for weight in model.trainable_weights])
    return journal.result(
        config=vars(config),
        strategy=config.strategy,
        embedding=config.embedding,
        parameters=sum(int(np.prod(weight.shape)) for weight in model.trainable_weights),
        data=parts.describe(),
        ranks=process.ranks,
        replicas=process.replicas,
        per_rank_batch=config.global_batch // process.ranks,
        global_batch=config.global_batch,
        seed=config.seed,
        learning_rate=config.learning_rate,
        stopped_by="patience" if len(losses) < config.epochs else "epochs",
        best_epoch=best + 1,
        **{key: kept[key] for key in ("loss", "accuracy", "test_loss", "test_accuracy")},
        test=test,
        tuned=tuned,
        precision_recall=dict(zip(("thresholds", "precision", "recall"), curve, strict=True)),
    )


if __name__ == "__main__":
    run(main, config)
