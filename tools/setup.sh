#!/bin/sh
# Make the course's environment with uv.
#
#     make setup                  what people type (VENV=DIR, STACK=next, TORCH=1)
#     setup.sh DIR environment    only what the lock pins    } what the container images
#     setup.sh DIR course         only the course itself     } are built with
#
# uv finds Python or gets one, and installs what the lock pins by its hashes. Here is what uv does not know: which stack,
# which accelerator, Horovod (compiled against that TensorFlow, by pip, and kept in the user's cache), certificates,
# PyTorch and data. An environment that is complete says in `ddl-made` what it was made from.
#
# Environment variables: DDL_STACK=next, DDL_TORCH=1, DDL_ACCELERATOR=cpu|gpu overrules what `nvidia-smi` says,
# DDL_MPI=1 builds Horovod with MPI (a site file's controller = "mpi" needs that), PYTHON=FILE names a Python,
# SSL_CERT_FILE=FILE names certificates in the place of the system's, XDG_CACHE_HOME moves the user's cache.
set -eu
explained= scratch= unread=
fail() {
    explained=yes
    echo "set-up: $*" >&2
    exit 1
}

case "$(uname -s) $(uname -m)" in
"Linux x86_64") ;;
Linux*) fail "this is Linux on $(uname -m), and the course runs on Linux on x86-64 only: use a container or virtual machine" \
    "for x86-64, such as \`docker run --platform linux/amd64\`." ;;
*) fail "this is $(uname -s) on $(uname -m), and the course runs on" \
    "Linux on x86-64 only: use WSL 2 on Windows, or a Linux container or virtual machine for x86-64 elsewhere." ;;
esac
venv=${1:-.venv} part=${2:-all}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
made=$venv/ddl-made

# ---- what is asked for, else what the environment was made for, else what this machine has

had_stack= accelerator= mpi= torch= had_digest= had_root=
[ ! -e "$made" ] || {
    read -r had_stack && read -r accelerator && read -r mpi && read -r torch && read -r had_digest && read -r had_root
} <"$made"
had_mpi=$mpi had_torch=$torch
stack=${DDL_STACK:-${had_stack:-default}} accelerator=${DDL_ACCELERATOR:-$accelerator}
mpi=${DDL_MPI:-$mpi} torch=${DDL_TORCH:-$torch}
# The next stack is for all Pythons that pyproject.toml admits: oldest, and before the end of their range.
pythons=$(sed -n 's/^requires-python = "\([^"]*\)".*/\1/p' pyproject.toml)
oldest=${pythons#>=} oldest=${oldest%,*} end=${pythons#*<}
range="$oldest to 3.$((${end#3.} - 1))"
case $stack in
default) pythons=3.11 named=3.11 tensorflow=tensorflow-cpu lock=requirements.lock ;;
next) named=$range tensorflow=tensorflow-cpu lock=requirements-next.lock accelerator=${accelerator:-cpu} ;;
*) fail "STACK=$stack is neither default nor next." ;;
esac
[ "${had_stack:-$stack}" = "$stack" ] ||
    fail "$venv has the $had_stack stack: leave STACK=$stack out, or name another folder with VENV=DIR."
if [ -z "$accelerator" ]; then
    accelerator=cpu
    ! command -v nvidia-smi >/dev/null || accelerator=gpu
fi
case $stack-$accelerator in
*-cpu) ;;
default-gpu) tensorflow=tensorflow lock=requirements-gpu.lock ;;
next-gpu) fail "the next stack runs on CPUs only: leave STACK=next out, or set DDL_ACCELERATOR=cpu." ;;
*) fail "DDL_ACCELERATOR=$accelerator is neither cpu nor gpu." ;;
esac
digest=$(cat "$lock" pyproject.toml source_code/pyproject.toml tools/setup.sh | sha256sum | cut -d' ' -f1)-$accelerator
[ "$had_digest $had_root $had_mpi $had_torch" != "$digest $root $mpi $torch" ] || exit 0

