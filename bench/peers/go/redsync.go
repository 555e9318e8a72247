// SPDX-License-Identifier: MIT

package main

import (
	"math"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

// redsync with go-redis; SERVER is one host:port, or five with commas between.
type redsyncLock struct {
	sync  *redsync.Redsync
	mutex *redsync.Mutex
}

func init() {
	kinds["redsync"] = func(server string) (lock, error) {
		pools := []redis.Pool{}
		for _, address := range strings.Split(server, ",") {
			pools = append(pools, goredis.NewPool(goredislib.NewClient(&goredislib.Options{Addr: address})))
		}
		l := &redsyncLock{sync: redsync.New(pools...)}
		l.retry(0)
		return l, nil
	}
}

func (l *redsyncLock) retry(delay time.Duration) {
	options := []redsync.Option{redsync.WithExpiry(30 * time.Second), redsync.WithTries(math.MaxInt32)}
	if delay > 0 {
		options = append(options, redsync.WithRetryDelay(delay))
	}
	l.mutex = l.sync.NewMutex("redsync-name", options...)
}

func (l *redsyncLock) acquire() error {
	return l.mutex.Lock()
}

func (l *redsyncLock) release() error {
	_, err := l.mutex.Unlock()
	return err
}
