# Right and wrong answers to the questions of lesson 1c: tests/grading/test_variants.py reads them.

# %% q01_split right
# with NumPy: `return chunks` -> `return np.array_split(values, ranks)`
# map: `return chunks` -> `return map(list, chunks)`

# %% q01_split wrong
# equal parts only: `return chunks` -> `return np.split(values, ranks)`
# like cards: `return chunks` -> `return [values[rank::ranks] for rank in range(ranks)]`
# chunks of that size: `return chunks` -> `return [values[i : i + ranks] for i in range(0, len(values), ranks)]`
# without empty chunks: `return chunks` -> `return [chunk for chunk in chunks if len(chunk)]`

# %% q02_ring right
# the other way round: `rank - step` -> `step - rank`

# %% q02_ring wrong
# without the remainder: `(rank - step) % ranks` -> `rank - step`
# forwards: `rank - step` -> `rank + step`
# the same chunk on all ranks: `rank - step` -> `step`
# begins again with the second phase: `rank - step` -> `rank - step % (ranks - 1)`
