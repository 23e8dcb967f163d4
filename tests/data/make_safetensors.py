#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the *.safetensors files of this folder with the Python package (0.8.0 made those here).

    python3 -m venv venv && venv/bin/pip install safetensors numpy
    venv/bin/python make_safetensors.py

causal.safetensors   state_dict of the chapter's CausalAttention(3, 2, 6, 0.0) after
                     torch.manual_seed(123), with its buffer "mask"
stacked.safetensors  the same of MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2)
split.safetensors    the same of MultiHeadAttention(3, 2, 6, 0.0, 2)
types.safetensors    one tensor of each element type, an empty one, scalars, seven axes, metadata
saved.safetensors    what test_safetensors.c saves: the bytes must be the same
"""
import ctypes
import pathlib

import numpy as np
from safetensors import TensorSpec, serialize
from safetensors.numpy import save

HERE = pathlib.Path(__file__).parent

# The generator's draws after seed 123: three Linear(3, 2, bias=False), three more, and, in place of
# these, one Linear(2, 2).
HEAD_0 = {
    "W_query.weight": [[-0.235429645, 0.0191244762, -0.286745936], [0.217726618, -0.49193421, 0.423223078]],
    "W_key.weight": [[-0.419641405, -0.459017664, -0.364820182], [0.261478186, -0.213326395, 0.216052175]],
    "W_value.weight": [[-0.490014136, -0.350292057, -0.211989194], [-0.11346072, -0.440439373, 0.378043622]],
}
HEAD_1 = {
    "W_query.weight": [[-0.13615717, 0.185322329, 0.408269495], [0.107563816, 0.157876849, 0.557292342]],
    "W_key.weight": [[-0.260390401, 0.182876408, -0.256872445], [0.41260317, 0.461104512, -0.532300949]],
    "W_value.weight": [[0.492852628, 0.275693059, 0.251590222], [0.237680584, 0.479950726, -0.0762330666]],
}
OUT_PROJ = {
    "out_proj.weight": [[-0.166757792, 0.22697258], [0.500025988, 0.131738231]],
    "out_proj.bias": [0.193358868, 0.682540953],
}
MASK = {"mask": np.triu(np.ones((6, 6)), 1)}


def save_f32(*states):
    return save({name: np.array(value, np.float32) for state in states for name, value in state.items()})


def causal():
    return save_f32(MASK, HEAD_0)


def stacked():
    return save_f32(*({f"heads.{n}.{name}": value for name, value in (MASK | head).items()}
                      for n, head in enumerate((HEAD_0, HEAD_1))))


def split():
    return save_f32(MASK, HEAD_0, OUT_PROJ)


def types():
    """Types that NumPy lacks are given by their bits."""
    numbered = [("bool", 1), ("uint8", 1), ("int8", 1), ("int16", 2), ("uint16", 2), ("float16", 2),
                ("bfloat16", 2), ("int32", 4), ("uint32", 4), ("float32", 4), ("float64", 8), ("int64", 8),
                ("uint64", 8), ("float8_e4m3fn", 1), ("float8_e5m2", 1)]
    halves = {"float16": [0x3C00, 0xC000, 0x3555], "bfloat16": [0x3F80, 0xC000, 0x3EAB]}
    memory, specs = [], {}

    def add(name, dtype, array):
        data = np.ascontiguousarray(array).tobytes()
        memory.append(ctypes.create_string_buffer(data, max(len(data), 1)))
        specs[name] = TensorSpec(dtype=dtype, shape=list(array.shape),
                                 data_ptr=ctypes.addressof(memory[-1]), data_len=len(data))

    for dtype, size in numbered:
        if dtype in halves:
            add(f"t.{dtype}", dtype, np.array(halves[dtype], np.uint16))
        elif dtype.startswith("float8"):
            add(f"t.{dtype}", dtype, np.array([0x38, 0xC0, 0x2B], np.uint8))
        else:
            add(f"t.{dtype}", dtype, np.array([1, 0, 100]).astype(dtype))
    add("empty", "float32", np.zeros((2, 0, 3), np.float32))
    add("scalar", "float32", np.array(-2.5, np.float32))
    add("scalar.i64", "int64", np.array(-(2**40), np.int64))
    add("seven.axes", "float32", np.ones((1,) * 7, np.float32))
    return bytes(serialize(specs, metadata={"format": "pt", "note": "tab\t\u00e9"}))


def saved():
    return save({
        "b.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a.transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T.copy(),
        "long": np.array([-1, 2**62], np.int64),
        "int": np.array(7, np.int32),
        "flags": np.array([True, False, True]),
        "empty": np.zeros((0, 4), np.float32),
        'q"\\/\n\u00e4': np.array([0.5], np.float32),
    })


if __name__ == "__main__":
    for make in (causal, stacked, split, types, saved):
        (HERE / f"{make.__name__}.safetensors").write_bytes(make())
