"""`course.training.exercise` in PyTorch: the same network, samples and record."""

import torch

from course.training import task

__all__ = ["Network", "Task"]


class Network(torch.nn.Module):
    """An autoencoder: a frozen layer mixes a sample's numbers, `tied` squeezes them to a code, and spreads them again.

    Each process draws weights of its own, as it does where nobody sets a seed.
    """

    def __init__(self):
        super().__init__()
        for name, start in task.initial().items():
            setattr(self, name, torch.nn.Parameter(torch.from_numpy(start), requires_grad=name != "frozen"))

    def forward(self, samples):
        """Return the mean squared difference between mixed numbers and what the code tells of them."""
        mixed = torch.tanh(samples @ self.frozen)
        code = mixed @ self.tied + self.inner
        again = code @ self.tied.T + self.outer
        return torch.mean(torch.square(again - mixed))


class Task(task.Task):
    """Samples to train on, and a record of the training, in PyTorch; a model may be wrapped, too."""

    def step(self, model, loss, samples):
        super().step(model, torch.as_tensor(loss).detach(), samples)

    def _tensor(self, samples):
        return torch.from_numpy(samples)

    def _weights(self, model):
        own = getattr(model, "module", model)  # without DistributedDataParallel
        return {name: weight.detach().cpu().numpy() for name, weight in sorted(own.named_parameters())}
