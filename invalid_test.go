package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// What can never succeed fails at once, without an exchange.
func TestImpossibleRequestsFailAtOnce(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		before := a.Admin().Exchanges()
		for name, l := range map[string]*interlock.Lock{
			"empty name":             a.Mutex(""),
			"empty segment":          a.Mutex("a//b"),
			"dot":                    a.Mutex("a/./b"),
			"dots":                   a.Mutex(".."),
			"braces":                 a.Mutex("a{b}"),
			"control character":      a.Mutex("a\x00"),
			"not UTF-8":              a.Mutex("a\xff"),
			"surrogate":              a.Mutex("a\xed\xa0\x80"),
			"private use":            a.Mutex("a\ue000"),
			"non-character":          a.Mutex("a\ufdd0"),
			"long segment":           a.Mutex(strings.Repeat("a", 201)),
			"long name":              a.Mutex(strings.Repeat("a/", 256) + "a"),
			"long note":              a.Mutex("m", interlock.Note(strings.Repeat("a", driver.MaxNote+1))),
			"long value":             a.Election("e").Candidate(strings.Repeat("a", driver.MaxNote+1)),
			"no permits":             a.Semaphore("s", 0),
			"weight over capacity":   a.Semaphore("s", 2, interlock.Weight(3)),
			"weight of nothing":      a.Semaphore("s", 2, interlock.Weight(-1)),
			"no weight":              a.Semaphore("s", 2, interlock.Weight(0)),
			"too many permits":       a.Semaphore("s", 1<<40),
			"weight of a mutex":      a.Mutex("m", interlock.Weight(1)),
			"hold for nothing":       a.Mutex("m", interlock.ExpiresAfter(0)),
			"at least less":          a.Mutex("m", interlock.AtLeast(-1)),
			"at most nothing":        a.Mutex("m", interlock.AtMost(0)),
			"at most too long":       a.Mutex("m", interlock.AtMost(interlock.MaxTime+1)),
			"at most under at least": a.Mutex("m", interlock.AtMost(time.Second), interlock.AtLeast(2*time.Second)),
			"at most and hold":       a.Mutex("m", interlock.AtMost(time.Second), interlock.ExpiresAfter(time.Second)),
			"at most and sticky":     a.Mutex("m", interlock.AtMost(time.Second), interlock.Sticky()),
			"hold too short":         a.Mutex("m", interlock.ExpiresAfter(interlock.MinTime-1)),
			"hold too long":          a.Mutex("m", interlock.ExpiresAfter(interlock.MaxTime+1)),
			"hold without end":       a.Mutex("m", interlock.ExpiresAfter(math.MaxInt64)),
			"at least too long":      a.Mutex("m", interlock.AtLeast(math.MaxInt64)),
			"at least over hold":     a.Mutex("m", interlock.ExpiresAfter(time.Second), interlock.AtLeast(2*time.Second)),
			"sticky and strict":      a.Mutex("m", interlock.Sticky(), interlock.StrictOrder()),
			"sticky permits":         a.Semaphore("s", 2, interlock.Sticky()),
			"no stripes":             a.Striped("s", 0).For("key"),
			"too many stripes":       a.Striped("s", interlock.MaxStripes+1).For("key"),
			"permits, with more":     a.Semaphore("s", 1<<40).With(interlock.Note("")),
			"stripes, with more":     a.Striped("s", 0).For("key").With(interlock.Note("")),
			"with the wrong option":  a.Mutex("m").With(interlock.Weight(2)),
		} {
			wantErr(t, errOf(l.Acquire(ctx)), interlock.ErrInvalid)
			wantErr(t, errOf(l.TryAcquire(ctx)), interlock.ErrInvalid)
			wantErr(t, l.Do(ctx, func(context.Context) error { t.Error(name); return nil }), interlock.ErrInvalid)
		}
		_, err := interlock.NewValue[int](a.Client, "a//b").Set(ctx, 1, 0)
		wantErr(t, err, interlock.ErrInvalid)
		wantErr(t, a.Barrier("").Set(ctx), interlock.ErrInvalid)
		wantErr(t, a.Admin().Revoke(ctx, "", "x"), interlock.ErrInvalid)
		wantErr(t, a.Admin().Evict(ctx, "m", "", true), interlock.ErrInvalid)
		costs(t, a, before, 0)
	}))
}

// Promise: an empty name is refused, also behind a prefix that names begin with, and the error
// has no hole where the name would be.
func TestAnEmptyNameIsRefused(t *testing.T) {
	simulated(t, func(t *testing.T) {
		c := client(t, memlock.NewWorld().Driver(), interlock.Prefix("app-"))
		for _, err := range []error{
			c.Mutex("").Do(ctx, func(context.Context) error { return nil }),
			c.RWMutex("").Reader().Do(ctx, func(context.Context) error { return nil }),
			c.Striped("", 2).For("key").Do(ctx, func(context.Context) error { return nil }),
			c.Latch("").Wait(ctx),
			c.Barrier("").Set(ctx),
			c.Admin().Evict(ctx, "", "x", false),
			c.Admin().RaiseToken(ctx, "", 1),
		} {
			wantErr(t, err, interlock.ErrInvalid)
			text := fmt.Sprint(err)
			failIf(t, !strings.HasSuffix(text, ": name is empty") || strings.Contains(text, " :"), "it says %q", text)
		}
	})
}

