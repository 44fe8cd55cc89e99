# Right and wrong answers to the questions of lesson 4: tests/grading/test_variants.py reads them.

# %% q01_fit right: SciPy's curve_fit
from scipy.optimize import curve_fit


def fit(batches, steps):
    def model(batch, fewest, critical):
        return fewest * (1 + critical / batch)

    found, _ = curve_fit(model, np.array(batches, float), np.array(steps, float), p0=[min(steps), 100.0], sigma=steps)
    return tuple(found)


# %% q01_fit right
# least squares with rows divided by their steps: `slope, fewest = np.polyfit(1 / batches, steps, 1, w=1 / steps)` ->
#     `fewest, slope = np.linalg.lstsq(np.c_[1 / steps, 1 / batches / steps], np.ones(len(steps)), rcond=None)[0]`

# %% q01_fit wrong
# a line in the batch: `polyfit(1 / batches` -> `polyfit(batches`
# the fewest steps are those of the largest batch: `slope / fewest` -> `np.mean(batches * (steps / min(steps) - 1))`,
#     `return fewest` -> `return min(steps)`
# the pair the other way round: `return fewest, slope / fewest` -> `return slope / fewest, fewest`

# %% q02_rate_at right
# parts of both: `base + (peak - base) * step / climb` -> `(1 - step / climb) * base + step / climb * peak`
# in float32, as TensorFlow computes: `return peak * (1 + math.cos(math.pi * done)) / 2` ->
#     `return np.float32(peak) * (1 + np.cos(np.float32(math.pi * done))) / 2`

# %% q02_rate_at wrong
# from 0: `base + (peak - base) * step / climb` -> `peak * step / climb`
# a straight line down: `(1 + math.cos(math.pi * done)) / 2` -> `(1 - done)`
# the cosine of all steps: `(step - climb) / (steps - climb)` -> `step / steps`
# every rule is linear: `"sqrt": 0.5` -> `"sqrt": 1`
