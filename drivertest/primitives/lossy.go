package primitives

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
)

var errReply = errors.New("primitives: the reply was lost")

// lossy is a driver that loses replies: calls have their effect, and return an
// error. Of each method the first reply is lost and then every third, so that
// a repetition is answered.
type lossy struct {
	driver.Driver
	losses *losses
}

type losses struct {
	mu    sync.Mutex
	calls map[string]int
}

// reply loses the reply, or not. A call that has ended with its context has none.
func (l *losses) reply(ctx context.Context, method string, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[string]int{}
	}
	n := l.calls[method]
	l.calls[method]++
	if n%3 == 0 && ctx.Err() == nil && (err == nil || !driver.IsPermanent(err)) {
		return errReply
	}
	return err
}

// answer returns nothing with an error.
func answer[T any](v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

func (d *lossy) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	s, err := d.Driver.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.Session = &lossySession{s.Session, d.losses}
	return s, nil
}

func (d *lossy) Load(ctx context.Context, name string) (driver.Cell, error) {
	c, err := d.Driver.Load(ctx, name)
	return answer(c, d.losses.reply(ctx, "Load", err))
}

func (d *lossy) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	c, err := d.Driver.Swap(ctx, s)
	return answer(c, d.losses.reply(ctx, "Swap", err))
}

func (d *lossy) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	c, err := d.Driver.Watch(ctx, name, after)
	return answer(c, d.losses.reply(ctx, "Watch", err))
}

func (d *lossy) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	q, err := d.Driver.Follow(ctx, queue, after)
	return answer(q, d.losses.reply(ctx, "Follow", err))
}

func (d *lossy) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	return d.losses.reply(ctx, "Ask", d.Driver.Ask(ctx, queue, id, what))
}

func (d *lossy) Raise(ctx context.Context, queue string, floor uint64) error {
	return d.losses.reply(ctx, "Raise", d.Driver.Raise(ctx, queue, floor))
}

func (d *lossy) Resize(ctx context.Context, queue string, capacity int64) error {
	return d.losses.reply(ctx, "Resize", d.Driver.Resize(ctx, queue, capacity))
}

type lossySession struct {
	driver.Session
	losses *losses
}

func (s *lossySession) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	t, err := s.Session.Join(ctx, r)
	return answer(t, s.losses.reply(ctx, "Join", err))
}

func (s *lossySession) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	got, err := s.Session.Await(ctx, t)
	return answer(got, s.losses.reply(ctx, "Await", err))
}

func (s *lossySession) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	return s.losses.reply(ctx, "Shrink", s.Session.Shrink(ctx, t, units))
}

func (s *lossySession) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	return s.losses.reply(ctx, "Keep", s.Session.Keep(ctx, t, d))
}

func (s *lossySession) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	return s.losses.reply(ctx, "Leave", s.Session.Leave(ctx, t, clean))
}
