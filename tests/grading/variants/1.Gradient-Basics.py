# Right and wrong answers to the questions of lesson 1: tests/grading/test_variants.py reads them.

# %% q03_table right: with numbers of other types
table_ypred = (2.0, 4.0, 6.0, 8.0)
table_loss_point = (1 / 4, 4 / 4, 9 / 4, 16 / 4)
table_loss_mse = 30 / 4

# %% q03_table right: with NumPy
table_ypred = 2 * np.arange(1, 5)
table_loss_point = (np.arange(1, 5) - table_ypred) ** 2 / 4
table_loss_mse = table_loss_point.sum()

# %% q03_table right: with NumPy's single precision
table_ypred = [np.float32(2 * x) for x, _ in easy]
table_loss_point = [np.float32((y - 2 * x) ** 2) / 4 for x, y in easy]
table_loss_mse = np.float32(np.mean([(y - 2 * x) ** 2 for x, y in easy]))

# %% q03_table right: in a loop
table_ypred, table_loss_point = [], []
for x, y in easy:
    table_ypred.append(2 * x)
    table_loss_point.append((y - table_ypred[-1]) ** 2 / len(easy))
table_loss_mse = math.fsum(table_loss_point)

# %% q03_table plain: parts without the division
table_ypred = [2, 4, 6, 8]
table_loss_point = [1, 4, 9, 16]
table_loss_mse = 30

# %% q03_table plain: the root of the mean square
table_loss_mse = 7.5**0.5

# %% q03_table plain: predictions at m = 1
table_ypred = [1, 2, 3, 4]

# %% q03_table plain: errors for predictions
table_ypred = [-1, -2, -3, -4]

