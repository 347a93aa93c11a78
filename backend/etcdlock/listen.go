package etcdlock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// watches are the keys that are watched while the client listens: of a waiter what keeps it out, and what is
// followed. Most waiters watch one key, so that a hand-over wakes one of them. A watch proves nothing: each
// change is a reason to look. It begins without a revision, since one with a revision waits for a loop of the
// server; so it is also a reason to look that a watch has begun, unless it tells of all that has changed
// since its key was read, or nothing has.
type watches struct {
	mu   sync.Mutex
	all  map[string]*watched // by what it is for
	next func(*watched)      // begins a watch; nil: nobody listens
}

// watching is what is to be watched.
type watching struct {
	key, end string // a range of keys, unless end is empty
	waiter   int64  // when the ticket was created that waits for it
	created  int64  // when the ticket was that keeps the waiter out, and has the key; 0: it is not known to be the last one in front
	read     int64  // the revision at which that was seen to stand, or an earlier one; 0: it was not
	event    exchange.Event
}

// follows: it is for a follower.
func (t *watching) follows() bool {
	return t.event.Type != exchange.Granted && t.event.Type != exchange.Wake
}

type watched struct {
	watching
	purpose string
	begun   int64 // the revision at which the watch has begun; 0: it has not
	brought int64 // of numbers: the revision of the last change, also if that was of no use
	unread  bool  // of a follower: it has been told, and has not read since
	stop    func()
}

func (w *watches) init() { w.all = map[string]*watched{} }

func ofTicket(id string) string  { return "ticket " + id }
func ofQueue(name string) string { return "queue " + name }
func ofCell(name string) string  { return "cell " + name }

func ofNumber(name string) string { return "number " + name }

// ofNumbers is the watch of the numbers of all queues, one for all waiters for permits.
const ofNumbers = "numbers"

// set has a key watched from now on, instead of another one for the same purpose.
func (w *watches) set(purpose string, what watching) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.all[purpose]; t != nil {
		if t.begun == 0 && purpose == ofNumbers {
			what.read = min(what.read, t.read) // of another waiter
		}
		same := t.key == what.key && t.end == what.end
		t.unread, t.waiter, t.created, t.read = false, what.waiter, what.created, what.read
		if same && (purpose != ofNumbers || max(t.begun, t.brought) <= what.read) {
			return
		}
		t.stop()
	}
	t := &watched{watching: what, purpose: purpose, stop: func() {}}
	if t.follows() {
		w.bound()
	}
	w.all[purpose] = t
	if w.next != nil {
		w.next(t)
	}
}

// maxFollowed bounds what is watched for followers, since nobody says that a follower has gone. One whose
// watch is dropped reads again after some seconds.
const maxFollowed = 1000

// bound makes room for one more follower. The mutex is held.
func (w *watches) bound() {
	n, some := 0, ""
	for purpose, t := range w.all {
		if t.follows() {
			n, some = n+1, purpose
		}
	}
	if n >= maxFollowed {
		w.end(w.all[some])
	}
}

// drop ends a watch.
func (w *watches) drop(purpose string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(w.all[purpose])
}

// end ends a watch that there may be. The mutex is held.
func (w *watches) end(t *watched) {
	if t == nil {
		return
	}
	if t.stop(); w.all[t.purpose] == t {
		delete(w.all, t.purpose)
	}
}

// blocker is the key that is watched for a waiter, and when the ticket was created that has it; "" if there
// is none, or a range, or if it was for an earlier ticket with that ID.
func (w *watches) blocker(ref exchange.Ref) (key string, created int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.all[ofTicket(ref.ID)]; t != nil && t.end == "" && ref.Tag != 0 && t.waiter == int64(ref.Tag>>tagBits) {
		return t.key, t.created
	}
	return "", 0
}

// complete: a watch that has begun at this revision, and tells of later ones, misses nothing.
func (w *watches) complete(t *watched, begun int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.begun = begun
	return begun <= t.read
}

// unchanged asks whether the key of a watch, which may have begun too late, is as it was when it was read:
// that costs less than to look.
func (s *store) unchanged(ctx context.Context, t *watched) bool {
	s.watches.mu.Lock()
	what := t.watching
	s.watches.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Second) // it may be asked of a member that has stopped
	defer cancel()
	all, err := s.get(ctx, what.key)
	return err == nil && len(all) > 0 && all[0].ModRevision <= what.read
}

// listen has begin called for each watch that there is, and for those that are set later.
func (w *watches) listen(begin func(*watched)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next = begin; begin == nil {
		return
	}
	for _, t := range w.all {
		t.begun = 0
		begin(t)
	}
}

// told is called when a watch has brought something. A follower that has not read after the last time does
// not follow any more.
func (w *watches) told(t *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.unread {
		w.end(t)
	}
	t.unread = t.follows()
}

// follow has a queue or a cell watched for a follower.
func (s *store) follow(f exchange.Follower, purpose, key, end string, event exchange.Event) {
	if f.Mailbox != "" {
		s.watches.set(purpose, watching{key: key, end: end, event: event})
	}
}

