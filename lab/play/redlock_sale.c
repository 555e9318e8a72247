/* SPDX-License-Identifier: MIT */
/* See redlock_sale.h. */
#include "redlock_sale.h"

#include "../stage/ours.h"
#include "../stage/redis.h"
#include "redlock.h"

#define STOCK_LANE SALE_STOCK_LANE

void sell_naively(struct actor *me)
{
    long long stock;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: redlock-sale-naive */
    while (!redlock_take(me))                      /* 1: a majority of the nodes */
        again(me, 450);
    note_got(me, 0);
    note_step(me, me->number == 0 ? 1 : 3, false);
    stock = redis_int(me, "GET {stock}");
    note_read(me, STOCK_LANE, stock);
    work(me, 300);
    pause_point(me);                               /* 2: A is here */
    redis_do(me, "SET {stock} %lld", stock - 1);   /* 5! nothing asks for the holder */
    note_write(me, STOCK_LANE, stock - 1, 0);
    note_step(me, me->number == 0 ? 5 : 4, me->number == 0);
    note(me, EV_LET);
    redlock_give(me);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void note_outcome(struct actor *me, hf_status status, uint64_t token, int64_t stock)
{
    if (status == HF_FENCED)
        note_refused(me, STOCK_LANE, token, 0);
    else
        note_write(me, STOCK_LANE, stock, token);
    note_step(me, me->number == 0 ? 5 : 4, false);
}

void sell_with_token(struct actor *me)
{
    hf_store *locks = ours_open(me);
    hf_store *goods = ours_open_at(me, nodes_of(me->stage)->resource_url);
    hf_acquire_request request = ours_request(me, "lock", REDLOCK_TTL_MS);
    hf_lease *lease;
    hf_error err;
    uint64_t token;
    int64_t stock;
    void *bytes;
    size_t len;
    char text[32];
    hf_status status;

    /* clang-format off */
    /* shown: redlock-sale-ours */
    do {
        note(me, EV_ASK);
        must(me, hf_acquire(locks, &request, &lease, &err), &err); /* 1: a majority of the nodes */
        token = hf_lease_token(lease);
        note_got(me, token);
        note_step(me, me->number == 0 ? 1 : 3, false);
        must(me, hf_guard_claim(goods, "stock", HF_CSTRING, token, &bytes, &len, &err), &err);
        stock = guard_number(bytes);
        note_claim(me, STOCK_LANE, token, stock);
        work(me, 300);
        pause_point(me); /* 2: A is here, once */
        len = guard_text(text, stock - 1);
        status = hf_guard_set(goods, "stock", HF_CSTRING, token, text, len, &err); /* 5! */
        note_outcome(me, status, token, stock - 1);
        note(me, EV_LET);
        hf_release(lease, &err);
    } while (status == HF_FENCED); /* A was too late: again, with a new lease */
    /* shown end */
    /* clang-format on */
    must(me, status, &err);
    note(me, EV_DONE);
    hf_close(locks, HF_CLOSE_FLAG_RELEASE);
    ours_close(me, goods);
}

/* ---- the stage -------------------------------------------------------------------------------------------- */

const struct lane sale_lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 1", "节点 1"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 2", "节点 2"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 3", "节点 3"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("resource", "资源"), PHRASE("stock", "库存") },
    LANES_END,
};

void sale_begin(struct stage *stage)
{
    nodes_begin(stage, SALE_NODE_1);
    stage_redis(stage, "SET {stock} %d", SALE_STOCK);
    stage_value(stage, STOCK_LANE, SALE_STOCK);
    nodes_observe(stage, "lock");
}

static void fill(struct actor *me)
{
    hf_store *shop = ours_open_at(me, nodes_of(me->stage)->resource_url);
    hf_error err;

    must(me, hf_guard_set(shop, "stock", HF_CSTRING, 1, "20", 2, &err), &err);
    ours_close(me, shop);
}

void sale_begin_ours(struct stage *stage)
{
    nodes_begin_ours(stage, SALE_NODE_1, REDLOCK_TTL_MS);
    stage_do(stage, fill);
    stage_value(stage, STOCK_LANE, SALE_STOCK);
    nodes_observe_ours(stage, "lock");
}

void sale_judge(struct stage *stage, struct verdict *verdict)
{
    int sold = (int)history_count(stage->history, -1, EV_DONE);
    int left = (int)history_last_value(stage->history, STOCK_LANE, SALE_STOCK);

    verdict->broken = SALE_STOCK - sold != left;
    if (verdict->broken)
        verdict_say(verdict, "%d sold, but the stock went from %d to %d: an update is lost.",
                    "卖出 %d 件，库存却从 %d 变成 %d：丢失了一次更新。", sold, SALE_STOCK, left);
    else
        verdict_say(verdict, "%d sold, the stock went from %d to %d: no update is lost.",
                    "卖出 %d 件，库存从 %d 变成 %d：没有丢失更新。", sold, SALE_STOCK, left);
}
