#!/usr/bin/env bash
# JAX 0.10.2: with_sharding_constraint to a replicated NamedSharding does nothing on a mesh with Explicit axes.
#
# Guess: inside jit, it raises an error, since it "acts as an assert" for Explicit axes and the array is sharded.
# Outcome: with NamedSharding(mesh, PartitionSpec()) the result stays sharded, and there is no error. The same spec alone,
# under jax.set_mesh(mesh), raises AssertionError. It is so in JAX 0.12.0.1, too. With axis_types=(AxisType.Auto,), the result is replicated.
#
# Needs Linux and Python 3.11. About 1 minute, most of it for downloads.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check jax==0.10.2
cat >"$folder/constraint.py" <<'PY'
import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec


def constrained(mesh, to):
    x = jax.device_put(np.arange(8.0), NamedSharding(mesh, PartitionSpec("data")))
    return str(jax.jit(lambda x: jax.lax.with_sharding_constraint(2 * x, to))(x).sharding.spec)


explicit, auto = (jax.make_mesh((2,), ("data",), axis_types=kinds) for kinds in (None, (AxisType.Auto,)))
found = [constrained(mesh, NamedSharding(mesh, PartitionSpec())) for mesh in (explicit, auto)]
print("asked for PartitionSpec(), got:", found[0], "with Explicit axes,", found[1], "with Auto axes", flush=True)
try:
    with jax.set_mesh(explicit):
        constrained(explicit, PartitionSpec())
except AssertionError as error:
    print("the spec alone: AssertionError:", str(error).split(".")[0])
else:
    raise SystemExit("changed: the spec alone raises nothing")
if "data" not in found[0] or "data" in found[1]:
    raise SystemExit("changed: Explicit axes are constrained")
PY
cd "$folder" && XLA_FLAGS=--xla_force_host_platform_device_count=2 venv/bin/python constraint.py
# Seen on 2026-11-28: asked for PartitionSpec(), got: P('data',) with Explicit axes, P() with Auto axes
# the spec alone: AssertionError: `with_sharding_constraint` acts as an assert when all axes of mesh are of type `Explicit`