# %% q03_table wrong: whole numbers only
table_loss_point = [1 // 4, 4 // 4, 9 // 4, 16 // 4]
table_loss_mse = 7

# %% q03_table plain: one point less
table_ypred = [2, 4, 6]
table_loss_point = [0.25, 1, 2.25]
table_loss_mse = 3.5

# %% q03_table wrong: text
table_ypred = ["2", "4", "6", "8"]

# %% q03_table wrong: the parts in a set
# - table_loss_point = [0.25, 1, 2.25, 4]
# + table_loss_point = {0.25, 1, 2.25, 4}


# %% q04_loss_mse right: with NumPy
def loss_mse(m, dataset):
    if dataset == []:
        raise ValueError
    x, y = np.array(dataset).T
    return np.mean((y - m * x) ** 2)


# %% q04_loss_mse right: functools.reduce
from functools import reduce


def loss_mse(m: float, dataset: list) -> float:
    count = len(dataset)
    if count < 1:
        raise ValueError(f"{count} points")
    return reduce(lambda so_far, point: so_far + (point[1] - m * point[0]) ** 2, dataset, 0) / count


# %% q04_loss_mse wrong: does not end
def loss_mse(m, dataset):
    while True:
        pass


# %% q04_loss_mse plain: the square of the mean error
# -     return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)
# +     return (sum(y - m * x for x, y in dataset) / len(dataset)) ** 2

# %% q04_loss_mse plain: always four points
# -     return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)
# +     return sum((y - m * x) ** 2 for x, y in dataset) / 4

# %% q04_loss_mse wrong: rounded to two digits
# -     return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)
# +     return round(sum((y - m * x) ** 2 for x, y in dataset) / len(dataset), 2)

# %% q04_loss_mse wrong: rounded to six digits
# -     return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)
# +     return float(f"{sum((y - m * x) ** 2 for x, y in dataset) / len(dataset):.6f}")


# %% q04_loss_mse wrong: none is not a number
def loss_mse(m, dataset):
    return float(np.mean([(y - m * x) ** 2 for x, y in dataset]))


# %% q04_loss_mse wrong: none divides by zero
def loss_mse(m, dataset):
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: an assertion for none
def loss_mse(m, dataset):
    assert dataset, "no points"
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: a ValueError for a single point
# -     if not dataset:
# +     if len(dataset) < 2:


# %% q04_loss_mse wrong: the largest part
def loss_mse(m, dataset):
    return max((y - m * x) ** 2 for x, y in dataset)


# %% q04_loss_mse right: prints as it goes
def loss_mse(m, dataset):
    print("loss_mse", m, dataset)
    match dataset:
        case []:
            raise ValueError("no points")
    if (count := len(dataset)) > 1_000:
        print("this takes a while")
    return math.fsum(abs(m * x - y) ** 2 / count for x, y in dataset)


# %% q04_loss_mse right: a mean that refuses the empty list
import statistics


def loss_mse(m, dataset):
    return statistics.mean((y - m * x) ** 2 for x, y in dataset)


# %% q04_loss_mse wrong: the size of y
# -     return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)
# +     return sum((abs(y) - m * x) ** 2 for x, y in dataset) / len(dataset)

# %% q04_loss_mse equivalent: the square of the opposite number is the same
# - return sum(((y - m * x) ** 2 for x, y in dataset)) / len(dataset)
# + return sum(((m * x - y) ** 2 for x, y in dataset)) / len(dataset)

# %% q05_gradients right: with NumPy's single precision
# -     x, y = data
# -     return -2 * x * (y - m * x) / N
# +     x, y = np.float32(data)
# +     return np.float32(-2) * x * (y - np.float32(m) * x) / np.float32(N)
# -     return sum(grad_point(m, point, len(data)) for point in data)
# +     return np.sum([grad_point(m, point, len(data)) for point in data], dtype=np.float32)

# %% q05_gradients right: central differences
# -     x, y = data
# -     return -2 * x * (y - m * x) / N
# +     def part(weight):
# +         return (data[1] - weight * data[0]) ** 2 / N
# +
# +     return (part(m + 0.5) - part(m - 0.5)) / (0.5 + 0.5)
# -     return sum(grad_point(m, point, len(data)) for point in data)
# +     return loss_mse(m + 0.5, data) - loss_mse(m - 0.5, data)

# %% q05_gradients right: a mean that refuses the empty list
from statistics import fmean


def grad_multi(m, data):
    return fmean(grad_point(m, point, 1) for point in data)


# %% q05_gradients right: with fractions
from fractions import Fraction


def grad_point(m, data, N):
    x, y = map(Fraction, data)
    return -2 * x * (y - Fraction(m) * x) / N


# %% q05_gradients plain: without the 2
# -     return -2 * x * (y - m * x) / N
# +     return -x * (y - m * x) / N

# %% q05_gradients plain: without the inner derivative
# -     return -2 * x * (y - m * x) / N
# +     return -2 * (y - m * x) / N

# %% q05_gradients wrong: the sizes of x
# -     return -2 * x * (y - m * x) / N
# +     return 2 * abs(x) * (m * abs(x) - y) / N

# %% q05_gradients wrong: the size of the gradient
# -     return -2 * x * (y - m * x) / N
# +     return abs(-2 * x * (y - m * x) / N)

# %% q05_gradients wrong: divides by x
# -     return -2 * x * (y - m * x) / N
# +     return 2 * x**2 * (m - y / x) / N

# %% q05_gradients wrong: rounded
# -     return sum(grad_point(m, point, len(data)) for point in data)
# +     return round(sum(grad_point(m, point, len(data)) for point in data), 4)


# %% q05_gradients wrong: grad_multi of none is 0
def grad_multi(m, data):
    return sum(grad_point(m, point, len(data)) for point in data)


# %% q05_gradients wrong: grad_multi of none divides by zero
def grad_multi(m, data):
    return sum(grad_point(m, point, 1) for point in data) / len(data)


# %% q05_gradients wrong: grad_multi refuses a single point
# -     if not data:
# +     if len(data) <= 1:

# %% q05_gradients wrong: the size of y
# -     return -2 * x * (y - m * x) / N
# +     return -2 * x * (abs(y) - m * x) / N

# %% q05_gradients wrong: the mean of those that are not 0
# -     return sum(grad_point(m, point, len(data)) for point in data)
# +     slopes = [g for point in data if (g := grad_point(m, point, 1))]
# +     return sum(slopes) / len(slopes) if slopes else 0

# %% q06_train_loop right: itertools.cycle
from itertools import cycle, islice


def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for point in islice(cycle(dataset), iterations):
        m -= lr * grad_point(m, point, 1)
    return m


# %% q06_train_loop right: an index that is reset
def train_loop(m, lr, dataset, iterations):
    if len(dataset) == 0:
        raise ValueError("no points")
    i = 0
    done = 0
    while done < iterations:
        x, y = dataset[i]
        m = m + lr * 2 * x * (y - m * x)
        i += 1
        if i == len(dataset):
            i = 0
        done += 1
    return m


# %% q06_train_loop right: with NumPy's single precision
# -     for iteration in range(iterations):
# -         point = dataset[iteration % len(dataset)]
# -         m = m - lr * grad_point(m, point, 1)
# +     m, lr = np.float32(m), np.float32(lr)
# +     points = np.array(dataset, np.float32)
# +     for i in range(iterations):
# +         x, y = points[i % len(points)]
# +         m -= lr * 2 * x * (m * x - y)

# %% q06_train_loop right: in closed form
# -     for iteration in range(iterations):
# -         point = dataset[iteration % len(dataset)]
# -         m = m - lr * grad_point(m, point, 1)
# +     for i in range(iterations):
# +         x, y = dataset[i % len(dataset)]
# +         m = (1 - 2 * lr * x**2) * m + 2 * lr * x * y

# %% q06_train_loop plain: with the gradient
# -     for iteration in range(iterations):
# -         point = dataset[iteration % len(dataset)]
# -         m = m - lr * grad_point(m, point, 1)
# +     for i in range(iterations):
# +         m = m + lr * grad_point(m, dataset[i % len(dataset)], 1)

# %% q06_train_loop wrong: stops at a low loss
# -     for iteration in range(iterations):
# -         point = dataset[iteration % len(dataset)]
# -         m = m - lr * grad_point(m, point, 1)
# +     for i in range(iterations):
# +         if loss_mse(m, dataset) < 1e-4:
# +             break
# +         m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)

# %% q06_train_loop wrong: long gradients are clipped
# -     for iteration in range(iterations):
# -         point = dataset[iteration % len(dataset)]
# -         m = m - lr * grad_point(m, point, 1)
# +     for i in range(iterations):
# +         gradient = grad_point(m, dataset[i % len(dataset)], 1)
# +         m = m - lr * max(-100, min(gradient, 100))

# %% q06_train_loop plain: an iteration is a pass
# -     for iteration in range(iterations):
# -         point = dataset[iteration % len(dataset)]
# -         m = m - lr * grad_point(m, point, 1)
# +     for _ in range(iterations):
# +         for point in dataset:
# +             m = m - lr * grad_point(m, point, 1)

# %% q06_train_loop wrong: stays at the last point
# -     for iteration in range(iterations):
# -         point = dataset[iteration % len(dataset)]
# -         m = m - lr * grad_point(m, point, 1)
# +     for i in range(iterations):
# +         m = m - lr * grad_point(m, dataset[min(i, len(dataset) - 1)], 1)

# %% q06_train_loop plain: begins with the second point
# -     for iteration in range(iterations):
# -         point = dataset[iteration % len(dataset)]
# -         m = m - lr * grad_point(m, point, 1)
# +     for i in range(1, iterations + 1):
# +         m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)

# %% q06_train_loop wrong: four points
# -     for iteration in range(iterations):
# -         point = dataset[iteration % len(dataset)]
# -         m = m - lr * grad_point(m, point, 1)
# +     for i in range(iterations):
# +         m = m - lr * grad_point(m, dataset[i % 4 % len(dataset)], 1)


# %% q06_train_loop wrong: nothing without an iteration
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        new = m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return new


# %% q06_train_loop wrong: no points leave the weight
def train_loop(m, lr, dataset, iterations):
    for i in range(iterations if dataset else 0):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop wrong: no points divide by zero
def train_loop(m, lr, dataset, iterations):
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q10_table right: with NumPy
_x, _y = np.array(noisy).T
table_grad_point = -2 * _x * (_y - 2 * _x)
table_grad_multi = table_grad_point.reshape(2, 2).mean(axis=1)

# %% q10_table right: tuples
table_grad_point = 4.0, 12.0, 30.0, 14.0
table_grad_multi = 8.0, 22.0

# %% q10_table right: sums of halves
table_grad_point = list(map(lambda point: grad_point(2, point, N=1), noisy))
table_grad_multi = [4 / 2 + 12 / 2, np.float32(30 / 2) + np.float32(14 / 2)]

# %% q10_table right: fractions
from fractions import Fraction

table_grad_point = [Fraction(grad_point(2, point, 1)) for point in noisy]
table_grad_multi = (sum(table_grad_point[:2]) / 2, sum(table_grad_point[2:]) / 2)

# %% q10_table plain: N is 4
table_grad_point = [1, 3, 7.5, 3.5]
table_grad_multi = [2, 5.5]

# %% q10_table plain: sums
table_grad_multi = [16, 44]

# %% q10_table wrong: every second point
table_grad_multi = [17, 13]

# %% q10_table wrong: the mean of all for both
table_grad_multi = [15, 15]

# %% q10_table plain: the batches swapped
table_grad_multi = [22, 8]

# %% q10_table wrong: the batches in a set
table_grad_point = [4, 12, 30, 14]
table_grad_multi = {8, 22}

# %% q11_train_loop_batches right: itertools.cycle
from itertools import cycle


def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    batches = cycle(dataset)
    for _ in range(iterations):
        m -= lr * grad_multi(m, next(batches))
    return m


# %% q11_train_loop_batches right: without the answers before
def train_loop_batches(m, lr, dataset, iterations):
    number = 0
    if not dataset:
        raise ValueError("no batches")
    while number < iterations:
        batch = dataset[number % len(dataset)]
        gradient = 0
        for x, y in batch:
            gradient += -2 * x * (y - m * x) / len(batch)
        m = m - lr * gradient
        number = number + 1
    return m


# %% q11_train_loop_batches right: recursive, by keywords
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    if iterations <= 0:
        return m
    return train_loop_batches(
        m=m - lr * grad_multi(m=m, data=dataset[0]), lr=lr, dataset=dataset[1:] + dataset[:1], iterations=iterations - 1
    )


# %% q11_train_loop_batches right: with NumPy's single precision
# -     for iteration in range(iterations):
# -         m = m - lr * grad_multi(m, dataset[iteration % len(dataset)])
# +     m = np.float32(m)
# +     for i in range(iterations):
# +         m = np.float32(m - np.float32(lr) * np.float32(grad_multi(m, dataset[i % len(dataset)])))


# %% q11_train_loop_batches wrong: train_loop on all the points
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    return train_loop(m, lr, [point for batch in dataset for point in batch], iterations)


# %% q11_train_loop_batches wrong: stops at a batch without a gradient
# -     for iteration in range(iterations):
# -         m = m - lr * grad_multi(m, dataset[iteration % len(dataset)])
# +     for i in range(iterations):
# +         gradient = grad_multi(m, dataset[i % len(dataset)])
# +         if abs(gradient) < 1e-9:
# +             break
# +         m -= lr * gradient

# %% q11_train_loop_batches plain: a larger rate for a larger batch
# -     for iteration in range(iterations):
# -         m = m - lr * grad_multi(m, dataset[iteration % len(dataset)])
# +     for i in range(iterations):
# +         batch = dataset[i % len(dataset)]
# +         m -= lr * len(batch) / len(dataset[0]) * grad_multi(m, batch)


# %% q11_train_loop_batches wrong: as many digits as the examples
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[i % len(dataset)])
    return round(m, 5)


