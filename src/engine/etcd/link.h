/* SPDX-License-Identifier: MIT */
/*
 * gRPC to one member: one connection, on which any number of exchanges run at once, each on an HTTP/2 stream of its own.
 *
 * An exchange is given to a link with its first message; it is sent at once if the link is up, and otherwise when it is.
 * It ends exactly once, by `over`, unless it is taken back:
 *
 *   ANSWERED  etcd said OK, and this is its reply
 *   REFUSED   etcd refused it, with one of gRPC's codes
 *   ODD       what came is no answer of etcd's. It may have been executed
 *   MAYBE     no answer came. It may have been executed, or may still be
 *   UNSENT    it was not executed, and never will be: it did not leave, or the server said so
 *
 * Threads: with the reactor's lock, all of it. `message` and `over` come from the thread that drives; they may begin and
 * take back exchanges on any link.
 *
 * link.c has the connection and its times, exchange.c what happens on one HTTP/2 stream.
 */
#ifndef HFI_ETCD_LINK_H
#define HFI_ETCD_LINK_H

#include "engine/etcd/api.h"
#include "engine/kit/stream.h"

#include <nghttp2/nghttp2.h>

#define ETCD_MESSAGE_MAX (16u << 20) /* of an answer */
#define ETCD_PREFIX_LEN  5           /* before every message: a flag, and four bytes of length */
#define ETCD_WHY_MAX     200

struct etcd_exchange;
struct etcd_link;

enum etcd_end { ETCD_ANSWERED, ETCD_REFUSED, ETCD_ODD, ETCD_MAYBE, ETCD_UNSENT };

struct etcd_exchange_calls {
    /* It lasts, and this is one whole message, of the form of its method. It is good until this returns. */
    void (*message)(struct etcd_exchange *exchange, struct etcd_message message);
    /* It has ended, and belongs to its owner again. `why`: for all but ANSWERED; its `native` is gRPC's code. `reply`:
     * for ANSWERED, unless it lasts; in exchange->in. */
    void (*over)(struct etcd_exchange *exchange, enum etcd_end end, struct etcd_message reply,
                 const hf_error *why);
};

/* Embedded in its owner, which sets the members up to `until_ms` before etcd_link_begin(), and frees `in` at the end. */
struct etcd_exchange {
    const struct etcd_exchange_calls *calls;
    const struct etcd_method *method;
    char *const *token; /* of the user, when it is sent; NULL: none is needed */
    /* messages, each with its prefix: etcd_message_begin() and etcd_message_end() */
    struct etcd_text *out;
    bool lasts;       /* more messages may follow, and answers come at any time */
    int64_t until_ms; /* then it ends without an answer; HFI_NEVER: it does not */

    struct etcd_link *link; /* NULL: it is under way nowhere */
    struct hfi_list listed, news;
    int64_t sent_ms; /* before its first byte could leave */
    int32_t id;      /* of the HTTP/2 stream; 0: it waits for the connection */
    uint64_t at;     /* where it begins, in bytes of the connection; UINT64_MAX: not there yet */
    size_t out_done; /* of `out` */
    bool deferred;   /* nghttp2 waits for more of `out` */

    struct etcd_text in; /* kept from use to use */
    int http, code;      /* -1: not told */
    char text[ETCD_WHY_MAX];
    const char *odd; /* what was wrong with the answer; NULL: nothing */
    bool starved;    /* no memory for the answer */
    bool refused;    /* the server did not begin with it */
    bool closed;
};

struct etcd_link_conf {
    struct hfi_reactor *reactor;
    const struct hfi_address *address;
    const struct hfi_tls_context *tls; /* NULL: plain */
    int64_t connect_ms, op_ms;
};

struct etcd_link {
    struct hfi_stream stream; /* first: they are one address */
    nghttp2_session *session; /* NULL: not connected */
    struct hfi_list waiting;  /* exchanges, for the connection */
    struct hfi_list under_way;
    int64_t soonest_ms; /* no exchange ends earlier by its time */
    unsigned flying;    /* of those under way, how many will be answered soon */
    bool receiving;     /* nghttp2 is calling us */
    /* the connection takes no new exchanges: it is closed when those under way have ended */
    bool leaving;
    struct hfi_list news;           /* exchanges to which something has happened */
    struct etcd_exchange *handling; /* whose messages are being handed over */
    bool pinged;                    /* the server asked for an answer to `ping` */
    uint8_t ping[8];
    int64_t ping_ms; /* when that leaves at the latest */
    char authority[HFI_HOST_MAX + 16];
};

/* false: out of memory. `link` is zeroed; what `conf` points to lives longer. */
bool etcd_link_init(struct etcd_link *link, const struct etcd_link_conf *conf);
void etcd_link_done(struct etcd_link *link); /* no exchange is left on it; zeroed is fine */

void etcd_link_begin(struct etcd_link *link, struct etcd_exchange *exchange);
/* It may have begun: it ends then without an answer, or earlier. */
void etcd_exchange_end_by(struct etcd_exchange *exchange, int64_t until_ms);
/* There is more in exchange->out. */
void etcd_exchange_more(struct etcd_exchange *exchange);
/* Take it back: nothing of it is called any more. */
void etcd_exchange_drop(struct etcd_exchange *exchange);
/* Nothing came on this link since then, and it is up: does it live at all? Take it down. */
void etcd_link_doubt(struct etcd_link *link, int64_t since_ms);

int64_t etcd_link_next_ms(const struct etcd_link *link);
void etcd_link_due(struct etcd_link *link, int64_t now_ms); /* driver only */

/* The prefix of a message around what is added in between. */
size_t etcd_message_begin(struct etcd_text *text);
void etcd_message_end(struct etcd_text *text, size_t begun);

/* ---- between link.c and exchange.c --------------------------------------------------------- */

/* The calls of nghttp2; NULL: out of memory. Freed by nghttp2_session_callbacks_del(). */
nghttp2_session_callbacks *etcd_exchange_callbacks(void);
/* Give it to nghttp2; false: not possible, and it has ended. */
bool etcd_exchange_submit(struct etcd_link *link, struct etcd_exchange *exchange);
/* Hand over what has come, and end what has ended. */
void etcd_exchanges_work(struct etcd_link *link);
/* End it, which is in a list of the link. */
void etcd_exchange_end(struct etcd_exchange *exchange, enum etcd_end end, struct etcd_message reply,
                       const hf_error *why);
/* End it because the connection went down, or its time is over. */
__attribute__((format(printf, 3, 4))) void etcd_exchange_lose(struct etcd_exchange *exchange,
                                                              hf_status status, const char *format,
                                                              ...);
/* Let nghttp2 write. */
void etcd_link_pump(struct etcd_link *link);

#endif
