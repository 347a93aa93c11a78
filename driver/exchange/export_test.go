package exchange

import "github.com/interlock-go/interlock/driver"

// What tests in package exchange_test see of the inside.

const (
	LookTimeout = longestLook
	PerLook     = perLook
	StrayShare  = strayShare
	Moment      = moment
)

var ErrClosed = errClosed

// DriverOf is the driver of a session.
func DriverOf(s *driver.Opened) *Driver { return s.Session.(*session).d }

// Entries counts the entries of a driver.
func (d *Driver) Entries() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.entries)
}

// Resyncs counts the resyncs so far.
func (d *Driver) Resyncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.resyncs
}

// Hears says whether the listener misses no event.
func (d *Driver) Hears() bool {
	d.listener.mu.Lock()
	defer d.listener.mu.Unlock()
	return d.listener.hears
}

// ExpectEvents is a call that waits, until done.
func (d *Driver) ExpectEvents() (done func()) { return d.expectEvents() }

// IsRepetition says what a Join would take a request for: one that may have been sent before, or
// not.
func IsRepetition(s *driver.Opened, r driver.Request) (bool, error) {
	e, stood, err := s.Session.(*session).begin(&r)
	if err == nil && !stood {
		e.underWay--
	}
	return r.Retry, err
}

// Take and Give change the room of a limiter.
func (l *Limiter) Take() { l.shared <- struct{}{} }
func (l *Limiter) Give() { <-l.shared }

// JoinQueues counts the queues with Joins under way.
func (d *Driver) JoinQueues() int {
	d.joins.mu.Lock()
	defer d.joins.mu.Unlock()
	return len(d.joins.queues)
}

// Lanes counts the lanes.
func (d *Driver) Lanes() int {
	d.batching.Lock()
	defer d.batching.Unlock()
	return len(d.lanes)
}

// Settle has a queue settled.
func (d *Driver) Settle(queue string) { d.settle(queue) }

// Settled waits for all tasks, and says whether the queue is being settled all the same.
func (d *Driver) Settled(queue string) bool {
	d.tasks.Wait()
	return d.running.Begin("settle " + queue)
}
