package zklock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/backend/zklock/internal/curator"
	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// The number of permits that Resize has given a semaphore is a child of the queue's node, beside the tickets, so
// that one list of names still says who holds:
//
//	_c_set8_held12_unsure41-number-<number>    8 permits
//	_c_unset8_held12_unsure41-number-<number>  taken back: the next client that finds no permits of that time removes it
//	_c_permits                                 the bell, which is made right after a number, and stands as long as there is one
//
// Its own number is its place among the tickets. "held" is the last ticket that was held, "unsure" the last that was
// not: those after that, and before the node, may be. It counts as long as it stands, and is not changed: another one
// takes its place, in one transaction. A waiter watches it, or the bell while there is none.
type permits struct {
	keys.Number
	node string // "" if there is none
}

// bell is made with the first number, of which no client knows the name before.
const bell = "_c_permits"

func isNumber(node string) bool {
	return strings.HasPrefix(node, "_c_set") || strings.HasPrefix(node, "_c_unset")
}

// stem is the name of its node without its place. Uncertain: it is not known who is held.
func (s *permits) stem(uncertain bool) string {
	word := "set"
	if s.Unset {
		word = "unset"
	}
	stem := "_c_" + word + strconv.FormatInt(s.Permits, 10)
	if s.Held > 0 {
		stem += fmt.Sprintf("_held%d", number(s.Held))
	}
	if s.Waited > 0 {
		stem += fmt.Sprintf("_unsure%d", number(s.Waited))
	} else if s.Perhaps > 0 || uncertain {
		stem += "_unsure-1"
	}
	return stem + "-number-"
}

// unreadable is what a node says whose name cannot be read.
func unreadable(node string) permits {
	return permits{node: node, Number: keys.Number{Set: math.MaxInt64, Perhaps: math.MaxInt64}}
}

// readable: it is known how many permits there are, if a number was set.
func (s *permits) readable() bool { return s.node == "" || s.node == bell || s.Permits > 0 }

// parseNumber reads the name of a node. One that stem does not write cannot be read.
func parseNumber(node string) permits {
	head, place, ok := curator.Split(node, "number-")
	if !ok {
		return unreadable(node)
	}
	s := permits{node: node, Number: keys.Number{Set: order(place), Unset: strings.HasPrefix(head, "_c_unset")}}
	_, head, _ = strings.Cut(strings.TrimSuffix(head, "-"), "set")
	parts := strings.Split(head, "_")
	s.Permits, _ = strconv.ParseInt(parts[0], 10, 64)
	for _, part := range parts[1:] {
		word, last := "held", &s.Held
		if strings.HasPrefix(part, "unsure") {
			word, last, s.Perhaps = "unsure", &s.Waited, s.Set-1
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(part, word), 10, 32)
		if err != nil {
			return unreadable(node)
		}
		if word == "held" || n != -1 {
			*last = order(int32(n))
		}
		if *last >= s.Set {
			return unreadable(node)
		}
	}
	if s.Permits < 1 || s.Permits > driver.MaxCapacity || !strings.HasPrefix(node, s.stem(s.Perhaps > 0 || slices.Contains(parts, "unsure-1"))) {
		return unreadable(node)
	}
	return s
}

// permitsIn finds the number among the children of a queue: the last one, if there are several,
// or one that cannot be read. A bell without a number is one that says nothing.
func permitsIn(nodes []string) (last permits) {
	for _, node := range nodes {
		if !isNumber(node) {
			continue
		}
		s := parseNumber(node)
		if last.node == "" || !s.readable() || last.readable() && last.Set < s.Set {
			last = s
		}
	}
	if last.node == "" && slices.Contains(nodes, bell) {
		last.node = bell
	}
	return last
}

