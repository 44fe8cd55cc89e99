#!/bin/sh
# What the image runs: the command given to it, or else JupyterLab on the course.
#
# The course is the one in the current folder: /course in Docker, an attendee's clone. Where that
# has none, as on a cluster, where the image cannot be written, it is a copy in ./ddl-course, made
# the first time and opened again the next.
set -eu
[ $# -eq 0 ] || exec "$@"

fail() {
    echo "start-course: $*" >&2
    exit 1
}

if [ ! -e Start_Here.ipynb ]; then
    if [ ! -e ddl-course ]; then
        part=ddl-course.part
        rm -rf $part
        if ! cp -R /course $part || ! mv $part ddl-course; then
            rm -rf $part
            fail "$PWD cannot take a copy of the course: change to a folder of yours."
        fi
        echo "start-course: a copy of the course was made in $PWD/ddl-course" >&2
    fi
    cd ddl-course
fi
[ -w . ] || fail "$PWD is not yours to write: change to a folder that is."

# This folder's package and scripts rather than the image's, should an attendee change them, and
# none of the settings that a home folder from the host may bring along.
export PYTHONPATH="$PWD/source_code" JUPYTER_CONFIG_DIR="$PWD/.jupyter"
exec ddl lab --no-browser --ip=0.0.0.0 --ServerApp.root_dir="$PWD"
