package curator

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

type setting struct {
	node         string // "" if there is none
	number       int32
	capacity     int64 // 0 if the name cannot be read
	kept         bool  // else it was taken back
	held, unsure upTo
	inForce      bool
}

type upTo struct {
	is     bool
	number int32
}

const bell = "_c_permits"

func isSetting(node string) bool {
	return strings.HasPrefix(node, "_c_set") || strings.HasPrefix(node, "_c_unset")
}

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

func (s *setting) suits(n *name) bool {
	return !s.inForce || n.permits() && n.capacity == s.capacity
}

func (d *Driver) legible(q *lane, s *setting) error {
	if s.node == "" || s.capacity > 0 {
		return nil
	}
	return driver.Permanent(fmt.Errorf("zookeeper: the name of %s/%s is not as it was written, so that nobody can say how many permits %q has (interlock permits set NAME N sets the number anew)",
		q.path, s.node, q.name))
}

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

var everybody = upTo{true, -1}

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

const mostChecked = 1000

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

func (d *Driver) settled(ctx context.Context, l *link, q *lane, nodes []string) (all line, s setting, err error) {
	all, s = parseQueue(nodes)
	if err = d.forgetSetting(ctx, l, q, nodes, &s); err == nil {
		all, err = d.standing(ctx, l, q, all)
	}
	return all, s, err
}

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

func keptIn(nodes []string) (node string, ok bool) {
	s := settingIn(nodes)
	return s.node, s.kept || s.node != "" && s.capacity == 0
}

func (q *lane) expelling(n *name, because string) []any {
	return []any{&zk.Check{Path: because, Version: -1}, &zk.Delete{Path: q.path + "/" + n.node, Version: -1}}
}

func removals(q *lane, nodes []string) (ops []any) {
	for _, node := range nodes {
		if isSetting(node) || node == bell {
			ops = append(ops, &zk.Delete{Path: q.path + "/" + node, Version: -1})
		}
	}
	return ops
}

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
