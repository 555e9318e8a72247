// SPDX-License-Identifier: MIT

package holdfast

// #include <stdlib.h>
import "C"

import (
	"sync"
	"unsafe"
)

// idTable maps keys that C keeps as the argument of a callback to Go objects. C never keeps a Go
// pointer. A key is the address of a byte in C memory, so it is a valid pointer for both languages;
// keys are used again, and their memory is never freed.
type idTable struct {
	mu      sync.RWMutex
	objects map[unsafe.Pointer]interface{}
	free    []unsafe.Pointer
}

var ids = idTable{objects: make(map[unsafe.Pointer]interface{})}

const keysInBlock = 256

func (t *idTable) add(object interface{}) unsafe.Pointer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.free) == 0 {
		block := C.malloc(keysInBlock)
		for i := 0; i < keysInBlock; i++ {
			t.free = append(t.free, unsafe.Add(block, i))
		}
	}
	key := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.objects[key] = object
	return key
}

func (t *idTable) get(key unsafe.Pointer) interface{} {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.objects[key]
}

// take returns what the key meant, nil if nothing, and ends it.
func (t *idTable) take(key unsafe.Pointer) interface{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	object := t.objects[key]
	t.drop(key, object)
	return object
}

// remove ends a key if it still means this object: by now it may mean another one.
func (t *idTable) remove(key unsafe.Pointer, object interface{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(key, object)
}

// drop is called with the lock.
func (t *idTable) drop(key unsafe.Pointer, object interface{}) {
	if object != nil && t.objects[key] == object {
		delete(t.objects, key)
		t.free = append(t.free, key)
	}
}

// count returns how many callbacks are expected or possible.
func (t *idTable) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.objects)
}

// arena holds the C memory of one call's inputs.
type arena struct {
	memory []unsafe.Pointer
	bad    bool // a text had a NUL in it
}

// bytes returns a copy. It is never nil, so that no bytes differ from an absent pointer.
func (a *arena) bytes(s string) (unsafe.Pointer, C.size_t) {
	p := C.malloc(C.size_t(len(s)) + 1)
	copy(unsafe.Slice((*byte)(p), len(s)+1), s)
	a.memory = append(a.memory, p)
	return p, C.size_t(len(s))
}

// text returns a copy that ends with a NUL; nil for "".
func (a *arena) text(s string) *C.char {
	if s == "" {
		return nil
	}
	return a.textOrEmpty(s)
}

func (a *arena) textOrEmpty(s string) *C.char {
	for i := 0; i < len(s); i++ {
		if s[i] == 0 {
			a.bad = true
		}
	}
	p := unsafe.Pointer(C.CString(s))
	a.memory = append(a.memory, p)
	return (*C.char)(p)
}

// zeroed returns n zero bytes.
func (a *arena) zeroed(n uintptr) unsafe.Pointer {
	p := C.calloc(1, C.size_t(n))
	a.memory = append(a.memory, p)
	return p
}

func (a *arena) release() {
	for _, p := range a.memory {
		C.free(p)
	}
	a.memory = nil
}
