# SPDX-License-Identifier: MIT
# The library: portable sources for the baseline CPU, one stub source per instruction set with that
# set's flags, and the targets made of them:
#   rapt_static, rapt_shared   what users link; rapt::rapt is one of them (BUILD_SHARED_LIBS)
#   rapt_testing               the same objects, but a list with an extra row of odd tile sizes
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
include(GNUInstallDirs)

find_package(SLEEF REQUIRED)
set(rapt_openmp_flags "")
set(rapt_openmp_libraries "")
if(RAPT_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS C)
  separate_arguments(rapt_openmp_flags NATIVE_COMMAND "${OpenMP_C_FLAGS}")
  # Names, not targets: static consumers link the runtime without any OpenMP compile flag.
  foreach(name IN LISTS OpenMP_C_LIB_NAMES)
    get_filename_component(folder ${OpenMP_${name}_LIBRARY} DIRECTORY)
    if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
      list(APPEND rapt_openmp_libraries -L${folder})
    endif()
    list(APPEND rapt_openmp_libraries -l${name})
  endforeach()
endif()

file(GLOB rapt_portable_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/parallel.c PROPERTIES
  COMPILE_OPTIONS "${rapt_openmp_flags}")

# rapt_instruction_set(<name> <flag>...): adds simd/isa_<name>.c if the compiler takes all flags.
set(rapt_isa_sources "")
set(rapt_isa_definitions "")
function(rapt_instruction_set name)
  string(TOUPPER ${name} upper)
  foreach(flag IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER "RAPT_FLAG${flag}" variable)
    check_c_compiler_flag(${flag} ${variable})
    if(NOT ${variable})
      message(STATUS "rapt: no ${name} row, the compiler refuses ${flag}")
      return()
    endif()
  endforeach()
  set(source ${PROJECT_SOURCE_DIR}/simd/isa_${name}.c)
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ARGN}")
  set(rapt_isa_sources ${rapt_isa_sources} ${source} PARENT_SCOPE)
  set(rapt_isa_definitions ${rapt_isa_definitions} RAPT_HAVE_${upper} PARENT_SCOPE)
endfunction()

check_c_source_compiles("
  #if !defined(__x86_64__)
  #error not x86-64
  #endif
  int main(void) { return 0; }" RAPT_TARGET_X86_64)
check_c_source_compiles("
  #if !defined(__aarch64__)
  #error not AArch64
  #endif
  int main(void) { return 0; }" RAPT_TARGET_AARCH64)

rapt_instruction_set(scalar)
if(RAPT_TARGET_X86_64)
  rapt_instruction_set(avx2 -mavx2 -mfma -mf16c)
  rapt_instruction_set(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c)
elseif(RAPT_TARGET_AARCH64)
  rapt_instruction_set(neon)
endif()

# The kernels are written for -O3: also where a build type, or the lack of one, says less.
set(rapt_optimisation $<$<CONFIG:RelWithDebInfo>:-O3>)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(rapt_optimisation -O3)
endif()

# rapt_objects(<target> <source>...): the sources as position-independent objects. Contraction is
# off because the kernels spell every fused multiply-add out.
function(rapt_objects target)
  add_library(${target} OBJECT ${ARGN})
  target_include_directories(${target}
    PUBLIC ${PROJECT_SOURCE_DIR}/include
    PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/simd)
  target_compile_definitions(${target} PRIVATE ${rapt_isa_definitions})
  target_compile_options(${target} PRIVATE
    ${rapt_optimisation} -fno-math-errno -ffp-contract=off)
  target_include_directories(${target} SYSTEM PRIVATE
    $<TARGET_PROPERTY:SLEEF::SLEEF,INTERFACE_INCLUDE_DIRECTORIES>)
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
  rapt_warnings(${target})
endfunction()

# rapt_library(<target> <STATIC|SHARED> <objects>...)
function(rapt_library target kind)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(${target} ${kind} ${objects})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME rapt LINKER_LANGUAGE C)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE SLEEF::SLEEF ${rapt_openmp_libraries} m)
endfunction()

# Kernels take long to compile: all libraries share them, and differ in the list of rows alone.
set(rapt_rows_source ${PROJECT_SOURCE_DIR}/src/dispatch.c)
list(REMOVE_ITEM rapt_portable_sources ${rapt_rows_source})
rapt_objects(rapt_objects ${rapt_isa_sources} ${rapt_portable_sources})
rapt_objects(rapt_rows ${rapt_rows_source})

rapt_library(rapt_static STATIC rapt_objects rapt_rows)
add_library(rapt::rapt_static ALIAS rapt_static)

rapt_library(rapt_shared SHARED rapt_objects rapt_rows)
add_library(rapt::rapt_shared ALIAS rapt_shared)
set(rapt_map ${PROJECT_SOURCE_DIR}/cmake/rapt.map)
check_linker_flag(C "-Wl,--version-script=${rapt_map}" RAPT_LINKER_VERSION_SCRIPT)
if(RAPT_LINKER_VERSION_SCRIPT)
  target_link_options(rapt_shared PRIVATE "LINKER:--version-script=${rapt_map}")
  set_target_properties(rapt_shared PROPERTIES LINK_DEPENDS ${rapt_map})
endif()
set_target_properties(rapt_shared PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

if(BUILD_SHARED_LIBS)
  add_library(rapt::rapt ALIAS rapt_shared)
else()
  add_library(rapt::rapt ALIAS rapt_static)
endif()

if(RAPT_BUILD_TESTS)
  rapt_objects(rapt_test_rows ${PROJECT_SOURCE_DIR}/simd/isa_odd.c ${rapt_rows_source})
  target_compile_definitions(rapt_test_rows PRIVATE RAPT_TEST_ROWS)
  rapt_library(rapt_testing STATIC rapt_objects rapt_test_rows)
  set_target_properties(rapt_testing PROPERTIES OUTPUT_NAME rapt_testing)
  target_include_directories(rapt_testing INTERFACE
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/simd)
endif()
