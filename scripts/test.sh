#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All set-up for all tests, then all tests. Arguments go to ctest: scripts/test.sh -R memory
# The pretrained model of examples/minilm is fetched (84 MB, once); without it, its tests skip.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh build test model
scripts/fetch_minilm.sh || echo "the model could not be fetched: tests that need it are skipped"
mkdir -p build
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DRAPT_BUILD_TESTS=ON >build/cmake.log
cmake --build build/release
ctest --test-dir build/release --output-on-failure --no-tests=error "$@"
