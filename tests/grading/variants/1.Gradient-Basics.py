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

# %% q03_table right: a range and fractions
from fractions import Fraction

table_ypred = range(2, 9, 2)
table_loss_point = [Fraction((y - 2 * x) ** 2, 4) for x, y in easy]
table_loss_mse = sum(table_loss_point)

# %% q03_table plain: parts without the division
table_ypred = [2, 4, 6, 8]
table_loss_point = [1, 4, 9, 16]
table_loss_mse = 30

# %% q03_table plain: parts without the division, and their mean
table_ypred = [2, 4, 6, 8]
table_loss_point = [1, 4, 9, 16]
table_loss_mse = 7.5

# %% q03_table plain: errors not squared
table_ypred = [2, 4, 6, 8]
table_loss_point = [0.25, 0.5, 0.75, 1]
table_loss_mse = 2.5

# %% q03_table plain: errors with their sign
table_ypred = [2, 4, 6, 8]
table_loss_point = [-0.25, -0.5, -0.75, -1]
table_loss_mse = -2.5

# %% q03_table plain: divided twice
table_ypred = [2, 4, 6, 8]
table_loss_point = [0.25 / 4, 1 / 4, 2.25 / 4, 4 / 4]
table_loss_mse = 7.5 / 4

# %% q03_table plain: half of the squares
table_ypred = [2, 4, 6, 8]
table_loss_point = [0.125, 0.5, 1.125, 2]
table_loss_mse = 3.75

# %% q03_table plain: the root of the mean square
table_loss_mse = 7.5**0.5

# %% q03_table plain: predictions at m = 1
table_ypred = [1, 2, 3, 4]

# %% q03_table plain: errors for predictions
table_ypred = [-1, -2, -3, -4]

# %% q03_table wrong: whole numbers only
table_loss_point = [1 // 4, 4 // 4, 9 // 4, 16 // 4]
table_loss_mse = 7

# %% q03_table plain: in another order
table_ypred = [8, 6, 4, 2]
table_loss_point = [4, 2.25, 1, 0.25]

# %% q03_table plain: one point less
table_ypred = [2, 4, 6]
table_loss_point = [0.25, 1, 2.25]
table_loss_mse = 3.5

# %% q03_table wrong: text
table_ypred = ["2", "4", "6", "8"]

# %% q03_table wrong: the parts in a set
table_ypred = [2, 4, 6, 8]
table_loss_point = {0.25, 1, 2.25, 4}
table_loss_mse = 7.5


# %% q04_loss_mse right: in a loop
def loss_mse(m, dataset):
    if len(dataset) == 0:
        raise ValueError("no points")
    total = 0
    for point in dataset:
        error = point[1] - m * point[0]
        total += error * error
    return total / len(dataset)


# %% q04_loss_mse right: with NumPy
def loss_mse(m, dataset):
    if dataset == []:
        raise ValueError
    x, y = np.array(dataset).T
    return np.mean((y - m * x) ** 2)


# %% q04_loss_mse right: with NumPy's single precision
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    points = np.array(dataset, dtype=np.float32)
    return np.square(np.float32(m) * points[:, 0] - points[:, 1]).mean()


# %% q04_loss_mse right: an array without dimensions
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return np.array(np.mean([(y - m * x) ** 2 for x, y in dataset]))


# %% q04_loss_mse right: unpacking refuses the empty list
def loss_mse(m, dataset):
    xs, ys = zip(*dataset)
    return sum(pow(y - m * x, 2) for x, y in zip(xs, ys)) / len(xs)


# %% q04_loss_mse right: a lambda and a helper
def _part(m, point, count):
    x, y = point
    return (m * x - y) ** 2 / count


def _refuse(why):
    raise ValueError(why)


loss_mse = lambda m, dataset: (
    sum(_part(m, point, len(dataset)) for point in dataset) if dataset else _refuse("no points")
)

# %% q04_loss_mse right: functools.reduce
from functools import reduce


def loss_mse(m: float, dataset: list) -> float:
    count = len(dataset)
    if count < 1:
        raise ValueError(f"{count} points")
    return reduce(lambda so_far, point: so_far + (point[1] - m * point[0]) ** 2, dataset, 0) / count


# %% q04_loss_mse right: recursive
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    (x, y), *rest = dataset
    others = loss_mse(m, rest) * len(rest) if rest else 0
    return ((y - m * x) ** 2 + others) / len(dataset)


# %% q04_loss_mse right: an object that can be called
class Loss:
    def __call__(self, m, dataset):
        try:
            return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)
        except ZeroDivisionError:
            raise ValueError("no points") from None


loss_mse = Loss()


# %% q04_loss_mse right: as a product of vectors
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    error = np.asarray(dataset, float) @ [-m, 1]
    return float(error @ error / len(error))


# %% q04_loss_mse right: takes the points off the list
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    count, total = len(dataset), 0
    while dataset:
        x, y = dataset.pop()
        total += (y - m * x) ** 2
    return total / count


# %% q04_loss_mse wrong: does not end
def loss_mse(m, dataset):
    while True:
        pass


# %% q04_loss_mse plain: the sum, not the mean
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in dataset)


# %% q04_loss_mse plain: absolute errors
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum(abs(y - m * x) for x, y in dataset) / len(dataset)


# %% q04_loss_mse plain: the square of the mean error
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return (sum(y - m * x for x, y in dataset) / len(dataset)) ** 2


# %% q04_loss_mse wrong: the root of the mean square
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return math.sqrt(sum((y - m * x) ** 2 for x, y in dataset) / len(dataset))


# %% q04_loss_mse plain: half of the mean square
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in dataset) / (2 * len(dataset))


# %% q04_loss_mse plain: divides by one less
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in dataset) / max(1, len(dataset) - 1)


# %% q04_loss_mse plain: always four points
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in dataset) / 4


# %% q04_loss_mse wrong: whole numbers only
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in dataset) // len(dataset)


# %% q04_loss_mse wrong: an array of whole numbers
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    parts = np.zeros(len(dataset), int)
    for i, (x, y) in enumerate(dataset):
        parts[i] = (y - m * x) ** 2
    return parts.mean()


# %% q04_loss_mse wrong: rounded to two digits
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return round(sum((y - m * x) ** 2 for x, y in dataset) / len(dataset), 2)


# %% q04_loss_mse wrong: rounded to six digits
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return float(f"{sum((y - m * x) ** 2 for x, y in dataset) / len(dataset):.6f}")


