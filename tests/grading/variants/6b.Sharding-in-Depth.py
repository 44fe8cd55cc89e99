# Right and wrong answers to the questions of lesson 6b: tests/grading/test_variants.py reads them.

# %% q03_order right: three phases
def order(stage, stages, microbatches):
    first = min(stages - stage, microbatches)
    steady = microbatches - first
    passes = [("F", m) for m in range(first)]
    for m in range(steady):
        passes += [("B", m), ("F", first + m)]
    return passes + [("B", m) for m in range(steady, microbatches)]


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
# a tuple of lists: `return passes` -> `return tuple(map(list, passes))`
# without the smaller of both: `min(stages - stage, microbatches)` -> `stages - stage`, `for m in range(ahead)` ->
#     `for m in range(microbatches) if m < ahead`

# %% q03_order plain
# GPipe's: `min(stages - stage, microbatches)` -> `microbatches`
# the first stage alternates: `min(stages - stage, microbatches)` -> `min(stage + 1, microbatches)`
# one pass less ahead: `min(stages - stage, microbatches)` -> `min(stages - stage - 1, microbatches)`
# microbatches that are not there: `if ahead + m < microbatches` -> `if True`

# %% q03_order wrong
# nothing after the first ones: `if ahead + m < microbatches` -> `if False`
# passes ahead that are not there: `min(stages - stage, microbatches)` -> `stages - stage`
# as many ahead in each stage: `min(stages - stage, microbatches)` -> `min(1 + (stage == 0), microbatches)`
# the last ones first: `("B", m))` -> `("B", (m + ahead - 1) % microbatches))`

# %% q03_order equivalent
# the smaller of both in either order: `min(stages - stage, microbatches)` -> `min(microbatches, stages - stage)`


# %% q04_best right: one after the other
def best(gpus, per_host, heads, layers, batch, seconds):
    fastest = None
    for (data, tensor, pipeline), taken in seconds.items():
        if data * tensor * pipeline == gpus and tensor in [t for t in range(1, heads + 1) if heads % t == 0]:
            if per_host % tensor == 0 and layers % pipeline == 0 and batch % data == 0:
                if fastest is None or taken < fastest[0]:
                    fastest = taken, (data, tensor, pipeline)
    return fastest and fastest[1]


# %% q04_best right: by divisors
def best(gpus, per_host, heads, layers, batch, seconds):
    possible = [
        (gpus // t // p, t, p)
        for t in range(1, min(per_host, heads) + 1)
        if math.gcd(per_host, heads) % t == 0 and gpus % t == 0
        for p in range(1, layers + 1)
        if layers % p == 0 and gpus // t % p == 0 and batch % (gpus // t // p) == 0
    ]
    return min(filter(seconds.__contains__, possible), key=seconds.get, default=None)


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
# some GPUs are idle: `math.prod(split) != gpus` -> `math.prod(split) > gpus`
# tensor parallelism of a whole host: `per_host % tensor` -> `per_host != tensor`
# parts of heads: `heads % tensor or ` -> ``
# stages of unequal depth: `layers % pipeline or ` -> ``
# samples that are left over: ` or batch % data` -> ``
# over several hosts: ` or per_host % tensor` -> ``
# divided the other way: `per_host % tensor` -> `tensor % per_host`


# %% q05_compress right: by a loop
def compress(gradient, left, k):
    waiting = [float(g + rest) for g, rest in zip(gradient, left)]
    ranked = sorted(range(len(waiting)), key=lambda place: abs(waiting[place]), reverse=True)
    chosen = set(ranked[:k])
    sent = [value if place in chosen else 0.0 for place, value in enumerate(waiting)]
    return np.array(sent), np.array([value - out for value, out in zip(waiting, sent)])


# %% q05_compress right
# a partition: `np.argsort(-np.abs(wanted))[:k]` -> `np.argpartition(np.abs(wanted), -k)[-k:]`
# the last of the smallest first: `np.argsort(-np.abs(wanted))[:k]` -> `np.argsort(wanted**2)[::-1][:k]`
# a mask: `sent[places] = wanted[places]` -> `sent += wanted * np.isin(np.arange(len(wanted)), places)`

# %% q05_compress plain
# the largest, with their sign: `np.argsort(-np.abs(wanted))` -> `np.argsort(-wanted)`
# the smallest: `np.argsort(-np.abs(wanted))` -> `np.argsort(np.abs(wanted))`
# what is left is forgotten: `wanted = gradient + left` -> `wanted = gradient`
# magnitudes are sent: `= wanted[places]` -> `= np.abs(wanted[places])`
# what is left of the gradient alone: `wanted - sent` -> `gradient - sent`

# %% q05_compress wrong
# chosen by the gradient alone: `np.abs(wanted)` -> `np.abs(gradient)`
# one value, whatever k is: `[:k]` -> `[:1]`
# all but k: `np.argsort(-np.abs(wanted))[:k]` -> `np.argsort(np.abs(wanted))[: len(wanted) - k]`
# the values alone, without their places: `return sent, ` -> `return wanted[places], `
# halves: `wanted[places]` -> `wanted[places] / 2`

# %% q05_compress equivalent
# all three arrays are alike: `zeros_like(wanted)` -> `zeros_like(gradient)`, `zeros_like(wanted)` -> `zeros_like(left)`
