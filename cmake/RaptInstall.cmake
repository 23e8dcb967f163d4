# SPDX-License-Identifier: MIT
# Install rules: headers, the libraries, each static and shared, the CMake package and the pkg-config
# files. All paths in the installed files are relative to those files, so that the prefix may be
# moved.
include(CMakePackageConfigHelpers)

set(rapt_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rapt)

install(DIRECTORY include/rapt TYPE INCLUDE FILES_MATCHING PATTERN "*.h")

set(rapt_installed rapt)
if(RAPT_SAFETENSORS)
  list(APPEND rapt_installed rapt_safetensors)
endif()
foreach(library IN LISTS rapt_installed)
  foreach(kind IN ITEMS static shared)
    install(TARGETS ${library}_${kind} EXPORT ${library}_${kind}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(EXPORT ${library}_${kind} NAMESPACE rapt:: FILE ${library}-${kind}.cmake
      DESTINATION ${rapt_package_dir})
  endforeach()
endforeach()

configure_package_config_file(cmake/rapt-config.cmake.in rapt-config.cmake
  INSTALL_DESTINATION ${rapt_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(rapt-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/rapt-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/rapt-config-version.cmake
  cmake/FindJansson.cmake
  cmake/FindSLEEF.cmake
  DESTINATION ${rapt_package_dir})

# pkg-config: ${pcfiledir} is where the file lies, the prefix some levels above it.
file(RELATIVE_PATH rapt_prefix_from_pc
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" rapt_prefix_from_pc "${rapt_prefix_from_pc}")
list(JOIN rapt_openmp_libraries " " rapt_private_libraries)
foreach(library IN LISTS rapt_installed)
  string(REPLACE "_" "-" package ${library})
  configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${package}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