// legible is an error if it is not known how many permits there are.
func (s *store) legible(q *queue, p *permits) error {
	if p.readable() {
		return nil
	}
	return driver.Permanent(fmt.Errorf("zookeeper: the name of %s/%s is not as it was written, so that nobody can say how many permits %q has (interlock permits set NAME N sets the number anew)",
		q.path, p.node, q.name))
}

// unchanged are operations that fail if the number of permits is not that of the list any more.
func (f *listing) unchanged(q *queue, t *ticket) []any {
	if t.Kind != driver.Semaphore {
		return nil
	}
	if f.number.node != "" {
		return []any{&zk.Check{Path: q.path + "/" + f.number.node, Version: -1}}
	}
	path := q.path + "/" + bell
	return []any{&zk.Create{Path: path, Acl: zk.WorldACL(zk.PermAll)}, &zk.Delete{Path: path, Version: -1}}
}

// over: the number was taken back, and no permits stand that were there before: none ever will.
func (f *listing) over() bool {
	n := &f.number
	return n.node != "" && n.node != bell && n.readable() && n.Unset && f.Permits() == 0
}

// removals take away each number, and the bell.
func removals(q *queue, nodes []string) (ops []any) {
	for _, node := range nodes {
		if isNumber(node) || node == bell {
			ops = append(ops, &zk.Delete{Path: q.path + "/" + node, Version: -1})
		}
	}
	return ops
}

// renumber makes the node of a queue anew whose numbers are used up, and in which nothing stands but
// its number of permits: the numbers begin again.
func (s *store) renumber(ctx context.Context, l *link, path string) error {
	c, err := l.List(ctx, path, false)
	if err != nil {
		return err
	}
	q, n := &queue{path: path}, permitsIn(c.Names)
	ops := removals(q, c.Names)
	if len(ops) < len(c.Names) {
		return zk.ErrNotEmpty
	}
	if err := s.legible(q, &n); err != nil {
		return err
	}
	ops = append(ops, &zk.Delete{Path: path, Version: -1}, &zk.Create{Path: path, Acl: s.acl})
	if n.Permits > 0 && !n.Unset {
		ops = append(ops, s.setting(q, &permits{Number: keys.Number{Permits: n.Permits}}, false)...)
	}
	_, err = l.Multi(ctx, ops...)
	return err
}

// setting are operations that set a number.
func (s *store) setting(q *queue, p *permits, uncertain bool) []any {
	return []any{
		&zk.Create{Path: q.path + "/" + p.stem(uncertain), Acl: s.acl, Flags: zk.Sequence},
		&zk.Create{Path: q.path + "/" + bell, Acl: s.acl},
	}
}

// exactTries is how often Resize lists a queue whose holders come and go, until it knows all who hold.
const exactTries = 8

// mostChecked is how many nodes a transaction of Resize looks at.
const mostChecked = 1000

// Resize sets the number. If its answer is lost and it is repeated, it finds its number set.
func (s *store) Resize(ctx context.Context, name string, capacity int64) (bool, error) {
	return false, s.with(ctx, func(ctx context.Context, l *link) error { return s.resize(ctx, l, s.queue(name), capacity) })
}

