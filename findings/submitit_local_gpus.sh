#!/usr/bin/env bash
# submitit 1.5.4: the local executor hands out GPUs that are not there, and to each task the same ones.
#
# Guess: on a machine without a GPU, `gpus_per_node=2` is refused; with two tasks, each gets one, as from Slurm with
# --gpus-per-task=1.
# Outcome: it counts the GPUs of no machine. Every task has CUDA_VISIBLE_DEVICES=0,1, so on a workstation all tasks compute on
# device 0, and on a machine without GPUs a script sees two named and finds none. Memory, cores and partitions are ignored,
# too; only a second node is refused. What runs locally says nothing about what Slurm will grant.
#
# Needs Python 3.11. Half a minute.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check submitit==1.5.4
cat >"$folder/submit.py" <<'PY'
import os
import sys

import submitit

executor = submitit.AutoExecutor(folder=sys.argv[1], cluster="local")
executor.update_parameters(gpus_per_node=2, tasks_per_node=2, cpus_per_task=4096, mem_gb=1_000_000, timeout_min=1)
seen = executor.submit(lambda: os.environ.get("CUDA_VISIBLE_DEVICES")).results()
print(seen)
if seen != ["0,1", "0,1"]:
    raise SystemExit("changed: both tasks had both of two GPUs that nobody looked for")
PY
"$folder/venv/bin/python" "$folder/submit.py" "$folder/jobs"
# Seen on 2026-11-28: ['0,1', '0,1']
