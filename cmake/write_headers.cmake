# Writes the public headers to TO/reprise as they are installed: "runtime/x.h" is included as "reprise/runtime/x.h", so
# that they take one name from those who include them. Beside them one header a group, and version.h with the version
# and a checksum of the headers themselves, by which a plug-in knows what it was built for.
#
#   cmake -DFROM=source -DTO=build/include -DVERSION=0.1.0 -P write_headers.cmake
cmake_minimum_required(VERSION 3.25)
include(${FROM}/cmake/public_headers.cmake)

# Leaves the file alone where it says so already: what includes it is not compiled again.
function(write path text)
  set(old "")
  if(EXISTS ${path})
    file(READ ${path} old)
  endif()
  if(NOT old STREQUAL text)
    file(WRITE ${path} "${text}")
  endif()
endfunction()

function(write_group name for headers)
  string(TOUPPER ${name} guard)
  set(text "// ${for}\n#ifndef REPRISE_${guard}_H_\n#define REPRISE_${guard}_H_\n\n")
  foreach(header ${headers})
    string(APPEND text "#include \"reprise/${header}\"\n")
  endforeach()
  write(${TO}/reprise/${name}.h "${text}\n#endif  // REPRISE_${guard}_H_\n")
endfunction()

set(all "")
set(kept version.h model.h operation.h training.h)
foreach(header ${REPRISE_PUBLIC_HEADERS})
  # As one element, whatever brackets and semicolons it holds: never unquoted, never in a list.
  file(READ ${FROM}/${header} text)
  string(REGEX REPLACE "#include \"(base|collectives|device|models|offload|runtime)/" "#include \"reprise/\\1/"
                       text "${text}")
  string(REGEX MATCHALL "\n#include \"reprise/[^\"]+\"" includes "${text}")
  foreach(include ${includes})
    string(REGEX REPLACE ".*reprise/([^\"]+)\"" "\\1" included "${include}")
    if(NOT included IN_LIST REPRISE_PUBLIC_HEADERS AND NOT included STREQUAL "version.h")
      message(FATAL_ERROR "${header} is public and includes ${included}, which is not: name it in "
                          "cmake/public_headers.cmake, or include it in a .cc file only")
    endif()
  endforeach()
  write(${TO}/reprise/${header} "${text}")
  string(SHA256 checksum "${text}")
  string(APPEND all "${checksum}")
  list(APPEND kept ${header})
endforeach()
write_group(model "To write a model: blocks, tensors, registration. See docs/models.md." "${REPRISE_MODEL_HEADERS}")
write_group(operation "To write an operation: its shape rule, its gradient rule, its kernels. See docs/models.md."
            "${REPRISE_OPERATION_HEADERS}")
write_group(training "To train a model in a program of one's own: TrainingJob. See docs/models.md."
            "${REPRISE_TRAINING_HEADERS}")

string(SHA256 checksum "${all}")
string(SUBSTRING ${checksum} 0 12 checksum)
write(${TO}/reprise/version.h "// The version, and a checksum of the public headers: equal where they are.
#ifndef REPRISE_VERSION_H_
#define REPRISE_VERSION_H_

#define REPRISE_VERSION \"${VERSION}\"
#define REPRISE_HEADERS \"${checksum}\"

#endif  // REPRISE_VERSION_H_
")

# Those of before that are public no more.
file(GLOB_RECURSE there RELATIVE ${TO}/reprise ${TO}/reprise/*.h)
list(REMOVE_ITEM there ${kept})
foreach(header ${there})
  file(REMOVE ${TO}/reprise/${header})
endforeach()
