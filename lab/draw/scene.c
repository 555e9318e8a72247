/* SPDX-License-Identifier: MIT */
/*
 * A scene of a history: walks the events in the order of their times, and turns what began and ended into bars. Pure.
 *
 * Two things are concluded here and nowhere noted. A write is *wrong* if the resource was written by another client since this one
 * had read it: that update is lost. A lease *expired* if the server named another owner, or none, while its client still
 * believed to hold; unless another client has just released: then it was that client's.
 */
#include "scene.h"

#include "../lab.h"
#include "../stage/history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_MS 30.0 /* a wait that is shorter is not drawn */
#define RELEASE_MS \
    80.0 /* within this time after a release the server's change is taken for its result */
#define TOKENS_MAX 32
#define TOKEN_FIRST \
    33 /* tokens have 16 digits; the pictures number them from here, in their order */
#define NEVER (-1.0)

/* What is open in a lane. */
struct open {
    int client;      /* -1: no client */
    double asked;    /* waits since; NEVER */
    double holds;    /* the present bar began; NEVER */
    double believes; /* NEVER */
    double paused;   /* NEVER */
    double dead;     /* NEVER */
    double let;      /* the last release; NEVER */
    int tries;
    unsigned locks;  /* of several, by the lanes of their servers: those that it has */
    bool several;    /* it has named one: a belief in "the lock" says nothing then */
    int uses;        /* the server that it asks; -1: all */
    int owner;       /* of a server: lane; -1 */
    double owned;    /* since */
    uint64_t token;  /* of that owner */
    int64_t value;   /* of a resource */
    double valued;   /* since; NEVER */
    bool bad;        /* that value is wrong */
    unsigned writes; /* to a resource, so far */
    unsigned seen
        [LANES_MAX]; /* of a client: `writes` of each resource when it read it last, by others than itself */
    bool read[LANES_MAX];
};

struct walk {
    struct scene *scene;
    const struct way *way;
    struct open open[LANES_MAX];
    uint64_t tokens[TOKENS_MAX];
    size_t token_count;
    uint64_t highest;
    int believers;
    double crowded; /* more than may believe, since; NEVER */
};

#define say(label, en, zh, ...)                               \
    (snprintf((label)[LANG_EN], LABEL_ROOM, en, __VA_ARGS__), \
     snprintf((label)[LANG_ZH], LABEL_ROOM, zh, __VA_ARGS__))

static void words(char (*label)[LABEL_ROOM], const char *en, const char *zh)
{
    snprintf(label[LANG_EN], LABEL_ROOM, "%s", en);
    snprintf(label[LANG_ZH], LABEL_ROOM, "%s", zh);
}

static void label_of(char (*label)[LABEL_ROOM], const struct phrase *text)
{
    words(label, phrase(text, LANG_EN), phrase(text, LANG_ZH));
}

/* ---- tokens ------------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void add_token(struct walk *walk, uint64_t token)
{
    if (token == 0 || walk->token_count == TOKENS_MAX)
        return;
    for (size_t i = 0; i < walk->token_count; i++)
        if (walk->tokens[i] == token)
            return;
    walk->tokens[walk->token_count++] = token;
}

static void collect_tokens(struct walk *walk, const struct event **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_token(walk, list[i]->token);
    qsort(walk->tokens, walk->token_count, sizeof walk->tokens[0], by_size);
}

static uint64_t short_token(const struct walk *walk, uint64_t token)
{
    for (size_t i = 0; i < walk->token_count; i++)
        if (walk->tokens[i] == token)
            return TOKEN_FIRST + i;
    return 0;
}

/* ---- parts -------------------------------------------------------------------------------------------- */

static struct bar *add_bar(struct walk *walk, enum bar_kind kind, int lane, double from, double to)
{
    static struct bar spare; /* what does not fit is not drawn */
    struct scene *scene = walk->scene;
    struct bar *bar = scene->bar_count < SCENE_BARS ? &scene->bars[scene->bar_count++] : &spare;

    *bar = (struct bar){
        .kind = kind, .lane = lane, .client = walk->open[lane].client, .from_ms = from, .to_ms = to
    };
    return bar;
}

static struct arrow *add_arrow(struct walk *walk, enum arrow_kind kind, int from, int to,
                               int client, double at)
{
    static struct arrow spare;
    struct scene *scene = walk->scene;
    struct arrow *arrow =
        scene->arrow_count < SCENE_ARROWS ? &scene->arrows[scene->arrow_count++] : &spare;

    *arrow = (struct arrow){ .kind = kind, .from = from, .to = to, .client = client, .at_ms = at };
    return arrow;
}