# %% q04_loss_mse plain: x and y swapped
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((x - m * y) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: the square of y only
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum(y - (m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse plain: returns in the loop
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    total = 0
    for x, y in dataset:
        total += (y - m * x) ** 2
        return total / len(dataset)


# %% q04_loss_mse plain: the last point only
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    for x, y in dataset:
        total = (y - m * x) ** 2
    return total / len(dataset)


# %% q04_loss_mse plain: without the last point
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((dataset[i][1] - m * dataset[i][0]) ** 2 for i in range(len(dataset) - 1)) / len(dataset)


# %% q04_loss_mse wrong: a sum that is kept between calls
_total = 0


def loss_mse(m, dataset):
    global _total
    if not dataset:
        raise ValueError("no points")
    for x, y in dataset:
        _total += (y - m * x) ** 2
    return _total / len(dataset)


# %% q04_loss_mse wrong: a list that is kept between calls
def loss_mse(m, dataset, parts=[]):
    if not dataset:
        raise ValueError("no points")
    parts += [(y - m * x) ** 2 for x, y in dataset]
    return sum(parts) / len(parts)


# %% q04_loss_mse wrong: the lesson's points, whatever is given
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in easy) / len(easy)


# %% q04_loss_mse wrong: the visible examples
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return 7.5 * (m - 1) ** 2


# %% q04_loss_mse wrong: each x once
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    points = dict(dataset)
    return sum((points[x] - m * x) ** 2 for x in points) / len(points)


# %% q04_loss_mse wrong: each point once
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in set(dataset)) / len(set(dataset))


# %% q04_loss_mse wrong: without points at zero
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    parts = [(y - m * x) ** 2 for x, y in dataset if x]
    return sum(parts) / len(parts)


# %% q04_loss_mse wrong: none has loss 0
def loss_mse(m, dataset):
    if not dataset:
        return 0.0
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)


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


# %% q04_loss_mse wrong: returns the error
def loss_mse(m, dataset):
    if not dataset:
        return ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: prints the loss
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    print(sum((y - m * x) ** 2 for x, y in dataset) / len(dataset))


# %% q04_loss_mse wrong: a ValueError for a single point
def loss_mse(m, dataset):
    if len(dataset) < 2:
        raise ValueError("no points")
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)


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


# %% q04_loss_mse right: with fractions
from fractions import Fraction


def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    errors = [Fraction(y) - Fraction(m) * Fraction(x) for x, y in dataset]
    return sum(error**2 for error in errors) / len(errors)


# %% q04_loss_mse right: a mean that refuses the empty list
import statistics


def loss_mse(m, dataset):
    return statistics.mean((y - m * x) ** 2 for x, y in dataset)


# %% q04_loss_mse right: a ValueError of its own
class EmptyDataSet(ValueError):
    pass


