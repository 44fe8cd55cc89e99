# Answers to the questions of lesson 1, right and wrong: see tests/grading/test_variants.py.

# %% q04_loss_mse right: with NumPy
import numpy as np


def loss_mse(m, dataset):
    x, y = np.array(dataset, dtype=float).reshape(-1, 2).T
    if len(x) == 0:
        raise ValueError("no points")
    return np.mean((y - m * x) ** 2)

# %% q04_loss_mse wrong: the sum, not the mean
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in dataset)

# %% q04_loss_mse wrong: does not end
def loss_mse(m, dataset):
    while True:
        pass

# %% q04_loss_mse equivalent: the square of the opposite number is the same
# - return sum(((y - m * x) ** 2 for x, y in dataset)) / len(dataset)
# + return sum(((m * x - y) ** 2 for x, y in dataset)) / len(dataset)

# %% q14_ring equivalent: chunks numbered the other way round travel the same ring
# - return (rank - step) % ranks
# + return (step - rank) % ranks
