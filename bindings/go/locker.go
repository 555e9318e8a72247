// SPDX-License-Identifier: MIT

package holdfast

import (
	"context"
	"errors"
	"sync"
)

// Mutex is a [sync.Locker] over a lock of a store, for code that knows only that interface. What such code cannot be told is a
// panic with the *[Error]: a lock that cannot be acquired, and an Unlock that finds the lease lost.
type Mutex struct {
	store   *Store
	name    string
	options []Option

	mu    sync.Mutex
	lease *Lease
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
	m.set(lease)
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
	m.set(lease)
	return true
}

func (m *Mutex) set(lease *Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease = lease
}

// Lease returns the present lease, nil if it is not locked through this Mutex.
func (m *Mutex) Lease() *Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease
}

// Unlock releases it.
func (m *Mutex) Unlock() {
	m.mu.Lock()
	lease := m.lease
	m.lease = nil
	m.mu.Unlock()
	unlock(lease)
}

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

	mu      sync.Mutex
	writer  *Lease
	readers []*Lease
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if kind == KindShared {
		m.readers = append(m.readers, lease)
	} else {
		m.writer = lease
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
func (m *RWMutex) Unlock() {
	m.mu.Lock()
	lease := m.writer
	m.writer = nil
	m.mu.Unlock()
	unlock(lease)
}

// RUnlock releases one reader. They are all the same.
func (m *RWMutex) RUnlock() {
	m.mu.Lock()
	var lease *Lease
	if n := len(m.readers); n > 0 {
		lease = m.readers[n-1]
		m.readers = m.readers[:n-1]
	}
	m.mu.Unlock()
	unlock(lease)
}

// RLocker returns a [sync.Locker] whose Lock and Unlock are RLock and RUnlock.
func (m *RWMutex) RLocker() sync.Locker { return (*rlocker)(m) }

type rlocker RWMutex

func (r *rlocker) Lock()   { (*RWMutex)(r).RLock() }
func (r *rlocker) Unlock() { (*RWMutex)(r).RUnlock() }