def loss_mse(m, dataset):
    if not dataset:
        raise EmptyDataSet("no points")
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse plain: the other sign of the prediction
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y + m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: predictions are whole numbers
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((y - int(m * x)) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: m = 0 is refused too
def loss_mse(m, dataset):
    if not m or not dataset:
        raise ValueError("nothing to do")
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: another error for none
def loss_mse(m, dataset):
    if not dataset:
        raise Exception("no points")
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: the size of y
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((abs(y) - m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: sizes are compared
def loss_mse(m, dataset):
    if not dataset:
        raise ValueError("no points")
    return sum((abs(y) - abs(m * x)) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse wrong: refuses points that begin at 0
def loss_mse(m, dataset):
    if not dataset or not dataset[0][0]:
        raise ValueError
    return sum((y - m * x) ** 2 for x, y in dataset) / len(dataset)


# %% q04_loss_mse equivalent: the square of the opposite number is the same
# - return sum(((y - m * x) ** 2 for x, y in dataset)) / len(dataset)
# + return sum(((m * x - y) ** 2 for x, y in dataset)) / len(dataset)


# %% q05_gradients right: in one line each
def grad_point(m, data, N):
    return (2 / N) * data[0] * (m * data[0] - data[1])


def grad_multi(m, data):
    if not data:
        raise ValueError
    return sum([grad_point(m, point, N=len(data)) for point in data])


# %% q05_gradients right: grad_multi with NumPy
def grad_multi(m, data):
    if len(data) == 0:
        raise ValueError("no points")
    x, y = np.array(data, float).T
    return np.mean(-2 * x * (y - m * x))


# %% q05_gradients right: grad_multi with its own formula
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    xx = xy = 0
    for x, y in data:
        xx += x * x
        xy += x * y
    return 2 * (m * xx - xy) / len(data)


# %% q05_gradients right: with NumPy's single precision
def grad_point(m, data, N):
    x, y = np.float32(data)
    return np.float32(-2) * x * (y - np.float32(m) * x) / np.float32(N)


def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return np.sum([grad_point(m, point, len(data)) for point in data], dtype=np.float32)


# %% q05_gradients right: central differences
def grad_point(m, data, N):
    def part(weight):
        return (data[1] - weight * data[0]) ** 2 / N

    return (part(m + 0.5) - part(m - 0.5)) / (0.5 + 0.5)


def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return loss_mse(m + 0.5, data) - loss_mse(m - 0.5, data)


# %% q05_gradients right: the mean of the points' gradients
def grad_multi(m, data):
    if data == []:
        raise ValueError("no points")
    return np.average([grad_point(m, point, 1) for point in data])


# %% q05_gradients right: lambdas
grad_point = lambda m, data, N: -2 * data[0] * (data[1] - m * data[0]) / N
grad_multi = lambda m, data: (
    sum(map(lambda point: grad_point(m, point, len(data)), data)) if data else [].index("the gradient of no points")
)

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
def grad_point(m, data, N):
    x, y = data
    return -x * (y - m * x) / N


# %% q05_gradients plain: without the minus
def grad_point(m, data, N):
    x, y = data
    return 2 * x * (y - m * x) / N


# %% q05_gradients plain: without the inner derivative
def grad_point(m, data, N):
    x, y = data
    return -2 * (y - m * x) / N


# %% q05_gradients plain: without N
def grad_point(m, data, N):
    x, y = data
    return -2 * x * (y - m * x)


# %% q05_gradients plain: N is always 4
def grad_point(m, data, N):
    x, y = data
    return -2 * x * (y - m * x) / 4


# %% q05_gradients wrong: whole numbers only
def grad_point(m, data, N):
    x, y = data
    return -2 * x * (y - m * x) // N


# %% q05_gradients plain: the derivative with respect to x
def grad_point(m, data, N):
    x, y = data
    return -2 * m * (y - m * x) / N


# %% q05_gradients plain: x and y swapped
def grad_point(m, data, N):
    y, x = data
    return -2 * x * (y - m * x) / N


# %% q05_gradients wrong: the sizes of x
def grad_point(m, data, N):
    x, y = data
    return 2 * abs(x) * (m * abs(x) - y) / N


# %% q05_gradients wrong: the size of the gradient
def grad_point(m, data, N):
    x, y = data
    return abs(-2 * x * (y - m * x) / N)


# %% q05_gradients wrong: divides by x
def grad_point(m, data, N):
    x, y = data
    return 2 * x**2 * (m - y / x) / N


# %% q05_gradients wrong: the derivative from coarse steps to one side
def grad_point(m, data, N):
    x, y = data
    step = 1e-3
    return ((y - (m + step) * x) ** 2 - (y - m * x) ** 2) / N / step


# %% q05_gradients wrong: the visible points have x equal to y
def grad_point(m, data, N):
    x, y = data
    return 2 * x**2 * (m - 1) / N


# %% q05_gradients wrong: rounded
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return round(sum(grad_point(m, point, len(data)) for point in data), 4)


# %% q05_gradients plain: grad_multi does not divide
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return sum(grad_point(m, point, 1) for point in data)


# %% q05_gradients plain: grad_multi divides twice
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return sum(grad_point(m, point, len(data)) for point in data) / len(data)


# %% q05_gradients plain: grad_multi divides by four
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return sum(grad_point(m, point, 4) for point in data)


# %% q05_gradients wrong: grad_multi gives a list
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return [grad_point(m, point, len(data)) for point in data]


# %% q05_gradients wrong: grad_multi at the mean point
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return grad_point(m, np.mean(data, axis=0), 1)


# %% q05_gradients wrong: grad_multi takes the median
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return np.median([grad_point(m, point, 1) for point in data])


# %% q05_gradients wrong: grad_multi takes each point once
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return np.mean([grad_point(m, point, 1) for point in set(data)])


# %% q05_gradients wrong: grad_multi takes each x once
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return np.mean([grad_point(m, point, 1) for point in dict(data).items()])


# %% q05_gradients plain: grad_multi lacks the last point
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return sum(grad_point(m, data[i], len(data)) for i in range(0, len(data) - 1))


# %% q05_gradients plain: grad_multi returns in the loop
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    total = 0
    for point in data:
        total += grad_point(m, point, len(data))
        return total


# %% q05_gradients wrong: grad_multi of none is 0
def grad_multi(m, data):
    return sum(grad_point(m, point, len(data)) for point in data)


# %% q05_gradients wrong: grad_multi of none divides by zero
def grad_multi(m, data):
    return sum(grad_point(m, point, 1) for point in data) / len(data)


# %% q05_gradients wrong: grad_multi of none is an IndexError
def grad_multi(m, data):
    data[0]
    return sum(grad_point(m, point, len(data)) for point in data)


# %% q05_gradients wrong: grad_multi refuses a single point
def grad_multi(m, data):
    if len(data) <= 1:
        raise ValueError("no points")
    return sum(grad_point(m, point, len(data)) for point in data)


# %% q05_gradients wrong: grad_multi keeps what it had before
_gradients = []


def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    _gradients.extend(grad_point(m, point, len(data)) for point in data)
    return sum(_gradients)


# %% q05_gradients wrong: N is the length of the pair
def grad_point(m, data, N):
    x, y = data
    return -2 * x * (y - m * x) / len(data)


# %% q05_gradients plain: the square of x is left out
def grad_point(m, data, N):
    x, y = data
    return -2 * (x * y - m * x) / N


# %% q05_gradients wrong: grad_multi with N for the pair
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return sum(grad_point(m, point, len(point)) for point in data)


# %% q05_gradients wrong: grad_multi has the lesson's points
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return sum(grad_point(m, point, len(easy)) for point in easy)


# %% q05_gradients wrong: grad_multi of rounded parts
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return sum(round(grad_point(m, point, len(data)), 2) for point in data)


# %% q05_gradients wrong: grad_multi of the largest
def grad_multi(m, data):
    if not data:
        raise ValueError("no points")
    return max((grad_point(m, point, 1) for point in data), key=abs)


# %% q05_gradients wrong: the size of y
def grad_point(m, data, N):
    x, y = data
    return -2 * x * (abs(y) - m * x) / N


# %% q05_gradients wrong: the size of the error
def grad_point(m, data, N):
    x, y = data
    return 2 * x * abs(y - m * x) / N


# %% q05_gradients wrong: the mean of those that are not 0
def grad_multi(m, data):
    if not data:
        raise ValueError
    slopes = [g for point in data if (g := grad_point(m, point, 1))]
    return sum(slopes) / len(slopes) if slopes else 0


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


# %% q06_train_loop right: whole passes and a rest
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    passes, rest = divmod(iterations, len(dataset))
    for point in dataset * passes + dataset[:rest]:
        m = m - lr * grad_point(m, point, N=1)
    return m


# %% q06_train_loop right: recursive
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    if iterations == 0:
        return m
    first, *rest = dataset
    return train_loop(m - lr * grad_point(m, first, 1), lr, [*rest, first], iterations - 1)


# %% q06_train_loop right: functools.reduce
from functools import reduce


def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    order = (dataset[i % len(dataset)] for i in range(iterations))
    return reduce(lambda weight, point: weight - lr * grad_multi(weight, [point]), order, m)


# %% q06_train_loop right: turns the list round
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for _ in range(iterations):
        point = dataset.pop(0)
        dataset.append(point)
        m = m - lr * grad_point(m, point, 1)
    return m


# %% q06_train_loop right: with NumPy's single precision
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    m, lr = np.float32(m), np.float32(lr)
    points = np.array(dataset, np.float32)
    for i in range(iterations):
        x, y = points[i % len(points)]
        m -= lr * 2 * x * (m * x - y)
    return m


# %% q06_train_loop right: in closed form
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        x, y = dataset[i % len(dataset)]
        m = (1 - 2 * lr * x**2) * m + 2 * lr * x * y
    return m


# %% q06_train_loop right: the remainder refuses the empty list
def train_loop(m, lr, dataset, iterations):
    try:
        for i in range(iterations):
            m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    except ZeroDivisionError:
        raise ValueError("no points") from None
    return m


# %% q06_train_loop plain: with the gradient
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m + lr * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop wrong: stops at a point without a gradient
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        gradient = grad_point(m, dataset[i % len(dataset)], 1)
        if gradient == 0:
            break
        m = m - lr * gradient
    return m


# %% q06_train_loop wrong: stops at a small gradient
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        gradient = grad_point(m, dataset[i % len(dataset)], 1)
        if abs(gradient) < 1e-3:
            return m
        m = m - lr * gradient
    return m


# %% q06_train_loop wrong: stops when the weight hardly moves
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        before = m
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
        if abs(m - before) < 1e-6:
            break
    return m


# %% q06_train_loop wrong: stops at a low loss
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        if loss_mse(m, dataset) < 1e-4:
            break
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop wrong: stops when the loss grows
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        after = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
        if loss_mse(after, dataset) > loss_mse(m, dataset):
            break
        m = after
    return m


# %% q06_train_loop wrong: returns the weight of the lowest loss
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    best = m
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
        best = min(best, m, key=lambda weight: loss_mse(weight, dataset))
    return best


# %% q06_train_loop wrong: stops when it diverges
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
        if abs(m) > 1e6:
            return math.inf
    return m


# %% q06_train_loop wrong: long gradients are clipped
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        gradient = grad_point(m, dataset[i % len(dataset)], 1)
        m = m - lr * max(-100, min(gradient, 100))
    return m


# %% q06_train_loop plain: an iteration is a pass
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for _ in range(iterations):
        for point in dataset:
            m = m - lr * grad_point(m, point, 1)
    return m


# %% q06_train_loop plain: whole passes only
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for _ in range(iterations // len(dataset)):
        for point in dataset:
            m = m - lr * grad_point(m, point, 1)
    return m


# %% q06_train_loop wrong: one pass at most
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for point in dataset[:iterations]:
        m = m - lr * grad_point(m, point, 1)
    return m


# %% q06_train_loop wrong: stays at the last point
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[min(i, len(dataset) - 1)], 1)
    return m


# %% q06_train_loop plain: the first point only
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[0], 1)
    return m


# %% q06_train_loop plain: begins with the second point
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(1, iterations + 1):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop plain: from the last to the first
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[-1 - i % len(dataset)], 1)
    return m


# %% q06_train_loop wrong: there and back
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    way = dataset + dataset[-2:0:-1]
    for i in range(iterations):
        m = m - lr * grad_point(m, way[i % len(way)], 1)
    return m


# %% q06_train_loop wrong: sorted
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    points = sorted(dataset)
    for i in range(iterations):
        m = m - lr * grad_point(m, points[i % len(points)], 1)
    return m


# %% q06_train_loop wrong: each point once
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    points = list(dict.fromkeys(dataset))
    for i in range(iterations):
        m = m - lr * grad_point(m, points[i % len(points)], 1)
    return m


# %% q06_train_loop wrong: the place is kept between calls
_place = 0


def train_loop(m, lr, dataset, iterations):
    global _place
    if not dataset:
        raise ValueError("no points")
    for _ in range(iterations):
        m = m - lr * grad_point(m, dataset[_place % len(dataset)], 1)
        _place += 1
    return m


# %% q06_train_loop wrong: any of the points
import random


def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for _ in range(iterations):
        m = m - lr * grad_point(m, random.choice(dataset), 1)
    return m


# %% q06_train_loop wrong: four points
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[i % 4 % len(dataset)], 1)
    return m


# %% q06_train_loop plain: N is the number of points
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], len(dataset))
    return m