static struct mark *add_mark(struct walk *walk, enum mark_kind kind, int lane, double at)
{
    static struct mark spare;
    struct scene *scene = walk->scene;
    struct mark *mark =
        scene->mark_count < SCENE_MARKS ? &scene->marks[scene->mark_count++] : &spare;

    *mark = (struct mark){ .kind = kind, .lane = lane, .at_ms = at };
    return mark;
}

/* The places of a semaphore are lanes of one server: an arrow goes to the one that the client has; or to the nearest, of the free ones if there are
 * any. */
static int nearest_place(const struct walk *walk, int lane)
{
    int nearest = -1, least = 0, cost;

    for (int i = 0; i < walk->scene->lane_count; i++) {
        if (walk->scene->lanes[i].kind != LANE_SERVER)
            continue;
        if (walk->open[i].owner == lane)
            return i;
        cost = abs(i - lane) + (walk->open[i].owner >= 0 ? LANES_MAX : 0);
        if (nearest < 0 || cost < least) {
            nearest = i;
            least = cost;
        }
    }
    return nearest;
}

/* The servers of the way: arrows of a client go to all of them; to the one that keeps the lock `only`; or to the one that it uses. */
static void to_servers(struct walk *walk, enum arrow_kind kind, int lane, int only, double at)
{
    if (only < 0)
        only = walk->way->capacity > 1 ? nearest_place(walk, lane) : walk->open[lane].uses;
    for (int i = 0; i < walk->scene->lane_count; i++) {
        bool grants = kind == ARROW_GRANT;

        if (walk->scene->lanes[i].kind == LANE_SERVER && (only < 0 || only == i))
            add_arrow(walk, kind, grants ? i : lane, grants ? lane : i, walk->open[lane].client,
                      at);
    }
}

/* ---- what clients do ------------------------------------------------------------------------------------ */

static unsigned lock_bit(const struct event *event)
{
    return event->other < 0 ? 0 : 1u << event->other;
}

static void believe(struct walk *walk, int change, double at)
{
    struct scene *scene = walk->scene;
    int may = walk->way->capacity ? (int)walk->way->capacity : 1;
    bool was = walk->believers > may;

    walk->believers += change;
    if (!was && walk->believers > may)
        walk->crowded = at;
    if (was && walk->believers <= may && scene->overlap_count < SCENE_OVERLAPS)
        scene->overlaps[scene->overlap_count++] =
            (struct overlap){ walk->crowded, at, walk->way->breaks || !walk->way->ours };
}

/* The bar of a holder that runs. */
static void end_hold_bar(struct walk *walk, int lane, double at)
{
    struct open *open = &walk->open[lane];
    struct bar *bar;

    if (open->holds >= 0 && at > open->holds) {
        bar = add_bar(walk, BAR_HOLDS, lane, open->holds, at);
        say(bar->label, "%c holds", "%c 持有", 'A' + open->client);
    }
    open->holds = NEVER;
}

static void end_wait(struct walk *walk, int lane, double at)
{
    struct open *open = &walk->open[lane];
    struct bar *bar;

    if (open->asked >= 0 && at - open->asked >= SHORT_MS) {
        bar = add_bar(walk, BAR_WAITS, lane, open->asked, at);
        if (open->tries == 1)
            words(bar->label, "tries again", "重试一次");
        else if (open->tries > 1)
            say(bar->label, "tries, %d times", "重试 %d 次", open->tries);
        else
            words(bar->label, "waits", walk->way->ours ? "排队等待" : "等待"); /* no queue: 等待 */
    }
    open->asked = NEVER;
    open->tries = 0;
    if (open->believes >= 0 && open->holds < 0 && open->paused < 0)
        open->holds = at; /* it had waited with another lock in its hands */
}

/* A holder that waits, for another lock or for its own, does not work: its bar ends. */
static void asks(struct walk *walk, const struct event *event, double at)
{
    struct open *open = &walk->open[event->lane];

    end_hold_bar(walk, event->lane, at);
    open->asked = at;
    to_servers(walk, ARROW_ASK, event->lane, event->other, at);
}

static void end_belief(struct walk *walk, int lane, double at)
{
    struct open *open = &walk->open[lane];
    struct scene *scene = walk->scene;

    end_hold_bar(walk, lane, at);
    if (open->believes < 0)
        return;
    if (scene->belief_count < SCENE_BELIEFS && !open->several)
        scene->beliefs[scene->belief_count++] =
            (struct belief){ lane, open->client, open->believes, at };
    open->believes = NEVER;
    believe(walk, -1, at);
}

