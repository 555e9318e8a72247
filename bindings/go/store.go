// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	// Forever as a limit of waiting means none. It also stands for a ttl that does not exist.
	Forever time.Duration = -1
	// Unlimited is the remaining validity of a lease that does not end by itself.
	Unlimited time.Duration = 1<<63 - 1
)

// NameMax is the longest name in bytes. A name is a string of any bytes.
const NameMax = C.HF_NAME_MAX

// Version returns the version of the library that is loaded: "0.2.0".
func Version() string { return C.GoString(C.hf_version()) }

// VersionNumber returns the same as a number: 200 for 0.2.0.
func VersionNumber() int { return int(C.hf_version_number()) }

// Store is an open store. All of its methods may be called from any goroutine.
type Store struct {
	handle *C.hf_store
	slots  chan *slot // for short blocking calls: see slot.go

	mu     sync.Mutex
	closed bool
	poller *poller                  // nil: no call has needed one
	leases map[*C.hf_lease]*holding // those that are held
	closes sync.Mutex               // one Close at a time
}

// OpenOption is an option of [Open].
type OpenOption func(*openOptions)

type openOptions struct {
	wait  time.Duration
	label string
	flags C.uint64_t
}

// OpenWait limits how long [Open] waits for the server. The default is five seconds.
func OpenWait(d time.Duration) OpenOption { return func(o *openOptions) { o.wait = d } }

// OpenLabel says who we are, for people. The default is made of host, pid, user and program.
func OpenLabel(label string) OpenOption { return func(o *openOptions) { o.label = label } }

// OpenExisting uses only what exists: nothing is created. ErrNotFound: there is no store yet.
func OpenExisting() OpenOption {
	return func(o *openOptions) { o.flags |= C.HF_OPEN_FLAG_EXISTING }
}

// OpenOnce tries each address of the server once.
func OpenOnce() OpenOption { return func(o *openOptions) { o.flags |= C.HF_OPEN_FLAG_ONCE } }

// OpenNoWait does not wait for the server: [Open] returns at once, and the calls wait.
func OpenNoWait() OpenOption { return func(o *openOptions) { o.flags |= C.HF_OPEN_FLAG_NO_WAIT } }

// Open opens the store at url: "file:/path", "redis://host", ... (see holdfast-engines(7)), or the
// name of a profile. "" is an error. It blocks a thread until the server has answered.
func Open(ctx context.Context, url string, options ...OpenOption) (*Store, error) {
	return openWithin(ctx, &url, options)
}

// OpenDefault opens the store that the command holdfast uses without -S: that of the variable
// HOLDFAST_STORE, else of the "default" of the configuration file, else the user's own embedded
// store. [Info].Source says which of these it was.
func OpenDefault(ctx context.Context, options ...OpenOption) (*Store, error) {
	return openWithin(ctx, nil, options)
}

func openWithin(ctx context.Context, url *string, options []OpenOption) (*Store, error) {
	if ctx.Err() != nil {
		return nil, endedBy(ctx, OK)
	}
	o := openOptions{}
	for _, option := range options {
		option(&o)
	}
	if at, ok := ctx.Deadline(); ok {
		if left := time.Until(at); o.wait == 0 && left < 5*time.Second || o.wait > left {
			o.wait = left
		}
	}
	if ctx.Done() == nil {
		return open(url, o)
	}
	type opened struct {
		store *Store
		err   error
	}
	done := make(chan opened, 1)
	go func() {
		store, err := open(url, o)
		done <- opened{store, err}
	}()
	select {
	case r := <-done:
		return r.store, r.err
	case <-ctx.Done():
		go func() { // it cannot be cancelled
			if r := <-done; r.err == nil {
				_ = r.store.Close() // nobody has used it
			}
		}()
		return nil, endedBy(ctx, OK)
	}
}

func open(url *string, o openOptions) (*Store, error) {
	var a arena
	defer a.release()
	options := C.hf_open_options{
		size:         C.sizeof_hf_open_options,
		open_wait_ms: span(o.wait),
		label:        a.text(o.label),
		flags:        o.flags,
	}
	var target *C.char
	if url != nil {
		target = a.textOrEmpty(*url)
	}
	if a.bad {
		return nil, newError(ErrInvalid, "a text has a NUL in it")
	}
	var e C.hf_error
	s := &Store{leases: make(map[*C.hf_lease]*holding)}
	if status := C.hf_open(target, &options, &s.handle, &e); status != C.HF_OK {
		return nil, errorOf(status, &e)
	}
	s.slots = make(chan *slot, slotCount)
	for i := 0; i < slotCount; i++ {
		s.slots <- nil // made when it is needed
	}
	return s, nil
}

