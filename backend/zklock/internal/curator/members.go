package curator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// The nodes of a double barrier, below its name:
//
//	<UUID>  a member, ephemeral
//	ready   the round has begun: a member that comes now is in it, too
//
// Members leave as Curator's do: the lowest UUID stays until it is alone, the others go at once and wait for that; the
// last one removes ready. So a ticket with the lowest UUID that leaves stays for the others, marked as one that has
// left, and is removed in the background.
const ready = "ready"

// departure is a ticket of this client that has left while its round went on.
type departure struct {
	queue string // the path
	round uint64 // the transaction that made ready
	at    driver.Instant
}

// Member is a ticket of a double barrier, which is always held.
type Member struct {
	base
	path  string
	over  bool // it has left
	stop  func() bool
	round uint64 // that it is in, as far as this client knows: see departure; Layouts.mu guards it
}

// Member is for a ticket.
func (ls *Layouts) Member(t Ticket) *Member {
	m := &Member{base: ls.base(t)}
	m.path = m.queue + "/" + UUID(t.Join().ID)
	return m
}

// ErrFixedMember refuses a fixed end.
var ErrFixedMember = driver.Invalid(errors.New("zookeeper: with barrier=curator a member ends with its session, " +
	"never at a fixed time"))

// Enter makes the node, or finds it. Zxid is its transaction.
func (m *Member) Enter(ctx context.Context) (zxid uint64, err error) {
	err = m.do(ctx, func(ctx context.Context) error {
		if m.over {
			return driver.ErrGone
		}
		if err := m.prepare(ctx); err != nil {
			return err
		}
		session, _ := m.Session()
		for tries := 0; ; tries++ {
			err := m.Link().Make(context.WithoutCancel(ctx), m.path, m.Data(false), zk.Ephemeral, m.ls.ACL())
			if ctx.Err() != nil {
				m.purge(ctx)
				return ctx.Err()
			}
			switch {
			case errors.Is(err, zk.ErrNoNode) && tries < 10:
				if err := m.ls.Lay(ctx, m.Link(), m.queue, true); err != nil {
					return err
				}
				continue
			case err != nil && !errors.Is(err, zk.ErrNodeExists):
				return err
			}
			c, err := m.Link().Get(ctx, m.path)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				return driver.ErrGone
			case err != nil:
				return err
			case c.Stat.EphemeralOwner == session:
				zxid = uint64(c.Stat.Czxid)
				m.enters()
				return nil
			}
			// It is of an earlier session of ours.
			if err := zk.Unless(m.Link().Remove(ctx, m.path), zk.ErrNoNode); err != nil {
				return err
			}
		}
	})
	return zxid, err
}

// prepare ends a round all members of which have died.
func (m *Member) prepare(ctx context.Context) error {
	l := m.Link()
	if err := l.CatchUp(ctx, m.queue); err != nil {
		return err
	}
	nodes, err := list(ctx, l, m.queue, false)
	if err != nil {
		return err
	}
	if len(present(nodes)) == 0 && slices.Contains(nodes, ready) {
		return zk.Unless(l.Remove(ctx, m.queue+"/"+ready), zk.ErrNoNode)
	}
	return nil
}

// Look is ErrGone if the node does not stand.
func (m *Member) Look(ctx context.Context) error {
	return m.do(ctx, func(ctx context.Context) error {
		session, _ := m.Session()
		c, err := m.Link().Get(ctx, m.path)
		if errors.Is(err, zk.ErrNoNode) || err == nil && (c.Stat.EphemeralOwner != session || leaving(c)) {
			return driver.ErrGone
		}
		return err
	})
}

func leaving(c zk.Content) bool {
	var says struct{ Leaving bool }
	return json.Unmarshal(c.Data, &says) == nil && says.Leaving
}

// leave says in the data of a node that its ticket has left.
func leave(old []byte) []byte {
	says := map[string]json.RawMessage{}
	_ = json.Unmarshal(old, &says)
	says["leaving"] = json.RawMessage("true")
	b, _ := json.Marshal(says) // cannot fail
	return b
}

