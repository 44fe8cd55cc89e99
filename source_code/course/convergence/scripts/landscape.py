"""Measure the loss landscape around the saved weights of a run of train_cifar.py.

    ddl run --workers 1 train_cifar.py --recipe warmup --keep-weights
    ddl run --workers 2 landscape.py --weights 20260131-094512-c0de     # that run's id, or its folder
    ddl run --workers 1 landscape.py --weights RUN --measure eigenvalue noise

    eigenvalue  the Hessian's largest eigenvalues: sharpness
    invariant   the same by relative change of each filter, independent of the weights' scale
    noise       the gradient noise scale, from the gradients of all ghost batches of the training images
    rescaling   the same function with rescaled weights, and its sharpness (only on request)

All measurements use float32 and training images, with batch norm as in training. The noise uses ghost batches,
augmented like the run's. The others use the mean loss of fixed, unaugmented images, with batch norm over --chunk images
at a time. The ranks divide the chunks and all-reduce sums of Hessian-vector products and gradients, so the result does
not depend on the number of ranks, up to rounding.
"""

from course.training.options import Integer, Number, parser, run

MEASURES = ("eigenvalue", "invariant", "noise", "rescaling")


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--weights", required=True, metavar="FOLDER_OR_RUN", help="of a run with --keep-weights")
    add("--measure", nargs="+", choices=MEASURES, default=list(MEASURES[:-1]), help="default: all but rescaling")
    add("--samples", type=Integer(), default=2048, help="fixed training images, the first ones (default: 2048)")
    add("--chunk", type=Integer(2), default=1024, help="images per batch-norm chunk (default: 1024)")
    add("--eigenvalues", type=Integer(), default=1, metavar="K", help="the largest (default: 1)")
    add("--iterations", type=Integer(2), default=16, help="products before Lanczos' method restarts (default: 16)")
    tolerance = "relative accuracy of the eigenvalues (default: 0.01)"
    add("--tolerance", type=Number(0, 1), default=0.01, metavar="SHARE", help=tolerance)
    add("--noise-samples", type=Integer(), metavar="N", help="random training images for the noise (default: all)")
    add("--ghost-batch", type=Integer(), metavar="B", help="of one gradient (default: the run's own)")
    add("--alphas", type=Number(above=0), nargs="+", default=[0.2, 5.0], help="of the rescaling (default: 0.2 5)")
    config = ours.parse_args(arguments)
    config.chunk = min(config.chunk, config.samples)
    if config.samples % config.chunk:
        ours.error(f"--samples {config.samples} is not a multiple of --chunk {config.chunk}")
    if config.eigenvalues >= config.iterations:
        ours.error(f"--eigenvalues {config.eigenvalues} needs more --iterations than that, got {config.iterations}")
    return config


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import time
import zipfile

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.convergence.landscape import GRADIENT, PRODUCT, Landscape, rescaling
from course.convergence.matrices import largest
from course.data import load
from course.data.augment import augment, normalize
from course.training import models
from course.training.checkpoint import find, from_rank_0
from course.training.gpu import pin_gpu
from course.training.horovod_utils import cycle_time, suitable_cycle_ms
from course.training.precision import set_precision
from course.training.recipes import RECIPES, SettingError
from course.training.training_log import EVENT_EVERY_S, Writer
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json

# Fields copied from the run that saved the weights.
OF_RUN = (
    *("id", "name", "recipe", "model", "seed", "precision"),
    *("global_batch", "ghost_batch", "learning_rate", "epochs", "steps"),
)
LOSSES = ("clean_loss", "clean_accuracy", "test_loss", "test_accuracy")
DRAW_SEED = 0  # for random vectors and the noise's order of images, the same for every network


