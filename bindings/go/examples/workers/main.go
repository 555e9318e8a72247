// SPDX-License-Identifier: MIT

// Command workers shows two workers, a token and a loss: workers [URL].
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"holdfast"
)

func main() {
	url := ""
	if len(os.Args) > 1 {
		url = os.Args[1]
	} else {
		dir, err := os.MkdirTemp("", "holdfast-workers-")
		check(err)
		defer os.RemoveAll(dir)
		url = "file:" + dir + "/store"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	held := make(chan uint64) // first holds it, with this token
	done := make(chan struct{})
	written, tried := make(chan struct{}), make(chan struct{})
	lost := make(chan struct{})
	go first(ctx, url, held, lost, written, tried)
	token := <-held
	go second(ctx, url, lost, written, tried, done)
	operator(ctx, url, token)
	<-done

	store, err := holdfast.Open(ctx, url)
	check(err)
	defer store.Close()
	lease, err := store.Lock(ctx, "report")
	check(err)
	page, err := store.Guard("page").Claim(ctx, lease.Token())
	check(err)
	fmt.Printf("page: %s\n", page)
	check(lease.Release())
}

// first loses its lease, and writes all the same.
func first(ctx context.Context, url string, held chan<- uint64, lost chan<- struct{}, written <-chan struct{}, tried chan<- struct{}) {
	store, err := holdfast.Open(ctx, url)
	check(err)
	defer store.Close()
	lease, err := store.Lock(ctx, "report")
	check(err)
	token := lease.Token()
	fmt.Printf("first: holds report, token %d\n", token)
	check(store.Guard("page").Set(ctx, token, []byte("by first")))
	fmt.Println("first: wrote page")
	held <- token

	<-lease.Done()
	if !errors.Is(lease.Err(), holdfast.ErrLost) {
		check(lease.Err())
	}
	fmt.Println("first: lost report")
	close(lost)

	<-written
	err = store.Guard("page").Set(ctx, token, []byte("by first, too late"))
	if !errors.Is(err, holdfast.ErrFenced) {
		check(fmt.Errorf("the old token was not refused: %v", err))
	}
	fmt.Println("first: refused, a newer token was used")
	if err := lease.Release(); !errors.Is(err, holdfast.ErrLost) {
		check(err)
	}
	close(tried)
}

// second waits for the lock, and gets it when the lease of first is broken.
func second(ctx context.Context, url string, lost <-chan struct{}, written chan<- struct{}, tried <-chan struct{}, done chan<- struct{}) {
	store, err := holdfast.Open(ctx, url)
	check(err)
	lease, err := store.Lock(ctx, "report", holdfast.Strict())
	check(err)
	<-lost // only for the order of the lines
	token := lease.Token()
	fmt.Printf("second: holds report, token %d\n", token)
	_, err = store.Guard("page").Claim(ctx, token)
	check(err)
	check(store.Guard("page").Set(ctx, token, []byte("by second")))
	fmt.Println("second: wrote page")
	close(written)
	<-tried
	check(lease.Release())
	fmt.Println("second: released")
	check(store.Close())
	close(done)
}

// operator breaks the lease with this token as soon as somebody waits for it.
func operator(ctx context.Context, url string, token uint64) {
	store, err := holdfast.Open(ctx, url)
	check(err)
	defer store.Close()
	for seq := uint64(0); ; {
		view, err := store.Inspect(ctx, "report")
		check(err)
		if len(view.Entries) > 0 && len(view.Entries[0].Waiters) > 0 {
			break
		}
		pause, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		next, err := store.Wait(pause, seq) // an engine that cannot tell of changes: look again
		cancel()
		switch {
		case err == nil:
			seq = next
		case errors.Is(err, holdfast.ErrUnsupported):
			time.Sleep(10 * time.Millisecond)
		case !errors.Is(err, holdfast.ErrTimeout):
			check(err)
		}
	}
	check(store.Break(ctx, "report", token))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}