# %% q11_train_loop_batches wrong: no batches leave the weight
def train_loop_batches(m, lr, dataset, iterations):
    for i in range(iterations if dataset else 0):
        m -= lr * grad_multi(m, dataset[i % len(dataset)])
    return m


# %% q11_train_loop_batches wrong: no batches divide by zero
def train_loop_batches(m, lr, dataset, iterations):
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[i % len(dataset)])
    return m


# %% q11_train_loop_batches wrong: stops at a low loss
# -     for iteration in range(iterations):
# -         m = m - lr * grad_multi(m, dataset[iteration % len(dataset)])
# +     for i in range(iterations):
# +         batch = dataset[i % len(dataset)]
# +         if loss_mse(m, batch) < 1e-4:
# +             break
# +         m -= lr * grad_multi(m, batch)

# %% q11_train_loop_batches wrong: stops when it diverges
# -     for iteration in range(iterations):
# -         m = m - lr * grad_multi(m, dataset[iteration % len(dataset)])
# +     for i in range(iterations):
# +         m -= lr * grad_multi(m, dataset[i % len(dataset)])
# +         if abs(m) > 1e6:
# +             break


# %% q11_train_loop_batches wrong: no iterations are a ValueError
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset or iterations < 1:
        raise ValueError("nothing to do")
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[i % len(dataset)])
    return m


