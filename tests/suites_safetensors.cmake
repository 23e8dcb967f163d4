# SPDX-License-Identifier: MIT
# Settings of the suites of rapt_safetensors.

foreach(suite IN ITEMS safetensors safetensors_bad safetensors_fail)
  target_link_libraries(test_${suite} PRIVATE rapt_safetensors_static Jansson::Jansson)
  target_compile_definitions(test_${suite} PRIVATE
    RAPT_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
endforeach()

# Calls that refuse.c lets fail.
foreach(name IN ITEMS malloc calloc mmap fsync rename)
  target_link_options(test_safetensors_bad PRIVATE LINKER:--wrap=${name})
  target_link_options(test_safetensors_fail PRIVATE LINKER:--wrap=${name})
endforeach()
