#!/bin/sh
# The Debian packages that `make test-all` needs besides the set-up's: as root they are installed,
# otherwise those that are missing are named, and the tests that need them skip, which counts as
# failed there.
set -eu

packages="
chromium fonts-dejavu-core
slurm-wlm munge libpmix-dev
buildah debootstrap
bubblewrap
iproute2
procps strace
"
# In turn: the lessons in a real browser; a real Slurm, with what its MPI plug-in loads; building
# the container image from a Debian made here; where hand-ins run; hosts in namespaces of the
# network; what tests look at processes with, and end them at a system call.

command -v dpkg-query >/dev/null || { echo "test-all: not a Debian; it needs:" $packages; exit 0; }
missing=
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>&1 | grep -q 'ok installed' || missing="$missing $package"
done
[ "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "test-all: missing Debian packages:$missing (\`sudo apt-get install$missing\`)"
    exit 0
fi
echo "test-all: installing$missing"
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $missing >/dev/null
