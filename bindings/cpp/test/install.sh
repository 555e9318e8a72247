#!/bin/bash
# SPDX-License-Identifier: MIT
# install.sh BUILD: does find_package(Holdfast) of what is installed give Holdfast::cpp, to a program that includes one header? And
# does a C project still do without a C++ compiler?
set -eu
build=$1
dir=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-cpp.XXXXXX")
trap 'rm -rf "$dir"' EXIT
fail() { cat "$dir/log"; echo "install: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$dir/pre fix" >"$dir/log" || fail "cmake --install"
mkdir "$dir/cpp" "$dir/c" "$dir/store"
cat >"$dir/cpp/user.cpp" <<'END'
#include <holdfast/holdfast.hpp>
int main(int, char **argv)
{
    holdfast::store store(argv[1]);
    holdfast::mutex mutex(store, "job");
    std::lock_guard<holdfast::mutex> lock(mutex);
    return mutex.held() ? 0 : 1;
}
END
cat >"$dir/cpp/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES CXX)
find_package(Holdfast 0.2 REQUIRED)
add_executable(user user.cpp)
target_link_libraries(user PRIVATE Holdfast::cpp)
END
cat >"$dir/c/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
find_package(Holdfast 0.2 REQUIRED)
file(WRITE ${CMAKE_BINARY_DIR}/user.c "#include <holdfast/holdfast.h>\nint main(void) { return hf_version_number() == 0; }\n")
add_executable(user ${CMAKE_BINARY_DIR}/user.c)
target_link_libraries(user PRIVATE Holdfast::holdfast)
END
for project in cpp c; do
    { cmake -S "$dir/$project" -B "$dir/$project/build" -DCMAKE_PREFIX_PATH="$dir/pre fix" &&
        cmake --build "$dir/$project/build"; } >"$dir/log" 2>&1 || fail "find_package, $project"
    "$dir/$project/build/user" "file:$dir/store" >"$dir/log" 2>&1 || fail "the program, $project"
done
