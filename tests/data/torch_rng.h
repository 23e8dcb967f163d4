/* SPDX-License-Identifier: MIT
 * torch_rng.h: what PyTorch's CPU generator draws. Written by torch_rng.py: do not edit. */
#ifndef RAPT_TESTS_TORCH_RNG_H
#define RAPT_TESTS_TORCH_RNG_H

#include <stdint.h>

/* Elements in row-major order: how many, the first 12, and the FNV-1a hash of all (little-endian,
 * four bytes per word or float, one per bool). */
typedef struct torch_values {
    int64_t count;
    uint32_t first[12];
    uint64_t hash;
} torch_values;

typedef struct torch_words {
    uint64_t seed;
    torch_values words;
} torch_words;
static const torch_words torch_words_of[] = {
    {UINT64_C(0),
     {3000,
      {0x8c7f0aac, 0x97c4aa2f, 0xb716a675, 0xd821ccc0, 0x9a4eb343, 0xdba252fb, 0x8b7d76c3,
       0xd8e57d67, 0x6c74a409, 0x9fa1ded3, 0xa5595115, 0x6266d6f2},
      UINT64_C(0xdbaa9a5d5be9a873)}},
    {UINT64_C(123),
     {3000,
      {0xb24bcdfe, 0xb6843d6d, 0x49406d7e, 0x6db04542, 0x3a12efdc, 0xb0ddd462, 0x8d22f6e6,
       0xb81a3c11, 0xb82f1e53, 0x7db9f86a, 0x6c50b47b, 0xc7afe639},
      UINT64_C(0x80f5c4da5205aa2c)}},
    {UINT64_C(789),
     {3000,
      {0x52c61233, 0x21e5468e, 0x3af1799e, 0x055ab0d2, 0xcb351781, 0x6f6ba74c, 0x9fd9f7da,
       0xdd17b4e3, 0xf9b48014, 0xbcaf4d78, 0xc246589b, 0x0d0ecfb4},
      UINT64_C(0x67af040059ba33c5)}},
    {UINT64_C(4294967295),
     {3000,
      {0x18fe69a3, 0x1c924122, 0xe991ec0c, 0x900cac47, 0xc9fe37b4, 0x86bcfe40, 0xc7ae50d6,
       0xc54701fa, 0x0497b1d9, 0x48977f20, 0xf8318a7f, 0x811f727b},
      UINT64_C(0x4297403a7da464e7)}},
};

typedef struct torch_uniform {
    uint64_t seed;
    float from, to;
    torch_values values;
} torch_uniform;
static const torch_uniform torch_uniform_of[] = {
    {UINT64_C(123),
     0.0f,
     1.0f,
     {6,
      {0x3e979bfc, 0x3f043d6d, 0x3e80dafc, 0x3f304542, 0x3d977ee0, 0x3f5dd462},
      UINT64_C(0xdd92a179c37b61da)}},
    {UINT64_C(0), 0.0f, 1.0f, {1, {0x3efe1558}, UINT64_C(0xa9231c5d75015352)}},
    {UINT64_C(7),
     0.0f,
     1.0f,
     {700,
      {0x3f08f0af, 0x3e4b9310, 0x3f28c219, 0x3f2829f6, 0x3e6e590c, 0x3ed9a1a6, 0x3e540e5c,
       0x3f213667, 0x3ebb0ab8, 0x3f59ecb9, 0x3f5add8e, 0x3f0d0a17},
      UINT64_C(0xb56be27a518d4d8b)}},
    {UINT64_C(123),
     0.0f,
     1.0f,
     {16448,
      {0x3e979bfc, 0x3f043d6d, 0x3e80dafc, 0x3f304542, 0x3d977ee0, 0x3f5dd462, 0x3e0bdb98,
       0x3dd1e088, 0x3e3c794c, 0x3f39f86a, 0x3ea168f6, 0x3f2fe639},
      UINT64_C(0x75b2bc23e267d923)}},
    {UINT64_C(11),
     -0x1.4000000000000p+1f,
     0x1.c800000000000p+2f,
     {15,
      {0xbf886170, 0x400bb77c, 0x40df9570, 0xbf610f14, 0x4047b58b, 0x4085a0e8, 0x40472e27,
       0xbfa1c3c2, 0x40406d73, 0x40ccd9bd, 0x3dbd2faa, 0x40a0ff29},
      UINT64_C(0xdbd7ef15beec4bfc)}},
    {UINT64_C(12),
     0x1.0624de0000000p-10f,
     0x1.f400000000000p+9f,
     {9,
      {0x43e8d810, 0x4368c480, 0x43e25c5c, 0x4412c736, 0x43cc529a, 0x42fe59ca, 0x441f522b,
       0x43721004, 0x4436cc35},
      UINT64_C(0x09e21b25248cd199)}},
};

