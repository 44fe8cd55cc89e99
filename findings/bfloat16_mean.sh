#!/usr/bin/env bash
# NumPy 2.4.6 with ml_dtypes 0.6.0: the mean of a thousand ones in bfloat16 is 0.256.
#
# Guess: `mean` accumulates bfloat16 in a wider type, as it does for float16, where it is 1.
# Outcome: NumPy widens float16 only. A bfloat16 sum stops at 256, since 256 + 1 is 256 in eight bits, and `mean` divides
# that by 1,000; in float8_e4m3fn the sum stops at 16. Metrics, norms and averages of such arrays need
# `.astype(np.float32)` first, or `dtype=np.float32` in `sum` and `mean`.
#
# Needs Python 3.11. Seconds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6 ml_dtypes==0.6.0
"$folder/venv/bin/python" - <<'PY'
import ml_dtypes
import numpy as np

seen = {}
for kind in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
    ones = np.ones(1000, kind)
    seen[np.dtype(kind).name] = float(ones.sum()), float(ones.mean()), float(ones.mean(dtype=np.float32))
print(seen)
if {name: (total, round(mean, 3), wide) for name, (total, mean, wide) in seen.items()} != {
    "float16": (1000, 1, 1),
    "bfloat16": (256, 0.256, 1),
    "float8_e4m3fn": (16, 0.016, 1),
}:
    raise SystemExit("changed: sums stopped at 256 and 16, and the means followed them")
PY
# Seen on 2026-11-28: {'float16': (1000.0, 1.0, 1.0), 'bfloat16': (256.0, 0.255859375, 1.0),
# 'float8_e4m3fn': (16.0, 0.015625, 1.0)}
