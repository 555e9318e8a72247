/* SPDX-License-Identifier: MIT */
/* The sources of a reactor: in its table, their descriptors and time limits. See reactor.h. With the reactor's lock held. */
#include "engine/kit/reactor.h"

#include "util/alloc.h"

#include <assert.h>
#include <sys/epoll.h>

bool hfi_source_add(struct hfi_source *source, struct hfi_reactor *reactor,
                    const struct hfi_source_calls *calls)
{
    uint32_t slot = 0;

    /* When something is made; no peer has a part in that. */
    assert(!source->reactor);
    while (slot < reactor->source_count && reactor->sources[slot])
        slot++;
    if (slot == reactor->source_room) {
        uint32_t more = reactor->source_room ? 2 * reactor->source_room : 8;
        struct hfi_source **sources = hfi_realloc(reactor->sources, more * sizeof(void *));

        if (!sources)
            return false;
        reactor->sources = sources;
        reactor->source_room = more;
    }
    if (slot == reactor->source_count)
        reactor->source_count++;
    reactor->sources[slot] = source;
    reactor->askers += calls->next_ms != NULL;
    reactor->preparers += calls->prepare != NULL;
    source->calls = calls;
    source->reactor = reactor;
    source->slot = slot;
    source->due_ms = HFI_NEVER;
    source->dirty = false;
    source->awaited = 0;
    return true;
}

void hfi_source_remove(struct hfi_source *source)
{
    struct hfi_reactor *reactor = source->reactor;

    if (!reactor)
        return;
    for (struct hfi_source **at = &reactor->dirty; source->dirty; at = &(*at)->next_dirty)
        if (*at == source) {
            *at = source->next_dirty;
            source->dirty = false;
            break;
        }
    reactor->sources[source->slot] = NULL;
    reactor->askers -= source->calls->next_ms != NULL;
    reactor->preparers -= source->calls->prepare != NULL;
    source->reactor = NULL;
}

bool hfi_source_watch(struct hfi_source *source, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events,
                                 .data.u64 = (uint64_t)source->slot << 32 | (uint32_t)fd };
    int epoll_fd = source->reactor->epoll_fd;

    /* A closed descriptor leaves epoll by itself, and its number may be that of another file
     * now. */
    return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0 ||
           epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void hfi_source_unwatch(struct hfi_source *source, int fd)
{
    (void)epoll_ctl(source->reactor->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void hfi_source_at(struct hfi_source *source, int64_t due_ms)
{
    source->due_ms = due_ms;
    if (due_ms < source->reactor->soonest_ms)
        source->reactor->soonest_ms = due_ms;
}

void hfi_source_by(struct hfi_source *source, int64_t due_ms)
{
    if (due_ms < source->due_ms)
        hfi_source_at(source, due_ms);
}

void hfi_source_dirty(struct hfi_source *source)
{
    if (source->dirty)
        return;
    source->dirty = true;
    source->next_dirty = source->reactor->dirty;
    source->reactor->dirty = source;
}
