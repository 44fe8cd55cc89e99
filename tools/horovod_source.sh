#!/bin/sh
# Change the sources of Horovod 0.28.1, which is from 2023, so that today's compilers, CMake and CUDA take them.
#
#     horovod_source.sh FOLDER       for TensorFlow
#     horovod_source.sh FOLDER 17    for PyTorch, whose headers need this C++ standard
#
# HOROVOD_RPATH, while Horovod is compiled, names the folder where its library looks for NCCL.
set -eu
cd "$1"
standard=${2:-}

# From g++ 13 on, no other header includes <stdexcept>, and from g++ 15 on, none includes <cstdint>.
sed -i 's/-pthread -fPIC -Wall/& -include stdexcept -include cstdint/' CMakeLists.txt
# An assignment that returns nothing is an error for g++ 13 and later.
sed -i '/span &operator=(const span &other)/,/^  }/d' third_party/flatbuffers/include/flatbuffers/stl_emulation.h
# nvcc 13 refuses C++11, and its CUDA has files where CMake's own module finds them, and this old copy of it does not.
sed -i 's/CMAKE_CUDA_STANDARD 11/CMAKE_CUDA_STANDARD 17/' horovod/common/ops/cuda/CMakeLists.txt
rm -f cmake/upstream/FindCUDAToolkit.cmake
sed -i '/^project(horovod/a\
if(DEFINED ENV{HOROVOD_RPATH})\
    set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)\
    set(CMAKE_INSTALL_RPATH "$ENV{HOROVOD_RPATH}")\
endif()' CMakeLists.txt
# Each group of ranks, the one of all included, made its connections through the host's own name, and not through the
# interface in HOROVOD_GLOO_IFACE: the name may be unknown, or belong to another network.
sed -i '/^void GlooContext::InitializeForProcessSet/,/^}/s/device_attr.iface = gloo_iface_;/gloo_iface_ = global_context.gloo_iface_;\n  &/' \
    horovod/common/gloo/gloo_context.cc
# No debugging symbols; no packages that only an old PyTorch needs.
sed -i -e "s/'RelWithDebInfo'/'Release'/" -e '/setup_requires=/d' setup.py
if [ "$standard" ]; then
    sed -i "s/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD $standard/" CMakeLists.txt horovod/torch/CMakeLists.txt
    # Python 3.12 has no distutils.
    sed -i "s/from distutils.sysconfig import get_python_inc; print(get_python_inc())/import sysconfig; print(sysconfig.get_path('include'))/" \
        horovod/torch/CMakeLists.txt
else
    # TensorFlow takes the copy of Gloo for C++17: leave out the one for C++14.
    sed -i -e '/add_subdirectory(third_party\/gloo)/d' -e '/target_compile_definitions(gloo /d' CMakeLists.txt
fi