version() { # of a package in the lock
    sed -n "s/^$1==\([^ ]*\).*/\1/p" "$lock"
}
pinned() { # a package's part of the lock, with its hashes
    sed -n "/^$1==/,/^[^ ]*==/{/^$1==/p;/^ /p}" "$lock"
}
compilers=$(sed -n '/^nccl = \[/,/^\]/s/^ *"\([a-z-]*\)==.*/\1/p' pyproject.toml) # NVIDIA's, which the environment goes without

driver= cards= gpus= # 535, 75,90 and 2: the driver's series, the GPUs' compute capabilities and number, if nvidia-smi says them
if [ "$accelerator" = gpu ] && command -v nvidia-smi >/dev/null; then
    mkdir -p build/setup
    status=0 cpu="DDL_ACCELERATOR=cpu make setup"
    timeout 60 nvidia-smi -L >build/setup/nvidia-smi.log 2>build/setup/nvidia-smi.err || status=$?
    # Its standard output alone decides: a broken LD_PRELOAD and the like make every program complain on the other.
    if { [ $status != 0 ] || ! grep -q '^GPU ' build/setup/nvidia-smi.log; } && [ "${DDL_ACCELERATOR:-}" != gpu ]; then
        [ $status != 124 ] || echo "(no answer within a minute)" >>build/setup/nvidia-smi.log
        said=$(cd build/setup && { grep -v '^ *\(GPU \|MIG \|$\)' nvidia-smi.log || cat nvidia-smi.err; } | tr '\n' ' ')
        fail "this machine's GPUs do not all work. nvidia-smi ends with status $status and says: ${said% }. After an upgrade of the" \
            "driver, reboot. To use the processor cores instead: $cpu"
    fi
    gpus=$(grep -c '^GPU ' build/setup/nvidia-smi.log) || true
    found=$(timeout 60 nvidia-smi --query-gpu=driver_version,compute_cap --format=csv,noheader 2>/dev/null |
        sed -n 's/^\([0-9]*\)[.][0-9.]*, *\([0-9]*\)[.]\([0-9]\)$/\1 \2\3/p' | sort -u -k 2n)
    driver=${found%% *} cards=$(echo "$found" | sed 's/.* //' | tr '\n' ',' | sed 's/,$//')
    [ "${cards##*,}" -lt 100 ] 2>/dev/null || [ -z "$cards" ] || fail "this machine has a GPU of compute capability $(
        echo "${cards##*,}" | sed 's/.$/.&/'), and TensorFlow $(version tensorflow) has code for those below 10 only." \
        "To use the processor cores: $cpu"
    [ "${driver:-525}" -ge 525 ] || fail "NVIDIA's driver $driver is too old for TensorFlow $(version tensorflow), which needs 525" \
        "or later: update it. To use the processor cores: $cpu"
fi

# ---- uv, by whatever Python there is

log=build/setup/setup.log
logged() { # FILTER COMMAND…: keeps in the log what the command says, and shows what the filter lets through
    filter=$1 && shift
    # An interrupt ends the subshell as well, which then says nothing.
    status=$({ { "$@" 2>&1 && echo 0 >&3 || echo $? >&3; } | tee -a "$log" | $filter >&2; } 3>&1)
    return "${status:-130}"
}
brief() { # no lists of packages, nor downloads of less than 10 MiB
    sed -u -e '/^ [-+~] /d' -e '/^Uninstalled /d' -e '/^ *Downloaded /d' -e '/^ *Downloading .*(...MiB)$/d'
}
progress() { # counts the files that a compiler begins with, of all that CMake's makefiles name
    building='Building C[A-Z]* object'
    sed -un "/$building/p" | {
        count=0 all=
        while read -r _; do
            count=$((count + 1))
            all=${all:-$(grep -rh --include=build.make "$building" "$scratch/horovod" | wc -l)}
            case $count in
            1 | *[05] | "$all") echo "set-up: compiling Horovod (once, some minutes): file $count of $all" ;;
            esac
        done
    }
}

for store in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
    [ ! -e "$store" ] || break
