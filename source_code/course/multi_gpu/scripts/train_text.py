"""Classify insincere questions with Keras' Model.fit, on one device, on replicas, or on ranks.

    ddl run --workers 1 train_text.py --strategy single
    ddl run --workers 1 train_text.py --strategy mirrored --replicas 2
    ddl run --workers 2 train_text.py --strategy horovod --embedding FOLDER_OR_ADDRESS

A sentence embedding and three dense layers, trained until the validation loss stops falling. All
strategies see the same batches and keep the same records; under `ddl run` the run's folder has
TensorBoard's logs as well.
"""

from pathlib import Path

from course.training.options import OWN, SEED, Integer, Number, parser, run, split_evenly

STRATEGIES = ("single", "mirrored", "horovod")


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--strategy", default="single", choices=STRATEGIES)
    add("--replicas", type=Integer(), default=2, help="of the mirrored one: GPUs, or logical devices")
    # Data
    add("--data-set", default="auto", choices=("auto", "quora", "questions"))
    add("--samples", type=Integer(), metavar="N", help="use a split (default: all; 20,000 generated questions)")
    # Network
    which = f"{OWN!r}, the folder of a SavedModel, or a TensorFlow Hub address"
    add("--embedding", default=OWN, metavar="WHICH", help=which)
    add("--trainable", action="store_true", help="train a pretrained embedding further")
    # Training
    add("--epochs", type=Integer(), default=20, help="at most")
    patience = "stop after N epochs without a lower validation loss, with the best weights; 0: never (default: 2)"
    add("--patience", type=Integer(0), default=2, metavar="EPOCHS", help=patience)
    add("--global-batch", type=Integer(), default=128, help="samples in a step of all replicas together")
    add("--learning-rate", type=Number(above=0), default=1e-3, metavar="RATE", help="of Adam")
    add("--seed", type=SEED, default=0, help="of initial weights and order")
    config = ours.parse_args(arguments)
    named = config.embedding == OWN or "://" in config.embedding
    if not named and not (config.embedding and Path(config.embedding).expanduser().is_dir()):
        ours.error(
            f"--embedding {config.embedding!r} is neither {OWN!r}, nor a folder, nor an "
            "address that begins with https://"
        )
    if config.strategy == "mirrored":
        split_evenly(ours, config)
    return config


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to refuse wrong options at once

import numpy as np
import tensorflow as tf

from course.data import Order, load_questions, shard, tensors
from course.multi_gpu import embedding
from course.multi_gpu.binary_metrics import figures, loss_and_accuracy
from course.training.strategy import devices_for
from course.training.training_log import TrainingLog

EVALUATION_BATCH = 1000


def main(config):
    """Train, and return what goes into result.json."""
    rank, ranks, strategy, note = 0, 1, tf.distribute.get_strategy(), None
    if config.strategy == "horovod":
        import horovod.tensorflow.keras as hvd

        from course.training.gpu import pin_gpu

        hvd.init()
        pin_gpu()
        rank, ranks = hvd.rank(), hvd.size()
    elif config.strategy == "mirrored":
        devices, note = devices_for(config.replicas)
        strategy = tf.distribute.MirroredStrategy(devices)

    splits = load_questions(config.data_set, samples=config.samples).splits()
    order = Order(len(splits.train), config.global_batch, config.seed)
    log = TrainingLog(rank == 0, config.epochs * order.steps, order.steps, config.global_batch)
    for each in filter(None, [splits.train.note, note]):
        log.note(each)

    with strategy.scope():  # what has variables is made here: each replica gets them
        model = build(config)
        optimizer = tf.keras.optimizers.Adam(config.learning_rate)
        records = Records(config, ranks, splits, log)
        callbacks = [records]
        if config.strategy == "horovod":
            # Not scaled: the rate is for the global batch, which does not depend on the number of ranks.
            optimizer = hvd.DistributedOptimizer(optimizer)
            hvd.callbacks.K = tf.keras.backend  # in later versions of TensorFlow, this would be Keras 3
            # A rank's training loss covers only its own split.
            callbacks = [
                hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=0),
                hvd.callbacks.MetricAverageCallback(),
                records,
            ]
        accuracy = tf.keras.metrics.BinaryAccuracy("accuracy")
        model.compile(optimizer, tf.keras.losses.BinaryCrossentropy(), metrics=[accuracy])
    if config.patience:
        callbacks.append(
            tf.keras.callbacks.EarlyStopping("val_loss", patience=config.patience, restore_best_weights=True)
        )
    if rank == 0 and log.recorder.folder:
        callbacks.append(tf.keras.callbacks.TensorBoard(log.recorder.folder.tensorboard, write_graph=False))
    batches = dataset(config, splits.train, order, rank, ranks)
    model.fit(batches, epochs=config.epochs, steps_per_epoch=order.steps, callbacks=callbacks, verbose=0)
    return finish(config, model, records) if rank == 0 else None


