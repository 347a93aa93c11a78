// Package workload measures what locks do. The workloads are written once,
// against a small interface; a backend contributes contenders, ours and those
// that it is compared with.
package workload

import (
	"context"
	"time"
)

// Contender is one way to lock on a backend: a library together with its
// settings.
type Contender struct {
	Name     string
	Settings string
	Ours     bool     // what it does wrong is an error of this project
	Takes    []string // the names of its workloads
	Open     func(ctx context.Context, o Options) (Client, error)

	// Least is how long it has to run in W1 to W4 at a time before its figures mean
	// something.
	Least time.Duration

	// Rehearsed: in W5 everybody waits once before. The server prepares for each
	// connection what a hand-over takes when it is first done there.
	Rehearsed bool

	// Elsewhere runs W1 to W5 where Open is of no use: in another process.
	Elsewhere Elsewhere
}

// Options say what a client is opened for.
type Options struct {
	TTL     time.Duration // after which the lock of a dead client is free
	Clients int           // so many are opened at the same time
}

// Client has connections of its own.
type Client interface {
	// Lock returns the lock of that name.
	Lock(name string) Lock
	Close() error
}

// Lock waits until it is held or ctx ends. It serves many goroutines.
type Lock func(ctx context.Context) (Held, error)

// Held is a lock that is held.
type Held interface{ Release() error }

// What follows is implemented by those who have it.
type (
	// numbered is a Held with a fencing token.
	numbered interface{ Token() uint64 }

	// renewable is a Held that nobody renews unless its user does.
	renewable interface {
		Renew(ctx context.Context) error
	}

	// counting is a Client that counts its exchanges with the server.
	counting interface{ Exchanges() uint64 }

	// lining is a Client that knows who waits for a lock, in order. The names
	// are those of their identified Held.
	lining interface {
		Waiting(ctx context.Context, name string) ([]string, error)
	}
	identified interface{ Ticket() string }

	// queueing is a Client that knows only how many wait.
	queueing interface {
		Queued(ctx context.Context, name string) (int, error)
	}
)

// Backend is what contenders compete on.
type Backend struct {
	Name       string
	Start      func(ctx context.Context) (Server, error)
	Contenders func(url string) []Contender
	Beside     map[string]string // by workload: the contender that a ratio is of; or BestPeer
	Goals      []Goal

	// Settle is how long the waiters of W5 wait before anything is released; 0: not
	// long.
	Settle time.Duration
}

// BestPeer stands for the fastest contender that is not ours.
const BestPeer = "the best peer"

// Server is a running server of a backend.
type Server interface {
	URL() string
	About() []string // version and settings
	Usage(ctx context.Context) (Usage, error)
	Clear(ctx context.Context) error // of what earlier contenders have left, if it is ours
	Close() error
}

// Keeping is a Server that knows how many bytes it keeps for its clients, in memory or on the disk.
type Keeping interface {
	Kept(ctx context.Context) (float64, error)
}

// Usage is what a server has done so far, apart from answering that question.
// Numbers that are not known are NaN; CPU is 0 then.
type Usage struct {
	CPU            time.Duration
	Sent, Received float64 // bytes
	Commands       float64 // those within scripts too
	Scripts        float64
	Transactions   float64 // those that write
}

func (u Usage) sub(v Usage) Usage {
	return Usage{
		CPU: u.CPU - v.CPU, Sent: u.Sent - v.Sent, Received: u.Received - v.Received,
		Commands: u.Commands - v.Commands, Scripts: u.Scripts - v.Scripts, Transactions: u.Transactions - v.Transactions,
	}
}

// Goal is what one of ours is to reach: a ratio to peers of the same run, or a
// bound if there are none.
type Goal struct {
	Workload, Who   string
	Figure          string
	Of              []string // the best of these; BestPeer: of all that are not ours
	AtLeast, AtMost float64  // 0: no bound
}
