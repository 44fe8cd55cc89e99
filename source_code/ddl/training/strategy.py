"""What all ways of distributing one training share: options, data, model, evaluation, records.

The scripts in ``source_code/ways`` train one network on one order of samples, each in its own way.
What a reader has to see of a way is in its file; everything else is here, so that the files differ
in what the ways need and in nothing more.
"""

import math
import os
import sys
from pathlib import Path

import numpy as np

from ddl.data import DataError, Order, load, shard
from ddl.display.table import Table
from ddl.records.folder import RunFolder
from ddl.records.machine import threads_per_rank
from ddl.training import options
from ddl.training.journal import Journal
from ddl.training.recipes import REFERENCE_BATCH

__all__ = [
    "KEPT",
    "MOMENTUM",
    "Way",
    "agreement",
    "devices_for",
    "differences",
    "kept_weights",
    "losses_and_hits",
    "mean_so_far",
]

MOMENTUM = 0.9
KEPT = tuple(4**power for power in range(6))  # weights after so many updates are kept, and the last
TEST_BATCH = 500


class Way:
    """One training: its options, its data and model, its clock and its records.

    Making one touches neither TensorFlow's devices nor its threads, which a strategy may still
    have to set.

    Parameters
    ----------
    description : str
        The script's docstring, for ``--help``.
    rank, ranks : int
        This process among those that compute. Rank 0 evaluates and writes.
    replicas : int, optional
        How many replicas each process has unless ``--replicas`` says otherwise; None for a way
        that has no such option, and one replica.
    splits : bool
        Whether the processes share every batch; False where each takes whole ones.
    arguments : sequence of str, optional
        Command line; by default this process's own.

    Attributes
    ----------
    global_batch : int
        Samples that one update of the weights averages over.
    steps, steps_per_epoch, epochs : int
        Updates in all, in a whole epoch, and epochs, the last of which may be cut short.

    Raises
    ------
    SystemExit
        With a message, where the options do not go with each other or with the data.
    """

    def __init__(self, description, *, rank=0, ranks=1, replicas=None, splits=True, arguments=None):
        self.config = config = options.way(description, replicas, arguments)
        self._arguments = list(sys.argv[1:] if arguments is None else arguments)
        self.rank, self.ranks = rank, ranks
        self.replicas = ranks * getattr(config, "replicas", 1)
        self.global_batch = config.global_batch
        self._per_rank_batch = config.global_batch // (ranks if splits else 1)
        try:
            self.data = load(config.data_set, train_samples=config.train_samples, test_samples=config.test_samples)
            self._order = Order(self.data.train_samples, config.global_batch, config.seed)
            if splits:
                shard(np.empty(config.global_batch), 0, self.replicas)  # refuses uneven parts
        except DataError as error:
            sys.exit(f"{_script()}: {error}")
        self.steps_per_epoch = self._order.steps
        self.steps = config.steps or max(1, round(config.epochs * self.steps_per_epoch))
        self.epochs = math.ceil(self.steps / self.steps_per_epoch)
        self._journal = Journal(rank == 0, self.steps, self.steps_per_epoch, config.global_batch)
        self._devices, self._done, self._since, self._totals = None, 0, 0, 0.0
        self._weights = {}
        if self.data.note:
            self._journal.note(self.data.note)

    def rate(self, batch):
        """Return the learning rate for updates that average over so many samples.

        The linear rule of Goyal et al. 2017, section 2.1: ``--learning-rate`` is that of
        `ddl.training.recipes.REFERENCE_BATCH` samples.
        """
        return self.config.learning_rate * batch / REFERENCE_BATCH

    def devices(self):
        """Return the names of this process's replicas' devices; see `devices_for`."""
        self._devices, note = devices_for(self.config.replicas)
        if note:
            self._journal.note(note)
        return self._devices

    def model(self):
        """Return the course's network with group norm, the same for the same seed.

        With batch norm a batch split among replicas would not give what the whole batch gives;
        without any norm the network takes too long to learn.
        """
        import tensorflow as tf

        from ddl.training import models

        # float32 in earnest: GPUs would round every factor to TF32's ten bits.
        tf.config.experimental.enable_tensor_float_32_execution(False)
        return models.build("cnn", norm="group", seed=self.config.seed, classes=len(self.data.class_names))

    def dataset(self, rank=0, ranks=1):
        """Return the whole training's batches, in an order that only the seed decides.

        Parameters
        ----------
        rank, ranks : int
            Which part of every global batch, and of how many; by default all of it.

        Returns
        -------
        tf.data.Dataset
            Of `steps` elements: normalised pictures, float32 ``[batch, 32, 32, 3]``, and labels,
            int32 ``[batch]``.
        """
        import tensorflow as tf

        from ddl.data.augment import normalise

        numbers = np.concatenate([self._order.epoch(epoch) for epoch in range(self.epochs)])
        numbers = shard(numbers[: self.steps], rank, ranks)
        with tf.device("CPU:0"):  # pictures wait in the host's memory, not in a GPU's
            images = tf.constant(self.data.train_images)
            labels = tf.constant(self.data.train_labels)
        batches = tf.data.Dataset.from_tensor_slices(numbers.ravel())
        batches = batches.batch(numbers.shape[1], drop_remainder=True).map(
            lambda some: (normalise(tf.gather(images, some)), tf.gather(labels, some))
        )
        # A strategy of several processes splits every batch; it cannot split files, of which
        # there are none.
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        return batches.prefetch(2).with_options(options)

    # ------------------------------------------------------------ while it trains

    def callback(self, model):
        """Return the Keras callback that keeps the records of a ``Model.fit``."""
        import tensorflow as tf

        self._evaluate = self._evaluation()

        def batch_end(batch, logs):
            total = mean_so_far(logs, model) * (batch + 1)
            self._count(model, total - self._totals)
            self._totals = total
            model.stop_training = self._done == self.steps

        def epoch_end(_, logs):
            self._totals = 0.0
            self._write(model, logs["loss"], logs["accuracy"])

        return tf.keras.callbacks.LambdaCallback(
            on_train_begin=lambda _: self._start(), on_batch_end=batch_end, on_epoch_end=epoch_end
        )

    def start(self):
        """Start the clock of a custom loop."""
        self._evaluate = self._evaluation()
        self._start()

    def step(self, model, figures):
        """Count a finished update of a custom loop, and evaluate where an epoch ends.

        Parameters
        ----------
        model : tf.keras.Model
        figures : tf.Tensor
            float32 ``[2]``: loss and accuracy over the global batch.
        """
        self._totals, self._since = self._totals + figures, self._since + 1
        self._count(model, figures[0])
        if self.epoch_ends(self._done):
            self._write(model, *np.asarray(self._totals / self._since).tolist())
            self._totals, self._since = 0.0, 0

    def epoch_ends(self, done):
        """Say whether rank 0 evaluates after so many updates."""
        return done % self.steps_per_epoch == 0 or done == self.steps

    def _start(self):
        facts = self.data.describe()
        self._journal.print(
            f"data: {facts['name']} ({facts['form']}), {facts['train_samples']} training and "
            f"{facts['test_samples']} test pictures\n"
            f"batch: {self.replicas} replicas in {self.ranks} processes, {self.global_batch} "
            f"samples an update, learning rate {self.rate(self.global_batch):g}"
        )
        self._journal.start(world=self.ranks, per_rank_batch=self._per_rank_batch, data=facts)

    def _count(self, model, loss):
        self._done += 1
        self._journal.step(self._done, loss, self.rate(self.global_batch))
        if self.rank == 0 and (self._done in KEPT or self._done == self.steps):
            with self._journal.paused():
                self._weights[self._done] = model.get_weights()

    def _write(self, model, loss, accuracy):
        if self.rank == 0:
            with self._journal.paused():
                test_loss, test_accuracy = self._evaluate(model)
            self._journal.evaluation(
                self._done,
                loss=loss,
                accuracy=accuracy,
                test_loss=test_loss,
                test_accuracy=test_accuracy,
                learning_rate=self.rate(self.global_batch),
            )

    def _evaluation(self):
        """Return a function of a model that gives held-out loss and accuracy.

        It evaluates a copy on this process's first device: a model's own variables may lie on
        several devices, or in other processes. Call this outside of any strategy's scope.
        """
        import tensorflow as tf

        from ddl.data.augment import normalise

        copy, data = self.model(), self.data

        @tf.function
        def sums(images, labels):
            each = losses_and_hits(labels, copy(normalise(images), training=False))
            return tf.reduce_sum(each, axis=1)

        def evaluate(model):
            copy.set_weights(model.get_weights())
            parts = [slice(first, first + TEST_BATCH) for first in range(0, data.test_samples, TEST_BATCH)]
            total = sum(sums(data.test_images[part], data.test_labels[part]) for part in parts)
            return (total / data.test_samples).numpy().tolist()

        return evaluate

    # ------------------------------------------------------------ at its end

    def finish(self, model, **facts):
        """Write ``result.json`` and ``weights.npz``, on rank 0 only.

        Parameters
        ----------
        model : tf.keras.Model
        **facts
            What this way has to say besides.
        """
        if self.rank:
            return None
        if folder := self._journal.recorder.folder:
            np.savez(
                folder.weights,
                **{
                    f"{step}.{index}": weight
                    for step, weights in self._weights.items()
                    for index, weight in enumerate(weights)
                },
            )
        return self._journal.result(
            script=_script(),
            argv=self._arguments,
            config=vars(self.config),
            way=Path(_script()).stem,
            model="cnn, group norm",
            parameters=model.count_params(),
            data=self.data.describe(),
            ranks=self.ranks,
            threads_per_rank=threads_per_rank(),
            replicas=self.replicas,
            devices=self._devices,
            per_rank_batch=self._per_rank_batch,
            global_batch=self.global_batch,
            seed=self.config.seed,
            learning_rate=self.rate(self.global_batch),
            **facts,
        )


