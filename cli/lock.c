/* SPDX-License-Identifier: MIT */
/*
 * `holdfast lock NAME`: a lease that outlives this command. Any process with its handle can release
 * it. If the handle could not be printed, nobody has it, so the lease is released.
 */
#include "acquire.h"
#include "keeper.h"
#include "table.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TTL_DEFAULT_MS 30000

static int print_lease(const struct cli *cli, hf_lease *lease, const char *handle,
                       const struct keeper *keeper)
{
    const char *name = cli->args.name;
    hf_lease_info info = HF_LEASE_INFO_INIT;
    json_t *object;

    if (!cli->args.json) {
        puts(handle);
        return out_finish(cli);
    }
    object = json_object();
    json_set_name(object, name, strlen(name));
    json_object_set_new(object, "token", json_u64(hf_lease_token(lease)));
    if (hf_lease_get(lease, &info) != HF_OK)
        info.slot_count = 0;
    json_object_set_new(object, "slots", json_slots(info.slots, info.slot_count));
    json_object_set_new(object, "handle", json_string(handle));
    json_object_set_new(object, "ttl_ms", json_i64(cli->args.ttl_ms));
    json_object_set_new(object, "keeper_pid",
                        keeper->to >= 0 ? json_integer(keeper->pid) : json_null());
    json_print(object, true);
    return out_finish(cli);
}

/* Everything after the grant: if any of it fails, the lease is released. */
static int hand_out(const struct cli *cli, hf_lease *lease, struct keeper *keeper)
{
    char handle[HF_LEASE_TEXT_MAX];
    hf_status status = hf_lease_export(lease, handle);
    int code;

    if (status != HF_OK) {
        say_error("no handle: %s", hf_status_text(status));
        return exit_of(status);
    }
    code = keeper->to >= 0 ? keeper_hand_over(keeper, handle) : EXIT_FINE;
    if (code == EXIT_FINE)
        code = print_lease(cli, lease, handle, keeper);
    return code;
}

/* This process ends in a moment, so the label names the process that the lease is for, and its machine. */
static const char *label_for(pid_t pid)
{
    static char label[HF_LABEL_MAX + 1];
    char path[64], comm[32] = "", host[65] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    if (file && fgets(comm, sizeof comm, file))
        comm[strcspn(comm, "\n")] = '\0';
    if (file)
        fclose(file);
    gethostname(host, sizeof host - 1);
    snprintf(label, sizeof label, "%s:%d %s", host, (int)pid, comm);
    return label;
}

int verb_lock(struct cli *cli)
{
    struct keeper keeper = { .to = -1, .from = -1 };
    struct cli_store store;
    struct signals signals;
    struct status_out nobody = { .outlet = OUTLET_INIT(-1) };
    struct acquiring acquiring = {
        .cli = cli, .store = &store, .signals = &signals, .status = &nobody
    };
    hf_lease *lease;
    int code = need_name(cli);

    if (code == EXIT_FINE)
        code = acquire_check(cli);
    if (code == EXIT_FINE && cli->stdout_closed)
        code = out_finish(cli);
    if (!cli->args.ttl_ms)
        cli->args.ttl_ms = TTL_DEFAULT_MS;
    if (code == EXIT_FINE && cli->args.for_pid > 0)
        code = keeper_begin(cli, cli->args.for_pid, &keeper);
    say_without_waiting(); /* not before the fork: it has a thread */
    if (code == EXIT_FINE)
        code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE)
        return code;

    if (!signals_open(&signals)) {
        say_error("no descriptor for signals: %s", strerror(errno));
        store_close(&store);
        return EXIT_INTERNAL;
    }
    acquiring.request = acquire_request(cli);
    if (!acquiring.request.label && cli->args.for_pid > 0)
        acquiring.request.label = label_for((pid_t)cli->args.for_pid);
    acquiring.request.flags |= HF_FLAG_DETACHED | HF_FLAG_NO_RENEW;
    if (acquire(&acquiring, &lease, &code)) {
        code = hand_out(cli, lease, &keeper);
        if (code != EXIT_FINE)
            hf_release(lease, NULL);
    }
    store_leave(&store);
    if (acquiring.ended_by.typed) {
        say_drain();
        signals_die(acquiring.ended_by.number, false);
    }
    return code;
}