func (s *store) resize(ctx context.Context, l *link, q *queue, capacity int64) error {
	// A server that lags behind would not show a number, or tickets, that the caller knows of.
	if err := l.CatchUp(ctx, q.path); err != nil {
		return err
	}
	var mine string // the node that was made
	var again bool  // in place of another number
	var wrong error // why it is taken back
	for tries := 0; ; tries++ {
		f, err := s.read(ctx, l, q)
		if errors.Is(err, zk.ErrNoNode) && capacity == 0 {
			return wrong
		}
		if errors.Is(err, zk.ErrNoNode) {
			if err = s.lay(ctx, l, q.path, false); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		old := f.number
		if wrong != nil && old.node != mine {
			return wrong
		}
		kept, illegible := old.Permits > 0 && !old.Unset, !old.readable()
		var refused []any
		if capacity > 0 || !kept { // to take a number back lets others in
			refused, err = f.intruders(q)
		}
		if errors.Is(err, driver.ErrMismatch) && mine != "" && old.node == mine && !again {
			// Others came while it was made, and may hold by it by now.
			capacity, wrong = 0, err
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case capacity == 0 && (old.node == "" || old.node == bell || old.Unset):
			return wrong
		case capacity == 0 && illegible && len(f.Keys) > 0:
			return s.legible(q, &old)
		case kept && old.Permits == capacity && capacity > 0:
			return s.removeUnfit(ctx, l, q)
		}
		ops := removals(q, f.Names)
		if capacity > 0 || slices.ContainsFunc(f.Keys, func(t *ticket) bool { return t.Kind == driver.Semaphore && !t.Foreign }) {
			next := permits{Number: keys.Number{Permits: capacity, Held: old.Held}}
			if capacity == 0 {
				next.Permits, next.Unset = old.Permits, true
			}
			stand := f.HeldNow(&next.Number, int64(made(f.Stat)))
			certain := kept && next.Permits >= old.Permits || len(stand) > 0 && len(stand) <= mostChecked && tries < exactTries && !illegible
			if !certain {
				next.Held, next.Waited, stand = 0, 0, nil
			} else if next.Waited == 0 && next.Perhaps == 0 && len(stand) > 0 {
				next.Perhaps = 1
			}
			var checks []any
			for _, t := range stand {
				checks = append(checks, &zk.Check{Path: q.path + "/" + t.node, Version: -1})
			}
			ops = slices.Concat(checks, refused, ops, s.setting(q, &next, !certain))
		}
		answers, err := l.Multi(ctx, ops...)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists): // it is not as it was in the list
		case err != nil:
			return err
		case capacity == 0:
			return wrong
		default:
			path := answers[len(answers)-2].Path
			mine, again = path[len(q.path)+1:], kept
		}
	}
}

// intruders are operations that remove the tickets of other kinds, which are to be refused: behind another
// number they would not be any more. It is ErrMismatch if one is not.
func (f *listing) intruders(q *queue) (ops []any, err error) {
	for _, t := range f.Keys {
		if t.Kind == driver.Semaphore && !t.Foreign {
			continue
		}
		v := f.Agree(t)
		if !v.Refused || t.Foreign {
			return nil, driver.ErrMismatch
		}
		ops = append(ops, f.expulsion(q, t, v.By)...)
	}
	return ops, nil
}

// expulsion are operations that remove a ticket, as long as what stands because of which it is to be refused: a ticket, or
// (nil) the number of permits.
func (f *listing) expulsion(q *queue, t, by *ticket) []any {
	because := f.number.node
	if by != nil {
		because = by.node
	}
	return []any{&zk.Check{Path: q.path + "/" + because, Version: -1}, &zk.Delete{Path: q.path + "/" + t.node, Version: -1}}
}

// removeUnfit takes out the tickets that wait for more than there is, as Evict does.
func (s *store) removeUnfit(ctx context.Context, l *link, q *queue) error {
	for {
		f, err := s.read(ctx, l, q)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if f.number.Permits == 0 || f.number.Unset {
			return nil // another one has come
		}
		var unfit []*ticket
		for _, t := range f.Keys {
			if f.Unfit(t) && !f.Intrudes(t) && len(unfit) < mostWithdrawn {
				unfit = append(unfit, t)
			}
		}
		if len(unfit) == 0 {
			return nil
		}
		ops := []any{&zk.Check{Path: q.path + "/" + f.number.node, Version: -1}}
		for _, t := range unfit {
			ops = append(ops, &zk.Delete{Path: q.path + "/" + t.node, Version: -1})
		}
		told, err := s.tellRemoved(ctx, l, q, unfit)
		if err != nil {
			return err
		}
		_, err = l.Multi(ctx, append(ops, told...)...)
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}

// mostWithdrawn is how many tickets a transaction removes.
const mostWithdrawn = 256
