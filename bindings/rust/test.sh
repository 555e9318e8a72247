#!/bin/sh
# SPDX-License-Identifier: MIT
# Build, lint and test the Rust binding: on the embedded store and on Redis, and both once more with a library that has the
# address sanitizer. The last line counts the tests.
#
#   HOLDFAST_BUILD       the build folder of the library; default: build in the root of the repository
#   HOLDFAST_BUILD_ASAN  one with -DHOLDFAST_SANITIZE=address; default: one that is made here, in half a minute, and kept
#   CARGO                cargo; default: the one on the PATH
set -u
here=$(cd "$(dirname "$0")" && pwd)
HOLDFAST_BUILD=${HOLDFAST_BUILD:-$here/../../build}
HOLDFAST_BUILD=$(cd "$HOLDFAST_BUILD" && pwd) || exit 2
export HOLDFAST_BUILD
# A build folder that others share is theirs: then ours is in the repository.
target=$HOLDFAST_BUILD/bindings/rust
mkdir -p "$target" 2>/dev/null && [ -w "$target" ] || target=$here/build
export CARGO_TARGET_DIR="${HOLDFAST_RUST_TARGET:-$target}"
export RUST_BACKTRACE=0
cargo=${CARGO:-cargo}
with_server=$HOLDFAST_BUILD/bin/test/with_server
passed=0
failed=0

mkdir -p "$CARGO_TARGET_DIR"
log=$CARGO_TARGET_DIR/test.log

# step NAME COMMAND...: one test that is a command.
step()
{
    name=$1
    shift
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
        echo "ok: $name"
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        cat "$log"
    fi
}

