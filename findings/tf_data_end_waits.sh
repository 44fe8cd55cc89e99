#!/usr/bin/env bash
# TensorFlow 2.15.1: the end of a loop over a tf.data.Dataset may take about as long as the loop.
#
# Guess: after its last batch a loop ends within milliseconds.
# Outcome: on busy cores, some of twelve loops of 5.5 s end only 10.2 s after they began; with `options.autotune.enabled =
# False` none waits. The thread of the autotuner sleeps 10 ms, 20 ms, 40 ms and so on, up to a minute, and the
# iterator waits for it when it is destroyed. Woken up to end, the thread may look before the flag that says so is set, and
# sleep again. So a loop of 25 s may end after 41 s, and one of a strategy, with an iterator for each device, after 142 s.
# TensorFlow 2.21.0 waits more rarely: two loops in one run of this script, none in another.
#
# Needs Linux and Python 3.11. About 2 minutes, most of it for downloads.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/ends.py" <<'PY'
import atexit
import os
import subprocess
import sys
import threading
import time

import tensorflow as tf


def loop(tuned, waits):
    options = tf.data.Options()
    options.autotune.enabled = tuned
    for _ in tf.data.Dataset.range(110).map(lambda number: 2 * number).with_options(options):
        time.sleep(0.05)
        last = time.monotonic()
    waits.append(time.monotonic() - last)


found = {}
busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
atexit.register(lambda: [process.kill() for process in busy])
for tuned in (True, False):
    waits = []
    threads = [threading.Thread(target=loop, args=(tuned, waits)) for _ in range(12)]
    for thread in threads:
        thread.start()
        time.sleep(0.2)
    for thread in threads:
        thread.join()
    found[tuned] = sum(wait > 2 for wait in waits)
    print(tf.__version__, "tuned" if tuned else "not tuned", *(f"{wait:.2f}" for wait in sorted(waits)), flush=True)
if not found[True] or found[False]:
    raise SystemExit(f"changed: {found[True]} tuned loops end late, and {found[False]} of those that are not tuned")
PY
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check tensorflow-cpu==2.15.1
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/ends.py" 2>/dev/null
# Seen on 2026-11-28: 2.15.1 tuned 0.01 0.01 0.01 0.02 0.02 0.02 0.02 0.06 4.22 4.29 4.29 4.33
# 2.15.1 not tuned 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.01 0.01 0.01 0.01 0.01
