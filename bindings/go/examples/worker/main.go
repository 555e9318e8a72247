// SPDX-License-Identifier: MIT

// Command worker is a worker of the test in which several languages share a store: worker URL SEED SECONDS. It writes one line for
// each event, with one write, so that a kill leaves no half lines.
package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"holdfast"
)

type worker struct {
	store  *holdfast.Store
	random *rand.Rand
	ttl    time.Duration
	n      int
}

func main() {
	if len(os.Args) != 4 {
		check(fmt.Errorf("usage: worker URL SEED SECONDS"))
	}
	seed, err := strconv.ParseInt(os.Args[2], 10, 64)
	check(err)
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	check(err)
	store, err := holdfast.Open(context.Background(), os.Args[1], holdfast.OpenWait(30*time.Second))
	check(err)
	info, err := store.Info()
	check(err)
	w := &worker{store: store, random: rand.New(rand.NewSource(seed))}
	if !info.Caps.Has(holdfast.CapProcess) {
		w.ttl = time.Second
	}
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); time.Now().Before(end); {
		w.round()
	}
	_ = store.CloseRelease()
}

// round acquires one of the three, works, and releases.
func (w *worker) round() {
	w.n++
	request := holdfast.Request{Name: "shared-mutex"}
	what, permits := "mutex", uint32(1)
	switch w.random.Intn(3) {
	case 1:
		what, permits = "semaphore", uint32(1+w.random.Intn(2))
		request = holdfast.Request{Name: "shared-semaphore", Kind: holdfast.KindSemaphore,
			Capacity: 3, Permits: permits}
	case 2:
		what = "counter"
		request.Name = "shared-counter-lock"
	}
	say(now(), "ask %d %s %d", w.n, what, permits)
	lease, err := w.acquire(request)
	if err != nil {
		say(now(), "not %d %s", w.n, expected(err))
		return
	}
	if !w.valid(lease, fmt.Sprintf("got %d %d", w.n, lease.Token())) {
		return
	}
	if what == "counter" {
		w.count(lease.Token())
	}
	time.Sleep(time.Duration(w.random.Intn(3001)) * time.Microsecond)
	if w.ttl != 0 && !w.valid(lease, fmt.Sprintf("still %d", w.n)) {
		return
	}
	say(now(), "letting %d", w.n)
	err = lease.Release()
	say(now(), "let %d %s", w.n, expected(err))
}

// acquire goes through the asynchronous calls in every third case: those that acquire one of several always do.
func (w *worker) acquire(request holdfast.Request) (*holdfast.Lease, error) {
	wait := 2 * time.Second
	switch w.random.Intn(5) {
	case 0:
		wait = 0
	case 1:
		wait = time.Duration(1+w.random.Intn(50)) * time.Millisecond
	}
	options := []holdfast.Option{holdfast.Wait(wait), holdfast.TTL(w.ttl)}
	if w.random.Intn(3) == 0 {
		lease, _, err := w.store.Any(context.Background(), []holdfast.Request{request}, options...)
		return lease, err
	}
	return w.store.Acquire(context.Background(), request, options...)
}

// valid says the line if the lease is valid after the time was taken. Otherwise the lease is lost.
func (w *worker) valid(lease *holdfast.Lease, line string) bool {
	at := now()
	if lease.Remaining() > 0 {
		say(at, "%s", line)
		return true
	}
	say(now(), "lost %d", w.n)
	_ = lease.Release()
	return false
}

// count adds one to the guarded counter.
func (w *worker) count(token uint64) {
	ctx := context.Background()
	guard := w.store.Guard("shared-counter")
	bytes, err := guard.Claim(ctx, token)
	if err != nil {
		expected(err)
		return
	}
	value := 0
	if bytes != nil {
		value, err = strconv.Atoi(string(bytes))
		check(err)
	}
	value++
	say(now(), "adding %d %d", value, token)
	err = guard.Set(ctx, token, []byte(strconv.Itoa(value)))
	switch holdfast.StatusOf(err) {
	case holdfast.OK:
		say(now(), "added %d %d", value, token)
	case holdfast.ErrFenced:
		say(now(), "fenced %d %d", value, token)
	default:
		say(now(), "unsure %d %d", value, token)
	}
}

// expected returns the name of a status that may come. Others end the program.
func expected(err error) string {
	status := holdfast.StatusOf(err)
	switch status {
	case holdfast.OK, holdfast.ErrBusy, holdfast.ErrTimeout, holdfast.ErrCancelled, holdfast.ErrLost,
		holdfast.ErrUnavailable, holdfast.ErrUnknown, holdfast.ErrDeadlock, holdfast.ErrFenced,
		holdfast.ErrTooShort:
	default:
		check(err)
	}
	return status.Name()
}

// now is CLOCK_MONOTONIC, which all processes of a machine share.
func now() int64 {
	var ts syscall.Timespec
	const monotonic = 1
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		check(errno)
	}
	return ts.Nano()
}

func say(at int64, format string, values ...interface{}) {
	_, err := os.Stdout.WriteString(fmt.Sprintf("%d "+format+"\n", append([]interface{}{at}, values...)...))
	check(err)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}
