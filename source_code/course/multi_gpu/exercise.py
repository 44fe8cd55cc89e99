"""Helpers of lesson 3's exercise: initial weights that differ between processes, and a report of the result."""

import os
from pathlib import Path

import numpy as np

from ddl.records.folder import RunFolder


def write_data(file, samples: int, seed: int = 0) -> None:
    """Write an npz file with inputs ``x`` [samples, 6] and targets ``y`` [samples, 1], float32."""
    x = np.random.default_rng(seed).normal(size=(samples, 6)).astype(np.float32)
    np.savez(file, x=x, y=np.sin(x.sum(axis=1, keepdims=True)))


def initial_weights(like) -> list[np.ndarray]:
    """Return weights with the shapes of `like`, float32, drawn independently in every process.

    `like` is an iterable of arrays, variables or tensors. While an answer is graded, the grader has drawn the weights.
    """
    shapes = [tuple(weight.shape) for weight in like]
    given = os.environ.get("DDL_INITIAL_WEIGHTS", "")
    if os.path.exists(given):
        with np.load(given) as drawn:
            # PyTorch keeps the transpose of Keras' kernels.
            arrays = [drawn[f"weight{number}"][_rank()] for number in range(len(shapes))]
        return [array if array.shape == shape else array.T for array, shape in zip(arrays, shapes, strict=True)]
    draw = np.random.default_rng()
    return [draw.normal(scale=0.3, size=shape).astype(np.float32) for shape in shapes]


def report(weights, loss, samples) -> None:
    """Report this process's final weights, and the last epoch's mean loss and number of samples."""
    values = weights.values() if hasattr(weights, "values") else weights  # PyTorch's state_dict is a dictionary
    arrays = {f"weight{number}": _array(weight) for number, weight in enumerate(values)}
    here = RunFolder.here()
    file = (here.path if here else Path()) / f"report-{_rank()}.npz"
    np.savez(os.environ.get("DDL_REPORT", file), loss=_array(loss), samples=_array(samples), **arrays)


def reports(run):
    """Return a data frame of the reports of a run, with a row for each rank."""
    import pandas

    rows, first = [], None
    for file in sorted(Path(run.folder).glob("report-*.npz"), key=lambda file: int(file.stem.partition("-")[2])):
        with np.load(file) as arrays:
            weights = np.concatenate([arrays[name].ravel() for name in sorted(set(arrays) - {"loss", "samples"})])
            first = weights if first is None else first
            apart = np.abs(weights - first).max() if weights.shape == first.shape else np.nan
            rows.append((float(arrays["loss"]), float(arrays["samples"]), apart))
    index = pandas.RangeIndex(len(rows), name="rank")
    return pandas.DataFrame(rows, index, ["loss", "samples", "largest difference from rank 0's weights"])


def _array(value):
    value = value.detach().cpu() if hasattr(value, "detach") else value
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _rank():
    return int(os.environ.get("HOROVOD_RANK") or os.environ.get("RANK", "0"))
