# Right and wrong answers to the questions of lesson 1: tests/grading/test_variants.py reads them.

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
# predictions at m = 1: `[2, 4, 6, 8]` -> `[1, 2, 3, 4]`
# errors for predictions: `[2, 4, 6, 8]` -> `[-1, -2, -3, -4]`
# one point less: `[2, 4, 6, 8]` -> `[2, 4, 6]`

# %% q03_table wrong
# whole numbers only: `[0.25, 1, 2.25, 4]` -> `[0, 1, 2, 4]`, `7.5` -> `7`
# text: `[2, 4, 6, 8]` -> `["2", "4", "6", "8"]`
# the parts in a set: `[0.25, 1, 2.25, 4]` -> `{0.25, 1, 2.25, 4}`


# %% q04_loss_mse right: prints as it goes
def loss_mse(m, dataset):
    print("loss_mse", m, dataset)
    match dataset:
        case []:
            raise ValueError("no points")
    return math.fsum(abs(m * x - y) ** 2 / len(dataset) for x, y in dataset)


# %% q04_loss_mse right: a mean that refuses the empty list
import statistics


def loss_mse(m, dataset):
    return statistics.mean((y - m * x) ** 2 for x, y in dataset)


# %% q04_loss_mse right
# with NumPy: `sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)` ->
#     `np.mean([(y - m * x) ** 2 for x, y in dataset])`
# a distance: `sum((y - m * x) ** 2 for x, y in dataset)` -> `math.dist(*zip(*((y, m * x) for x, y in dataset))) ** 2`

# %% q04_loss_mse plain
# the square of the mean error: `sum((y - m * x) ** 2` -> `sum((y - m * x)`, `/ len(dataset)` ->
#     `** 2 / len(dataset) ** 2`
# always four points: `/ len(dataset)` -> `/ 4`

# %% q04_loss_mse wrong
# does not end: `in dataset)` -> `in iter(lambda: dataset[0], 0))`
# rounded to six digits: `return sum` -> `return round(sum`, `/ len(dataset)` -> `/ len(dataset), 6)`
# none is not a number: `not dataset` -> `False`, `/ len(dataset)` -> `/ np.float64(len(dataset))`
# none divides by zero: `not dataset` -> `False`
# a ValueError for a single point: `not dataset` -> `len(dataset) < 2`
# the size of y: `(y - m * x)` -> `(abs(y) - m * x)`

# %% q04_loss_mse equivalent
# the square of the opposite number is the same: `y - m * x` -> `m * x - y`


# %% q05_gradients right: a mean that refuses the empty list
from statistics import fmean


def grad_multi(m, data):
    return fmean(grad_point(m, point, 1) for point in data)


# %% q05_gradients right
# with NumPy: `sum(grad_point(m, point, len(data)) for point in data)` ->
#     `np.mean([grad_point(m, point, 1) for point in data])`
# with NumPy's single precision: `x, y = data` -> `x, y = np.float32(data)`, `m * x) / N` -> `np.float32(m) * x) / N`
# central differences: `-2 * x * (y - m * x) / N` -> `((y - (m + 1) * x) ** 2 - (y - (m - 1) * x) ** 2) / 2 / N`

# %% q05_gradients plain
# without the 2: `-2 * x` -> `-x`
# without the inner derivative: `-2 * x` -> `-2`

# %% q05_gradients wrong
# the sizes of x: `-2 * x * (y - m * x)` -> `2 * abs(x) * (m * abs(x) - y)`
# divides by x: `-2 * x * (y - m * x)` -> `2 * x**2 * (m - y / x)`
# the size of y: `-2 * x * (y - m * x)` -> `-2 * x * (abs(y) - m * x)`
# rounded: `return sum(` -> `return round(sum(`, `for point in data)` -> `for point in data), 4)`
# the mean of those that are not 0: `sum(grad_point(m, point, len(data)) for point in data)` ->
#     `np.mean([g for point in data if (g := grad_point(m, point, 1))] or 0)`
# grad_multi of none is 0: `not data` -> `False`
# grad_multi refuses a single point: `not data` -> `len(data) <= 1`


# %% q06_train_loop right: itertools.cycle
from itertools import cycle, islice


def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for point in islice(cycle(dataset), iterations):
        m -= lr * grad_point(m, point, 1)
    return m


# %% q06_train_loop right: pass by pass
def train_loop(m, lr, dataset, iterations):
    if len(dataset) == 0:
        raise ValueError("no points")
    while iterations > 0:
        for x, y in dataset[:iterations]:
            m = m + lr * 2 * x * (y - m * x)
        iterations -= len(dataset)
    return m