def dataset(config, questions, order, rank, ranks):
    """Return this rank's split of every batch of the training, in an order determined by the seed."""
    texts, targets = tf.constant(questions.texts), questions.targets.astype(np.float32)[:, None]
    numbers = shard(np.concatenate([order.epoch(epoch) for epoch in range(config.epochs)]), rank, ranks)
    return tensors.batches(numbers, lambda some: (tf.gather(texts, some), tf.gather(targets, some)))


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


def scores(model, split):
    """Return the model's probabilities, float32 ``[n]``."""
    return model.predict(tf.constant(split.texts), batch_size=EVALUATION_BATCH, verbose=0)[:, 0]


class Records(tf.keras.callbacks.Callback):
    """Callback that keeps time and validates on every rank, and records steps and epochs on rank 0.

    Every rank validates on all questions, so that all stop after the same epoch. The clock stops meanwhile.
    """

    def __init__(self, config, ranks, splits, log):
        super().__init__()
        self.config, self.ranks, self.splits, self.log = config, ranks, splits, log
        self.done, self.total = 0, 0.0

    def on_train_begin(self, logs=None):
        batch = self.config.global_batch // self.ranks
        self.log.start(world=self.ranks, per_rank_batch=batch, data=self.splits.describe())

    def on_train_batch_end(self, batch, logs=None):
        self.done += 1
        total = logs["loss"] * (batch + 1)
        self.log.step(self.done, total - self.total * (batch > 0), self.config.learning_rate)
        self.total = total

    def on_epoch_end(self, epoch, logs=None):
        with self.log.paused():
            logs["val_loss"], logs["val_accuracy"] = self.evaluate(self.splits.validation)
            if not self.log.recorder:
                return
            test_loss, test_accuracy = self.evaluate(self.splits.test)
        self.log.evaluation(
            self.done,
            loss=logs["loss"],
            accuracy=logs["accuracy"],
            validation_loss=logs["val_loss"],
            validation_accuracy=logs["val_accuracy"],
            test_loss=test_loss,
            test_accuracy=test_accuracy,
            learning_rate=self.config.learning_rate,
        )

    def evaluate(self, split):
        return loss_and_accuracy(split.targets, scores(self.model, split))


def finish(config, model, records):
    """Evaluate the final model on the test split, and write the result."""
    log, splits, ranks = records.log, records.splits, records.ranks
    test = figures(splits.test.targets, scores(model, splits.test))
    stopped = len(log.history) < config.epochs
    kept = log.history[-1 - config.patience] if stopped else log.history[-1]
    if stopped:
        log.note(f"stopped early, with the weights of epoch {kept['epoch']:.0f}")
    log.print(f"test split: accuracy {test['accuracy']:.1%} (majority {test['majority']:.1%}), F1 {test['f1']:.3f}")
    if log.recorder.folder:
        np.savez(log.recorder.folder.weights, *[weight.numpy() for weight in model.trainable_weights])
    return log.result(
        config=vars(config),
        strategy=config.strategy,
        embedding=config.embedding,
        parameters=sum(int(np.prod(weight.shape)) for weight in model.trainable_weights),
        data=splits.describe(),
        ranks=ranks,
        replicas=config.replicas if config.strategy == "mirrored" else ranks,
        per_rank_batch=config.global_batch // ranks,
        global_batch=config.global_batch,
        seed=config.seed,
        learning_rate=config.learning_rate,
        stopped_by="patience" if stopped else "epochs",
        **{key: kept[key] for key in ("loss", "accuracy", "test_loss", "test_accuracy")},
        test=test,
    )


if __name__ == "__main__":
    run(main, config)
