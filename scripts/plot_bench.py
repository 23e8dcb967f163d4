#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws each row's share of its ceiling, with its bar, from `rapt-bench --format json`.

    rapt-bench --isa avx512 --isa avx2 --format json > bench.json
    scripts/plot_bench.py bench.json --out bench            # bench.png and bench.svg
    scripts/plot_bench.py bench.json --markdown             # the table of bench/README.md
"""
import argparse
import json


def draw(lines, out):
    """Horizontal bars of the share, a black mark where the bar stands."""
    import matplotlib  # only here: --markdown works without it

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = [x for x in lines if x["share"] is not None]
    rows = list(dict.fromkeys(x["row"] for x in lines))
    colours, height, y = {}, 0.36, 0.0
    centres = []
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.15 * (len(lines) + len(rows))),
                                layout="constrained")
    for row in rows:
        mine = [x for x in lines if x["row"] == row]
        centres.append(y + (len(mine) - 1) / 2 * height)
        for x in mine:
            series = f"{x['isa']}, {x['threads']} thread{'s' if x['threads'] > 1 else ''}"
            label = None if series in colours else series
            colour = colours.setdefault(series, f"C{len(colours)}")
            axes.barh(y, 100 * x["share"], height * 0.9, color=colour, label=label)
            if x["bar"] is not None:
                axes.plot([100 * x["bar"]] * 2, (y - height / 2, y + height / 2), color="black",
                          lw=2)
            y += height
        y += height
    axes.plot((), (), color="black", lw=2, label="bar")
    axes.set_yticks(centres, rows, fontsize=8)
    axes.set_ylim(y - height / 2, -height)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the FMA ceiling measured in the same run, %")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=4, fontsize=9, frameon=False)
    figure.savefig(f"{out}.png", dpi=150)
    figure.savefig(f"{out}.svg")


def percent(x):
    return "" if x is None else f"{100 * x:.1f} %"


def markdown(lines):
    """All rows, those that missed their bar first."""
    print("| row | isa | threads | ms | rate | share | bar | reached |")
    print("|---|---|---|---|---|---|---|---|")
    for x in sorted(lines, key=lambda x: x["reached"] != 0):
        ms = "" if x["ms"] is None else f"{x['ms']:.4g}"
        rate = "" if x["rate"] is None else f"{x['rate']:.4g} {x['unit']}"
        reached = {None: "", 0: "**no**", 1: "yes"}[x["reached"]]
        print(f"| {x['row']} | {x['isa']} | {x['threads']} | {ms} | {rate} | {percent(x['share'])} "
              f"| {percent(x['bar'])} | {reached} |")


def main():
    parser = argparse.ArgumentParser(description="plot shares of the ceiling against the bars")
    parser.add_argument("file", type=argparse.FileType(), help="JSON lines; - is standard input")
    parser.add_argument("--out", default="bench", help="prefix of the .png and .svg (%(default)s)")
    parser.add_argument("--markdown", action="store_true", help="print a table instead")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.file]
    if options.markdown:
        markdown(lines)
    else:
        draw(lines, options.out)


if __name__ == "__main__":
    main()
