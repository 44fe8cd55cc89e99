#!/bin/sh
# Prints the path of a working Python for a stack, or says in one line why this machine has none: 3.11 for the
# default, any from 3.10 to 3.13 for DDL_STACK=next. tools/environment.py knows these numbers, too.
# Usage: sh tools/python.sh [VENV]    An active conda environment counts: its python3 leads the PATH.

fail() {
    echo "set-up: $*" >&2
    exit 1
}

if [ "$(uname -s)" != Linux ] || [ "$(uname -m)" != x86_64 ]; then
    fail "this is $(uname -s) on $(uname -m), and the course runs on Linux on x86-64 only:" \
        "use WSL 2 on Windows, or a Linux container or virtual machine elsewhere."
fi

venv=${1:-.venv}
[ ! -e "$venv/ddl-setup/next" ] || DDL_STACK=${DDL_STACK:-next}
newer="python3 python3.13 python3.12 python3.11 python3.10"

try() { # program, the first and the last minor version that will do
    "$1" -c "import sys
if (3, $2) <= sys.version_info[:2] <= (3, $3): print(sys.executable)" 2>/dev/null
}

first() { # the first and the last minor version, programs to try
    from=$1 to=$2
    shift 2
    for python in "$@"; do
        found=$(try "$python" "$from" "$to") && [ -n "$found" ] && echo "$found" && return
    done
    return 1
}

if [ "$DDL_STACK" = next ]; then
    from=10 to=13 versions="3.10 to 3.13" programs=$newer
    get="\`apt install python3 python3-venv\` (Debian 12, Ubuntu 22.04 and later), \`uv python install 3.13\`"
    conda=environment-next.yml
else
    from=11 to=11 versions=3.11 programs="python3.11 python3"
    get="\`apt install python3.11 python3.11-venv\` (Debian 12), \`uv python install 3.11\`"
    conda=environment.yml
fi

if [ "$PYTHON" ]; then
    first $from $to "$PYTHON" || fail "PYTHON=$PYTHON is not a working Python $versions."
    exit
fi
# shellcheck disable=SC2086 # a list of programs
first $from $to "$venv/bin/python" $programs && exit
found=$(uv python find --no-project ">=3.$from,<3.$((to + 1))" 2>/dev/null) && first $from $to "$found" && exit
other=
if [ "$DDL_STACK" != next ]; then
    # shellcheck disable=SC2086
    there=$(first 10 13 $newer) && other=" On $there, which is here, \`make lab STACK=next\` runs the same course with TensorFlow 2.21."
fi
fail "Python $versions was not found: install it with $get, or \`conda env create -f $conda\`," \
    "or name one with PYTHON=/path/to/python.$other"
