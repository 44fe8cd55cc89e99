#!/usr/bin/env bash
# safetensors 0.8.0 with ml_dtypes 0.6.0: NumPy arrays in bfloat16 can be saved, but not loaded again.
#
# Guess: what `safetensors.numpy.save` accepts, `safetensors.numpy.load` returns.
# Outcome: the file is right, its type is BF16; `load` raises KeyError: 'BF16'. Other readers of the format can read it. A
# training that checkpoints with it finds out when it resumes: save uint16 views and note the type, or load with a
# framework's module.
#
# Needs Python 3.11. Seconds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6 safetensors==0.8.0 ml_dtypes==0.6.0
"$folder/venv/bin/python" - <<'PY'
import json

import ml_dtypes
import numpy as np
from safetensors.numpy import load, save

file = save({"weights": np.ones(2, ml_dtypes.bfloat16)})
header = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])
try:
    outcome = load(file)
except KeyError as error:
    outcome = f"KeyError: {error}"
print(header["weights"]["dtype"], "saved; loaded:", outcome)
if header["weights"]["dtype"] != "BF16" or outcome != "KeyError: 'BF16'":
    raise SystemExit("changed: it was saved as BF16, and loading raised a KeyError")
PY
# Seen on 2026-11-28: BF16 saved; loaded: KeyError: 'BF16'
