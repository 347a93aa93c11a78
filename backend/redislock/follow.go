package redislock

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"iter"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
)

// A follower is told when something changes: scripts send it a message as long as
// it has said lately that it wants to know. One serves all calls of this client.
type follower struct {
	what   string
	number uint64
	refs   int
	news   chan struct{} // closed at the next change; guarded by Driver.mu
}

const (
	followFor   = 40 * time.Second // how long the server remembers a follower
	followAgain = 15 * time.Second // after this it looks itself, whatever it has heard
	idleMost    = 256              // followers that nobody uses are kept for the next call
)

func (f *follower) changed() {
	close(f.news)
	f.news = make(chan struct{})
}

// follower returns the one for what is followed, until release.
func (d *Driver) follower(what string) (f *follower, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f = d.followers[what]
	if f == nil {
		f = &follower{what: what, number: d.numbers.Add(1), news: make(chan struct{})}
		d.followers[what], d.heeded[f.number] = f, f
	}
	f.refs++
	return f, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if f.refs--; f.refs == 0 && len(d.followers) > idleMost && d.followers[what] == f {
			delete(d.followers, what)
			delete(d.heeded, f.number)
		}
	}
}

// member is how scripts know the follower.
func (d *Driver) member(f *follower) string {
	return d.id + " " + strconv.FormatUint(f.number, 10)
}

func (d *Driver) news(f *follower) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return f.news
}

// heed waits for news, for d at most.
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

func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Queue{}, err
	}
	q, err := d.queue(queue)
	if err != nil {
		return driver.Queue{}, err
	}
	if after == "" { // whoever only looks is not told of changes
		return d.read(ctx, q, "")
	}
	f, release := d.follower("queue " + queue)
	defer release()
	for {
		news := d.news(f)
		began := d.Now()
		all, err := d.read(ctx, q, d.member(f))
		if err != nil || all.Version != after {
			return all, err
		}
		again := followAgain
		for _, m := range all.Members { // a death is a change of which nobody sends news
			again = min(again, m.Left+time.Millisecond)
		}
		// A long queue that changes all the time is not read all the time.
		if err := d.heed(ctx, nil, min(2*d.Now().Sub(began), time.Second)); err != nil {
			return driver.Queue{}, err
		}
		if err := d.heed(ctx, news, again); err != nil {
			return driver.Queue{}, err
		}
	}
}

// read reads a queue, and has its changes told to who.
func (d *Driver) read(ctx context.Context, q *queue, who string) (driver.Queue, error) {
	sent := d.Now()
	m, err := d.run(ctx, call{followScript, q.keys, []string{who, micros(followFor)}})
	if err != nil {
		return driver.Queue{}, err
	}
	all, err := decode(m)
	all.Name, all.Read = q.name, sent
	if who != "" {
		q.busy.Store(true)
	}
	return all, err
}

var errAnswer = errors.New("redis: a script's answer cannot be read")

// decode reads the answer of follow.lua.
func decode(m rueidis.RedisMessage) (driver.Queue, error) {
	parts, err := m.ToArray()
	if err != nil || len(parts) != 5 {
		return driver.Queue{}, errors.Join(errAnswer, err)
	}
	now, err1 := parts[0].AsInt64()
	kind, err2 := parts[1].ToString()
	capacity, err3 := parts[2].AsInt64()
	records, err4 := parts[3].AsStrSlice()
	ends, err5 := parts[4].AsStrSlice()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return driver.Queue{}, errors.Join(errAnswer, err)
	}
	left := map[string]time.Duration{}
	for i := 0; i+1 < len(ends); i += 2 {
		end, err := strconv.ParseFloat(ends[i+1], 64)
		if err != nil {
			return driver.Queue{}, errors.Join(errAnswer, err)
		}
		left[ends[i]] = time.Duration(int64(end)-now) * time.Microsecond
	}
	type numbered struct {
		driver.Member
		seq int64
	}
	var members []numbered
	for i := 0; i+1 < len(records); i += 2 {
		id := records[i]
		if l, ok := left[id]; !ok || l <= 0 { // the state, or a ticket that is over
			continue
		}
		member, seq, err := decodeRecord(records[i+1])
		if err != nil {
			return driver.Queue{}, err
		}
		member.ID, member.Left = id, left[id]
		members = append(members, numbered{member, seq})
	}
	slices.SortFunc(members, func(a, b numbered) int { return cmp.Compare(a.seq, b.seq) })
	q := driver.Queue{}
	if len(members) > 0 {
		q.Kind, q.Capacity = driver.Kind(kind), capacity
	}
	for _, m := range members {
		q.Members = append(q.Members, m.Member)
	}
	q.Version = version(q, now)
	return q, nil
}

