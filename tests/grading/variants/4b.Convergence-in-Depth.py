# Right and wrong answers to the questions of lesson 4b: tests/grading/test_variants.py reads them.

# %% q01_changed right
# a set of names and values: `{name for name in first if first[name] != second[name]}` ->
#     `frozenset(name for name, _ in first.items() ^ second.items())`

# %% q01_changed wrong
# only the settings that have a word: `batch / parts` -> `0`, `run["images"] // batch * batch * run["epochs"]` -> `0`
# sync-BN joins the passes, too: `run["passes"] * (1 if run["sync_bn"] else run["ranks"])` ->
#     `1 if run["sync_bn"] else run["passes"] * run["ranks"]`
# the remainder counts: `run["images"] // batch * batch` -> `run["images"]`

# %% q02_noise_scale right
# equation A.2 of the paper: `gradient_sq = big - variance / big_batch` ->
#     `gradient_sq = (big_batch * big - small_batch * small) / (big_batch - small_batch)`

# %% q02_noise_scale wrong
# the mean of the steps' ratios: `np.mean(small_sq), np.mean(big_sq)` -> `np.array(small_sq), np.array(big_sq)`,
#     `variance / gradient_sq if gradient_sq > 0` -> `np.mean(variance / gradient_sq) if min(gradient_sq) > 0`
# infinity where there is none: `else None` -> `else math.inf`
# the medians of steps: `np.mean(small_sq), np.mean(big_sq)` -> `np.median(small_sq), np.median(big_sq)`

# %% q03_verdict right: lists and SciPy
from scipy.stats import t


def verdict(first, second, margin):
    shared = [seed for seed in second if seed in first]
    n = len(shared)
    if n <= 1:
        return "not decided"
    differences = np.array([second[s] - first[s] for s in shared])
    middle, error = differences.mean(), differences.std(ddof=1) / n**0.5
    half = t.ppf(0.975, n - 1) * error
    if abs(middle) + half < margin:
        return "within the margin"
    if abs(middle) <= half:
        return "not decided"
    return "better" if middle > 0 else "worse"


# %% q03_verdict wrong
# pairs in the order of the dictionaries: `second[seed] - first[seed] for seed in first if seed in second` ->
#     `b - a for a, b in zip(first.values(), second.values())`
# the means of all seeds, not pairs: `spread = np.std(pairs, ddof=1) / math.sqrt(len(pairs))` ->
#     `spread = math.sqrt(sum(np.var(list(some.values()), ddof=1) / len(some) for some in (first, second)))`
# within the margin where the interval holds 0: `-margin < low and high < margin` -> `low <= 0 <= high`

# %% q04_whole_batch right
# the mean of squares less the square of the mean: `np.mean(variances, axis=0) + between` ->
#     `np.mean(np.array(variances) + np.square(means), axis=0) - np.mean(means, axis=0) ** 2`

# %% q04_whole_batch wrong
# the mean of the variances: ` + between` -> ``
# over channels: `np.mean(means, axis=0), np.mean(variances, axis=0)` ->
#     `np.mean(means, axis=1), np.mean(variances, axis=1)`, `np.var(means, axis=0)` -> `np.var(means, axis=1)`
# the variance first: `np.mean(means, axis=0), np.mean(variances, axis=0) + between` ->
#     `np.mean(variances, axis=0) + between, np.mean(means, axis=0)`
# variances are divided by the ghosts: `+ between` -> `/ len(means) + between`
