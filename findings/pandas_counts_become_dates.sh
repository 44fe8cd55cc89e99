#!/usr/bin/env bash
# pandas 3.1.1: `read_json` makes dates of counts in a column whose name ends in `_at`, if they are large.
#
# Guess: a log of JSON lines comes back with the numbers that were written.
# Outcome: columns whose names end in _at or _time, begin with timestamp, or are called modified or date are read as
# dates if the numbers are seconds, milli-, micro- or nanoseconds of a date after 1971. So `stopped_at`, in samples, is
# a number in a log of 5,000 samples, and 8 April 1971 in one of 40 million. `convert_dates=False` turns it off, with a
# warning that it will go; the `json` module reads what was written.
#
# Needs Python 3.11. Half a minute.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pandas==3.1.1
"$folder/venv/bin/python" - <<'PY'
import io

import pandas


def read(samples, **options):
    log = io.StringIO(f'{{"stopped_at": {samples}, "samples": {samples}}}\n')
    return pandas.read_json(log, lines=True, **options).iloc[0].to_dict()


small, large, off = read(5_000), read(40_000_000), read(40_000_000, convert_dates=False)
print(small, large, off, sep="\n")
if small["stopped_at"] != 5_000 or str(large["stopped_at"]) != "1971-04-08 23:06:40" or large["samples"] != 40_000_000:
    raise SystemExit("changed: only the large number, and only in the column that ends in _at, was a date")
if off["stopped_at"] != 40_000_000:
    raise SystemExit("changed: convert_dates=False left the number alone")
PY
# Seen on 2026-11-28:
# {'stopped_at': 5000, 'samples': 5000}
# {'stopped_at': Timestamp('1971-04-08 23:06:40'), 'samples': 40000000}
# {'stopped_at': 40000000, 'samples': 40000000}
