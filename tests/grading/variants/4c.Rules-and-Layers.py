# Right and wrong answers to the questions of lesson 4c: tests/grading/test_variants.py reads them.

# %% q01_lars_step right
# NumPy's norms, and a list: `np.sqrt(np.sum(weights**2))` -> `np.linalg.norm(weights.ravel())`,
#     `np.sqrt(np.sum(gradient**2))` -> `np.linalg.norm(gradient.ravel())`, `return weights - velocity, velocity` ->
#     `return [weights - velocity, velocity]`

# %% q01_lars_step wrong
# the rate multiplies the velocity: `rate * ratio` -> `ratio`, `weights - velocity` -> `weights - rate * velocity`
# no decay in the denominator: ` + decay * norm` -> ``
# the norm of gradient and decay together: `np.sqrt(np.sum(gradient**2)) + decay * norm` ->
#     `np.sqrt(np.sum((gradient + decay * weights) ** 2))`

# %% q02_lamb_step right
# norms by hand: `np.linalg.norm(weights)` -> `np.sqrt(np.sum(weights**2))`

# %% q02_lamb_step wrong
# the sum of both averages: `beta_2 * v + (1 - beta_2)` -> `v + (1 - beta_2) * 2`
# no correction for the beginning: `m / (1 - beta_1**i), v / (1 - beta_2**i)` -> `m, v`
# decay outside of the direction: `+ decay * weights` -> `+ 0 * weights`, `weights - rate` ->
#     `weights - rate * decay * weights - rate`
# epsilon inside the root: `np.sqrt(square) + epsilon` -> `np.sqrt(square + epsilon)`
