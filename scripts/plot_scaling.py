#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws thread scaling, measured and predicted, from `rapt-bench --scaling --format json`.

    rapt-bench --scaling --format json > scaling.json
    scripts/plot_scaling.py scaling.json --out scaling      # scaling.png and scaling.svg
"""
import argparse
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def read_curves(file, isa):
    """The lines of one instruction set (default: the first one seen), grouped by row."""
    curves = {}
    for line in map(json.loads, file):
        isa = isa or line["isa"]
        if line["isa"] == isa:
            curves.setdefault(line["row"], []).append(line)
    if not curves:
        raise SystemExit(f"no result for {isa}")
    return isa, curves


def draw(axes, curves, measured, predicted, factor):
    """One panel: predicted as a line, measured as points of the same colour."""
    for number, (row, lines) in enumerate(curves.items()):
        colour = f"C{number}"
        label = row.removeprefix("fwd-f32-")
        for key, style in ((predicted, {"linestyle": "-", "linewidth": 1.5, "label": label}),
                           (measured, {"linestyle": "none", "marker": "o", "markersize": 6})):
            points = [(x["threads"], factor * x[key]) for x in lines if x[key] is not None]
            axes.plot(*zip(*points) if points else ((), ()), color=colour, **style)


def main():
    parser = argparse.ArgumentParser(description="plot thread scaling")
    parser.add_argument("file", type=argparse.FileType(), help="JSON lines; - is standard input")
    parser.add_argument("--out", default="scaling", help="prefix of .png and .svg (%(default)s)")
    parser.add_argument("--isa", help="instruction set, if the file holds several (the first)")
    options = parser.parse_args()

    isa, curves = read_curves(options.file, options.isa)
    most = max(x["threads"] for lines in curves.values() for x in lines)
    ticks = [2**n for n in range(most.bit_length()) if 2**n <= most]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")

    draw(left, curves, "speedup", "predicted_speedup", 1)
    left.plot((1, most), (1, most), color="grey", linestyle=":", label="ideal")
    left.plot((), (), color="black", linestyle="none", marker="o", label="measured")
    left.set_yscale("log", base=2)
    left.set_yticks(ticks, ticks)
    left.set_ylabel("speed-up against one thread")
    left.legend(fontsize=9, loc="upper left")

    draw(right, curves, "efficiency", "predicted_efficiency", 100)
    right.set_ylim(0, 110)
    right.set_ylabel("efficiency, %")

    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, ticks)
        axes.set_xlabel("threads")
        axes.grid(alpha=0.3)
    figure.suptitle(f"rapt forward, {isa}: measured (points) and predicted from task costs (lines)")
    figure.savefig(f"{options.out}.png", dpi=150)
    figure.savefig(f"{options.out}.svg")


if __name__ == "__main__":
    main()
