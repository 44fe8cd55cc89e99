# %% [markdown]
# # A tiny lesson
#
# ![A batch, normalized.](../images/batch_norm.svg) Before this: [Start_Here](../Start_Here.ipynb)

# %% tags=["parameters"]
size = "reader"

# %% tags=["demo"]
raise RuntimeError("a cell that only shows something is not run when marking")


# %% nbgrader={"grade": false, "grade_id": "q01_mean", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mean(values):
    """Return the mean of a list of numbers; of none it is 0.0."""
    ### BEGIN SOLUTION
    canary_in_a_solution = len(values)
    return sum(values) / canary_in_a_solution if values else 0.0
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "q01_mean_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
import math

assert math.isclose(mean([1, 2, 3]), 2), f"the mean of 1, 2, 3 is 2, not {mean([1, 2, 3])}"
### BEGIN HIDDEN TESTS
canary_in_a_hidden_test = 8191.0
assert mean([canary_in_a_hidden_test]) == canary_in_a_hidden_test
assert mean([]) == 0.0
### END HIDDEN TESTS

# %% nbgrader={"grade": false, "grade_id": "q02_table", "locked": false, "schema_version": 3, "solution": true, "task": false}
# The squares of 1, 2 and 3.
### BEGIN SOLUTION
squares = [1, 4, 9]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q02_table_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
assert squares == [1, 4, 9], "each number times itself"

# %% [markdown] nbgrader={"grade": false, "grade_id": "q03_why_prompt", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Why is the mean of equal numbers that number?
#
# === BEGIN MARK SCHEME ===
# 3 points: canary in a mark scheme, namely N·x / N.
# === END MARK SCHEME ===

# %% [markdown] nbgrader={"grade": true, "grade_id": "q03_why", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# === BEGIN SOLUTION ===
# A canary in a model answer: their sum is N times the number.
# === END SOLUTION ===


# %% nbgrader={"grade": false, "grade_id": "q04_double", "locked": false, "schema_version": 3, "solution": true, "task": false}
def double(array):
    """Return twice a NumPy array."""
    ### BEGIN SOLUTION
    return 2 * array
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "q04_double_test", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
import numpy as np

assert np.array_equal(double(np.arange(3)), [0, 2, 4])
### BEGIN HIDDEN TESTS
assert np.array_equal(double(np.zeros(0)), [])
### END HIDDEN TESTS
