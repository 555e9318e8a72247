#!/usr/bin/env bats
# The embedded store: its directory, which users may use it, and that inspection creates none.
load helper

need_root() { ((EUID == 0)) || skip "needs root"; }

# as USER COMMAND...: without its groups.
as() { setpriv --reuid="$1" --regid="$2" --clear-groups "${@:3}"; }

@test "looking at a store that is not there: said, exit 0, and nothing is made" {
    for verb in "ls" "show x" "deadlocks" "ls -1"; do
        rm -f err
        # shellcheck disable=SC2086 # several words
        exits 0 holdfast -S "file:$dir/typo" $verb
        says "no store yet at file:$dir/typo"
        [[ ! -e typo ]] || { echo "$verb made it"; return 1; }
    done
    [[ $(holdfast -S "file:$dir/typo" ls --json 2>/dev/null | jq -c .names) == '[]' ]]
    [[ $(holdfast -S "file:$dir/typo" ls 2>/dev/null) == "" ]]
    exits 1 holdfast doctor "file:$dir/typo"
    says "not created yet"
    [[ ! -e typo ]]
    mkdir typo # an empty directory is no store either
    exits 0 holdfast -S "file:$dir/typo" ls
    says "no store yet"
    [[ -z $(ls -A typo) ]]
    : >typo/store # nor is one that somebody died making
    exits 0 holdfast -S "file:$dir/typo" ls
    says "no store yet"
    [[ $(ls -A typo) == store ]]
}

@test "what only reads, removes or breaks makes no store either" {
    for verb in "cell get x" "cell rm x" "break x --token 3" "counter x" "counter x --delete"; do
        # shellcheck disable=SC2086 # several words
        holdfast -S "file:$dir/typo" $verb >out 2>err && code=0 || code=$?
        [[ ! -e typo ]] || { echo "$verb made it"; return 1; }
        grep -q "no store yet at file:$dir/typo" err
        case $verb in
        cell*) [[ $code == 1 ]] && grep -q "no such cell: 'x'" err ;;
        break*) [[ $code == 75 ]] ;;
        *) [[ $code == 0 ]] ;;
        esac
    done
    [[ $(holdfast -S "file:$dir/typo" counter x 2>/dev/null) == 0 ]]
}

@test "a run that makes a store says so, once; -q does not" {
    exits 0 holdfast -S "file:$dir/new" run x -- true
    says "new store created: file:$dir/new"
    exits 0 holdfast -S "file:$dir/new" run x -- true
    not says "new store"
    exits 0 holdfast -q -S "file:$dir/other" run x -- true
    not says "new store"
    exits 0 holdfast -S "file:$dir/other" ls
    not says "no store"
}

@test "a relative store without a terminal is refused, with the path to write" {
    mkdir one
    cd one
    exits 78 holdfast -S file:locks run x -- true </dev/null
    says "write file:$dir/one/locks"
    HOLDFAST_STORE='file:locks?lock_wait=2s' exits 78 holdfast run x -- true </dev/null
    says "write file:$dir/one/locks?lock_wait=2s"
    [[ ! -e locks ]]
    printf 'default = here\n[profile here]\nurl = file:locks\n' >config
    unset HOLDFAST_STORE
    HOLDFAST_CONFIG=$PWD/config exits 78 holdfast run x -- true </dev/null
    says "profile here"
    mkdir 'a %b'
    cd 'a %b'
    exits 78 holdfast -S file:locks run x -- true </dev/null
    says "write file:$dir/one/a %25b/locks"
    exits 0 holdfast -S "file:$dir/one/a %25b/locks" run x -- true
    [[ -e locks/store ]]
}

