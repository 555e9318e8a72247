// SPDX-License-Identifier: MIT

// Command bench measures an uncontended pair: bench URL SECONDS.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"holdfast"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: bench URL SECONDS"))
	}
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	fail(err)
	ctx := context.Background()
	store, err := holdfast.Open(ctx, os.Args[1])
	fail(err)
	defer store.Close()

	length := time.Duration(seconds * float64(time.Second))
	pairs(ctx, store, length/10)
	begin := time.Now()
	n := pairs(ctx, store, length)
	fmt.Printf("pairs_per_second %.0f\n", float64(n)/time.Since(begin).Seconds())
}

func pairs(ctx context.Context, store *holdfast.Store, length time.Duration) int {
	n := 0
	for begin := time.Now(); time.Since(begin) < length; n++ {
		lease, err := store.Lock(ctx, "bench")
		fail(err)
		fail(lease.Release())
	}
	return n
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
