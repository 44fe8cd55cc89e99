"""What docs/pytorch-and-jax.md and lesson 6b show in JAX and Keras 3 trains as one device does.

JAX needs a newer NumPy than TensorFlow 2.15, so uv runs the code in an environment of its own.
"""

import re
import subprocess
import sys

import pytest

from course.sharding.counterparts import Counterparts
from helpers import ROOT

PAGE = ROOT / "docs" / "pytorch-and-jax.md"
PINS = "keras==3.15.1", "jax==0.10.2"
BEGIN = """
import os
from functools import partial

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
P = PartitionSpec
random = np.random.default_rng(0)
x, y = random.normal(size=(2, 16, 4)).astype("float32")

def loss_fn(weights, x, y):
    return jnp.mean((x @ weights - y) ** 2)
"""
STEP = """
rate, weights = 0.1, np.eye(4, dtype="float32")
wanted = weights - rate * jax.grad(loss_fn)(weights, x, y)
{code}
found = train_step(weights, x, y)
assert len(x.sharding.device_set) == 8 and not x.is_fully_replicated
np.testing.assert_allclose(found, wanted, rtol=1e-5)
"""
DDP = """
weights = np.eye(4, dtype="float32")
mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
{code}
found = jax.shard_map(gradients, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())(weights, x, y)
np.testing.assert_allclose(found, jax.grad(loss_fn)(weights, x, y), rtol=1e-5)
"""
TENSOR = """
a, b = random.normal(size=(4, 16)).astype("float32"), random.normal(size=(16, 4)).astype("float32")
{code}
np.testing.assert_allclose(layer(x, a, b), np.maximum(x @ a, 0) @ b, rtol=1e-4, atol=1e-5)
"""
MESH = """
weights = np.ones((4, 8))
{code}
assert {{each.data.shape for each in weights.addressable_shards}} == {{(2, 2)}}
"""
KERAS = """
def build():
    keras.utils.set_random_seed(0)
    norm = keras.layers.BatchNormalization()
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), norm, keras.layers.Dense(4)])

{code}
assert len(model.layers[0].kernel.value.sharding.device_set) == 8
found = model.get_weights()
try:
    model.predict(x[:15])
except Exception as error:
    assert type(error).__name__ == "IndivisibleError", error
else:
    raise AssertionError("15 samples on 8 devices raise no error")
try:
    model.get_weights()
except TypeError:
    pass
else:
    raise AssertionError("the model still has its weights")
keras.distribution.set_distribution(None)
model = build()
model.compile(keras.optimizers.SGD(0.1), loss="mse")
model.fit(x, y, batch_size=16)
for one, other in zip(found, model.get_weights(), strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
"""


def shown(word):
    """Return the page's block of code that has a word."""
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if word in block]
    return code


@pytest.mark.nightly("docs/pytorch-and-jax.md", "source_code/course/sharding/counterparts.py")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", ["step", "ddp", "tensor", "mesh", "keras"])
def test_jax_trains_as_on_one_device(case, tmp_path):
    template, code = {
        "step": (STEP, shown("make_mesh")),
        "ddp": (DDP, Counterparts("DDP")._texts["JAX"]),
        "tensor": (TENSOR, Counterparts("tensor")._texts["JAX"]),
        "mesh": (MESH, Counterparts("mesh")._texts["JAX"]),
        "keras": (KERAS, shown("keras.distribution")),
    }[case]
    (tmp_path / "shown.py").write_text(BEGIN + template.format(code=code))
    pins = [word for pin in PINS for word in ("--with", pin)]
    line = [sys.executable, "-m", "uv", "run", "--no-project", "--isolated", "--python", sys._base_executable, *pins]
    done = subprocess.run([*line, "shown.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