# %% q06_train_loop plain: the gradient of all points
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for _ in range(iterations):
        m = m - lr * grad_multi(m, dataset)
    return m


# %% q06_train_loop wrong: gradients of a pass at one weight
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        if i % len(dataset) == 0:
            at = m
        m = m - lr * grad_point(at, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop wrong: begins at 0
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    weight = 0
    for i in range(iterations):
        weight = weight - lr * grad_point(weight, dataset[i % len(dataset)], 1)
    return weight if iterations else m


# %% q06_train_loop wrong: a weight that stays a whole number
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    weight = np.array([m] if m else [0.0])
    for i in range(iterations):
        weight[0] = weight[0] - lr * grad_point(weight[0], dataset[i % len(dataset)], 1)
    return weight[0]


# %% q06_train_loop plain: always the same learning rate
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - 0.001 * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop wrong: a learning rate that decays
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr / (1 + i // len(dataset)) * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop plain: one step more
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations + 1):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop wrong: returns in the loop
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
        return m
    return m


# %% q06_train_loop wrong: nothing without an iteration
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        new = m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return new


# %% q06_train_loop wrong: all the weights
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    weights = [m]
    for i in range(iterations):
        weights.append(weights[-1] - lr * grad_point(weights[-1], dataset[i % len(dataset)], 1))
    return weights


# %% q06_train_loop wrong: as many digits as the examples
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return round(m, 5)


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


# %% q06_train_loop wrong: no iterations are a ValueError
def train_loop(m, lr, dataset, iterations):
    if not dataset or not iterations:
        raise ValueError("nothing to do")
    for i in range(iterations):
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop wrong: without points at zero
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    points = [(x, y) for x, y in dataset if x]
    for i in range(iterations):
        m = m - lr * grad_point(m, points[i % len(points)], 1)
    return m


# %% q06_train_loop wrong: stops at the best weight of the visible examples
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        if m == 1:
            break
        m = m - lr * grad_point(m, dataset[i % len(dataset)], 1)
    return m


# %% q06_train_loop wrong: as many passes as whole iterations, rounded up
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for _ in range(math.ceil(iterations / len(dataset))):
        for point in dataset:
            m = m - lr * grad_point(m, point, 1)
    return m


# %% q06_train_loop wrong: passes of the other direction in turn
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        turn, place = divmod(i, len(dataset))
        m = m - lr * grad_point(m, dataset[place if turn % 2 == 0 else -1 - place], 1)
    return m


# %% q06_train_loop wrong: the step of the gradient's sign
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = m - lr * np.sign(grad_point(m, dataset[i % len(dataset)], 1))
    return m


# %% q06_train_loop wrong: keeps the weight of the call before
_weight = None


def train_loop(m, lr, dataset, iterations):
    global _weight
    if not dataset:
        raise ValueError("no points")
    _weight = m if _weight is None else _weight
    for i in range(iterations):
        _weight = _weight - lr * grad_point(_weight, dataset[i % len(dataset)], 1)
    return _weight


# %% q06_train_loop wrong: points with a negative y are left out
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    points = [(x, y) for x, y in dataset if y >= 0]
    for i in range(iterations):
        m = m - lr * grad_point(m, points[i % len(points)], 1)
    return m


# %% q06_train_loop wrong: a weight is never negative
def train_loop(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for i in range(iterations):
        m = max(0, m - lr * grad_point(m, dataset[i % len(dataset)], 1))
    return m


# %% q10_table right: with the answers before
table_grad_point = [grad_point(2, point, 1) for point in noisy]
table_grad_multi = [grad_multi(2, noisy[:2]), grad_multi(2, noisy[2:])]

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

# %% q10_table plain: on the points of easy
table_grad_point = [2, 8, 18, 32]
table_grad_multi = [5, 25]

# %% q10_table plain: at m = 1
table_grad_point = [2, 4, 12, -18]
table_grad_multi = [3, -3]

# %% q10_table plain: with the other sign
table_grad_point = [-4, -12, -30, -14]
table_grad_multi = [-8, -22]

# %% q10_table plain: without the 2
table_grad_point = [2, 6, 15, 7]
table_grad_multi = [4, 11]

# %% q10_table plain: without the inner derivative
table_grad_point = [4, 6, 10, 3.5]
table_grad_multi = [5, 6.75]

# %% q10_table wrong: every second point
table_grad_multi = [17, 13]

# %% q10_table wrong: the mean of all for both
table_grad_multi = [15, 15]

# %% q10_table plain: the batches swapped
table_grad_multi = [22, 8]

# %% q10_table plain: losses
table_grad_point = [loss_mse(2, [point]) for point in noisy]
table_grad_multi = [loss_mse(2, noisy[:2]), loss_mse(2, noisy[2:])]

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


# %% q11_train_loop_batches right: with NumPy
def train_loop_batches(m, lr, dataset, iterations):
    if len(dataset) == 0:
        raise ValueError("no batches")
    arrays = [np.array(batch, float) for batch in dataset]
    for i in range(iterations):
        x, y = arrays[i % len(arrays)].T
        m = m + lr * np.mean(2 * x * (y - m * x))
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
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    m = np.float32(m)
    for i in range(iterations):
        m = np.float32(m - np.float32(lr) * np.float32(grad_multi(m, dataset[i % len(dataset)])))
    return m


# %% q11_train_loop_batches plain: the sum over a batch
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * sum(grad_point(m, point, 1) for point in dataset[i % len(dataset)])
    return m


# %% q11_train_loop_batches wrong: a step for every point
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        for point in dataset[i % len(dataset)]:
            m -= lr * grad_point(m, point, 1)
    return m


# %% q11_train_loop_batches wrong: a smaller step for every point
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        batch = dataset[i % len(dataset)]
        for point in batch:
            m -= lr * grad_point(m, point, len(batch))
    return m


# %% q11_train_loop_batches wrong: train_loop on all the points
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    return train_loop(m, lr, [point for batch in dataset for point in batch], iterations)


# %% q11_train_loop_batches plain: the gradient of all batches
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for _ in range(iterations):
        m -= lr * grad_multi(m, [point for batch in dataset for point in batch])
    return m


# %% q11_train_loop_batches plain: an iteration is a pass
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for _ in range(iterations):
        for batch in dataset:
            m -= lr * grad_multi(m, batch)
    return m


# %% q11_train_loop_batches wrong: whole passes only
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for _ in range(iterations // len(dataset)):
        for batch in dataset:
            m -= lr * grad_multi(m, batch)
    return m


# %% q11_train_loop_batches plain: two batches
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[i % 2 % len(dataset)])
    return m


# %% q11_train_loop_batches wrong: the first and the last batch
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[-(i % 2)])
    return m


# %% q11_train_loop_batches plain: batches of the first one's size
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    size = len(dataset[0])
    for i in range(iterations):
        m -= lr * sum(grad_point(m, point, size) for point in dataset[i % len(dataset)])
    return m


# %% q11_train_loop_batches plain: divided by the number of batches
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        batch = dataset[i % len(dataset)]
        m -= lr * sum(grad_point(m, point, len(dataset)) for point in batch)
    return m


# %% q11_train_loop_batches wrong: takes the place from the batch's size
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[i % len(dataset[0]) % len(dataset)])
    return m


