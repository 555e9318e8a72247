/* SPDX-License-Identifier: MIT */
/* An actor's side of a play: what it notes, and what it waits for. In the actor's process. */
#include "stage.h"

#include "../../test/lib/server.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

void note_event(struct actor *me, struct event event)
{
    event.lane = (int16_t)me->lane;
    history_add(me->stage->history, event);
}

void note(struct actor *me, enum event_kind kind)
{
    note_event(me, (struct event){ .kind = (uint8_t)kind, .other = -1 });
}

void note_got(struct actor *me, uint64_t token)
{
    note_event(me, (struct event){ .kind = EV_GOT, .other = -1, .token = token });
}

void note_lock(struct actor *me, enum event_kind kind, int lane, uint64_t token)
{
    note_event(me, (struct event){ .kind = (uint8_t)kind, .other = (int16_t)lane, .token = token });
}

void note_read(struct actor *me, int lane, int64_t value)
{
    note_event(me, (struct event){ .kind = EV_READ, .other = (int16_t)lane, .value = value });
}

void note_claim(struct actor *me, int lane, uint64_t token, int64_t value)
{
    note_event(me, (struct event){
                       .kind = EV_CLAIM, .other = (int16_t)lane, .token = token, .value = value });
}

void note_write(struct actor *me, int lane, int64_t value, uint64_t token)
{
    note_event(me, (struct event){
                       .kind = EV_WRITE, .other = (int16_t)lane, .value = value, .token = token });
}

void note_refused(struct actor *me, int lane, uint64_t token, uint64_t highest)
{
    note_event(me, (struct event){ .kind = EV_REFUSED,
                                   .other = (int16_t)lane,
                                   .value = (int64_t)highest,
                                   .token = token });
}

void note_step(struct actor *me, int step, bool bad)
{
    if (step == 0)
        return;
    note_event(me, (struct event){ .kind = EV_STEP, .other = -1, .value = step, .bad = bad });
}

void note_text(struct actor *me, const struct phrase *text)
{
    note_event(me, (struct event){ .kind = EV_NOTE, .other = -1, .text = text });
}

void note_signal(struct actor *me, int64_t value)
{
    note_event(me, (struct event){ .kind = EV_SIGNAL, .other = -1, .value = value });
}

void actor_fails(struct actor *me, const char *format, ...)
{
    char *said = me->stage->said;
    va_list args;

    if (!atomic_load(&me->stage->history->stopped)) {
        int used = snprintf(said, SAID_ROOM, "client %s: ", me->id);

        va_start(args, format);
        vsnprintf(said + used, SAID_ROOM - (size_t)used, format, args);
        va_end(args);
        history_stop(me->stage->history);
    }
    _exit(1);
}

void await(struct actor *me, int lane, enum event_kind kind, unsigned count)
{
    if (!history_await(me->stage->history, lane, kind, count, AWAIT_MS))
        actor_fails(me, "event %d of lane %d did not come", (int)kind, lane);
}

void await_signal(struct actor *me, int64_t value)
{
    if (!history_await_signal(me->stage->history, value, AWAIT_MS))
        actor_fails(me, "signal %lld did not come", (long long)value);
}

void work(struct actor *me, int64_t ms)
{
    (void)me;
    sleep_ms(ms);
}

void again(struct actor *me, int64_t ms)
{
    note(me, EV_TRY);
    sleep_ms(ms);
}

void again_at(struct actor *me, int lane, int64_t ms)
{
    note_lock(me, EV_TRY, lane, 0);
    sleep_ms(ms);
}

void pause_point(struct actor *me)
{
    if (me->number != 0)
        return;
    note_signal(me, SIGNAL_AT_PAUSE + me->lane);
    await_signal(me, SIGNAL_PAUSE_OVER + me->lane);
}
