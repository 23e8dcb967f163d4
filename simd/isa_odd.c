/* SPDX-License-Identifier: MIT
 * isa_odd.c: a row for tests only, in plain C with tile sizes that divide nothing: 5 lanes, tiles
 * of 3 rows, blocks of 7 keys. It takes the driver over all its edges at small sizes. */
#define VEC_ISA odd
enum { VEC_LANES = 5 };
enum { TILE_ROWS_1 = 3, TILE_ROWS_2 = 3, TILE_ROWS_3 = 3, TILE_ROWS_4 = 3 };
enum { TILE_GROUP_VECTORS = 3, TILE_COLUMN_VECTORS = 3, TILE_KEY_BLOCK = 7 };
enum { TILE_NEAR_FLOATS = 60 };
enum { TILE_FEW_LANES = 3 };
enum { EXP_TOGETHER = 4 };

#include "vec_scalar.h"

#include "table.h"
