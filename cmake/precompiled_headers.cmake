# What most sources include is parsed once for a target, which saves a third of a build. Sources still name all that
# they use: launch/lint and the fuzzers compile them without (CMAKE_DISABLE_PRECOMPILE_HEADERS).
set(REPRISE_COMMON_HEADERS
    <algorithm> <array> <chrono> <cmath> <cstddef> <cstdint> <cstdio> <cstdlib> <cstring> <functional> <limits> <map>
    <memory> <numeric> <optional> <set> <string> <utility> <vector>
    <absl/status/status.h> <absl/status/statusor.h> <absl/strings/match.h> <absl/strings/numbers.h>
    <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/strings/str_split.h>
    <absl/strings/string_view.h> <absl/types/span.h>)
set(REPRISE_TEST_HEADERS <fstream> <random> <gtest/gtest.h> <gmock/gmock.h>)

# reprise_precompile(TARGET [headers beside the common ones])
function(reprise_precompile target)
  target_precompile_headers(${target} PRIVATE ${REPRISE_COMMON_HEADERS} ${ARGN})
  target_compile_options(${target} PRIVATE -Winvalid-pch)
endfunction()

# The programs of the tests share one: the first one's.
function(reprise_precompile_program target)
  get_property(first GLOBAL PROPERTY REPRISE_PRECOMPILED_PROGRAM)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    reprise_precompile(${target} ${REPRISE_TEST_HEADERS})
    set_property(GLOBAL PROPERTY REPRISE_PRECOMPILED_PROGRAM ${target})
  endif()
endfunction()
