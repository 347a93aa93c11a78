package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// A setting is the number of permits that Resize has given a semaphore. It is a child of the queue's
// node, beside the tickets, so that one list of names still says who holds:
//
//	_c_set8_held12_unsure41-latch-<number>    8 permits
//	_c_unset8_held12_unsure41-latch-<number>  taken back: whoever finds no permits of that time any more removes it
//	_c_permits                                the bell, which is made right after a setting, and stands as long as there is one
//
// Its number is its place among the tickets.
//
//   - Tickets before it have its capacity, whatever their names say. Later ones are refused if they say another.
//   - A ticket that fits is held. So is each that is not after "held": it was when the setting was made. Those who hold are
//     the first ones of a line, always, so that one number is enough.
//   - Those between "unsure" and the setting may be held although nobody but their own clients knows: they
//     came, or were granted, while the setting was made. They count in any case, and are not removed as long as they may hold.
//   - A setting counts as long as it stands. Whoever grants, or sets another one, removes it first if nothing is left of its time. So what
//     expels a ticket because of a setting checks that this stands, and no more.
//   - A setting is not changed: another one takes its place, in one transaction. Whoever waits watches it, or the bell
//     while there is none.
//
// For clients of earlier releases it is an election of another library, in front of those who come. They are
// refused, also as mutexes: a word of mutexes would let these wait there, and take those for intruders who
// stand in between. Of elections that is so all the same.
type setting struct {
	node         string // "" if there is none
	number       int32
	capacity     int64 // 0 if the name cannot be read
	kept         bool  // else it was taken back
	held, unsure upTo
	inForce      bool
}

// upTo is a number that may be missing.
type upTo struct {
	is     bool
	number int32
}

// bell is made with the first setting, of which nobody knows the name before.
const bell = "_c_permits"

func isSetting(node string) bool {
	return strings.HasPrefix(node, "_c_set") || strings.HasPrefix(node, "_c_unset")
}

// stem is the name but for its number.
func (s *setting) stem() string {
	word := "unset"
	if s.kept {
		word = "set"
	}
	stem := "_c_" + word + strconv.FormatInt(s.capacity, 10)
	if s.held.is {
		stem += fmt.Sprintf("_held%d", s.held.number)
	}
	if s.unsure.is {
		stem += fmt.Sprintf("_unsure%d", s.unsure.number)
	}
	return stem + "-latch-"
}

// parseSetting reads a name. One that stem does not write has the capacity 0.
func parseSetting(node string) setting {
	illegible := setting{node: node}
	head, w, number, ok := split(node)
	if !ok || w.text != "latch-" {
		return illegible
	}
	s := setting{node: node, number: number, kept: strings.HasPrefix(head, "_c_set")}
	_, head, _ = strings.Cut(strings.TrimSuffix(head, "-"), "set")
	parts := strings.Split(head, "_")
	s.capacity, _ = strconv.ParseInt(parts[0], 10, 64)
	for _, part := range parts[1:] {
		word, last := "held", &s.held
		if strings.HasPrefix(part, "unsure") {
			word, last = "unsure", &s.unsure
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(part, word), 10, 32)
		if err != nil || !before(int32(n), number) {
			return illegible
		}
		*last = upTo{true, int32(n)}
	}
	if s.capacity < 1 || s.capacity > driver.MaxCapacity || !strings.HasPrefix(node, s.stem()) {
		return illegible
	}
	return s
}

// settingIn finds the setting among the children of a queue: the last one, if somebody has put several
// there, or one that cannot be read. A bell without a setting is one that says nothing.
func settingIn(nodes []string) (last setting) {
	for _, node := range nodes {
		if !isSetting(node) {
			continue
		}
		s := parseSetting(node)
		if last.node == "" || s.capacity == 0 || last.capacity != 0 && before(last.number, s.number) {
			last = s
		}
	}
	if last.node == "" && slices.Contains(nodes, bell) {
		last.node, last.capacity = bell, 1
	}
	return last
}

// parseQueue reads the children of a queue.
func parseQueue(nodes []string) (line, setting) {
	all, s := parseTickets(nodes), settingIn(nodes)
	if s.node == "" {
		return all, s
	}
	s.inForce = s.kept || s.node != bell && slices.ContainsFunc(all, func(n name) bool {
		return n.permits() && before(n.number, s.number)
	})
	for i := range all {
		n := &all[i]
		n.setting = s.node
		permits, earlier := n.permits(), before(n.number, s.number)
		n.late = s.node != bell && !earlier
		switch {
		case !s.inForce || s.capacity == 0:
		case permits && earlier:
			n.capacity = s.capacity
			n.stays = s.held.is && !before(s.held.number, n.number) || n.until != 0 // which only a grant gives
			n.unsure = !n.stays && s.unsure.is && before(s.unsure.number, n.number)
		case !earlier:
			n.intrudes = !s.suits(n)
		}
	}
	return all, s
}

// suits reports whether a ticket that comes says what the setting does.
func (s *setting) suits(n *name) bool {
	return !s.inForce || n.permits() && n.capacity == s.capacity
}

// legible is an error if nobody can say how many permits there are.
func (d *Driver) legible(q *lane, s *setting) error {
	if s.node == "" || s.capacity > 0 {
		return nil
	}
	return driver.Permanent(fmt.Errorf("zookeeper: the name of %s/%s is not as it was written, so that nobody can say how many permits %q has (interlock permits set NAME N sets the number anew)",
		q.path, s.node, q.name))
}

