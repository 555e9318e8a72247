/* SPDX-License-Identifier: MIT */
/* The list of experiments. */
#include "../lab.h"

#define EXPERIMENT(name) extern const struct experiment experiment_##name;
#include "experiments.def"
#undef EXPERIMENT

const struct experiment *const experiments[] = {
#define EXPERIMENT(name) &experiment_##name,
#include "experiments.def"
#undef EXPERIMENT
    NULL
};
