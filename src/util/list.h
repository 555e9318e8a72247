/* SPDX-License-Identifier: MIT */
/* A circular list of nodes that live inside other structs. An empty list, and a node that is in
 * none, point to themselves. */
#ifndef HFI_LIST_H
#define HFI_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct hfi_list {
    struct hfi_list *next, *prev;
};

/* The struct of `type` whose `member` is at `pointer`. */
#define hfi_container(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void hfi_list_init(struct hfi_list *list)
{
    list->next = list->prev = list;
}

static inline bool hfi_list_empty(const struct hfi_list *list)
{
    return list->next == list;
}

static inline void hfi_list_append(struct hfi_list *list, struct hfi_list *node)
{
    node->next = list;
    node->prev = list->prev;
    list->prev->next = node;
    list->prev = node;
}

static inline void hfi_list_remove(struct hfi_list *node)
{
    node->next->prev = node->prev;
    node->prev->next = node->next;
    hfi_list_init(node);
}

/* For each struct of `type` in the list by its `member`. The one at hand may be taken out. */
#define hfi_list_each(type, at, list, member)                            \
    for (type *at = hfi_container((list)->next, type, member),           \
              *at##_next = hfi_container(at->member.next, type, member); \
         &at->member != (list);                                          \
         at = at##_next, at##_next = hfi_container(at->member.next, type, member))

/* The first node, taken out; NULL: there is none. */
static inline struct hfi_list *hfi_list_pop(struct hfi_list *list)
{
    struct hfi_list *node = list->next;

    if (node == list)
        return NULL;
    hfi_list_remove(node);
    return node;
}

/* All of `from`, in its order, to the end of `to`. */
static inline void hfi_list_move(struct hfi_list *to, struct hfi_list *from)
{
    if (hfi_list_empty(from))
        return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    hfi_list_init(from);
}

#endif
