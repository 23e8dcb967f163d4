# SPDX-License-Identifier: MIT
# Warnings and sanitizers of this project's own targets. Nothing here reaches a consumer.

# ON if this is the outermost project, not one that another project includes.
function(rapt_is_top_level result)
  if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

function(rapt_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
    -Wmissing-prototypes $<$<BOOL:${RAPT_WERROR}>:-Werror>)
endfunction()

# RAPT_SANITIZE applies to every target of this project. -Og: more optimisation takes minutes for
# each kernel source, whose unrolled loops the sanitizers fill with checks; following each variable
# through them for a debugger takes a third of GCC's time.
macro(rapt_enable_sanitizers)
  if(RAPT_SANITIZE)
    list(JOIN RAPT_SANITIZE "," rapt_sanitizers)
    add_compile_options(-fsanitize=${rapt_sanitizers} -fno-sanitize-recover=all
      -fno-omit-frame-pointer -g -Og $<$<C_COMPILER_ID:GNU>:-fno-var-tracking>)
    add_link_options(-fsanitize=${rapt_sanitizers})
  endif()
endmacro()
