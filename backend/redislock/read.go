package redislock

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

const (
	followFor  = 40 * time.Second // how long the server remembers who follows
	idleTopics = 256              // those that nobody follows are kept for the next call
)

// member is how scripts know a follower; "" is none.
func member(f exchange.Follower) string {
	if f.Mailbox == "" {
		return ""
	}
	return f.Mailbox + " " + strconv.FormatUint(f.Topic, 10)
}

func (s *store) Read(ctx context.Context, queue string, f exchange.Follower) (exchange.Snapshot, error) {
	q := s.queue(queue)
	m, err := s.run(ctx, call{followScript, q.keys, []string{member(f), micros(followFor)}})
	if err != nil {
		return exchange.Snapshot{}, err
	}
	if f.Mailbox != "" {
		q.busy.Store(true)
	}
	all, err := decode(m)
	all.Name = queue
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

// garbled names the keys of a queue if one of them is illegible. The last token and the lock itself
// stay when they are deleted.
func garbled(err error, keys ...string) error {
	if err == nil || !illegible(err) || len(keys) < 7 {
		return err
	}
	return driver.Permanent(fmt.Errorf("redis: what is kept of %q cannot be read: %w (this forgets it, and ends what is held: redis-cli DEL %s)", keys[0], err, strings.Join(keys[2:7], " ")))
}

// decode reads the answer of follow.lua.
func decode(m rueidis.RedisMessage) (exchange.Snapshot, error) {
	parts, err := m.ToArray()
	if err != nil || len(parts) != 6 {
		return exchange.Snapshot{}, errors.Join(errAnswer, err)
	}
	now, err1 := parts[0].AsInt64()
	kind, err2 := parts[1].ToString()
	capacity, err3 := parts[2].AsInt64()
	records, err4 := parts[3].AsStrSlice()
	ends, err5 := parts[4].AsStrSlice()
	resized, err6 := parts[5].AsBool()
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return exchange.Snapshot{}, errors.Join(errAnswer, err)
	}
	left := map[string]time.Duration{}
	for i := 0; i+1 < len(ends); i += 2 {
		end, err := strconv.ParseFloat(ends[i+1], 64)
		if err != nil {
			return exchange.Snapshot{}, errors.Join(errAnswer, err)
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
			return exchange.Snapshot{}, err
		}
		member.ID, member.Left = id, left[id]
		members = append(members, numbered{member, seq})
	}
	slices.SortFunc(members, func(a, b numbered) int { return cmp.Compare(a.seq, b.seq) })
	q := driver.Queue{Resized: resized}
	if len(members) > 0 || resized {
		q.Kind, q.Capacity = driver.Kind(kind), capacity
	}
	for _, m := range members {
		q.Members = append(q.Members, m.Member)
	}
	return exchange.Snapshot{Queue: q, At: time.UnixMicro(now)}, nil
}

// decodeRecord reads what common.lua calls a record: numbers as big-endian doubles,
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

const perPage = 100 // queues, or cells

// page is the next names, and those that are left, with a zero byte after each. The first call of List
// or Cells looks through the names of all keys on every master; the others go on with what is left.
func (s *store) page(ctx context.Context, prefix, from, kind string, valid func(string) error) (names []string, next string, err error) {
	if from == "" {
		all, err := s.names(ctx, prefix, kind, valid)
		if err != nil {
			return nil, "", err
		}
		from = strings.Join(all, "\x00")
	}
	names = strings.SplitN(from, "\x00", perPage+1)
	if len(names) > perPage {
		names, next = names[:perPage], names[perPage]
	}
	if names[0] == "" {
		return nil, "", nil
	}
	return names, next, nil
}

// names finds what has a key of this kind and a name with the prefix, in order: queues that
// had a ticket lately ("t"), cells ("c").
func (s *store) names(ctx context.Context, prefix, kind string, valid func(string) error) ([]string, error) {
	const before = "interlock:{"
	after := "}:" + kind
	found := map[string]bool{}
	for _, node := range s.client.Nodes() {
		for cursor := uint64(0); ; {
			s.exchanges.Add(1)
			e, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(before+globEscape(s.prefix+prefix)+"*"+after).Count(1000).Build()).AsScanEntry()
			if err != nil {
				return nil, s.noted(err)
			}
			for _, k := range e.Elements {
				name := strings.TrimSuffix(strings.TrimPrefix(k, before+s.prefix), after)
				if valid(name) == nil {
					found[name] = true
				}
			}
			if cursor = e.Cursor; cursor == 0 {
				break
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// List leaves out queues that cannot be read, and names one of them.
func (s *store) List(ctx context.Context, prefix, from string) (all []exchange.Snapshot, next string, err error) {
	names, next, err := s.page(ctx, prefix, from, "t", driver.CheckName)
	if err != nil {
		return nil, "", err
	}
	calls, all := make([]call, len(names)), make([]exchange.Snapshot, len(names))
	for i, n := range names {
		calls[i] = call{followScript, s.queue(n).keys, []string{"", "0"}}
	}
	s.eachMessage(ctx, 0, calls, func(i int, _ driver.Instant, m rueidis.RedisMessage, failed error) {
		if failed == nil {
			all[i], failed = decode(m)
			all[i].Name = names[i]
		}
		if failed != nil && (err == nil || illegible(err)) {
			err = garbled(failed, calls[i].keys...)
		}
	})
	return all, next, err
}