// Leave takes a member out. It is ErrGone if it did not stand.
func (m *Member) Leave(ctx context.Context) error {
	return m.do(ctx, func(ctx context.Context) error {
		l := m.Link()
		if err := l.CatchUp(ctx, m.path); err != nil {
			return err
		}
		nodes, err := list(ctx, l, m.queue, false)
		if err != nil {
			return err
		}
		begun, all := slices.Contains(nodes, ready), present(nodes)
		lowest := len(all) > 0 && m.path == m.queue+"/"+all[0]
		switch {
		case begun && lowest && len(all) > 1:
			err = m.stay(ctx)
		case begun && lowest:
			err = m.end(ctx)
		default:
			err = l.Remove(ctx, m.path)
		}
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			m.over = true
			if m.stop != nil {
				m.stop()
			}
			m.departs(true)
		}
		if errors.Is(err, zk.ErrNoNode) {
			err = driver.ErrGone
		}
		return err
	})
}

// present are the nodes of members, in the order in which they leave.
func present(nodes []string) (all []string) {
	for _, node := range nodes {
		if _, ok := idOf(node); ok {
			all = append(all, node)
		}
	}
	slices.Sort(all)
	return all
}

// stay marks the lowest member as one that has left, and removes it once it is alone.
func (m *Member) stay(ctx context.Context) error {
	c, err := m.Link().Get(ctx, m.path)
	if err == nil {
		_, err = m.Link().Set(ctx, m.path, leave(c.Data), -1)
	}
	if err != nil {
		return err
	}
	bell := make(chan struct{}, 1)
	m.ls.Background(func(context.Context) {
		for ctx.Err() == nil {
			on := m.Link().Watch(m.queue, true, func() { bell <- struct{}{} })
			nodes, err := list(ctx, m.Link(), m.queue, true)
			if all := present(nodes); err == nil && (len(all) == 0 || len(all) == 1 && m.path == m.queue+"/"+all[0]) {
				if err = m.end(ctx); err == nil || errors.Is(err, zk.ErrNoNode) {
					m.Link().Ignore(on)
					return
				}
			}
			var retry <-chan time.Time
			if err != nil {
				retry = time.After(again)
			}
			select {
			case <-bell:
			case <-retry:
			case <-ctx.Done():
			}
			m.Link().Ignore(on)
			bell = make(chan struct{}, 1)
		}
		m.purge(ctx)
	})
	return nil
}

// purge removes the node once the session is over: the program's connection would keep it, or make it in its next
// session.
func (m *Member) purge(ctx context.Context) {
	if !m.Link().Own {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*m.Join().Session.TTL)
		defer cancel()
		_ = m.Link().Remove(ctx, m.path)
	}
}

// end removes the last member, and ready with it.
func (m *Member) end(ctx context.Context) error {
	begun := m.queue + "/" + ready
	_, err := m.Link().Multi(ctx, &zk.Delete{Path: m.path, Version: -1}, &zk.Delete{Path: begun, Version: -1})
	if errors.Is(err, zk.ErrNoNode) { // another of the last has removed ready
		return m.Link().Remove(ctx, m.path)
	}
	return err
}

// enters notes that a member of this client stands.
func (m *Member) enters() {
	m.ls.mu.Lock()
	defer m.ls.mu.Unlock()
	m.ls.here[m.Join().ID] = m
	_, session := m.Session()
	m.stop = context.AfterFunc(session, func() { m.departs(false) })
}

// departs notes that it has left its round, which may go on.
func (m *Member) departs(left bool) {
	m.ls.mu.Lock()
	defer m.ls.mu.Unlock()
	id, now := m.Join().ID, driver.Now()
	maps.DeleteFunc(m.ls.left, func(_ string, d departure) bool { return now.Sub(d.at) > time.Hour })
	if m.ls.here[id] != m {
		return
	}
	delete(m.ls.here, id)
	if left && m.round != 0 {
		m.ls.left[id] = departure{m.queue, m.round, now}
	}
}

