package conn

import (
	"context"
	"net"

	"github.com/redis/rueidis"
)

// Dedicated is a connection with one user.
//
// The client of Redis unsubscribes from everything over a connection that it takes back
// and that it reads in the background: as it does for subscriptions, and for calls without
// a deadline. If the server answers BUSY to that, since somebody's script runs for long,
// the client (1.0.79) loses count of the answers and panics. So only connections go back
// that are certainly not like that, after calls that the server has answered.
type Dedicated struct {
	rueidis.DedicatedClient
	Back func()
}

// Dedicate is that of the client, but ends with ctx, or with life: the client may have to dial
// first. What it brings after that is for late.
func Dedicate(ctx, life context.Context, client rueidis.Client, late func(*Dedicated)) (*Dedicated, error) {
	got := make(chan *Dedicated, 1)
	go func() {
		conn, back := client.Dedicate()
		got <- &Dedicated{conn, back}
	}()
	select {
	case c := <-got:
		return c, nil
	case <-ctx.Done():
	case <-life.Done():
	}
	go func() { late(<-got) }()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, net.ErrClosed
}

// Done gives the connection back after calls with ctx, or ends it. Neither waits for the
// server.
func (c *Dedicated) Done(ctx context.Context, err error) {
	if _, bounded := ctx.Deadline(); bounded && err == nil {
		go c.Back()
	} else {
		go c.Close()
	}
}
