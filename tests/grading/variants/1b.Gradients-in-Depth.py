# Right and wrong answers to the questions of lesson 1b: tests/grading/test_variants.py reads them.

# %% q03_table right: with NumPy
table_ypred = 2 * np.arange(1, 5)
table_loss_point = (np.arange(1, 5) - table_ypred) ** 2 / 4
table_loss_mse = table_loss_point.sum()

# %% q03_table right: with NumPy's single precision
table_ypred = [np.float32(2 * x) for x, _ in easy]
table_loss_point = [np.float32((y - 2 * x) ** 2) / 4 for x, y in easy]
table_loss_mse = np.float32(np.mean([(y - 2 * x) ** 2 for x, y in easy]))

# %% q03_table right
# with numbers of other types: `[2, 4, 6, 8]` -> `(2.0, 4.0, 6.0, 8.0)`, `7.5` -> `30 / 4`
# from one another: `[0.25, 1, 2.25, 4]` -> `[(y / 2) ** 2 / 4 for y in table_ypred]`, `7.5` -> `sum(table_loss_point)`

# %% q03_table plain
# parts without the division: `[0.25, 1, 2.25, 4]` -> `[1, 4, 9, 16]`, `7.5` -> `30`
# the root of the mean square: `7.5` -> `7.5**0.5`
# predictions at w = 1: `[2, 4, 6, 8]` -> `[1, 2, 3, 4]`
# errors for predictions: `[2, 4, 6, 8]` -> `[-1, -2, -3, -4]`
# one point less: `[2, 4, 6, 8]` -> `[2, 4, 6]`

# %% q03_table wrong
# whole numbers only: `[0.25, 1, 2.25, 4]` -> `[0, 1, 2, 4]`, `7.5` -> `7`
# text: `[2, 4, 6, 8]` -> `["2", "4", "6", "8"]`
# the parts in a set: `[0.25, 1, 2.25, 4]` -> `{0.25, 1, 2.25, 4}`


# %% q04_loss_mse right: prints as it goes
def loss_mse(w, dataset):
    print("loss_mse", w, dataset)
    match dataset:
        case []:
            raise ValueError("no points")
    return math.fsum(abs(w * x - y) ** 2 / len(dataset) for x, y in dataset)


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
# none divides by zero: `not dataset` -> `False`
# a ValueError for a single point: `not dataset` -> `len(dataset) < 2`
# the size of y: `(y - w * x)` -> `(abs(y) - w * x)`

# %% q04_loss_mse equivalent
# the square of the opposite number is the same: `y - w * x` -> `w * x - y`


# %% q05_train_loop right: itertools.cycle
from itertools import cycle, islice


