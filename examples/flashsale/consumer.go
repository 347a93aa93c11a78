package flashsale

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"
)

const (
	// takeOverAfter is how long a consumer may have an entry before another takes it over. One
	// that is only slow loses nothing by that: each order is written once.
	takeOverAfter = 2 * time.Second

	// batch is how many entries a consumer reads at once.
	batch = 16

	// look is how long a consumer waits for entries before it looks for some to take over.
	look = 100 * time.Millisecond
)

// consumer is one of the group.
type consumer struct {
	*counter
	name   string
	cursor string // where to look next for entries to take over
}

// consume writes the orders of the Stream to the database. An entry is acknowledged when its
// order is committed. A consumer that dies in between leaves it to another one, which finds
// the order by its key and does not write it again. consume returns when shut is closed and
// every entry is acknowledged, or when ctx ends.
func (s *shop) consume(ctx context.Context, shut <-chan struct{}) error {
	c := &consumer{s.counter, fmt.Sprintf("worker %d, process %d", s.worker, os.Getpid()), "0-0"}
	for {
		last := false
		select {
		case <-shut:
			last = true // no entry is added from here on
		default:
		}
		entries, err := c.takeOver(ctx)
		s.takenOver.Add(int64(len(entries)))
		if err == nil && len(entries) == 0 {
			entries, err = c.read(ctx)
		}
		if err != nil {
			return fmt.Errorf("read the Stream: %w", err)
		}
		for _, e := range entries {
			if err := s.record(ctx, e); err != nil {
				return fmt.Errorf("write the order of buyer %d: %w", e.buyer, err)
			}
			if err := c.acknowledge(ctx, e); err != nil {
				return fmt.Errorf("acknowledge the order of buyer %d: %w", e.buyer, err)
			}
		}
		if !last || len(entries) > 0 {
			continue
		}
		if n, err := c.pending(ctx); n == 0 || err != nil {
			return err
		}
	}
}

// record writes an order of the Stream, once. Redis has decided that there is a piece: that
// the table agrees is seen by the audit.
func (s *shop) record(ctx context.Context, e entry) error {
	_, repeated, err := s.done.Run(ctx, s.db, 10, s.key(e.buyer), func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
		if _, err := tx.ExecContext(ctx, s.sql("UPDATE items SET stock = stock - 1 WHERE id = ?"), e.item); err != nil {
			return nil, err
		}
		return nil, s.place(ctx, tx, e.order)
	})
	switch {
	case err != nil:
		return err
	case repeated:
		s.repeated.Add(1)
	}
	if err := s.written(); err != nil {
		return err
	}
	_, err = s.struck(ctx, e.item, e.left)
	return err
}

// read returns entries that no consumer has, or none after a while.
func (c *consumer) read(ctx context.Context) ([]entry, error) {
	read := c.client.B().Xreadgroup().Group(group, c.name).Count(batch).Block(look.Milliseconds()).Streams().Key(c.orders).Id(">").Build()
	streams, err := c.client.Do(ctx, read).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return newEntries(streams[c.orders])
}

// takeOver returns entries that another consumer has for long. Each call looks at a part of all
// that are pending.
func (c *consumer) takeOver(ctx context.Context) ([]entry, error) {
	claim := c.client.B().Xautoclaim().Key(c.orders).Group(group).Consumer(c.name).
		MinIdleTime(fmt.Sprint(takeOverAfter.Milliseconds())).Start(c.cursor).Count(batch).Build()
	answer, err := c.client.Do(ctx, claim).ToArray()
	if err != nil {
		return nil, err
	}
	if len(answer) < 2 {
		return nil, fmt.Errorf("an answer of %d parts to XAUTOCLAIM", len(answer))
	}
	if c.cursor, err = answer[0].ToString(); err != nil {
		return nil, err
	}
	claimed, err := answer[1].AsXRange()
	if err != nil {
		return nil, err
	}
	return newEntries(claimed)
}

func (c *consumer) acknowledge(ctx context.Context, e entry) error {
	return c.client.Do(ctx, c.client.B().Xack().Key(c.orders).Group(group).Id(e.id).Build()).Error()
}
