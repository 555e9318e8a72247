#!/usr/bin/env bats
# Bad input: a clear message that names what is wrong, the right exit code, nothing acquired.
load helper

refused() { # CODE TEXT COMMAND...: refused, and the command was not started
    local code=$1 text=$2
    shift 2
    exits "$code" "$@" -- touch started
    says "$text"
    [[ ! -e started ]]
}

@test "habits of other programs, and an exit code that somebody wonders about" {
    refused 64 "unknown option '-V'; did you mean '--version'?" holdfast -V
    refused 64 "unknown option '-V'; did you mean '--version'?" holdfast ls -V
    refused 64 "unknown option '--port'; did you mean '--listen ADDRESS:PORT'?" holdfast serve --port 80
    refused 64 "--rate '10/min' is not a rate: N/D, as in 10/1m" holdfast limit x --rate 10/min
    exits 0 holdfast help 75
    says "exit status 75: not acquired"
    exits 64 holdfast help 42
    says "Try 'holdfast help'."
}

@test "durations: zero, negative, without a unit, too long, no number" {
    refused 64 "-w '0s' must not be 0" holdfast run x -w 0s
    refused 64 "-w '-5s' must not be negative" holdfast run x -w -5s
    refused 64 "--ttl '5' needs a unit" holdfast run x --ttl=5
    refused 64 "--wait '5x'" holdfast run x --wait=5x
    refused 64 "--wait '1.'" holdfast run x --wait=1.
    refused 64 "--wait '.5'" holdfast run x --wait=.5
    refused 64 "--wait '0.0004' must not be 0" holdfast run x --wait=0.0004
    refused 64 "--wait '99999999999'" holdfast run x --wait=99999999999
    refused 64 "--wait '99999999999999999999d' is too long" holdfast run x --wait 99999999999999999999d
    refused 64 "--ttl '0ms' must not be 0" holdfast run x --ttl 0ms
    refused 64 "--ttl 'soon' is not a duration" holdfast run x --ttl soon
    refused 64 "--ttl must be at least 1s" holdfast run x --ttl 999ms
    refused 64 "--min-hold '1.5s'" holdfast run x --min-hold 1.5s
    refused 64 "--max-hold '' is empty" holdfast run x --max-hold ''
    refused 64 "--kill-after '9 s'" holdfast run x --kill-after '9 s'
}

@test "numbers: out of range, signed, not numbers" {
    refused 64 "-E '256' is too large" holdfast run x -E 256
    refused 64 "-E '-1' must not be negative" holdfast run x -E -1
    refused 64 "--slots '0' is too small" holdfast run x --slots 0
    refused 64 "--slots 'many' is not a number" holdfast run x --slots many
    refused 64 "--slots '18446744073709551617' is too large" holdfast run x --slots 18446744073709551617
    refused 64 "--permits 3 is more than --slots 2" holdfast run x --slots 2 --permits 3
}

@test "names: empty, too long, missing" {
    refused 64 "NAME is empty" holdfast run ''
    refused 64 "NAME has 513 bytes" holdfast run "$(printf '%0513d' 0)"
    exits 64 holdfast run -- true
    says "no NAME"
    exits 0 holdfast run "$(printf '%0512d' 0)" -- true
    for verb in show lock break renew unlock; do
        exits 64 holdfast $verb
        exits 64 holdfast $verb ''
    done
}

@test "names of any bytes, also those that look like options" {
    exits 0 holdfast run $'\377\001 \n"\\' -- true
    exits 0 holdfast run --name=--help -- sh -c '[ "$HOLDFAST_NAME" = --help ]'
    exits 0 holdfast show -- -x
    says "-x: free"
}

@test "no command, an empty command, one without --" {
    exits 64 holdfast run x
    says "no command"
    exits 64 holdfast run x --
    says "no command"
    exits 64 holdfast run x -- ''
    exits 64 holdfast run x true
    says "put -- before the command"
}

@test "unknown verbs and options; a close one is suggested" {
    exits 64 holdfast
    exits 64 holdfast rnu x -- true
    says "did you mean 'run'?"
    refused 64 "unknown option '--slot'; did you mean '--slots'?" holdfast run x --slot 3
    refused 64 "unknown option '-Z'" holdfast run x -Z
    refused 64 "--json takes no value" holdfast run x --json=1
    refused 64 "none of term|kill|warn" holdfast run x --on-lost=ignore
    exits 64 holdfast run x -w
    says "-w needs a value"
    exits 64 holdfast ls a b
    says "one argument too many"
}

@test "options that exclude each other" {
    refused 64 "-n and -w exclude" holdfast run x -n -w 1s
    refused 64 "-s, -x and --upgradeable exclude" holdfast run x -s -x
    refused 64 "--slots makes a semaphore" holdfast run x -s --slots 2
    refused 64 "--permits needs --slots" holdfast run x --permits 2
    refused 64 "--min-hold is longer than --max-hold" holdfast run x --min-hold 2s --max-hold 1s
    refused 64 "--kill-after does not fit" holdfast run x --ttl 2s --kill-after 1001ms
    refused 64 "--kill-after does not fit" holdfast run x --max-hold 2s --kill-after 2s
}

@test "a status descriptor that is not open, or only for reading" {
    refused 64 "--status-fd 77 is not open" holdfast run x --status-fd 77
    exits 64 holdfast run x --status-fd 9 -- touch started 9</dev/null
    says "not open for writing"
    [[ ! -e started ]]
}

@test "store URLs: unknown scheme, parameter with its byte, empty, no such profile" {
    refused 78 "" holdfast -S nosuch:/x run x
    refused 78 "'nosuch'" holdfast -S "file:$dir/s?nosuch=1" run x
    says "byte $((${#dir} + 8))"
    HOLDFAST_STORE='' refused 78 "empty" holdfast run x
    refused 78 "no profile 'nosuch'" holdfast -S nosuch run x
}

@test "nothing that a terminal would obey is echoed" {
    exits 64 holdfast run x $'--\033[31mred' -- true
    says '\x1b[31mred'
    [[ $output != *$'\033'* ]]
}

@test "help and version" {
    exits 0 holdfast --version
    [[ $output == "holdfast "[0-9]* ]]
    exits 0 holdfast --help
    says "Run a command:"
    for verb in run lock renew unlock limit ls show watch top lab break init doctor engines redlock bench completion; do
        exits 0 holdfast help $verb
        says "usage: holdfast $verb"
        [[ $verb == bench ]] && continue
        exits 0 holdfast $verb --help
        says "usage: holdfast $verb"
    done
    exits 64 holdfast help nosuch
}

@test "options before the verb, bundled, joined" {
    hold x
    exits 75 holdfast -q run -nE75 x -- true
    [[ -z $output ]]
    exits 9 holdfast run -qnE 9 x -- true
    exits 75 holdfast run -w10ms x -- true
}
