/* SPDX-License-Identifier: MIT */
/* Places and the addresses that have them. All walks are over connections: a few microseconds for a thousand. */
#include "places.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct party {
    struct party *next, *before;
    size_t places;              /* of any kind */
    size_t without, watching;   /* a token; and of these, streams. Not those that are leaving */
    unsigned char address[8];   /* a network: see network_of() */
    unsigned char address_kind; /* 4, 6; 0: a Unix socket */
};

/* What one client has for itself: an IPv4 address, an IPv6 network of 64 bits. On this machine every user has all of 127/8. */
static void network_of(const struct sockaddr *address, struct party *ret_party)
{
    *ret_party = (struct party){ 0 };
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;

        ret_party->address_kind = 4;
        memcpy(ret_party->address, &v4->sin_addr, 4);
        if (ret_party->address[0] == 127)
            memset(ret_party->address + 1, 0, 3);
    } else if (address && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;

        ret_party->address_kind = 6;
        memcpy(ret_party->address, &v6->sin6_addr, sizeof ret_party->address);
    }
}

static struct party *party_of(struct places *places, const struct sockaddr *address)
{
    struct party wanted, *party = places->parties;

    network_of(address, &wanted);
    while (party && (party->address_kind != wanted.address_kind ||
                     memcmp(party->address, wanted.address, sizeof wanted.address) != 0))
        party = party->next;
    if (party)
        return party;
    party = malloc(sizeof *party);
    if (!party)
        return NULL;
    *party = wanted;
    party->next = places->parties;
    if (party->next)
        party->next->before = party;
    places->parties = party;
    return party;
}

/* The counts of a place that is not leaving. */
static void count(struct places *places, const struct place *place, bool add)
{
    size_t step = add ? 1 : (size_t)-1;

    if (place->leaving)
        return;
    places->count += step;
    if (place->has_token)
        return;
    place->party->without += step;
    if (!place->watching)
        return;
    place->party->watching += step;
    places->watching += step;
}

bool places_add(struct places *places, struct place *place, const struct sockaddr *address)
{
    *place = (struct place){ .party = party_of(places, address), .next = places->newest };
    if (!place->party)
        return false;
    place->party->places++;
    if (place->next)
        place->next->before = place;
    places->newest = place;
    count(places, place, true);
    return true;
}

void places_remove(struct places *places, struct place *place)
{
    struct party *party = place->party;

    if (!party)
        return;
    count(places, place, false);
    if (place->next)
        place->next->before = place->before;
    if (place->before)
        place->before->next = place->next;
    else
        places->newest = place->next;
    place->party = NULL;
    if (--party->places > 0)
        return;
    if (party->next)
        party->next->before = party->before;
    if (party->before)
        party->before->next = party->next;
    else
        places->parties = party->next;
    free(party);
}

void places_is(struct places *places, struct place *place, bool has_token, bool watching)
{
    if (!place->party)
        return;
    count(places, place, false);
    place->has_token = has_token;
    place->watching = watching;
    count(places, place, true);
}

struct place *places_push(struct places *places, bool watching)
{
    struct place *found = NULL;
    size_t most = 0;

    for (struct place *place = places->newest; place; place = place->next) {
        size_t has = watching ? place->party->watching : place->party->without;

        if (place->has_token || place->leaving || (watching && !place->watching) || has < most)
            continue;
        most = has; /* of equals the older one */
        found = place;
    }
    if (!found)
        return NULL;
    count(places, found, false);
    found->leaving = true;
    return found;
}
