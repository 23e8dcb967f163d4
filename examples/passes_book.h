/* SPDX-License-Identifier: MIT
 * passes_book.h: the numbers that chapter 3 of Raschka, "Build a Large Language Model (from
 * Scratch)", prints for its six-token sentence, in the order of its sections, row by row. */
#ifndef PASSES_BOOK_H
#define PASSES_BOOK_H

#include <math.h>

enum { TOKENS = 6, D_IN = 3, D_OUT = 2, HEADS = 2, JOURNEY = 1 };

static const char *const words[TOKENS] = {"Your", "journey", "starts", "with", "one", "step"};

static const float inputs[TOKENS * D_IN] = {0.43f, 0.15f, 0.89f, 0.55f, 0.87f, 0.66f,
                                            0.57f, 0.85f, 0.64f, 0.22f, 0.58f, 0.33f,
                                            0.77f, 0.25f, 0.10f, 0.05f, 0.80f, 0.55f};

/* ---- 3.3.1 One token of simple self-attention, and 3.3.2 all ---- */
static const float book_journey_scores[TOKENS] = {0.9544f, 1.4950f, 1.4754f,
                                                  0.8434f, 0.7070f, 1.0865f};
static const float book_journey_weights[TOKENS] = {0.1385f, 0.2379f, 0.2333f,
                                                   0.1240f, 0.1082f, 0.1581f};
static const float book_journey_context[D_IN] = {0.4419f, 0.6515f, 0.5683f};
static const float book_simple_scores[TOKENS * TOKENS] = {
    0.9995f, 0.9544f, 0.9422f, 0.4753f, 0.4576f, 0.6310f, 0.9544f, 1.4950f, 1.4754f,
    0.8434f, 0.7070f, 1.0865f, 0.9422f, 1.4754f, 1.4570f, 0.8296f, 0.7154f, 1.0605f,
    0.4753f, 0.8434f, 0.8296f, 0.4937f, 0.3474f, 0.6565f, 0.4576f, 0.7070f, 0.7154f,
    0.3474f, 0.6654f, 0.2935f, 0.6310f, 1.0865f, 1.0605f, 0.6565f, 0.2935f, 0.9450f};
static const float book_simple_weights[TOKENS * TOKENS] = {
    0.2098f, 0.2006f, 0.1981f, 0.1242f, 0.1220f, 0.1452f, 0.1385f, 0.2379f, 0.2333f,
    0.1240f, 0.1082f, 0.1581f, 0.1390f, 0.2369f, 0.2326f, 0.1242f, 0.1108f, 0.1565f,
    0.1435f, 0.2074f, 0.2046f, 0.1462f, 0.1263f, 0.1720f, 0.1526f, 0.1958f, 0.1975f,
    0.1367f, 0.1879f, 0.1295f, 0.1385f, 0.2184f, 0.2128f, 0.1420f, 0.0988f, 0.1896f};
static const float book_simple_context[TOKENS * D_IN] = {
    0.4421f, 0.5931f, 0.5790f, 0.4419f, 0.6515f, 0.5683f, 0.4431f, 0.6496f, 0.5671f,
    0.4304f, 0.6298f, 0.5510f, 0.4671f, 0.5910f, 0.5266f, 0.4177f, 0.6503f, 0.5645f};

/* ---- 3.4 Trainable weights ---- */
static const float book_query_2[D_OUT] = {0.4306f, 1.4551f};
static const float book_scores_2[TOKENS] = {1.2705f, 1.8524f, 1.8111f, 1.0795f, 0.5577f, 1.5440f};
static const float book_weights_2[TOKENS] = {0.1500f, 0.2264f, 0.2199f, 0.1311f, 0.0906f, 0.1820f};
static const float book_context_2[D_OUT] = {0.3061f, 0.8210f};
static const float book_self_v1[TOKENS * D_OUT] = {0.2996f, 0.8053f, 0.3061f, 0.8210f,
                                                   0.3058f, 0.8203f, 0.2948f, 0.7939f,
                                                   0.2927f, 0.7891f, 0.2990f, 0.8040f};
static const float book_self_v2[TOKENS * D_OUT] = {-0.0739f, 0.0713f, -0.0748f, 0.0703f,
                                                   -0.0749f, 0.0702f, -0.0760f, 0.0685f,
                                                   -0.0763f, 0.0679f, -0.0754f, 0.0693f};

/* ---- 3.5 Causal ---- */
static const float book_unmasked[TOKENS * TOKENS] = {
    0.1921f, 0.1646f, 0.1652f, 0.1550f, 0.1721f, 0.1510f, 0.2041f, 0.1659f, 0.1662f,
    0.1496f, 0.1665f, 0.1477f, 0.2036f, 0.1659f, 0.1662f, 0.1498f, 0.1664f, 0.1480f,
    0.1869f, 0.1667f, 0.1668f, 0.1571f, 0.1661f, 0.1564f, 0.1830f, 0.1669f, 0.1670f,
    0.1588f, 0.1658f, 0.1585f, 0.1935f, 0.1663f, 0.1666f, 0.1542f, 0.1666f, 0.1529f};
