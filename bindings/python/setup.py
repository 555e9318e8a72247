# SPDX-License-Identifier: MIT
"""Builds a wheel with everything in it: the extension, libholdfast, and the engines.

The C library comes from the finished build in $HOLDFAST_BUILD, or is built by CMake in a temporary folder, with those engines
whose client libraries are there. Nothing is written into the source tree.

With HOLDFAST_BUNDLE=no it has the extension only, which uses the C library that is installed: for packages of a distribution.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("HOLDFAST_SOURCE") or HERE.parent.parent).resolve()
BUNDLE = os.environ.get("HOLDFAST_BUNDLE", "yes") != "no"
HEADER = ROOT / "include" / "holdfast" / "holdfast.h"

if not HEADER.is_file():
    sys.exit("holdfast: the C library is not here: install from bindings/python of its source tree, or set HOLDFAST_SOURCE to that tree")


def soname():
    """The file that programs are linked to; src/CMakeLists.txt has the rule."""
    major, minor, _ = version().split(".")
    return f"libholdfast.so.0.{minor}" if major == "0" else f"libholdfast.so.{major}"


def version():
    """The version is written once, in the C header."""
    return ".".join(re.findall(r"^#define HF_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)", HEADER.read_text(), re.M))


def say(text):
    print(f"holdfast: {text}", file=sys.stderr, flush=True)


def work_folder():
    made = tempfile.mkdtemp(prefix="holdfast-python-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


# ---- engines -------------------------------------------------------------------------------------


def compiles(header, library):
    command = shlex.split(os.environ.get("CC", "cc")) + ["-x", "c", "-", "-o", os.devnull, f"-l{library}"]
    source = f"#include <{header}>\nint main(void) {{ return 0; }}\n"
    return subprocess.run(command, input=source, text=True, stderr=subprocess.DEVNULL).returncode == 0


def has_library(library):
    """A module of pkg-config, or NAME=HEADER where there is none for it."""
    name, _, header = library.partition("=")
    if header:
        return compiles(header, name)
    return subprocess.run(["pkg-config", "--exists", name]).returncode == 0


def choose_engines():
    """Those whose libraries are there. The others are named, with the Debian packages that they need."""
    chosen = []
    for line in (ROOT / "src" / "engine" / "engines.def").read_text().splitlines():
        found = re.match(r'ENGINE\((\w+), "[^"]*", "([^"]*)", "([^"]*)", "([^"]*)"', line)
        if not found:
            continue
        name, libraries, folders, packages = found.groups()
        needed = libraries.split() + (["libssl"] if "tls" in folders.split() else [])
        missing = [library for library in needed if not has_library(library)]
        if missing:
            say(f"engine {name} is left out: {', '.join(missing)} not found (Debian: {packages})")
        else:
            chosen.append(name)
    return chosen


def build_library(folder):
    say("building the C library")
    engines = choose_engines()
    if not engines:
        sys.exit("holdfast: no engine can be built")
    options = [f"-DHOLDFAST_ENGINES={';'.join(engines)}", "-DHOLDFAST_TESTS=OFF", "-DHOLDFAST_BENCH=OFF", "-DHOLDFAST_SEE=OFF"]
    if shutil.which("ninja"):
        options += ["-G", "Ninja"]
    if shutil.which("ccache"):
        options += ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"]
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, *options], check=True, stdout=subprocess.DEVNULL)
    known = subprocess.run(["cmake", "--build", folder, "--target", "help"], check=True, capture_output=True, text=True).stdout
    modules = sorted(set(re.findall(r"\bengine_\w+", known)))  # also those that engines share: TLS
    subprocess.run(["cmake", "--build", folder, "-j", jobs, "--target", "holdfast", *modules], check=True,
                   stdout=subprocess.DEVNULL)
    return folder


# ---- the extension ---------------------------------------------------------------------------------


class BuildExtension(build_ext):
    """Links the library that was built, and takes it and its engines along."""

    def run(self):
        given = os.environ.get("HOLDFAST_BUILD")
        if not BUNDLE and not given:
            return super().run()
        folder = Path(given).resolve() if given else build_library(WORK / "library")
        library = folder / "lib"
        if not (library / soname()).exists():
            sys.exit(f"holdfast: there is no lib/{soname()} in {folder}")
        for extension in self.extensions:
            extension.library_dirs = [str(library)]
        super().run()
        if not BUNDLE:
            return
        package = Path(self.get_ext_fullpath("holdfast._holdfast")).parent
        self.take_along(library, package / "lib")

    def take_along(self, library, into):
        engines = sorted((library / "holdfast").glob("*.so"))
        shutil.rmtree(into, ignore_errors=True)
        (into / "holdfast").mkdir(parents=True)
        for source, target in [(library / soname(), into / soname())] + \
                              [(engine, into / "holdfast" / engine.name) for engine in engines]:
            shutil.copyfile(source, target)
            if shutil.which("strip"):
                subprocess.run(["strip", "--strip-debug", target], check=True)
        say(f"engines inside: {', '.join(engine.stem for engine in engines)}")


WORK = work_folder()
(WORK / "egg").mkdir()
os.chdir(HERE)

setup(
    version=version(),
    packages=["holdfast"],
    package_data={"holdfast": ["py.typed", "*.pyi"]},
    ext_modules=[
        Extension(
            "holdfast._holdfast",
            sources=sorted(f"src/{path.name}" for path in (HERE / "src").glob("*.c")),
            depends=sorted(f"src/{path.name}" for path in (HERE / "src").glob("*.h")),
            include_dirs=[str(ROOT / "include")],
            libraries=["holdfast"],
            extra_compile_args=["-std=c11", "-D_GNU_SOURCE", "-fvisibility=hidden", "-Wall", "-Wextra",
                                "-Wno-missing-field-initializers", "-Wno-cast-function-type"],
            extra_link_args=["-Wl,-rpath,$ORIGIN/lib"] if BUNDLE else [],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    options={"build": {"build_base": str(WORK / "build")}, "egg_info": {"egg_base": str(WORK / "egg")}},
)