/* The second of two layers made in a row. */
typedef struct torch_linear {
    uint64_t seed;
    int64_t in, out;
    torch_values weight, bias;
} torch_linear;
static const torch_linear torch_linear_of[] = {
    {UINT64_C(789),
     3,
     2,
     {6,
      {0x3ecfc5c8, 0xbef0daf6, 0x3e727d10, 0x3e5a7b3d, 0xbe85255c, 0xbf02b2f2},
      UINT64_C(0xb9353cf90c7f9b65)},
     {0, {0}, 0}},
    {UINT64_C(789),
     3,
     2,
     {6,
      {0x3e727d10, 0x3e5a7b3d, 0xbe85255c, 0xbf02b2f2, 0x3e8150d7, 0xbe10dfae},
      UINT64_C(0xca7efc95683a7930)},
     {2, {0xbe48e3c3, 0x3f04e439}, UINT64_C(0xccce7d22b4994c71)}},
    {UINT64_C(123),
     3,
     1,
     {3, {0x3e5ef3ba, 0xbefbdecd, 0x3ed8b0b2}, UINT64_C(0x685639aac224642c)},
     {0, {0}, 0}},
    {UINT64_C(0),
     1,
     1,
     {1, {0xbf52b316}, UINT64_C(0x373794f1980739b1)},
     {1, {0xbf3c6680}, UINT64_C(0x017bb5a9fe5eb58e)}},
    {UINT64_C(1),
     5,
     7,
     {35,
      {0x3eabb67a, 0x3bad87f6, 0xbe71411b, 0x3e6b6433, 0xbe73165c, 0x3e06af2d, 0xbe043c44,
       0xbd48d3ad, 0xbedc21dc, 0xbe5a5733, 0x3e787f5a, 0xbddea205},
      UINT64_C(0x3928209e04400a0a)},
     {7,
      {0x3e630254, 0xbed40e14, 0x3e668216, 0xbea0ff1a, 0xbeacc330, 0x3cdecc48, 0xbd9c1327},
      UINT64_C(0xc8e6132e0b9f9547)}},
    {UINT64_C(2),
     16,
     16,
     {256,
      {0xbd9aaa8c, 0x3bc62300, 0xbe620e48, 0xbe26fcf4, 0x3ba79c40, 0xbd6abea0, 0xbd1f2fd8,
       0x3e118720, 0x3dc03b14, 0xbd590660, 0xbda88220, 0xbe393984},
      UINT64_C(0xe3cf048308a803d3)},
     {16,
      {0x3e681f38, 0xbe516860, 0x3d61ef78, 0x3e769e92, 0x3d828fc8, 0xbcfae520, 0x3dbbd2f8,
       0x3e77f4e4, 0xbe362e2c, 0x3df839cc, 0xbdcc482c, 0xbe230b94},
      UINT64_C(0x75c0ac0a67961cba)}},
    {UINT64_C(1099511627779),
     17,
     33,
     {561,
      {0x3df65f0a, 0xbe340757, 0x3df9b0fa, 0x3e056616, 0xbca43b30, 0x3e7034b2, 0x3d071a20,
       0x3e18c782, 0x3c43edf1, 0x3d42c0f5, 0x3d3369f1, 0x3e55cc19},
      UINT64_C(0x83cbd3796ce3f64d)},
     {33,
      {0x3e4a36a3, 0x3d6f214b, 0xbc7047c3, 0x3e48ed13, 0x3e686086, 0x3d58f25a, 0x3c265448,
       0xbe30527e, 0x3dc884f8, 0xbda05ee6, 0xbe74add9, 0xbde343ac},
      UINT64_C(0x38b10e9c84b9c397)}},
    {UINT64_C(123),
     768,
     768,
     {589824,
      {0xbc24793c, 0xbb9cc976, 0x3cd131c6, 0xbca13a8e, 0xbc6c43aa, 0xbcc71201, 0xbb9d91fc,
       0xbcbbbe9b, 0xbd075873, 0x3aa01ad1, 0x3d0c91b8, 0xbbb2f38d},
      UINT64_C(0x54dbccab069f4751)},
     {768,
      {0xba43cd43, 0x3d0b40c1, 0xbd076b91, 0x3d08bfb5, 0x3d0763fd, 0xbc6e60f3, 0x39818cbb,
       0x3c6ffce3, 0xbbe51a86, 0xbc9b8e66, 0xb98aa24c, 0xbb905cbb},
      UINT64_C(0x54e3f5e10d359553)}},
};

/* follows: the first torch.rand after it */
typedef struct torch_keep {
    uint64_t seed;
    double p;
    torch_values keep;
    uint32_t follows;
} torch_keep;
static const torch_keep torch_keep_of[] = {
    {UINT64_C(123),
     0.5,
     {36, {1, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1}, UINT64_C(0x2ff513415ff76ad4)},
     0x3e156fac},
    {UINT64_C(9),
     0.1,
     {91, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, UINT64_C(0x8ef7351c9b76474a)},
     0x3d784870},
    {UINT64_C(10),
     0.9,
     {165, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, UINT64_C(0xd9abe2a0e5bbaec8)},
     0x3f2ae96a},
    {UINT64_C(11),
     0.37,
     {10100, {1, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 0}, UINT64_C(0x89fc4cf8170d4425)},
     0x3f052329},
};

#endif
