# SPDX-License-Identifier: MIT
# Tests besides one run per suite and instruction set: suites again under other settings of the
# process, example programs on emulated CPUs, and the packaging checks.

# Fewer threads than asked for, by every setting that OpenMP and the system know.
if(RAPT_OPENMP AND NOT CMAKE_CROSSCOMPILING)
  foreach(setting IN ITEMS OMP_DYNAMIC=true OMP_THREAD_LIMIT=2 OMP_NUM_THREADS=1
      OMP_STACKSIZE=128k OMP_MAX_ACTIVE_LEVELS=3 OMP_PROC_BIND=true)
    string(REGEX REPLACE "=.*" "" name ${setting})
    rapt_test(threads.${name} threads ${setting})
    rapt_test(openmp.${name} openmp ${setting})
  endforeach()
  find_program(RAPT_TASKSET taskset)
  if(RAPT_TASKSET)
    add_test(NAME threads.one_cpu COMMAND ${RAPT_TASKSET} -c 0 $<TARGET_FILE:test_threads> --jobs 1)
  endif()
endif()

# Ratios of times mean something in an optimised native build only.
if(RAPT_SANITIZE OR CMAKE_CROSSCOMPILING OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set_tests_properties(speed PROPERTIES DISABLED ON)
endif()

# A CPU without AVX runs the portable row; forcing what a CPU lacks is an error, not a crash.
find_program(RAPT_QEMU_X86_64 qemu-x86_64)
if(RAPT_TARGET_X86_64 AND RAPT_QEMU_X86_64 AND TARGET example_sentence AND NOT RAPT_SANITIZE)
  foreach(row IN ITEMS qemu64:scalar Haswell:avx2)
    string(REPLACE ":" ";" row ${row})
    list(GET row 0 cpu)
    list(GET row 1 isa)
    add_test(NAME isa.emulated.${isa}
      COMMAND ${RAPT_QEMU_X86_64} -cpu ${cpu} $<TARGET_FILE:example_sentence>)
    set_tests_properties(isa.emulated.${isa} PROPERTIES
      PASS_REGULAR_EXPRESSION "instruction set ${isa}" FAIL_REGULAR_EXPRESSION "DIFFERS")
    add_test(NAME isa.refused.${cpu}
      COMMAND ${RAPT_QEMU_X86_64} -cpu ${cpu} -E RAPT_ISA=avx512 $<TARGET_FILE:example_sentence>)
    set_tests_properties(isa.refused.${cpu} PROPERTIES
      PASS_REGULAR_EXPRESSION "RAPT_ERR_ISA: .*avx512.* is not supported")
  endforeach()
endif()

if(NOT RAPT_SANITIZE AND NOT CMAKE_CROSSCOMPILING AND RAPT_INSTALL)
  set(compilers CC=${CMAKE_C_COMPILER})
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    list(APPEND compilers CXX=clang++)
  endif()
  add_test(NAME packaging.binary
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/check_binary.sh $<TARGET_FILE:rapt_static>
      $<TARGET_FILE:rapt_shared> ${PROJECT_SOURCE_DIR}/include)
  add_test(NAME packaging.consumers
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/check_consumers.sh ${PROJECT_BINARY_DIR}
      ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR}/packaging)
  set_tests_properties(packaging.binary packaging.consumers PROPERTIES
    ENVIRONMENT "${compilers}" LABELS "packaging;slow" TIMEOUT 600)
endif()
