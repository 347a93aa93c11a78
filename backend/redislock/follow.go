package redislock

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/follow"
)

const (
	followFor  = 40 * time.Second // how long the server remembers who follows
	idleTopics = 256              // those that nobody follows are kept for the next call
)

// member is how scripts know who follows.
func (d *Driver) member(t *follow.Topic) string {
	return d.id + " " + strconv.FormatUint(t.Number, 10)
}

func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Queue{}, err
	}
	q, err := d.queue(queue)
	if err != nil {
		return driver.Queue{}, err
	}
	return d.topics.Queue(ctx, queue, after, func(t *follow.Topic) (driver.Queue, error) {
		if after == "" { // whoever only looks is not told of changes
			return d.read(ctx, q, "")
		}
		return d.read(ctx, q, d.member(t))
	})
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
	return all, garbled(err, q.keys...)
}

var (
	errAnswer = driver.Permanent(errors.New("redis: a script's answer cannot be read"))
	luaError  = regexp.MustCompile(`(^|[^@])user_script:\d+: `) // of the script, not of a command
)

// illegible reports whether an error means that keys have what no script has written.
func illegible(err error) bool {
	var of *rueidis.RedisError
	return errors.Is(err, errAnswer) || errors.As(err, &of) && (luaError.MatchString(err.Error()) || strings.Contains(err.Error(), "WRONGTYPE "))
}

// garbled names the keys of a queue of which one is illegible. The last token and the lock itself
// stay when they are deleted.
func garbled(err error, keys ...string) error {
	if !illegible(err) || len(keys) < 7 {
		return err
	}
	return driver.Permanent(fmt.Errorf("redis: what is kept of %q cannot be read: %w (this forgets it, and ends what is held: redis-cli DEL %s)", keys[0], err, strings.Join(keys[2:7], " ")))
}

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
	q.Version = follow.Version(q, time.UnixMicro(now))
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
	if err := errors.Join(err1, err2); err != nil {
		return m, 0, errors.Join(errAnswer, err)
	}
	return m, int64(n[0]), nil
}

// Queues looks through the names of all keys, a part of them at a time, on every
// master.
func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return func(yield func(driver.Queue, error) bool) {
		names, err := d.names(ctx, prefix, "t", driver.CheckName)
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
			for _, q := range all { // but those that cannot be read
				if len(q.Members) > 0 && !yield(q, nil) {
					return
				}
			}
		}
	}
}

// names finds what has a key of this kind and a name with the prefix, in order: queues that
// had a ticket lately ("t"), cells ("c").
func (d *Driver) names(ctx context.Context, prefix, kind string, valid func(string) error) ([]string, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	const before = "interlock:{"
	after := "}:" + kind
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
				if valid(name) == nil {
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
		if err != nil && !illegible(err) {
			failed = d.failed(ctx, err)
		}
	}
	d.eachMessage(ctx, 0, calls, take)
	return all, failed
}
