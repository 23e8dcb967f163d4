#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Breaks single lines of the library, one at a time, and shows that the tests notice.

scripts/mutations.txt lists the changes. Each is made in a copy of the sources, the suites that it
names are built and run, and the change must make one of them fail (or not compile). Exit status 1
if a change goes unnoticed or does not match exactly one place any more.

    scripts/mutation_check.py                 # all
    scripts/mutation_check.py softmax product # those whose file or lines contain one of the words
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutation"
TREE = WORK / "tree"
BUILD = WORK / "build"
ISAS = "neon;odd" if platform.machine() == "aarch64" else "avx2;odd"
ENVIRONMENT = {**os.environ, "RAPT_TEST_CASES": "4000"}


def read_mutations(path):
    """Blocks of four lines: 'file: suite suite', '- old', '+ new', empty. '#' begins a comment."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    mutations = []
    for block in "\n".join(lines).strip().split("\n\n"):
        head, old, new = block.strip().split("\n")
        if not (old.startswith("- ") and new.rstrip().startswith("+")):
            raise SystemExit(f"{path}: not a change:\n{block}")
        file, suites = head.split(":")
        mutations.append((file, suites.split(), old[2:], new[2:]))
    return mutations


def run(*command):
    """Runs it quietly; the finished process."""
    return subprocess.run(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)


def notice(suites):
    """How the build or the suites fail, or None if all is well."""
    targets = [f"test_{suite}" for suite in suites]
    if run("cmake", "--build", BUILD, "--target", *targets).returncode:
        return "does not compile"
    for suite in suites:
        result = run("ctest", "--test-dir", BUILD, "--no-tests=error", "--timeout", "120",
                     "--stop-on-failure", "-R", rf"^{suite}(\.({ISAS.replace(';', '|')}))?$")
        if result.returncode:
            return f"noticed by {suite}"
    return None


def prepare(suites):
    """A fresh copy of the sources, configured, built, and seen to pass."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    for name in ("CMakeLists.txt", "cmake", "include", "src", "simd", "tests"):
        source = ROOT / name
        if source.is_dir():  # new times of change: objects of an earlier run are out of date
            shutil.copytree(source, TREE / name, copy_function=shutil.copy)
        else:
            shutil.copy(source, TREE / name)
    configured = run("cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                     "-DCMAKE_C_FLAGS_DEBUG=-O1", "-DRAPT_BUILD_BENCH=OFF",
                     "-DRAPT_BUILD_EXAMPLES=OFF", "-DRAPT_FLAG_mavx512f=OFF",
                     f"-DRAPT_TEST_ISAS={ISAS}")
    if configured.returncode:
        raise SystemExit(configured.stdout)
    problem = notice(suites)
    if problem:
        raise SystemExit(f"the unchanged sources do not pass: {problem}")


def main():
    words = sys.argv[1:]
    mutations = [m for m in read_mutations(ROOT / "scripts" / "mutations.txt")
                 if not words or any(word in m[0] + m[2] + m[3] for word in words)]
    if not mutations:
        raise SystemExit(f"no change has one of these words: {' '.join(words)}")
    prepare(sorted({suite for m in mutations for suite in m[1]}))
    bad = 0
    for number, (file, suites, old, new) in enumerate(mutations, 1):
        path = TREE / file
        text = path.read_text()
        begin = time.monotonic()
        if text.count(old) != 1:
            verdict = f"STALE: matches {text.count(old)} places"
            bad += 1
        else:
            path.write_text(text.replace(old, new))
            verdict = notice(suites)
            path.write_text(text)
            bad += verdict is None
        print(f"{number:2} {file}: {old.strip()}\n   -> {new.strip()}\n"
              f"   {verdict or 'SURVIVED'} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(mutations) - bad} of {len(mutations)} changes were noticed")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
