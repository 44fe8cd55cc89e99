# Answers to the questions of lesson 5, right and wrong: see tests/grading/test_variants.py.

# %% q01_expected_best right: all choices, one by one
def expected_best(accuracies, k):
    import itertools

    if k < 1 or k > len(accuracies):
        raise ValueError("there are not so many runs")
    best = [max(chosen) for chosen in itertools.combinations(accuracies, k)]
    return sum(best) / len(best)


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


# %% q01_expected_best right: an array of weights
def expected_best(accuracies, k):
    n = len(accuracies)
    if not (0 < k <= n):
        raise ValueError(f"k={k}")
    weights = np.array([math.comb(i, k - 1) for i in range(n)], float)
    return np.average(np.sort(accuracies), weights=weights)


# %% q01_expected_best wrong: the best of the first ones
def expected_best(accuracies, k):
    if not 1 <= k <= len(accuracies):
        raise ValueError(k)
    return max(accuracies[:k])


# %% q01_expected_best wrong: the best of all
def expected_best(accuracies, k):
    if not 1 <= k <= len(accuracies):
        raise ValueError(k)
    return max(accuracies)


# %% q01_expected_best wrong: the mean of the k best
def expected_best(accuracies, k):
    if not 1 <= k <= len(accuracies):
        raise ValueError(k)
    return np.mean(sorted(accuracies)[-k:])


# %% q01_expected_best wrong: no error for too many
def expected_best(accuracies, k):
    n = len(accuracies)
    k = min(max(k, 1), n)
    return sum(math.comb(i, k - 1) * value for i, value in enumerate(sorted(accuracies))) / math.comb(n, k)


# %% q01_expected_best wrong: all of the runs is too many, too
def expected_best(accuracies, k):
    n = len(accuracies)
    if not 1 <= k < n:
        raise ValueError(k)
    return sum(math.comb(i, k - 1) * value for i, value in enumerate(sorted(accuracies))) / math.comb(n, k)


# %% q01_expected_best wrong: drawn at random
def expected_best(accuracies, k):
    n = len(accuracies)
    if not 1 <= k <= n:
        raise ValueError(k)
    rng = np.random.default_rng(0)
    return np.mean([max(rng.choice(accuracies, k, replace=False)) for _ in range(300)])


# %% q02_samples_to right: by place
def samples_to(samples, accuracies, target):
    for place in range(len(samples)):
        if accuracies[place] < target:
            continue
        if place == 0:
            return samples[0]
        part = (target - accuracies[place - 1]) / (accuracies[place] - accuracies[place - 1])
        return samples[place - 1] + part * (samples[place] - samples[place - 1])


# %% q02_samples_to right: backwards from the evaluation
def samples_to(samples, accuracies, target):
    there = [place for place, accuracy in enumerate(accuracies) if accuracy >= target]
    if not there:
        return None
    place = there[0]
    if not place:
        return samples[place]
    slope = (samples[place] - samples[place - 1]) / (accuracies[place] - accuracies[place - 1])
    return samples[place] - (accuracies[place] - target) * slope


# %% q02_samples_to right: NumPy's interpolation between two
def samples_to(samples, accuracies, target):
    samples, accuracies = np.array(samples, float), np.array(accuracies, float)
    if not np.any(accuracies >= target):
        return None
    first = int(np.argmax(accuracies >= target))
    if first == 0:
        return float(samples[0])
    pair = slice(first - 1, first + 1)
    return float(np.interp(target, accuracies[pair], samples[pair]))


# %% q02_samples_to wrong: the evaluation itself
def samples_to(samples, accuracies, target):
    for at, accuracy in zip(samples, accuracies):
        if accuracy >= target:
            return at


# %% q02_samples_to wrong: interpolation over all points, as if they rose
def samples_to(samples, accuracies, target):
    if not accuracies or max(accuracies) < target:
        return None
    return float(np.interp(target, accuracies, samples))


# %% q02_samples_to wrong: on a line from zero
def samples_to(samples, accuracies, target):
    before, low = 0, 0.0
    for at, accuracy in zip(samples, accuracies):
        if accuracy >= target:
            return before + (at - before) * (target - low) / (accuracy - low)
        before, low = at, accuracy
    return None


# %% q02_samples_to wrong: infinity where it is never reached
# -             start, low = before
# -             return start + (at - start) * (target - low) / (accuracy - low)
# +             return before[0] + (at - before[0]) * (target - before[1]) / (accuracy - before[1])
# -     return None
# +     return math.inf


