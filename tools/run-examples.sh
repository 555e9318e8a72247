#!/bin/sh
# run-examples.sh DIRECTORY [NAME...]: run every example of the directory on the store of HOLDFAST_TEST_URL. Each must
# end by itself, with 0; the NAMEs must say instead that the engine cannot do it (77). 0: all of them did as they should.
directory=$1
shift
cannot=" $* "
url=$(printf '%s' "$HOLDFAST_TEST_URL" | sed 's/{id}/examples/')
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
failed=0
for example in "$directory"/example-*; do
    name=${example##*/example-}
    want=0
    case $cannot in *" $name "*) want=77 ;; esac
    timeout -k 5 60 "$example" "$url" >"$out" 2>&1
    got=$?
    if [ $got -ne $want ] || { [ $want -eq 77 ] && ! grep -q '^this engine, .*, cannot ' "$out"; }; then
        printf '%s: status %d, and not %d\n' "$name" $got $want
        cat "$out"
        failed=1
    fi
done
exit $failed