# suite NAME COMMAND...: a command that runs tests of cargo, which are counted.
suite()
{
    name=$1
    shift
    "$@" >"$log" 2>&1
    status=$?
    good=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    bad=$(sed -n 's/^test result: .* \([0-9]*\) failed.*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    # It did not even compile, or ended without a word.
    if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$good" -eq 0 ]; }; then
        bad=1
    fi
    passed=$((passed + good))
    failed=$((failed + bad))
    if [ "$bad" -eq 0 ]; then
        echo "ok: $name, $good tests"
    else
        echo "FAILED: $name"
        cat "$log"
    fi
}

# The lines of the example, with tokens that grow.
check_example()
{
    out=$CARGO_TARGET_DIR/example.out
    "$@" >"$out" || return 1
    sed -n 's/.*token \([0-9]*\)$/\1/p' "$out" | sort -nuc || return 1
    sed -e 's/token [0-9][0-9]*$/token N/' "$out" >"$out.lines"
    diff - "$out.lines" <<'END'
first: holds report, token N
first: wrote page
first: lost report
second: holds report, token N
second: wrote page
first: refused, a newer token was used
second: released
page: by second
END
}

# A worker ends by itself, and writes nothing but what the judge knows.
check_worker()
{
    "$@" >"$CARGO_TARGET_DIR/worker.out" || return 1
    grep -q ' added ' "$CARGO_TARGET_DIR/worker.out" || return 1
    ! grep -vE '^[0-9]+ (ask [0-9]+ (mutex|semaphore|counter) [12]|got [0-9]+ [0-9]+|not [0-9]+ [A-Z_]+|(still|lost|letting) [0-9]+|let [0-9]+ [A-Z_]+|(adding|added|fenced|unsure) [0-9]+ [0-9]+)$' \
        "$CARGO_TARGET_DIR/worker.out"
}

# The program of the README, word by word but for its URL, in a crate of its own.
quickstart()
{
    mkdir -p "$folder/mine/src" || return 1
    awk '/^```rust/ { n++; next } /^```/ { if (n == 1) exit } n == 1' README.md |
        sed "s|redis://localhost|file:$folder/quick|" >"$folder/mine/src/main.rs"
    printf '[package]\nname = "mine"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nholdfast = { path = "%s/holdfast" }\n' \
        "$here" >"$folder/mine/Cargo.toml"
    "$cargo" run --manifest-path "$folder/mine/Cargo.toml"
}

# A program that has a newer tokio than Cargo.lock: Cargo allows one tokio 1.x for all of a program. The suites use Cargo.lock, with the
# oldest one.
newer_tokio()
{
    mkdir -p "$folder/newer/src" || return 1
    cat >"$folder/newer/Cargo.toml" <<END
[package]
name = "newer"
version = "0.1.0"
edition = "2021"
[dependencies]
holdfast = { path = "$here/holdfast", features = ["tokio"] }
tokio = { version = "$1", features = ["macros", "rt-multi-thread", "time"] }
END
    cat >"$folder/newer/src/main.rs" <<END
#[tokio::main]
async fn main() -> holdfast::Result<()> {
    let store = holdfast::Store::open("file:$folder/newer-store")?;
    let lease = store.mutex("x").acquire_async().await?;
    let waits = store.mutex("x").acquire_async();
    assert!(tokio::time::timeout(std::time::Duration::from_millis(1), waits).await.is_err());
    lease.release_async().await?;
    store.mutex("x").acquire_async().await?.release_async().await
}
END
    "$cargo" run --manifest-path "$folder/newer/Cargo.toml" && grep -A 1 'name = "tokio"' "$folder/newer/Cargo.lock"
}

# The version that Cargo.toml asks for at least is that of Cargo.lock.
oldest_tokio()
{
    least=$(sed -n 's/^tokio = { version = "\([0-9.]*\)", optional.*/\1/p' holdfast/Cargo.toml)
    [ -n "$least" ] && grep -A 1 'name = "tokio"' Cargo.lock | grep -F "version = \"$least\""
}

# rustc 1.N or later?
has_rust()
{
    [ "$("${RUSTC:-rustc}" --version | sed 's/^rustc 1\.\([0-9]*\).*/\1/')" -ge "$1" ]
}

cd "$here" || exit 2
examples=$CARGO_TARGET_DIR/debug/examples
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP

step "rustfmt" "$cargo" fmt --all -- --check
step "clippy, tokio" "$cargo" clippy --locked --workspace --all-targets --features holdfast/tokio -- -D warnings
step "clippy, no features" "$cargo" clippy --locked --workspace --all-targets -- -D warnings
step "documentation" env RUSTDOCFLAGS="-D warnings" "$cargo" doc --locked --workspace --no-deps --features holdfast/tokio
suite "declarations" "$cargo" test --locked -p holdfast-sys --tests
suite "embedded store" "$cargo" test --locked -p holdfast --features tokio --lib --tests --no-fail-fast
suite "examples of the documentation" "$cargo" test --locked -p holdfast --features tokio --doc
suite "Redis" "$with_server" redis "$cargo" test --locked -p holdfast --features tokio --tests --no-fail-fast
step "quickstart of the README" quickstart
# The newest tokio may need a newer Rust than that of the distribution.
if has_rust 88; then step "a program with the newest tokio" newer_tokio 1.48; else echo "the newest tokio was not tried: it needs a newer Rust"; fi
step "the suites have the oldest tokio" oldest_tokio
step "examples" "$cargo" build --locked -p holdfast --features tokio --examples
step "example, embedded" check_example "$examples/workers"
step "worker, embedded" check_worker "$examples/worker" "file:$folder/store" 7 1
step "bench, embedded" "$examples/bench" "file:$folder/store" 0.2
# shellcheck disable=SC2016 # for the shell that has a server
redis() { "$with_server" redis bash -c '"$0" "${HOLDFAST_TEST_URL/\{id\}/example}"' "$@"; }
step "example, Redis" check_example redis "$examples/workers"

# The Rust side has no instruments, but its memory comes from malloc(3): so leaks, and frees of what is not
# ours, are seen on both sides; bad reads and writes, in the library only. Two tests leak on
# purpose; nothing_leaks also counts pages, which the sanitizer keeps.
under_asan()
{
    for program in locks primitives errors driver tokio tokio_ends tokio_primitives; do
        file=$("$cargo" test --locked -p holdfast --features tokio --test $program --no-run --message-format=json 2>/dev/null |
            sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
        "$@" env LD_PRELOAD="$(cc -print-file-name=libasan.so)" LD_LIBRARY_PATH="$HOLDFAST_BUILD_ASAN/lib" \
            ASAN_OPTIONS=strict_string_checks=1:detect_leaks=1:exitcode=99 UBSAN_OPTIONS=halt_on_error=1 \
            "$file" --skip nothing_leaks --skip forgotten_futures_and_leases || return 1
    done
}
# Of the library only what these tests use.
build_with_asan()
{
    cmake -S "$here/../.." -B "$HOLDFAST_BUILD_ASAN" -G Ninja -DHOLDFAST_SANITIZE=address "-DHOLDFAST_ENGINES=lmdb;redis" \
        -DHOLDFAST_TESTS=OFF -DHOLDFAST_BENCH=OFF && cmake --build "$HOLDFAST_BUILD_ASAN" --target product
}
if [ -z "${HOLDFAST_BUILD_ASAN:-}" ]; then
    HOLDFAST_BUILD_ASAN=$CARGO_TARGET_DIR/asan
    step "the library with the address sanitizer" build_with_asan
fi
suite "embedded store, address sanitizer" under_asan
suite "Redis, address sanitizer" under_asan "$with_server" redis

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
