# Right and wrong answers to the questions of lesson 5b: tests/grading/test_variants.py reads them.

# %% q01_expected_best right
# an array of weights: `total / math.comb(n, k)` ->
#     `np.average(np.sort(accuracies), weights=[math.comb(i, k - 1) for i in range(n)])`

# %% q01_expected_best wrong
# the best of the first ones: `total / math.comb(n, k)` -> `max(accuracies[:k])`
# the best of all: `total / math.comb(n, k)` -> `max(accuracies)`
# the mean of the k best: `total / math.comb(n, k)` -> `np.mean(sorted(accuracies)[-k:])`

# %% q02_samples_to right
# backwards from the evaluation: `start + (at - start) * (target - low)` -> `at - (at - start) * (accuracy - target)`

# %% q02_samples_to wrong
# the evaluation itself: `start + (at - start) * (target - low) / (accuracy - low)` -> `at`
# interpolation over all points, as if they rose: `return start + (at - start) * (target - low) / (accuracy - low)` ->
#     `return np.interp(target, accuracies, samples)`
# infinity where it is never reached: `return None` -> `return math.inf`
