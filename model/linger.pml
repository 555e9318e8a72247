/* SPDX-License-Identifier: MIT
 *
 * Lingering leases (src/core/idle.c): a released lease stays with its process, idle, until it is used again, another process
 * wants it, or time is up. Two processes, one with two threads and one with THREADS1, one name, a store with a queue.
 *
 * A step is one request handled by the store, one message heard, or something that a thread does. Requests are handled at once,
 * except releases (and with LATE acquires), which may be under way for a tick. Answers and messages of the store may be under
 * way for a tick, in any order. A tick of all clocks comes when nothing is older than that. A process may be
 * paused for any number of ticks: then its messages wait. Its clock goes on.
 *
 * Faults, as many as defined: CRASHES, LOSSES (of any message; a lost release is sent again), PAUSES, CANCELS. TRIES: a thread
 * may try instead of waiting. A try that meets a lingering holder asks once more, as a waiter that leaves after TRY ticks.
 *
 * Renewals are sent or not, as it comes; a lease that is not renewed expires. So the bounds on waiting rest on messages alone.
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef THREADS1
#define THREADS1 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef PAUSES
#define PAUSES 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef BOUND
#define BOUND 3 /* a recall, a release, a grant: a tick each */
#endif
#define TTL 8    /* of a lease, in ticks */
#define WINDOW 4 /* a waiter that sends no heartbeat for so long is forgotten */
#define BEAT 2
#define TRY 4    /* a try gives up after so many ticks: more than BOUND */
#define COHORT 1 /* how often a lease is passed on locally although others wait */
#define REFILL 2 /* tokens of a further block; a grant gives one */

/* What must hold, for run.py. */
#define DOUBLE_HOLD 1  /* two processes hold it, each by its own clock */
#define FOREIGN 2      /* a release ended a lease that is in use */
#define NOT_OURS 3     /* a local take although the store's record is another's */
#define ORDER 4        /* a token that is not larger than that of every earlier take */
#define UNFAIR 5       /* passed on more often than COHORT after the recall was heard */
#define LEAK 6         /* the store has a lease that nobody will give back */
#define FALSE_BUSY 7   /* a try hears BUSY although nobody used the lock, nobody waited, and nothing failed */
#define LONG_WAIT 8    /* a waiter waits longer than BOUND for a lock that nobody uses */
byte bad;
#define CHECK(what, n) if :: (what) :: else -> bad = n; assert(bad != n) fi

/* phases of the slot */
#define NONE 0
#define GOING 1
#define HELD 2
#define IDLE 3
/* a thread */
#define OUT 0
#define WAITS 1
#define IN 2
/* a try */
#define NO_TRY 0
#define ASK_AGAIN 1 /* it met a lingering holder */
#define WAITING 2

typedef client {
    /* the slot */
    byte phase, owner, ids, valid, passes, who, beat;
    byte next, left, next2, left2; /* the token block, and the one behind it */
    bit wanted, heard;             /* heard: a recall came since the renewal was sent */
    byte renewing;                 /* 0: no; else 1 + ticks since the renewal was sent */
    byte try, patience;
    bit excuse;                    /* of a try: BUSY would be right */
    byte waited;                   /* ticks for a lock that nobody used */
    byte at[2], rounds[2];         /* threads */
    bit dead, paused;
    /* messages for it; owner 0: none */
    byte g_owner, g_age, g_token; bit g_others;
    byte r_owner, r_age, r_token; bit r_ok, r_others;
    byte w_owner, w_age; bit w_level;
    /* releases from it, and with LATE an acquire */
    byte rel[2], rel_age[2];
    byte a_owner, a_age;
};
client c[2];

/* the store */
byte holder, expires, last, first_waiter, second_waiter, window[2];
byte taken; /* history: the largest token of all takes */
byte crashes = CRASHES, losses = LOSSES, pauses = PAUSES, cancels = CANCELS;
#ifdef BREADTH /* spin cannot hide variables then */
byte o, x, told, told_others;
#else
hidden byte o, x, told, told_others;
#endif

