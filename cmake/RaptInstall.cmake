# SPDX-License-Identifier: MIT
# Install rules: headers, both libraries, the CMake package and the pkg-config file. All paths in
# the installed files are relative to those files, so that the prefix may be moved.
include(CMakePackageConfigHelpers)

set(rapt_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rapt)

install(DIRECTORY include/rapt TYPE INCLUDE FILES_MATCHING PATTERN "*.h")

foreach(kind IN ITEMS static shared)
  install(TARGETS rapt_${kind} EXPORT rapt_${kind}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(EXPORT rapt_${kind} NAMESPACE rapt:: FILE rapt-${kind}.cmake
    DESTINATION ${rapt_package_dir})
endforeach()

configure_package_config_file(cmake/rapt-config.cmake.in rapt-config.cmake
  INSTALL_DESTINATION ${rapt_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(rapt-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/rapt-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/rapt-config-version.cmake
  cmake/FindSLEEF.cmake
  DESTINATION ${rapt_package_dir})

# pkg-config: ${pcfiledir} is where the file lies, the prefix some levels above it.
file(RELATIVE_PATH rapt_prefix_from_pc
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" rapt_prefix_from_pc "${rapt_prefix_from_pc}")
list(JOIN rapt_openmp_libraries " " rapt_private_libraries)
configure_file(cmake/rapt.pc.in rapt.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rapt.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