# %% q11_train_loop_batches wrong: rounded to six digits in the end
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[i % len(dataset)])
    return round(m, 6)


# %% q12_distributed right: every worker has its own weight
def train_loop_distributed(m, lr, shards, iterations):
    weights = [m] * len(shards)
    for i in range(iterations):
        gradients = []
        for worker, shard in enumerate(shards):
            gradients.append(worker_gradient(weights[worker], shard[i % len(shard)]))
        for worker in range(len(shards)):
            weights[worker] -= lr * average_gradients(gradients)
    return weights[-1]


# %% q12_distributed right: the weights are averaged after every step
# -         own = [worker_gradient(m, s[i % len(s)]) for s in shards]
# -         m = m - lr * average_gradients(own)
# +         m = average_gradients([train_loop_batches(m, lr, [shard[i % len(shard)]], 1) for shard in shards])


# %% q12_distributed right: a class for the worker
class Worker:
    def __init__(self, shard):
        self.shard, self.place = shard, 0

    def gradient(self, m):
        batch = self.shard[self.place]
        self.place = (self.place + 1) % len(self.shard)
        return worker_gradient(m, batch)


def train_loop_distributed(m, lr, shards, iterations):
    workers = [Worker(shard) for shard in shards]
    for _ in range(iterations):
        m = m - lr * average_gradients([worker.gradient(m) for worker in workers])
    return m


