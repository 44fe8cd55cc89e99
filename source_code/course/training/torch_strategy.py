"""PyTorch counterpart of `course.training.strategy`: the same network on the same samples.

This does not import TensorFlow. Records and weights have the other strategies' format, with Keras' layout.
"""

from importlib.util import find_spec

import numpy as np
import torch
from torch import nn

from course.data import shard
from course.training import strategy
from course.training.initial import initial_weights
from course.training.strategy import MOMENTUM, TEST_BATCH
from ddl.records.machine import versions

__all__ = ["MOMENTUM", "Experiment", "from_keras", "losses_and_hits", "network", "to_keras"]

FILTERS, NORM_GROUPS = (32, 64, 128, 128), 32  # as in course.training.models
EPSILON = 1e-3  # Keras' group norm; PyTorch's own is 1e-5


class Experiment(strategy.Experiment):
    """`course.training.strategy.Experiment` for PyTorch."""

    def model(self):
        """Return the course's network, with Keras' initial weights on rank 0, which broadcasts them.

        Without TensorFlow, they are PyTorch's, with the same seed.
        """
        torch.manual_seed(self.config.seed)
        # True float32: GPUs would round every factor to TF32's ten bits.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        classes = len(self.data.class_names)
        model = network(classes)
        if self.rank == 0 and find_spec("tensorflow"):
            from_keras(model, initial_weights(self.config.seed, classes))
        elif self.rank == 0:
            print("TensorFlow is not installed: the initial weights are PyTorch's, not Keras'")
        return model

    def dataset(self, rank: int = 0, ranks: int = 1):
        """Yield this rank's part of each batch of the training, in an order determined by the seed.

        Normalized images, float32 ``[batch, 3, 32, 32]``, and labels, int64 ``[batch]``.
        """
        for _, batch in self._order.batches(0, self.steps):
            some = shard(batch, rank, ranks)
            yield _normalized(self.data.train_images[some]), _labels(self.data.train_labels[some])

    def step(self, model, figures):
        """Count a finished update and evaluate at the end of an epoch; `figures` may be on any device."""
        super().step(model, figures.cpu().numpy())

    def finish(self, model, **facts):
        """Write ``result.json`` and ``weights.npz``; on rank 0 only."""
        return super().finish(model, versions={**versions(), "torch": str(torch.__version__)}, **facts)

    def weights_of(self, model):
        return to_keras(model)

    def _evaluation(self):
        data = self.data

        @torch.no_grad()
        def evaluate(model):
            plain, total = getattr(model, "module", model), np.zeros(2)  # without DDP, which would wait for the others
            device = next(plain.parameters()).device
            for first in range(0, data.test_samples, TEST_BATCH):
                part = slice(first, first + TEST_BATCH)
                logits = plain(_normalized(data.test_images[part]).to(device))
                each = losses_and_hits(_labels(data.test_labels[part]).to(device), logits)
                total += [figures.sum().item() for figures in each]
            return (total / data.test_samples).tolist()

        return evaluate


def losses_and_hits(labels, logits):
    """Return each sample's cross-entropy, and 1 if its largest logit is correct, else 0: float32 ``[batch]``.

    `labels` are int64 ``[batch]``, `logits` float32 ``[batch, classes]``.
    """
    losses = nn.functional.cross_entropy(logits, labels, reduction="none")
    return losses, (logits.argmax(1) == labels).float()


def network(classes: int, norm: str = "group") -> nn.Module:
    """Return `course.training.models`' small network: float32 ``[batch, 3, 32, 32]`` to logits.

    The `norm` is "group" or "batch".
    """
    layers, before = [], 3
    for index, filters in enumerate(FILTERS):
        layers.append(nn.Conv2d(before, filters, 3, padding=1, bias=False))
        if index < 3:
            layers.append(nn.MaxPool2d(2))
        layers.append(nn.GroupNorm(NORM_GROUPS, filters, EPSILON) if norm == "group" else nn.BatchNorm2d(filters))
        layers.append(nn.ReLU())
        before = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


# ---------------------------------------------------------------- Keras' layout, and PyTorch's

# Keras' kernels are [height, width, in, out] and [in, out], PyTorch's [out, in, height, width] and [out, in].
TO_TORCH = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}
TO_KERAS = {4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}


@torch.no_grad()
def from_keras(model: nn.Module, weights: list[np.ndarray]):
    """Set a model's weights from Keras' layout, in the order of its layers."""
    for ours, keras in zip(model.parameters(), weights, strict=True):
        ours.copy_(torch.from_numpy(keras.transpose(TO_TORCH[keras.ndim]).copy()))


def to_keras(model: nn.Module) -> list[np.ndarray]:
    """Return a copy of a model's weights in Keras' ``get_weights`` layout, float32."""
    return [each.detach().cpu().numpy().transpose(TO_KERAS[each.ndim]).copy() for each in model.parameters()]


# ---------------------------------------------------------------- normalization


def _normalized(images):
    """Normalize as `course.data.augment.normalize` does, with channels first."""
    return torch.from_numpy((images.astype(np.float32) - 120.0) / 64.0).permute(0, 3, 1, 2).contiguous()


def _labels(labels):
    return torch.from_numpy(labels.astype(np.int64))
