#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes torch_rng.h: what PyTorch's CPU generator draws, as bits. Made with PyTorch 2.15.0 and
NumPy 2.4; PyTorch 1.13.1 gives the same. Usage: torch_rng.py > torch_rng.h"""
import numpy as np
import torch

# (seed, in_features, out_features, bias); long tensors are recorded by their hash
LINEAR = [(789, 3, 2, False), (789, 3, 2, True), (123, 3, 1, False), (0, 1, 1, True),
          (1, 5, 7, True), (2, 16, 16, True), (2**40 + 3, 17, 33, True), (123, 768, 768, True)]
RAND = [(123, (3, 2)), (0, (1,)), (7, (700,)), (123, (64, 257))]
UNIFORM = [(11, (5, 3), -2.5, 7.125), (12, (9,), 1e-3, 1e3)]
KEEP = [(123, 0.5, (6, 6)), (9, 0.1, (7, 13)), (10, 0.9, (3, 5, 11)), (11, 0.37, (100, 101))]
WORDS = [0, 123, 789, 2**32 - 1]


def bits(t):
    return [int(x) for x in t.detach().contiguous().numpy().view(np.uint32).ravel()]


def fnv(values, width):
    h = 0xcbf29ce484222325
    for v in values:
        for b in int(v).to_bytes(width, "little"):
            h = (h ^ b) * 0x100000001b3 % 2**64
    return h


def record(values, width):
    head = ", ".join(f"0x{v:08x}" if width == 4 else str(v) for v in values[:12])
    return f"{{{len(values)}, {{{head}}}, UINT64_C(0x{fnv(values, width):016x})}}"


def draws():
    for seed in WORDS:
        mt = np.random.MT19937()
        mt._legacy_seeding(seed)
        yield f"{{UINT64_C({seed}), {record([int(x) for x in mt.random_raw(3000)], 4)}}}"


def rand():
    for seed, size in RAND:
        torch.manual_seed(seed)
        yield f"{{UINT64_C({seed}), 0.0f, 1.0f, {record(bits(torch.rand(size)), 4)}}}"
    for seed, size, low, high in UNIFORM:
        torch.manual_seed(seed)
        values = bits(torch.empty(size).uniform_(low, high))
        low, high = float(np.float32(low)).hex(), float(np.float32(high)).hex()
        yield f"{{UINT64_C({seed}), {low}f, {high}f, {record(values, 4)}}}"


def linear():
    for seed, d_in, d_out, bias in LINEAR:
        torch.manual_seed(seed)
        for _ in range(2):  # two layers in a row: the second shows that no more was drawn
            layer = torch.nn.Linear(d_in, d_out, bias=bias)
        b = record(bits(layer.bias), 4) if bias else "{0, {0}, 0}"
        yield (f"{{UINT64_C({seed}), {d_in}, {d_out}, {record(bits(layer.weight), 4)}, {b}}}")


def keep():
    for seed, p, size in KEEP:
        torch.manual_seed(seed)
        kept = (torch.nn.Dropout(p)(torch.ones(size)) != 0).to(torch.uint8).numpy().ravel()
        follows = bits(torch.rand(1))[0]
        yield (f"{{UINT64_C({seed}), {p}, {record([int(x) for x in kept], 1)}, "
               f"0x{follows:08x}}}")


def table(name, kind, rows):
    print(f"static const {kind} {name}[] = {{")
    for row in rows:
        print(f"    {row},")
    print("};\n")


print("""/* SPDX-License-Identifier: MIT
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
""")
print("typedef struct torch_words { uint64_t seed; torch_values words; } torch_words;")
table("torch_words_of", "torch_words", draws())
print("typedef struct torch_uniform { uint64_t seed; float from, to; torch_values values; } "
      "torch_uniform;")
table("torch_uniform_of", "torch_uniform", rand())
print("/* The second of two layers made in a row. */")
print("typedef struct torch_linear { uint64_t seed; int64_t in, out; torch_values weight, bias; } "
      "torch_linear;")
table("torch_linear_of", "torch_linear", linear())
print("/* follows: the first torch.rand after it */")
print("typedef struct torch_keep { uint64_t seed; double p; torch_values keep; uint32_t follows; } "
      "torch_keep;")
table("torch_keep_of", "torch_keep", keep())
print("#endif")
