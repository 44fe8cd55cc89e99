#!/usr/bin/env bash
# safetensors 0.8.0 with NumPy 2.4.6: a transposed array is saved with its numbers in the wrong places.
#
# Guess: `save` writes the array as it is, or refuses one that is not contiguous, as it does for PyTorch's tensors.
# Outcome: it writes the new shape, but the memory in its old order, so that every number but a few comes back at
# another place, without a word. A Fortran-ordered kernel or `weights.T` is such an array, as conversions between frameworks
# make them: pass `np.ascontiguousarray(array)`.
#
# Needs Python 3.11. Seconds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6 safetensors==0.8.0
"$folder/venv/bin/python" - <<'PY'
import numpy as np
from safetensors.numpy import load, save

kernel = np.arange(6.0).reshape(2, 3).T
back = load(save({"kernel": kernel}))["kernel"]
contiguous = load(save({"kernel": np.ascontiguousarray(kernel)}))["kernel"]
print("saved:", kernel.tolist(), "loaded:", back.tolist())
if back.tolist() != [[0, 1], [2, 3], [4, 5]] or not np.array_equal(contiguous, kernel):
    raise SystemExit("changed: the transposed array came back in the order of its memory, the contiguous one was right")
PY
# Seen on 2026-11-28: saved: [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]] loaded: [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
