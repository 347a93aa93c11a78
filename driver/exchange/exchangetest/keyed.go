package exchangetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// Keyed is a backend in memory with one queue, whose tickets are keys: package keys says who is held. It is for the
// faults of a Store over that package. Its network loses nothing, its sessions do not expire, and it has no cells.
type Keyed struct {
	mu      sync.Mutex
	line    keys.Line[*key]
	mark    keys.Mark
	last    int64                  // order
	heard   []func(exchange.Event) // by clients
	watched map[string][]*key      // by ID of a key: waiters that are told when it is gone
	faults  []Fault
}

type key struct {
	keys.Key
	session string
}

// NewKeyed makes an empty backend, with these faults.
func NewKeyed(faults ...Fault) *Keyed {
	return &Keyed{watched: map[string][]*key{}, line: keys.Line[*key]{Whole: true}, faults: faults}
}

// KeyedStore is one client of it.
type KeyedStore struct {
	exchange.Store // nil: for methods that are missing
	k              *Keyed
}

var (
	_ exchange.Changer = KeyedStore{}
	_ exchange.Resizer = KeyedStore{}
	_ exchange.Traited = KeyedStore{}
)

// Store makes a client.
func (k *Keyed) Store() KeyedStore { return KeyedStore{k: k} }

// Driver is [DriverOf] the client.
func (s KeyedStore) Driver() *exchange.Driver { return DriverOf(s) }

// Traits implements [exchange.Traited].
func (KeyedStore) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, Listens: true, LookSettles: true, WithSession: true}
}

func (k *Keyed) has(f Fault) bool { return slices.Contains(k.faults, f) }

// status judges by the front of the line, and reads on until that is enough. What keeps a waiter out is watched.
func (k *Keyed) status(id string) (st exchange.Status) {
	t, stands := k.line.Find(id)
	if !stands {
		return st
	}
	var p keys.Place[*key]
	for n := 1; !p.Known; n++ {
		front := k.line
		front.Keys = k.line.Keys[:min(n, len(k.line.Keys))]
		front.UpTo, front.Whole = front.Keys[len(front.Keys)-1].Order, n >= len(k.line.Keys)
		if p = front.Place(t); k.has(KeysKnown) {
			p.Held = p.Held || len(p.Before) == n && p.Before[0].Units+t.Units <= front.Capacity(t)
			break
		}
	}
	if p.Held {
		return exchange.Status{State: exchange.Held, Token: keys.Token(t.Order, k.line.Floor), Inherited: k.mark.Inherits(id), Wanted: p.Wanted}
	}
	p = k.line.Place(t)
	obstacles, _ := p.Obstacles()
	if k.has(KeysObstacles) {
		obstacles = obstacles[:min(1, len(obstacles))]
	}
	for _, o := range obstacles {
		k.watched[o.ID] = append(k.watched[o.ID], t)
	}
	return exchange.Status{State: exchange.Waiting}
}

// gone takes a key away, and tells who watches it.
func (k *Keyed) gone(t *key) {
	k.line.Keys = slices.DeleteFunc(k.line.Keys, func(o *key) bool { return o == t })
	for _, w := range k.watched[t.ID] {
		for _, receive := range k.heard {
			go receive(exchange.Event{Type: exchange.Granted, ID: w.ID, Unverified: true})
		}
	}
	delete(k.watched, t.ID)
}

// Begin implements [exchange.Store].
func (s KeyedStore) Begin(context.Context, exchange.Session) (exchange.Begun, error) {
	return exchange.Begun{}, nil
}

// Change implements [exchange.Store].
func (s KeyedStore) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, s, changes, answer)
}

// Join implements [exchange.Changer].
func (s KeyedStore) Join(_ context.Context, j exchange.Join) (exchange.Status, error) {
	k := s.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, stands := k.line.Find(j.ID); !stands {
		k.last++
		t := &key{keys.Key{ID: j.ID, Kind: j.Kind, Units: j.Units, Capacity: j.Capacity, Order: k.last}, j.Session.ID}
		k.line.Add(t)
		if v := k.line.Agree(t); v.Refused && !k.has(KeysAgree) {
			k.gone(t)
			return exchange.Status{}, driver.ErrMismatch
		}
	}
	return k.status(j.ID), nil
}

// Leave implements [exchange.Changer].
func (s KeyedStore) Leave(_ context.Context, l exchange.Leave) (bool, error) {
	k := s.k
	k.mu.Lock()
	defer k.mu.Unlock()
	t, stands := k.line.Find(l.ID)
	if !stands {
		return false, driver.ErrGone
	}
	switch p := k.line.Place(t); {
	case !p.Exclusive && !k.has(KeysMark):
	case l.Clean:
		k.mark = keys.Mark{}
	default:
		k.mark = keys.Mark{ID: l.ID, Changed: 1}
	}
	k.gone(t)
	return false, nil
}

// Shrink implements [exchange.Changer].
func (s KeyedStore) Shrink(context.Context, exchange.Session, exchange.Ref, int64) (bool, error) {
	return false, errors.ErrUnsupported
}

// Keep implements [exchange.Changer].
func (s KeyedStore) Keep(context.Context, exchange.Session, exchange.Ref, time.Duration) error {
	return errors.ErrUnsupported
}

// Resize implements [exchange.Resizer].
func (s KeyedStore) Resize(_ context.Context, _ string, permits int64) (bool, error) {
	k := s.k
	k.mu.Lock()
	defer k.mu.Unlock()
	next, changes, err := k.line.Resize(permits)
	if err != nil || !changes {
		return false, err
	}
	if !k.has(KeysHeld) {
		k.line.HeldNow(&next, k.last)
	}
	k.last++
	next.Set = k.last
	k.line.Number = next
	return false, nil
}

// Renew implements [exchange.Store].
func (s KeyedStore) Renew(ctx context.Context, o exchange.Session, refs []exchange.Ref, _ int) (r exchange.Renewal, err error) {
	r.Tickets, err = s.Look(ctx, o, refs)
	return r, err
}

// Look implements [exchange.Store].
func (s KeyedStore) Look(_ context.Context, _ exchange.Session, refs []exchange.Ref) (all []exchange.Status, err error) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	for _, ref := range refs {
		all = append(all, s.k.status(ref.ID))
	}
	return all, nil
}

// Settle implements [exchange.Store].
func (s KeyedStore) Settle(context.Context, string) (bool, error) { return false, nil }

// Listen implements [exchange.Store].
func (s KeyedStore) Listen(ctx context.Context, _ string, up func(), receive func(exchange.Event)) error {
	s.k.mu.Lock()
	s.k.heard = append(s.k.heard, receive)
	s.k.mu.Unlock()
	up()
	<-ctx.Done()
	return ctx.Err()
}

// Explain implements [exchange.Store].
func (s KeyedStore) Explain(err error) error { return err }

// Close implements [exchange.Store].
func (s KeyedStore) Close() {}
