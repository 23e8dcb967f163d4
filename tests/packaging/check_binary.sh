#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Looks into the built libraries and headers: exported names, soname, size, and that no instruction
# of a newer set lies outside that set's object. Usage: check_binary.sh <static> <shared> <include>
set -euo pipefail
static=$(realpath "$1") shared=$(realpath "$2") include=$(realpath "$3")
CC=${CC:-cc} CXX=${CXX:-c++}
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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && ar x "$static")

exported=$(nm -D --defined-only "$shared" | awk '{print $NF}')
[[ $(wc -l <<<"$exported") -ge 10 ]] || { echo "FAILED: too few exported symbols" && failed=1; }
expect_none "exported symbol without the prefix rapt_" "$(grep -v '^rapt_' <<<"$exported" || true)"
expect_none "global symbol of the archive without the prefix rapt" \
    "$(nm -g --defined-only "$static" 2>/dev/null | awk 'NF == 3 && $3 !~ /^rapti?_/' || true)"

readelf -d "$shared" | grep -qE 'SONAME.*\[librapt\.so\.[0-9.]+\]' || { echo "FAILED: soname" && failed=1; }
readelf -dW "$shared" | grep -E 'R(UN)?PATH' | grep -q . && echo "note: the library has a run path"

strip -o "$work/stripped.so" "$shared"
bytes=$(stat -c %s "$work/stripped.so")
echo "stripped shared library: $bytes bytes"
[[ $bytes -le 1048576 ]] || { echo "FAILED: larger than 1 MiB" && failed=1; }

for object in "$work"/isa_*.o; do
    name=$(basename "$object")
    expect_none "weak symbol defined in $name" \
        "$(nm --defined-only "$object" | awk '$2 ~ /^[WwVvu]$/' || true)"
    globals=$(nm -g --defined-only "$object" | awk '{print $NF}')
    [[ $(wc -w <<<"$globals") -eq 1 ]] || { echo "FAILED: $name exports: $globals" && failed=1; }
done
for object in "$work"/*.o; do
    case $(basename "$object") in
        isa_avx*) continue ;;
    esac
    expect_none "ymm or zmm register in $(basename "$object")" \
        "$(objdump -d "$object" | grep -E '%[yz]mm[0-9]' | head -n 3 || true)"
done
expect_none "executable stack" "$(readelf -lW "$shared" | grep 'GNU_STACK.*E ' || true)"

warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only)
for header in "$include"/rapt/*.h; do
    printf "#include <rapt/%s>\ntypedef int alone;\n" "$(basename "$header")" >"$work/alone.c"
    for standard in c99 c11; do
        "$CC" -std=$standard "${warnings[@]}" -I"$include" "$work/alone.c" || failed=1
    done
    for standard in c++11 c++17; do
        "$CXX" -x c++ -std=$standard "${warnings[@]}" -I"$include" "$work/alone.c" || failed=1
    done
done
[[ $failed -eq 0 ]] && echo "binary: all as it should be"
exit "$failed"
