# reprise_require(NAME DEBIAN_PACKAGE ...): find_package, and where it is missing the package that brings it.
macro(reprise_require package debian_package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found: run launch/setup, or install ${debian_package}")
  endif()
endmacro()
