/* SPDX-License-Identifier: MIT */
/*
 * `holdfast lab`: what goes wrong with locks, replayed on real servers and drawn.
 *
 * An *experiment* has two or more *ways* to do the same thing: the naive one first, ours last. A way is *played*: client processes
 * (actors) run real code against real servers, and note in a shared history what they believe, read and write. A checker then reads
 * the history and says whether it broke. Nothing here is a script of what would happen.
 *
 *   lab/stage/   history, actors, servers; rules that a checker asks
 *   lab/play/    the experiments, a file each; the code between "shown" marks is drawn beside the picture
 *   lab/draw/    a scene (made of a history) or a plot, as text for a terminal, SVG or HTML
 */
#ifndef LAB_H
#define LAB_H

#include "draw/plot.h"
#include "draw/scene.h"
#include "phrase.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct stage;

#define WAYS_MAX  5
#define STEPS_MAX 7

/* What a checker found in one run of one way. */
struct verdict {
    bool broken;
    bool unclear; /* it did not come to its end: nothing is known; `text` says why */
    char text[LANGS]
             [320]; /* a sentence with its figures: "2 sold, but the stock went from 20 to 19." */
};

/* Format the sentence in both languages; the formats take the same arguments in the same order. */
#define verdict_say(verdict, en, zh, ...)                                           \
    (snprintf((verdict)->text[LANG_EN], sizeof(verdict)->text[0], en, __VA_ARGS__), \
     snprintf((verdict)->text[LANG_ZH], sizeof(verdict)->text[0], zh, __VA_ARGS__))

struct way {
    struct phrase title; /* "Naive", "With fencing" */
    struct phrase note;  /* "a lock with an expiry, nothing else" */
    bool breaks;         /* the experiment is about this: it should break. false: it must not */
    bool ours;           /* Holdfast's; drawn as such */
    struct phrase lapse; /* where a lease ends under its holder: "evicted"; none: "lease expires" */
    unsigned capacity;   /* how many may hold at once; 0: one */
    const char *shown;   /* its code: the name after "shown:" in a file of lab/play */

    /* One run. The actors of a stage and its history are fresh; servers of the experiment are up, and their data is empty. */
    void (*play)(struct stage *stage);
    void (*judge)(struct stage *stage, struct verdict *verdict);
    /* From top to bottom; the last has kind LANE_END. */
    const struct lane *lanes;
};

#define WAYS_END                    \
    {                               \
        .title = PHRASE(NULL, NULL) \
    }

/* What has to be installed, for messages; a set of bits. */
enum need {
    NEED_REDIS = 1,
    NEED_POSTGRES = 2,
    NEED_MARIADB = 4,
    NEED_ZOOKEEPER = 8,
    NEED_ETCD = 16,
    NEED_MEMCACHED = 32,
};

struct experiment {
    const char *id;      /* "pause": what is typed */
    struct phrase title; /* "A process is paused past its lease" */
    /* "ttl 3s, SIGSTOP for 5s, two clients sell one piece each from a stock of 20" */
    struct phrase setting;
    unsigned needs;                 /* enum need */
    bool own_servers;               /* it hurts its servers: --store is refused */
    struct phrase steps[STEPS_MAX]; /* what the numbers in the picture mean; the last are empty */
    struct phrase why;              /* two sentences */
    const struct way *ways;         /* up to WAYS_MAX, naive first; the last has no title */

    /* Start what all ways share (servers), and stop it. Main thread. NULL: a Redis server, or nothing without NEED_REDIS. */
    void (*open)(struct stage *stage);
    void (*close)(struct stage *stage);
    /* Instead of scenes: measure all ways into a plot, with their verdicts; play and judge of the ways are NULL. */
    void (*measure)(struct stage *stage, struct plot *plot, struct verdict verdicts[WAYS_MAX]);
};

/* All of them, in the order of the seeds; NULL at the end. */
extern const struct experiment *const experiments[];

/* What was found for one way. */
struct finding {
    struct verdict verdict; /* of the run that is drawn */
    unsigned runs, broke, unclear;
    struct scene scene; /* empty if there is a plot */
};

/* What the pictures are made of. */
struct report {
    const struct experiment *experiment;
    char server[96]; /* "redis-server 7.0.15 of its own" */
    size_t ways;
    struct finding findings[WAYS_MAX];
    struct plot plot; /* charts == 0: scenes */
};

/* Did it go as the experiment says: what should break broke, and nothing else did? */
bool report_as_told(const struct report *report);

/* The code of a way as it stands in the source, without its indentation; NULL: there is none of that name. Made by the build. */
const char *shown_code(const char *name, enum lang lang);

/* ---- pictures ----------------------------------------------------------------------------------- */

struct look {
    enum lang lang;
    int columns; /* of the terminal, at least 80 */
    bool utf8, color;
    bool light; /* its ground is light */
    bool code;  /* print the code of each way too */
};

/* The look of standard output: how wide it is, whether it is a terminal with colours, what the locale can show, which must be set. */
void look_init(struct look *look);

void draw_terminal(FILE *out, const struct report *report, const struct look *look);
void draw_svg(FILE *out, const struct report *report, enum lang lang);
/* Self-contained: picture, code, steps to click through, in both languages, the given one first. */
void draw_html(FILE *out, const struct report *report, enum lang lang);
/* DIR/index.html and for each report DIR/ID.svg, DIR/ID.zh.svg and DIR/ID.html. false: errno, and `failed` names the file. */
bool draw_gallery(const char *dir, const struct report *const *reports, size_t count,
                  enum lang lang, char failed[256]);

#endif
