// SPDX-License-Identifier: MIT

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between us and Redis, and can stop to forward.
type proxy struct {
	frozen int32
	url    string
}

func newProxy(t *testing.T, to string) *proxy {
	u, err := url.Parse(to)
	must(t, err)
	target := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	u.Host = listener.Addr().String()
	p := &proxy{url: u.String()}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close()
				continue
			}
			go p.forward(near, far)
			go p.forward(far, near)
		}
	}()
	return p
}

func (p *proxy) forward(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		for atomic.LoadInt32(&p.frozen) != 0 {
			time.Sleep(time.Millisecond)
		}
		if _, wrong := to.Write(buffer[:n]); wrong != nil || err == io.EOF || err != nil {
			return
		}
	}
}

// A store that does not answer does not keep a call from listening to its context.
func TestSilentServer(t *testing.T) {
	target := os.Getenv("HOLDFAST_TEST_URL")
	if target == "" {
		t.Skip("HOLDFAST_TEST_URL is not set")
	}
	p := newProxy(t, strings.Replace(target, "{id}", fmt.Sprintf("silent%d", os.Getpid()), 1)+
		"&op_timeout=60s")
	store, other := openAt(t, p.url), openAt(t, p.url)
	lease, err := store.Lock(patient(t), "x")
	must(t, err)
	must(t, lease.Release())
	// An adoption cannot be cancelled: it is granted when the server speaks again, and nobody waits for it then.
	lease, err = store.Lock(patient(t), "detached", Detached(), TTL(10*time.Minute))
	must(t, err)
	text, err := lease.Export()
	must(t, err)
	atomic.StoreInt32(&p.frozen, 1)
	calls := map[string]func(context.Context) error{
		"Lock":    func(ctx context.Context) error { _, err := store.Lock(ctx, "x"); return err },
		"TryLock": func(ctx context.Context) error { _, err := store.TryLock(ctx, "y"); return err },
		"Inspect": func(ctx context.Context) error { _, err := store.Inspect(ctx, "x"); return err },
		"Get":     func(ctx context.Context) error { _, err := store.Cell("c").Get(ctx); return err },
		"Set":     func(ctx context.Context) error { _, err := store.Cell("c").Set(ctx, nil, 0); return err },
		"Wait":    func(ctx context.Context) error { _, err := store.Cell("c").Wait(ctx, 0); return err },
		"Adopt": func(ctx context.Context) error {
			_, err := other.Adopt(ctx, AdoptRequest{Name: "detached", Text: text})
			return err
		},
	}
	// In a slot first, then through the poller.
	for _, slots := range []int{slotCount, 0} {
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
			begin := time.Now()
			err := call(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > patience/2 {
				t.Errorf("%s: %v after %v", name, err, time.Since(begin))
			}
		}
		for i := 0; slots > 0 && i < slotCount-2; i++ {
			sl := <-store.slots // the other two are in use by what goes on without us
			defer func() { store.slots <- sl }()
		}
	}
	atomic.StoreInt32(&p.frozen, 0)
	for _, name := range []string{"x", "detached"} {
		await(t, name+" is free again", func() bool {
			lease, err := store.TryLock(patient(t), name)
			if err == nil {
				must(t, lease.Release())
			}
			return err == nil
		})
	}
}

// Without a context only the library's own clock can end a call: the poller must drive the store in time.
func TestSilentServerWithoutContext(t *testing.T) {
	target := os.Getenv("HOLDFAST_TEST_URL")
	if target == "" {
		t.Skip("HOLDFAST_TEST_URL is not set")
	}
	p := newProxy(t, strings.Replace(target, "{id}", fmt.Sprintf("clock%d", os.Getpid()), 1)+
		"&op_timeout=500ms")
	store := openAt(t, p.url)
	_, err := store.Counter("n").Add(bg, 1)
	must(t, err)
	atomic.StoreInt32(&p.frozen, 1)
	defer atomic.StoreInt32(&p.frozen, 0)
	ended := make(chan error, 1)
	go func() {
		_, err := store.Counter("n").Get(bg)
		ended <- err
	}()
	select {
	case err := <-ended:
		if status := StatusOf(err); status != ErrUnavailable && status != ErrUnknown {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("it waits for ever")
	}
}
