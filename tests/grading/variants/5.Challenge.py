# Right and wrong answers to the questions of lesson 5: tests/grading/test_variants.py reads them.

# %% q01_counts right
# the lower end of an interval: `bool(np.mean(reached) - target > T99[n - 1] * error)` ->
#     `np.mean(reached) - T99[n - 1] * error > target`

# %% q01_counts wrong
# the mean alone: `T99[n - 1] * error` -> `0`
# crashes left out: `10.0 if each is None else each for each in accuracies` ->
#     `each for each in accuracies if each is not None`
# four runs are enough: `n < 5` -> `n < 4`, `T99[n - 1]` -> `T99.get(n - 1, 4.541)`
# the spread of these runs, not of all that could be made: `ddof=1` -> `ddof=0`