#define OF(owner) ((owner) % 2) /* its process */
#define USED(p) (c[p].phase == HELD && c[p].valid > 0)
#define BUSY(p) (c[p].phase == HELD) /* or lost, and not given back yet */
#define GOES(p) (!c[p].dead && !c[p].paused)
#define QUEUED(owner) (first_waiter == (owner) || second_waiter == (owner))
#define RELEASING(p, owner) (c[p].rel[0] == (owner) || c[p].rel[1] == (owner))

/* ---- the store ------------------------------------------------------------------ */

inline send_wanted(level)
{
    if
    :: holder != 0 && !c[OF(holder)].dead ->
        if /* the same once more: the one that is under way arrives first */
        :: c[OF(holder)].w_owner != holder || c[OF(holder)].w_level != level -> c[OF(holder)].w_age = 0
        :: else
        fi;
        c[OF(holder)].w_owner = holder; c[OF(holder)].w_level = level
    :: else
    fi
}

inline send_grant()
{
    if
    :: !c[OF(holder)].dead ->
        if
        :: c[OF(holder)].g_owner != holder -> c[OF(holder)].g_age = 0
        :: else
        fi;
        c[OF(holder)].g_owner = holder; c[OF(holder)].g_token = last;
#ifndef MUTANT_GRANT_SILENT
        c[OF(holder)].g_others = (first_waiter != 0)
#endif
    :: else
    fi
}

inline grant(owner_)
{
    holder = owner_; expires = TTL; last++;
    send_grant()
}

inline shift() { first_waiter = second_waiter; window[0] = window[1]; second_waiter = 0; window[1] = 0 }

inline serve() /* the lease has ended */
{
    holder = 0; expires = 0;
    if
    :: first_waiter != 0 -> x = first_waiter; shift(); grant(x)
    :: else
    fi
}

inline unqueue(owner_) /* a waiter leaves or is forgotten */
{
    if
    :: first_waiter == owner_ -> shift()
    :: second_waiter == owner_ -> second_waiter = 0; window[1] = 0
    :: else
    fi;
    if
    :: first_waiter == 0 -> send_wanted(0)
    :: else
    fi
}

inline enqueue(owner_)
{
    if
    :: holder == 0 -> grant(owner_)
    :: holder != 0 && first_waiter == 0 -> first_waiter = owner_; window[0] = WINDOW; send_wanted(1)
    :: else -> second_waiter = owner_; window[1] = WINDOW
    fi
}

inline handle_release(p, i)
{
    o = c[p].rel[i]; c[p].rel[i] = 0; c[p].rel_age[i] = 0;
#ifdef MUTANT_RELEASE_BY_PROCESS
    if :: holder != 0 && OF(holder) == p -> o = holder :: else fi;
#endif
    if
    :: holder == o ->
        CHECK(!(c[p].owner == o && (c[p].phase == HELD || c[p].phase == IDLE) && c[p].valid > 0), FOREIGN);
        serve()
    :: else -> if :: QUEUED(o) -> unqueue(o) :: else fi
    fi
}

/* ---- a process ------------------------------------------------------------------ */

inline release_slot(p) /* the slot is free for the next claim before anything is sent */
{
    if
    :: c[p].rel[0] == 0 -> c[p].rel[0] = c[p].owner; c[p].rel_age[0] = 0
    :: else -> c[p].rel[1] = c[p].owner; c[p].rel_age[1] = 0
    fi;
    clear_slot(p)
}
#define MAY_RELEASE(p) (c[p].rel[1] == 0 || c[p].rel[0] == 0)

inline clear_slot(p)
{
    c[p].phase = NONE; c[p].owner = 0; c[p].valid = 0; c[p].passes = 0; c[p].who = 0; c[p].beat = 0;
    c[p].next = 0; c[p].left = 0; c[p].next2 = 0; c[p].left2 = 0;
    c[p].wanted = 0; c[p].heard = 0; c[p].renewing = 0;
    c[p].try = NO_TRY; c[p].patience = 0; c[p].excuse = 0; c[p].waited = 0
}

inline new_claim(p, t) /* by thread t */
{
    clear_slot(p);
#ifdef MUTANT_OWNER_TWICE
    c[p].ids = 1;
#else
    c[p].ids++;
#endif
    c[p].owner = 2 * c[p].ids + p;
    c[p].phase = GOING; c[p].who = t; c[p].at[t] = WAITS
}

