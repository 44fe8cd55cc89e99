# Right and wrong answers to the questions of lesson 3e: tests/grading/test_variants.py reads them.

# %% q01_lost_share right: over one failure
def lost_share(interval_s, checkpoint_s, restart_s, mtbf_s):
    intervals = mtbf_s / interval_s
    return (intervals * checkpoint_s + interval_s / 2 + restart_s) / mtbf_s


# %% q01_lost_share wrong
# a whole interval: `interval_s / 2 +` -> `interval_s +`
# the larger of both: `written + failed` -> `max(written, failed)`
# the restart is halved, too: `(interval_s / 2 + restart_s)` -> `(interval_s + restart_s) / 2`
# the checkpoint that failed, too: `(interval_s / 2 + restart_s)` -> `(interval_s / 2 + restart_s + checkpoint_s)`


# %% q02_young right: by bisection of the derivative
def young(checkpoint_s, mtbf_s):
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        if middle**2 < 2 * checkpoint_s * mtbf_s:
            low = middle
        else:
            high = middle
    return high


# %% q02_young wrong
# half in place of twice: `2 * checkpoint_s` -> `checkpoint_s / 2`
# the factor outside: `math.sqrt(2 * checkpoint_s * mtbf_s)` -> `2 * math.sqrt(checkpoint_s * mtbf_s)`
# whole seconds: `math.sqrt(2 * checkpoint_s * mtbf_s)` -> `math.ceil(math.sqrt(2 * checkpoint_s * mtbf_s))`
# minus the checkpoint: `* mtbf_s)` -> `* mtbf_s) - checkpoint_s`

# %% q03_daly right
# with the answer before: `math.sqrt(2 * checkpoint_s * mtbf_s) *` -> `young(checkpoint_s, mtbf_s) *`

# %% q03_daly wrong
# always by the series: `ratio >= 1` -> `ratio >= 100`
# Young's: `series = 1 + math.sqrt(ratio) / 3 + ratio / 9` -> `series = 1`
# the term of second order is missing: ` + ratio / 9` -> ``
# above the MTBF, not twice the MTBF: `ratio >= 1` -> `ratio >= 0.5`
