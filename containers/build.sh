#!/bin/sh
# Builds an image from the repository's root: `make image` and `make sif` call this.
# Environment: BASE (empty: NVIDIA's), TAG or SIF, CA (certificates of a proxy; stays outside),
# BUILDER (empty: the first that answers), STACK (empty: the default one; next: for CPUs, on Debian).
set -eu

fail() {
    echo "make $kind: $*" >&2
    exit 1
}

first_to_answer() { # Docker without its daemon is there, and does not
    question=$1 && shift
    for tool in "$@"; do
        if "$tool" "$question" >/dev/null 2>&1; then echo "$tool" && return; fi
    done
}

kind=$1
[ "$STACK" != next ] || BASE=${BASE:-debian:bookworm}
[ -z "$CA" ] || [ -r "$CA" ] || fail "CA=$CA is not there to read."
case $kind in
image)
    builder=${BUILDER:-$(first_to_answer info docker podman buildah)}
    [ "$builder" ] || fail "none of docker (with its daemon running), podman and buildah answers:" \
        "\`apt install buildah\`, or build elsewhere and carry it over (docker save, docker load)."
    set -- --file containers/Dockerfile --tag "$TAG" --build-arg "TAG=$TAG"
    [ -z "$BASE" ] || set -- "$@" --build-arg "BASE=$BASE"
    [ -z "$STACK" ] || set -- "$@" --build-arg "STACK=$STACK"
    [ -z "$CA" ] || set -- "$@" --secret "id=ca,src=$CA"
    [ "$builder" = docker ] || set -- "$@" --format docker # the other format has no health check
    exec env DOCKER_BUILDKIT=1 "$builder" build "$@" .
    ;;
sif)
    builder=${BUILDER:-$(first_to_answer version apptainer singularity)}
    [ "$builder" ] || fail "neither apptainer nor singularity is here: install Apptainer, load" \
        "your cluster's module, or build where one is and copy $SIF over."
    set -- "$SIF" containers/Singularity.def
    [ -z "$STACK" ] || set -- --build-arg "STACK=$STACK" "$@"
    [ -z "$BASE" ] || set -- --build-arg "BASE=$BASE" "$@"
    [ "$(id -u)" = 0 ] || set -- --fakeroot "$@"
    if [ "$CA" ]; then # a bind's target has to be in the base already, as /mnt is
        folder=$(mktemp -d)
        trap 'rm -r "$folder"' EXIT
        cp "$CA" "$folder/ca.crt"
        set -- --bind "$folder:/mnt" "$@"
    fi
    "$builder" build "$@"
    ;;
esac