inline ask(p)
{
#ifdef LATE
    c[p].a_owner = c[p].owner; c[p].a_age = 0
#else
    enqueue(c[p].owner)
#endif
}

/* A local waiter, if there is one, asks the store now. */
inline hand_on(p)
{
    if
    :: c[p].at[0] == WAITS -> new_claim(p, 0); ask(p)
    :: c[p].at[0] != WAITS && c[p].at[1] == WAITS -> new_claim(p, 1); ask(p)
    :: else
    fi
}

inline leave(p, t) /* the thread's call has ended */
{
    c[p].at[t] = OUT
}

inline excused(p) { if :: c[p].try != NO_TRY -> c[p].excuse = 1 :: else fi }

inline check_take(p)
{
    CHECK(!(USED(p) && USED(1 - p)), DOUBLE_HOLD);
    CHECK(holder == c[p].owner, NOT_OURS);
    CHECK(c[p].next > taken, ORDER);
    taken = c[p].next;
    excused(0); excused(1);
    c[0].waited = 0; c[1].waited = 0
}

inline next_token(p)
{
    if
    :: c[p].left > 0 -> c[p].next++; c[p].left--
    :: c[p].left == 0 && c[p].left2 > 0 ->
        c[p].next = c[p].next2; c[p].left = c[p].left2 - 1; c[p].next2 = 0; c[p].left2 = 0
    :: else -> c[p].next++ /* only a mutant comes here */
    fi
}
#ifdef MUTANT_BEYOND_BLOCK
#define HAS_TOKEN(p) 1
#else
#define HAS_TOKEN(p) (c[p].left + c[p].left2 > 0)
#endif

inline take(p, t) /* out of IDLE */
{
    next_token(p);
    c[p].phase = HELD; c[p].who = t; c[p].at[t] = IN; c[p].passes = 0;
    check_take(p)
}

/* Renew and ask for tokens. */
#define MAY_RENEW(p) (c[p].renewing == 0 && c[p].r_owner == 0)
inline renew(p, tokens)
{
    c[p].renewing = 1; c[p].heard = 0;
    c[p].r_owner = c[p].owner; c[p].r_age = 0; c[p].r_token = 0; c[p].r_others = 0;
    c[p].r_ok = (holder == c[p].owner);
    if
    :: holder == c[p].owner ->
        expires = TTL;
        c[p].r_others = (first_waiter != 0);
        if
        :: tokens && c[p].left2 == 0 ->
            c[p].r_token = last + 1;
#ifndef MUTANT_REFILL_NOT_RAISED
            last = last + REFILL
#endif
        :: else
        fi
    :: else
    fi
}

/* The thread comes: `tries` or waits. */
#ifdef MUTANT_TAKE_WITHOUT_CLOCK
#define GOOD(p) 1
#else
#define GOOD(p) (c[p].valid > 0)
#endif
inline comes(p, t, tries)
{
    c[p].rounds[t]--;
    if
    :: c[p].phase == IDLE && GOOD(p) && HAS_TOKEN(p) -> take(p, t)
    :: c[p].phase == IDLE && GOOD(p) && !HAS_TOKEN(p) ->
        c[p].at[t] = WAITS;
        if :: MAY_RENEW(p) -> renew(p, 1) :: else fi
    :: c[p].phase == IDLE && !GOOD(p) -> release_slot(p); new_claim(p, t); ask(p)
    :: c[p].phase == NONE && !tries -> new_claim(p, t); ask(p)
    :: c[p].phase == NONE && tries ->
        new_claim(p, t);
        c[p].try = ASK_AGAIN;
        if
        :: first_waiter != 0 || RELEASING(p, holder) && holder != 0 || BUSY(0) || BUSY(1) -> c[p].excuse = 1
        :: else
        fi;
        if
        :: holder == 0 -> c[p].try = NO_TRY; c[p].excuse = 0; enqueue(c[p].owner)
        :: holder != 0 && first_waiter != 0 -> x = c[p].who; clear_slot(p); leave(p, x); hand_on(p)
        :: else
#ifdef MUTANT_TRY_BUSY
            -> CHECK(c[p].excuse || c[OF(holder)].dead || c[OF(holder)].paused || LOSSES > 0, FALSE_BUSY);
            x = c[p].who; clear_slot(p); leave(p, x); hand_on(p)
#endif
        fi
    :: else -> c[p].at[t] = WAITS /* GOING, HELD: the local queue */
    fi
}

