# Right and wrong answers to the questions of lesson 6b: tests/grading/test_variants.py reads them.

# %% q04_order right: two counters
def order(stage, stages, microbatches):
    found, forward, backward = [], 0, 0
    while backward < microbatches:
        if forward < microbatches and forward - backward < stages - stage:
            found.append(("F", forward))
            forward += 1
        else:
            found.append(("B", backward))
            backward += 1
    return found


# %% q04_order right
# without the smaller of both: `min(stages - stage, microbatches)` -> `stages - stage`, `for m in range(ahead)` ->
#     `for m in range(microbatches) if m < ahead`

# %% q04_order plain
# GPipe's: `min(stages - stage, microbatches)` -> `microbatches`
# the first stage alternates: `min(stages - stage, microbatches)` -> `min(stage + 1, microbatches)`
# one pass less ahead: `min(stages - stage, microbatches)` -> `min(stages - stage - 1, microbatches)`

# %% q04_order wrong
# passes ahead that are not there: `min(stages - stage, microbatches)` -> `stages - stage`
# as many ahead in each stage: `min(stages - stage, microbatches)` -> `min(1 + (stage == 0), microbatches)`
# the last ones first: `("B", m))` -> `("B", (m + ahead - 1) % microbatches))`
