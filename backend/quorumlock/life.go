package quorumlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A member that loses its data forgets who held what, and would give it to another. So an empty
// member does not count before all that it may have forgotten is over.
//
//  1. A client that finds no cell lifeCell at a member creates it. Its value, a random name,
//     is that of the member's life.
//  2. A client that sees a life for the first time waits for a TTL. If the life still has the same name then,
//     nothing is left of what was granted before it. The client creates the cell soundCell of this
//     name: the member is sound, for everybody.
//  3. A client that has joined at a member reads lifeCell afterwards. If the name is another one, the place
//     does not count.
//
// Clients that end soon, such as jobs that only try, need not wait all that time. Whoever finds a life that
// is not sound joins ripening(life) with a ticket that is held for the TTL, and creates begunCell(life) then,
// at each member. Where the cell exists and the queue is empty, the time is over. It is over for all when a
// majority of members say so: the clock of one may be set forward, such as that of a machine that has just
// started.
//
// The name of the cell in step 2 has the name of the life. So a creation that arrives late, after the member
// has lost its data once more, says nothing of the new life.
//
// Step 2 waits for the longest TTL that any client has written to ttlCell of a member. A client joins only while a
// majority of members are sound and have its TTL. So whoever reads that of a majority that is sound, after it
// has seen the new life, knows of each lease that may have been forgotten.
const (
	lifeCell = "interlock-quorum/life/value"
	ttlCell  = "interlock-quorum/ttl/value"
)

func begunCell(life string) string { return "interlock-quorum/begun/" + life + "/value" }
func ripening(life string) string  { return ownQueues + life }

const ownQueues = "interlock-quorum/ripening/"

func soundCell(life string) string { return "interlock-quorum/sound/" + life + "/value" }

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// lifeOf reads the name of a member's life, "" if it has none yet.
func lifeOf(ctx context.Context, d driver.Driver) (string, error) {
	c, err := d.Load(ctx, lifeCell)
	if err != nil || !c.Exists {
		return "", err
	}
	return parseLife(c)
}

// parseLife reads the name of a life, which becomes part of other names.
func parseLife(c driver.Cell) (string, error) {
	if driver.CheckID(string(c.Value)) != nil {
		return "", fmt.Errorf("its cell %s is damaged: delete it, and the member counts again after a TTL", lifeCell)
	}
	return string(c.Value), nil
}

// nameLife reads the name of a member's life, and gives it one if it has none.
func nameLife(ctx context.Context, d driver.Driver) (string, error) {
	for {
		c, err := d.Load(ctx, lifeCell)
		if err != nil {
			return "", err
		}
		if c.Exists {
			return parseLife(c)
		}
		name := newID()
		_, err = d.Swap(ctx, driver.Swap{ID: newID(), Name: lifeCell, Version: c.Version, Value: []byte(name)})
		switch {
		case err == nil:
			return name, nil
		case !errors.Is(err, driver.ErrConflict):
			return "", err
		}
	}
}

func isSound(ctx context.Context, d driver.Driver, life string) (bool, error) {
	c, err := d.Load(ctx, soundCell(life))
	return c.Exists, err
}

// ripens begins the time that a life has to last, where that was not done before. It reports whether the time is over.
func (s *session) ripens(life string, longest time.Duration) bool {
	over := 0
	for _, a := range ask(s.ctx, s.d, s.patience, func(ctx context.Context, d driver.Driver) (bool, error) {
		return ripensAt(ctx, d, driver.SessionOptions{TTL: s.asked, Owner: s.owner}, life, longest)
	}) {
		if a.got {
			over++
		}
	}
	return over >= s.d.majority
}

// ripensAt does so at one member, not always that of this life. The ticket outlives its session.
func ripensAt(ctx context.Context, d driver.Driver, o driver.SessionOptions, life string, longest time.Duration) (over bool, err error) {
	begun, err := d.Load(ctx, begunCell(life))
	if err != nil {
		return false, err
	}
	if begun.Exists {
		q, err := d.Follow(ctx, ripening(life), "")
		return err == nil && len(q.Members) == 0, err
	}
	s, err := d.Open(ctx, o)
	if err != nil {
		return false, err
	}
	defer s.Close(ctx)
	_, err = s.Join(ctx, driver.Request{ID: newID(), Queue: ripening(life), Kind: driver.Mutex, Units: 1, Capacity: 1, NoWait: true, Hold: longest, Note: []byte("a member that has lost its data")})
	if err != nil && !errors.Is(err, driver.ErrBusy) {
		return false, err
	}
	return false, create(ctx, d, begunCell(life), "begun")
}

// create creates a cell, unless another client has.
func create(ctx context.Context, d driver.Driver, name, value string) error {
	_, err := d.Swap(ctx, driver.Swap{ID: newID(), Name: name, Value: []byte(value)})
	if errors.Is(err, driver.ErrConflict) {
		return nil
	}
	return err
}

// declareSound says to all clients that a life has lasted long enough.
func declareSound(ctx context.Context, d driver.Driver, life string) error {
	return create(ctx, d, soundCell(life), "sound")
}

// longestTTL reads the longest TTL of all members that answer. It is an error if a member that does not answer may be
// the only one that knows of a longer one. If no majority can be sound, none has a lock to forget.
func (d *Driver) longestTTL(ctx context.Context, limit time.Duration) (longest time.Duration, err error) {
	type known struct {
		ttl   time.Duration
		sound bool
	}
	all := ask(ctx, d, limit, func(ctx context.Context, m driver.Driver) (k known, err error) {
		// In this order: a member that loses its data meanwhile is not taken for a sound one.
		c, err := m.Load(ctx, ttlCell)
		if err != nil {
			return k, err
		}
		life, err := lifeOf(ctx, m)
		if err != nil || life == "" {
			return k, err
		}
		k.ttl = parseTTL(c)
		k.sound, err = isSound(ctx, m, life)
		return k, err
	})
	sound, fresh := 0, 0
	for _, a := range all {
		switch {
		case a.err != nil:
			continue
		case a.got.sound && a.got.ttl > 0:
			sound++
		default:
			fresh++
		}
		longest = max(longest, a.got.ttl)
	}
	if sound < d.majority && len(all)-fresh >= d.majority {
		return 0, fmt.Errorf("it is new, or has lost its data, and those do not answer that may know how long it must not count: %s", strings.Join(failures(all), "; "))
	}
	return longest, nil
}

// parseTTL reads a TTL. No client writes one that is longer than longestTTL.
func parseTTL(c driver.Cell) time.Duration {
	ns, _ := strconv.ParseInt(string(c.Value), 10, 64)
	return min(max(0, time.Duration(ns)), longestTTL)
}

// shareTTL makes a member know of a TTL, and returns the longest that it knows.
func shareTTL(ctx context.Context, d driver.Driver, ttl time.Duration) (time.Duration, error) {
	for {
		c, err := d.Load(ctx, ttlCell)
		if err != nil {
			return 0, err
		}
		if known := parseTTL(c); known >= ttl {
			return known, nil
		}
		_, err = d.Swap(ctx, driver.Swap{ID: newID(), Name: ttlCell, Version: c.Version, Value: strconv.AppendInt(nil, int64(ttl), 10)})
		switch {
		case err == nil:
			return ttl, nil
		case !errors.Is(err, driver.ErrConflict):
			return 0, err
		}
	}
}
