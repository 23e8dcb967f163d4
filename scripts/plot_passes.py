#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the attention weights of each pass of the chapter, from `passes --json FILE`.

    passes --json passes.json
    scripts/plot_passes.py passes.json --out passes      # passes.png and passes.svg
"""
import argparse
import json

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "passes"  # the same picture is the same file
import matplotlib.pyplot as plt
from matplotlib.colors import PowerNorm

COLUMNS = 3


def draw(axes, weights, tokens, norm):
    """One pass: square cells, the query down the side, the key along the top, values in the cells."""
    image = axes.pcolormesh(weights, norm=norm, cmap="Blues", edgecolors="white", linewidth=1)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    centres = [n + 0.5 for n in range(len(tokens))]
    axes.set_xticks(centres, tokens, rotation=45, ha="left", rotation_mode="anchor")
    axes.set_yticks(centres, tokens)
    axes.tick_params(length=0, labelsize=9, labeltop=True, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for query, row in enumerate(weights):
        for key, weight in enumerate(row):
            if weight > 0:
                axes.text(key + 0.5, query + 0.5, f"{weight:.2f}", ha="center", va="center",
                          fontsize=8, color="white" if norm(weight) > 0.6 else "black")
    return image


def main():
    parser = argparse.ArgumentParser(description="heat maps of attention weights")
    parser.add_argument("file", type=argparse.FileType(), help="what passes --json wrote")
    parser.add_argument("--out", default="passes", help="prefix of .png and .svg (%(default)s)")
    options = parser.parse_args()

    document = json.load(options.file)
    tokens, passes = document["tokens"], document["passes"]
    rows = -(-len(passes) // COLUMNS)
    figure, grid = plt.subplots(rows, COLUMNS, figsize=(3.5 * COLUMNS + 0.8, 3.65 * rows + 0.6),
                                layout="constrained", squeeze=False)
    # The square root of a weight decides its colour, so that weights near 1/6 can be told apart.
    norm = PowerNorm(0.5, vmin=0, vmax=1)
    for axes, one in zip(grid.flat, passes):
        image = draw(axes, one["weights"], tokens, norm)
        axes.set_title(f"{one['section']}  {one['title']}", fontsize=11, pad=8)
    for axes in list(grid.flat)[len(passes):]:
        axes.set_visible(False)
    bar = figure.colorbar(image, ax=grid, extend="max", shrink=0.6, aspect=30, pad=0.02)
    bar.set_label("attention weight")
    figure.supylabel("query", fontsize=11)
    figure.get_layout_engine().set(h_pad=0.12)
    figure.suptitle("The four passes: which key (column) each query (row) attends to", fontsize=13)
    figure.savefig(f"{options.out}.png", dpi=110)
    figure.savefig(f"{options.out}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
