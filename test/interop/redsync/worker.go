// SPDX-License-Identifier: MIT

// Go's redsync as a worker: worker PORT[,PORT...]. The commands are those of ../worker.c.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// A node that is gone is no news here.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...interface{}) {}

var pool *redsync.Redsync
var held *redsync.Mutex

func millis(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func lock(name string, waitMs, ttlMs int64) (*redsync.Mutex, error) {
	if ttlMs < 0 {
		ttlMs = -ttlMs
	}
	tries := 1
	if waitMs > 0 {
		tries = int(waitMs/5) + 1
	}
	mutex := pool.NewMutex(name,
		redsync.WithExpiry(time.Duration(ttlMs)*time.Millisecond),
		redsync.WithTries(tries),
		redsync.WithRetryDelayFunc(func(int) time.Duration {
			return time.Duration(2+rand.Intn(6)) * time.Millisecond
		}))
	return mutex, mutex.Lock()
}

func raise(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	time.Sleep(200 * time.Microsecond)
	return os.WriteFile(path, []byte(fmt.Sprintln(number+1)), 0o600)
}

func hammer(name, path string, count int64, storm bool) string {
	for i := int64(0); i < count; i++ {
		mutex, err := lock(name, 120000, 10000)
		if err != nil {
			return "TIMEOUT"
		}
		if err := raise(path); err != nil {
			return "ERROR " + err.Error()
		}
		if ok, err := mutex.Unlock(); (!ok || err != nil) && !storm {
			return "LOST"
		}
	}
	return "OK"
}

func serve(words []string) string {
	switch words[0] {
	case "acquire":
		mutex, err := lock(words[1], millis(words[2]), millis(words[3]))
		if err == nil {
			held = mutex
			return "OK"
		}
		var taken *redsync.ErrTaken
		if millis(words[2]) > 0 {
			return "TIMEOUT"
		}
		if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
			return "BUSY"
		}
		return "ERROR " + err.Error()
	case "release":
		if ok, err := held.Unlock(); !ok || err != nil {
			return "LOST"
		}
		return "OK"
	case "extend":
		// It extends by the expiry that it was made with: a mutex with the same value has the other one.
		longer := pool.NewMutex(held.Name(), redsync.WithValue(held.Value()),
			redsync.WithExpiry(time.Duration(millis(words[1]))*time.Millisecond))
		if ok, err := longer.Extend(); !ok || err != nil {
			return "LOST"
		}
		held = longer
		return "OK"
	default:
		return hammer(words[1], words[2], millis(words[3]), words[0] == "storm")
	}
}

func main() {
	var pools []redsyncredis.Pool
	redis.SetLogger(quiet{})
	for _, port := range strings.Split(os.Args[1], ",") {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:" + port, MaxRetries: -1, DialTimeout: time.Second, DialerRetries: 1})))
	}
	pool = redsync.New(pools...)
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(serve(strings.Fields(lines.Text())))
	}
}