// watchWaiter has watched what keeps a waiter out: the last ticket that does so alone. Else it is
// several permits: the first waiter watches the whole queue, and each other one that in front of it, which
// changes when it is held. All in front of it was read at that revision, or later.
func (s *store) watchWaiter(t *seen, read int64) {
	on, key, end := t.front, s.queue(t.queue), ""
	if on == nil {
		on, _ = t.Blocker()
	}
	switch {
	case on == nil && t.First:
		on, end = t.ticket, clientv3.GetPrefixRangeEnd(key)
	case on == nil:
		on = t.Before[len(t.Before)-1]
		fallthrough
	default:
		key = on.key
	}
	created := on.Order
	if t.far {
		created = 0
	}
	s.watches.set(ofTicket(t.ID), watching{key, end, t.Order, created, read, turnOf(t.ticket)})
	if t.Kind == driver.Semaphore {
		key, end := s.floor(""), clientv3.GetPrefixRangeEnd(s.floor(""))
		s.watches.set(ofNumbers, watching{key: key, end: end, read: read, event: exchange.Event{Type: exchange.Wake}})
	}
}

// turnOf is a reason to look whether a waiter is granted.
func turnOf(t *ticket) exchange.Event {
	return exchange.Event{Type: exchange.Granted, ID: t.ID, Unverified: true}
}

// concerns: what a watch has brought is of use for its purpose. A number is if a ticket waits in its queue. A waiter
// that has read before that, and is not noted yet, finds that it came too late.
func (s *store) concerns(t *watched, r clientv3.WatchResponse) (use bool) {
	if t.purpose != ofNumbers {
		return true
	}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	use = r.Created
	for _, ev := range r.Events {
		t.brought = max(t.brought, ev.Kv.ModRevision)
		queue := s.queue(strings.TrimPrefix(string(ev.Kv.Key), s.floor("")))
		for _, o := range s.watches.all {
			use = use || o.event.Type == exchange.Granted && strings.HasPrefix(o.key, queue)
		}
	}
	return use
}

// Listen watches the mailbox, and what is to be watched beside that. A member that has lost its leader ends
// the watches.
func (s *store) Listen(ctx context.Context, mailbox string, up func(), receive func(exchange.Event)) error {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Canceled) })()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel(nil)
	begin := func(t *watched) {
		ctx, stop := context.WithCancel(ctx)
		t.stop = stop
		tasks.Go(func() {
			defer stop()
			tell := func() {
				receive(t.event)
				s.watches.told(t)
			}
			err := s.watch(ctx, t.key, t.end, func(r clientv3.WatchResponse) {
				switch {
				case r.Created && s.watches.complete(t, r.Header.Revision):
				case r.Created && t.end == "" && t.event.Type == exchange.Granted:
					tasks.Go(func() { // a change may come before the answer
						if !s.unchanged(ctx, t) && ctx.Err() == nil {
							tell()
						}
					})
				case s.concerns(t, r):
					tell()
				}
			})
			if ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	defer s.watches.listen(nil)
	prefix := s.mail(mailbox)
	err := s.watch(ctx, prefix, clientv3.GetPrefixRangeEnd(prefix), func(r clientv3.WatchResponse) {
		if r.Created {
			s.watches.listen(begin)
			up()
		}
		for _, ev := range r.Events {
			if got, ok := s.event(prefix, ev); ok {
				receive(got)
			}
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// event is what a change of the mailbox means.
func (s *store) event(prefix string, ev *clientv3.Event) (exchange.Event, bool) {
	session, id, ofTicket := strings.Cut(strings.TrimPrefix(string(ev.Kv.Key), prefix), "/")
	what, err := strconv.Atoi(string(ev.Kv.Value))
	switch {
	case !ofTicket && ev.Type == mvccpb.DELETE:
		return exchange.Event{Type: exchange.SessionOver, ID: session}, true
	case !ofTicket || ev.Type == mvccpb.DELETE || err != nil:
		return exchange.Event{}, false
	case driver.Demand(what) == driver.Force:
		return exchange.Event{Type: exchange.Removed, ID: id}, true
	case slices.Contains([]driver.Demand{driver.Wanted, driver.Revoke, driver.Evict}, driver.Demand(what)):
		return exchange.Event{Type: exchange.Demanded, ID: id, Demand: driver.Demand(what)}, true
	}
	return exchange.Event{}, false
}

// watch calls got when a watch has begun, and for each change.
func (s *store) watch(ctx context.Context, key, end string, got func(clientv3.WatchResponse)) error {
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if end != "" {
		opts = append(opts, clientv3.WithRange(end))
	}
	s.exchanges.Add(1)
	for r := range s.watcher.Watch(ctx, key, opts...) {
		if err := r.Err(); err != nil {
			return err
		}
		if r.Created || len(r.Events) > 0 {
			got(r)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("the watch has ended")
}