static const float book_zeroed[TOKENS * TOKENS] = {
    0.1921f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.2041f, 0.1659f, 0.0000f,
    0.0000f, 0.0000f, 0.0000f, 0.2036f, 0.1659f, 0.1662f, 0.0000f, 0.0000f, 0.0000f,
    0.1869f, 0.1667f, 0.1668f, 0.1571f, 0.0000f, 0.0000f, 0.1830f, 0.1669f, 0.1670f,
    0.1588f, 0.1658f, 0.0000f, 0.1935f, 0.1663f, 0.1666f, 0.1542f, 0.1666f, 0.1529f};
static const float book_renormalised[TOKENS * TOKENS] = {
    1.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.5517f, 0.4483f, 0.0000f,
    0.0000f, 0.0000f, 0.0000f, 0.3800f, 0.3097f, 0.3103f, 0.0000f, 0.0000f, 0.0000f,
    0.2758f, 0.2460f, 0.2462f, 0.2319f, 0.0000f, 0.0000f, 0.2175f, 0.1983f, 0.1984f,
    0.1888f, 0.1971f, 0.0000f, 0.1935f, 0.1663f, 0.1666f, 0.1542f, 0.1666f, 0.1529f};
static const float book_masked_scores[TOKENS * TOKENS] = {
    0.2899f,   -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, 0.4656f,   0.1723f,
    -INFINITY, -INFINITY, -INFINITY, -INFINITY, 0.4594f,   0.1703f,   0.1731f,   -INFINITY,
    -INFINITY, -INFINITY, 0.2642f,   0.1024f,   0.1036f,   0.0186f,   -INFINITY, -INFINITY,
    0.2183f,   0.0874f,   0.0882f,   0.0177f,   0.0786f,   -INFINITY, 0.3408f,   0.1270f,
    0.1290f,   0.0198f,   0.1290f,   0.0078f};
static const float book_causal_weights[TOKENS * TOKENS] = {
    1.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.5517f, 0.4483f, 0.0000f,
    0.0000f, 0.0000f, 0.0000f, 0.3800f, 0.3097f, 0.3103f, 0.0000f, 0.0000f, 0.0000f,
    0.2758f, 0.2460f, 0.2462f, 0.2319f, 0.0000f, 0.0000f, 0.2175f, 0.1983f, 0.1984f,
    0.1888f, 0.1971f, 0.0000f, 0.1935f, 0.1663f, 0.1666f, 0.1542f, 0.1666f, 0.1529f};
static const float book_dropped_ones[TOKENS * TOKENS] = {
    2.0000f, 2.0000f, 0.0000f, 2.0000f, 2.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f,
    2.0000f, 0.0000f, 2.0000f, 2.0000f, 2.0000f, 2.0000f, 2.0000f, 0.0000f, 2.0000f,
    0.0000f, 2.0000f, 2.0000f, 0.0000f, 0.0000f, 2.0000f, 0.0000f, 2.0000f, 0.0000f,
    2.0000f, 0.0000f, 2.0000f, 0.0000f, 2.0000f, 2.0000f, 2.0000f, 2.0000f, 0.0000f};
static const float book_dropped_weights[TOKENS * TOKENS] = {
    2.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.0000f,
    0.0000f, 0.0000f, 0.0000f, 0.7599f, 0.6194f, 0.6206f, 0.0000f, 0.0000f, 0.0000f,
    0.0000f, 0.4921f, 0.4925f, 0.0000f, 0.0000f, 0.0000f, 0.0000f, 0.3966f, 0.0000f,
    0.3775f, 0.0000f, 0.0000f, 0.0000f, 0.3327f, 0.3331f, 0.3084f, 0.3331f, 0.0000f};
static const float book_causal[TOKENS * D_OUT] = {-0.4519f, 0.2216f,  -0.5874f, 0.0058f,
                                                  -0.6300f, -0.0632f, -0.5675f, -0.0843f,
                                                  -0.5526f, -0.0981f, -0.5299f, -0.1081f};

/* ---- 3.6 Multi-head; both items of the batch of two ---- */
static const float book_stacked[TOKENS * HEADS * D_OUT] = {
    -0.4519f, 0.2216f,  0.4772f, 0.1063f, -0.5874f, 0.0058f,  0.5891f, 0.3257f,
    -0.6300f, -0.0632f, 0.6202f, 0.3860f, -0.5675f, -0.0843f, 0.5478f, 0.3589f,
    -0.5526f, -0.0981f, 0.5321f, 0.3428f, -0.5299f, -0.1081f, 0.5077f, 0.3493f};
static const float book_split[TOKENS * D_OUT] = {0.3190f, 0.4858f, 0.2943f, 0.3897f,
                                                 0.2856f, 0.3593f, 0.2693f, 0.3873f,
                                                 0.2639f, 0.3928f, 0.2575f, 0.4028f};

#endif
