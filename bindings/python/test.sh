#!/bin/sh
# SPDX-License-Identifier: MIT
# Build the Python binding, check it, and run its tests on the embedded store and on Redis: test.sh; test.sh build: only build it.
#
# HOLDFAST_BUILD is a finished build of the C library (default: build of the source tree); everything is written below
# $HOLDFAST_BUILD/bindings/python, or HOLDFAST_PYTHON_OUT. PYTHON: which Python (default /usr/bin/python3).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
HOLDFAST_BUILD=$(cd "${HOLDFAST_BUILD:-$here/../../build}" && pwd)
export HOLDFAST_BUILD
out=${HOLDFAST_PYTHON_OUT:-$HOLDFAST_BUILD/bindings/python}
python=${PYTHON:-/usr/bin/python3}
with_server=$HOLDFAST_BUILD/bin/test/with_server
venv=$out/venv
mkdir -p "$out"
passed=0 failed=0

# step NAME COMMAND...: one more that passed or failed.
step() {
    name=$1
    shift
    if "$@" >"$out/step.log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        cat "$out/step.log"
        echo "FAILED: $name"
    fi
}

# ---- the wheel, in a fresh environment: the package in the source tree is not on its path ----------

newest() { # is there a source that is newer than the wheel?
    [ ! -e "$out/stamp" ] || [ -n "$(find "$here/src" "$here/holdfast" "$here/setup.py" "$here/pyproject.toml" \
        "$HOLDFAST_BUILD/lib/libholdfast.so" "$HOLDFAST_BUILD/lib/holdfast" -newer "$out/stamp" -not -name __pycache__)" ]
}

if newest; then
    rm -rf "$out/wheel" "$venv" "$out/stamp"
    "$python" -m pip wheel -q --no-build-isolation --no-deps --no-index -w "$out/wheel" "$here" >"$out/build.log" 2>&1 || {
        cat "$out/build.log"
        echo "0 passed, 1 failed"
        exit 1
    }
    "$python" -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check --no-index --no-deps "$out"/wheel/*.whl
    touch "$out/stamp"
fi
[ "${1:-}" != build ] || exit 0

# ---- lint ---------------------------------------------------------------------------------------------

cd "$out"
for tool in mypy clang-format; do
    command -v "$tool" >/dev/null || echo "$tool is not installed: its check is left out"
done
if command -v mypy >/dev/null; then
    step "mypy --strict" mypy --strict --python-version 3.9 --cache-dir "$out/mypy" "$here/holdfast"
    step "mypy of the examples" env MYPYPATH="$here" mypy --strict --cache-dir "$out/mypy" --scripts-are-modules \
        "$here/examples/workers.py" "$here/examples/worker.py" "$here/examples/bench.py"
fi
if command -v clang-format >/dev/null; then
    step "clang-format" clang-format --dry-run -Werror "$here"/src/*.[ch]
fi
step "python files compile" "$python" -c "import sys; [compile(open(f).read(), f, 'exec') for f in sys.argv[1:]]" \
    "$here"/*.py "$here"/holdfast/*.py "$here"/test/*.py "$here"/examples/*.py
# The API documentation, by pydoc: it must be there for every public name.
rm -rf "$out/doc"
mkdir -p "$out/doc"
step "pydoc" sh -c "cd '$out/doc' && '$venv/bin/python' -m pydoc -w holdfast holdfast.threading holdfast.store holdfast.lease \
    holdfast.locks holdfast.primitives holdfast.types holdfast.errors"
step "every public name has a docstring" "$venv/bin/python" -B "$here/test/docstrings.py"
step "the version is the header's" "$venv/bin/python" -c "
import holdfast, re, sys
found = re.findall(r'^#define HF_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)', open(sys.argv[1]).read(), re.M)
assert holdfast.__version__ == '.'.join(found), holdfast.__version__" "$here/../../include/holdfast/holdfast.h"

# ---- tests ---------------------------------------------------------------------------------------------

# suite NAME COMMAND...: a run of test/run.py, whose last line is "N passed, N failed".
suite() {
    name=$1
    shift
    "$@" >"$out/suite.log" 2>&1 || true
    last=$(tail -n 1 "$out/suite.log")
    case $last in
    *" passed, "*" failed")
        passed=$((passed + ${last%% passed*}))
        bad=${last##*passed, }
        bad=${bad%% failed*}
        ;;
    *) bad=1 ;;
    esac
    failed=$((failed + bad))
    [ "$bad" = 0 ] || { cat "$out/suite.log"; echo "FAILED: $name"; }
    echo "$name: $last"
}

example() { # example STORE COMMAND...: the lines of workers.py, whatever the tokens are
    "$@" >"$out/workers.txt" && sed 's/token [0-9]*$/token T/' "$out/workers.txt" | diff "$here/test/workers.expected" -
}

quickstart() { # the program of the README, word by word but for its URL
    rm -rf "$out/quickstart" && mkdir -p "$out/quickstart" || return 1
    awk '/^```python/ { on = 1; next } /^```/ && on { exit } on' "$here/README.md" |
        sed "s|redis://127.0.0.1|file:$out/quickstart/store|" >"$out/quickstart/program.py"
    "$venv/bin/python" -X dev -W error -B "$out/quickstart/program.py"
}
step "quickstart of the README" quickstart
suite "embedded" "$venv/bin/python" -X dev -B "$here/test/run.py"
step "workers.py, embedded" example "$venv/bin/python" -B "$here/examples/workers.py"
if [ -x "$with_server" ] && command -v redis-server >/dev/null; then
    suite "redis" "$with_server" redis "$venv/bin/python" -X dev -B "$here/test/run.py"
    step "workers.py, redis" example "$with_server" redis sh -c "exec '$venv/bin/python' -B '$here/examples/workers.py' \"\$HOLDFAST_TEST_URL\""
else
    echo "redis-server or with_server is not there: nothing is tested on Redis"
    failed=$((failed + 1))
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