done
if [ -z "${SSL_CERT_DIR:-}" ] || [ "${SSL_CERT_FILE:-}" ]; then
    SSL_CERT_FILE=${SSL_CERT_FILE:-${PIP_CERT:-$store}}
    [ ! -e "$SSL_CERT_FILE" ] || export SSL_CERT_FILE PIP_CERT="$SSL_CERT_FILE" REQUESTS_CA_BUNDLE="$SSL_CERT_FILE"
else
    export PIP_CERT="${PIP_CERT:-${SSL_CERT_DIR%%:*}}"
fi
[ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"
[ -z "${UV_DEFAULT_INDEX:-}" ] || export PIP_INDEX_URL="${PIP_INDEX_URL:-$UV_DEFAULT_INDEX}"
# A copy: hard links would let a change to one environment's files reach all others and the cache.
export UV_LINK_MODE=copy PYTHONNOUSERSITE=1 PIP_USER=0
unset MAKEFLAGS MAKELEVEL MFLAGS VIRTUAL_ENV PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
stopped() {
    status=$?
    rm -rf "$scratch"
    case $status-$explained in
    0-* | *-yes) ;;
    130-* | 143-*) echo "set-up: stopped; run \`make setup\` again to resume." >&2 ;;
    *)
        echo "set-up: stopped by the error above. Once its cause is gone, run \`make setup\` again: it resumes." >&2
        [ -z "$unread" ] || echo "set-up: uv does not read pip's settings of $unread. Name your index with UV_DEFAULT_INDEX=ADDRESS." >&2
        ;;
    esac
    [ $status = 0 ] || ! grep -qisE 'certificate.verify|peer certificate' "$log" ||
        echo "set-up: a server's certificate was refused. Name the file with this network's: SSL_CERT_FILE=FILE make setup" >&2
    exit $status
}
trap stopped EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cache=${XDG_CACHE_HOME:-$HOME/.cache}/ddl
store=${UV_CACHE_DIR:-$cache} # uv's own cache is beside ours
(mkdir -p "$cache/wheels" "$store" && : >"$cache/lock") 2>/dev/null ||
    fail "$cache is not writable: name another folder with XDG_CACHE_HOME=DIR, for the course's commands as well."
mkdir -p build/setup "$(dirname "$venv")"
: >"$log"
if command -v flock >/dev/null; then # two set-ups at a time would both compile Horovod
    exec 9>"$cache/lock"
    status=0
    flock --nonblock 9 2>>"$log" || status=$?
    case $status in
    0) ;;
    1) echo "set-up: waiting for another set-up of yours" && flock 9 ;;
    *) echo "set-up: $cache is on a file system without locks, so run no other set-up at the same time" ;;
    esac