// polled returns the poller, started if need be.
func (s *Store) polled() (*poller, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, newError(ErrInvalid, "the store is closed")
	}
	if s.poller == nil {
		p, err := startPoller(s.handle)
		if err != nil {
			return nil, err
		}
		s.poller = p
	}
	return s.poller, nil
}

// Close closes the store. ErrInUse: leases are held or calls wait in it; it stays open.
func (s *Store) Close() error { return s.end(0) }

// CloseRelease closes the store whatever is going on in it: waiting calls end with ErrCancelled,
// held leases become lost and are released.
func (s *Store) CloseRelease() error { return s.end(C.HF_CLOSE_FLAG_RELEASE) }

func (s *Store) end(flags C.uint64_t) error {
	s.closes.Lock()
	defer s.closes.Unlock()
	s.mu.Lock()
	p := s.poller
	if s.closed {
		s.mu.Unlock()
		return newError(ErrInvalid, "the store is closed")
	}
	s.mu.Unlock()
	if p != nil {
		p.pause() // a poller in hf_store_process() would count as in use
	}
	status := C.hf_close(s.handle, flags)
	if status != C.HF_OK {
		if p != nil {
			p.resume()
		}
		return errorOf(status, nil)
	}
	s.mu.Lock()
	s.closed = true
	late := s.poller // perhaps started meanwhile
	left := s.leases
	s.leases = make(map[*C.hf_lease]*holding)
	s.mu.Unlock()
	if late != nil && late != p {
		late.pause()
	}
	if late != nil {
		late.close()
	}
	for _, h := range left {
		h.orphaned()
	}
	go s.freeSlots()
	return nil
}

// IdleRelease gives back all idle leases (see [Linger]), before the end of the process.
func (s *Store) IdleRelease() error {
	var e C.hf_error
	if status := C.hf_idle_release(s.handle, &e); status != C.HF_OK {
		return errorOf(status, &e)
	}
	return nil
}

// Caps is a set of capabilities of an engine.
type Caps uint64

// What an engine can do. A call that needs something else returns ErrUnsupported.
const (
	CapShared    Caps = C.HF_CAP_SHARED     // shared and exclusive
	CapSemaphore Caps = C.HF_CAP_SEMAPHORE  // capacity above 1
	CapWait      Caps = C.HF_CAP_WAIT       // waiters are woken by an event, not by a poll
	CapFIFO      Caps = C.HF_CAP_FIFO       // first come, first served
	CapTTL       Caps = C.HF_CAP_TTL        // leases can have a ttl
	CapProcess   Caps = C.HF_CAP_PROCESS    // leases end with the process, without a ttl
	CapDetached  Caps = C.HF_CAP_DETACHED   // leases that outlive the process
	CapToken     Caps = C.HF_CAP_TOKEN      // fencing tokens
	CapPass      Caps = C.HF_CAP_PASS       // blocks of tokens, so local passing
	CapBarge     Caps = C.HF_CAP_BARGE      // Barge
	CapLockDelay Caps = C.HF_CAP_LOCK_DELAY // LockDelay
	CapInspect   Caps = C.HF_CAP_INSPECT    // holders can be listed
	CapWaiters   Caps = C.HF_CAP_WAITERS    // waiters can be listed too
	CapBreak     Caps = C.HF_CAP_BREAK      // Store.Break
	CapWatch     Caps = C.HF_CAP_WATCH      // Store.Wait
	CapCells     Caps = C.HF_CAP_CELLS      // cells, and what is built on them
	CapCellTTL   Caps = C.HF_CAP_CELL_TTL   // cells can have a ttl
	CapCellWatch Caps = C.HF_CAP_CELL_WATCH // a change of a cell wakes waiters by an event
	CapClock     Caps = C.HF_CAP_CLOCK      // a clock that all clients share: rate limits
	CapScripts   Caps = C.HF_CAP_SCRIPTS    // Lua scripts, not offered here
	CapWanted    Caps = C.HF_CAP_WANTED     // a holder learns that others wait
	CapLinger    Caps = C.HF_CAP_LINGER     // a released lease may stay with the process
	CapCommit    Caps = C.HF_CAP_COMMIT     // several cells in one step: Store.Commit
	CapConvert   Caps = C.HF_CAP_CONVERT    // Lease.Convert, upgradeable readers
	CapNumbered  Caps = C.HF_CAP_NUMBERED   // the slots of a semaphore have numbers
	CapResize    Caps = C.HF_CAP_RESIZE     // Store.Resize
)

