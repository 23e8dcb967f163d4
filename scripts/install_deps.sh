#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the Debian packages that are missing. Usage:
# install_deps.sh [build] [test] [model] [check]
#   build   compiler, CMake, SLEEF, and what draws the pictures      (always)
#   test    Criterion and what the packaging test uses
#   model   pip, for scripts/fetch_minilm.sh
#   check   Clang, clang-format and the AArch64 cross tools          (for .ci/run)
set -euo pipefail

packages=(gcc libc6-dev cmake ninja-build pkg-config libsleef-dev libpopt-dev libjansson-dev
    libutf8proc-dev python3 python3-matplotlib)
for group in "$@"; do
    case $group in
        build) ;;
        test) packages+=(libcriterion-dev g++ binutils) ;;
        check) packages+=(clang clang-format libomp-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross
            qemu-user) ;;
        model) packages+=(python3-pip) ;;
        *) echo "usage: ${0##*/} [build] [test] [model] [check]" >&2 && exit 2 ;;
    esac
done

missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [[ $state == "install ok installed" ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

echo "installing: ${missing[*]}"
as_root=()
[[ $(id -u) -eq 0 ]] || as_root=(sudo)
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -y --no-install-recommends install "${missing[@]}"