# %% q12_distributed right: a mean that refuses the empty list
import statistics


def average_gradients(gradients):
    return statistics.mean(gradients)


# %% q12_distributed plain: the gradients are added
# -     return sum(gradients) / len(gradients)
# +     return sum(gradients)

# %% q12_distributed wrong: without gradients of 0
# -     return sum(gradients) / len(gradients)
# +     own = [gradient for gradient in gradients if gradient]
# +     return sum(own) / len(own)

# %% q12_distributed wrong: nothing to average in zeros
# -     if not gradients:
# +     if not any(gradients):


# %% q12_distributed wrong: the mean of none is 0
def average_gradients(gradients):
    return sum(gradients) / len(gradients) if gradients else 0.0


# %% q12_distributed wrong: the mean of none divides by zero
def average_gradients(gradients):
    return sum(gradients) / len(gradients)


# %% q12_distributed wrong: the mean of none is not a number
def average_gradients(gradients):
    return np.mean(gradients)


# %% q12_distributed wrong: a single gradient is a ValueError
# -     if not gradients:
# +     if len(gradients) < 2:

# %% q12_distributed plain: weighted by the sizes of the batches
# -         own = [worker_gradient(m, s[i % len(s)]) for s in shards]
# -         m = m - lr * average_gradients(own)
# +         batches = [shard[i % len(shard)] for shard in shards]
# +         sizes = [len(batch) for batch in batches]
# +         own = [worker_gradient(m, batch) for batch in batches]
# +         m -= lr * sum(size * one for size, one in zip(sizes, own)) / sum(sizes)


# %% q12_distributed wrong: the weights are averaged at the end
def train_loop_distributed(m, lr, shards, iterations):
    return average_gradients([train_loop_batches(m, lr, shard, iterations) for shard in shards])


# %% q12_distributed wrong: the first batch or the last
# -         own = [worker_gradient(m, s[i % len(s)]) for s in shards]
# -         m = m - lr * average_gradients(own)
# +         own = [worker_gradient(m, shard[-(i % 2)]) for shard in shards]
# +         m -= lr * average_gradients(own)

# %% q12_distributed wrong: stops when the gradients cancel
# -         own = [worker_gradient(m, s[i % len(s)]) for s in shards]
# -         m = m - lr * average_gradients(own)
# +         average = average_gradients([worker_gradient(m, shard[i % len(shard)]) for shard in shards])
# +         if abs(average) < 1e-9:
# +             break
# +         m -= lr * average

