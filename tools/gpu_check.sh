#!/bin/sh
# Check the launcher and the PyTorch scripts on a machine with one GPU, and record what it showed.
#
#     sh tools/gpu_check.sh fetch          on any machine with a network: 4 MB of sources into build/gpu_check
#     sh tools/gpu_check.sh [RECORD.json]  on the machine with the GPU, within eight minutes
#
# That machine needs Python, PyTorch, psutil, pandas, CMake and g++; for the GPU parts also CUDA's nvcc and NCCL. It needs
# neither TensorFlow nor a network. Without a GPU, the same steps run on processor cores, and the record says so.
# What is installed goes to build/gpu_check/site: nothing outside this folder changes.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
here=$PWD/build/gpu_check
mkdir -p "$here"

version=$(sed -n 's/^horovod==\([^ ]*\).*/\1/p' requirements.lock)
if [ "${1:-}" = fetch ]; then
    exec "$python" -m pip download --quiet --no-deps --no-binary=:all: --dest "$here" "horovod==$version"
fi
record=${1:-$here/record.json}

# Horovod compiles in the background, for PyTorch. Its 2023 release needs some changes for newer compilers:
# C++17, a missing header, and an assignment in flatbuffers that never returned. CMake 4 needs to be told the policy.
compile() {
    set -e
    cd "$here"
    rm -rf source && mkdir source
    tar xzf "horovod-$version.tar.gz" --strip-components 1 -C source
    cd source
    standard=$("$python" -c "import torch; print(20 if torch.torch_version.TorchVersion(torch.__version__) >= '2.12' else 17)")
    sed -i "s/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD $standard/" CMakeLists.txt horovod/torch/CMakeLists.txt
    sed -i 's/CMAKE_CUDA_STANDARD 11/CMAKE_CUDA_STANDARD 17/' horovod/common/ops/cuda/CMakeLists.txt
    sed -i '/span &operator=(const span &other)/,/^  }/d' third_party/flatbuffers/include/flatbuffers/stl_emulation.h
    sed -i '/setup_requires=/d' setup.py # cffi, which PyTorch no longer needs
    rm cmake/upstream/FindCUDAToolkit.cmake # CMake's own is newer
    sed -i "s/from distutils.sysconfig import get_python_inc; print(get_python_inc())/import sysconfig; print(sysconfig.get_path('include'))/" \
        horovod/torch/CMakeLists.txt
    nccl=$("$python" -c "import nvidia.nccl as nccl; print(list(nccl.__path__)[0])" 2>/dev/null || true)
    if [ -n "$nccl" ] && command -v nvcc >/dev/null; then
        mkdir "$here/nccl"
        cp -R "$nccl/include" "$nccl/lib" "$here/nccl" && ln -sf libnccl.so.2 "$here/nccl/lib/libnccl.so"
        export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_HOME="$here/nccl" HOROVOD_NCCL_LINK=SHARED
        cuda=${CUDA_HOME:-/usr/local/cuda}
        export CUDA_HOME="$cuda" CUDAToolkit_ROOT="$cuda" HOROVOD_CUDA_HOME="$cuda" CMAKE_LIBRARY_PATH="$cuda/lib"
        export HOROVOD_BUILD_CUDA_CC_LIST="${HOROVOD_BUILD_CUDA_CC_LIST:-90}"
    fi
    export CMAKE_POLICY_VERSION_MINIMUM=3.5 CXXFLAGS="-include stdexcept -include cstdint" MAKEFLAGS="-j$(nproc)"
    export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITH_GLOO=1
    "$python" -m pip install --no-index --no-deps --no-build-isolation --upgrade --target "$here/horovod" .
}
rm -rf "$here/site" "$here/horovod" "$here/compiled" "$here/nccl"
{ (compile) >"$here/compile.log" 2>&1 && echo yes >"$here/compiled" || echo no >"$here/compiled"; } &

rm -rf "$here/tool" && mkdir "$here/tool"
cp -R source_code/ddl source_code/pyproject.toml source_code/README.md "$here/tool"
"$python" -m pip install --quiet --no-index --no-deps --no-build-isolation --upgrade --target "$here/site" "$here/tool"
PYTHONPATH="$here/horovod:$here/site:$here/source:$PWD/source_code" DDL_RUNS_DIR="$here/runs" "$python" tools/gpu_check.py "$here" "$record"