@test "a relative store on a terminal: used, shown by its whole path, and warned of" {
    # shellcheck disable=SC2016 # for that shell
    script -qec 'holdfast -S file:locks run x -- sh -c "echo child \$HOLDFAST_STORE"; holdfast -S file:locks ls --json 2>/dev/null' \
        /dev/null </dev/null >seen
    cat seen
    grep -q "is relative: here it is file:$dir/locks, elsewhere" seen
    grep -q "child file:$dir/locks" seen
    grep -q "\"store\": \"file:$dir/locks\"" seen
}

@test "init: private, and for a group; its members share, everybody else is refused" {
    local group url
    exits 0 holdfast init mine
    says "file:$dir/mine"
    [[ $(stat -c %a mine) == 700 ]]
    [[ $(holdfast init mine --json | jq -r .store) == "file:$dir/mine" ]] # again is no harm
    need_root
    open_to_all
    group=$(getent group 12 | cut -d: -f1)
    url=$(holdfast -q init --group "$group" ours)
    [[ $url == "file:$dir/ours?shared=group" ]]
    [[ $(stat -c '%a %g' ours) == "2770 12" ]]
    [[ $(stat -c '%a %g' ours/control) == "660 12" ]]
    # What was private becomes the group's, with its files.
    holdfast init --group "$group" mine
    [[ $(stat -c '%a %g' mine/store) == "660 12" ]]

    export HOLDFAST_STORE=$url
    begin holdfast run x -- sh -c 'echo "$HOLDFAST_STORE" >"$0"; exec sleep 1000' "$dir/held"
    eventually test -s "$dir/held"
    [[ $(cat held) == "$url" ]]
    exits 75 as 65534 12 holdfast run -n x -- true
    exits 77 as 65534 65534 holdfast run -n x -- true
    says "it is for the members of group $group"
    says "from the next login on"
    exits 77 as 65534 12 holdfast -S "${url%\?*}" run -n x -- true
    says "shared=group"
    holdfast doctor | grep "shared by user root and the members of group $group"
}

@test "init --group: a file that has another name is not opened to the group" {
    need_root
    holdfast -q init mine
    : >elsewhere
    chmod 600 elsewhere
    ln elsewhere mine/more
    exits 77 holdfast init --group "$(getent group 12 | cut -d: -f1)" mine
    says "mine/more has another name, too (a hard link): nothing was changed"
    [[ $(stat -c '%a %g' elsewhere) == "600 0" && $(stat -c '%a %g' mine/store) == "600 0" && $(stat -c %a mine) == 700 ]]
    rm mine/more
    exits 0 holdfast init --group "$(getent group 12 | cut -d: -f1)" mine
}

@test "init: what is no store's directory is left alone" {
    mkdir full open
    : >full/file
    exits 78 holdfast init full
    says "not empty"
    [[ $(stat -c %a full) == 755 ]]
    exits 78 holdfast init --group no-such-group new
    [[ ! -e new ]]
    exits 64 holdfast init
    exits 64 holdfast init "file:$dir/new"
    says "'file:$dir/new' is a URL: give its directory"
    [[ ! -e new ]]
    chmod 1777 open
    : >open/store
    exits 77 holdfast init open
    says "copy 'store' and 'cells.mdb'"
}

