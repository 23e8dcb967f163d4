# SPDX-License-Identifier: MIT
# Settings of the suites kernels and exp2, and the kernel checks as a plain program of their own.

# test_exp2 goes through all floats <= 0 on all cores: seconds in an optimised native build.
# Elsewhere it takes a sample.
if(RAPT_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS C)
  target_link_libraries(test_exp2 PRIVATE OpenMP::OpenMP_C)
endif()
if(RAPT_SANITIZE OR CMAKE_CROSSCOMPILING OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_definitions(test_exp2 PRIVATE RAPT_EXP_STEP=4099)
endif()

file(GLOB rapt_kernel_checks CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernel_checks*.c)
add_executable(kernels_plain standalone/kernels_plain.c kernel_tools.c ${rapt_kernel_checks}
  exp2_checks.c exp2_fused.c guard.c rng.c)
target_include_directories(kernels_plain PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(kernels_plain PRIVATE _GNU_SOURCE)
target_link_libraries(kernels_plain PRIVATE rapt_testing m)
rapt_warnings(kernels_plain)
if(NOT RAPT_SANITIZE)
  foreach(isa IN LISTS RAPT_TEST_ISAS)
    add_test(NAME kernels_plain.${isa} COMMAND kernels_plain ${isa})
    set_tests_properties(kernels_plain.${isa} PROPERTIES SKIP_RETURN_CODE 77 LABELS kernels)
  endforeach()
endif()