def main(config):
    """Run the requested measurements and return the contents of result.json."""
    set_precision("float32")  # not TF32
    with cycle_time(suitable_cycle_ms(config.samples)):
        hvd.init()
    pin_gpu()

    run, arrays = from_rank_0(lambda: read(config.weights))
    data = load(
        run["data"]["name"],
        train_samples=run["data"]["train_samples"],
        test_samples=1,
        held_out=run["data"].get("held_out", "test"),
    )
    model = models.build(run["model"], norm=RECIPES[run["recipe"]].norm, classes=len(data.class_names))
    give(model, arrays, config.weights)

    measuring = Measuring(config, run, model, data)
    found, seconds = {}, {}
    for name in (name for name in MEASURES if name in config.measure):
        start = time.perf_counter()
        found[name] = getattr(measuring, name)()
        seconds[name] = time.perf_counter() - start
        measuring.progress.print(f"{name} ({seconds[name]:.1f} s): {in_words(name, found[name])}")

    return measuring.progress.result(
        config=vars(config),
        run={name: run.get(name) for name in OF_RUN},
        **{name: run.get(name) for name in ("recipe", "model", "seed", "global_batch", *LOSSES)},
        held_out=data.held_out,
        data=run["data"],
        ranks=hvd.size(),
        parameters=measuring.size,
        samples=config.samples,
        chunk=config.chunk,
        loss=measuring.loss,  # of the fixed pictures, with batch norm as in training
        weight_norm=measuring.weight_norm,
        **found,
        seconds=seconds,
    )


def read(source):
    """Return the result and the weights of a run."""
    path = find(source, "weights.npz", "weights of a run with --keep-weights")
    run = read_json(RunFolder(path.parent).result)
    if not run or not {"data", "model", "recipe"} <= set(run):
        raise SettingError(f"{path.parent} has no result.json of train_cifar.py, which describes the weights")
    try:
        with np.load(path) as file:
            return run, [file[name] for name in file.files]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SettingError(f"{path} is damaged or contains no weights ({error})") from error


def give(model, arrays, source):
    """Load a run's weights into the model."""
    shapes, expected = [array.shape for array in arrays], [tuple(each.shape) for each in model.weights]
    if shapes != expected:
        raise SettingError(
            f"the weights of {source} are not those of a {model.name!r} with the norm of its recipe: "
            f"{len(shapes)} arrays of {sum(array.size for array in arrays):,} numbers instead of {len(expected)} of "
            f"{sum(map(np.prod, expected)):,} are right"
        )
    model.set_weights(arrays)


class Chunks:
    """Lazy batches of training images, all of one size."""

    def __init__(self, data, numbers, size, augmented=False):
        self.data, self.numbers, self.size, self.augmented = data, numbers, size, augmented

    def __len__(self):
        return len(self.numbers) // self.size

    def __getitem__(self, index):
        chosen = self.numbers[index * self.size : (index + 1) * self.size]
        pictures = self.data.train_images[chosen]
        if self.augmented:
            pictures = augment(pictures, (DRAW_SEED, index), 0, self.size)
        return normalize(pictures), self.data.train_labels[chosen]


