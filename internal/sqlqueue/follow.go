package sqlqueue

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A follower is told when something changes. One serves all calls of this client.
type follower struct {
	refs int
	news chan struct{} // closed at the next change; guarded by Driver.mu
}

// followAgain is after what time whoever follows looks, whatever was heard.
const followAgain = 15 * time.Second

func (f *follower) changed() {
	close(f.news)
	f.news = make(chan struct{})
}

// change tells those who follow something. Driver.mu is held.
func (d *Driver) change(what string) {
	if f := d.followers[what]; f != nil {
		f.changed()
	}
}

// follower returns the one for what is followed, until release.
func (d *Driver) follower(what string) (f *follower, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f = d.followers[what]
	if f == nil {
		f = &follower{news: make(chan struct{})}
		d.followers[what] = f
	}
	f.refs++
	return f, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if f.refs--; f.refs == 0 {
			delete(d.followers, what)
		}
	}
}

func (d *Driver) news(f *follower) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return f.news
}

// heed waits for news, for a time at most.
func (d *Driver) heed(ctx context.Context, news <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
	case <-d.ctx.Done():
	}
	return d.usable(ctx)
}

// Follow waits for another state of a queue.
func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Queue{}, err
	}
	if err := driver.CheckName(queue); err != nil {
		return driver.Queue{}, err
	}
	q, err := d.read(ctx, queue, "")
	if err != nil || q.Version != after {
		return q, err
	}
	defer d.attend()()
	f, release := d.follower("queue " + queue)
	defer release()
	for {
		news := d.news(f)
		began := driver.Now()
		q, err := d.read(ctx, queue, d.channel)
		if err != nil || q.Version != after {
			return q, err
		}
		again := followAgain
		for _, m := range q.Members { // a death is a change of which nobody sends news
			again = min(again, m.Left+time.Millisecond)
		}
		// A long queue that changes all the time is not read all the time.
		if err := d.heed(ctx, nil, min(2*driver.Now().Sub(began), time.Second)); err != nil {
			return driver.Queue{}, err
		}
		if err := d.heed(ctx, news, again); err != nil {
			return driver.Queue{}, err
		}
	}
}

func (d *Driver) read(ctx context.Context, queue, channel string) (driver.Queue, error) {
	sent := driver.Now()
	r, err := ask(ctx, d, func(ctx context.Context) (Reading, error) { return d.store.Read(ctx, queue, channel) })
	return r.at(sent), err
}

// at completes what was read.
func (r Reading) at(sent driver.Instant) driver.Queue {
	q := r.Queue
	q.Read = sent
	q.Version = version(q, r.At)
	return q
}

// version tells states of a queue apart by what they show, so that nothing has to be
// counted. An end that only moves with renewals is no part of it.
func version(q driver.Queue, at time.Time) string {
	if len(q.Members) == 0 {
		return "empty"
	}
	h := fnv.New64a()
	write := func(s string) { h.Write([]byte(s)); h.Write([]byte{0}) }
	write(string(q.Kind))
	write(strconv.FormatInt(q.Capacity, 10))
	for _, m := range q.Members {
		write(m.ID)
		write(strconv.FormatInt(m.Units, 10))
		write(strconv.FormatUint(m.Token, 10))
		if m.Fixed {
			write(strconv.FormatInt(at.Add(m.Left).UnixMicro(), 10))
		}
	}
	return strconv.FormatUint(h.Sum64(), 36)
}
