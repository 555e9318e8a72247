#include <holdfast/holdfast.h>
#include <poll.h>

void serve(int socket);

void serve_while_held(hf_lease *lease, int socket)
{
    struct pollfd fds[] = { { .fd = socket, .events = POLLIN }, { .fd = hf_lease_fd(lease), .events = POLLIN } };
    hf_lease_info info = HF_LEASE_INFO_INIT;

    while (poll(fds, 2, -1) > 0) {
        if (fds[1].revents && (hf_lease_get(lease, &info) != HF_OK || info.state == HF_STATE_LOST))
            return;
        if (fds[0].revents)
            serve(socket);
    }
}
