# The CUDA part, where nvcc is: libreprise_cuda.so, opened on demand, so that the program starts without CUDA's
# libraries. Sources of CUDA end in .cu; the tests build them a second time for the CPU (tests/CMakeLists.txt).
file(GLOB_RECURSE REPRISE_CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/device/*.cu
     ${CMAKE_SOURCE_DIR}/collectives/*.cu ${CMAKE_SOURCE_DIR}/offload/*.cu ${CMAKE_SOURCE_DIR}/runtime/*.cu)

option(REPRISE_CUDA "Build the CUDA part where nvcc is found" ON)
if(NOT REPRISE_CUDA OR REPRISE_SANITIZE)
  return()
endif()
# Before the language is enabled: CMake's own default is too old for CUDA 13. CUDAARCHS=90 in the environment for one.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
find_program(REPRISE_NVCC nvcc PATHS /usr/local/cuda/bin)
if(NOT REPRISE_NVCC)
  message(STATUS "CUDA: no nvcc was found; the cuda device is left out")
  return()
endif()
# Asked before the language is enabled: an nvcc that is too old for the compiler would fail there.
execute_process(COMMAND ${REPRISE_NVCC} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
string(REGEX MATCH "release ([0-9.]+)" nvcc_version "${nvcc_version}")
if(NOT CMAKE_MATCH_1 OR CMAKE_MATCH_1 VERSION_LESS 12.8)
  message(STATUS "CUDA: ${REPRISE_NVCC} is older than CUDA 12.8; the cuda device is left out")
  return()
endif()
set(CMAKE_CUDA_COMPILER ${REPRISE_NVCC})
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know CUDA 13
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# Without cuBLASLt there is no product of matrices, so nothing to train with.
find_package(CUDAToolkit QUIET)
if(NOT TARGET CUDA::cublasLt)
  message(STATUS "CUDA: cuBLASLt was not found; the cuda device is left out")
  return()
endif()

# Without NCCL's header ranks share a GPU, or there is one. The library itself is opened by who needs it.
find_path(REPRISE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
set(cuda_sources ${REPRISE_CUDA_SOURCES})
if(REPRISE_NCCL_INCLUDE)
  list(FILTER cuda_sources EXCLUDE REGEX "/collectives/nccl/no_nccl\\.cu$")
else()
  message(STATUS "CUDA: nccl.h was not found; NCCL is left out, so ranks cannot have a GPU each")
  list(FILTER cuda_sources EXCLUDE REGEX "/collectives/nccl/nccl_[^/]*\\.cu$")
endif()

add_library(reprise_cuda MODULE ${cuda_sources})
if(REPRISE_NCCL_INCLUDE)
  target_include_directories(reprise_cuda SYSTEM PRIVATE ${REPRISE_NCCL_INCLUDE})
endif()
target_link_libraries(reprise_cuda PRIVATE reprise CUDA::cublasLt)
# As on the CPU, arithmetic is contracted only where the source says fma.
target_compile_options(reprise_cuda PRIVATE -fmad=false --expt-relaxed-constexpr --Werror=all-warnings
                       -Xcompiler=-Wall,-Wextra,-ffp-contract=off -Xptxas=--warn-on-spills,--warn-on-local-memory-usage)
