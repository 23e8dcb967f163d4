/* SPDX-License-Identifier: MIT
 * assert.h (stand-in): everything is in criterion.h. */
#include <criterion/criterion.h>