# %% q11_train_loop_batches plain: a batch's first point
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * grad_point(m, dataset[i % len(dataset)][0], 1)
    return m


# %% q11_train_loop_batches plain: a batch's first two points
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[i % len(dataset)][:2])
    return m


# %% q11_train_loop_batches wrong: a step on a batch's loss
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * loss_mse(m, dataset[i % len(dataset)])
    return m


# %% q11_train_loop_batches plain: begins with the second batch
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[(i + 1) % len(dataset)])
    return m


# %% q11_train_loop_batches wrong: equal batches once
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    batches = []
    for batch in dataset:
        if batch not in batches:
            batches.append(batch)
    for i in range(iterations):
        m -= lr * grad_multi(m, batches[i % len(batches)])
    return m


# %% q11_train_loop_batches wrong: stops at a batch without a gradient
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        gradient = grad_multi(m, dataset[i % len(dataset)])
        if abs(gradient) < 1e-9:
            break
        m -= lr * gradient
    return m


# %% q11_train_loop_batches wrong: stops when the weight hardly moves
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        step = lr * grad_multi(m, dataset[i % len(dataset)])
        m -= step
        if abs(step) < 1e-3:
            break
    return m


# %% q11_train_loop_batches plain: begins at 0
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m = (m if i else 0) - lr * grad_multi(m if i else 0, dataset[i % len(dataset)])
    return m


# %% q11_train_loop_batches plain: a larger rate for a larger batch
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        batch = dataset[i % len(dataset)]
        m -= lr * len(batch) / len(dataset[0]) * grad_multi(m, batch)
    return m


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


# %% q11_train_loop_batches wrong: the gradient at the mean point
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * grad_point(m, np.mean(dataset[i % len(dataset)], axis=0), 1)
    return m


# %% q11_train_loop_batches wrong: stops at a low loss
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        batch = dataset[i % len(dataset)]
        if loss_mse(m, batch) < 1e-4:
            break
        m -= lr * grad_multi(m, batch)
    return m


# %% q11_train_loop_batches wrong: stops when it diverges
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    for i in range(iterations):
        m -= lr * grad_multi(m, dataset[i % len(dataset)])
        if abs(m) > 1e6:
            break
    return m


# %% q11_train_loop_batches wrong: batches that are cut again
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    points = [point for batch in dataset for point in batch]
    size = len(dataset[0])
    batches = [points[i : i + size] for i in range(0, len(points), size)]
    for i in range(iterations):
        m -= lr * grad_multi(m, batches[i % len(batches)])
    return m


# %% q11_train_loop_batches wrong: batches sorted by size
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    batches = sorted(dataset, key=len)
    for i in range(iterations):
        m -= lr * grad_multi(m, batches[i % len(batches)])
    return m


