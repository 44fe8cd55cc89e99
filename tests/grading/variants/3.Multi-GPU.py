# Right and wrong answers to the questions of lesson 3: tests/grading/test_variants.py reads them.

# %% q02_efficiency right
# a float of whole steps: `samples // global_batch * global_batch` ->
#     `math.floor(samples / global_batch) * float(global_batch)`

# %% q02_efficiency wrong
# all samples: `samples // global_batch * global_batch` -> `samples`
# at least one step: `samples // global_batch` -> `max(1, samples // global_batch)`
# an exact fit loses a step: `samples // global_batch` -> `(samples - 1) // global_batch`
# capped at 1: `speed / (ranks * single_speed)` -> `min(1, speed / (ranks * single_speed))`

# %% q03_steps_twice right: the remainder
def steps_twice(step, every):
    if not every:
        return step
    return step % every


# %% q03_steps_twice right
# an interval longer than the run: `step // every * every if every else 0` -> `step - step % (every or step + 1)`

# %% q03_steps_twice wrong
# until the next checkpoint: `return step - kept` -> `return kept + every - step`
# without checkpoints nothing is lost: `else 0` -> `else step`
# a whole interval: `step // every * every` -> `step - every`
# a checkpoint of this step is not there yet: `step // every * every` -> `(step - 1) // every * every`
# to the nearest checkpoint: `step // every * every` -> `round(step / every) * every`
