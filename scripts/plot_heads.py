#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the attention weights of all heads of one layer, from `minilm --json`.

    minilm --json heads.json --line 1 --layer 0
    scripts/plot_heads.py heads.json --out heads      # heads.png and heads.svg
"""
import argparse
import json
import math

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLUMNS = 4


def draw(axes, head, weights, tokens):
    """One head: a square cell for each query (row) and key (column)."""
    image = axes.imshow(weights, vmin=0, vmax=1, cmap="viridis", aspect="equal")
    axes.set_title(f"head {head}", fontsize=13)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=11)
    axes.set_yticks(range(len(tokens)), tokens, fontsize=11)
    axes.tick_params(length=0)
    axes.label_outer()
    return image


def main():
    parser = argparse.ArgumentParser(description="plot the heads of one layer")
    parser.add_argument("file", type=argparse.FileType(encoding="utf-8"),
                        help="what minilm --json wrote; - is standard input")
    parser.add_argument("--out", default="heads", help="prefix of .png and .svg (%(default)s)")
    options = parser.parse_args()

    data = json.load(options.file)
    tokens, heads = data["tokens"], data["weights"]
    rows = math.ceil(len(heads) / COLUMNS)
    cell = max(0.22 * len(tokens), 2)
    figure, grid = plt.subplots(rows, COLUMNS, figsize=(COLUMNS * cell + 2, rows * cell + 2),
                                squeeze=False, sharex=True, sharey=True, layout="constrained")
    panels = list(grid.flat)
    for head, axes in enumerate(panels):
        if head < len(heads):
            image = draw(axes, head, heads[head], tokens)
        else:
            axes.set_axis_off()
    figure.colorbar(image, ax=grid, shrink=0.6, pad=0.02, label="weight")
    figure.supxlabel("key: the token that is looked at", fontsize=13)
    figure.supylabel("query: the token that looks", fontsize=13)
    figure.suptitle(f"all-MiniLM-L6-v2, layer {data['layer']} (from 0): attention weights",
                    fontsize=14)
    figure.savefig(f"{options.out}.png", dpi=150)
    figure.savefig(f"{options.out}.svg")


if __name__ == "__main__":
    main()
