#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times PyTorch's CPU scaled_dot_product_attention (PyTorch 2.5 or newer) on rapt-bench's rows.

    bench/peers/pytorch.py --bench build/release/bench/rapt-bench --row "fwd-f32-1x12x*"

Prints JSON lines like rapt-bench, with isa "pytorch". Each sample stands between two short runs of
rapt-bench that measure the FMA ceiling; samples beside a low ceiling are set aside.
"""
import argparse
import fnmatch
import json
import re
import statistics
import subprocess
import time
import os

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages, as rapt-bench has
import torch
from torch.nn.functional import scaled_dot_product_attention

NAME = re.compile(r"fwd-f32-(\d+)x(\d+)(?:/(\d+))?x(\d+)(?:/(\d+))?x(\d+)(?:/(\d+))?"
                  r"-(full|causal|window|mask|lengths|bias)(\d*)")
SAMPLES, SAMPLE_SECONDS, QUIET = 7, 0.05, 0.9


def run_bench(options, *arguments):
    return subprocess.check_output([options.bench, *arguments], text=True).splitlines()


def ceiling(options):
    line, = run_bench(options, "--row", f"ceiling-fma-{options.isa}", "--isa", options.isa,
                      "--threads", str(options.threads), "--seconds", "0.05", "--format", "json")
    return json.loads(line)["rate"]


def make_call(name):
    """The row's call, and its work in Gflop, counted as rapt-bench does."""
    *sizes, form, window = NAME.fullmatch(name).groups()
    B, Hq, Hkv, Tq, Tk, D, Dv = (int(x or 0) for x in sizes)
    Hkv, Tk, Dv = Hkv or Hq, Tk or Tq, Dv or D
    q, k, v = (torch.randn(B, *s) for s in ((Hq, Tq, D), (Hkv, Tk, D), (Hkv, Tk, Dv)))
    arguments = {"enable_gqa": True} if Hq != Hkv else {}
    visible = torch.ones(B, 1, Tq, Tk, dtype=torch.bool)
    if form in ("causal", "window"):  # bottom right; is_causal of PyTorch is top left
        visible = visible.tril(Tk - Tq).triu(Tk - Tq + 1 - int(window or Tk + Tq))
    if form == "lengths":
        visible &= torch.arange(Tk) < Tk - Tk * torch.arange(B)[:, None, None, None] // (2 * B)
    if form == "causal" and Tq == Tk:
        arguments["is_causal"] = True
    elif form in ("causal", "window", "lengths"):
        arguments["attn_mask"] = visible
    elif form == "mask":
        arguments["attn_mask"] = torch.rand(B, 1, Tq, Tk) < 0.75
    elif form == "bias":
        arguments["attn_mask"] = torch.randn(1, Hq, Tq, Tk)
    gflop = 2e-9 * int(visible.sum()) * Hq * (D + Dv)
    return lambda: scaled_dot_product_attention(q, k, v, **arguments), gflop


def time_call(call):
    start, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - start < SAMPLE_SECONDS:
        call()
        calls += 1
    return (time.perf_counter() - start) / calls


def measure(options, name):
    call, gflop = make_call(name)
    time_call(call)  # warm-up
    bursts, seconds = [ceiling(options)], []
    for _ in range(SAMPLES):
        seconds.append(time_call(call))
        bursts.append(ceiling(options))
    beside = list(zip(seconds, bursts, bursts[1:]))
    kept = [x for x in beside if min(x[1:]) >= QUIET * max(bursts)]
    if not kept:
        raise SystemExit(f"{name}: the machine is too busy")
    middle = statistics.median(x[0] for x in kept)
    share = statistics.median(gflop / s / ((a + b) / 2) for s, a, b in kept)
    return {"row": name, "isa": "pytorch", "threads": options.threads, "ms": 1e3 * middle,
            "rate": gflop / middle, "unit": "Gflop/s", "share": share, "bar": None, "reached": None,
            "kept": len(kept), "set_aside": SAMPLES - len(kept)}


def main():
    parser = argparse.ArgumentParser(description="time PyTorch on rapt-bench's rows")
    parser.add_argument("--bench", default="rapt-bench", help="the rapt-bench program")
    parser.add_argument("--row", action="append", help="name or pattern; repeatable; default all")
    parser.add_argument("--isa", default="avx512", help="whose peak is the ceiling (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in filter(NAME.fullmatch, run_bench(options, "--list")):
        if any(fnmatch.fnmatch(name, pattern) for pattern in options.row or ["*"]):
            print(json.dumps(measure(options, name)), flush=True)


if __name__ == "__main__":
    main()