inline hear_grant(p)
{
    o = c[p].g_owner; told = c[p].g_token; told_others = c[p].g_others;
    c[p].g_owner = 0; c[p].g_age = 0; c[p].g_token = 0; c[p].g_others = 0;
    if
    :: c[p].phase == GOING && c[p].owner == o ->
#ifdef MUTANT_HANDOVER_ARRIVAL
        c[p].valid = TTL;
#else
        c[p].valid = (c[p].beat < TTL -> TTL - c[p].beat : 0);
#endif
        if
        :: c[p].valid > 0 ->
            c[p].phase = HELD; c[p].at[c[p].who] = IN; c[p].next = told;
            c[p].wanted = c[p].wanted || told_others;
            c[p].try = NO_TRY; c[p].patience = 0; c[p].excuse = 0; c[p].waited = 0; c[p].beat = 0;
            check_take(p)
        :: else -> x = c[p].who; release_slot(p); new_claim(p, x); ask(p)
        fi
    :: else
    fi
}

inline hear_wanted(p)
{
    o = c[p].w_owner; x = c[p].w_level; c[p].w_owner = 0; c[p].w_age = 0; c[p].w_level = 0;
    if
    :: c[p].owner == o && c[p].phase == IDLE && x == 1 ->
#ifdef MUTANT_RECALL_LEAVES_IDLE
        if :: c[p].rel[0] == 0 -> c[p].rel[0] = o :: else -> c[p].rel[1] = o fi
#else
        release_slot(p); hand_on(p)
#endif
#ifndef MUTANT_RECALL_HELD
    :: c[p].owner == o && c[p].phase == HELD -> c[p].wanted = x; c[p].heard = x
#endif
#ifndef MUTANT_RECALL_EARLY
    :: c[p].owner == o && c[p].phase == GOING -> c[p].wanted = x
#endif
    :: else
    fi
}

inline hear_renewed(p)
{
    o = c[p].r_owner; c[p].r_owner = 0; c[p].r_age = 0;
#ifdef MUTANT_OLD_REFILL
    if
    :: (c[p].phase == HELD || c[p].phase == IDLE) ->
#else
    if
    :: c[p].owner == o && (c[p].phase == HELD || c[p].phase == IDLE) ->
#endif
        if
        :: c[p].r_ok ->
#ifdef MUTANT_RENEW_ARRIVAL
            c[p].valid = TTL;
#else
            if
            :: c[p].renewing > 0 && c[p].renewing <= TTL && TTL + 1 - c[p].renewing > c[p].valid && c[p].valid > 0 ->
                c[p].valid = TTL + 1 - c[p].renewing
            :: else
            fi;
#endif
            c[p].renewing = 0;
            if
            :: c[p].r_token != 0 && c[p].left2 == 0 -> c[p].next2 = c[p].r_token; c[p].left2 = REFILL
            :: else
            fi;
#ifdef MUTANT_RENEWAL_CLEARS
            c[p].wanted = c[p].r_others;
#else
            c[p].wanted = c[p].r_others || (c[p].wanted && c[p].heard);
#endif
            if
            :: c[p].phase == IDLE && (c[p].wanted || c[p].valid == 0) -> release_slot(p); hand_on(p)
            :: c[p].phase == IDLE && !c[p].wanted && c[p].valid > 0 && HAS_TOKEN(p) && c[p].at[0] == WAITS -> take(p, 0)
            :: c[p].phase == IDLE && !c[p].wanted && c[p].valid > 0 && HAS_TOKEN(p) && c[p].at[0] != WAITS && c[p].at[1] == WAITS -> take(p, 1)
            :: else -> CHECK(!(USED(p) && USED(1 - p)), DOUBLE_HOLD)
            fi
        :: else -> /* the store has it no more */
            c[p].renewing = 0;
            if
            :: c[p].phase == IDLE -> clear_slot(p); hand_on(p)
            :: else -> c[p].valid = 0
            fi
        fi
    :: else
    fi;
    c[p].r_token = 0; c[p].r_ok = 0; c[p].r_others = 0
}

