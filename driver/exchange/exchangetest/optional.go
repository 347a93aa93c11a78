package exchangetest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/flock"
)

// Optional is one client of a world that has what few backends have: a replica that may take over,
// one floor for the tokens of all queues, and sessions that end when a file is closed. It locks the
// file of a session; the world tries to, to see whether it is closed.
type Optional struct {
	*Store
	dir   string
	files []*os.File
}

var (
	_ exchange.Confirmer = (*Optional)(nil)
	_ exchange.Raiser    = (*Optional)(nil)
)

// Optional makes a client, which keeps the files of its sessions in a directory.
func (w *World) Optional(dir string) *Optional {
	return &Optional{Store: w.Store(), dir: dir}
}

// Driver is [DriverOf] the client.
func (o *Optional) Driver() *exchange.Driver { return DriverOf(o) }

// Begin implements [exchange.Store].
func (o *Optional) Begin(ctx context.Context, row exchange.Session) (exchange.Begun, error) {
	path := filepath.Join(o.dir, row.ID)
	file, err := flock.Open(ctx, path)
	if err != nil {
		return exchange.Begun{}, err
	}
	begun, err := o.Store.Begin(ctx, row)
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.files = append(o.files, file)
	o.w.files[row.ID] = path
	begun.Liveness = either(o.w, Liveness, nil, []*os.File{file})
	return begun, err
}

// dead reports whether a session lives as long as a file that no process has open.
func (w *World) dead(o exchange.Session) bool {
	if w.files[o.ID] == "" {
		return false
	}
	file, err := os.Open(w.files[o.ID])
	if err != nil {
		panic(err) // its directory is gone
	}
	defer file.Close()
	closed, err := flock.Try(file)
	return closed && err == nil
}

// Close implements [exchange.Store].
func (o *Optional) Close() {
	o.Store.Close()
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	for _, file := range o.files {
		_ = file.Close() // nothing was written
	}
}

// Confirm implements [exchange.Confirmer]. The replica has a ticket as soon as this has asked for that.
func (o *Optional) Confirm(ctx context.Context, _ exchange.Session, ref exchange.Ref, _ bool) (undone bool, err error) {
	return false, do(ctx, o.Store, func(time.Time) error { o.w.copied[ref.ID] = !o.w.has(Confirm); return nil })
}

// Failover has the replica take over. It has no ticket but those whose grants were confirmed.
func (w *World) Failover() {
	w.Crash("the replica")
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queues {
		q.Tickets = slices.DeleteFunc(q.Tickets, func(t *rows.Ticket) bool { return !w.copied[t.ID] })
	}
}

// RaiseAll implements [exchange.Raiser].
func (o *Optional) RaiseAll(ctx context.Context, floor uint64) error {
	return do(ctx, o.Store, func(time.Time) error {
		o.w.floor = either(o.w, RaiseAll, o.w.floor, max(o.w.floor, floor))
		for _, q := range o.w.queues {
			q.Token = max(q.Token, floor)
		}
		return nil
	})
}
