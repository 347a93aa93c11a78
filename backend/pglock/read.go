package pglock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) Read(ctx context.Context, queue string, f exchange.Follower) (exchange.Snapshot, error) {
	all, err := s.read(ctx, []string{queue}, s.heard(f.Mailbox))
	if unsound(err) {
		err = illegible(queue, err)
	}
	if err != nil || len(all) == 0 {
		return exchange.Snapshot{Queue: driver.Queue{Name: queue}}, err
	}
	return all[0], nil
}

// read reads queues, without those that have no tickets, unless they were resized.
func (s *store) read(ctx context.Context, names []string, channel string) ([]exchange.Snapshot, error) {
	var (
		all                []exchange.Snapshot
		index              = map[string]int{} // where in all
		name, kind         string
		capacity, at       int64
		m                  driver.Member
		id                 pgUUID
		token, since, ends int64
	)
	err := s.query(ctx, "read", each([]any{&name, &kind, &capacity, &at, &id, &m.Owner, &m.Note, &m.Units, &m.Held, &token, &since, &ends, &m.Fixed}, func() error {
		resized := kind == "semaphore, resized"
		if ends <= at && !resized {
			return nil
		}
		i, known := index[name]
		if !known {
			if i = len(all); resized {
				kind = string(driver.Semaphore)
			}
			index[name] = i
			all = append(all, exchange.Snapshot{At: time.UnixMicro(at), Queue: driver.Queue{Name: name, Kind: driver.Kind(kind), Capacity: capacity, Resized: resized}})
		}
		if resized {
			return nil
		}
		q := &all[i]
		one := m
		one.ID, one.Token, one.Since, one.Left = hex.EncodeToString(id[:]), uint64(token), time.UnixMicro(since), us(ends-at)
		q.Members = append(q.Members, one)
		m = driver.Member{}
		return nil
	}), names, channel)
	return all, err
}

// each reads rows one after the other.
func each(into []any, row func() error) func(pgx.Rows) error {
	return func(r pgx.Rows) error {
		_, err := pgx.ForEachRow(r, into, row)
		return err
	}
}

// pgUUID is how pgx scans a uuid.
type pgUUID = [16]byte

func (s *store) List(ctx context.Context, prefix, after string) ([]exchange.Snapshot, string, error) {
	names, err := rows[string](ctx, s, "names", prefix, after)
	if err != nil || len(names) == 0 {
		return nil, "", err
	}
	all, err := s.sound(ctx, names)
	return all, names[len(names)-1], err
}

func illegible(queue string, err error) error {
	return driver.Permanent(fmt.Errorf("postgres: what is kept of %q cannot be read: %w", queue, err))
}

// sound reads queues. It leaves out what cannot be read, and its error names one.
func (s *store) sound(ctx context.Context, names []string) ([]exchange.Snapshot, error) {
	all, err := s.read(ctx, names, "")
	if !unsound(err) {
		return all, err
	}
	if len(names) == 1 {
		return nil, illegible(names[0], err)
	}
	some, err := s.sound(ctx, names[:len(names)/2])
	if err != nil && !unsound(err) {
		return nil, err
	}
	more, failed := s.sound(ctx, names[len(names)/2:])
	if failed != nil && (err == nil || !unsound(failed)) {
		err = failed
	}
	return append(some, more...), err
}

// unsound reports whether a row has NULL where that means nothing, or a number that is too large.
func unsound(err error) bool {
	var scan pgx.ScanArgError
	return errors.As(err, &scan) || damaged(err)
}

// perCells bounds the names of one exchange.
const perCells = 100
