/* SPDX-License-Identifier: MIT */
/* The list of all measurements, in the order in which they run. */
#include "measures.h"

const struct measure measures[] = {
    { "pair", "uncontended acquire+release, one thread", measure_pair },
    { "handoff", "eight processes on one name, FIFO", measure_handoff },
    { "passes", "sixteen threads of one process on one name", measure_passes },
    { "quiet", "what a waiting process does while it waits", measure_quiet },
    { "many", "acquire+release while very many names are held", measure_many },
    { "command", "holdfast run x -- true", measure_command },
    { "async", "many acquisitions in flight from one thread", measure_async },
    { 0 },
};