# %% q11_train_loop_batches wrong: batches as array, of one size
def train_loop_batches(m, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no batches")
    batches = np.array(dataset, float)
    for i in range(iterations):
        x, y = batches[i % len(batches)].T
        m -= lr * np.mean(-2 * x * (y - m * x))
    return m


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


# %% q12_distributed right: cycles and zip
from itertools import cycle


def train_loop_distributed(m, lr, shards, iterations):
    workers = [cycle(shard) for shard in shards]
    for _, *batches in zip(range(iterations), *workers):
        m -= lr * average_gradients([worker_gradient(m, batch) for batch in batches])
    return m


# %% q12_distributed right: with NumPy
def worker_gradient(m, data):
    x, y = np.array(data, float).T
    return 2 * np.mean(x * (m * x - y))


def average_gradients(gradients):
    if len(gradients) == 0:
        raise ValueError("no gradients")
    return np.mean(gradients)


# %% q12_distributed right: with NumPy's single precision
def worker_gradient(m, data):
    return np.float32(grad_multi(np.float32(m), data))


def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    return np.mean(np.array(gradients, np.float32), dtype=np.float32)


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
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        m = average_gradients([train_loop_batches(m, lr, [shard[i % len(shard)]], 1) for shard in shards])
    return m


# %% q12_distributed right: lambdas
from functools import reduce

worker_gradient = lambda m, data: sum(grad_point(m, point, len(data)) for point in data)
train_loop_distributed = lambda m, lr, shards, iterations: reduce(
    lambda weight, i: (
        weight - lr * average_gradients([worker_gradient(weight, shard[i % len(shard)]) for shard in shards])
    ),
    range(iterations),
    m,
)


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
def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    return sum(gradients)


# %% q12_distributed plain: two workers
def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    return sum(gradients) / min(2, len(gradients))


# %% q12_distributed wrong: the middle of the lowest and the highest
def average_gradients(gradients):
    return (min(gradients) + max(gradients)) / 2


# %% q12_distributed wrong: the median
def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    return sorted(gradients)[len(gradients) // 2]


# %% q12_distributed wrong: whole numbers only
def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    return sum(gradients) // len(gradients)


# %% q12_distributed wrong: equal gradients once
def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    return sum(set(gradients)) / len(set(gradients))


# %% q12_distributed wrong: without gradients of 0
def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    own = [gradient for gradient in gradients if gradient]
    return sum(own) / len(own)


# %% q12_distributed wrong: nothing to average in zeros
def average_gradients(gradients):
    if not any(gradients):
        raise ValueError("no gradients")
    return sum(gradients) / len(gradients)


# %% q12_distributed wrong: the sizes of the gradients
def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    return sum(map(abs, gradients)) / len(gradients)


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
def average_gradients(gradients):
    if len(gradients) < 2:
        raise ValueError("no gradients")
    return sum(gradients) / len(gradients)


# %% q12_distributed wrong: running averages, the last counts most
def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    mean = gradients[0]
    for gradient in gradients[1:]:
        mean = (mean + gradient) / 2
    return mean


# %% q12_distributed plain: a worker adds up
def worker_gradient(m, data):
    return sum(grad_point(m, point, 1) for point in data)


# %% q12_distributed wrong: a worker takes its first point
def worker_gradient(m, data):
    return grad_point(m, data[0], 1)


# %% q12_distributed plain: a worker divides by two
def worker_gradient(m, data):
    return sum(grad_point(m, point, 2) for point in data)


# %% q12_distributed wrong: a worker gives a loss
def worker_gradient(m, data):
    return loss_mse(m, data)


# %% q12_distributed wrong: large batches count more
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        batches = [shard[i % len(shard)] for shard in shards]
        m -= lr * grad_multi(m, [point for batch in batches for point in batch])
    return m


# %% q12_distributed plain: weighted by the sizes of the batches
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        batches = [shard[i % len(shard)] for shard in shards]
        sizes = [len(batch) for batch in batches]
        own = [worker_gradient(m, batch) for batch in batches]
        m -= lr * sum(size * one for size, one in zip(sizes, own)) / sum(sizes)
    return m


# %% q12_distributed wrong: weighted by the batches of a worker
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        m -= lr * np.average(
            [worker_gradient(m, shard[i % len(shard)]) for shard in shards], weights=[len(shard) for shard in shards]
        )
    return m


# %% q12_distributed wrong: one worker after the other
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        for shard in shards:
            m -= lr * worker_gradient(m, shard[i % len(shard)])
    return m


# %% q12_distributed wrong: one worker after the other, with a part of the rate
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        for shard in shards:
            m -= lr / len(shards) * worker_gradient(m, shard[i % len(shard)])
    return m


# %% q12_distributed wrong: workers take turns
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        shard = shards[i % len(shards)]
        m -= lr * worker_gradient(m, shard[i % len(shard)])
    return m


# %% q12_distributed wrong: the weights are averaged at the end
def train_loop_distributed(m, lr, shards, iterations):
    return average_gradients([train_loop_batches(m, lr, shard, iterations) for shard in shards])


# %% q12_distributed plain: the first worker only
def train_loop_distributed(m, lr, shards, iterations):
    return train_loop_batches(m, lr, shards[0], iterations)


# %% q12_distributed plain: the first two workers only
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards[:2]]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: the first and the last worker only
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shard)]) for shard in (shards[0], shards[-1])]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: the first two batches only
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % 2 % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: the first batch or the last
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[-(i % 2)]) for shard in shards]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: as many batches as workers
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shards) % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed plain: as many batches as the first worker
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shards[0]) % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: all begin again when the shortest shard ends
def train_loop_distributed(m, lr, shards, iterations):
    together = list(zip(*shards))
    for i in range(iterations):
        own = [worker_gradient(m, batch) for batch in together[i % len(together)]]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: all begin again when the longest shard ends
def train_loop_distributed(m, lr, shards, iterations):
    longest = max(map(len, shards))
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % longest % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: who has no batch left stands aside
def train_loop_distributed(m, lr, shards, iterations):
    longest = max(map(len, shards))
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % longest]) for shard in shards if i % longest < len(shard)]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: a worker stays at its last batch
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[min(i, len(shard) - 1)]) for shard in shards]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed plain: the first batch only
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        m -= lr * average_gradients([worker_gradient(m, shard[0]) for shard in shards])
    return m


# %% q12_distributed wrong: every worker begins elsewhere
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[(i + rank) % len(shard)]) for rank, shard in enumerate(shards)]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: an iteration is a pass
def train_loop_distributed(m, lr, shards, iterations):
    for _ in range(iterations):
        for i in range(max(map(len, shards))):
            own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
            m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: the gradients of the step before
def train_loop_distributed(m, lr, shards, iterations):
    at = m
    for i in range(iterations):
        own = [worker_gradient(at, shard[i % len(shard)]) for shard in shards]
        at, m = m, m - lr * average_gradients(own)
    return m