inline lets_go(p) /* the thread inside releases it */
{
    x = c[p].who; leave(p, x);
    if
    :: c[p].valid == 0 -> release_slot(p); hand_on(p) /* LOST */
    :: c[p].valid > 0 && c[p].at[1 - x] == WAITS && HAS_TOKEN(p) &&
#ifdef MUTANT_PASS_WANTED
        true ->
#else
        (!c[p].wanted || c[p].passes < COHORT) ->
#endif
        if :: c[p].wanted -> c[p].passes++ :: else fi;
        CHECK(c[p].passes <= COHORT, UNFAIR);
        next_token(p); c[p].who = 1 - x; c[p].at[1 - x] = IN;
        check_take(p)
#ifdef MUTANT_LINGER_WANTED
    :: c[p].valid > 0 && c[p].at[1 - x] != WAITS ->
#else
    :: c[p].valid > 0 && c[p].at[1 - x] != WAITS && !c[p].wanted ->
#endif
        c[p].phase = IDLE; c[p].who = 0; c[p].passes = 0
    :: else -> release_slot(p); hand_on(p)
    fi
}

inline gives_up(p) /* a cancel, or the end of a try's patience */
{
    if
    :: holder == c[p].owner ->
#ifdef MUTANT_CANCEL_DROPS
        x = c[p].who; clear_slot(p); leave(p, x); hand_on(p)
#else
        skip /* the grant came first: it is taken when it is heard */
#endif
    :: else -> x = c[p].who; unqueue(c[p].owner); clear_slot(p); leave(p, x); hand_on(p)
    fi
}

inline beats(p)
{
    c[p].beat = 0;
    if
    :: QUEUED(c[p].owner) ->
        if
        :: first_waiter == c[p].owner ->
            window[0] = WINDOW;
#ifndef MUTANT_BEAT_SILENT
            send_wanted(1)
#endif
        :: else -> window[1] = WINDOW
        fi
    :: holder == c[p].owner -> expires = TTL; send_grant()
    :: else -> x = c[p].who; new_claim(p, x); ask(p) /* forgotten: with a new id */
    fi
}

inline resubmit(p) { c[p].try = WAITING; c[p].patience = TRY; enqueue(c[p].owner) }

inline dies(p)
{
    c[p].dead = 1; clear_slot(p);
    c[p].at[0] = OUT; c[p].at[1] = OUT; c[p].rounds[0] = 0; c[p].rounds[1] = 0; c[p].ids = 0;
    c[p].g_owner = 0; c[p].g_age = 0; c[p].g_token = 0; c[p].g_others = 0;
    c[p].r_owner = 0; c[p].r_age = 0; c[p].r_token = 0; c[p].r_ok = 0; c[p].r_others = 0;
    c[p].w_owner = 0; c[p].w_age = 0; c[p].w_level = 0;
    excused(0); excused(1);
    c[0].waited = 0; c[1].waited = 0
}

/* ---- time ------------------------------------------------------------------------- */

/* Nothing is due in p or on its way to it. */
#define QUIET(p) \
    (c[p].rel_age[0] == 0 && c[p].rel_age[1] == 0 && c[p].a_age == 0 && \
     (!GOES(p) || c[p].g_age == 0 && c[p].r_age == 0 && c[p].w_age == 0 && \
        !(c[p].phase == GOING && c[p].try == ASK_AGAIN) && \
        !(c[p].phase == GOING && c[p].beat >= BEAT && c[p].a_owner == 0) && \
        !(c[p].try == WAITING && c[p].patience == 0 && holder != c[p].owner) && \
        !(c[p].phase == IDLE && (c[p].at[0] == WAITS || c[p].at[1] == WAITS) && c[p].renewing == 0)))

#define AGE(owner_, age) if :: owner_ != 0 && age == 0 -> age = 1 :: else fi
#define LESS(clock) if :: clock > 0 -> clock-- :: else fi

