# Right and wrong answers to the questions of lesson 3: tests/grading/test_variants.py reads them.

# %% q02_efficiency right
# a float of whole steps: `samples // global_batch * global_batch` ->
#     `math.floor(samples / global_batch) * float(global_batch)`
# one fraction: `speed / (ranks * single_speed)` -> `many[0] * one[1] / (one[0] * many[1] * ranks)`

# %% q02_efficiency wrong
# all samples: `samples // global_batch * global_batch` -> `samples`
# at least one step: `samples // global_batch` -> `max(1, samples // global_batch)`
# an exact fit loses a step: `samples // global_batch` -> `(samples - 1) // global_batch`
# capped at 1: `speed / (ranks * single_speed)` -> `min(1, speed / (ranks * single_speed))`
# one rank as many: `speed / (ranks * single_speed)` -> `speed / (ranks * single_speed) if ranks > 1 else 0`
# rounded: `speed / (ranks * single_speed)` -> `round(speed / (ranks * single_speed), 2)`
# a job that processed nothing is perfect: `speed / (ranks * single_speed)` -> `speed / (ranks * single_speed) or 1`


# %% q03_steps_twice right: the remainder
def steps_twice(step, every):
    if not every:
        return step
    return step % every


# %% q03_steps_twice right
# an interval longer than the run: `step // every * every if every else 0` -> `step - step % (every or step + 1)`
# in floating point: `step // every * every if every else 0` -> `math.floor(step / every) * float(every) if every else 0`

# %% q03_steps_twice plain
# until the next checkpoint: `return step - kept` -> `return kept + every - step`
# without checkpoints nothing is lost: `else 0` -> `else step`
# a whole interval: `step // every * every` -> `step - every`

# %% q03_steps_twice wrong
# a checkpoint of this step is not there yet: `step // every * every` -> `(step - 1) // every * every`
# steps are counted from 0: `step // every * every` -> `(step + 1) // every * every - 1`
# always after 100 steps: `step // every * every` -> `step // 100 * 100`
# to the nearest checkpoint: `step // every * every` -> `round(step / every) * every`
# one interval further back: `step // every * every` -> `max(0, step // every - 1) * every`
