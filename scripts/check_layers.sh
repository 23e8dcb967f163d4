#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks the rules that keep the layers apart (src/README.md) and prints each line that breaks one.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0

# forbid <rule> <lines of "file:number:text">
forbid() {
    [[ -z $2 ]] && return
    printf '%s\n%s\n\n' "$1" "$2"
    failed=1
}

# grep_in <pattern> <file>...: matching lines, nothing (and no failure) if there is none.
grep_in() { grep -nHE -- "$@" || true; }

shopt -s nullglob globstar
sources=({include,src,simd,tests,bench,examples}/**/*.[ch])
library=({include,src,simd}/**/*.[ch])

include_of() { echo "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"](.*/)?($1)[>\"]"; }

forbid "Only src/parallel.c includes omp.h:" \
    "$(grep_in "$(include_of 'omp\.h')" "${library[@]}" | grep -v '^src/parallel\.c:' || true)"

forbid "Only simd/vec_*.h include immintrin.h, arm_neon.h or sleef.h:" \
    "$(grep_in "$(include_of 'immintrin\.h|[a-z]*mmintrin\.h|arm_neon\.h|arm_sve\.h|sleef\.h')" \
        "${library[@]}" | grep -v '^simd/vec_[a-z0-9]*\.h:' || true)"

src_headers=$(cd src && printf '%s\n' *.h | sed 's/\./\\./g' | paste -sd'|')
forbid "simd/ never includes headers of src/:" \
    "$(grep_in "$(include_of "${src_headers:-none}")|#[[:space:]]*include.*src/" simd/*.[ch])"

forbid "src/safetensors uses the public headers of rapt only, and alone uses Jansson:" \
    "$(grep_in '#[[:space:]]*include[[:space:]]*"\.\.' src/safetensors/*.[ch])$(
        grep_in "$(include_of "${src_headers:-none}")" src/safetensors/*.[ch])$(
        grep_in "$(include_of 'jansson\.h')" "${library[@]}" | grep -v '^src/safetensors/' || true)"

forbid "No #if on an instruction set outside simd/vec_*.h, src/cpu.c and src/dispatch.c:" \
    "$(grep_in '^[[:space:]]*#[[:space:]]*(if|ifdef|ifndef|elif).*(__AVX|__SSE|__FMA|__F16C|__ARM|__aarch64__|__x86_64__|RAPT_HAVE_)' \
        "${library[@]}" | grep -vE '^(simd/vec_[a-z0-9]*\.h|src/(cpu|dispatch)\.c):' || true)"

long=$(wc -l "${sources[@]}" | awk '$2 != "total" && $1 > 600 {print $2 ":" $1 ": lines"}')
forbid "No file is longer than 600 lines:" "$long"

wide=$(awk 'length > 100 {print FILENAME ":" FNR ": " length " columns"}' "${sources[@]}")
forbid "No line is wider than 100 columns:" "$wide"

untagged=$(for file in "${sources[@]}"; do
    head -n 1 "$file" | grep -q 'SPDX-License-Identifier: MIT' || echo "$file:1: no SPDX tag"
done)
forbid "Every source begins with an SPDX tag:" "$untagged"

[[ $failed -eq 0 ]] && echo "layers: ${#sources[@]} files keep the rules"
exit "$failed"
