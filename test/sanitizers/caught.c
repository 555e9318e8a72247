// SPDX-License-Identifier: MIT
//
// Three mistakes, one for each sanitizer: caught heap|signed|race. A build that has the sanitizer ends
// this program with a report. Where the program reaches its end, the sanitizer is not on.
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Read at run time, so that no compiler sees the mistakes coming.
static volatile int one = 1;

static int heap(void)
{
    // Without the first volatile the write is optimised away; without the second UBSan knows the size
    // and is quicker than ASan.
    volatile char *volatile bytes = malloc(8);

    if (bytes == NULL)
        return 1;
    bytes[7 + one] = 1;
    free((void *)bytes);
    return 0;
}

static int signed_overflow(void)
{
    volatile int largest = INT_MAX;

    return largest + one == 0;
}

static int shared;

static void *write_shared(void *arg)
{
    shared++;
    return arg;
}

static int race(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, write_shared, NULL) != 0)
        return 1;
    shared++;
    pthread_join(thread, NULL);
    return shared == 0;
}

int main(int argc, char **argv)
{
    const char *kind = argc == 2 ? argv[1] : "";
    int status;

    if (strcmp(kind, "heap") == 0)
        status = heap();
    else if (strcmp(kind, "signed") == 0)
        status = signed_overflow();
    else if (strcmp(kind, "race") == 0)
        status = race();
    else
        return 64;
    printf("nobody caught it: %s\n", kind);
    return status;
}
