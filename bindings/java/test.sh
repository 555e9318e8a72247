#!/bin/sh
# Build the Java binding, lint it, run its tests on the embedded store and on Redis, and check the examples. The last line is
# "N passed, N failed". HOLDFAST_BUILD: the build folder of the C library (default: build in the root of the repository).
# HOLDFAST_JAVA_OUT: where everything goes (default: $HOLDFAST_BUILD/bindings/java). JAVA_NEWER: a newer JDK, for virtual
# threads (default: the newest that is installed in the usual place).
# shellcheck disable=SC2317  # functions are called by step
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
HOLDFAST_BUILD=$(cd "${HOLDFAST_BUILD:-$root/build}" && pwd) || exit 1
HOLDFAST_JAVA_OUT=${HOLDFAST_JAVA_OUT:-$HOLDFAST_BUILD/bindings/java}
export HOLDFAST_BUILD HOLDFAST_JAVA_OUT
out=$HOLDFAST_JAVA_OUT
with_server=$HOLDFAST_BUILD/bin/test/with_server
passed=0
failed=0

ok() { passed=$((passed + 1)) && echo "ok    $1"; }
bad() { failed=$((failed + 1)) && echo "FAIL  $1"; }
# step WHAT COMMAND...: the output is shown if it fails.
step() {
    what=$1
    shift
    if "$@" >"$out/step.log" 2>&1; then ok "$what"; else bad "$what" && cat "$out/step.log"; fi
}
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

cd "$here" || exit 1
mkdir -p "$out" || exit 1

# maven LOG ARGUMENT...: without the network if the local repository has everything.
maven() {
    log=$1
    shift
    mvn -B -o -Dholdfast.out="$out" "$@" >"$log" 2>&1 && return
    if grep -qiE "offline mode|has not been downloaded" "$log"; then
        mvn -B -Dholdfast.out="$out" "$@" >"$log" 2>&1
    else
        return 1
    fi
}

# workers [URL]: the tokens are any numbers, the second larger than the first.
workers() {
    examples/run.sh workers "$@" >"$out/workers.txt" || return 1
    sed 's/token [0-9][0-9]*$/token T/' "$out/workers.txt" | diff "$here/examples/workers.expected" - || return 1
    sed -n 's/.*token //p' "$out/workers.txt" | { read -r one && read -r two && [ "$two" -gt "$one" ]; }
}
# with_server runs a program, not a function of this shell: so this script is called again within.
case ${1:-} in
--maven)
    shift
    maven "$@"
    exit
    ;;
--workers)
    workers "$HOLDFAST_TEST_URL"
    exit
    ;;
esac

step "native code compiles without warnings" native/build.sh "$out/native"
[ "$failed" -eq 0 ] || finish

# suite WHAT LOG JVM_OPTIONS MAVEN_ARGUMENT...: all tests, each counted.
suite() {
    what=$1
    log=$2
    jvm=$3
    shift 3
    rm -rf "$out/maven/surefire-reports"
    "$with_server" redis "$here/test.sh" --maven "$log" "$@" -Dholdfast.jvm="-Xmx256m $jvm"
    result=$?
    line=$(grep -E '^\[(INFO|WARNING|ERROR)\] +Tests run: [0-9]+, F' "$log" | grep -v -- ' -- in ' | tail -n 1)
    if [ -z "$line" ]; then
        bad "$what: not run" && tail -n 60 "$log"
        return
    fi
    echo "      $what: $(echo "$line" | sed 's/^[^T]*//')"
    run=$(echo "$line" | sed 's/.*Tests run: \([0-9]*\).*/\1/')
    failures=$(echo "$line" | sed 's/.*Failures: \([0-9]*\).*/\1/')
    errors=$(echo "$line" | sed 's/.*Errors: \([0-9]*\).*/\1/')
    fell=$((failures + errors))
    skipped=$(echo "$line" | sed 's/.*Skipped: \([0-9]*\).*/\1/')
    passed=$((passed + run - fell - skipped))
    failed=$((failed + fell))
    [ "$result" -eq 0 ] || grep -E '^FAILED |^\[ERROR\]' "$log" | head -n 40
    [ "$result" -eq 0 ] || [ "$fell" -gt 0 ] || bad "$what: Maven failed"
}

# A URL without a server would skip the tests on Redis: with_server makes sure that there is one.
suite "tests with -Xcheck:jni" "$out/tests.log" "-Xcheck:jni" package
if grep -qE "(WARNING|FATAL ERROR) in native method|JNI (local|call)" "$out/tests.log"; then
    bad "-Xcheck:jni" && grep -A 6 -E "in native method|JNI (local|call)" "$out/tests.log" | head -n 40
else
    ok "-Xcheck:jni has no warnings"
fi

newer=${JAVA_NEWER:-}
for jdk in /usr/lib/jvm/temurin-2[1-9]* /usr/lib/jvm/java-2[1-9]*; do
    [ -n "$newer" ] || [ ! -x "$jdk/bin/java" ] || newer=$jdk
done
if [ -n "$newer" ]; then
    suite "tests of locks on $(basename "$newer"), with virtual threads" "$out/newer.log" "--enable-native-access=ALL-UNNAMED" \
        surefire:test -Djvm="$newer/bin/java" -Dtest='*LockTest,LibraryTest'
else
    echo "      no newer JDK: virtual threads were not tested"
fi
cp "$out"/maven/holdfast-*.jar "$out/holdfast.jar" 2>/dev/null || bad "the jar was not made"

document() {
    rm -rf "$out/javadoc"
    javadoc -quiet -Xdoclint:all -Werror --release 17 -encoding UTF-8 -d "$out/javadoc" -sourcepath src/main/java holdfast
}
step "javadoc has no warnings" document

examples() {
    rm -rf "$out/examples"
    javac --release 17 -Xlint:all -Werror -cp "$out/holdfast.jar" -d "$out/examples" examples/*.java
}
step "examples compile without warnings" examples

# A relative HOLDFAST_BUILD is not recorded as it is: the library must be found from every folder.
relative() {
    (cd "$HOLDFAST_BUILD" && rm -rf "$out/relative" && HOLDFAST_BUILD=. "$here/native/build.sh" "$out/relative") || return 1
    ldd "$out/relative/libholdfast_jni.so" | grep -F "$("$here/../../tools/version.sh" --soname) => $HOLDFAST_BUILD/lib/"
}
step "a relative HOLDFAST_BUILD" relative

# The program of the README, word by word but for its URL.
quickstart() {
    rm -rf "$out/quickstart" && mkdir -p "$out/quickstart" || return 1
    awk '/^```java/ { n++; next } /^```/ { if (n == 1) exit } n == 1' README.md |
        sed "s|redis://localhost|file:$out/quickstart/store|" >"$out/quickstart/Program.java"
    java -Dholdfast.library="$out/native/libholdfast_jni.so" -cp "$out/holdfast.jar" "$out/quickstart/Program.java"
}
step "quickstart of the README" quickstart
without_library() {
    java -Djava.library.path=/nowhere -cp "$out/holdfast.jar" "$out/quickstart/Program.java" 2>&1 | grep "holdfast.library=PATH"
}
step "the error without the native library names the property" without_library
step "example workers on the embedded store" workers
redis_workers() { "$with_server" redis "$here/test.sh" --workers; }
step "example workers on Redis" redis_workers
finish