// Has says whether all capabilities of want are in c.
func (c Caps) Has(want Caps) bool { return c&want == want }

// TokenStrength says how far the fencing tokens of an engine can be relied on.
type TokenStrength int

// The strengths of tokens.
const (
	TokenNone         TokenStrength = C.HF_TOKEN_STRENGTH_NONE
	TokenWhileDurable TokenStrength = C.HF_TOKEN_STRENGTH_WHILE_DURABLE // while the store keeps its data
	TokenStrict       TokenStrength = C.HF_TOKEN_STRENGTH_STRICT
)

// Lack is something that an engine cannot do, and why.
type Lack struct {
	Caps Caps
	Why  string
}

// Info says what a store is, and what it can do.
type Info struct {
	Engine     string // "lmdb"
	Location   string // the URL or path in use, without secrets
	Caps       Caps
	Tokens     TokenStrength
	DefaultTTL time.Duration // 0: leases have no ttl unless asked for
	MinTTL     time.Duration
	MaxTTL     time.Duration // 0: no limit
	Lacks      []Lack
	Source     string // what chose it: "the caller", "HOLDFAST_STORE", "profile NAME in FILE" or "the built-in default"
}

// Info says what this store is.
func (s *Store) Info() (Info, error) {
	info := C.hf_store_info{size: C.sizeof_hf_store_info}
	if status := C.hf_store_get(s.handle, &info); status != C.HF_OK {
		return Info{}, errorOf(status, nil)
	}
	return Info{
		Engine:     goText(info.engine),
		Location:   goText(info.location),
		Caps:       Caps(info.caps),
		Tokens:     TokenStrength(info.tokens),
		DefaultTTL: goDuration(info.default_ttl_ms),
		MinTTL:     goDuration(info.min_ttl_ms),
		MaxTTL:     goDuration(info.max_ttl_ms),
		Lacks:      lacksOf(info.lacks),
		Source:     goText(info.source),
	}, nil
}

func lacksOf(list *C.hf_engine_lack) []Lack {
	var lacks []Lack
	for ; list != nil && list.why != nil; list = (*C.hf_engine_lack)(unsafe.Add(unsafe.Pointer(list), C.sizeof_hf_engine_lack)) {
		lacks = append(lacks, Lack{Caps(list.caps), goText(list.why)})
	}
	return lacks
}

// Engine is an engine of the library and its promises.
type Engine struct {
	Name      string   // "lmdb"
	Schemes   []string // "redis", "rediss"
	Choice    string   // "wire=plain": what a URL says to have these promises; "": nothing
	Available bool     // its module is there and loads
	WhyNot    string   // if it is not available
	Caps      Caps
	Tokens    TokenStrength
	Lacks     []Lack
	// The promise table, a few words each.
	OnCrash, OnPause, OnClockJump, OnServerLoss, OnPartition, Fairness, Wakeup string
}

// Engines lists the engines, each with all sets of promises among which a URL can choose.
func Engines() []Engine {
	var engines []Engine
	for i := C.size_t(0); C.hf_engine_get(i) != nil; i++ {
		for mode := C.size_t(0); ; mode++ {
			e := C.hf_engine_get_mode(i, mode)
			if e == nil {
				break
			}
			engines = append(engines, engineOf(e))
		}
	}
	return engines
}

func engineOf(e *C.hf_engine_info) Engine {
	return Engine{
		Name: goText(e.name), Schemes: strings.Fields(goText(e.schemes)),
		Choice: goText(e.choice), Available: bool(e.available), WhyNot: goText(e.why_not),
		Caps: Caps(e.caps), Tokens: TokenStrength(e.tokens), Lacks: lacksOf(e.lacks),
		OnCrash: goText(e.on_crash), OnPause: goText(e.on_pause),
		OnClockJump: goText(e.on_clock_jump), OnServerLoss: goText(e.on_server_loss),
		OnPartition: goText(e.on_partition), Fairness: goText(e.fairness), Wakeup: goText(e.wakeup),
	}
}

var scopes uint64

// NewScope returns an identity that no other call in this process returns. See [Scope].
func NewScope() uint64 { return atomic.AddUint64(&scopes, 1) }

type scopeKey struct{}

// WithScope returns a context with a scope of its own. All leases that are acquired with it belong to one
// session: they take part in deadlock detection, and [Reentrant] requests of it may take a name again. Goroutines
// have no identity; a scope is what a thread is in C.
func WithScope(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, NewScope())
}