static void got(struct walk *walk, const struct event *event, double at)
{
    int lane = event->lane;
    struct open *open = &walk->open[lane];
    bool waited = open->asked >= 0 && at - open->asked >= SHORT_MS;

    if (waited)
        to_servers(walk, ARROW_GRANT, lane, event->other, at);
    end_wait(walk, lane, at);
    open->locks |= lock_bit(event);
    open->several |= open->locks != 0;
    if (open->believes >= 0)
        return; /* again: it has it */
    open->holds = open->believes = at;
    believe(walk, 1, at);
}

/* It believes to hold as long as one of its locks is left. */
static void lets(struct walk *walk, const struct event *event, double at)
{
    struct open *open = &walk->open[event->lane];

    to_servers(walk, ARROW_LET, event->lane, event->other, at);
    open->let = at;
    open->locks &= ~lock_bit(event);
    if (open->locks == 0)
        end_belief(walk, event->lane, at);
}

static void end_pause(struct walk *walk, int lane, double at)
{
    struct open *open = &walk->open[lane];
    struct bar *bar;
    bool client = walk->scene->lanes[lane].kind == LANE_CLIENT;

    if (open->paused < 0)
        return;
    bar = add_bar(walk, BAR_PAUSED, lane, open->paused, at);
    if (client)
        say(bar->label, "paused (SIGSTOP), %.1fs", "暂停（SIGSTOP）%.1fs",
            (at - open->paused) / 1000);
    else
        say(bar->label, "stopped, %.1fs", "停顿 %.1fs", (at - open->paused) / 1000);
    open->paused = NEVER;
    if (open->believes >= 0)
        open->holds = at;
}

static void killed(struct walk *walk, int lane, double at)
{
    struct open *open = &walk->open[lane];
    struct mark *mark = add_mark(walk, MARK_CRASH, lane, at);

    words(mark->label, "killed", "崩溃");
    end_wait(walk, lane, at);
    end_pause(walk, lane, at);
    end_belief(walk, lane, at);
    open->dead = at;
}

/* ---- what they read and write ---------------------------------------------------------------------------- */

static void end_value(struct walk *walk, int lane, double at)
{
    struct open *open = &walk->open[lane];
    struct bar *bar;

    if (open->valued < 0)
        return;
    bar = add_bar(walk, open->bad ? BAR_BAD_VALUE : BAR_VALUE, lane, open->valued, at);
    say(bar->label, "%" PRId64, "%" PRId64, open->value);
    open->valued = NEVER;
}

static void set_value(struct walk *walk, int lane, int64_t value, bool bad, double at)
{
    end_value(walk, lane, at);
    walk->open[lane].value = value;
    walk->open[lane].valued = at;
    walk->open[lane].bad = walk->open[lane].bad || bad;
}

static void saw_token(struct walk *walk, int lane, uint64_t token, double at)
{
    struct scene *scene = walk->scene;

    if (token <= walk->highest)
        return;
    walk->highest = token;
    scene->high_lane = lane;
    if (scene->high_count < SCENE_HIGHS)
        scene->highs[scene->high_count++] = (struct high){ at, short_token(walk, token) };
}

static void reads(struct walk *walk, const struct event *event, double at)
{
    struct open *client = &walk->open[event->lane], *resource = &walk->open[event->other];
    struct arrow *arrow =
        add_arrow(walk, ARROW_READ, event->lane, event->other, client->client, at);

    if (event->token)
        say(arrow->label, "claims with %" PRIu64 ", reads %" PRId64,
            "用令牌 %" PRIu64 " 声明，读到 %" PRId64, short_token(walk, event->token),
            event->value);
    else
        say(arrow->label, "reads %" PRId64, "读到 %" PRId64, event->value);
    client->seen[event->other] = resource->writes;
    client->read[event->other] = true;
    saw_token(walk, event->other, event->token, at);
    if (resource->valued < 0)
        set_value(walk, event->other, event->value, false, 0);
}

