#!/usr/bin/env bash
# PyTorch 2.13.0: Gloo averages, and an average of integers raises an error on all ranks.
#
# Guess: `ReduceOp.AVG` is for NCCL alone, so that code for CPUs must sum and divide; if it were there, integers would
# be averaged as Horovod does, rounded toward zero.
# Outcome: `all_reduce` with AVG works on Gloo for floats. For integers, it raises RuntimeError after the ranks have communicated.
#
# Needs Python 3.11. A minute or more, for the download.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cat >"$folder/rank.py" <<'PY'
import torch
import torch.distributed as dist

dist.init_process_group("gloo")


def average(values):
    tensor = torch.tensor(values)
    try:
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    except RuntimeError as error:
        return f"RuntimeError: {error}"
    return tensor.tolist()


floats, integers = average([float(dist.get_rank())]), average([dist.get_rank()])
if dist.get_rank() == 0:
    print(floats, integers)
    if floats != [0.5] or not str(integers).startswith("RuntimeError: result type Float can't be cast"):
        raise SystemExit("changed: floats were averaged, and integers raised an error")
dist.destroy_process_group()
PY
OMP_NUM_THREADS=1 "$folder/venv/bin/torchrun" --standalone --nproc-per-node 2 "$folder/rank.py" 2>"$folder/errors" ||
    { cat "$folder/errors"; exit 1; }
# Seen on 2026-11-28: [0.5] RuntimeError: result type Float can't be cast to the desired output type Long
