# Right and wrong answers to the questions of lesson 3b: tests/grading/test_variants.py reads them.

# %% q01_tf_config right: text by hand
def tf_config(addresses, index):
    if not -1 < index < len(addresses):
        raise ValueError(index)
    workers = ", ".join(f'"{address}"' for address in addresses)
    return '{"cluster": {"worker": [' + workers + ']}, "task": {"type": "worker", "index": %d}}' % index


# %% q01_tf_config right
# a tuple of addresses: `{"worker": addresses}` -> `{"worker": tuple(addresses)}`

# %% q01_tf_config wrong
# a dictionary, not text: `json.dumps` -> `dict`
# bytes: `    })` -> `    }).encode()`
# the first one is the chief: `"type": "worker"` -> `"type": "worker" if index else "chief"`
# the first worker is no worker: `0 <= index` -> `0 < index`
# an IndexError: `ValueError` -> `IndexError`
# sorted addresses: `{"worker": addresses}` -> `{"worker": sorted(addresses)}`
# the index as text: `"index": index` -> `"index": str(index)`

# %% q03_replica_loss right
# in a loop: `each.sum()` -> `sum(np.mean(sample) for sample in per_example)`
# a sum over values of a sample: `np.reshape(per_example, (len(per_example), -1)).mean(axis=1)` ->
#     `np.sum(per_example) / math.prod(per_example.shape[1:])`

# %% q03_replica_loss wrong
# the mean over the replica: `each.sum() / global_batch` -> `each.mean()`
# half of the mean, for two replicas: `each.sum() / global_batch` -> `each.mean() / 2`
# NaN without samples: `return 0.0` -> `return math.nan`
# None without samples: `return 0.0` -> `return None`
# nothing without samples: `return 0.0` -> `return per_example`
# empty only where there is one axis: `not len(per_example)` -> `per_example.shape == (0,)`
# a fourth of the penalty: `penalty / replicas` -> `penalty / 4`

# %% q04_averaged right
# NaN to 0: `n * g for` -> `n * np.nan_to_num(g) for`, ` if n]` -> `]`
# a weighted average: `sum(parts) / sum(samples)` ->
#     `np.average([g for g, n in zip(gradients, samples) if n], axis=0, weights=[n for n in samples if n])`

# %% q04_averaged wrong
# the mean over ranks: `n * g for` -> `g for`, `sum(samples)` -> `len(parts)`
# one number for all weights: `n * g for` -> `n * g.mean() for`
# flat: `n * g for` -> `n * g.ravel() for`
# two ranks: `zip(gradients, samples)` -> `zip(gradients[:2], samples)`, `sum(samples)` -> `sum(samples[:2])`
# weights are the other way round: `n * g for` -> `g / n for`, `sum(samples)` -> `sum(1 / n for n in samples if n)`
# rounded: `sum(parts) / sum(samples)` -> `np.round(sum(parts) / sum(samples), 2)`


# %% q05_checks right
# counting: `len(everyones) > len(set(everyones))` -> `max(map(everyones.count, everyones), default=0) > 1`,
#     `len({rank["weights"] for rank in ranks}) > 1` ->
#     `[rank["weights"] for rank in ranks].count(ranks[0]["weights"]) < len(ranks)`
# how many, not whether: `any(len({step["update"] for step in s}) > 1 for` ->
#     `sum(len({step["update"] for step in s}) - 1 for`

# %% q05_checks wrong
# samples of different steps: `zip(*(rank["steps"] for rank in ranks)):` ->
#     `[[{"samples": [n for step in rank["steps"] for n in step["samples"]]} for rank in ranks]]:`
# begins as the first and the last rank do: `for rank in ranks}) > 1` -> `for rank in (ranks[0], ranks[-1])}) > 1`
# exactly two kinds of beginning: `ranks}) > 1` -> `ranks}) == 2`
# updates of the first and the last rank: `for step in s}` -> `for step in (s[0], s[-1])}`
# updates in any order: `any(len({step["update"] for step in s}) > 1 for s in together)` ->
#     `len({frozenset(step["update"] for step in rank["steps"]) for rank in ranks}) > 1`
# updates that change from step to step: `any(len({step["update"] for step in s}) > 1 for s in together)` ->
#     `len({step["update"] for s in together for step in s}) > 1`
# the weights as well as the updates: `{step["update"] for` -> `{(step["update"], step["weights"]) for`

# %% q06_more_checks right
# the ranks after the first: `any(rank["wrote"] for rank in ranks if rank["rank"] != 0)` ->
#     `[rank["wrote"] for rank in ranks[1:]] != [None] * (len(ranks) - 1)`
# NumPy's own absolute tolerance beside the relative one: `all(math.isclose(r, right, rel_tol=1e-4) for r in rates)` ->
#     `np.allclose(rates, right, rtol=1e-4)`
# the factor, up to a ten-thousandth: `math.isclose(r, right, rel_tol=1e-4)` ->
#     `abs(r / ranks[0]["rate_of_one_rank"] - len(ranks)) < 1e-4`

# %% q06_more_checks wrong
# each rank's own count: `sum(rank["samples_counted"] for rank in ranks) != trained_on` ->
#     `any(rank["samples_counted"] != sum(len(step["samples"]) for step in rank["steps"]) for rank in ranks)`
# rank 0's count times the ranks: `sum(rank["samples_counted"] for rank in ranks)` ->
#     `ranks[0]["samples_counted"] * len(ranks)`
# all steps as large as the first: `len(step["samples"])` -> `len(rank["steps"][0]["samples"])`
# a sample more or less does not matter: `sum(rank["samples_counted"] for rank in ranks) != trained_on` ->
#     `not math.isclose(sum(rank["samples_counted"] for rank in ranks), trained_on, rel_tol=0.01)`
# to the last digit: `rel_tol=1e-4` -> `rel_tol=0`
# only rates that are too low: `math.isclose(r, right, rel_tol=1e-4)` -> `r >= right * (1 - 1e-4)`
# two writers: `any(rank["wrote"] for rank in ranks if rank["rank"] != 0)` ->
#     `sum(bool(rank["wrote"]) for rank in ranks) > 1`
# another one than rank 0 alone: `any(rank["wrote"] for rank in ranks if rank["rank"] != 0)` ->
#     `[rank["rank"] for rank in ranks if rank["wrote"]] != [0]`

# %% q07_bugs right: by keyword
bugs = dict(A="wrap", B="throughput", C="shard", D="write", E="broadcast", F="scale")

# %% q07_bugs right: zipped
bugs = dict(zip("ABCDEF", "wrap throughput shard write broadcast scale".split()))

# %% q07_bugs right: entered one by one
bugs["F"], bugs["E"] = "scale", "broadcast"
bugs |= {"B": "throughput", "A": "wrap"}

# %% q07_bugs wrong
# B and D the other way round: `"B": "throughput"` -> `"B": "write"`, `"D": "write"` -> `"D": "throughput"`
# A and E the other way round: `"A": "wrap"` -> `"A": "broadcast"`, `"E": "broadcast"` -> `"E": "wrap"`
# one is missing: `, "F": "scale"` -> ``
# one too many: `"F": "scale"` -> `"F": "scale", "G": "scale"`
# words in capitals: `"wrap"` -> `"Wrap"`
# all words for each letter: `"wrap"` -> `{"shard", "wrap", "broadcast", "throughput", "scale", "write"}`
