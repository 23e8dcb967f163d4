#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Looks into the built libraries of the component safetensors: exported names, soname, what they
# need; and that the core does not need what only the component may.
# Usage: check_component.sh <static> <shared> <shared core>
set -euo pipefail
static=$1 shared=$2 core=$3
failed=0

# expect_none <what> <lines>
expect_none() {
    if [[ -n $2 ]]; then
        printf 'FAILED: %s\n%s\n' "$1" "$2"
        failed=1
    else
        echo "ok: no $1"
    fi
}

exported=$(nm -D --defined-only "$shared" | awk '{print $NF}')
[[ $(wc -l <<<"$exported") -ge 8 ]] || { echo "FAILED: too few exported symbols" && failed=1; }
expect_none "exported symbol without the prefix rapt_safetensors_" \
    "$(grep -v '^rapt_safetensors_' <<<"$exported" || true)"
expect_none "global symbol of the archive without the prefix rapt_safetensors" \
    "$(nm -g --defined-only "$static" 2>/dev/null | awk 'NF == 3 && $3 !~ /^rapti?_safetensors_/' || true)"
expect_none "private symbol of the core in use" \
    "$(nm -g --undefined-only "$static" 2>/dev/null | grep -E ' rapti_' | grep -v rapti_safetensors_ || true)"
readelf -d "$shared" | grep -qE 'SONAME.*\[librapt_safetensors\.so\.[0-9.]+\]' ||
    { echo "FAILED: soname" && failed=1; }
expect_none "need of the core for JSON" "$(readelf -d "$core" | grep -E 'NEEDED.*jansson' || true)"
expect_none "executable stack" "$(readelf -lW "$shared" | grep 'GNU_STACK.*E ' || true)"
exit "$failed"