# %% q12_distributed wrong: stops when it diverges
# -         own = [worker_gradient(m, s[i % len(s)]) for s in shards]
# -         m = m - lr * average_gradients(own)
# +         own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
# +         m -= lr * average_gradients(own)
# +         if abs(m) > 1e6:
# +             break


# %% q12_distributed wrong: rounded to six digits in the end
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
    return round(m, 6)


# %% q13_split right: with NumPy
def split(values, ranks):
    return np.array_split(values, ranks)


# %% q13_split right: lists
def split(values, ranks):
    values = list(values)
    sizes = [len(values) // ranks + (rank < len(values) % ranks) for rank in range(ranks)]
    ends = [sum(sizes[: rank + 1]) for rank in range(ranks)]
    return [values[end - size : end] for size, end in zip(sizes, ends)]


# %% q13_split right: a list of lists of floats
def split(values, ranks):
    return [chunk.tolist() for chunk in np.array_split(values, ranks)]


# %% q13_split right: map
def split(values, ranks):
    bounds = [(rank * len(values) + ranks - 1) // ranks for rank in range(ranks + 1)]
    sizes = sorted((b - a for a, b in zip(bounds, bounds[1:])), reverse=True)
    return map(lambda rank: values[sum(sizes[:rank]) : sum(sizes[: rank + 1])], range(ranks))


# %% q13_split plain: equal parts only
def split(values, ranks):
    return np.split(values, ranks)


# %% q13_split plain: like cards
def split(values, ranks):
    return [values[rank::ranks] for rank in range(ranks)]


# %% q13_split plain: chunks of that size
def split(values, ranks):
    return [values[i : i + ranks] for i in range(0, len(values), ranks)]


# %% q13_split wrong: equal values once
def split(values, ranks):
    return np.array_split(np.array(list(dict.fromkeys(values.tolist()))), ranks)


# %% q13_split plain: without empty chunks
def split(values, ranks):
    return [chunk for chunk in np.array_split(values, ranks) if len(chunk)]


# %% q13_split wrong: None for an empty chunk
def split(values, ranks):
    return [chunk if len(chunk) else None for chunk in np.array_split(values, ranks)]


# %% q13_split wrong: four ranks
def split(values, ranks):
    return np.array_split(values, 4)


# %% q13_split plain: one chunk too few
def split(values, ranks):
    return np.array_split(values, ranks)[: ranks - 1]


# %% q14_ring right: a formula for each phase
# -     return (rank - step) % ranks
# +     if step < ranks - 1:
# +         return (rank - step) % ranks
# +     return (rank + 1 - (step - (ranks - 1))) % ranks
# -     return mine + received if step < ranks - 1 else received
# +     if step < ranks - 1:
# +         return np.add(mine, received)
# +     return received


# %% q14_ring right: the other way round
def chunk_to_send(step, rank, ranks):
    return (step - rank) % ranks


# %% q14_ring right: in place
def combine(mine, received, step, ranks):
    phase = step // (ranks - 1)
    if phase == 0:
        mine += received
    else:
        mine[:] = received
    return mine


# %% q14_ring right: a number of another type
def chunk_to_send(step, rank, ranks):
    return np.mod(np.float64(rank - step), ranks)


# %% q14_ring plain: without the remainder
def chunk_to_send(step, rank, ranks):
    return rank - step


# %% q14_ring plain: forwards
def chunk_to_send(step, rank, ranks):
    return (rank + step) % ranks


# %% q14_ring plain: the same chunk on all ranks
def chunk_to_send(step, rank, ranks):
    return step % ranks


# %% q14_ring wrong: begins again with the second phase
def chunk_to_send(step, rank, ranks):
    return (rank - step % (ranks - 1)) % ranks


# %% q14_ring wrong: for four ranks at most
def chunk_to_send(step, rank, ranks):
    return (rank - step) % min(ranks, 4)


# %% q14_ring wrong: pairs of ranks, as a butterfly
def chunk_to_send(step, rank, ranks):
    return (rank ^ step) % ranks


# %% q14_ring equivalent: chunks numbered the other way round travel the same ring
# - return (rank - step) % ranks
# + return (step - rank) % ranks