// decodeRecord reads what queue.lua calls a record: numbers as big-endian doubles,
// then strings that end with a zero byte.
func decodeRecord(packed string) (m driver.Member, seq int64, err error) {
	const numbers = 7
	var n [numbers]float64
	if len(packed) < 8*numbers {
		return m, 0, errAnswer
	}
	for i := range n {
		n[i] = math.Float64frombits(binary.BigEndian.Uint64([]byte(packed[8*i : 8*i+8])))
	}
	text := strings.Split(packed[8*numbers:], "\x00") // flags, session, rest, nothing
	if len(text) != 4 {
		return m, 0, errAnswer
	}
	ownerText, noteText, _ := strings.Cut(strings.TrimPrefix(text[2], " "), " ")
	owner, err1 := url.QueryUnescape(ownerText)
	note, err2 := url.QueryUnescape(noteText)
	m = driver.Member{
		Owner: owner, Units: int64(n[1]), Held: n[2] > 0, Token: uint64(n[2]),
		Since: time.UnixMicro(int64(n[3])), Fixed: strings.Contains(text[0], "f"),
	}
	if note != "" {
		m.Note = []byte(note)
	}
	return m, int64(n[0]), errors.Join(err1, err2)
}

// version tells states of a queue apart by what they show, so that nothing need be
// counted in Redis. An end that only moves with renewals is no part of it.
func version(q driver.Queue, now int64) string {
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
			write(strconv.FormatInt(now+m.Left.Microseconds(), 10))
		}
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// Queues looks through the names of all keys, a part of them at a time, on every
// master.
func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return func(yield func(driver.Queue, error) bool) {
		names, err := d.names(ctx, prefix)
		if err != nil {
			yield(driver.Queue{}, err)
			return
		}
		const part = 100
		for at := 0; at < len(names); at += part {
			all, err := d.readAll(ctx, names[at:min(at+part, len(names))])
			if err != nil {
				yield(driver.Queue{}, err)
				return
			}
			for _, q := range all {
				if len(q.Members) > 0 && !yield(q, nil) {
					return
				}
			}
		}
	}
}

// names finds the queues with the prefix that had a ticket lately, in order.
func (d *Driver) names(ctx context.Context, prefix string) ([]string, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	const before, after = "interlock:{", "}:t"
	found := map[string]bool{}
	for _, node := range d.client.Nodes() {
		for cursor := uint64(0); ; {
			d.exchanges.Add(1)
			e, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(before+globEscape(d.prefix+prefix)+"*"+after).Count(1000).Build()).AsScanEntry()
			if err != nil {
				return nil, d.failed(ctx, err)
			}
			for _, k := range e.Elements {
				name := strings.TrimSuffix(strings.TrimPrefix(k, before+d.prefix), after)
				if driver.CheckName(name) == nil {
					found[name] = true
				}
			}
			if cursor = e.Cursor; cursor == 0 {
				break
			}
		}
	}
	names := make([]string, 0, len(found))
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

func (d *Driver) readAll(ctx context.Context, names []string) ([]driver.Queue, error) {
	calls := make([]call, len(names))
	for i, n := range names {
		q, err := d.queue(n)
		if err != nil {
			return nil, err
		}
		calls[i] = call{followScript, q.keys, []string{"", "0"}}
	}
	all := make([]driver.Queue, len(names))
	var failed error
	take := func(i int, sent driver.Instant, m rueidis.RedisMessage, err error) {
		if err == nil {
			all[i], err = decode(m)
			all[i].Name, all[i].Read = names[i], sent
		}
		if err != nil {
			failed = d.failed(ctx, err)
		}
	}
	d.eachMessage(ctx, calls, take)
	return all, failed
}
