# Right and wrong answers to the questions of lesson 6b: tests/grading/test_variants.py reads them.

# %% q03_order right: two counters
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


# %% q03_order right
# without the smaller of both: `min(stages - stage, microbatches)` -> `stages - stage`, `for m in range(ahead)` ->
#     `for m in range(microbatches) if m < ahead`

# %% q03_order plain
# GPipe's: `min(stages - stage, microbatches)` -> `microbatches`
# the first stage alternates: `min(stages - stage, microbatches)` -> `min(stage + 1, microbatches)`
# one pass less ahead: `min(stages - stage, microbatches)` -> `min(stages - stage - 1, microbatches)`

# %% q03_order wrong
# passes ahead that are not there: `min(stages - stage, microbatches)` -> `stages - stage`
# as many ahead in each stage: `min(stages - stage, microbatches)` -> `min(1 + (stage == 0), microbatches)`
# the last ones first: `("B", m))` -> `("B", (m + ahead - 1) % microbatches))`

# %% q04_best right
# sorted: `return min(found, key=lambda split: seconds[split], default=None)` ->
#     `return sorted(found, key=seconds.get)[0] if found else None`
# what both have in common: `per_host % tensor` -> `math.gcd(per_host, heads) % tensor`, `heads % tensor or ` -> ``

# %% q04_best plain
# the slowest: `min(found` -> `max(found`
# an error where nothing fits: `, default=None` -> ``
# the seconds themselves: `found.append(split)` -> `found.append(seconds[split])`,
#     `key=lambda split: seconds[split], ` -> ``

# %% q04_best wrong
# the last of all that are possible: `return min(found, key=lambda split: seconds[split], default=None)` ->
#     `return found[-1] if found else None`
# pipeline first: `data, tensor, pipeline = split` -> `pipeline, tensor, data = split`
# tensor parallelism of a whole host: `per_host % tensor` -> `per_host != tensor`


# %% q05_compress right
# a partition: `np.argsort(-np.abs(wanted))[:k]` -> `np.argpartition(np.abs(wanted), -k)[-k:]`
# a mask: `sent[places] = wanted[places]` -> `sent += wanted * np.isin(np.arange(len(wanted)), places)`

# %% q05_compress plain
# magnitudes are sent: `= wanted[places]` -> `= np.abs(wanted[places])`
# what is left of the gradient alone: `wanted - sent` -> `gradient - sent`

# %% q05_compress wrong
# one value, whatever k is: `[:k]` -> `[:1]`
# all but k: `np.argsort(-np.abs(wanted))[:k]` -> `np.argsort(np.abs(wanted))[: len(wanted) - k]`
# the values alone, without their places: `return sent, ` -> `return wanted[places], `
# halves: `wanted[places]` -> `wanted[places] / 2`
