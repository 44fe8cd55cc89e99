#!/usr/bin/env bash
# JAX 0.10.2: `lax.pmean` of int8 wraps around, `jnp.mean` of the same array does not.
#
# Guess: the mean of 100 on three devices is 100: pmean returns a float, so it computes in floats.
# Outcome: pmean is psum divided by the number of devices, and psum adds in int8: 300 wraps to 44, and the mean is 14.67, a
# float that looks like a result. `jnp.mean` over the same devices converts first and gives 100. Quantized gradients need a
# wider type before they are averaged. Horovod 0.28.1 averages int8 in the same way, to 14.
#
# Needs Python 3.11. Half a minute.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check jax==0.10.2 numpy==2.4.6
JAX_PLATFORMS=cpu JAX_NUM_CPU_DEVICES=3 "$folder/venv/bin/python" - <<'PY'
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

sharding = NamedSharding(jax.sharding.Mesh(jax.devices(), ("rank",)), PartitionSpec("rank"))
values = jax.device_put(jnp.full(3, 100, jnp.int8), sharding)
averaged = jax.shard_map(
    lambda x: jax.lax.pmean(x, "rank"), mesh=sharding.mesh, in_specs=sharding.spec, out_specs=sharding.spec
)(values)
mean = jnp.mean(values)
print("pmean:", averaged.dtype, averaged[0], "mean:", mean.dtype, mean)
if round(float(averaged[0]), 2) != 14.67 or float(mean) != 100:
    raise SystemExit("changed: pmean was 14.67, and mean 100")
PY
# Seen on 2026-11-28: pmean: float32 14.666667 mean: float32 100.0
