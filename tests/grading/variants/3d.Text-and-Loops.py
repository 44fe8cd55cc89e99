# Right and wrong answers to the questions of lesson 3d: tests/grading/test_variants.py reads them.

# %% q02_evaluate right
# Keras' epsilon in each denominator: `hits / said.sum() if said.any() else 0.0` -> `hits / (said.sum() + 1e-7)`,
#     `hits / labels.sum() if labels.any() else 0.0` -> `hits / (labels.sum() + 1e-7)`,
#     `2 * precision * recall / total if total else 0.0` -> `2 * precision * recall / (total + 1e-7)`
# F1 from the counts: `2 * precision * recall / total if total else 0.0` ->
#     `2 * hits / max(said.sum() + labels.sum(), 1)`

# %% q02_evaluate wrong
# F1 is the smaller: `2 * precision * recall / total if total else 0.0` -> `min(precision, recall)`
# specificity for recall: `hits / labels.sum() if labels.any() else 0.0` -> `np.mean(~said[~labels]) if hits else 0.0`

# %% q02_evaluate wrong: means of batches
together = evaluate


def evaluate(batches):
    each = [together([batch]) for batch in batches]
    return {name: np.mean([values[name] for values in each]) for name in each[0]}


# %% q03_pictures_of right
# stacked image by image, in a list: `np.moveaxis(mat["X"], 3, 0)` ->
#     `np.stack([mat["X"][..., i] for i in range(mat["X"].shape[3])])`, `return images, labels` ->
#     `return [images, labels]`

# %% q03_pictures_of wrong
# reshaped, not moved: `np.moveaxis(mat["X"], 3, 0)` -> `mat["X"].reshape(-1, 32, 32, 3)`
# channels first: `np.moveaxis(mat["X"], 3, 0)` -> `mat["X"].transpose(3, 2, 0, 1)`
# between 0 and 1: `np.moveaxis(mat["X"], 3, 0)` -> `np.moveaxis(mat["X"], 3, 0) / 255`
# one less: ` % 10` -> ` - 1`
# labels keep their column: `.reshape(-1)` -> ``