fi
# Of the space, half is for the environment, and half for what was downloaded.
half=2500
[ "$accelerator" = cpu ] || half=5500
venv_half=$half store_half=$half
[ ! -x "$venv/bin/python" ] || [ -e "$venv/ddl-begun" ] || venv_half=0
[ -z "$(find "$cache/wheels" -name '*.whl')" ] || store_half=0
scant=$(df -Pk "$(dirname "$venv")" "$store" | awk -v venv=$venv_half -v store=$store_half '
    NR > 1 { needed[$NF] += NR == 2 ? venv : store; free[$NF] = $4 / 1000 }
    END { for (disk in free) if (free[disk] < needed[disk]) printf "%.1f GB of disk, and %s has %.1f GB", \
        needed[disk] / 1000, disk, free[disk] / 1000 }')
[ -z "$scant" ] || fail "this needs $scant: free some space, or choose other folders with VENV=DIR and XDG_CACHE_HOME=DIR."
tool=$cache/uv-$(version uv)
for uv in "$tool/bin/uv" "$venv/bin/uv" none; do
    [ ! -x "$uv" ] || break
done
if [ "$uv" = none ]; then
    uv=$tool/bin/uv
    echo "set-up: uv $(version uv)"
    pinned uv >build/setup/uv.txt
    for python in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11 none; do
        [ "$python" != none ] || fail "no Python can make virtual environments: \`apt install python3-venv\`," \
            "\`dnf install python3\`, or name one with PYTHON=/path/to/python."
        rm -rf "$tool.part"
        "$python" -m venv "$tool.part" >build/setup/venv.log 2>&1 && break
    done
    logged brief "$tool.part/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r build/setup/uv.txt
    mv "$tool.part" "$tool"
fi

# uv does not read pip's configuration: hand on the index.
if [ -x "${uv%/*}/python" ] && [ -z "${UV_DEFAULT_INDEX:-}" ]; then
    "${uv%/*}/python" -m pip --disable-pip-version-check config list 2>>"$log" |
        sed -n "s/^\(global\|install\)[.]\(index-url\|extra-index-url\|find-links\|no-index\)='\(.*\)'$/\2 \3/p" >build/setup/pip.txt
    index=$(sed -n 's/^index-url //p' build/setup/pip.txt | sed -n '$p')
    if [ "$index" ]; then
        export UV_DEFAULT_INDEX="$index"
    else
        unread=$(cut -d' ' -f1 build/setup/pip.txt | sort -u | tr '\n' ' ' | sed 's/ $//; s/ /, /g')
    fi
fi

# ---- Python

if [ "$part" != course ]; then
    # Of an environment that is half made, `python` is the one that it was made from, and packages would go there.
    fits="import os, pip, sys; sys.exit(not os.path.samefile(sys.prefix, sys.argv[1]) or"
    case $stack in
    default) fits="$fits sys.version_info[:2] != (3, 11))" ;;
    next) fits="$fits not ${oldest#3.} <= sys.version_info.minor < ${end#3.})" ;;
    esac
    case $venv in "$root/.venv" | "$root/.venv-next") course_venv=yes ;; *) course_venv= ;; esac
    # What was interrupted begins anew, as one package may be half there. An environment of the user's own is not replaced:
    # its packages are installed again.
    again=
    if [ -e "$venv/ddl-begun" ]; then
        if [ "$course_venv" ]; then rm -rf "$venv"; else again=--reinstall; fi
    fi
    if [ "${had_root:-$root}" != "$root" ] || ! "$venv/bin/python" -c "$fits" "$venv" 2>build/setup/python.log; then
        [ "$course_venv" ] || [ ! -e "$venv" ] || fail "$venv has no working Python $named: delete it, or name another VENV."
        rm -rf "$venv" # uv itself removes none that is half made
        echo "set-up: making $venv with ${PYTHON:-Python $named (downloaded if missing)}"
        "$uv" venv --seed --python "${PYTHON:-$pythons}" "$venv" >>"$log" 2>&1 || {
            [ ! -x "$venv/bin/python" ] || { cat "$log" >&2 && exit 1; } # a Python is here, and no pip from the network
            lacking="Python $named was not found and could not be downloaded ($log says why)"
            [ -z "${PYTHON:-}" ] || fail "$venv could not be made with PYTHON=$PYTHON ($log says why): name a Python $named."
            [ "$stack" = default ] || fail "$lacking: install one, or name one with PYTHON=FILE."
            yours=$("$uv" python find --no-python-downloads ">=$oldest,<$end" 2>/dev/null) && yours="your $("$yours" -V)"
            fail "use \`make lab STACK=next\`, which takes ${yours:-any Python from $range}, or name a Python 3.11 with" \
                "PYTHON=FILE: $lacking."
        }
    fi
    rm -f "$made"

    # ---- what the lock pins; Horovod, of which each wheel is kept by what it was compiled for

    flags="HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1"
    if [ "$mpi" ]; then
        command -v mpicxx >/dev/null || fail "DDL_MPI=1 asks for Horovod with MPI and there is no mpicxx:" \
            "\`apt install libopenmpi-dev\` or your cluster's \`module load\` of an MPI gets one."
        flags="$flags HOROVOD_WITH_MPI=1"
    else
        flags="$flags HOROVOD_WITHOUT_MPI=1"
    fi
    # NCCL: with the CUDA toolkit and NCCL that are installed here, or with NVIDIA's packages, whose compiler 13 needs a
    # driver of CUDA 13 and knows no GPU before compute capability 7.5. NCCL is then the one that TensorFlow brought.
    cuda=${CUDA_HOME:-/usr/local/cuda} nccl= gloo_because=
    nvcc=$(command -v nvcc || command -v "$cuda/bin/nvcc") || nvcc=
    if [ "$accelerator" = gpu ]; then
        for nccl in "${HOROVOD_NCCL_HOME:-/usr}" /usr "$cuda" packages; do
            [ ! -e "$nccl/include/nccl.h" ] || break
        done
        if [ "$gpus" = 1 ]; then # which two ranks share: NCCL would refuse that, and has no other GPU to talk to
            nccl=
        elif [ "$nvcc" ] && [ "$nccl" != packages ]; then
            flags="$flags HOROVOD_GPU_OPERATIONS=NCCL"
        elif [ -z "$cards" ]; then
            gloo_because="no driver says here for which GPUs. Set up on a machine with them"
        elif [ "$driver" -lt 580 ]; then
            gloo_because="NVIDIA's driver $driver is older than 580. Update it"
        elif [ "${cards%%,*}" -lt 75 ]; then
            gloo_because="a GPU here is older than compute capability 7.5"
        else
            nccl=packages
            flags="$flags HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_BUILD_CUDA_CC_LIST=$cards"
        fi
        [ -z "$gloo_because" ] || {
            nccl=
            echo "set-up: ranks will average gradients through the host's memory (Gloo), which is slower than from GPU to GPU" \
                "(NCCL), because $gloo_because, or install CUDA's nvcc and NCCL's headers; then delete $venv and set up again." >&2
        }
    fi
    python=$("$venv/bin/python" -c "import sys; print(sys.implementation.cache_tag)")
    made_for="$python $tensorflow $(version "$tensorflow") $(version horovod) $flags ${CXXFLAGS:-} $(sha256sum <tools/horovod_source.sh)"
    case $nccl in
    "") ;;
    packages) made_for="$made_for $(version nvidia-cuda-nvcc) $(version nvidia-nccl-cu12)" ;;
    *) made_for="$made_for $("$nvcc" --version | sed -n '$p') $nccl" ;;
    esac
    wheel=$cache/wheels/horovod-$(echo "$made_for" | sha256sum | cut -c1-16)
    [ -e "$wheel" ] || command -v "${CXX:-c++}" >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null ||
        fail "Horovod has to be compiled and there is no C++ compiler: \`apt install g++\`, \`dnf install gcc-c++\`" \
            "or \`conda install cxx-compiler\` gets one."

    touch "$venv/ddl-begun"
    echo horovod "$compilers" | tr ' ' '\n' >build/setup/without.txt
    logged brief "$uv" pip install --python "$venv/bin/python" --excludes build/setup/without.txt --no-deps --require-hashes $again -r "$lock"
    rm "$venv/ddl-begun"
    if [ ! -e "$wheel" ]; then
        scratch=$(mktemp -d)
        if [ "$stack" = next ]; then
            # Horovod 0.28.1 looks for some of TensorFlow 2.21's headers where they no longer are.
            include=$scratch/include
            cp -R tools/include "$include"
            external=$(echo "$venv"/lib/python3.*/site-packages/tensorflow/include/external)
            cp -R "$external/highwayhash/." "$external/farmhash_archive/src/." "$include"
            export CXXFLAGS="${CXXFLAGS:-} -I$include"
        fi
        # 1.5 GiB a compiler
        jobs=$(awk -v cores="$(nproc)" '/^MemTotal/ { most = int($2 / 2097152); print most < 1 ? 1 : most < cores ? most : cores }' \
            /proc/meminfo)
        pinned horovod >build/setup/horovod.txt
        logged brief "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation \
            --no-binary=:all: --require-hashes --dest "$scratch" -r build/setup/horovod.txt
        mkdir "$scratch/horovod"
        tar xzf "$scratch"/horovod-*.tar.gz --strip-components 1 -C "$scratch/horovod"
        sh tools/horovod_source.sh "$scratch/horovod"
        if [ "$nccl" = packages ]; then
            for name in $compilers; do pinned "$name"; done >build/setup/cuda.txt
            logged brief "$uv" pip install --quiet --python "$venv/bin/python" --target "$scratch/toolkit" --no-deps \
                --require-hashes -r build/setup/cuda.txt
            cuda=$scratch/toolkit/nvidia/cu13
            ln -s lib "$cuda/lib64"
            ln -s libcudart.so.13 "$cuda/lib/libcudart.so"
            packages=$(echo "$venv"/lib/python3.*/site-packages)/nvidia/nccl
            mkdir -p "$scratch/nccl/lib"
            ln -s "$packages/include" "$scratch/nccl/include"
            ln -s "$packages/lib/libnccl.so.2" "$scratch/nccl/lib/libnccl.so"
            export HOROVOD_NCCL_HOME="$scratch/nccl" HOROVOD_NCCL_LINK=SHARED HOROVOD_RPATH='$ORIGIN/../../nvidia/nccl/lib'
            export CUDA_HOME="$cuda" CUDAToolkit_ROOT="$cuda" HOROVOD_CUDA_HOME="$cuda" CMAKE_LIBRARY_PATH="$cuda/lib" CUDACXX="$cuda/bin/nvcc"
            PATH=$cuda/bin:$PATH
        fi
        rm -rf "$wheel.part"
        log=build/setup/horovod.log
        : >"$log"
        logged progress env $flags MAKEFLAGS="-j$jobs" PATH="$venv/bin:$PATH" "$venv/bin/python" -m pip wheel --verbose \
            --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation --wheel-dir "$wheel.part" "$scratch/horovod" ||
            fail "Horovod could not be compiled ($log has everything):" \
                "$(sed -nE '/(^|[: ])error:|CMake Error/ { s/^ *//; p; q }' "$log")"
        log=build/setup/setup.log
        mv "$wheel.part" "$wheel"
    fi
    touch "$venv/ddl-begun"
    logged brief "$uv" pip install --quiet --python "$venv/bin/python" --no-deps "$wheel"/*.whl
    TF_CPP_MIN_LOG_LEVEL=2 "$venv/bin/python" -c "import horovod.tensorflow as hvd; assert hvd.gloo_built()"
    rm "$venv/ddl-begun"
fi

# ---- the course, PyTorch and data

if [ "$part" != environment ]; then
    logged brief "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable source_code --editable .
    if [ "$stack" = next ]; then
        # This TensorFlow takes Keras 2 (tf_keras) only if this says so, in each process: ranks, kernels, terminals.
        echo 'import os; os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")' >"$(echo "$venv"/lib/python3.*/site-packages)/ddl-next.pth"
    fi
