#!/bin/sh
# Prints the path of a working Python 3.11, or says in one line why this machine has none.
# Usage: sh tools/python.sh [VENV]    An active conda environment counts: its python3 leads the PATH.

fail() {
    echo "set-up: $*" >&2
    exit 1
}

if [ "$(uname -s)" != Linux ] || [ "$(uname -m)" != x86_64 ]; then
    fail "this is $(uname -s) on $(uname -m), and the course runs on Linux on x86-64 only:" \
        "use WSL 2 on Windows, or a Linux container or virtual machine elsewhere."
fi

try() {
    "$1" -c 'import sys
if sys.version_info[:2] == (3, 11): print(sys.executable)' 2>/dev/null
}

for python in ${PYTHON:+"$PYTHON"} "${1:-.venv}/bin/python" python3.11 python3; do
    found=$(try "$python") && [ -n "$found" ] && echo "$found" && exit
    [ "$python" != "$PYTHON" ] || fail "PYTHON=$PYTHON is not a working Python 3.11."
done
found=$(uv python find --no-project 3.11 2>/dev/null) && [ -n "$(try "$found")" ] && echo "$found" && exit
fail "Python 3.11 was not found: install it with \`apt install python3.11 python3.11-venv\`" \
    "(Debian, Ubuntu), \`uv python install 3.11\`, or \`conda env create -f environment.yml\`," \
    "or name one with PYTHON=/path/to/python3.11."
