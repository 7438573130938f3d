#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who may know whom: module order, homes of third parties, printing.

usage: check_layers.py [--root=DIR]

The rules are the tables below; every finding is one line, "file:line: rule".
Exit code 1 when a rule is broken. Files over 500 lines are only reported.
"""

import argparse
import pathlib
import re
import sys

# A module may include headers of these, besides its own.
MAY_KNOW = {
    "core": set(),
    "sparse": {"core"},
    "data": {"sparse", "core"},
    "comm": {"sparse", "core"},
    "nn": {"sparse", "core"},
    "train": {"nn", "data", "comm", "sparse", "core"},
    "main": {"train", "nn", "data", "comm", "sparse", "core"},
}

# Include prefix of a third party, and the modules that are its home. Tests of
# a module belong to its home.
HOMES = {
    "mpi.h": {"comm"},
    "hdf5": {"data"},
    "H5": {"data"},
    "dnnl": {"sparse"},
    "oneapi/": {"sparse"},
    "boost/json": {"core"},
    "boost/iostreams": {"data"},
    "jpeglib.h": {"data"},
    "jerror.h": {"data"},
    "turbojpeg.h": {"data"},
    "png.h": {"data"},
    "tiffio.h": {"data"},
    "zip.h": {"data"},
    "zlib.h": {"data"},
    "xxhash.h": {"core"},
    "gtest/": {"tests"},
    "gmock/": {"tests"},
    "benchmark/": {"tests"},
}

# Only in files with a main().
MAIN_ONLY_INCLUDES = ("gflags/",)
MAIN_ONLY_CALLS = re.compile(
    r"\b(InitGoogleLogging|InstallFailureSignalHandler|ParseCommandLineFlags)\b")

OPENMP_HOME = "src/core/parallel.cc"  # threads come from core's Parallel
OPENMP = re.compile(r"^\s*#\s*pragma\s+omp\b(?!\s+simd)|\bomp_\w+\s*\(")

PRINTS = re.compile(
    r"\bstd::(cout|cerr|clog)\b|<iostream>|\bfmt::print\b"
    r"|(?<!\w)(printf|puts|putchar|vprintf)\s*\("
    r"|\bf(printf|puts|write)\s*\([^;]*\bstd(out|err)\b")

LONG = 500
SUFFIXES = {".h", ".cc", ".inl", ".c", ".cpp", ".hpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
HAS_MAIN = re.compile(r"^\s*int\s+main\s*\(", re.MULTILINE)


def module_of(path):
    """Module and whether the file is a test; (None, False) if not ours."""
    parts = path.parts
    if parts[0] == "tests" and len(parts) > 2:
        return parts[1], True
    if parts[0] == "include" and len(parts) > 3 and parts[1] == "lumen":
        return parts[2], False
    if parts[0] == "src":
        # src/cli is the inside of main.
        inside = len(parts) > 2 and parts[1] != "cli"
        return (parts[1] if inside else "main", False)
    if parts[0] in MAY_KNOW:
        return parts[0], False
    return None, False


def blank(match):
    text = match.group(0)
    if text.startswith('R"'):
        return "\n" * text.count("\n")
    if text[0] in "\"'":
        return text[0] * 2
    return "\n" * text.count("\n")


# Raw strings, comments, strings; characters last (1'000 is no character).
NOT_CODE = re.compile(
    r'R"([^(\s]*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def strip(text):
    """The code without comments and strings, includes kept, lines aligned."""
    includes = {i: line for i, line in enumerate(text.split("\n"))
                if INCLUDE.match(line)}
    code = NOT_CODE.sub(blank, text).split("\n")
    return [(includes.get(i, line), i in includes)
            for i, line in enumerate(code)]


def check_include(path, module, is_test, has_main, name, quoted):
    """Yields what is wrong with one include."""
    if name.startswith("lumen/"):
        other = name.split("/")[1]
        if other not in MAY_KNOW:
            yield f"{name}: no module {other}"
        elif not is_test and other != module and (
                other not in MAY_KNOW[module]):
            yield f"{module} may not know {other}: {name}"
        return
    if quoted and not is_test and name.startswith(tuple(
            f"{m}/" for m in MAY_KNOW if m != module)):
        yield f"private header of another module: {name}"
    for prefix, homes in HOMES.items():
        if not name.startswith(prefix):
            continue
        if module not in homes and not (is_test and "tests" in homes):
            yield f"{name} belongs to {'/, '.join(sorted(homes))}/ only"
        if path.parts[0] == "include":
            yield f"{name}: public headers stay free of third parties"
    if name.startswith(MAIN_ONLY_INCLUDES) and not has_main:
        yield f"{name} only in files with a main()"
    if name == "omp.h" and path.as_posix() != OPENMP_HOME:
        yield f"omp.h only in {OPENMP_HOME}"
    if name.startswith("fmt/") and path.suffix != ".cc":
        yield f"{name} only in .cc files"


def check_file(root, path):
    """Yields (line, message) for each broken rule of one file."""
    module, is_test = module_of(path)
    if module is None:
        yield 1, "belongs to no module"
        return
    if module not in MAY_KNOW and not is_test:
        yield 1, f"no module {module}; known: {', '.join(MAY_KNOW)}"
        return
    text = (root / path).read_text(encoding="utf-8")
    has_main = bool(HAS_MAIN.search(text))
    if "SPDX-License-Identifier: Apache-2.0" not in text.split("\n", 1)[0]:
        yield 1, "the first line is the SPDX line"
    if path.suffix in (".h", ".hpp") and not re.search(
            r"^#pragma once$", text, re.MULTILINE):
        yield 1, "headers have #pragma once"
    for number, (line, is_include) in enumerate(strip(text), 1):
        if is_include:
            mark, name = INCLUDE.match(line).groups()
            for message in check_include(path, module, is_test, has_main,
                                         name, mark == '"'):
                yield number, message
            if name == "iostream" and module != "main" and not has_main:
                yield number, "library code never prints: iostream"
            continue
        if OPENMP.search(line) and path.as_posix() != OPENMP_HOME:
            yield number, f"OpenMP only in {OPENMP_HOME}"
        if MAIN_ONLY_CALLS.search(line) and not has_main:
            yield number, "only in files with a main()"
        if module != "main" and not is_test and PRINTS.search(line):
            yield number, "library code never prints"


def sources(root):
    top = ["include", "src", "tests", *MAY_KNOW]
    for folder in dict.fromkeys(top):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path.relative_to(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    root = parser.parse_args().root
    files = findings = 0
    for path in sources(root):
        files += 1
        for line, message in check_file(root, path):
            findings += 1
            print(f"{path}:{line}: {message}")
        length = len((root / path).read_text(encoding="utf-8").splitlines())
        if length > LONG:
            print(f"note: {path} has {length} lines; is it one room?")
    if files == 0:
        print(f"{root}: no source files")
        return 1
    print(f"{files} files, {findings} broken rules")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
