#!/usr/bin/env bats
# The man pages: there for every verb, well-formed, and no option missing.
load helper

# Every verb that the command knows; help has no page of its own.
verbs() { holdfast help | awk '/^Options:/ { exit } /^  [a-z]/ && $1 != "help" { print $1 }'; }

@test "every verb has a page, and holdfast(1) lists it" {
    [[ $(verbs | wc -l) -gt 30 ]]
    for verb in $(verbs); do
        [[ -e $HOLDFAST_SOURCE/man/holdfast-$verb.1 ]]
        grep -q "holdfast-$verb 1" "$HOLDFAST_SOURCE/man/holdfast.1"
    done
}

@test "mandoc has nothing to say" {
    mandoc -Tlint -W warning "$HOLDFAST_SOURCE"/man/*.1
}

@test "every option that help lists is on the page of its verb or on holdfast(1)" {
    for verb in $(verbs); do
        pages=$(mandoc -Tascii "$HOLDFAST_SOURCE/man/holdfast-$verb.1" "$HOLDFAST_SOURCE/man/holdfast.1" | col -b)
        for option in $(holdfast help "$verb" | grep -oE '^ {2,6}(-.,)? *--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
            grep -qF -- "$option" <<<"$pages" || { echo "$option of $verb is not documented"; false; }
        done
    done
}

@test "every exit code is in holdfast(1), and in docs/shell.md" {
    page=$(mandoc -Tascii "$HOLDFAST_SOURCE/man/holdfast.1" | col -b)
    for code in 64 65 66 69 70 74 75 76 77 78 126 127; do
        grep -qE "^ +(126, )?$code" <<<"$page"
        grep -qE "^\\| (126, )?${code}[ ,]" "$HOLDFAST_SOURCE/docs/shell.md"
    done
}
