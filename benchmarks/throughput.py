"""Benchmark of the throughput of train_cifar.py, in pairs: gain of two ranks, gain of the training loop.

    python benchmarks/throughput.py                     # all pairs, about a quarter of an hour on two cores
    python benchmarks/throughput.py --repeats 1 --pairs ranks_equal_threads

Each pair runs as A B A B ..., so that other load slows both equally. A ratio is the median of the pairs' ratios. Both
sides exclude warm-up: the first epoch of train_cifar.py (up to 19 steps), a quarter of the steps of Keras. Each run's
record must match the requested work, and both networks must have equally many parameters. The images are generated,
because their content does not affect the work. Results are printed and written to --output as JSON.

ranks_equal_threads   2 ranks of 1 thread against 1 rank of 1 thread, 512 samples per rank and step:
                      what a second core brings
ranks_equal_cores     2 ranks of 1 thread against 1 rank of 2 threads, 1024 samples per step: the
                      same hardware
loop                  one process: this course's loop, augmentation included, against a plain Keras
                      fit of the same residual network with the usual input pipeline
                      from_tensor_slices(float32).repeat().shuffle(10_000).batch(512)
onednn                one process: the residual network with oneDNN, as ranks have it, against without
bfloat16              as loop, this loop in bfloat16 and the plain Keras fit in float32, where the
                      processor has instructions for bfloat16
"""

import argparse
import math
import sys
from pathlib import Path

from course.training.precision import instructions
from ddl import launch
from turns import compare_images_per_s

SAMPLES = 10_000
PARAMETERS = {"cnn": 242_474, "resnet": 484_426}  # that are trained, with batch norm


def ours(model, ranks, threads, batch, steps, precision="float32", samples=SAMPLES, **variables):
    """Return a function that trains with train_cifar.py on a number of `samples` and returns images/s."""

    def measure():
        work = {"model": model, "global_batch": batch, "precision": precision}
        data = {"data_set": "synthetic", "train_samples": samples, "test_samples": 100}
        how = {"workers": ranks, "threads": threads, "oversubscribe": True, "env": variables}
        result = launch("train_cifar.py", recipe="batch_norm", steps=steps, **work, **data, **how).result
        asked = {"ranks": ranks, "threads_per_rank": threads, "parameters": PARAMETERS[model], "samples": steps * batch}
        check_work(result, {**work, **asked})
        return result["images_per_s"]

    return measure


def check_work(result, asked):
    """Exit if a training did other work than requested."""
    other = {name: result.get(name) for name in asked if result.get(name) != asked[name]}
    if other:
        sys.exit(f"train_cifar.py did different work: {other} instead of {asked}")


def plain_keras(model, threads, batch, steps):
    """Return a function that trains with a plain Keras fit and returns images/s."""

    def measure():
        run = launch(__file__, workers=1, threads=threads, args=["--plain-keras", model, batch, steps])
        return float(run.logs(0).splitlines()[-1])

    return measure


def plain_keras_fit(model, batch, steps):
    """Train like the usual Keras example and print images/s; a quarter of the steps is warm-up."""
    import time

    import tensorflow as tf

    from course.data import load
    from course.training import models

    data = load("synthetic", train_samples=SAMPLES, test_samples=100)
    pictures = data.train_images.astype("float32") / 255
    pipeline = tf.data.Dataset.from_tensor_slices((pictures, data.train_labels))
    pipeline = pipeline.repeat().shuffle(10_000).batch(batch)
    network = models.build(model, norm="batch")
    trained = sum(math.prod(weight.shape) for weight in network.trainable_variables)
    if trained != PARAMETERS[model]:
        sys.exit(f"{model} has {trained:,} parameters, and train_cifar.py is to train {PARAMETERS[model]:,}")
    network.compile(
        tf.keras.optimizers.SGD(0.05, 0.9, nesterov=True),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    ends = []
    clock = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: ends.append(time.perf_counter()))
    network.fit(pipeline, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[clock])
    warm = max(1, steps // 4)
    print((steps - warm) * batch / (ends[-1] - ends[warm - 1]))


def pairs(model, steps):
    """Return every pair's two sides: a name and a function that measures it."""
    keras = plain_keras("resnet", 2, 512, steps)
    return {
        "ranks_equal_threads": {
            "2 ranks x 1 thread": ours(model, 2, 1, 1024, steps),
            "1 rank x 1 thread": ours(model, 1, 1, 512, steps),
        },
        "ranks_equal_cores": {
            "2 ranks x 1 thread": ours(model, 2, 1, 1024, steps),
            "1 rank x 2 threads": ours(model, 1, 2, 1024, steps),
        },
        "loop": {
            "this loop, resnet, 2 threads": ours("resnet", 1, 2, 512, steps),
            "Keras fit, resnet, 2 threads": keras,
        },
        "onednn": {
            "this loop, resnet, 2 threads": ours("resnet", 1, 2, 512, steps),
            "without oneDNN": ours("resnet", 1, 2, 512, steps, TF_ENABLE_ONEDNN_OPTS="0"),
        },
        "bfloat16": {
            "this loop in bfloat16, resnet, 2 threads": ours("resnet", 1, 2, 512, steps, "bfloat16"),
            "Keras fit in float32, resnet, 2 threads": keras,
        },
    }


def main():
    if sys.argv[1:2] == ["--plain-keras"]:
        model, batch, steps = sys.argv[2:]
        plain_keras_fit(model, int(batch), int(steps))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40, help="of each measurement (default: 40)")
    parser.add_argument("--model", default="cnn", choices=("cnn", "resnet"), help="of the pairs of ranks")
    parser.add_argument("--pairs", nargs="+", choices=pairs("cnn", 1), metavar="PAIR")
    parser.add_argument("--output", type=Path, default=Path("build/throughput.json"))
    options = parser.parse_args()

    every = pairs(options.model, options.steps)
    if not instructions():
        print("skipping bfloat16: this processor has no instructions for it")
        del every["bfloat16"]
    compare_images_per_s({name: every[name] for name in options.pairs or every if name in every}, options)


if __name__ == "__main__":
    main()
