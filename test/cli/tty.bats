#!/usr/bin/env bats
# On a terminal: terminal.py has the scenarios, each as a function with this name.
load helper

scenario() { timeout 110 python3 "$BATS_TEST_DIRNAME/terminal.py" "$1"; }

@test "the command can read from the terminal" {
    scenario reads
}

@test "Ctrl-C ends the command, and us by the same signal; the name is free" {
    scenario ctrl_c
}

@test "a command that handles Ctrl-C goes on, and its status counts" {
    scenario ctrl_c_handled
}

@test "Ctrl-C while we wait leaves the queue" {
    scenario ctrl_c_while_waiting
}

@test "Ctrl-C while the lease is yielded ends the waiting and the command" {
    scenario ctrl_c_while_away
}

@test "Ctrl-C ends the loop of a script around us, in bash and in dash, as without us" {
    scenario ctrl_c_in_loops
}

@test "a shell shows 130 after Ctrl-C" {
    scenario exit_code_in_shell
}

@test "Ctrl-Z stops the command and us; fg continues both, and the command has the terminal again" {
    scenario ctrl_z
}

@test "Ctrl-Z stops a script around us too: else its shell would seem to hang" {
    scenario ctrl_z_script
}

@test "Ctrl-Z while we wait leaves the queue; fg queues again" {
    scenario ctrl_z_while_waiting
}

@test "where nobody could continue us, Ctrl-Z stops nothing, as without us" {
    scenario orphaned_ctrl_z
}

@test "in a pipeline the command gets the terminal when it first wants it" {
    scenario pipeline_reader
}

@test "... so that a pager behind us can use it" {
    scenario pipeline_pager
}

@test "Ctrl-C in a pipeline ends the command too" {
    scenario pipeline_ctrl_c
}

@test "in the background a command that reads stops the job; fg lets it read" {
    scenario background
}

@test "two runs deep, the innermost command has the terminal; Ctrl-Z and fg work through both" {
    scenario nested
}

@test "Ctrl-S does not keep the command from being ended when the lease is lost" {
    scenario ctrl_s_loss
}

@test "a run that waits under Ctrl-S starts its command when it gets the lock" {
    scenario ctrl_s_waiting
}

@test "SIGTSTP: run stops only when its command has, whatever that does about the signal" {
    scenario tstp_ignored
}

@test "SIGTSTP: a command in the middle of vfork does not keep run from stopping" {
    scenario tstp_in_vfork
}

@test "SIGCONT right behind SIGTSTP is not lost" {
    scenario tstp_then_cont
}

@test "a lease that ran out while we were stopped: the command is ended, not continued" {
    scenario stopped_past_lease
}

@test "a run that waits in the background draws nothing" {
    scenario background_wait
}

@test "what we wait for: holder, age, position; updated, and erased in the end" {
    scenario wait_line
}

@test "with -q there is no line" {
    scenario wait_line_quiet
}

@test "a line says what is being connected to, and goes again" {
    scenario connecting_line
}
