# Right and wrong answers to the questions of lesson 1b: tests/grading/test_variants.py reads them.

# %% q03_table right
# with numbers of other types: `[2, 4, 6, 8]` -> `(2.0, 4.0, 6.0, 8.0)`, `7.5` -> `30 / 4`

# %% q03_table wrong
# parts without the division: `[0.25, 1, 2.25, 4]` -> `[1, 4, 9, 16]`, `7.5` -> `30`
# the root of the mean square: `7.5` -> `7.5**0.5`
# errors for predictions: `[2, 4, 6, 8]` -> `[-1, -2, -3, -4]`

# %% q04_loss_mse right
# with NumPy: `sum((y - w * x) ** 2 for x, y in dataset) / len(dataset)` ->
#     `np.mean([(y - w * x) ** 2 for x, y in dataset])`

# %% q04_loss_mse wrong
# the square of the mean error: `sum((y - w * x) ** 2` -> `sum((y - w * x)`, `/ len(dataset)` ->
#     `** 2 / len(dataset) ** 2`
# always four points: `/ len(dataset)` -> `/ 4`

# %% q05_train_loop right: itertools.cycle
from itertools import cycle, islice


def train_loop(w, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for point in islice(cycle(dataset), iterations):
        w -= lr * grad_point(w, point, 1)
    return w


# %% q05_train_loop wrong
# an iteration is a pass: `range(iterations)` -> `range(iterations * len(dataset))`
# stays at the last point: `iteration % len(dataset)` -> `min(iteration, len(dataset) - 1)`
# no points leave the weight: `raise ValueError("there are no points to train on")` -> `return w`

# %% q10_table right
# sums of halves: `[8, 22]` -> `[4 / 2 + 12 / 2, np.float32(30 / 2) + np.float32(14 / 2)]`

# %% q10_table wrong
# N is 4: `[4, 12, 30, 14]` -> `[1, 3, 7.5, 3.5]`, `[8, 22]` -> `[2, 5.5]`
# sums: `[8, 22]` -> `[16, 44]`
# the batches swapped: `[8, 22]` -> `[22, 8]`
# the mean of all for both: `[8, 22]` -> `[15, 15]`

# %% q12_train_loop_batches right
# without the answers before: `grad_multi(w, dataset[iteration % len(dataset)])` ->
#     `np.mean([-2 * x * (y - w * x) for x, y in dataset[iteration % len(dataset)]])`

# %% q12_train_loop_batches wrong
# a larger rate for a larger batch: `* grad` -> `* len(dataset[iteration % len(dataset)]) / len(dataset[0]) * grad`
# train_loop on all the points: `grad_multi(w, dataset[iteration % len(dataset)])` ->
#     `grad_multi(w, [sum(dataset, [])[iteration % len(sum(dataset, []))]])`
# no batches leave the weight: `raise ValueError("there are no batches to train on")` -> `return w`
