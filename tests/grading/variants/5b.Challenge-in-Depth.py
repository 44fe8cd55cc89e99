# Right and wrong answers to the questions of lesson 5b: tests/grading/test_variants.py reads them.

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

# %% q02_samples_to right
# backwards from the evaluation: `start + (at - start) * (target - low)` -> `at - (at - start) * (accuracy - target)`
# NumPy's interpolation between two: `start + (at - start) * (target - low) / (accuracy - low)` ->
#     `np.interp(target, [low, accuracy], [start, at])`

# %% q02_samples_to wrong
# the evaluation itself: `start + (at - start) * (target - low) / (accuracy - low)` -> `at`
# interpolation over all points, as if they rose: `return start + (at - start) * (target - low) / (accuracy - low)` ->
#     `return np.interp(target, accuracies, samples)`
# on a line from zero: `before = None` -> `before = 0, 0.0`
# infinity where it is never reached: `return None` -> `return math.inf`
# half-way between the two: `(target - low) / (accuracy - low)` -> `0.5`
# it goes on beyond the end: `return None` -> `return samples[-1] * target / accuracies[-1] if samples else None`