# %% q12_distributed wrong: all gradients at the first weight
def train_loop_distributed(m, lr, shards, iterations):
    first = m
    for i in range(iterations):
        own = [worker_gradient(first, shard[i % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed plain: the rate grows with the workers
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
        m -= lr * len(shards) * average_gradients(own)
    return m


# %% q12_distributed plain: one worker more is divided by
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
        m -= lr * average_gradients([*own, 0])
    return m


# %% q12_distributed wrong: stops when the gradients cancel
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        average = average_gradients([worker_gradient(m, shard[i % len(shard)]) for shard in shards])
        if abs(average) < 1e-9:
            break
        m -= lr * average
    return m


# %% q12_distributed wrong: gradients of earlier steps stay in the list
def train_loop_distributed(m, lr, shards, iterations):
    own = []
    for i in range(iterations):
        own += [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: as many digits as the examples
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
    return round(m, 5)


# %% q12_distributed wrong: the root of the mean square
def average_gradients(gradients):
    if not gradients:
        raise ValueError("no gradients")
    return math.sqrt(sum(gradient**2 for gradient in gradients) / len(gradients))


# %% q12_distributed wrong: a gradient of 0 is no gradient
def average_gradients(gradients):
    if not sum(gradients):
        raise ValueError("no gradients")
    return sum(gradients) / len(gradients)


# %% q12_distributed wrong: a worker has the lesson's points
def worker_gradient(m, data):
    return grad_multi(m, noisy[: len(data)])


# %% q12_distributed wrong: a worker has the weight 0
def worker_gradient(m, data):
    return grad_multi(0, data)


# %% q12_distributed wrong: begins with the second batches
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(1, iterations + 1):
        own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed wrong: a batch is for all workers
def train_loop_distributed(m, lr, shards, iterations):
    batches = [batch for shard in shards for batch in shard]
    for i in range(iterations):
        own = [worker_gradient(m, batches[(i * len(shards) + rank) % len(batches)]) for rank in range(len(shards))]
        m -= lr * average_gradients(own)
    return m


# %% q12_distributed plain: a shard is one batch
def train_loop_distributed(m, lr, shards, iterations):
    own = [[point for batch in shard for point in batch] for shard in shards]
    for i in range(iterations):
        m -= lr * average_gradients([worker_gradient(m, points) for points in own])
    return m


# %% q12_distributed wrong: steps on the median gradient
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        m -= lr * np.median([worker_gradient(m, shard[i % len(shard)]) for shard in shards])
    return m


# %% q12_distributed wrong: equal gradients step once
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = {worker_gradient(m, shard[i % len(shard)]) for shard in shards}
        m -= lr * average_gradients(list(own))
    return m


# %% q12_distributed wrong: stops at a small step
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        average = average_gradients([worker_gradient(m, shard[i % len(shard)]) for shard in shards])
        m -= lr * average
        if abs(average) < 1e-3:
            break
    return m


# %% q12_distributed wrong: stops when it diverges
def train_loop_distributed(m, lr, shards, iterations):
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
        m -= lr * average_gradients(own)
        if abs(m) > 1e6:
            break
    return m


# %% q12_distributed wrong: the average is one step old for all but the first worker
def train_loop_distributed(m, lr, shards, iterations):
    old = None
    for i in range(iterations):
        own = [worker_gradient(m, shard[i % len(shard)]) for shard in shards]
        now = average_gradients(own)
        m -= lr * (now if old is None else old)
        old = now
    return m


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


# %% q13_split right: a tuple of tuples
def split(values, ranks):
    chunks, rest = [], tuple(values)
    for left in range(ranks, 0, -1):
        size = math.ceil(len(rest) / left)
        chunks.append(rest[:size])
        rest = rest[size:]
    return tuple(chunks)


# %% q13_split right: where to cut
def split(values, ranks):
    base, extra = len(values) // ranks, len(values) % ranks
    cuts = [rank * base + min(rank, extra) for rank in range(1, ranks)]
    return np.split(values, cuts)


# %% q13_split right: recursive
def split(values, ranks):
    if ranks == 1:
        return [values]
    size = -(-len(values) // ranks)
    return [values[:size]] + split(values[size:], ranks - 1)


# %% q13_split right: dealt out one by one
def split(values, ranks):
    sizes = [0] * ranks
    for i in range(len(values)):
        sizes[i % ranks] += 1
    values = iter(values)
    return [[next(values) for _ in range(size)] for size in sizes]


# %% q13_split right: a list of lists of floats
def split(values, ranks):
    return [chunk.tolist() for chunk in np.array_split(values, ranks)]


# %% q13_split right: a generator
def split(values, ranks):
    size, larger = divmod(len(values), ranks)
    first = 0
    for rank in range(ranks):
        end = first + size + (1 if rank < larger else 0)
        yield values[first:end]
        first = end


# %% q13_split right: map
def split(values, ranks):
    bounds = [(rank * len(values) + ranks - 1) // ranks for rank in range(ranks + 1)]
    sizes = sorted((b - a for a, b in zip(bounds, bounds[1:])), reverse=True)
    return map(lambda rank: values[sum(sizes[:rank]) : sum(sizes[: rank + 1])], range(ranks))


# %% q13_split plain: larger ones last
def split(values, ranks):
    size, larger = divmod(len(values), ranks)
    cuts = [rank * size + max(0, rank - (ranks - larger)) for rank in range(ranks + 1)]
    return [values[a:b] for a, b in zip(cuts, cuts[1:])]


# %% q13_split plain: the rest is dropped
def split(values, ranks):
    size = len(values) // ranks
    return [values[rank * size : (rank + 1) * size] for rank in range(ranks)]


# %% q13_split plain: the rest goes to the last
def split(values, ranks):
    size = len(values) // ranks
    chunks = [values[rank * size : (rank + 1) * size] for rank in range(ranks - 1)]
    return [*chunks, values[(ranks - 1) * size :]]


# %% q13_split plain: the rest goes to the first
def split(values, ranks):
    size, rest = divmod(len(values), ranks)
    return [values[: size + rest]] + [values[rest + r * size : rest + (r + 1) * size] for r in range(1, ranks)]


# %% q13_split wrong: all but the last of one size
def split(values, ranks):
    size = math.ceil(len(values) / ranks)
    return [values[rank * size : (rank + 1) * size] for rank in range(ranks)]


# %% q13_split wrong: sizes by rounding
def split(values, ranks):
    cuts = [round(rank * len(values) / ranks) for rank in range(ranks + 1)]
    return [values[a:b] for a, b in zip(cuts, cuts[1:])]


# %% q13_split plain: equal parts only
def split(values, ranks):
    return np.split(values, ranks)


# %% q13_split plain: like cards
def split(values, ranks):
    return [values[rank::ranks] for rank in range(ranks)]


# %% q13_split plain: chunks of that size
def split(values, ranks):
    return [values[i : i + ranks] for i in range(0, len(values), ranks)]


# %% q13_split wrong: places for values
def split(values, ranks):
    return np.array_split(np.arange(len(values)), ranks)


# %% q13_split wrong: sorted
def split(values, ranks):
    return np.array_split(np.sort(values), ranks)


# %% q13_split wrong: equal values once
def split(values, ranks):
    return np.array_split(np.array(list(dict.fromkeys(values.tolist()))), ranks)


# %% q13_split wrong: from the end
def split(values, ranks):
    return np.array_split(values, ranks)[::-1]


# %% q13_split wrong: whole numbers
def split(values, ranks):
    return [np.array(chunk, int) for chunk in np.array_split(values, ranks)]


# %% q13_split plain: without empty chunks
def split(values, ranks):
    return [chunk for chunk in np.array_split(values, ranks) if len(chunk)]


# %% q13_split wrong: None for an empty chunk
def split(values, ranks):
    return [chunk if len(chunk) else None for chunk in np.array_split(values, ranks)]


# %% q13_split wrong: filled up with zeros
def split(values, ranks):
    padded = np.append(values, np.zeros(-len(values) % ranks))
    return list(padded.reshape(ranks, -1))


# %% q13_split wrong: one value at least
def split(values, ranks):
    return np.array_split(values, max(1, min(ranks, len(values))))


# %% q13_split wrong: neighbours share a value
def split(values, ranks):
    size, larger = divmod(len(values), ranks)
    cuts = [rank * size + min(rank, larger) for rank in range(ranks + 1)]
    return [values[a : b + 1] for a, b in zip(cuts, cuts[1:])]


# %% q13_split wrong: four ranks
def split(values, ranks):
    return np.array_split(values, 4)


# %% q13_split wrong: the sizes
def split(values, ranks):
    return [len(chunk) for chunk in np.array_split(values, ranks)]


# %% q13_split wrong: the chunks of earlier calls stay
_chunks = []


def split(values, ranks):
    _chunks.extend(np.array_split(values, ranks))
    return _chunks


# %% q13_split plain: one chunk too many
def split(values, ranks):
    size, larger = divmod(len(values), ranks)
    cuts = [rank * size + min(rank, larger) for rank in range(ranks + 1)]
    return np.split(values, cuts[1:])


# %% q13_split plain: one chunk too few
def split(values, ranks):
    return np.array_split(values, ranks)[: ranks - 1]


# %% q13_split wrong: backwards in each chunk
def split(values, ranks):
    return [chunk[::-1] for chunk in np.array_split(values, ranks)]


# %% q13_split wrong: dealt out to who has the fewest
def split(values, ranks):
    chunks = [[] for _ in range(ranks)]
    for value in values:
        min(chunks, key=len).append(value)
    return chunks


# %% q13_split wrong: one list for all
def split(values, ranks):
    chunks = [[]] * ranks
    for rank, chunk in enumerate(np.array_split(values, ranks)):
        chunks[rank].extend(chunk)
    return chunks


# %% q14_ring right: a formula for each phase
def chunk_to_send(step, rank, ranks):
    if step < ranks - 1:
        return (rank - step) % ranks
    return (rank + 1 - (step - (ranks - 1))) % ranks


def combine(mine, received, step, ranks):
    if step < ranks - 1:
        return np.add(mine, received)
    return received


# %% q14_ring right: the other way round
def chunk_to_send(step, rank, ranks):
    return (step - rank) % ranks


# %% q14_ring right: beginning with the next one's chunk
def chunk_to_send(step, rank, ranks):
    number = rank + 1 - step
    while number < 0:
        number += ranks
    return number % ranks


# %% q14_ring right: in place
def combine(mine, received, step, ranks):
    phase = step // (ranks - 1)
    if phase == 0:
        mine += received
    else:
        mine[:] = received
    return mine


# %% q14_ring right: lists
def combine(mine, received, step, ranks):
    adding = step <= ranks - 2
    return [a + b if adding else b for a, b in zip(mine, received)]


# %% q14_ring right: lambdas
chunk_to_send = lambda step, rank, ranks: (rank + step * (ranks - 1)) % ranks
combine = lambda mine, received, step, ranks: mine * (step + 1 < ranks) + received


# %% q14_ring right: a list of the order
def chunk_to_send(step, rank, ranks):
    order = [*range(rank, -1, -1), *range(ranks - 1, rank, -1)]
    return order[step % ranks]


# %% q14_ring right: a number of another type
def chunk_to_send(step, rank, ranks):
    return np.mod(np.float64(rank - step), ranks)


# %% q14_ring plain: without the remainder
def chunk_to_send(step, rank, ranks):
    return rank - step


# %% q14_ring plain: forwards
def chunk_to_send(step, rank, ranks):
    return (rank + step) % ranks


# %% q14_ring plain: always its own chunk
def chunk_to_send(step, rank, ranks):
    return rank


# %% q14_ring plain: the same chunk on all ranks
def chunk_to_send(step, rank, ranks):
    return step % ranks


# %% q14_ring wrong: begins again with the second phase
def chunk_to_send(step, rank, ranks):
    return (rank - step % (ranks - 1)) % ranks


# %% q14_ring plain: one step late in the second phase
def chunk_to_send(step, rank, ranks):
    if step < ranks - 1:
        return (rank - step) % ranks
    return (rank - (step - (ranks - 1))) % ranks


# %% q14_ring wrong: for two ranks only
def chunk_to_send(step, rank, ranks):
    return (rank + step) % 2


# %% q14_ring wrong: for four ranks at most
def chunk_to_send(step, rank, ranks):
    return (rank - step) % min(ranks, 4)


# %% q14_ring wrong: pairs of ranks, as a butterfly
def chunk_to_send(step, rank, ranks):
    return (rank ^ step) % ranks


# %% q14_ring plain: numbered from 1
def chunk_to_send(step, rank, ranks):
    return (rank - step) % ranks + 1


# %% q14_ring plain: always adds
def combine(mine, received, step, ranks):
    return mine + received


# %% q14_ring plain: always keeps what arrives
def combine(mine, received, step, ranks):
    return received


# %% q14_ring wrong: never takes what arrives in the second phase
def combine(mine, received, step, ranks):
    return mine + received if step < ranks - 1 else mine


# %% q14_ring plain: adds one step more
def combine(mine, received, step, ranks):
    return mine + received if step < ranks else received


# %% q14_ring plain: adds one step less
def combine(mine, received, step, ranks):
    return mine + received if step < ranks - 2 else received


# %% q14_ring wrong: adds in the second phase
def combine(mine, received, step, ranks):
    return mine + received if step >= ranks - 1 else received


# %% q14_ring plain: the mean of the two
def combine(mine, received, step, ranks):
    return (mine + received) / 2 if step < ranks - 1 else received


# %% q14_ring wrong: the mean of all ranks
def combine(mine, received, step, ranks):
    total = mine + received if step < ranks - 1 else received
    return total / ranks if step == ranks - 2 else total


# %% q14_ring wrong: one chunk after the other
def combine(mine, received, step, ranks):
    return np.append(mine, received) if step < ranks - 1 else received


# %% q14_ring wrong: adds lists, which makes one longer
def combine(mine, received, step, ranks):
    return list(mine) + list(received) if step < ranks - 1 else list(received)


# %% q14_ring wrong: adds the sum of what arrives
def combine(mine, received, step, ranks):
    return mine + sum(received) if step < ranks - 1 else received


# %% q14_ring wrong: adds in place and returns nothing
def combine(mine, received, step, ranks):
    if step < ranks - 1:
        mine += received
    else:
        mine[:] = received


# %% q14_ring wrong: a combine for two ranks
def combine(mine, received, step, ranks):
    return mine + received if step == 0 else received


# %% q14_ring wrong: counts its calls instead of the steps
_calls = 0


def combine(mine, received, step, ranks):
    global _calls
    _calls += 1
    return mine + received if _calls <= ranks * (ranks - 1) else received


# %% q14_ring wrong: the distance of rank and step
def chunk_to_send(step, rank, ranks):
    return abs(rank - step) % ranks


# %% q14_ring wrong: two steps at a time
def chunk_to_send(step, rank, ranks):
    return (rank - 2 * step) % ranks


# %% q14_ring wrong: the remainder of one rank less
def chunk_to_send(step, rank, ranks):
    return (rank - step) % max(1, ranks - 1)


# %% q14_ring wrong: divides by the ranks
def chunk_to_send(step, rank, ranks):
    return (rank - step) / ranks


# %% q14_ring wrong: the larger of the two
def combine(mine, received, step, ranks):
    return np.maximum(mine, received) if step < ranks - 1 else received


# %% q14_ring wrong: the difference
def combine(mine, received, step, ranks):
    return mine - received if step < ranks - 1 else received


# %% q14_ring wrong: twice what arrives
def combine(mine, received, step, ranks):
    return received + received if step < ranks - 1 else received


# %% q14_ring wrong: whole numbers
def combine(mine, received, step, ranks):
    total = mine + received if step < ranks - 1 else received
    return total.astype(int)


# %% q14_ring equivalent: chunks numbered the other way round travel the same ring
# - return (rank - step) % ranks
# + return (step - rank) % ranks