// isEphemeral: containers have a number in place of the session that owns them.
func isEphemeral(stat *zk.Stat) bool {
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != container
}

const container = -1 << 63

// members lists a double barrier, in the order in which they came. Queues may have names like theirs, but are
// not ephemeral.
func members(ctx context.Context, l *zk.Link, path string, nodes []string) (all []*Seen, err error) {
	came := map[string]int64{}
	for _, node := range present(nodes) {
		c, err := l.Get(ctx, path+"/"+node)
		if errors.Is(err, zk.ErrNoNode) || err == nil && (!isEphemeral(c.Stat) || leaving(c)) {
			continue
		}
		if err != nil {
			return nil, err
		}
		id, _ := idOf(node)
		came[node] = c.Stat.Czxid
		key := keys.Key{ID: id, Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity}
		all = append(all, &Seen{Node: node, Key: key})
	}
	slices.SortFunc(all, func(a, b *Seen) int { return cmp.Compare(came[a.Node], came[b.Node]) })
	return all, nil
}

// roundOf is the queue of a double barrier whose round the cell holds. The value is made of what stands: who is in the
// round, and tickets of this client that have left it. Since a member that comes late is in it, too, the version is of
// the nodes that stand.
func (ls *Layouts) roundOf(cell string) (queue string, ok bool) {
	queue, ok = strings.CutSuffix(cell, "/round")
	return queue, ok && ls.Barriers && driver.CheckName(queue) == nil
}

func (ls *Layouts) loadRound(ctx context.Context, l *zk.Link, queue string, f exchange.Follower) (driver.Cell, error) {
	path := ls.Path(queue)
	if err := l.CatchUp(ctx, path); err != nil {
		return driver.Cell{}, err
	}
	ls.Follow(f, l, path+"/"+ready, false)
	// ready first: the members that stand after that were in time.
	stat, err := l.Exists(ctx, path+"/"+ready)
	if err != nil || stat == nil {
		return driver.Cell{}, err
	}
	ls.Follow(f, l, path, true)
	c, err := l.List(ctx, path, f.Mailbox != "")
	if err != nil {
		return driver.Cell{}, zk.Unless(err, zk.ErrNoNode)
	}
	round := uint64(stat.Czxid)
	var now driver.Round
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for id, d := range ls.left {
		if d.queue == path && d.round == round {
			now.Members = append(now.Members, id)
		}
	}
	if slices.Contains(c.Names, ready) {
		for _, node := range present(c.Names) {
			id, _ := idOf(node)
			now.Members = append(now.Members, id)
			if m := ls.here[id]; m != nil && m.queue == path {
				m.round = round
			}
		}
	}
	value, err := json.Marshal(now)
	return driver.Cell{Version: uint64(c.Stat.Pzxid), Exists: true, Value: value}, err
}

// beginRound makes ready, if all with whom the round is to begin stand.
func (ls *Layouts) beginRound(ctx context.Context, l *zk.Link, queue string, w *driver.Swap) (driver.Cell, error) {
	var next driver.Round
	if err := json.Unmarshal(w.Value, &next); err != nil || w.Version != 0 {
		return driver.Cell{}, driver.ErrConflict
	}
	path := ls.Path(queue)
	var ops []any
	for _, id := range next.Members {
		if driver.CheckID(id) != nil {
			return driver.Cell{}, driver.ErrConflict
		}
		ops = append(ops, &zk.Check{Path: path + "/" + UUID(id), Version: -1})
	}
	_, err := l.Multi(ctx, append(ops, &zk.Create{Path: path + "/" + ready, Acl: ls.ACL(), Flags: zk.Persistent})...)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) {
		return driver.Cell{}, driver.ErrConflict
	}
	if err != nil {
		return driver.Cell{}, err
	}
	c, err := ls.loadRound(ctx, l, queue, exchange.Follower{})
	if err == nil && !c.Exists { // it is over already
		err = driver.ErrConflict
	}
	return c, err
}