fi
if [ "$torch" ]; then
    # By pip, whose settings say where wheels for CPUs are; uv does not read them.
    sed -n 's/^\([^ ]*==[^ ]*\) .*/\1/p' "$lock" | grep -vE "^($(echo $compilers | tr ' ' '|'))==" >build/setup/constraints.txt
    pin=$(sed -n 's/^torch = \["\([^"]*\)".*/\1/p' pyproject.toml)
    set -- "$venv/bin/python" -m pip install --disable-pip-version-check --constraint build/setup/constraints.txt "$pin"
    planned=$("$@" --quiet --dry-run --report - 2>>"$log") || fail "PyTorch was not found ($log says why): everything else is set up, and works without TORCH=1."
    case $accelerator-$planned in
    cpu-*'"name": "nvidia-'*) fail "pip would take PyTorch's build for GPUs, with gigabytes of CUDA. Name the index for CPU wheels" \
        "that PyTorch's installation page names: PIP_EXTRA_INDEX_URL=… make setup TORCH=1" ;;
    esac
    logged brief "$@" --quiet
fi
if [ "$part" = all ]; then
    "$venv/bin/ddl" data fetch cifar10 || {
        echo "set-up: CIFAR-10 could not be downloaded; generated images in the same format take its place"
        "$venv/bin/ddl" data fetch synthetic
    }
fi
[ "$part" != environment ] || digest=incomplete
printf '%s\n' "$stack" "$accelerator" "$mpi" "$torch" "$digest" "$root" >"$made"
