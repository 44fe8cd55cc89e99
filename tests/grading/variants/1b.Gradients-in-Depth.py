# Right and wrong answers to the questions of lesson 1b: tests/grading/test_variants.py reads them.

# %% q03_table right
# with numbers of other types: `[2, 4, 6, 8]` -> `(2.0, 4.0, 6.0, 8.0)`, `7.5` -> `30 / 4`
# from one another: `[0.25, 1, 2.25, 4]` -> `[(y / 2) ** 2 / 4 for y in table_ypred]`, `7.5` -> `sum(table_loss_point)`

# %% q03_table plain
# parts without the division: `[0.25, 1, 2.25, 4]` -> `[1, 4, 9, 16]`, `7.5` -> `30`
# the root of the mean square: `7.5` -> `7.5**0.5`
# errors for predictions: `[2, 4, 6, 8]` -> `[-1, -2, -3, -4]`

# %% q03_table wrong
# whole numbers only: `[0.25, 1, 2.25, 4]` -> `[0, 1, 2, 4]`, `7.5` -> `7`
# text: `[2, 4, 6, 8]` -> `["2", "4", "6", "8"]`
# the parts in a set: `[0.25, 1, 2.25, 4]` -> `{0.25, 1, 2.25, 4}`


# %% q04_loss_mse right: a mean that refuses the empty list
import statistics


def loss_mse(w, dataset):
    return statistics.mean((y - w * x) ** 2 for x, y in dataset)


# %% q04_loss_mse right
# with NumPy: `sum((y - w * x) ** 2 for x, y in dataset) / len(dataset)` ->
#     `np.mean([(y - w * x) ** 2 for x, y in dataset])`
# a distance: `sum((y - w * x) ** 2 for x, y in dataset)` -> `math.dist(*zip(*((y, w * x) for x, y in dataset))) ** 2`

# %% q04_loss_mse plain
# the square of the mean error: `sum((y - w * x) ** 2` -> `sum((y - w * x)`, `/ len(dataset)` ->
#     `** 2 / len(dataset) ** 2`
# always four points: `/ len(dataset)` -> `/ 4`

# %% q04_loss_mse wrong
# does not end: `in dataset)` -> `in iter(lambda: dataset[0], 0))`
# rounded to six digits: `return sum` -> `return round(sum`, `/ len(dataset)` -> `/ len(dataset), 6)`
# none is not a number: `not dataset` -> `False`, `/ len(dataset)` -> `/ np.float64(len(dataset))`
# a ValueError for a single point: `not dataset` -> `len(dataset) < 2`
# the size of y: `(y - w * x)` -> `(abs(y) - w * x)`

# %% q05_train_loop right: itertools.cycle
from itertools import cycle, islice


def train_loop(w, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for point in islice(cycle(dataset), iterations):
        w -= lr * grad_point(w, point, 1)
    return w


# %% q05_train_loop right
# in closed form: `w - lr * grad_point(w, point, 1)` ->
#     `(1 - 2 * lr * point[0] ** 2) * w + 2 * lr * point[0] * point[1]`

# %% q05_train_loop plain
# an iteration is a pass: `range(iterations)` -> `range(iterations * len(dataset))`

# %% q05_train_loop wrong
# stops at a low loss: `w - lr` -> `w - (loss_mse(w, dataset) >= 1e-4) * lr`
# stays at the last point: `iteration % len(dataset)` -> `min(iteration, len(dataset) - 1)`
# four points: `iteration % len(dataset)` -> `iteration % 4 % len(dataset)`
# nothing without an iteration: `return w` -> `return w if iterations else None`
# no points leave the weight: `raise ValueError("there are no points to train on")` -> `return w`

# %% q10_table right: fractions
from fractions import Fraction

table_grad_point = [Fraction(grad_point(2, point, 1)) for point in noisy]
table_grad_multi = (sum(table_grad_point[:2]) / 2, sum(table_grad_point[2:]) / 2)

# %% q10_table right
# sums of halves: `[8, 22]` -> `[4 / 2 + 12 / 2, np.float32(30 / 2) + np.float32(14 / 2)]`

# %% q10_table plain
# N is 4: `[4, 12, 30, 14]` -> `[1, 3, 7.5, 3.5]`, `[8, 22]` -> `[2, 5.5]`
# sums: `[8, 22]` -> `[16, 44]`
# the batches swapped: `[8, 22]` -> `[22, 8]`

# %% q10_table wrong
# every second point: `[8, 22]` -> `[17, 13]`
# the mean of all for both: `[8, 22]` -> `[15, 15]`
# the batches in a set: `[8, 22]` -> `{8, 22}`


# %% q12_train_loop_batches right
# without the answers before: `grad_multi(w, dataset[iteration % len(dataset)])` ->
#     `np.mean([-2 * x * (y - w * x) for x, y in dataset[iteration % len(dataset)]])`
# from the end of the list: `iteration % len(dataset)` -> `iteration % len(dataset) - len(dataset)`

# %% q12_train_loop_batches plain
# a larger rate for a larger batch: `* grad` -> `* len(dataset[iteration % len(dataset)]) / len(dataset[0]) * grad`

# %% q12_train_loop_batches wrong
# train_loop on all the points: `grad_multi(w, dataset[iteration % len(dataset)])` ->
#     `grad_multi(w, [sum(dataset, [])[iteration % len(sum(dataset, []))]])`
# a first batch without a gradient ends it: `range(iterations)` ->
#     `range(iterations if grad_multi(w, dataset[0]) else 0)`
# no batches leave the weight: `raise ValueError("there are no batches to train on")` -> `return w`
# stops at a low loss: `w - lr` -> `w - (loss_mse(w, dataset[0]) >= 1e-4) * lr`
# stops when it diverges: `w - lr` -> `w - (abs(w) < 1e6) * lr`
# no iterations are a ValueError: `not dataset` -> `not dataset or not iterations`


# %% q13_split right
# with NumPy: `return chunks` -> `return np.array_split(values, ranks)`
# a list of lists of floats: `return chunks` -> `return [chunk.tolist() for chunk in chunks]`
# map: `return chunks` -> `return map(list, chunks)`

# %% q13_split plain
# equal parts only: `return chunks` -> `return np.split(values, ranks)`
# like cards: `return chunks` -> `return [values[rank::ranks] for rank in range(ranks)]`
# chunks of that size: `return chunks` -> `return [values[i : i + ranks] for i in range(0, len(values), ranks)]`
# without empty chunks: `return chunks` -> `return [chunk for chunk in chunks if len(chunk)]`

# %% q13_split wrong
# equal values once: `return chunks` -> `return np.array_split(list(dict.fromkeys(values.tolist())), ranks)`
# None for an empty chunk: `return chunks` -> `return [chunk if len(chunk) else None for chunk in chunks]`

# %% q14_ring right
# one remainder for both phases: `(rank - step) % ranks` -> `(rank + step * (ranks - 1)) % ranks`
# the other way round: `rank - step` -> `step - rank`

# %% q14_ring plain
# without the remainder: `(rank - step) % ranks` -> `rank - step`
# forwards: `rank - step` -> `rank + step`
# the same chunk on all ranks: `rank - step` -> `step`

# %% q14_ring wrong
# begins again with the second phase: `rank - step` -> `rank - step % (ranks - 1)`
# for four ranks at most: `% ranks` -> `% min(ranks, 4)`
# pairs of ranks, as a butterfly: `rank - step` -> `rank ^ step`