inline tick_process(p)
{
    AGE(c[p].g_owner, c[p].g_age); AGE(c[p].r_owner, c[p].r_age); AGE(c[p].w_owner, c[p].w_age);
    AGE(c[p].rel[0], c[p].rel_age[0]); AGE(c[p].rel[1], c[p].rel_age[1]); AGE(c[p].a_owner, c[p].a_age);
    LESS(c[p].valid); LESS(c[p].patience);
    if :: c[p].renewing > 0 && c[p].renewing <= TTL -> c[p].renewing++ :: else fi;
    if :: c[p].phase == GOING && c[p].beat < TTL -> c[p].beat++ :: else fi;
    if
    :: c[p].phase == GOING && (QUEUED(c[p].owner) || holder == c[p].owner) && GOES(p) && GOES(OF(holder)) && !BUSY(0) && !BUSY(1) ->
        c[p].waited++
    :: else -> c[p].waited = 0
    fi;
    if :: BUSY(0) || BUSY(1) || holder != 0 && !GOES(OF(holder)) || c[p].paused -> excused(p) :: else fi;
    CHECK(c[p].waited <= BOUND, LONG_WAIT)
}

inline tick()
{
    tick_process(0); tick_process(1);
    LESS(expires);
    if
    :: window[0] > 0 -> window[0]--; if :: window[0] == 0 -> o = first_waiter; unqueue(o) :: else fi
    :: else
    fi;
    if
    :: window[1] > 0 -> window[1]--; if :: window[1] == 0 -> o = second_waiter; unqueue(o) :: else fi
    :: else
    fi;
    if :: holder != 0 && expires == 0 -> serve() :: else fi;
    o = holder;
    CHECK(o == 0 || c[OF(o)].dead || c[OF(o)].owner == o || RELEASING(OF(o), o), LEAK)
}

/* ---- all steps --------------------------------------------------------------------- */

#define THREAD(p, t) \
    :: atomic { GOES(p) && c[p].at[t] == OUT && c[p].rounds[t] > 0 && MAY_RELEASE(p) -> \
        comes(p, t, false); printf("%d: a thread comes\n", p) } \
    TRYING(p, t)
#ifdef TRIES
#define TRYING(p, t) \
    :: atomic { GOES(p) && c[p].at[t] == OUT && c[p].rounds[t] > 0 && MAY_RELEASE(p) && \
        (c[p].phase == NONE || c[p].phase == IDLE) && c[p].a_owner == 0 -> \
        comes(p, t, true); printf("%d: a thread tries\n", p) }
#define RETRY(p) \
    :: atomic { GOES(p) && c[p].phase == GOING && c[p].try == ASK_AGAIN -> resubmit(p); printf("%d: the try waits\n", p) } \
    :: atomic { GOES(p) && c[p].try == WAITING && c[p].patience == 0 && holder != c[p].owner -> \
        CHECK(c[p].excuse || LOSSES > losses, FALSE_BUSY); gives_up(p); printf("%d: the try gives up\n", p) }
#else
#define TRYING(p, t)
#define RETRY(p)
#endif
#if CRASHES > 0
#define CRASH(p) :: atomic { !c[p].dead && !c[p].paused && crashes > 0 -> crashes--; dies(p); printf("%d: a process dies\n", p) }
#else
#define CRASH(p)
#endif
#if PAUSES > 0
#define PAUSE(p) \
    :: atomic { GOES(p) && pauses > 0 -> pauses--; c[p].paused = 1; printf("%d: a process is paused\n", p) } \
    :: atomic { c[p].paused -> excused(0); excused(1); c[p].paused = 0; printf("%d: a process goes on\n", p) }
#else
#define PAUSE(p)
#endif
#if CANCELS > 0
#define CANCEL(p) \
    :: atomic { GOES(p) && c[p].phase == GOING && c[p].try == NO_TRY && c[p].a_owner == 0 && cancels > 0 -> \
        cancels--; gives_up(p); printf("%d: a waiter is cancelled\n", p) }