func TestNamesAreTakenAsTheyAre(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		for _, name := range []string{
			"a", "a/b", "a.b", "Grüße/世界", "a b", "-", "*", "%2f", `\`, "a:b@c", "…",
			strings.Repeat("a", 200), strings.Repeat("a/", 255) + "a",
		} {
			lease := acquire(t, a.Mutex(name))
			failIf(t, lease.Name() != name, "%q became %q", name, lease.Name())
			_, err := interlock.NewValue[int](a.Client, name).Set(ctx, 1, 0)
			failIf(t, err != nil, "%v", err)
			ok(t, lease.Release())
		}
	}))
}

func TestOpenRefusesWrongURLs(t *testing.T) {
	for _, url := range []string{
		"", "mem", "nowhere:", "mem:?unknown=1", "mem:?ttl=soon", "mem:?ttl=1ms", "mem:?ttl=48h",
		"mem:?prefix=a//", "mem://host", "mem:?owner=a&owner=b",
	} {
		if c, err := interlock.Open(ctx, url); err == nil {
			t.Errorf("%q was opened", url)
			_ = c.Close()
		} else {
			wantErr(t, err, interlock.ErrInvalid)
		}
	}
	c := errtest.Must(interlock.Open(ctx, "mem:?ttl=3s&prefix=app/&owner=me"))(t)
	defer c.Close()
	failIf(t, c.TTL() != 3*time.Second, "TTL %v", c.TTL())
	lease := acquire(t, c.Mutex("m"))
	for q, err := range c.Admin().Queues(ctx, "") {
		ok(t, err)
		failIf(t, q.Name != "m" || q.Holders[0].Owner != "me", "%+v", q)
	}
	ok(t, lease.Release())
}

// Promise: Check refuses what Open refuses, and says of which backends it has nothing to say.
func TestCheckOfWhatIsNotChecked(t *testing.T) {
	for url, want := range map[string]error{
		"mem:": errors.ErrUnsupported, "mem:?ttl=1ms": interlock.ErrInvalid, "nonsense": interlock.ErrInvalid,
	} {
		all, err := interlock.Check(t.Context(), url)
		failIf(t, !errors.Is(err, want) || len(all) > 0, "%s: %v, %v, not %v", url, all, err, want)
	}
}

// A URL with a name is one world for the whole process.
func TestClientsOfOneURLMeet(t *testing.T) {
	url := fmt.Sprintf("mem:%s", t.Name())
	a := errtest.Must(interlock.Open(ctx, url))(t)
	defer a.Close()
	b := errtest.Must(interlock.Open(ctx, url))(t)
	defer b.Close()
	lease := acquire(t, a.Mutex("m"))
	wantErr(t, errOf(b.Mutex("m").TryAcquire(ctx)), interlock.ErrBusy)
	ok(t, lease.Release())
}

// A key has the same stripe in every process and version.
func TestStripesOfKeys(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		s := a.Striped("items", 16)
		failIf(t, s.Len() != 16 || s.Stripe(3).Name() != "items/3", "%d stripes, one is %s", s.Len(), s.Stripe(3).Name())
		for key, want := range map[string]string{"": "items/5", "a": "items/12", "order-1": s.For("order-1").Name()} {
			equal(t, s.For(key).Name(), want, "the stripe of key %q", key)
			lease := acquire(t, s.For(key))
			wantErr(t, errOf(b.Striped("items", 16).For(key).TryAcquire(ctx)), interlock.ErrBusy)
			ok(t, lease.Release())
		}
	}))
}

// A floor that leaves too few tokens above it is refused in the units of the caller, and the largest one
// is named: it leaves more than four thousand elections of ZooKeeper use up.
func TestAFloorThatLeavesTooFewTokensIsInvalid(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		const largest = 1<<63 - 1<<56 - 1
		for _, floor := range []uint64{largest + 1, 1<<63 - 1, 1 << 63, math.MaxUint64} {
			for _, err := range []error{a.Admin().RaiseToken(ctx, "m", floor), a.Admin().RaiseTokens(ctx, floor)} {
				wantErr(t, err, interlock.ErrInvalid)
				errtest.Says(t, err, fmt.Sprint(floor), fmt.Sprint(": the largest is ", uint64(largest)))
			}
		}
		ok(t, a.Admin().RaiseToken(ctx, "m", largest))
		ok(t, a.Admin().RaiseTokens(ctx, largest))
		lease := acquire(t, a.Mutex("m"))
		failIf(t, lease.Token() <= largest || driver.MaxToken-lease.Token()>>interlock.TokenBits < 4096<<32, "token %d", lease.Token())
		ok(t, lease.Release())
	}))
}
