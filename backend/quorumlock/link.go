package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/oneline"
)

// link is a session's standing with one member. One goroutine keeps it: it opens the session at the
// member again whenever that is over, looks whether a member that was muted answers again, and finds out
// when the member counts. All but the first lines is guarded by session.mu.
type link struct {
	s    *session
	m    *member
	i    int // of the member
	wake chan struct{}

	d       driver.Driver  // nil: not reached yet
	at      *driver.Opened // nil: there is no session at the member
	life    string         // "": not known
	sound   bool
	muted   bool
	until   driver.Instant // when the member is sound, if it is not
	err     error          // why it does not count
	settled bool           // it is known whether it counts
	owed    []debt

	objections map[string]objection // by queue
}

// debt is a place that is to be given back.
type debt struct {
	ticket driver.Ticket
	clean  bool
	end    driver.Instant // it has ended by itself
	paid   func()
}

// counts reports whether grants of the member count. s.mu is held.
func (l *link) counts() bool { return l.at != nil && l.sound && !l.muted }

func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// fails notes what is wrong with a member. s.mu is held.
func (l *link) fails(err error) {
	l.err, l.settled = err, true
	l.s.changed()
}

// silent notes that a call of the member has failed, so that nobody waits for it until it answers. s.mu
// is held.
func (l *link) silent(at *driver.Opened, err error) {
	if l.at != at || l.muted {
		return
	}
	l.muted = true
	l.fails(err)
	l.poke()
}

// over notes that the session at the member has ended, and with it all places there but those that are held
// for a fixed time. s.mu is held.
func (l *link) over(at *driver.Opened) {
	if l.at != at {
		return
	}
	l.at, l.sound, l.muted = nil, false, false
	for _, t := range l.s.tickets {
		switch p := &t.places[l.i]; {
		case p.at != at, p.state == joining: // the answer of its Join is awaited
		case p.state == waiting, p.state == granted && p.hold == 0:
			t.lost(l.i)
		}
	}
	l.fails(errors.New("it has given up the session"))
	l.poke()
}

// forgotten notes that a member is in another life. s.mu is held.
func (l *link) forgotten(at *driver.Opened, life string) {
	if l.at != at || l.life != life {
		return
	}
	l.life, l.sound = "", false
	l.fails(errors.New("it has lost its data"))
	l.poke()
}

// keep is the link's goroutine.
func (l *link) keep() {
	var b backoff.Backoff
	for l.s.ctx.Err() == nil {
		if err := l.reopen(); err != nil {
			l.s.mu.Lock()
			l.fails(err)
			l.s.mu.Unlock()
			if b.Sleep(l.s.ctx) != nil {
				return
			}
			continue
		}
		b = backoff.Backoff{}
		l.tend()
	}
}

// reopen opens a session at the member.
func (l *link) reopen() error {
	s := l.s
	ctx, cancel := context.WithTimeout(s.ctx, max(s.patience, time.Second))
	defer cancel()
	d, err := l.m.driver(ctx)
	if err != nil {
		return err
	}
	at, err := d.Open(ctx, driver.SessionOptions{TTL: s.asked, Owner: s.owner})
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = at.Close(ctx)
		return driver.ErrSession
	}
	l.d, l.at, l.life, l.sound, l.muted = d, at, "", false, false
	s.mu.Unlock()
	s.d.background(func() { l.listen(at) })
	return nil
}

// tend returns when the session at the member is over.
func (l *link) tend() {
	s := l.s
	var b backoff.Backoff
	for {
		s.mu.Lock()
		d, at, life, sound, muted, until := l.d, l.at, l.life, l.sound, l.muted, l.until
		owed := len(l.owed) > 0
		s.mu.Unlock()
		if at == nil || s.ctx.Err() != nil {
			return
		}
		var err error
		switch {
		case life == "":
			err = l.learn(d, at)
		case muted:
			err = l.probe(d, at, life)
		case !sound:
			err = l.ripen(d, at, life, until)
		case owed:
			err = l.pay()
		default:
			select {
			case <-l.wake:
			case <-s.ctx.Done():
			}
			continue
		}
		switch {
		case errors.Is(err, driver.ErrSession):
			s.mu.Lock()
			l.over(at)
			s.mu.Unlock()
		case err != nil:
			s.mu.Lock()
			if l.at == at && !l.counts() {
				l.fails(err)
			}
			s.mu.Unlock()
			_ = b.Sleep(s.ctx)
		default:
			b = backoff.Backoff{}
		}
	}
}

func (l *link) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.s.ctx, l.s.patience)
}