def train_loop(w, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for point in islice(cycle(dataset), iterations):
        w -= lr * grad_point(w, point, 1)
    return w


# %% q05_train_loop right: pass by pass
def train_loop(w, lr, dataset, iterations):
    if len(dataset) == 0:
        raise ValueError("no points")
    while iterations > 0:
        for x, y in dataset[:iterations]:
            w = w + lr * 2 * x * (y - w * x)
        iterations -= len(dataset)
    return w


# %% q05_train_loop right
# in closed form: `w - lr * grad_point(w, point, 1)` ->
#     `(1 - 2 * lr * point[0] ** 2) * w + 2 * lr * point[0] * point[1]`
# with NumPy's single precision: `w - lr * grad_point(w, point, 1)` -> `np.float32(w - lr * grad_point(w, point, 1))`

# %% q05_train_loop plain
# with the gradient: `w - lr` -> `w + lr`
# an iteration is a pass: `range(iterations)` -> `range(iterations * len(dataset))`
# begins with the second point: `range(iterations)` -> `range(1, iterations + 1)`

# %% q05_train_loop wrong
# stops at a low loss: `w - lr` -> `w - (loss_mse(w, dataset) >= 1e-4) * lr`
# long gradients are clipped: `grad_point(w, point, 1)` -> `max(-100, min(grad_point(w, point, 1), 100))`
# stays at the last point: `iteration % len(dataset)` -> `min(iteration, len(dataset) - 1)`
# four points: `iteration % len(dataset)` -> `iteration % 4 % len(dataset)`
# nothing without an iteration: `return w` -> `return w if iterations else None`
# no points leave the weight: `raise ValueError("there are no points to train on")` -> `return w`

# %% q10_table right: with NumPy
_x, _y = np.array(noisy).T
table_grad_point = -2 * _x * (_y - 2 * _x)
table_grad_multi = table_grad_point.reshape(2, 2).mean(axis=1)

# %% q10_table right: fractions
from fractions import Fraction

table_grad_point = [Fraction(grad_point(2, point, 1)) for point in noisy]
table_grad_multi = (sum(table_grad_point[:2]) / 2, sum(table_grad_point[2:]) / 2)

# %% q10_table right
# tuples: `[4, 12, 30, 14]` -> `4.0, 12.0, 30.0, 14.0`, `[8, 22]` -> `8.0, 22.0`
# sums of halves: `[8, 22]` -> `[4 / 2 + 12 / 2, np.float32(30 / 2) + np.float32(14 / 2)]`

# %% q10_table plain
# N is 4: `[4, 12, 30, 14]` -> `[1, 3, 7.5, 3.5]`, `[8, 22]` -> `[2, 5.5]`
# sums: `[8, 22]` -> `[16, 44]`
# the batches swapped: `[8, 22]` -> `[22, 8]`

# %% q10_table wrong
# every second point: `[8, 22]` -> `[17, 13]`
# the mean of all for both: `[8, 22]` -> `[15, 15]`
# the batches in a set: `[8, 22]` -> `{8, 22}`


# %% q12_train_loop_batches right: recursive, by keywords
def train_loop_batches(w, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    if iterations <= 0:
        return w
    return train_loop_batches(
        w=w - lr * grad_multi(w=w, data=dataset[0]), lr=lr, dataset=dataset[1:] + dataset[:1], iterations=iterations - 1
    )


# %% q12_train_loop_batches right
# without the answers before: `grad_multi(w, dataset[iteration % len(dataset)])` ->
#     `np.mean([-2 * x * (y - w * x) for x, y in dataset[iteration % len(dataset)]])`
# from the end of the list: `iteration % len(dataset)` -> `iteration % len(dataset) - len(dataset)`
# with NumPy's single precision: `w - lr * grad` -> `np.float32(w) - np.float32(lr) * grad`

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
# rounded to six digits in the end: `return w` -> `return round(w, 6)`


# %% q13_split right: lists
def split(values, ranks):
    values = list(values)
    sizes = [len(values) // ranks + (rank < len(values) % ranks) for rank in range(ranks)]
    ends = [sum(sizes[: rank + 1]) for rank in range(ranks)]
    return [values[end - size : end] for size, end in zip(sizes, ends)]


# %% q13_split right
# with NumPy: `return chunks` -> `return np.array_split(values, ranks)`
# a list of lists of floats: `return chunks` -> `return [chunk.tolist() for chunk in chunks]`
# map: `return chunks` -> `return map(list, chunks)`

# %% q13_split plain
# equal parts only: `return chunks` -> `return np.split(values, ranks)`
# like cards: `return chunks` -> `return [values[rank::ranks] for rank in range(ranks)]`
# chunks of that size: `return chunks` -> `return [values[i : i + ranks] for i in range(0, len(values), ranks)]`
# without empty chunks: `return chunks` -> `return [chunk for chunk in chunks if len(chunk)]`
# one chunk too few: `return chunks` -> `return chunks[:-1]`

# %% q13_split wrong
# equal values once: `return chunks` -> `return np.array_split(list(dict.fromkeys(values.tolist())), ranks)`
# None for an empty chunk: `return chunks` -> `return [chunk if len(chunk) else None for chunk in chunks]`
# four ranks: `return chunks` -> `return np.array_split(values, 4)`

# %% q14_ring right
# one remainder for both phases: `(rank - step) % ranks` -> `(rank + step * (ranks - 1)) % ranks`
# the other way round: `rank - step` -> `step - rank`
# in place: `mine + received` -> `np.add(mine, received, out=mine)`
# a number of another type: `(rank - step) % ranks` -> `np.mod(np.float64(rank - step), ranks)`

# %% q14_ring plain
# without the remainder: `(rank - step) % ranks` -> `rank - step`
# forwards: `rank - step` -> `rank + step`
# the same chunk on all ranks: `rank - step` -> `step`

# %% q14_ring wrong
# begins again with the second phase: `rank - step` -> `rank - step % (ranks - 1)`
# for four ranks at most: `% ranks` -> `% min(ranks, 4)`
# pairs of ranks, as a butterfly: `rank - step` -> `rank ^ step`

# %% q14_ring equivalent
# chunks numbered the other way round travel the same ring: `rank - step` -> `step - rank`
