#include <holdfast/holdfast.h>

void move_money(const char *from, const char *to);

hf_status transfer(hf_store *store, const char *from, const char *to, hf_error *err)
{
    hf_acquire_request both[2] = { HF_ACQUIRE_REQUEST_INIT, HF_ACQUIRE_REQUEST_INIT };
    hf_lease *leases[2];
    hf_status status;

    both[0].name = from;
    both[1].name = to;
    both[0].name_len = both[1].name_len = HF_CSTRING;
    both[0].wait_ms = both[1].wait_ms = 5000;
    status = hf_acquire_all(store, both, 2, leases, err);
    if (status != HF_OK)
        return status;
    move_money(from, to);
    return hf_release_all(leases, 2, err);
}
