# SPDX-License-Identifier: MIT
# Settings of the suites of rapt_safetensors.

foreach(suite IN ITEMS safetensors safetensors_bad safetensors_fail safetensors_modules)
  target_link_libraries(test_${suite} PRIVATE rapt_safetensors_static Jansson::Jansson)
  target_compile_definitions(test_${suite} PRIVATE
    RAPT_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
endforeach()

# Calls that refuse.c lets fail.
foreach(name IN ITEMS malloc calloc mmap fsync rename)
  target_link_options(test_safetensors_bad PRIVATE LINKER:--wrap=${name})
  target_link_options(test_safetensors_fail PRIVATE LINKER:--wrap=${name})
endforeach()

if(NOT RAPT_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_definitions(test_safetensors_fail PRIVATE RAPT_TEST_LARGE)
endif()

if(NOT RAPT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME packaging.safetensors
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/packaging/check_component.sh
      $<TARGET_FILE:rapt_safetensors_static> $<TARGET_FILE:rapt_safetensors_shared>
      $<TARGET_FILE:rapt_shared>)
  set_tests_properties(packaging.safetensors PROPERTIES LABELS packaging)
endif()
