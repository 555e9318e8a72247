// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// The server's advisory lock through pgx; SERVER is a URL.
type pgxLock struct {
	db *pgx.Conn
}

func init() {
	kinds["pgx"] = func(server string) (lock, error) {
		db, err := pgx.Connect(context.Background(), server)
		return &pgxLock{db}, err
	}
}

func (l *pgxLock) retry(time.Duration) {} // it waits in the server

func (l *pgxLock) acquire() error {
	_, err := l.db.Exec(context.Background(), "SELECT pg_advisory_lock(4712)")
	return err
}

func (l *pgxLock) release() error {
	_, err := l.db.Exec(context.Background(), "SELECT pg_advisory_unlock(4712)")
	return err
}
