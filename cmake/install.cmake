# What `cmake --install build --prefix P` gives: P/bin/reprise, P/lib/libreprise.so, the public headers, hardware
# descriptions, and the package that find_package(Reprise) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Reprise)
install(TARGETS reprise EXPORT RepriseTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT RepriseTargets NAMESPACE Reprise:: DESTINATION ${package_folder})
install(DIRECTORY ${REPRISE_HEADER_FOLDER}/reprise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/hardware DESTINATION ${CMAKE_INSTALL_DATADIR}/reprise FILES_MATCHING PATTERN *.toml)

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/RepriseConfig.cmake.in ${CMAKE_BINARY_DIR}/RepriseConfig.cmake
                              INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break what was there.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/RepriseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/RepriseConfig.cmake ${CMAKE_BINARY_DIR}/RepriseConfigVersion.cmake
        DESTINATION ${package_folder})

if(TARGET reprise_main)
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(reprise_main PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS reprise_main RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
