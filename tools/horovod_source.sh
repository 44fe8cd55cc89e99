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
    # What takes longest begins first, and what is empty without GPUs isn't compiled: it includes all of XLA's headers.
    sed -i -e 's/SHARED ${SOURCES} ${TF_SOURCES}/SHARED ${TF_SOURCES} ${SOURCES}/' \
        -e '/xla_mpi_ops.cc/s/.*/if(HAVE_CUDA OR HAVE_ROCM)\n    &\nendif()/' horovod/tensorflow/CMakeLists.txt
    # Small files are compiled several at once, because most of their time goes into the same headers.
    cat >>horovod/tensorflow/CMakeLists.txt <<'END'
if(NOT HAVE_MPI AND NOT HAVE_CUDA AND NOT HAVE_ROCM)
    set_target_properties(${TF_TARGET_LIB} PROPERTIES UNITY_BUILD ON)
    foreach(LARGE tensorflow/mpi_ops.cc common/operations.cc common/optim/gaussian_process.cc)
        set_source_files_properties("${PROJECT_SOURCE_DIR}/horovod/${LARGE}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endforeach()
endif()
END
    sed -i '/add_subdirectory(third_party\/compatible17_gloo)/a\
    set_target_properties(compatible17_gloo PROPERTIES UNITY_BUILD ON)\
    set_source_files_properties("${PROJECT_SOURCE_DIR}/third_party/compatible17_gloo/gloo/allreduce_local.cc"\
        TARGET_DIRECTORY compatible17_gloo PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)' CMakeLists.txt
fi
