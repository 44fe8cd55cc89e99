#!/usr/bin/env bash
# JAX 0.10.2, CPU processes with Gloo: `jnp.max` of an array that processes share loses a NaN.
#
# Guess: the maximum of an array with a NaN is NaN on any number of processes, as in NumPy and on one process.
# Outcome: it depends on where the NaN is: with three processes, one in the first process's shard gives NaN, one in the second's
# or third's gives 1. `lax.pmax` and `lax.pmin` also depend on the place within a shard. Gloo reduces with
# "a < b ? b : a", which keeps either side of a NaN by its position, and the ring gives each place another order. It is so with
# MAX and MIN of Gloo in PyTorch 2.13.0 and Horovod 0.28.1, at the same places, and with MPICH 5.0.2's MPI_MAX at others.
# To ask whether any rank has a NaN, sum it: `psum` keeps it, or reduces `isnan(x)`.
#
# Needs Python 3.11 and one free port on 127.0.0.1. Half a minute.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check jax==0.10.2 numpy==2.4.6
cat >"$folder/rank.py" <<'PY'
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

rank, port = map(int, sys.argv[1:])
jax.config.update("jax_platforms", "cpu")
jax.distributed.initialize(f"127.0.0.1:{port}", 3, rank)
sharding = NamedSharding(jax.sharding.Mesh(jax.devices(), ("rank",)), PartitionSpec("rank"))


def spread(values):
    return jax.make_array_from_process_local_data(sharding, np.asarray(values, np.float32)[None])


def pmax(values):
    each = jax.shard_map(
        lambda x: jax.lax.pmax(x, "rank"), mesh=sharding.mesh, in_specs=sharding.spec, out_specs=sharding.spec
    )
    return np.asarray(jax.jit(each)(spread(values)).addressable_shards[0].data)[0].tolist()


seen = {}
for where in range(3):
    values = [np.nan if rank == where else 1.0] * 3
    seen[where] = [float(jax.jit(jnp.max)(spread(values))), pmax(values), float(jax.jit(jnp.sum)(spread(values)))]
if rank == 0:
    for where, (largest, each, total) in seen.items():
        print(f"NaN on rank {where}: max {largest}, pmax {each}, sum {total}")
    if str(seen) != str(
        {
            0: [np.nan, [np.nan, np.nan, 1.0], np.nan],
            1: [1.0, [1.0, 1.0, np.nan], np.nan],
            2: [1.0, [1.0, 1.0, 1.0], np.nan],
        }
    ):
        raise SystemExit("changed: the maximum lost a NaN of ranks 1 and 2, and the sum kept it")
PY
port=$("$folder/venv/bin/python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
for rank in 1 2; do "$folder/venv/bin/python" "$folder/rank.py" "$rank" "$port" >/dev/null 2>&1 & done
"$folder/venv/bin/python" "$folder/rank.py" 0 "$port" 2>/dev/null | grep -v '^\[Gloo\]'
wait
# Seen on 2026-11-28:
# NaN on rank 0: max nan, pmax [nan, nan, 1.0], sum nan
# NaN on rank 1: max 1.0, pmax [1.0, 1.0, nan], sum nan
# NaN on rank 2: max 1.0, pmax [1.0, 1.0, 1.0], sum nan