// waiting is where the first ticket of the line stands that is not held.
func (l line) waiting() int {
	if l.same() {
		return sort.Search(len(l), func(i int) bool { return !l.holds(i) })
	}
	for i := range l {
		if _, intrudes := l.intruder(i); intrudes || !l.holds(i) {
			return i
		}
	}
	return len(l)
}

// everybody is in front of all numbers.
var everybody = upTo{true, -1}

// resized is the setting that takes the place of another one, for the line that stood when there had been so
// many children. What it says of the line is certain as long as the nodes stand that are returned, too. There
// is at least one, without which the queue's node might have been made anew, and its numbers begun again.
// Without certain it says that it is unsure of everybody.
func (l line) resized(old *setting, capacity int64, children uint32, certain bool) (next setting, stand []string) {
	next = setting{capacity: capacity, kept: capacity > 0}
	if !next.kept {
		next.capacity = old.capacity
	}
	doubts := slices.ContainsFunc(l, func(n name) bool { return n.unsure })
	if old.kept && next.capacity >= old.capacity { // whoever is held still fits, or stays
		if next.held = old.held; doubts {
			next.unsure = old.unsure
		}
		return next, nil
	}
	if illegible := old.node != "" && old.capacity == 0; len(l) == 0 || illegible || !certain {
		next.unsure = everybody
		return next, nil
	}
	first := l.waiting()
	if first > 0 {
		next.held = upTo{true, l[first-1].number}
	}
	next.unsure = upTo{true, int32(children) - 1}
	if first < len(l) {
		// As long as these stand, the first one waits, and so do those behind it.
		for _, o := range l.view(first).obstacles {
			stand = append(stand, o.node)
		}
		stand = append(stand, l[first].node)
	}
	if first < len(l) && (!l.same() || len(stand) > mostChecked) {
		next.unsure, stand = upTo{true, l[first].number - 1}, nil
	}
	if len(stand) == 0 {
		stand = []string{l[len(l)-1].node}
	}
	if doubts && before(old.unsure.number, next.unsure.number) {
		next.unsure = old.unsure
	}
	return next, stand
}

// mostChecked is how many nodes a transaction of Resize looks at.
const mostChecked = 1000

// unchanged are operations that fail if the number of permits is not that of the list any more in which the
// ticket stood.
func (q *lane) unchanged(n *name) []any {
	if n.kind != driver.Semaphore || q.leases != nil {
		return nil
	}
	if n.setting != "" {
		return []any{&zk.Check{Path: q.path + "/" + n.setting, Version: -1}}
	}
	path := q.path + "/" + bell
	return []any{
		&zk.Create{Path: path, Acl: zk.WorldACL(zk.PermAll), Flags: zk.Persistent},
		&zk.Delete{Path: path, Version: -1},
	}
}

// settled reads the children of a queue for whoever grants, or sets a number. What is over is removed first.
func (d *Driver) settled(ctx context.Context, l *link, q *lane, nodes []string) (all line, s setting, err error) {
	all, s = parseQueue(nodes)
	if err = d.forgetSetting(ctx, l, q, nodes, &s); err == nil {
		all, err = d.standing(ctx, l, q, all)
	}
	return all, s, err
}

// forgetSetting removes a setting that was taken back once no permits stand that were there before it: none
// ever will. Then the queue is to be listed again. It leaves a bell that stands alone, whose setting somebody
// has removed by hand: another setting may have come by now.
func (d *Driver) forgetSetting(ctx context.Context, l *link, q *lane, nodes []string, s *setting) error {
	if s.node == "" || s.node == bell || s.inForce || s.capacity == 0 {
		return nil
	}
	_, err := l.Multi(ctx, removals(q, nodes)...)
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		err = errStale
	}
	return err
}

// keptIn finds a setting because of which no other layout has the queue, although no ticket stands.
func keptIn(nodes []string) (node string, ok bool) {
	s := settingIn(nodes)
	return s.node, s.kept || s.node != "" && s.capacity == 0
}

// expelling are operations that remove a ticket, as long as the node stands because of which it is to be refused.
func (q *lane) expelling(n *name, because string) []any {
	return []any{&zk.Check{Path: because, Version: -1}, &zk.Delete{Path: q.path + "/" + n.node, Version: -1}}
}

// removals take away each setting, and the bell.
func removals(q *lane, nodes []string) (ops []any) {
	for _, node := range nodes {
		if isSetting(node) || node == bell {
			ops = append(ops, &zk.Delete{Path: q.path + "/" + node, Version: -1})
		}
	}
	return ops
}

// renumber makes the node of a queue anew whose numbers are used up, and in which nothing stands but
// its setting: the numbers begin again.
func (d *Driver) renumber(ctx context.Context, l *link, path string) error {
	c, err := l.List(ctx, path, false)
	if err != nil {
		return err
	}
	_, s := parseQueue(c.Names)
	ops := removals(&lane{path: path}, c.Names)
	if len(ops) < len(c.Names) {
		return zk.ErrNotEmpty
	}
	if err := d.legible(&lane{path: path}, &s); err != nil {
		return err
	}
	ops = append(ops, &zk.Delete{Path: path, Version: -1}, &zk.Create{Path: path, Acl: d.acl, Flags: zk.Persistent})
	if s.inForce {
		ops = append(ops, d.settingOf(path, &setting{capacity: s.capacity, kept: s.kept}),
			&zk.Create{Path: path + "/" + bell, Acl: d.acl, Flags: zk.Persistent})
	}
	_, err = l.Multi(ctx, ops...)
	return err
}

func (d *Driver) settingOf(path string, s *setting) *zk.Create {
	return &zk.Create{Path: path + "/" + s.stem(), Acl: d.acl, Flags: zk.Sequence}
}
