# What Reprise stands on, from Debian 12's packages. A missing one is named together with the package that brings it.
reprise_require(absl libabsl-dev)
# Debian's dnnl package asks for OpenCL, which the CPU engine does not need: the library is found by itself.
find_library(DNNL_LIBRARY dnnl)
find_path(DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
if(NOT DNNL_LIBRARY OR NOT DNNL_INCLUDE)
  message(FATAL_ERROR "oneDNN was not found: run launch/setup, or install libdnnl-dev")
endif()
reprise_require(hwy libhwy-dev)
reprise_require(spdlog libspdlog-dev)
reprise_require(tomlplusplus libtomlplusplus-dev)
reprise_require(OpenMP g++ COMPONENTS CXX)
reprise_require(MPI libopenmpi-dev COMPONENTS CXX)
reprise_require(Threads libc6-dev)
reprise_require(ZLIB zlib1g-dev)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(re2 REQUIRED IMPORTED_TARGET re2)
find_path(RANDOM123_INCLUDE Random123/philox.h)
if(NOT RANDOM123_INCLUDE)
  message(FATAL_ERROR "Random123 was not found: run launch/setup, or install librandom123-dev")
endif()
find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp)
if(NOT NLOHMANN_JSON_INCLUDE)
  message(FATAL_ERROR "nlohmann-json was not found: run launch/setup, or install nlohmann-json3-dev")
endif()

add_library(reprise_dependencies INTERFACE)
target_link_libraries(reprise_dependencies INTERFACE
    absl::status absl::statusor absl::strings absl::str_format absl::flat_hash_map absl::span absl::synchronization absl::time
    hwy::hwy OpenMP::OpenMP_CXX MPI::MPI_CXX Threads::Threads PkgConfig::hwloc PkgConfig::xxhash PkgConfig::re2 spdlog::spdlog
    tomlplusplus::tomlplusplus ${DNNL_LIBRARY} ZLIB::ZLIB ${CMAKE_DL_LIBS})