@test "the default: the user's own, also under another HOME; what the site says; the one of before" {
    need_root
    # All in a mount namespace of its own, where /etc/holdfast and /var/lib are empty and root's home is ours.
    cat >inside <<'END'
set -eux
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
mkdir -p "$dir/etc/holdfast" "$dir/home"
cp -a /etc/passwd /etc/group /etc/nsswitch.conf "$dir/etc/"
cp -aL /etc/ld.so.cache "$dir/etc/" || true
home=$dir/home
sed -i "s#^\(root:[^:]*:0:0:[^:]*\):[^:]*:#\1:$home:#" "$dir/etc/passwd"
mount --bind "$dir/etc" /etc
mount -t tmpfs none /var/lib
mine=file:$home/.local/state/holdfast
unset HOLDFAST_STORE
store() { holdfast -q doctor --json | jq -r .store; }

[ "$(store)" = "$mine" ]
[ ! -e "$home/.local/state/holdfast" ]
[ "$(HOME=/nowhere XDG_STATE_HOME=/nowhere XDG_RUNTIME_DIR=/nowhere store)" = "$mine" ]
holdfast run x -- true
[ "$(stat -c %a "$home/.local/state/holdfast")" = 700 ]

# The default of an older version, in use (by us, for this version does not use it otherwise).
mkdir -m 700 /var/lib/holdfast
holdfast -S file:/var/lib/holdfast run x -- sleep 1000 &
until [ "$(holdfast -S file:/var/lib/holdfast show x --json | jq '.holders | length')" = 1 ]; do sleep 0.05; done
code=0; holdfast run -n x -- true 2>err || code=$?
cat err
[ "$code" = 78 ]
grep -q 'uses the one of before, /var/lib/holdfast' err
holdfast -S "$mine" run -n x -- true
kill -KILL $!
wait || true
holdfast run -n x -- true
holdfast -v run -n x -- true 2>err
grep -q 'another store in /var/lib/holdfast' err
code=0; holdfast doctor >found || code=$?
grep 'default: an older version' found
[ "$code" -ge 1 ]

# What the administrator says.
echo '# for all
  file:/var/lib/holdfast?shared=group' >/etc/holdfast/store
[ "$(store)" = 'file:/var/lib/holdfast?shared=group' ]
chmod 666 /etc/holdfast/store
code=0; holdfast run x -- true 2>err || code=$?
[ "$code" = 78 ]
grep -q 'must belong to root' err
chmod 644 /etc/holdfast/store
chown 65534 /etc/holdfast/store
code=0; holdfast run x -- true || code=$?
[ "$code" = 78 ]
rm /etc/holdfast/store
mkfifo /etc/holdfast/store
code=0; timeout 20 holdfast run x -- true || code=$?
[ "$code" = 78 ]
rm /etc/holdfast/store
for wrong in redis://127.0.0.1/ file: file:locks 'file:/a?nonsense=1' ''; do
    echo "$wrong" >/etc/holdfast/store
    code=0; holdfast run x -- true || code=$?
    [ "$code" = 78 ]
done
END
    unshare -m true || skip "no mount namespaces"
    export dir
    unshare -m --propagation private bash inside
}

@test "a user whose home cannot be written to: told to name a store, and doctor says it before the first lock" {
    need_root
    # Like most users of Debian's services, nobody has no home.
    [[ $(getent passwd nobody) == *:/nonexistent:* ]] || skip "nobody has a home"
    [[ ! -e /etc/holdfast/store ]] || skip "this machine has a default store"
    unset HOLDFAST_STORE
    open_to_all
    exits 77 as nobody nogroup holdfast run x -- true
    says "cannot make directory /nonexistent: Permission denied"
    says "name another store, for example with HOLDFAST_STORE"
    exits 2 as nobody nogroup holdfast doctor
    says "this user cannot create it"
    says "HOLDFAST_STORE"
}

@test "doctor, of a directory that cannot be made: bad" {
    exits 2 holdfast doctor "file:$dir/no/such"
    says "its parent directory is not there"
    exits 1 holdfast doctor "file:$dir/such"
    : >plain
    exits 78 holdfast doctor "file:$dir/plain/x"
    need_root
    open_to_all
    exits 2 as nobody nogroup holdfast doctor "file:/var/lib/nobodys"
    says "/var/lib: Permission denied"
}

@test "another user's store: said whose it is, and how to share one" {
    need_root
    exits 0 holdfast -S "file:$dir/mine" run x -- true
    open_to_all
    exits 77 as nobody nogroup holdfast -S "file:$dir/mine" ls
    says "it belongs to user root"
    says "holdfast init --group"
    chmod 755 mine # a user who may enter the directory learns the same
    exits 77 as nobody nogroup holdfast -S "file:$dir/mine" ls
    says "it belongs to user root"
    says "holdfast init --group"
}
