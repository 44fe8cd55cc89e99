# Right and wrong answers to the questions of lesson 1: tests/grading/test_variants.py reads them.

# %% q01_gradients right
# with NumPy: `sum(grad_point(w, point, len(data)) for point in data)` ->
#     `np.mean([grad_point(w, point, 1) for point in data])`
# central differences: `-2 * x * (y - w * x) / n` -> `((y - (w + 1) * x) ** 2 - (y - (w - 1) * x) ** 2) / 2 / n`

# %% q01_gradients wrong
# without the 2: `-2 * x` -> `-x`
# without the inner derivative: `-2 * x` -> `-2`
# the sizes of x: `-2 * x * (y - w * x)` -> `2 * abs(x) * (w * abs(x) - y)`
# grad_multi refuses a single point: `not data` -> `len(data) <= 1`

# %% q02_distributed right
# with the answer before: `descent.gradient(w, data)` -> `grad_multi(w, data)`
# with NumPy: `sum(gradients) / len(gradients)` -> `np.mean(gradients)`
# the weights are averaged after every step: `worker_gradient(w, s[i % len(s)])` ->
#     `w - lr * worker_gradient(w, s[i % len(s)])`, `w - lr * average` -> `average`

# %% q02_distributed wrong
# the gradients are added: `sum(gradients) / len(gradients)` -> `sum(gradients)`
# weighted by the sizes of the batches: `average_gradients(own)` ->
#     `np.average(own, weights=[len(s[i % len(s)]) for s in shards])`
# the mean of none is 0: `raise ValueError("there are no gradients to average")` -> `return 0.0`

# %% q02_distributed wrong: the weights are averaged at the end
def train_loop_distributed(w, lr, shards, iterations):
    ends = []
    for shard in shards:
        own = w
        for i in range(iterations):
            own -= lr * worker_gradient(own, shard[i % len(shard)])
        ends.append(own)
    return sum(ends) / len(ends)
