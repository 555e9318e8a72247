#!/usr/bin/env bats
# run --log json and --metrics-file: what a log and a scrape see of a run.
load helper

# metric NAME: its value in $dir/job.prom.
metric() { sed -n "s/^holdfast_run_$1{[^}]*} //p" "$dir/job.prom"; }

# Is the file what Prometheus reads?
checked() { ! command -v promtool >/dev/null || promtool check metrics <"$dir/job.prom"; }

@test "--log json: every line of ours is an object with a time, in order" {
    make_store
    exits 3 holdfast run job -v --log json -- sh -c 'exit 3'
    jq -es 'all(.time | test("^[0-9-]{10}T[0-9:.]{12}Z$"))' <<<"$output"
    [[ $(jq -rs '[.[] | select(.event != "message") | .event] | join(" ")' <<<"$output") == "acquired started exited released" ]]
    jq -es '(.[] | select(.event == "acquired")) | .name == "job" and (.token | test("^[0-9]+$")) and .waited_ms >= 0' <<<"$output"
    jq -es '(.[] | select(.event == "exited")) | .status == 3' <<<"$output"
    jq -es '(.[] | select(.event == "released")) | .held_ms >= 0' <<<"$output"
    jq -es 'any(.event == "message" and (.text | contains("acquired")))' <<<"$output"
}

@test "--log json: a name that is busy" {
    make_store
    exits 75 holdfast run job --also other -- holdfast run other --also third -n --log json -- true
    jq -es 'all(.event)' <<<"$output"
    jq -es '(.[] | select(.event == "not_acquired")) | .name == "other" and .status == 75' <<<"$output"
    exits 64 holdfast run job --log xml -- true
    says "log"
}

@test "--metrics-file: how it went, replaced in one step" {
    make_store
    echo old >job.prom
    exits 3 holdfast run job --metrics-file "$dir/job.prom" -- sh -c 'exit 3'
    checked
    [[ $(metric acquired) == 1 && $(metric lost) == 0 && $(metric exit_code) == 3 ]]
    [[ $(metric end_time_seconds) =~ ^[0-9]{10}(\.[0-9]{1,3})?$ ]]
    [[ -n $(metric wait_seconds) && -n $(metric hold_seconds) ]]
    [[ $(echo job.prom*) == job.prom ]] # nothing is left beside it
    [[ $(stat -c %a job.prom) == "$(printf '%o' $((0666 & ~$(umask))))" ]]
}

@test "--metrics-file: a name that was not acquired, and a store that is away" {
    make_store
    exits 75 holdfast run job --also other -- holdfast run other --also third -n --metrics-file "$dir/job.prom" -- true
    checked
    [[ $(metric acquired) == 0 && $(metric exit_code) == 75 && $(metric hold_seconds) == 0 ]]
    rm job.prom
    exits 69 holdfast run job -S redis://127.0.0.1:1 --open-timeout 100ms --metrics-file "$dir/job.prom" -- true
    checked
    [[ $(metric acquired) == 0 && $(metric exit_code) == 69 ]]
}

@test "--metrics-file: hostile names, and a file that cannot be written" {
    make_store
    exits 0 holdfast run $'a"} 1\nb\\c\xff' --metrics-file "$dir/job.prom" -- true
    checked
    [[ $(grep -c '^holdfast_run_' job.prom) == 6 && $(grep -vc '^#' job.prom) == 6 ]]
    exits 5 holdfast run job --metrics-file "$dir/nosuch/job.prom" -- sh -c 'exit 5'
    says "was not written"
    exits 64 holdfast run job --metrics-file '' -- touch began
    says "metrics-file"
    [[ ! -e began ]]
}
