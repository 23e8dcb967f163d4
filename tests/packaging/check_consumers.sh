#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a build, moves the prefix, and builds and runs small C and C++ programs against it in
# every supported way. Usage: check_consumers.sh <rapt's build> <rapt's source> <work folder>
# CC and CXX name the compilers.
set -euo pipefail
build=$1 source=$2 work=$3
consumer=$source/tests/packaging/consumer
export CC=${CC:-cc} CXX=${CXX:-c++}
export CMAKE_GENERATOR=Ninja # make need not be there

die() { echo "FAILED: $*" >&2 && exit 1; }

# No flag of ours but include folders may reach a consumer's compile line.
check_compile_lines() {
    local own
    own=$(grep '"command"' "$1/compile_commands.json" | grep -E '(use|parameters)\.(c|cpp)"?,?$') || die "no compile lines"
    ! grep -E -- ' -m| -march| -fopenmp| -ffast-math| -O3' <<<"$own" || die "flags leaked in $1"
}

cmake_consumer() { # <name> <USE> [<option>...]
    local name=$1 use=$2
    shift 2
    echo "== $name"
    cmake -S "$consumer" -B "$work/$name" -DUSE="$use" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_BUILD_TYPE=None "$@" >"$work/$name.log" 2>&1 || { cat "$work/$name.log"; die "$name"; }
    cmake --build "$work/$name" --parallel 2 >>"$work/$name.log" 2>&1 ||
        { cat "$work/$name.log"; die "$name"; }
    check_compile_lines "$work/$name"
    "$work/$name/use_c"
    "$work/$name/use_cpp"
}

plain_consumer() { # <name> <prefix> <program> <package> [--static]: compilers and pkg-config alone
    local name=$1 where=$2 program=$3 package=$4 flags
    echo "== $name"
    flags=$(PKG_CONFIG_PATH=$(dirname "$(find "$where" -name rapt.pc)") \
        pkg-config --cflags --libs "${@:5}" "$package")
    # shellcheck disable=SC2086
    "$CC" -std=c11 "$consumer/$program.c" $flags -o "$work/$name.c.out"
    # shellcheck disable=SC2086
    "$CXX" -std=c++11 "$consumer/$program.cpp" $flags -o "$work/$name.cpp.out"
    LD_LIBRARY_PATH=$libdir "$work/$name.c.out"
    LD_LIBRARY_PATH=$libdir "$work/$name.cpp.out"
}

expect_library() { # <program> <yes|no> [<library>]: does it load librapt.so?
    local loads=no library=${3:-librapt}
    readelf -d "$1" | grep -q "NEEDED.*$library\.so" && loads=yes
    [[ $loads == "$2" ]] || die "$1 loads $library.so: $loads, expected $2"
}

rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
prefix=$work/moved
mv "$work/first" "$prefix"
libdir=$(dirname "$(find "$prefix" -name librapt.a)")
! grep -rF "$work/first" "$prefix" || die "the old prefix is in an installed file"
! grep -rIF -e "$source" -e "$build" "$prefix" || die "a build path is in an installed file"

cmake_consumer find_static static
expect_library "$work/find_static/use_c" no
cmake_consumer find_shared shared
expect_library "$work/find_shared/use_c" yes
cmake_consumer find_default_shared default -DBUILD_SHARED_LIBS=ON
expect_library "$work/find_default_shared/use_c" yes
PKG_CONFIG_PATH=$libdir/pkgconfig cmake_consumer find_pkgconfig pkgconfig
expect_library "$work/find_pkgconfig/use_c" yes
cmake_consumer subdirectory "$source"
expect_library "$work/subdirectory/use_c" no

plain_consumer pkg_shared "$prefix" use rapt
expect_library "$work/pkg_shared.c.out" yes
cp -r "$prefix" "$work/static_only"
find "$work/static_only" -name 'librapt*.so*' -delete
plain_consumer pkg_static "$work/static_only" use rapt --static
expect_library "$work/pkg_static.c.out" no

# The component safetensors, if this build has it.
if [[ -e $libdir/librapt_safetensors.a ]]; then
    cmake_consumer safetensors_static static -DSAFETENSORS=ON
    expect_library "$work/safetensors_static/use_c" no librapt_safetensors
    cmake_consumer safetensors_shared shared -DSAFETENSORS=ON
    expect_library "$work/safetensors_shared/use_c" yes librapt_safetensors
    cmake_consumer safetensors_default default -DSAFETENSORS=ON
    PKG_CONFIG_PATH=$libdir/pkgconfig cmake_consumer safetensors_pkgconfig pkgconfig -DSAFETENSORS=ON
    cmake_consumer safetensors_subdirectory "$source" -DSAFETENSORS=ON
    plain_consumer safetensors_pkg_shared "$prefix" parameters rapt-safetensors
    expect_library "$work/safetensors_pkg_shared.c.out" yes librapt_safetensors
    plain_consumer safetensors_pkg_static "$work/static_only" parameters rapt-safetensors --static
    expect_library "$work/safetensors_pkg_static.c.out" no librapt_safetensors
fi

echo "all consumers work"
