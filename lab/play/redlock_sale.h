/* SPDX-License-Identifier: MIT */
/* A sale under Redlock, naively and with tokens, for experiments that delay A between its reading and its writing. Steps: 1 A has a majority and reads;
 * 2 what the experiment is about; 3 B has a majority; 4 B sells; 5 A writes. */
#ifndef LAB_REDLOCK_SALE_H
#define LAB_REDLOCK_SALE_H

#include "../stage/nodes.h"

#define SALE_STOCK 20

enum { SALE_A, SALE_NODE_1, SALE_NODE_2, SALE_NODE_3, SALE_B, SALE_STOCK_LANE };
extern const struct lane sale_lanes[];

/* Actors. A waits at its pause_point() before it writes. */
void sell_naively(struct actor *me);    /* shown: redlock-sale-naive */
void sell_with_token(struct actor *me); /* shown: redlock-sale-ours */
/* At the begin of a play: nodes, observers, and the stock. */
void sale_begin(struct stage *stage);
void sale_begin_ours(struct stage *stage);
/* Is an update lost? */
void sale_judge(struct stage *stage, struct verdict *verdict);

#endif
