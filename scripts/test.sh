#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All set-up for all tests, then all tests. Arguments go to ctest: scripts/test.sh -R memory
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh build test
mkdir -p build
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DRAPT_BUILD_TESTS=ON >build/cmake.log
cmake --build build/release
ctest --test-dir build/release --output-on-failure --no-tests=error "$@"
