# Right and wrong answers to the questions of lesson 1b: tests/grading/test_variants.py reads them.

# %% q02_loss_mse right
# with NumPy: `sum((y - w * x) ** 2 for x, y in dataset) / len(dataset)` ->
#     `np.mean([(y - w * x) ** 2 for x, y in dataset])`

# %% q02_loss_mse wrong
# the square of the mean error: `sum((y - w * x) ** 2` -> `sum((y - w * x)`, `/ len(dataset)` ->
#     `** 2 / len(dataset) ** 2`
# always four points: `/ len(dataset)` -> `/ 4`

# %% q03_train_loop right: itertools.cycle
from itertools import cycle, islice


def train_loop(w, lr, dataset, iterations):
    if not dataset:
        raise ValueError("no points")
    for point in islice(cycle(dataset), iterations):
        w -= lr * grad_point(w, point, 1)
    return w


# %% q03_train_loop wrong
# an iteration is a pass: `range(iterations)` -> `range(iterations * len(dataset))`
# stays at the last point: `iteration % len(dataset)` -> `min(iteration, len(dataset) - 1)`
# no points leave the weight: `raise ValueError("there are no points to train on")` -> `return w`

# %% q05_table right
# sums of halves: `[8, 22]` -> `[4 / 2 + 12 / 2, np.float32(30 / 2) + np.float32(14 / 2)]`

# %% q05_table wrong
# N is 4: `[4, 12, 30, 14]` -> `[1, 3, 7.5, 3.5]`, `[8, 22]` -> `[2, 5.5]`
# sums: `[8, 22]` -> `[16, 44]`
# the batches swapped: `[8, 22]` -> `[22, 8]`
# the mean of all for both: `[8, 22]` -> `[15, 15]`

# %% q07_train_loop_batches right
# without the answers before: `grad_multi(w, dataset[iteration % len(dataset)])` ->
#     `np.mean([-2 * x * (y - w * x) for x, y in dataset[iteration % len(dataset)]])`

# %% q07_train_loop_batches wrong
# a larger rate for a larger batch: `* grad` -> `* len(dataset[iteration % len(dataset)]) / len(dataset[0]) * grad`
# train_loop on all the points: `grad_multi(w, dataset[iteration % len(dataset)])` ->
#     `grad_multi(w, [sum(dataset, [])[iteration % len(sum(dataset, []))]])`
# no batches leave the weight: `raise ValueError("there are no batches to train on")` -> `return w`

# %% q08_settled_variance right
# gradients with NumPy: `np.var([grad_point(best, point, 1) for point in data])` ->
#     `4 * np.mean([(x * (y - best * x)) ** 2 for x, y in data])`

# %% q08_settled_variance wrong
# the root of the batch: `lr / size` -> `lr / math.sqrt(size)`
# what a single step adds: `/ (4 * np.mean([x * x for x, y in data]))` -> `* lr`
# the best weight of easy: `noise = np.var([grad_point(best,` -> `noise = np.var([grad_point(1,`
# the spread, not the variance: `np.var(` -> `np.std(`
# one less than the points: `for point in data])` -> `for point in data], ddof=1)`

# %% q09_part_of_best right
# from the points' gradients alone: `grad_multi(w, data)` -> `np.mean([grad_point(w, point, 1) for point in data])`
# no division: `1 / (1 + noise_scale(w, data) / size)` -> `size / (size + noise_scale(w, data))`

# %% q09_part_of_best wrong
# over the gradient, not its square: `gradient**2` -> `abs(gradient)`
# the mean square, not the variance: `np.var([grad_point(w, point, 1) for point in data])` ->
#     `np.mean([grad_point(w, point, 1) ** 2 for point in data])`
# the batch multiplies the noise: `noise_scale(w, data) / size` -> `noise_scale(w, data) * size`
# one at the best weight: `return math.inf` -> `return 0.0`


# %% q10_train_loop_aggregated right: a counter of batches
def train_loop_aggregated(w, lr, batches, passes, steps):
    number = 0
    for _ in range(steps):
        total = 0.0
        for _ in range(passes):
            total, number = total + grad_multi(w, batches[number]), (number + 1) % len(batches)
        w -= lr / passes * total
    return w


# %% q10_train_loop_aggregated wrong
# the gradients are added: `/ passes` -> ``
# the next batch in each step: `(first + i)` -> `(first // passes + i)`
# the first batches in each step: `(first + i)` -> `i`
# the last pass is lost: `for batch in taken)` -> `for batch in taken[:-1])`


# %% q10_train_loop_aggregated wrong: a step after each pass
def train_loop_aggregated(w, lr, batches, passes, steps):
    for number in range(steps * passes):
        w -= lr / passes * grad_multi(w, batches[number % len(batches)])
    return w
