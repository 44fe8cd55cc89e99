# Right and wrong answers to the questions of lesson 3b: tests/grading/test_variants.py reads them.

# %% q01_tf_config right
# a tuple of addresses: `{"worker": addresses}` -> `{"worker": tuple(addresses)}`

# %% q01_tf_config wrong
# a dictionary, not text: `json.dumps` -> `dict`
# the first one is the chief: `"type": "worker"` -> `"type": "worker" if index else "chief"`
# the index as text: `"index": index` -> `"index": str(index)`

# %% q03_replica_loss right
# a sum over values of a sample: `np.reshape(per_example, (len(per_example), -1)).mean(axis=1)` ->
#     `np.sum(per_example) / math.prod(per_example.shape[1:])`

# %% q03_replica_loss wrong
# the mean over the replica: `each.sum() / global_batch` -> `each.mean()`
# half of the mean, for two replicas: `each.sum() / global_batch` -> `each.mean() / 2`
# NaN without samples: `return 0.0` -> `return math.nan`

# %% q04_averaged right
# NaN to 0: `n * g for` -> `n * np.nan_to_num(g) for`, ` if n]` -> `]`

# %% q04_averaged wrong
# the mean over ranks: `n * g for` -> `g for`, `sum(samples)` -> `len(parts)`
# one number for all weights: `n * g for` -> `n * g.mean() for`
# weights are the other way round: `n * g for` -> `g / n for`, `sum(samples)` -> `sum(1 / n for n in samples if n)`

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
# updates that change from step to step: `any(len({step["update"] for step in s}) > 1 for s in together)` ->
#     `len({step["update"] for s in together for step in s}) > 1`

# %% q06_more_checks right
# the ranks after the first: `any(rank["wrote"] for rank in ranks if rank["rank"] != 0)` ->
#     `[rank["wrote"] for rank in ranks[1:]] != [None] * (len(ranks) - 1)`

# %% q06_more_checks wrong
# each rank's own count: `sum(rank["samples_counted"] for rank in ranks) != trained_on` ->
#     `any(rank["samples_counted"] != sum(len(step["samples"]) for step in rank["steps"]) for rank in ranks)`
# rank 0's count times the ranks: `sum(rank["samples_counted"] for rank in ranks)` ->
#     `ranks[0]["samples_counted"] * len(ranks)`
# to the last digit: `rel_tol=1e-4` -> `rel_tol=0`
# two writers: `any(rank["wrote"] for rank in ranks if rank["rank"] != 0)` ->
#     `sum(bool(rank["wrote"]) for rank in ranks) > 1`

# %% q07_bugs right: by keyword
bugs = dict(A="wrap", B="throughput", C="shard", D="write", E="broadcast", F="scale")


# %% q07_bugs wrong
# B and D the other way round: `"B": "throughput"` -> `"B": "write"`, `"D": "write"` -> `"D": "throughput"`
# A and E the other way round: `"A": "wrap"` -> `"A": "broadcast"`, `"E": "broadcast"` -> `"E": "wrap"`
# one is missing: `, "F": "scale"` -> ``
# words in capitals: `"wrap"` -> `"Wrap"`