static void writes(struct walk *walk, const struct event *event, double at)
{
    struct open *client = &walk->open[event->lane], *resource = &walk->open[event->other];
    bool wrong = event->bad ||
                 (client->read[event->other] && client->seen[event->other] != resource->writes);
    struct arrow *arrow = add_arrow(walk, wrong ? ARROW_WRONG : ARROW_WRITE, event->lane,
                                    event->other, client->client, at);

    if (event->text)
        label_of(arrow->label, event->text);
    else if (wrong)
        say(arrow->label, "late write: %" PRId64, "迟到的写入：%" PRId64, event->value);
    else if (event->token)
        say(arrow->label, "writes %" PRId64 " with %" PRIu64, "写入 %" PRId64 "，令牌 %" PRIu64,
            event->value, short_token(walk, event->token));
    else
        say(arrow->label, "writes %" PRId64, "写入 %" PRId64, event->value);
    resource->writes++;
    client->seen[event->other] = resource->writes;
    saw_token(walk, event->other, event->token, at);
    set_value(walk, event->other, event->value, wrong, at);
}

static void refused(struct walk *walk, const struct event *event, double at)
{
    struct arrow *arrow = add_arrow(walk, ARROW_REFUSED, event->lane, event->other,
                                    walk->open[event->lane].client, at);
    uint64_t highest = event->value > 0 ? (uint64_t)event->value : walk->highest;

    if (event->text)
        label_of(arrow->label, event->text);
    else if (event->token)
        say(arrow->label, "refused: %" PRIu64 " < %" PRIu64, "被拒绝：%" PRIu64 " < %" PRIu64,
            short_token(walk, event->token), short_token(walk, highest));
    else
        words(arrow->label, "refused", "被拒绝");
}

/* ---- what servers say --------------------------------------------------------------------------------------- */

/* The client that released within the last moment, other than `owner`; -1: none. */
static int just_released(const struct walk *walk, int owner, double at)
{
    for (int i = 0; i < walk->scene->lane_count; i++)
        if (i != owner && walk->open[i].let >= 0 && at - walk->open[i].let < RELEASE_MS)
            return i;
    return -1;
}

/* Does the client of `lane` believe to hold the lock that this server keeps? */
static bool believes_in(const struct walk *walk, int lane, int server)
{
    const struct open *open = &walk->open[lane];

    return open->believes >= 0 && (open->locks == 0 || open->locks & 1u << server);
}

static void end_lease(struct walk *walk, int lane, double at, bool over, const struct phrase *why)
{
    static const struct phrase expires = PHRASE("lease expires", "锁到期");
    const struct phrase *lapse = walk->way->lapse.in[LANG_EN] ? &walk->way->lapse : &expires;
    struct open *open = &walk->open[lane];
    struct bar *bar;
    struct mark *mark;
    int by;

    if (open->owner < 0)
        return;
    bar = add_bar(walk, BAR_LEASE, lane, open->owned, at);
    bar->client = walk->open[open->owner].client;
    if (open->token)
        say(bar->label, "%c, token %" PRIu64, "%c，令牌 %" PRIu64, 'A' + bar->client,
            short_token(walk, open->token));
    else
        say(bar->label, "lease of %c", "%c 的锁", 'A' + bar->client);
    if (!over || open->dead >= 0 ||
        (!believes_in(walk, open->owner, lane) && walk->open[open->owner].dead < 0))
        return;
    by = just_released(walk, open->owner, at);
    mark = add_mark(walk, by < 0 && !why ? MARK_EXPIRES : MARK_NOTE, lane, at);
    if (by >= 0 && !why)
        say(mark->label, "deleted by %c", "被 %c 删除", 'A' + walk->open[by].client);
    else
        label_of(mark->label, why ? why : lapse);
}

static void owned(struct walk *walk, const struct event *event, double at)
{
    struct open *open = &walk->open[event->lane];

    if (event->other == open->owner && event->token == open->token)
        return;
    end_lease(walk, event->lane, at, event->other != open->owner, event->text);
    open->owner = event->other;
    open->owned = at;
    open->token = event->token;
}

/* ---- the walk ------------------------------------------------------------------------------------------------ */

static void told(struct walk *walk, const struct event *event, double at)
{
    struct mark *mark = add_mark(walk, MARK_NOTE, event->lane, at);

    label_of(mark->label, event->text);
}

static void step(struct walk *walk, const struct event *event, double at)
{
    struct scene *scene = walk->scene;

    for (size_t i = 0; i < scene->number_count; i++)
        if (scene->numbers[i].step == (int)event->value)
            return; /* a number stands where it happened first */
    if (scene->number_count < SCENE_NUMBERS)
        scene->numbers[scene->number_count++] =
            (struct number){ (int)event->value, event->lane, at, event->bad };
}

