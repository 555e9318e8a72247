// SPDX-License-Identifier: MIT

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"holdfast"
)

// example opens a store in a directory of its own. A program opens "redis://host", say.
func example() (*holdfast.Store, func()) {
	dir, err := os.MkdirTemp("", "holdfast-example-")
	if err != nil {
		panic(err)
	}
	store, err := holdfast.Open(context.Background(), "file:"+dir+"/store")
	if err != nil {
		panic(err)
	}
	return store, func() {
		_ = store.CloseRelease()
		os.RemoveAll(dir)
	}
}

func ExampleStore_Lock() {
	store, end := example()
	defer end()
	ctx := context.Background()

	lease, err := store.Lock(ctx, "report", holdfast.Wait(5*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()
	_, err = store.TryLock(ctx, "report")
	fmt.Println(lease.State(), errors.Is(err, holdfast.ErrBusy))
	// Output: held true
}

func ExampleLease_Context() {
	store, end := example()
	defer end()
	lease, err := store.Lock(context.Background(), "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := lease.Context(context.Background())
	// An operator breaks the lease: the work must stop.
	_ = store.Break(ctx, "report", lease.Token())
	<-ctx.Done()
	fmt.Println(errors.Is(holdfast.Cause(ctx), holdfast.ErrLost))
	// Output: true
}

func ExampleGuard() {
	store, end := example()
	defer end()
	ctx := context.Background()
	page := store.Guard("page")
	for _, i := range []int{1, 2} {
		i := i
		lease, err := store.Lock(ctx, "report")
		if err != nil {
			fmt.Println(err)
			return
		}
		token := lease.Token()
		_ = lease.Release()
		defer func() {
			err := page.Set(ctx, token, []byte("again"))
			fmt.Println("token", i, "is refused:", errors.Is(err, holdfast.ErrFenced))
		}()
		fmt.Println(page.Set(ctx, token, []byte("new")))
	}
	// Output:
	// <nil>
	// <nil>
	// token 2 is refused: false
	// token 1 is refused: true
}

func ExampleStore_Mutex() {
	store, end := example()
	defer end()
	var locker sync.Locker = store.Mutex("report")
	locker.Lock()
	fmt.Println("alone")
	locker.Unlock()
	// Output: alone
}

func ExampleCell_Update() {
	store, end := example()
	defer end()
	_, err := store.Cell("motto").Update(context.Background(),
		func(old holdfast.CellValue) (holdfast.CellChange, error) {
			return holdfast.CellChange{Action: holdfast.CellWrite, Bytes: append(old.Bytes, '!')}, nil
		})
	value, _ := store.Cell("motto").Get(context.Background())
	fmt.Println(err, string(value.Bytes))
	// Output: <nil> !
}
