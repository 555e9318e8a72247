// SPDX-License-Identifier: MIT

package holdfast

import (
	"context"
	"errors"
	"sync"
)

// Mutex is a [sync.Locker] over a lock of a store, for code that knows only that interface. What such code cannot be told is a
// panic with the *[Error]: a lock that cannot be acquired, and an Unlock that finds the lease lost.
//
// After a loss another goroutine may lock it before the first one has called Unlock. Goroutines have no identity, so Unlock
// takes the lost lease first: the panic may come in the goroutine that holds the new one, and that one is given back by the
// Unlock of the other goroutine. No Unlock releases a lease while a lost one is left.
type Mutex struct {
	store   *Store
	name    string
	options []Option
	held    held
}

// held is what was acquired through one object and not released.
type held struct {
	mu  sync.Mutex
	all []*Lease
}

func (h *held) add(lease *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, lease)
}

// last returns the youngest one; nil: there is none.
func (h *held) last() *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return nil
	}
	return h.all[len(h.all)-1]
}

// take returns the one that is to be released: a lost one, else the one with the lowest token. Of leases that exclude each
// other only the newest can be held, and the others are lost even if this process has not been told yet. nil: there is none.
func (h *held) take() *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return nil
	}
	first := 0
	if len(h.all) > 1 {
		for i := range h.all[1:] {
			if before(h.all[i+1], h.all[first]) {
				first = i + 1
			}
		}
	}
	lease := h.all[first]
	h.all = append(h.all[:first], h.all[first+1:]...)
	return lease
}

// before says whether a is to be released before b.
func before(a, b *Lease) bool {
	aLost, bLost := a.State() == StateLost, b.State() == StateLost
	if aLost != bLost {
		return aLost
	}
	return a.Token() < b.Token()
}

var (
	_ sync.Locker = (*Mutex)(nil)
	_ sync.Locker = (*RWMutex)(nil)
)

// Mutex returns a [sync.Locker] for the lock of this name.
func (s *Store) Mutex(name string, options ...Option) *Mutex {
	return &Mutex{store: s, name: name, options: options}
}

// Lock acquires it, and waits without a limit unless the options have one.
func (m *Mutex) Lock() {
	lease, err := m.store.Lock(context.Background(), m.name, m.options...)
	if err != nil {
		panic(err)
	}
	m.held.add(lease)
}

// TryLock acquires it if it is free.
func (m *Mutex) TryLock() bool {
	lease, err := m.store.TryLock(context.Background(), m.name, m.options...)
	if errors.Is(err, ErrBusy) {
		return false
	}
	if err != nil {
		panic(err)
	}
	m.held.add(lease)
	return true
}

// Lease returns the lease that was acquired last, nil if it is not locked through this Mutex.
func (m *Mutex) Lease() *Lease { return m.held.last() }

// Unlock releases it.
func (m *Mutex) Unlock() { unlock(m.held.take()) }

// unlock panics if the lease was lost. A store that could not be told is told in the background.
func unlock(lease *Lease) {
	if lease == nil {
		panic("holdfast: unlock of an unlocked mutex")
	}
	if err := lease.Release(); errors.Is(err, ErrLost) || errors.Is(err, ErrInvalid) {
		panic(err)
	}
}

// RWMutex is to [sync.RWMutex] what [Mutex] is to [sync.Mutex].
type RWMutex struct {
	store   *Store
	name    string
	options []Option

	writers held
	readers held
}

// RWMutex returns a read-write lock with the methods of [sync.RWMutex].
func (s *Store) RWMutex(name string, options ...Option) *RWMutex {
	return &RWMutex{store: s, name: name, options: options}
}

func (m *RWMutex) acquire(kind Kind, try bool) bool {
	options := m.options
	if try {
		options = append(options[:len(options):len(options)], Wait(0))
	}
	lease, err := m.store.Acquire(context.Background(), Request{Name: m.name, Kind: kind}, options...)
	if try && errors.Is(err, ErrBusy) {
		return false
	}
	if err != nil {
		panic(err)
	}
	if kind == KindShared {
		m.readers.add(lease)
	} else {
		m.writers.add(lease)
	}
	return true
}

// Lock acquires it as the writer.
func (m *RWMutex) Lock() { m.acquire(KindExclusive, false) }

// TryLock acquires it as the writer if that is possible at once.
func (m *RWMutex) TryLock() bool { return m.acquire(KindExclusive, true) }

// RLock acquires it as a reader.
func (m *RWMutex) RLock() { m.acquire(KindShared, false) }

// TryRLock acquires it as a reader if that is possible at once.
func (m *RWMutex) TryRLock() bool { return m.acquire(KindShared, true) }

// Unlock releases the writer.
func (m *RWMutex) Unlock() { unlock(m.writers.take()) }

// RUnlock releases one reader. They are all the same.
func (m *RWMutex) RUnlock() { unlock(m.readers.take()) }

// RLocker returns a [sync.Locker] whose Lock and Unlock are RLock and RUnlock.
func (m *RWMutex) RLocker() sync.Locker { return (*rlocker)(m) }

type rlocker RWMutex

func (r *rlocker) Lock()   { (*RWMutex)(r).RLock() }
func (r *rlocker) Unlock() { (*RWMutex)(r).RUnlock() }