static void lost(struct walk *walk, int lane, double at)
{
    struct mark *mark = add_mark(walk, MARK_LOST, lane, at);

    words(mark->label, "told: lost", "得知锁已丢失");
    end_belief(walk, lane, at);
}

static void started(struct walk *walk, int lane, double at)
{
    struct open *open = &walk->open[lane];

    if (open->dead >= 0)
        add_bar(walk, BAR_DEAD, lane, open->dead, at);
    open->dead = NEVER;
}

static void take(struct walk *walk, const struct event *event, double at)
{
    int lane = event->lane;
    struct open *open = &walk->open[lane];

    switch ((enum event_kind)event->kind) {
    case EV_ASK:
        asks(walk, event, at);
        break;
    case EV_TRY:
        if (open->tries++ > 0 || at - open->asked > SHORT_MS)
            to_servers(walk, ARROW_TRY, lane, event->other, at);
        break;
    case EV_GOT:
        got(walk, event, at);
        break;
    case EV_LET:
        lets(walk, event, at);
        break;
    case EV_LOST:
        lost(walk, lane, at);
        break;
    case EV_GAVE_UP:
        end_wait(walk, lane, at);
        break;
    case EV_READ:
    case EV_CLAIM:
        reads(walk, event, at);
        break;
    case EV_WRITE:
        writes(walk, event, at);
        break;
    case EV_REFUSED:
        refused(walk, event, at);
        break;
    case EV_STEP:
        step(walk, event, at);
        break;
    case EV_PAUSED:
        end_hold_bar(walk, lane, at);
        open->paused = at;
        break;
    case EV_RESUMED:
        end_pause(walk, lane, at);
        break;
    case EV_KILLED:
        killed(walk, lane, at);
        break;
    case EV_STARTED:
        started(walk, lane, at);
        break;
    case EV_NOTE:
        told(walk, event, at);
        break;
    case EV_OWNER:
        owned(walk, event, at);
        break;
    case EV_VALUE:
        set_value(walk, lane, event->value, false, open->valued < 0 ? 0 : at);
        break;
    case EV_USES:
        open->uses = event->other;
        break;
    case EV_NONE:
    case EV_DONE:
    case EV_SIGNAL:
        break;
    }
}

/* What is still open lasts to the end of the picture. */
static void finish(struct walk *walk, double end)
{
    for (int lane = 0; lane < walk->scene->lane_count; lane++) {
        end_wait(walk, lane, end);
        end_pause(walk, lane, end);
        end_belief(walk, lane, end);
        end_lease(walk, lane, end, false, NULL);
        end_value(walk, lane, end);
        started(walk, lane, end);
    }
}

static bool in_picture(const struct scene *scene, const struct event *event)
{
    bool aims = event->kind == EV_READ || event->kind == EV_CLAIM || event->kind == EV_WRITE ||
                event->kind == EV_REFUSED;

    if (event->lane < 0 || event->lane >= scene->lane_count)
        return false;
    return aims ? event->other >= 0 && event->other < scene->lane_count
                : event->other < scene->lane_count;
}

static void begin(struct walk *walk)
{
    struct scene *scene = walk->scene;
    int clients = 0;

    for (scene->lanes = walk->way->lanes; scene->lanes[scene->lane_count].kind != LANE_END;
         scene->lane_count++) {
        bool client = scene->lanes[scene->lane_count].kind == LANE_CLIENT;

        walk->open[scene->lane_count] = (struct open){
            .client = client ? clients++ : -1,
            .asked = NEVER,
            .holds = NEVER,
            .believes = NEVER,
            .paused = NEVER,
            .dead = NEVER,
            .let = NEVER,
            .uses = -1,
            .owner = -1,
            .valued = NEVER,
        };
    }
}

void scene_build(struct scene *scene, const struct way *way, const struct history *history)
{
    struct walk *walk = calloc(1, sizeof *walk);
    size_t count;
    const struct event **list = history_sorted(history, &count);
    double at = 0;

    *scene = (struct scene){ .high_lane = -1 };
    if (walk && list) {
        walk->scene = scene;
        walk->way = way;
        walk->crowded = NEVER;
        begin(walk);
        collect_tokens(walk, list, count);
        for (size_t i = 0; i < count; i++) {
            if (!in_picture(scene, list[i]))
                continue;
            at = (double)(list[i]->at_ns - history->begin_ns) / 1e6;
            take(walk, list[i], at);
        }
        scene->end_ms = at * 1.04 + 50;
        finish(walk, scene->end_ms);
    }
    free(list);
    free(walk);
}
