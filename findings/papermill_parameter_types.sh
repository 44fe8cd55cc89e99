#!/usr/bin/env bash
# papermill 2.7.0: `-p run 2026_11_28` gives the notebook the number 20261128, and `-p flag true` the text "true".
#
# Guess: `-p` gives numbers for what is written as a number, the truth for true, and text for all else.
# Outcome: whatever Python's int() and float() take is a number: underscores between digits vanish, 007 is 7, infinity
# and nan are floats. Of booleans, only True and False in Python's spelling count; "true" and "false" are texts, and both
# are true in an `if`. `-r` passes text as it is, and `-y` reads YAML.
#
# Needs Python 3.11. Half a minute.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check papermill==2.7.0 nbformat==5.10.4
cd "$folder"
venv/bin/python - <<'PY'
import nbformat

cell = nbformat.v4.new_code_cell("run = student = dataset = flag = None", metadata={"tags": ["parameters"]})
notebook = nbformat.v4.new_notebook(cells=[cell])
notebook.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": "Python 3"}
nbformat.write(notebook, "in.ipynb")
PY
venv/bin/papermill --prepare-only --log-level ERROR in.ipynb out.ipynb \
    -p run 2026_11_28 -p student 007 -p dataset infinity -p flag true 2>/dev/null
venv/bin/python - <<'PY'
import nbformat

found = nbformat.read("out.ipynb", 4).cells[1].source.splitlines()[1:]
print(*found, sep="; ")
if found != ["run = 20261128", "student = 7", "dataset = float('inf')", 'flag = "true"']:
    raise SystemExit("changed: three texts were numbers, and true was a text")
PY
# Seen on 2026-11-28: run = 20261128; student = 7; dataset = float('inf'); flag = "true"
