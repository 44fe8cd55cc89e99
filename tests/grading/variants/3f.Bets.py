# Right and wrong answers to the questions of lesson 3f: tests/grading/test_variants.py reads them.

# %% q01_averaged right
# rounded down, corrected below 0: `int(sum(counts) / len(counts))` -> `sum(counts) // len(counts) + (sum(counts) < 0 and sum(counts) % len(counts) != 0)`

# %% q01_averaged wrong
# rounded down: `int(sum(counts) / len(counts))` -> `sum(counts) // len(counts)`
# rounded: `int(sum(counts) / len(counts))` -> `round(sum(counts) / len(counts))`
# not rounded: `int(sum(counts) / len(counts))` -> `sum(counts) / len(counts)`
# the sum: `int(sum(counts) / len(counts))` -> `sum(counts)`

# %% q02_largest right
# the last number before infinity: `65_504 / ranks` -> `65_519 / ranks`

# %% q02_largest wrong
# each gradient has to fit: `65_504 / ranks` -> `65_504`
# two ranks: `65_504 / ranks` -> `65_504 / 2`
# bits: `65_504 / ranks` -> `2**16 / 2**ranks`

# %% q03_warmup right
# not rounded: `steps // passes` -> `steps / passes`

# %% q03_warmup wrong
# updates are steps: `steps // passes` -> `steps`
# more updates: `steps // passes` -> `steps * passes`
# of the bet: `steps // passes` -> `steps // 4`

# %% q04_norm right
# by its share: `    return sum(means) / len(means)` -> `    return sum(mean / len(parts) for mean in means)`

# %% q04_norm wrong
# all samples: `sum(means) / len(means)` -> `sum(map(sum, parts)) / sum(map(len, parts))`
# the sum of the means: `sum(means) / len(means)` -> `sum(means)`
# of the bet: `sum(means) / len(means)` -> `sum(means) / 2`
# the median: `sum(means) / len(means)` -> `sorted(means)[len(means) // 2]`

# %% q05_joined right
# zeros appended: `sum(values) / ranks` -> `sum([*values, *[0] * (ranks - len(values))]) / ranks`

# %% q05_joined wrong
# those that are left: `sum(values) / ranks` -> `sum(values) / len(values)`
# the sum: `sum(values) / ranks` -> `sum(values)`
# of the bet: `sum(values) / ranks` -> `sum(values) / 2`
