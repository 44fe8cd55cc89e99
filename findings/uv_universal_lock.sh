#!/usr/bin/env bash
# uv 0.13.8 (TensorFlow 2.22.0rc0): a universal lock that resolves for Python 3.11 to 3.14 need not install on each of them.
#
# Guess: all wheels of one release ask for the same packages, so `uv pip compile --universal --python-version 3.11` finds
# what each Python needs, and a lock that resolves can be installed.
# Outcome: it installs on 3.11 to 3.13 only. The wheel of TensorFlow for Python 3.14 asks for h5py ~=3.15.1, and the others
# for h5py <3.15, without a marker. uv reads the wheel for the oldest Python and takes its word for all, so the lock has
# h5py 3.14.0, which has no wheel for Python 3.14: uv compiles it, and fails where HDF5's headers are missing.
# tools/next-overrides.txt gives h5py the markers that TensorFlow left out.
#
# Needs Linux and Python 3. A few seconds: only metadata is downloaded.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.8
echo tensorflow-cpu==2.22.0rc0 >"$folder/requirements.in"
h5py() { # what a lock with these options has
    "$folder/venv/bin/uv" pip compile --quiet --no-header --no-annotate "$@" "$folder/requirements.in" | sed -n 's/^h5py==\([^ ]*\).*/\1/p'
}
found="universal from 3.11: $(h5py --universal --python-version 3.11), 3.11 alone: $(h5py --python-version 3.11), 3.14 alone: $(h5py --python-version 3.14)"
echo "h5py in the lock, $found"
[ "$found" = "universal from 3.11: 3.14.0, 3.11 alone: 3.14.0, 3.14 alone: 3.15.1" ] || { echo "changed: the universal lock had 3.11's version alone" >&2 && exit 1; }
# Seen on 2026-11-28: h5py in the lock, universal from 3.11: 3.14.0, 3.11 alone: 3.14.0, 3.14 alone: 3.15.1
