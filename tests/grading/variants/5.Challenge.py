# Right and wrong answers to the questions of lesson 5: tests/grading/test_variants.py reads them.

# %% q01_expected_best right: from the best one down
def expected_best(accuracies, k):
    rest = len(accuracies)
    if k not in range(1, rest + 1):
        raise ValueError(k)
    mean, chance = 0.0, 1.0  # that all that are better were not chosen
    for accuracy in sorted(accuracies, reverse=True):
        chosen = k / rest
        mean += chance * chosen * accuracy
        chance *= 1 - chosen
        rest -= 1
        if chance <= 0:
            break
    return mean


# %% q01_expected_best right: all choices, one by one
def expected_best(accuracies, k):
    import itertools

    if k < 1 or k > len(accuracies):
        raise ValueError("there are not so many runs")
    return np.mean([max(chosen) for chosen in itertools.combinations(accuracies, k)])


# %% q01_expected_best right
# an array of weights: `total / math.comb(n, k)` ->
#     `np.average(np.sort(accuracies), weights=[math.comb(i, k - 1) for i in range(n)])`
# chances: `math.comb(place, k - 1) *` -> `math.comb(place, k - 1) / math.comb(n, k) *`, `total / math.comb(n, k)` ->
#     `total`

# %% q01_expected_best wrong
# the best of the first ones: `total / math.comb(n, k)` -> `max(accuracies[:k])`
# the best of all: `total / math.comb(n, k)` -> `max(accuracies)`
# the mean of the k best: `total / math.comb(n, k)` -> `np.mean(sorted(accuracies)[-k:])`
# no error for too many: `raise ValueError(f"{k} of {n} runs cannot be chosen")` -> `k = min(max(k, 1), n)`
# all of the runs is too many, too: `k <= n` -> `k < n`
# drawn at random: `total / math.comb(n, k)` ->
#     `np.mean([max(np.random.permutation(accuracies)[:k]) for _ in range(300)])`
# in the order of the runs: `sorted(accuracies)` -> `accuracies`

# %% q01_expected_best equivalent
# math.comb raises the ValueError for k = 0: `1 <= k` -> `0 <= k`


# %% q02_samples_to right: by place
def samples_to(samples, accuracies, target):
    for place in range(len(samples)):
        if accuracies[place] < target:
            continue
        if place == 0:
            return samples[0]
        part = (target - accuracies[place - 1]) / (accuracies[place] - accuracies[place - 1])
        return samples[place - 1] + part * (samples[place] - samples[place - 1])


# %% q02_samples_to right
# backwards from the evaluation: `start + (at - start) * (target - low)` -> `at - (at - start) * (accuracy - target)`
# NumPy's interpolation between two: `start + (at - start) * (target - low) / (accuracy - low)` ->
#     `np.interp(target, [low, accuracy], [start, at])`
# a weighted mean: `start + (at - start) * (target - low)` -> `(start * (accuracy - target) + at * (target - low))`

# %% q02_samples_to wrong
# the evaluation itself: `start + (at - start) * (target - low) / (accuracy - low)` -> `at`
# interpolation over all points, as if they rose: `return start + (at - start) * (target - low) / (accuracy - low)` ->
#     `return np.interp(target, accuracies, samples)`
# on a line from zero: `before = None` -> `before = 0, 0.0`
# infinity where it is never reached: `return None` -> `return math.inf`
# half-way between the two: `(target - low) / (accuracy - low)` -> `0.5`
# it goes on beyond the end: `return None` -> `return samples[-1] * target / accuracies[-1] if samples else None`
# it has to be above: `>= target` -> `> target`

# %% q02_samples_to equivalent
# a function that ends returns None: `return None` -> `pass`


# %% q03_counts right: from the standard library
def counts(accuracies, target):
    import statistics

    n = len(accuracies)
    if n not in range(5, 21):
        return False
    reached = [10 if value is None else value for value in accuracies]
    deviation = statistics.stdev(reached)
    gap = statistics.mean(reached) - target
    return gap > 0 if deviation == 0 else gap * math.sqrt(n) / deviation > T99[n - 1]


# %% q03_counts right
# t itself: `np.mean(reached) - target > T99[n - 1] * error` ->
#     `(np.mean(reached) - target) / max(error, 1e-9) > T99[n - 1]`
# the lower end of an interval: `bool(np.mean(reached) - target > T99[n - 1] * error)` ->
#     `np.mean(reached) - T99[n - 1] * error > target`
# the root of the mean's variance: `np.std(reached, ddof=1) / math.sqrt(n)` -> `math.sqrt(np.var(reached, ddof=1) / n)`

# %% q03_counts wrong
# the mean alone: `T99[n - 1] * error` -> `0`
# crashes left out: `10.0 if each is None else each for each in accuracies` ->
#     `each for each in accuracies if each is not None`
# a run that reached 0 is taken as a crash: `10.0 if each is None else each` -> `each or 10.0`
# the spread of a run, not of the mean: ` / math.sqrt(n)` -> ``
# the deviation of these runs, not of all: `, ddof=1` -> ``
# four runs are enough: `n < 5` -> `n < 4`, `T99[n - 1]` -> `T99.get(n - 1, 4.541)`
# below the target by as much: `np.mean(reached) - target` -> `abs(np.mean(reached) - target)`


# %% q03_counts wrong: the course's own
from course.challenge.verdict import p_value


def counts(accuracies, target):
    return len(accuracies) > 4 and p_value([10.0 if each is None else each for each in accuracies], target) < 0.01


# %% q03_counts equivalent
# NumPy's True equals Python's: `bool(np.mean(reached) - target > T99[n - 1] * error)` ->
#     `np.mean(reached) - target > T99[n - 1] * error`
# the lists are equally long: `len(reached)` -> `len(accuracies)`
