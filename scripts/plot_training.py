#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws a training run, from `train_text --json`: the loss curve beside the bigram table's line, and
the attention weights of one held-out line.

    train_text --json training.json
    scripts/plot_training.py training.json --out train    # train_loss and train_heads, .png and .svg
"""
import argparse
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CELL = 0.16  # inches for each character


def save(figure, name):
    figure.savefig(f"{name}.png", dpi=120)
    figure.savefig(f"{name}.svg", metadata={"Date": None})


def draw_loss(data):
    curve = data["curve"]
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    axes.plot(curve["step"][1:], curve["training"][1:], color="C0", linestyle=":", marker=".",
              label="model, training batches (mean since the last point)")
    axes.plot(curve["step"], curve["held_out"], color="C0", marker="o", markersize=4,
              label="model, held-out text")
    axes.axhline(data["singles"], color="C2", linestyle="--",
                 label="table of single characters, held-out text")
    axes.axhline(data["bigram"], color="C1", linestyle="--",
                 label="bigram table, held-out text")
    last, bigram = curve["held_out"][-1], data["bigram"]
    axes.annotate(f"{last:.3f}", (curve["step"][-1], last), textcoords="offset points",
                  xytext=(0, -14), ha="center")
    axes.annotate(f"{bigram:.3f}", (curve["step"][-1], bigram), textcoords="offset points",
                  xytext=(0, 5), ha="center", color="C1")
    axes.set_xlabel("step")
    axes.set_ylabel("cross-entropy, nats per character")
    axes.set_ylim(min(last, *curve["training"][1:]) - 0.25, None)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    axes.set_title(f"Two layers of attention on a text: {curve['seconds'][-1]:.0f} s, "
                   f"{data['characters_per_second']:,.0f} characters/s")
    return figure


def label(character):
    return "\N{OPEN BOX}" if character == " " else character


def draw_heads(data):
    """Rows: layers; columns: heads; a square cell for each query (row) and key (column)."""
    labels = [label(c) for c in data["characters"]]
    layers, heads = len(data["weights"]), len(data["weights"][0])
    size = CELL * len(labels)
    figure, grid = plt.subplots(layers, heads, squeeze=False, sharex=True, sharey=True,
                                figsize=(heads * size + 1.6, layers * size + 1.6),
                                layout="constrained")
    for layer in range(layers):
        for head in range(heads):
            axes = grid[layer][head]
            image = axes.imshow(data["weights"][layer][head], vmin=0, vmax=1, cmap="viridis",
                                aspect="equal")
            axes.set_title(f"layer {layer}, head {head}", fontsize=12)
            axes.set_xticks(range(len(labels)), labels, fontsize=10, family="monospace")
            axes.set_yticks(range(len(labels)), labels, fontsize=10, family="monospace")
            axes.tick_params(length=0, pad=2)
    figure.colorbar(image, ax=grid, shrink=0.6, pad=0.01, label="weight")
    figure.supxlabel("key: the character that is looked at", fontsize=12)
    figure.supylabel("query: the character that looks, and predicts the next", fontsize=12)
    figure.suptitle(f"attention weights for a held-out line: \"{''.join(data['characters'])}\"",
                    fontsize=13)
    return figure


def main():
    parser = argparse.ArgumentParser(description="plot a training run")
    parser.add_argument("file", type=argparse.FileType(encoding="utf-8"),
                        help="what train_text --json wrote; - is standard input")
    parser.add_argument("--out", default="train",
                        help="prefix of _loss and _heads, .png and .svg (%(default)s)")
    options = parser.parse_args()
    data = json.load(options.file)
    save(draw_loss(data), f"{options.out}_loss")
    save(draw_heads(data), f"{options.out}_heads")


if __name__ == "__main__":
    main()