class Measuring:
    """The measurements, each in the method of its name."""

    def __init__(self, config, run, model, data):
        if config.samples > data.train_samples:
            raise SettingError(f"--samples {config.samples}: the run trained on {data.train_samples} images")
        self.config, self.model = config, model
        # Horovod: every rank has its own part of the chunks, and sums go over all ranks.
        rank, ranks = hvd.rank(), hvd.size()
        noise_samples = config.noise_samples or data.train_samples
        ghost_batch = config.ghost_batch or run.get("ghost_batch") or 32
        if noise_samples > data.train_samples:
            raise SettingError(f"--noise-samples {noise_samples}: the run trained on {data.train_samples} images")
        self.augmented = not run.get("config", {}).get("no_augment", True)
        order = np.random.default_rng(DRAW_SEED).permutation(data.train_samples)[:noise_samples]
        self.progress = Progress(config, rank, ranks, noise_samples // ghost_batch * ghost_batch, run["data"])
        shared = rank, ranks, total, self.progress.worked
        self.landscape = Landscape(model, Chunks(data, np.arange(config.samples), config.chunk), *shared)
        self.ghosts = Landscape(model, Chunks(data, order, ghost_batch, self.augmented), *shared)
        self.population = data.train_samples
        self.weights = self.landscape.weights
        self.size, self.weight_norm = self.weights.size, float(np.linalg.norm(self.weights))
        self.loss = self.landscape.loss()
        if not np.isfinite(self.loss):
            raise SettingError(f"the loss at the weights of {config.weights} is not a finite number: the run diverged")

    def largest(self, apply):
        config = self.config
        return largest(apply, self.size, config.iterations, config.eigenvalues, config.tolerance, DRAW_SEED)

    def eigenvalue(self):
        return self.largest(self.landscape.hessian).figures()

    def invariant(self):
        return self.largest(self.landscape.adaptive).figures()

    def noise(self):
        return {**self.ghosts.noise(self.population), "augmented": self.augmented}

    def rescaling(self):
        """Return the loss and both kinds of sharpness at each factor."""
        rows = []
        for alpha in self.config.alphas:
            self.landscape.move(rescaling(self.model, alpha) * self.weights)
            rows.append(
                {
                    "alpha": alpha,
                    "loss": self.landscape.loss(),
                    "eigenvalue": self.largest(self.landscape.hessian).figures(),
                    "invariant": self.largest(self.landscape.adaptive).figures(),
                }
            )
            self.landscape.move(self.weights)
        return rows


def total(array):
    """Return the sum over ranks, the same on all of them."""
    # Horovod: all-reduce, here for gradients and Hessian-vector products.
    return hvd.allreduce(tf.constant(array), op=hvd.Sum, name=f"total.{np.size(array)}").numpy()


class Progress(Writer):
    """Progress in forward passes over all fixed images, printed and recorded by rank 0."""

    def __init__(self, config, rank, ranks, noise_samples, data):
        super().__init__(rank == 0)
        self.passes, self.step, self.wrote = 0.0, 0, time.perf_counter()
        self.share = ranks / config.samples  # of a picture on this rank in one of the steps
        products = {
            "eigenvalue": config.iterations,
            "invariant": config.iterations,
            "rescaling": 2 * config.iterations * len(config.alphas),
        }
        steps = 1 + PRODUCT * sum(products.get(name, 0) for name in config.measure)
        steps += GRADIENT * noise_samples / config.samples * ("noise" in config.measure)
        self.steps = max(1, round(steps))
        self.event("start", step=0, steps=self.steps, world=ranks, data=data)

    def worked(self, passes):
        """Count this rank's work, and record an event at intervals."""
        self.passes += passes * self.share
        step, now = min(int(self.passes), self.steps), time.perf_counter()  # this rank's part may be the larger one
        if self.recorder and step > self.step and (not self.step or now - self.wrote >= EVENT_EVERY_S):
            self.step, self.wrote = step, now
            self.event("step", step=step)


def in_words(name, found):
    """Return a one-line summary of a measurement."""
    if name in ("eigenvalue", "invariant"):
        values = ", ".join(f"{value:.4g}" for value in found["eigenvalues"])
        return f"largest {values} after {found['iterations']} products (residual {found['residuals'][0]:.2g})"
    if name == "noise":
        scale = found["noise_scale"]
        measured = (
            "no scale: |G|² is not positive" if scale is None else f"{scale:.4g} ± {found['noise_scale_error']:.2g}"
        )
        return f"{measured}, from {found['ghost_batches']} gradients of {found['ghost_batch']} images"
    return "; ".join(
        f"alpha {row['alpha']:g}: loss {row['loss']:.4g}, eigenvalue {row['eigenvalue']['eigenvalues'][0]:.4g}, "
        f"invariant {row['invariant']['eigenvalues'][0]:.4g}"
        for row in found
    )


if __name__ == "__main__":
    run(main, config)
