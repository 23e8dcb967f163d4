# SPDX-License-Identifier: MIT
# The component rapt_safetensors: parameters in files. A library of its own, because it needs
# Jansson and the core does not. It uses rapt's public headers only.
#   rapt_safetensors_static, rapt_safetensors_shared
#   rapt::safetensors   one of them (BUILD_SHARED_LIBS) together with rapt::rapt
find_package(Jansson QUIET)
option(RAPT_SAFETENSORS "Build rapt_safetensors (needs Jansson)" ${Jansson_FOUND})
if(NOT RAPT_SAFETENSORS)
  return()
endif()
find_package(Jansson REQUIRED)

file(GLOB rapt_safetensors_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/safetensors/*.c)
add_library(rapt_safetensors_objects OBJECT ${rapt_safetensors_sources})
target_include_directories(rapt_safetensors_objects PUBLIC ${PROJECT_SOURCE_DIR}/include)
target_include_directories(rapt_safetensors_objects SYSTEM PRIVATE
  $<TARGET_PROPERTY:Jansson::Jansson,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(rapt_safetensors_objects PRIVATE _XOPEN_SOURCE=700)
set_target_properties(rapt_safetensors_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
rapt_warnings(rapt_safetensors_objects)

foreach(kind IN ITEMS static shared)
  string(TOUPPER ${kind} upper)
  set(target rapt_safetensors_${kind})
  add_library(${target} ${upper} $<TARGET_OBJECTS:rapt_safetensors_objects>)
  add_library(rapt::${target} ALIAS ${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME rapt_safetensors LINKER_LANGUAGE C)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE Jansson::Jansson)
endforeach()

if(RAPT_LINKER_VERSION_SCRIPT)
  set(rapt_safetensors_map ${PROJECT_SOURCE_DIR}/cmake/rapt_safetensors.map)
  target_link_options(rapt_safetensors_shared PRIVATE
    "LINKER:--version-script=${rapt_safetensors_map}")
  set_target_properties(rapt_safetensors_shared PROPERTIES LINK_DEPENDS ${rapt_safetensors_map})
endif()
set_target_properties(rapt_safetensors_shared PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

add_library(rapt_safetensors INTERFACE)
add_library(rapt::safetensors ALIAS rapt_safetensors)
if(BUILD_SHARED_LIBS)
  target_link_libraries(rapt_safetensors INTERFACE rapt_safetensors_shared rapt_shared)
else()
  target_link_libraries(rapt_safetensors INTERFACE rapt_safetensors_static rapt_static)
endif()
