// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"strings"
)

// Status says how a call of the library ended. Each status but OK is an error of its own, to be
// used with [errors.Is]:
//
//	if errors.Is(err, holdfast.ErrBusy) { ... }
type Status int

// The statuses of the library.
const (
	OK             Status = C.HF_OK
	ErrBusy        Status = C.HF_BUSY        // somebody else holds it
	ErrTimeout     Status = C.HF_TIMEOUT     // the deadline passed before it was granted
	ErrCancelled   Status = C.HF_CANCELLED   // the context ended, or the store is being closed
	ErrMismatch    Status = C.HF_MISMATCH    // the name is in use as another kind or capacity
	ErrLost        Status = C.HF_LOST        // the lease is lost
	ErrNotFound    Status = C.HF_NOT_FOUND   // there is no such thing
	ErrInvalid     Status = C.HF_INVALID     // an argument is invalid, or the handle has ended
	ErrConfig      Status = C.HF_CONFIG      // the URL or the configuration is invalid
	ErrUnsupported Status = C.HF_UNSUPPORTED // this engine cannot do that
	ErrUnavailable Status = C.HF_UNAVAILABLE // the store cannot be reached
	ErrDenied      Status = C.HF_DENIED      // the store denied access
	ErrUnknown     Status = C.HF_UNKNOWN     // it may have been done, or not
	ErrCorrupt     Status = C.HF_CORRUPT     // the store's data is damaged
	ErrNoMemory    Status = C.HF_NO_MEMORY   // out of memory
	ErrForked      Status = C.HF_FORKED      // the handle belongs to the parent process
	ErrInUse       Status = C.HF_IN_USE      // still in use
	ErrTooShort    Status = C.HF_TOO_SHORT   // granted, but with too little validity left
	ErrFull        Status = C.HF_FULL        // the store is full
	ErrVersion     Status = C.HF_VERSION     // the store was made by another version
	ErrInternal    Status = C.HF_INTERNAL    // an internal error
	ErrFenced      Status = C.HF_FENCED      // a newer token has already been used
	ErrDeadlock    Status = C.HF_DEADLOCK    // waiting for it would be a deadlock
	ErrChanged     Status = C.HF_CHANGED     // it was changed in the meantime
	ErrOverflow    Status = C.HF_OVERFLOW    // the result is out of range
	ErrBroken      Status = C.HF_BROKEN      // a participant died
	ErrDone        Status = C.HF_DONE        // it has been done already
	ErrYielded     Status = C.HF_YIELDED     // the lease was yielded and acquired again
)

// ErrReleased is what [Lease.Err] and [Cause] say of a lease that its owner has released.
var ErrReleased = errors.New("holdfast: the lease was released")

// Name returns the name of the status in C without its prefix: "BUSY".
func (s Status) Name() string { return C.GoString(C.hf_status_name(C.hf_status(s))) }

// String returns what the status means: "busy: another holder has it".
func (s Status) String() string { return C.GoString(C.hf_status_text(C.hf_status(s))) }

// Error returns the same with the name of the package.
func (s Status) Error() string { return "holdfast: " + s.String() }

// Error is what a call returns that did not succeed. errors.Is(err, ErrBusy) compares its status;
// if a context ended the call, errors.Is(err, context.Canceled) or context.DeadlineExceeded is true too.
type Error struct {
	Status Status
	Native int    // the engine's own code (errno for the embedded store), 0 if none
	Text   string // what happened, wrapped from outer to inner; never with a password
	cause  error
}

// Error returns the text.
func (e *Error) Error() string {
	text := e.Text
	if text == "" {
		text = e.Status.String()
	}
	return "holdfast: " + text
}

// Is reports whether target is the status of the error.
func (e *Error) Is(target error) bool {
	status, ok := target.(Status)
	return ok && status == e.Status
}

// Unwrap returns the error of the context that ended the call, nil if none did.
func (e *Error) Unwrap() error { return e.cause }

// StatusOf returns the status of an error of this package: OK for nil, ErrInternal for an error
// from elsewhere.
func StatusOf(err error) Status {
	var full *Error
	var status Status
	switch {
	case err == nil:
		return OK
	case errors.As(err, &full):
		return full.Status
	case errors.As(err, &status):
		return status
	}
	return ErrInternal
}

func errorOf(status C.hf_status, e *C.hf_error) *Error {
	err := &Error{Status: Status(status)}
	if e != nil {
		err.Native = int(e.native)
		err.Text = goText(&e.text[0])
	}
	return err
}

func newError(status Status, text string) *Error { return &Error{Status: status, Text: text} }

// endedBy is the error of a call that the context ended.
func endedBy(ctx context.Context, status Status) *Error {
	cause := ctx.Err()
	if status == OK {
		status = ErrCancelled
		if errors.Is(cause, context.DeadlineExceeded) {
			status = ErrTimeout
		}
	}
	return &Error{Status: status, Text: status.String() + ": " + cause.Error(), cause: cause}
}

// goText copies a text of the library. It may hold any bytes: those that are not UTF-8 are replaced.
func goText(text *C.char) string {
	if text == nil {
		return ""
	}
	return strings.ToValidUTF8(C.GoString(text), "\uFFFD")
}
