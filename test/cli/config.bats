#!/usr/bin/env bats
# Which store is meant: -S, HOLDFAST_STORE, the config file; profiles and passwords.
load helper

config() { cat >"$dir/config"; export HOLDFAST_CONFIG=$dir/config; unset HOLDFAST_STORE; }
store_used() { holdfast "$@" run x -- sh -c 'echo "$HOLDFAST_STORE"'; }

@test "-S wins over HOLDFAST_STORE, which wins over the default of the config file" {
    config <<<$'default = a\n[profile a]\nurl = file:'"$dir/a"$'\n[profile b]\nurl=file:'"$dir/b"
    [[ $(store_used) == "file:$dir/a" ]]
    [[ $(store_used -S b) == "file:$dir/b" ]]
    [[ $(HOLDFAST_STORE=b store_used) == "file:$dir/b" ]]
    [[ $(HOLDFAST_STORE=b store_used -S "file:$dir/c") == "file:$dir/c" ]]
}

@test "a URL works whatever state the config file is in" {
    config <<<'nonsense'
    [[ $(store_used -S "file:$dir/a") == "file:$dir/a" ]]
}

@test "a path with dots and links in it is made plain for the command" {
    mkdir real
    ln -s real link
    [[ $(store_used -S "file:$dir/./link/../rel") == "file:$dir/rel" ]]
    [[ $(store_used -S "file:$dir/link/s") == "file:$dir/real/s" ]]
}

bad() { # TEXT: the config on stdin is refused with it and its line
    config
    exits 78 holdfast run x -- touch started
    says "$dir/config:$1"
    [[ ! -e started ]]
}

@test "bad config files: file, line, exit code 78, nothing acquired" {
    bad "2: unknown key 'ulr'; did you mean 'url'?" <<<$'[profile a]\nulr = file:/x'
    bad "1: unknown key 'colour'" <<<'colour = red'
    bad "1: unknown section '[store]'" <<<'[store]'
    bad "1: a section must end with ']'" <<<'[profile a'
    bad "1: neither" <<<'what is this'
    bad "2: profile 'a' has no url" <<<$'# comment\n[profile a]'
    bad "3: 'url' is there twice" <<<$'[profile a]\nurl=file:/x\nurl=file:/y'
    bad "3: profile 'a' is there twice" <<<$'[profile a]\nurl=file:/x\n[profile a]'
    bad "2: 'url' is empty" <<<$'[profile a]\nurl ='
    bad "1: no profile 'b'" <<<$'default = b'
}

@test "a config file that cannot be read" {
    unset HOLDFAST_STORE
    export HOLDFAST_CONFIG=$dir/nosuch
    exits 78 holdfast run x -- true
    says "$dir/nosuch: cannot be read"
    HOLDFAST_CONFIG=$dir exits 78 holdfast run x -- true
    says "directory"
    HOLDFAST_CONFIG=/dev/null exits 78 holdfast run x -- true
    printf 'a\0b' >"$dir/binary"
    HOLDFAST_CONFIG=$dir/binary exits 78 holdfast run x -- true
}

@test "passwords: from a file or a variable; trouble is told without them" {
    config <<CONFIG
[profile file]
url = redis://me@127.0.0.1:1/0
password_file = $dir/password
[profile env]
url = redis://127.0.0.1:1/0
password_env = SECRET
[profile both]
url = redis://127.0.0.1:1/0
password_env = SECRET
password_file = $dir/password
[profile embedded]
url = file:$dir/store
password_env = SECRET
[profile own]
url = redis://me:hunter2@127.0.0.1:1/
password_env = SECRET
CONFIG
    exits 78 holdfast -S file run x -- true
    says "config:1: profile 'file': password_file $dir/password cannot be read"
    exits 78 holdfast -S env run x -- true
    says "no variable 'SECRET'"
    echo hunter2 >password
    export SECRET=hunter2
    for profile in file env both embedded own; do
        run holdfast -v -S $profile run x -- true
        [[ $status != 0 && $output != *hunter2* ]]
    done
    exits 78 holdfast -S embedded run x -- true
    says "takes no password"
    exits 78 holdfast -S own run x -- true
    says "password of its own"
}

@test "a secret on the command line is not shown by our messages, and not by ps" {
    # A full pipe as stderr: a process that writes a message blocks there, so that the
    # test can inspect it.
    mkfifo pipe
    exec 8<>pipe
    head -c 65536 /dev/zero >&8
    holdfast -S "nosuch://me:hunter2@host/" ls 2>&8 3>&- &
    begun+=($!)
    holdfast --store="nosuch://host/?password=hunter2" ls 2>&8 3>&- &
    begun+=($!)
    holdfast doctor "nosuch://me:hunter2@host/" 2>&8 3>&- &
    begun+=($!)
    holdfast unlock x --lease hunter2 2>&8 3>&- &
    begun+=($!)
    for pid in "${begun[@]}"; do
        eventually grep -q '\*\*\*' "/proc/$pid/cmdline"
        not grep -q hunter2 "/proc/$pid/cmdline"
    done
    head -c 65536 <&8 >/dev/null
    for pid in "${begun[@]}"; do wait "$pid" || true; done
    echo "that is all" >&8
    sed '/that is all/q' <&8 >said
    grep -q nosuch said
    not grep -q hunter2 said
}

@test "a directory given as a store: what to write instead" {
    exits 78 holdfast -S /some/dir ls
    [[ $output == *"put file: before it"* ]]
}
