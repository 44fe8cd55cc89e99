#!/usr/bin/env bash
# NumPy 2.4.6: rank 0's generator `default_rng([seed, rank])` draws the numbers of `default_rng(seed)`.
#
# Guess: a list of two numbers and one number are different seeds, so that a generator that all ranks share and those of
# single ranks are independent.
# Outcome: SeedSequence fills its pool of four words with zeros, so zeros at a list's end change nothing: [7, 0] and
# [7, 0, 0] are 7, while [7, 1] and [0, 7] are others. Rank 0, epoch 0 or worker 0 repeats what was drawn from the seed
# alone: with `default_rng(seed)` for a split and `default_rng([seed, epoch])` for the order, epoch 0 has the split's
# permutation. `SeedSequence(7, spawn_key=(0,))`, which `spawn` uses, is another seed than 7.
#
# Needs Python 3.11. Seconds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6
"$folder/venv/bin/python" - <<'PY'
import numpy as np


def drawn(seed):
    return np.random.default_rng(seed).integers(0, 1000, 3).tolist()


seen = {str(seed): drawn(seed) for seed in (7, [7, 0], [7, 0, 0], [7, 1], [0, 7])}
seen["spawned"] = drawn(np.random.SeedSequence(7, spawn_key=(0,)))
print(seen)
same = {name for name, numbers in seen.items() if numbers == seen["7"]}
if same != {"7", "[7, 0]", "[7, 0, 0]"}:
    raise SystemExit("changed: zeros at the end of a seed made no difference")
PY
# Seen on 2026-11-28: {'7': [944, 625, 684], '[7, 0]': [944, 625, 684], '[7, 0, 0]': [944, 625, 684],
# '[7, 1]': [870, 770, 875], '[0, 7]': [796, 38, 225], 'spawned': [305, 797, 203]}