#else
#define CANCEL(p)
#endif
#if LOSSES > 0
#define LOSS(p) \
    :: atomic { c[p].g_owner != 0 && losses > 0 -> losses--; \
        c[p].g_owner = 0; c[p].g_age = 0; c[p].g_token = 0; c[p].g_others = 0; printf("%d: a grant is lost\n", p) } \
    :: atomic { c[p].w_owner != 0 && losses > 0 -> losses--; \
        c[p].w_owner = 0; c[p].w_age = 0; c[p].w_level = 0; printf("%d: a recall is lost\n", p) } \
    :: atomic { c[p].r_owner != 0 && losses > 0 -> losses--; c[p].r_owner = 0; c[p].r_age = 0; c[p].r_token = 0; \
        if :: c[p].owner != 0 -> c[p].renewing = 0 :: else fi; \
        c[p].r_ok = 0; c[p].r_others = 0; printf("%d: the answer to a renewal is lost\n", p) } \
    :: atomic { c[p].rel_age[0] > 0 && losses > 0 -> losses--; c[p].rel_age[0] = 0; printf("%d: a release is lost\n", p) }
#else
#define LOSS(p)
#endif
#ifdef LATE
#define ARRIVAL(p) \
    :: atomic { c[p].a_owner != 0 -> o = c[p].a_owner; c[p].a_owner = 0; c[p].a_age = 0; \
        if :: c[p].owner == o && c[p].phase == GOING -> enqueue(o) :: else fi; printf("%d: an acquire arrives\n", p) }
#else
#define ARRIVAL(p)
#endif

#define PROCESS(p) \
    :: atomic { GOES(p) && c[p].g_owner != 0 && MAY_RELEASE(p) -> hear_grant(p); printf("%d: a grant is heard\n", p) } \
    :: atomic { GOES(p) && c[p].w_owner != 0 && MAY_RELEASE(p) -> hear_wanted(p); printf("%d: a recall is heard\n", p) } \
    :: atomic { GOES(p) && c[p].r_owner != 0 && MAY_RELEASE(p) -> hear_renewed(p); printf("%d: a renewal is answered\n", p) } \
    :: atomic { GOES(p) && c[p].phase == HELD && MAY_RELEASE(p) -> lets_go(p); printf("%d: a thread leaves\n", p) } \
    :: atomic { GOES(p) && (c[p].phase == HELD || c[p].phase == IDLE) && MAY_RENEW(p) && c[p].valid > 0 && \
        (c[p].valid <= TTL - 3 || c[p].left + c[p].left2 == 0) -> renew(p, c[p].left + c[p].left2 < 2); printf("%d: a renewal\n", p) } \
    :: atomic { GOES(p) && c[p].phase == IDLE && MAY_RELEASE(p) && c[p].at[0] != WAITS && c[p].at[1] != WAITS -> \
        release_slot(p); printf("%d: it has lingered long enough\n", p) } \
    :: atomic { GOES(p) && c[p].phase == IDLE && MAY_RELEASE(p) && c[p].renewing == 0 && \
        (c[p].at[0] == WAITS || c[p].at[1] == WAITS) -> release_slot(p); hand_on(p); printf("%d: no block: it asks anew\n", p) } \
    :: atomic { GOES(p) && c[p].phase == GOING && c[p].try != ASK_AGAIN && c[p].beat >= BEAT && c[p].a_owner == 0 -> \
        beats(p); printf("%d: a heartbeat\n", p) } \
    :: atomic { c[p].rel[0] != 0 -> handle_release(p, 0); printf("%d: a release arrives\n", p) } \
    :: atomic { c[p].rel[1] != 0 -> handle_release(p, 1); printf("%d: a release arrives\n", p) } \
    RETRY(p) CRASH(p) PAUSE(p) CANCEL(p) LOSS(p) ARRIVAL(p)

init
{
    atomic {
        c[0].rounds[0] = ROUNDS; c[0].rounds[1] = ROUNDS; c[1].rounds[0] = ROUNDS;
        if :: THREADS1 == 2 -> c[1].rounds[1] = ROUNDS :: else fi
    }
end:
    do
    THREAD(0, 0)
    THREAD(0, 1)
    THREAD(1, 0)
#if THREADS1 == 2
    THREAD(1, 1)
#endif
    PROCESS(0)
    PROCESS(1)
    :: atomic { QUIET(0) && QUIET(1) && (holder != 0 || c[0].phase != NONE || c[1].phase != NONE || c[0].rel[0] != 0 || c[1].rel[0] != 0) ->
        tick(); printf("time goes on\n") }
    od
}
