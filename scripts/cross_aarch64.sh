#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the whole library, with OpenMP, for AArch64 Linux and runs the examples and the suites under
# qemu-aarch64 as plain programs (tests/standalone). Nothing is installed: SLEEF's arm64 packages are
# unpacked into build/aarch64-sysroot. Arguments go to ctest; without any, the suites whose tests
# say most about the kernels run, with fewer random cases.
set -euo pipefail
cd "$(dirname "$0")/.."

sysroot=$PWD/build/aarch64-sysroot

# apt with lists of its own that know arm64 as well; the system's apt is not touched.
fetch_sleef() {
    local work
    work=$(mktemp -d)
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$sysroot"
    local apt=(apt-get -qq -o APT::Architectures::=arm64
        -o "APT::Architectures::=$(dpkg --print-architecture)"
        -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=)
    "${apt[@]}" update
    (cd "$work" && "${apt[@]}" download libsleef3:arm64 libsleef-dev:arm64)
    for package in "$work"/*.deb; do dpkg -x "$package" "$sysroot"; done
    rm -rf "$work"
}

[[ -e $sysroot/usr/lib/aarch64-linux-gnu/libsleef.so ]] || fetch_sleef

cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64-linux-gnu.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DRAPT_WERROR=ON -DRAPT_BUILD_BENCH=OFF -DRAPT_TEST_ISAS=neon \
    >build/aarch64.log || { cat build/aarch64.log && exit 1; }
cmake --build build/aarch64

[[ $# -gt 0 ]] || set -- --parallel 2 \
    -R '^(example|kernels|contract|shapes|poison|weights|dropout|modules|matmul|backward_random)'
RAPT_TEST_CASES=${RAPT_TEST_CASES:-500} \
    ctest --test-dir build/aarch64 --output-on-failure --no-tests=error "$@"
