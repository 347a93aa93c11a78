package sqlitelock

import (
	"context"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
)

// pollEvery is how often the file is looked at where there are no messages.
const pollEvery = 100 * time.Millisecond

// poll is the fallback where this driver cannot receive messages: as long as
// somebody waits it looks whether the file has changed.
type poll struct {
	d *Driver

	mu      sync.Mutex
	waiters int
	stop    context.CancelFunc
}

func (p *poll) attend() {
	if p.d.post.name != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiters++; p.waiters == 1 {
		ctx, stop := context.WithCancel(p.d.ctx)
		p.stop = stop
		p.d.background(func(context.Context) { p.run(ctx) })
	}
}

func (p *poll) leave() {
	if p.d.post.name != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiters--; p.waiters == 0 {
		p.stop()
	}
}

func (p *poll) run(ctx context.Context) {
	last := int64(-1)
	for tick := time.NewTicker(pollEvery); ; {
		version := last
		err := p.d.view(ctx, func(c conn, _ moment) error {
			_, err := c.one("PRAGMA data_version", func(s *sqlite.Stmt) { version = s.ColumnInt64(0) })
			return err
		})
		if err == nil && version != last {
			last = version
			p.d.bells.ringAll()
			_ = p.d.look(ctx, nil)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}
