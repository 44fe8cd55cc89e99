# Right and wrong answers to the questions of lesson 6c: tests/grading/test_variants.py reads them.

# %% q02_groups right
# a table of ranks: `across = [list(range(first, first + tensor))` -> `across = [[*range(first, first + tensor)]`
# tuples: `return down, across` -> `return [tuple(map(tuple, axis)) for axis in (down, across)]`

# %% q02_groups plain
# the other way round: `return down, across` -> `return across, down`
# blocks for both: `list(range(first, ranks, tensor)) for first in range(tensor)` ->
#     `list(range(first * (ranks // tensor), (first + 1) * (ranks // tensor))) for first in range(tensor)`

# %% q02_groups wrong
# groups of four: `range(first, ranks, tensor)` -> `range(first, ranks, 4)`
# as many data groups as ranks of a row, always four: `for first in range(tensor)]` -> `for first in range(4)]`
# one tensor group is missing: `range(0, ranks, tensor)` -> `range(0, ranks - tensor, tensor)`
# data groups of two: `list(range(first, ranks, tensor))` -> `[first, first + tensor]`

# %% q03_options right
# the number of groups first: `ranks // tensor)` -> `max(1, ranks // tensor))`
# as a call: `{"workers": ranks, "batch": global_batch // (ranks // tensor)}` ->
#     `dict(batch=global_batch * tensor // ranks, workers=ranks)`

# %% q03_options plain
# the global batch for each rank: `global_batch // (ranks // tensor)` -> `global_batch`
# every rank has its own samples: `global_batch // (ranks // tensor)` -> `global_batch // ranks`

# %% q03_options wrong
# divided twice: `global_batch // (ranks // tensor)` -> `global_batch // ranks // tensor`
# as many groups as a group has ranks: `global_batch // (ranks // tensor)` -> `global_batch // tensor`
# too many groups: `(ranks // tensor)` -> `(ranks - tensor + 1)`
# only tensor groups count: `"workers": ranks` -> `"workers": ranks // tensor`

# %% q04_best right
# a list: `found.append(split)` -> `found.append(list(split))`, `seconds[split], default` -> `seconds[tuple(split)], default`
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
# lists: `return sent, wanted - sent` -> `return sent.tolist(), (wanted - sent).tolist()`
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