# %% q06_train_loop right
# in closed form: `m - lr * grad_point(m, point, 1)` ->
#     `(1 - 2 * lr * point[0] ** 2) * m + 2 * lr * point[0] * point[1]`
# with NumPy's single precision: `m - lr * grad_point(m, point, 1)` -> `np.float32(m - lr * grad_point(m, point, 1))`

# %% q06_train_loop plain
# with the gradient: `m - lr` -> `m + lr`
# an iteration is a pass: `range(iterations)` -> `range(iterations * len(dataset))`
# begins with the second point: `range(iterations)` -> `range(1, iterations + 1)`

# %% q06_train_loop wrong
# stops at a low loss: `m - lr` -> `m - (loss_mse(m, dataset) >= 1e-4) * lr`
# long gradients are clipped: `grad_point(m, point, 1)` -> `max(-100, min(grad_point(m, point, 1), 100))`
# stays at the last point: `iteration % len(dataset)` -> `min(iteration, len(dataset) - 1)`
# four points: `iteration % len(dataset)` -> `iteration % 4 % len(dataset)`
# nothing without an iteration: `return m` -> `return m if iterations else None`
# no points leave the weight: `raise ValueError("there are no points to train on")` -> `return m`

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


# %% q11_train_loop_batches right: recursive, by keywords
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    if iterations <= 0:
        return m
    return train_loop_batches(
        m=m - lr * grad_multi(m=m, data=dataset[0]), lr=lr, dataset=dataset[1:] + dataset[:1], iterations=iterations - 1
    )


# %% q11_train_loop_batches right
# without the answers before: `grad_multi(m, dataset[iteration % len(dataset)])` ->
#     `np.mean([-2 * x * (y - m * x) for x, y in dataset[iteration % len(dataset)]])`
# from the end of the list: `iteration % len(dataset)` -> `iteration % len(dataset) - len(dataset)`
# with NumPy's single precision: `m - lr * grad` -> `np.float32(m) - np.float32(lr) * grad`

# %% q11_train_loop_batches plain
# a larger rate for a larger batch: `* grad` -> `* len(dataset[iteration % len(dataset)]) / len(dataset[0]) * grad`

# %% q11_train_loop_batches wrong
# train_loop on all the points: `grad_multi(m, dataset[iteration % len(dataset)])` ->
#     `grad_multi(m, [sum(dataset, [])[iteration % len(sum(dataset, []))]])`
# a first batch without a gradient ends it: `range(iterations)` ->
#     `range(iterations if grad_multi(m, dataset[0]) else 0)`
# no batches leave the weight: `raise ValueError("there are no batches to train on")` -> `return m`
# stops at a low loss: `m - lr` -> `m - (loss_mse(m, dataset[0]) >= 1e-4) * lr`
# stops when it diverges: `m - lr` -> `m - (abs(m) < 1e6) * lr`
# no iterations are a ValueError: `not dataset` -> `not dataset or not iterations`
# rounded to six digits in the end: `return m` -> `return round(m, 6)`


# %% q12_distributed right: every worker has its own weight
def train_loop_distributed(m, lr, shards, iterations):
    weights = [m] * len(shards)
    for i in range(iterations):
        gradients = [worker_gradient(weights[k], shard[i % len(shard)]) for k, shard in enumerate(shards)]
        for worker in range(len(shards)):
            weights[worker] -= lr * average_gradients(gradients)
    return weights[-1]


# %% q12_distributed right: a mean that refuses the empty list
import statistics


def average_gradients(gradients):
    return statistics.mean(gradients)


# %% q12_distributed right
# with NumPy: `sum(gradients) / len(gradients)` -> `np.mean(gradients)`
# the weights are averaged after every step: `worker_gradient(m, s[i % len(s)])` ->
#     `train_loop_batches(m, lr, [s[i % len(s)]], 1)`, `m - lr * average` -> `average`

# %% q12_distributed plain
# the gradients are added: `sum(gradients) / len(gradients)` -> `sum(gradients)`
# weighted by the sizes of the batches: `average_gradients(own)` ->
#     `np.average(own, weights=[len(s[i % len(s)]) for s in shards])`

# %% q12_distributed wrong
# the weights are averaged at the end: `range(iterations)` -> `range(0)`, `return m` ->
#     `return np.mean([train_loop_batches(m, lr, s, iterations) for s in shards])`
# without gradients of 0: `/ len(gradients)` -> `/ (np.count_nonzero(gradients) or 1)`
# nothing to average in zeros: `not gradients` -> `not any(gradients)`
# the mean of none is 0: `raise ValueError("there are no gradients to average")` -> `return 0.0`
# a single gradient is a ValueError: `not gradients` -> `len(gradients) < 2`
# the first batch or the last: `i % len(s)` -> `-(i % 2)`
# stops when it diverges: `m - lr` -> `m - (abs(m) < 1e6) * lr`


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
