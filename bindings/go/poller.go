// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// poller is the one goroutine of a store that runs the callbacks of asynchronous calls. It sleeps in
// the poller of the Go runtime, which watches the descriptor of the store: no thread is blocked,
// however many calls wait.
type poller struct {
	store   *C.hf_store
	file    *os.File // a duplicate of hf_store_fd(), an epoll descriptor
	conn    syscall.RawConn
	stopped chan struct{}

	mu       sync.Mutex
	stopping bool
	deadline time.Time // when the store wants to be driven at the latest; zero: no limit
}

func startPoller(store *C.hf_store) (*poller, error) {
	own := C.hf_store_fd(store)
	if own < 0 { // another goroutine has closed the store in this moment
		return nil, newError(ErrInvalid, "the store is closed")
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(own), syscall.F_DUPFD_CLOEXEC, 0)
	if errno == syscall.EBADF { // closed since
		return nil, newError(ErrInvalid, "the store is closed")
	}
	if errno != 0 {
		return nil, &Error{Status: ErrUnavailable, Native: int(errno),
			Text: "no descriptor for the store: " + errno.Error()}
	}
	// Nonblocking, or os.NewFile does not give it to the runtime's poller.
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		syscall.Close(int(fd))
		return nil, newError(ErrInternal, "the store's descriptor: "+err.Error())
	}
	p := &poller{store: store, file: os.NewFile(fd, "holdfast")}
	conn, err := p.file.SyscallConn()
	if err == nil {
		err = p.file.SetReadDeadline(time.Time{}) // fails if the runtime does not poll it
	}
	if err != nil {
		p.file.Close()
		return nil, newError(ErrInternal, "the store's descriptor: "+err.Error())
	}
	p.conn = conn
	p.resume()
	return p, nil
}

func (p *poller) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = false
	p.stopped = make(chan struct{})
	go p.run(p.stopped)
}

// pause ends the goroutine and waits for that.
func (p *poller) pause() {
	p.mu.Lock()
	p.stopping = true
	p.setDeadline(time.Unix(1, 0))
	stopped := p.stopped
	p.mu.Unlock()
	<-stopped
}

func (p *poller) close() { p.file.Close() }

func (p *poller) run(stopped chan<- struct{}) {
	defer close(stopped)
	for p.arm() {
		p.sleep()
		C.hf_store_process(p.store)
	}
}

// sleep returns when the descriptor is readable or the deadline has passed. The descriptor is looked
// at after the runtime has begun to watch for edges: so none is missed.
func (p *poller) sleep() {
	looked := false
	_ = p.conn.Read(func(fd uintptr) bool {
		if looked {
			return true
		}
		looked = true
		return C.hfgo_readable(C.int(fd)) != 0
	}) // an error: the deadline has passed
}

// arm sets the deadline that the store asks for. false: stop.
func (p *poller) arm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return false
	}
	at := p.timeout()
	if at.IsZero() != p.deadline.IsZero() || !at.Equal(p.deadline) {
		p.setDeadline(at)
	}
	return true
}

// begun is called after a call has begun: the store may want to be driven earlier now.
func (p *poller) begun() {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.timeout()
	if !p.stopping && !at.IsZero() && (p.deadline.IsZero() || at.Before(p.deadline)) {
		p.setDeadline(at)
	}
}

func (p *poller) timeout() time.Time {
	ms := C.hf_store_timeout_ms(p.store)
	if ms < 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ms) * time.Millisecond)
}

// setDeadline is called with the lock.
func (p *poller) setDeadline(at time.Time) {
	p.deadline = at
	_ = p.file.SetReadDeadline(at) // it fails only if the file is closed
}