def _script():
    return os.path.basename(sys.argv[0])


# ---------------------------------------------------------------- devices and figures


def devices_for(replicas):
    """Choose the devices of so many replicas: GPUs, or where there are fewer, logical ones.

    Logical devices of one processor share its cores: the same computations and messages as on as
    many GPUs, and no speed-up. Call this before anything has run on a device.

    Parameters
    ----------
    replicas : int

    Returns
    -------
    devices : list of str
        For example ``["GPU:0", "GPU:1"]``.
    note : str or None
        What a reader of the record must know about them.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) >= replicas:
        return [f"GPU:{index}" for index in range(replicas)], None
    tf.config.set_visible_devices([], "GPU")
    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return [f"CPU:{index}" for index in range(replicas)], (
        f"{replicas} replicas are logical devices of one processor and share its cores, because "
        f"this machine shows {len(gpus)} GPUs: they compute what {replicas} GPUs would, and no "
        "faster than one device."
    )


def mean_so_far(logs, model):
    """Return the mean loss since the epoch began, from what Keras tells at the end of a batch.

    Where several processes train, Keras 2.15 adds up over them, for this alone, what each of them
    has as the mean over all of them already.
    """
    import tensorflow as tf

    strategy = model.distribute_strategy
    several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return logs["loss"] / (strategy.num_replicas_in_sync if several else 1)


def losses_and_hits(labels, logits):
    """Return the cross-entropy of each sample, and 1 where the largest logit is right.

    Parameters
    ----------
    labels : tf.Tensor
        int32 ``[batch]``.
    logits : tf.Tensor
        float32 ``[batch, classes]``.

    Returns
    -------
    list of tf.Tensor
        Two of float32 ``[batch]``.
    """
    import tensorflow as tf

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    right = tf.argmax(logits, 1, tf.int32) == tf.cast(labels, tf.int32)
    return [losses, tf.cast(right, tf.float32)]


# ---------------------------------------------------------------- comparing the ways


def agreement(runs, step=None):
    """Compare the weights of several ways after the same number of updates.

    Ways that compute the same differ by rounding: by about 1e-7 of the largest weight after one
    update. Each later update makes more of it (`ddl.plot.strategies.plot_agreement`), so whether a
    way is right shows after a few, and no longer after hundreds.

    Parameters
    ----------
    runs : iterable of Run
        Finished runs of the scripts in ``ways``; the first is what the others are compared with.
    step : int, optional
        After how many updates: one of `KEPT`, or the last. By default the last.

    Returns
    -------
    Table
        A row a run: the largest difference of any weight from the first run's, the same divided by
        the largest absolute weight of the first run; held-out accuracy at the end (%), images/s,
        and how many processes and threads computed.

    Raises
    ------
    ValueError
        If there are no runs, one has left no weights of that step, or the runs trained different
        networks.
    """
    runs = list(runs)
    if not runs:
        raise ValueError("there are no runs to compare")
    rows = []
    apart = differences(runs, [kept_weights(run) for run in runs], step)
    for run, (updates, absolute, relative) in zip(runs, apart, strict=True):
        result = run.result
        rows.append(
            {
                "way": run.name,
                "processes × threads": f"{result['ranks']} × {result['threads_per_rank']}",
                "replicas": result["replicas"],
                "updates": updates,
                "largest difference of a weight": absolute,
                "÷ the largest weight": relative,
                "held-out accuracy, %": 100 * result["test_accuracy"],
                "images/s": result["images_per_s"],
            }
        )
    forms = ("s", "s", "d", "d", ".1e", ".1e", ".1f", ",.0f")
    when = "at the end" if step is None else f"after {step} updates"
    return Table.of(
        rows,
        {name: (name, form) for name, form in zip(rows[0], forms, strict=True)},
        f"Weights {when}, against those of “{runs[0].name}”. Accuracy and images/s are of the whole run.",
    )


def differences(runs, kept, step=None):
    """Return how far the weights of each run are from the first run's.

    Parameters
    ----------
    runs : list of Run
    kept : list of dict
        The `kept_weights` of each.
    step : int, optional
        As for `agreement`.

    Returns
    -------
    list of (int, float, float)
        For each run after how many updates, the largest difference of any weight, and the same
        divided by the largest absolute weight of the first run.

    Raises
    ------
    ValueError
        If a run has no weights of that step, or trained another network than the first.
    """
    apart = []
    for run, weights in zip(runs, kept, strict=True):
        at = max(weights) if step is None else step
        if at not in weights or at not in kept[0]:
            there = ", ".join(map(str, sorted(set(weights) & set(kept[0])))) or "none"
            raise ValueError(
                f"run {run.id} ({run.name}) and run {runs[0].id} ({runs[0].name}) did "
                f"not both keep their weights after {at} updates; both kept: {there}"
            )
        ours, first = weights[at], kept[0][at]
        if [weight.shape for weight in ours] != [weight.shape for weight in first]:
            raise ValueError(
                f"run {run.id} ({run.name}) trained another network than run "
                f"{runs[0].id} ({runs[0].name}): their weights can't be compared"
            )
        gap = max(float(np.abs(a - b).max()) for a, b in zip(ours, first, strict=True))
        apart.append((at, gap, gap / max(float(np.abs(each).max()) for each in first)))
    return apart


def kept_weights(run):
    """Return the weights that a run of a script in ``ways`` kept.

    Returns
    -------
    dict of int to list of numpy.ndarray
        Updates done to the model's weights, float32.

    Raises
    ------
    ValueError
        If it kept none.
    """
    path = RunFolder(run.folder).weights
    if run.result is None or not path.exists():
        raise ValueError(
            f"run {run.id} ({run.name}, {run.state}) has left no weights: only a finished run of a script in strategies/ has"
        )
    kept = {}
    with np.load(path) as file:
        for name in file.files:  # in the order in which they were saved
            kept.setdefault(int(name.split(".")[0]), []).append(file[name])
    return kept
