#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# From a fresh Debian 12 to results: installs what is missing, builds, sends a six-token sentence
# through the four passes of the chapter (the numbers beside the book's, the weights as pictures) and
# sentences through a pretrained model (84 MB, fetched once), trains a character model for half a
# minute, then verifies and times attention of
# GPT-2 small's size, with thread scaling measured here and predicted beyond. Tables and pictures go
# to build/figures.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh build model
mkdir -p build
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DRAPT_BUILD_TESTS=OFF >build/cmake.log
cmake --build build/release

bench=build/release/bench/rapt-bench
gpt2=fwd-f32-1x12x1024x64
figures=build/figures
mkdir -p "$figures"

echo
build/release/examples/passes --json "$figures/passes.json"
/usr/bin/python3 scripts/plot_passes.py "$figures/passes.json" --out "$figures/passes"
echo "picture: $figures/passes.png and .svg"

echo
echo "A pretrained sentence encoder, all-MiniLM-L6-v2"
if scripts/fetch_minilm.sh; then
    build/release/examples/minilm/minilm --json "$figures/minilm_heads.json"
    /usr/bin/python3 scripts/plot_heads.py "$figures/minilm_heads.json" --out "$figures/minilm_heads"
    echo "picture: $figures/minilm_heads.png and .svg"
else
    echo "the model could not be fetched: going on without it"
fi

echo
echo "A character model learns to predict a book better than a table of character pairs does"
build/release/examples/train_text/train_text --sample 300 \
    --json "$figures/training.json" --save "$figures/training.safetensors"
/usr/bin/python3 scripts/plot_training.py "$figures/training.json" --out "$figures/train"
echo "pictures: $figures/train_loss.png and train_heads.png, and .svg"

echo
echo "Attention of GPT-2 small's size, verified, then timed; a textbook loop beside it"
"$bench" --row "$gpt2-full" --row "$gpt2-causal" --row textbook-f32-1x12x1024x64-causal

echo
echo "Thread scaling: measured up to this machine's cores, predicted from the task list to 256"
"$bench" --scaling --row "$gpt2-full" --row "$gpt2-causal" --row "${gpt2/fwd/bwd}-causal" --format json >"$figures/scaling.json"
/usr/bin/python3 scripts/plot_scaling.py "$figures/scaling.json" --out "$figures/scaling"
/usr/bin/python3 - "$figures/scaling.json" <<'PYTHON'
import json, sys

print(f"{'row':32} {'threads':>7} {'ms':>9} {'speed-up':>9} {'predicted':>9}")
for line in map(json.loads, open(sys.argv[1])):
    ms, speedup = (f"{line[key]:9.3g}" if line[key] is not None else f"{'-':>9}" for key in ("ms", "speedup"))
    print(f"{line['row']:32} {line['threads']:7} {ms} {speedup} {line['predicted_speedup']:9.4g}")
PYTHON
echo "picture: $figures/scaling.png and .svg"
