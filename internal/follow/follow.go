package follow

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// again is after what time whoever waits looks, whatever was heard.
const again = 15 * time.Second

// Queue reads a queue until its version is another than after. Whoever reads it for a
// topic wants to be told of changes.
func (t *Topics) Queue(ctx context.Context, name, after string, read func(*Topic) (driver.Queue, error)) (driver.Queue, error) {
	var q driver.Queue
	err := t.until(ctx, ofQueue(name), func(p *Topic) (done bool, n next, err error) {
		began := time.Now()
		if q, err = read(p); err != nil || q.Version != after {
			return true, n, err
		}
		// A long queue that changes all the time is not read all the time.
		n.rest = min(2*time.Since(began), time.Second)
		n.again = again
		for _, m := range q.Members { // no event tells of a death
			n.again = min(n.again, m.Left+time.Millisecond)
		}
		return false, n, nil
	})
	if err != nil {
		return driver.Queue{}, err
	}
	return q, nil
}

// Cell is Queue for a cell.
func (t *Topics) Cell(ctx context.Context, name string, after uint64, load func(*Topic) (driver.Cell, error)) (driver.Cell, error) {
	var c driver.Cell
	err := t.until(ctx, ofCell(name), func(p *Topic) (done bool, n next, err error) {
		c, err = load(p)
		return c.Version != after, next{again: again}, err
	})
	if err != nil {
		return driver.Cell{}, err
	}
	return c, nil
}

// Version tells states of a queue apart by what they show, so that nothing has to be
// counted. The ends are those of its members, by the clock of the backend. An end that
// only moves with renewals is no part of it.
func Version(q driver.Queue, end func(member int) time.Time) string {
	if len(q.Members) == 0 && !q.Resized {
		return "empty"
	}
	h := fnv.New64a()
	write := func(s string) { h.Write([]byte(s)); h.Write([]byte{0}) }
	write(string(q.Kind))
	write(strconv.FormatInt(q.Capacity, 10))
	write(strconv.FormatBool(q.Resized))
	for i, m := range q.Members {
		write(m.ID)
		write(strconv.FormatInt(m.Units, 10))
		write(strconv.FormatUint(m.Token, 10))
		if m.Fixed {
			write(strconv.FormatInt(end(i).UnixMicro(), 10))
		}
	}
	return strconv.FormatUint(h.Sum64(), 36)
}
