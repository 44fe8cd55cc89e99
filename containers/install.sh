#!/bin/sh
# What containers/Dockerfile and containers/Singularity.def both run inside the image, as root:
#
#     install.sh environment    Python 3.11 from the base's packages, and /opt/ddl from the lock of DDL_STACK
#     install.sh course         the package, what the image starts, its health check, a user to be
#
# Why not the base's own Python: NVIDIA's image has Python 3.10 and its own builds of TensorFlow and
# Horovod, while the course's lock is for Python 3.11 (pandas 3 needs it) and is what everyone else
# has. So the base gives the CUDA compiler, NCCL, MPI and the driver's user space, Horovod is
# compiled against these, and nothing of the base's Python is seen.
#
# A base that brings Horovod's wheel, in a copy of what lies in ~/.cache since `make setup`, names that copy's folder
# as DDL_BUILD_CACHE: where it fits the lock, nothing is compiled.
#
# CA=FILE has certificates of a proxy that downloads go through: used here, left nowhere.
set -eu
umask 022
cd "$(dirname "$0")/.."
unset PYTHONPATH PYTHONHOME PIP_CONSTRAINT PIP_TARGET PIP_USER
scratch=$(mktemp -d)
export DEBIAN_FRONTEND=noninteractive PYTHONNOUSERSITE=1

is_there() {
    command -v "$1" >/dev/null
}

set_up() {
    TMPDIR="$scratch" XDG_CACHE_HOME="$scratch" sh tools/setup.sh /opt/ddl "$1"
}

environment() {
    if [ -s "${CA:-}" ]; then
        set -- -o "Acquire::https::CAInfo=$CA"
        export PIP_CERT="$CA"
    fi
    compiler=
    is_there c++ && is_there make || compiler="g++ make"
    apt-get "$@" -qq update
    # shellcheck disable=SC2086 # two packages, or none
    apt-get "$@" -qq install --no-install-recommends \
        ca-certificates python3.11 python3.11-venv tini $compiler

    cuda=${CUDA_HOME:-/usr/local/cuda}
    export DDL_ACCELERATOR=cpu
    if [ "${DDL_STACK:-}" != next ] && { is_there nvcc || is_there "$cuda/bin/nvcc"; }; then DDL_ACCELERATOR=gpu; fi
    if is_there mpicxx; then export DDL_MPI=1; fi
    # Nobody can write into /opt/ddl later on: what is not compiled now is compiled at every start.
    export UV_COMPILE_BYTECODE=1
    if [ "${DDL_BUILD_CACHE:-}" ]; then cp -R "$DDL_BUILD_CACHE/." "$scratch"; fi
    set_up environment

    # shellcheck disable=SC2086
    [ -z "$compiler" ] || apt-get -qq purge --auto-remove $compiler
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
}

course() {
    set_up course
    install -m 755 containers/start.sh /opt/ddl/bin/start-course
    install -m 755 containers/health.py /opt/ddl/bin/course-health
    useradd --create-home --shell /bin/bash attendee
    rm -f notebooks/*.py notebooks/*.zip  # somebody's own answers, where the image is built from a folder in use
    mkdir -p runs /home/attendee/.cache/ddl
    find . -name __pycache__ -prune -exec rm -rf {} +
    # `docker run --user` may name anyone: a container has one user at a time, so all may write.
    chown -R attendee: .
    chmod -R a+rwX . /home/attendee
}

"$1"
rm -rf build "$scratch"