# %% q02_samples_to wrong: half-way between the two
def samples_to(samples, accuracies, target):
    for place, accuracy in enumerate(accuracies):
        if accuracy >= target:
            return samples[0] if place == 0 else (samples[place] + samples[place - 1]) / 2
    return None


# %% q02_samples_to wrong: it goes on beyond the end
# -     for at, accuracy in zip(samples, accuracies):
# -         if accuracy >= target:
# +     for place, (at, accuracy) in enumerate(zip(samples, accuracies)):
# +         last = place == len(samples) - 1
# +         if accuracy >= target or (last and before is not None and accuracy != before[1]):
# -             start, low = before
# -             return start + (at - start) * (target - low) / (accuracy - low)
# +             return before[0] + (at - before[0]) * (target - before[1]) / (accuracy - before[1])


# %% q03_counts right: step by step
def counts(accuracies, target):
    values = []
    for accuracy in accuracies:
        values.append(10 if accuracy is None else accuracy)
    if len(values) < 5:
        return False
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    if variance < 1e-18:
        return mean > target + 1e-9
    return (mean - target) / math.sqrt(variance / len(values)) > T99[len(values) - 1]


# %% q03_counts right: the lower end of an interval
def counts(accuracies, target):
    reached = np.array([10.0 if value is None else value for value in accuracies])
    if reached.size >= 5:
        lower = reached.mean() - T99[reached.size - 1] * reached.std(ddof=1) / np.sqrt(reached.size)
        return lower > target
    return False


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


# %% q03_counts wrong: the mean alone
def counts(accuracies, target):
    reached = [10 if value is None else value for value in accuracies]
    return bool(len(reached) >= 5 and np.mean(reached) > target)


# %% q03_counts wrong: crashes left out
# -     reached = [10.0 if each is None else each for each in accuracies]
# +     reached = [value for value in accuracies if value is not None]
# -     error = np.std(reached, ddof=1) / math.sqrt(n)
# -     return bool(np.mean(reached) - target > T99[n - 1] * error)
# +     return bool(np.mean(reached) - target > T99[n - 1] * np.std(reached, ddof=1) / math.sqrt(n))

# %% q03_counts wrong: the spread of a run, not of the mean
# -     reached = [10.0 if each is None else each for each in accuracies]
# +     reached = [10.0 if value is None else value for value in accuracies]
# -     error = np.std(reached, ddof=1) / math.sqrt(n)
# -     return bool(np.mean(reached) - target > T99[n - 1] * error)
# +     return bool(np.mean(reached) - target > T99[n - 1] * np.std(reached, ddof=1))


# %% q03_counts wrong: four runs are enough
def counts(accuracies, target):
    reached = [10.0 if value is None else value for value in accuracies]
    n = len(reached)
    if n < 4:
        return False
    needed = T99.get(n - 1, 4.541)
    return bool(np.mean(reached) - target > needed * np.std(reached, ddof=1) / math.sqrt(n))


# %% q03_counts wrong: below the target by as much
# -     reached = [10.0 if each is None else each for each in accuracies]
# +     reached = [10.0 if value is None else value for value in accuracies]
# -     error = np.std(reached, ddof=1) / math.sqrt(n)
# -     return bool(np.mean(reached) - target > T99[n - 1] * error)
# +     return bool(abs(np.mean(reached) - target) > T99[n - 1] * np.std(reached, ddof=1) / math.sqrt(n))

# %% q01_expected_best equivalent: math.comb raises the ValueError for k = 0
# - if not 1 <= k <= n:
# + if not 0 <= k <= n:

# %% q02_samples_to equivalent: a function that ends returns None
# - return None
# + pass

# %% q03_counts equivalent: NumPy's True equals Python's
# - return bool(np.mean(reached) - target > T99[n - 1] * error)
# + return np.mean(reached) - target > T99[n - 1] * error

# %% q03_counts equivalent: the lists are equally long
# - n = len(reached)
# + n = len(accuracies)

# %% q03_counts wrong: a run that reached 0 is taken as a crash
# -     reached = [10.0 if each is None else each for each in accuracies]
# +     reached = [each or 10.0 for each in accuracies]

# %% q03_counts wrong: the course's own
from ddl.challenge.verdict import p_value


def counts(accuracies, target):
    return len(accuracies) > 4 and p_value([10.0 if each is None else each for each in accuracies], target) < 0.01
