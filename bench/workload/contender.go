// Package workload measures what locks do. The workloads are written once,
// against a small interface; a backend contributes contenders: Interlock, and
// those that it is compared with.
package workload

import (
	"context"
	"os"
	"time"
)

// Contender is one way to lock on a backend: a library together with its
// settings.
type Contender struct {
	Name     string
	Settings string
	Ours     bool     // what it does wrong is an error of this project
	Also     []string // the workloads beside W1 to W4 and W10 that it can take part in
	Open     func(ctx context.Context, o Options) (Client, error)

	// Least is how long it has to run at a time, except in W5, before its figures mean
	// something.
	Least time.Duration

	// Compete runs W1 to W4 where Open is of no use: in another process.
	Compete func(ctx context.Context, s Shape, d, limit time.Duration) (Figures, error)
}

// Options say what a client is opened for.
type Options struct {
	TTL     time.Duration // after which the lock of a dead client is free
	Clients int           // so many are opened at the same time
}

// Client has connections of its own.
type Client struct {
	// Lock returns the lock of that name, for one goroutine.
	Lock func(name string) Lock

	// Readers returns a lock that many read under, and one alone writes under. W6 asks.
	Readers func(name string) (read, write Lock)

	// Slot returns one of so many permits. W7 asks.
	Slot func(name string, permits int) Lock

	// Waiting counts the clients that wait for a lock. W5 asks.
	Waiting func(ctx context.Context, name string) (int, error)

	Close func() error
}

// Lock waits until it is held or ctx ends.
type Lock func(ctx context.Context) (Held, error)

// Held is a lock that is held.
type Held struct {
	Token   uint64 // 0: it has none
	Release func() error
}

// Backend is what contenders compete on.
type Backend struct {
	Name       string
	Start      func(ctx context.Context) (Server, error)
	Contenders func(url string) []Contender
}

// Server is a running server of a backend.
type Server struct {
	URL   string
	About string // version and settings
	Close func()

	// Kept says how many bytes it keeps for its clients, in memory or on the disk.
	Kept func(ctx context.Context) (float64, error)
}

// Launch runs a server in a folder of its own. What it returns ends the server, with
// stop, and removes the folder.
func Launch[S any](run func(dir string) (S, error), stop func(S)) (s S, end func(), err error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return s, nil, err
	}
	if s, err = run(dir); err != nil {
		_ = os.RemoveAll(dir)
		return s, nil, err
	}
	return s, func() {
		stop(s)
		_ = os.RemoveAll(dir)
	}, nil
}