// learn finds out which life the member is in, and whether it is sound.
func (l *link) learn(d driver.Driver, at *driver.Opened) error {
	ctx, cancel := l.call()
	defer cancel()
	life, err := nameLife(ctx, d)
	if err != nil {
		return err
	}
	s := l.s
	longest, err := shareTTL(ctx, d, min(s.ttl(), longestTTL))
	if err != nil {
		return err
	}
	sound, err := isSound(ctx, d, life)
	if err != nil {
		return err
	}
	now := s.d.now()
	if !sound {
		others, err := s.d.longestTTL(s.ctx, s.patience)
		if err != nil {
			return err
		}
		longest = max(longest, others)
		now = s.d.now()
		if sound = s.ripens(life, longest); sound {
			ctx, cancel := l.call()
			defer cancel()
			if err := declareSound(ctx, d, life); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.at != at {
		return nil
	}
	if same := s.twin(l, life); same != nil {
		return fmt.Errorf("it is the same server as %s", same.m.name)
	}
	l.life, l.muted = life, false
	if sound {
		l.isSound()
		return nil
	}
	l.until = now.Add(longest)
	l.ripens()
	return nil
}

// longestTTL bounds the time that a member which has lost its data does not count.
const longestTTL = 24 * time.Hour

// isSound and ripens are called with s.mu held.
func (l *link) isSound() {
	l.sound, l.err, l.settled = true, nil, true
	l.s.changed()
	l.s.rejoin(l)
}

func (l *link) ripens() {
	left := l.until.Sub(l.s.d.now())
	l.fails(&unripe{left})
}

// unripe is why a member does not count yet.
type unripe struct{ left time.Duration }

func (r *unripe) Error() string {
	return fmt.Sprintf("it is new, or has lost its data, and counts in %v", max(0, r.left).Round(10*time.Millisecond))
}

// ripen waits until the member is sound: its life has lasted long enough, or another client says so.
func (l *link) ripen(d driver.Driver, at *driver.Opened, life string, until driver.Instant) error {
	s := l.s
	said := make(chan error, 1)
	watch, stop := context.WithCancel(s.ctx)
	defer stop()
	s.d.background(func() {
		_, err := d.Watch(watch, soundCell(life), 0)
		said <- err
	})
	timer := time.NewTimer(until.Sub(s.d.now()))
	defer timer.Stop()
	select {
	case err := <-said:
		if err != nil {
			return err
		}
	case <-l.wake: // such as that it is muted, or has been forgotten
		s.mu.Lock()
		ripe := l.at == at && l.life == life && !l.muted
		s.mu.Unlock()
		if !ripe {
			return nil
		}
		return l.pay()
	case <-timer.C:
	case <-s.ctx.Done():
		return nil
	}
	stop()
	ctx, cancel := l.call()
	defer cancel()
	now, err := lifeOf(ctx, d)
	switch {
	case err != nil:
		return err
	case now != life:
		s.mu.Lock()
		l.forgotten(at, life)
		s.mu.Unlock()
		return nil
	}
	if err := declareSound(ctx, d, life); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.at == at && l.life == life {
		l.isSound()
	}
	return nil
}

// probe asks a member that did not answer. It counts again if it is in the same life.
func (l *link) probe(d driver.Driver, at *driver.Opened, life string) error {
	ctx, cancel := l.call()
	defer cancel()
	now, err := lifeOf(ctx, d)
	if err != nil {
		return err
	}
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.at != at {
		return nil
	}
	l.muted = false
	if now != life {
		l.forgotten(at, life)
		return nil
	}
	if l.sound {
		l.isSound()
	} else {
		l.ripens()
	}
	return nil
}

// owes has a place given back as soon as that is possible. s.mu is held.
func (l *link) owes(o debt) {
	l.owed = append(l.owed, o)
	l.poke()
}

// pay gives back what is owed, if anything is.
func (l *link) pay() error {
	s := l.s
	for {
		s.mu.Lock()
		if len(l.owed) == 0 {
			s.mu.Unlock()
			return nil
		}
		o := l.owed[0]
		at := l.at
		s.mu.Unlock()
		if s.d.now() < o.end {
			if at == nil {
				return nil
			}
			ctx, cancel := l.call()
			err := at.Leave(ctx, o.ticket, o.clean)
			cancel()
			if err != nil && !errors.Is(err, driver.ErrGone) { // also ErrSession: a place with a fixed time outlives its session
				return err
			}
		}
		s.mu.Lock()
		l.owed = slices.Delete(l.owed, 0, 1)
		if o.paid != nil {
			o.paid()
		}
		s.mu.Unlock()
	}
}

// listen passes on what others want of places at the member.
func (l *link) listen(at *driver.Opened) {
	s := l.s
	var b backoff.Backoff
	for s.ctx.Err() == nil {
		sig, err := at.Signals(s.ctx)
		s.mu.Lock()
		gone := l.at != at
		switch {
		case gone:
		case errors.Is(err, driver.ErrSession):
			l.over(at)
			gone = true
		case err == nil:
			s.signalled(sig)
		}
		s.mu.Unlock()
		switch {
		case gone:
			return
		case err != nil:
			if b.Sleep(s.ctx) != nil {
				return
			}
		default:
			b = backoff.Backoff{}
		}
	}
}

// reason says why a link does not count. s.mu is held.
func (l *link) reason() string {
	err := l.err
	var r *unripe
	switch {
	case errors.As(err, &r):
		err = &unripe{l.until.Sub(l.s.d.now())}
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %v", l.s.patience)
	case err == nil:
		err = errors.New("it is being opened")
	}
	return l.m.name + ": " + oneline.Of(err.Error())
}

// byLife orders links as all clients do.
func byLife(a, b *link) int { return cmp.Compare(a.life, b.life) }
