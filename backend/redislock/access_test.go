package redislock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/redistest"
)

// documented are the rights that docs/redis.md names: those that every use needs,
// and those that some uses need besides.
func documented(t *testing.T) (base []string, more map[string][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?s)redis-cli ACL SETUSER app (.*?)\n` + "```").FindSubmatch(text)
	if command == nil {
		t.Fatal("docs/redis.md has no ACL SETUSER command")
	}
	for _, word := range strings.Fields(string(command[1])) {
		if word = strings.Trim(word, `'\`); word != "" {
			base = append(base, word)
		}
	}
	more = map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (.*) \\| `([+][^`]*)` \\|$").FindAllStringSubmatch(string(text), -1) {
		more[strings.ReplaceAll(row[1], "`", "")] = strings.Fields(strings.ReplaceAll(row[2], `\|`, "|"))
	}
	return base, more
}

// withRights makes a user, and returns the URL for it.
func withRights(t *testing.T, s *redistest.Server, rights ...string) string {
	t.Helper()
	name := "u" + strings.ToLower(rand.Text())
	if _, err := s.Do(append([]string{"ACL", "SETUSER", name}, rights...)...); err != nil {
		t.Fatal(err)
	}
	return "redis://" + name + ":secret@" + s.Addr + "?prefix=app/"
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x", b)
}

// world is a few clients with a common fate: the first error ends all.
type use struct {
	ctx  context.Context
	d    [2]driver.Driver
	s    [2]driver.Session
	name string
}

func mutex(name string) driver.Request {
	return driver.Request{ID: newID(), Queue: name, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

// useAll does once whatever a program can do with locks and values.
func useAll(ctx context.Context, url string) error {
	u := &use{ctx: ctx}
	for i := range u.d {
		d, err := openURL(ctx, url)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer d.Close()
		s, err := d.Open(ctx, driver.SessionOptions{TTL: 10 * time.Second, Owner: "test"})
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		u.d[i], u.s[i] = d, s
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"alone", u.alone},
		{"hand-off", u.handOff},
		{"semaphore", u.semaphore},
		{"demands", u.demands},
		{"deaths", u.deaths},
		{"fixed ends", u.fixed},
		{"following", u.follow},
		{"values", u.values},
		{"tokens", u.tokens},
		{"end", u.end},
	} {
		u.name = step.name + "/" + rand.Text()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (u *use) renew(i int, t driver.Ticket) error {
	answer, err := u.s[i].Renew(u.ctx, []driver.Ticket{t})
	if err == nil && (len(answer) != 1 || answer[0].State != driver.Kept) {
		err = fmt.Errorf("renewed: %+v", answer)
	}
	return err
}

func (u *use) alone() error {
	t, err := u.s[0].Join(u.ctx, mutex(u.name))
	if err != nil {
		return err
	}
	if err := u.renew(0, t); err != nil {
		return err
	}
	return u.s[0].Leave(u.ctx, t, true)
}

func (u *use) handOff() error {
	first, err := u.s[0].Join(u.ctx, mutex(u.name))
	if err != nil {
		return err
	}
	second, err := u.s[1].Join(u.ctx, mutex(u.name))
	if err != nil {
		return err
	}
	if err := u.renew(0, first); err != nil {
		return err
	}
	if err := u.renew(1, second); err != nil {
		return err
	}
	if err := u.s[0].Leave(u.ctx, first, true); err != nil {
		return err
	}
	if second, err = u.s[1].Await(u.ctx, second); err != nil {
		return err
	}
	return u.s[1].Leave(u.ctx, second, true)
}

func (u *use) semaphore() error {
	request := driver.Request{ID: newID(), Queue: u.name, Kind: driver.Semaphore, Units: 2, Capacity: 3}
	first, err := u.s[0].Join(u.ctx, request)
	if err != nil {
		return err
	}
	request.ID = newID()
	second, err := u.s[1].Join(u.ctx, request)
	if err != nil {
		return err
	}
	if err := u.s[0].Shrink(u.ctx, first, 1); err != nil {
		return err
	}
	if second, err = u.s[1].Await(u.ctx, second); err != nil {
		return err
	}
	request.ID = newID()
	third, err := u.s[0].Join(u.ctx, request)
	if err != nil {
		return err
	}
	return errors.Join(u.s[0].Leave(u.ctx, third, true), u.s[0].Leave(u.ctx, first, false), u.s[1].Leave(u.ctx, second, true))
}

func (u *use) demands() error {
	t, err := u.s[0].Join(u.ctx, mutex(u.name))
	if err != nil {
		return err
	}
	for _, demand := range []driver.Demand{driver.Revoke, driver.Evict, driver.Force} {
		if err := u.d[1].Ask(u.ctx, u.name, t.ID, demand); err != nil {
			return err
		}
		if _, err := u.s[0].Signals(u.ctx); err != nil {
			return err
		}
	}
	return nil
}

// deaths leaves a ticket to itself, and waits behind it.
func (u *use) deaths() error {
	short, err := u.d[0].Open(u.ctx, driver.SessionOptions{TTL: 100 * time.Millisecond, Owner: "test"})
	if err != nil {
		return err
	}
	if _, err := short.Join(u.ctx, mutex(u.name)); err != nil {
		return err
	}
	t, err := u.s[1].Join(u.ctx, mutex(u.name))
	if err != nil {
		return err
	}
	if t, err = u.s[1].Await(u.ctx, t); err != nil {
		return err
	}
	return u.s[1].Leave(u.ctx, t, true)
}

func (u *use) fixed() error {
	request := mutex(u.name)
	request.Hold, request.Robust = time.Minute, true
	t, err := u.s[0].Join(u.ctx, request)
	if err != nil {
		return err
	}
	if err := u.s[1].Keep(u.ctx, t, 2*time.Minute); err != nil {
		return err
	}
	return u.s[1].Leave(u.ctx, t, false)
}

func (u *use) follow() error {
	empty, err := u.d[1].Follow(u.ctx, u.name, "")
	if err != nil {
		return err
	}
	changed := make(chan error, 1)
	ctx, cancel := context.WithCancel(u.ctx)
	defer cancel()
	go func() {
		q, err := u.d[1].Follow(ctx, u.name, empty.Version)
		if err == nil && len(q.Members) != 1 {
			err = fmt.Errorf("followed: %+v", q)
		}
		changed <- err
	}()
	t, err := u.s[0].Join(u.ctx, mutex(u.name))
	if err != nil {
		return err
	}
	if err := <-changed; err != nil {
		return err
	}
	return u.s[0].Leave(u.ctx, t, true)
}

func (u *use) values() error {
	c, err := u.d[0].Swap(u.ctx, driver.Swap{ID: newID(), Name: u.name, Value: []byte("a")})
	if err != nil {
		return err
	}
	changed := make(chan error, 1)
	ctx, cancel := context.WithCancel(u.ctx)
	defer cancel()
	go func() {
		_, err := u.d[1].Watch(ctx, u.name, c.Version)
		changed <- err
	}()
	if _, err := u.d[0].Swap(u.ctx, driver.Swap{ID: newID(), Name: u.name, Version: c.Version, Delete: true}); err != nil {
		return err
	}
	if err := <-changed; err != nil {
		return err
	}
	_, err = u.d[0].Load(u.ctx, u.name)
	return err
}

func (u *use) tokens() error { return u.d[0].Raise(u.ctx, u.name, 1<<50) }

func (u *use) end() error {
	if _, err := u.s[0].Join(u.ctx, mutex(u.name)); err != nil {
		return err
	}
	return u.s[0].Close(u.ctx)
}

// The rights that are documented are enough, and none of them is too much.
func TestLeastRights(t *testing.T) {
	s := redistest.Start(t)
	base, _ := documented(t)
	if err := useAll(t.Context(), withRights(t, s, base...)); err != nil {
		t.Fatalf("with all rights that docs/redis.md asks for: %v", err)
	}
	for i, right := range base {
		if !strings.ContainsAny(right[:1], "+~&") {
			continue
		}
		t.Run(right, func(t *testing.T) {
			url := withRights(t, s, slices.Delete(slices.Clone(base), i, i+1)...)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			err := useAll(ctx, url)
			t.Logf("%v %v permanent=%v", time.Since(began), err, driver.IsPermanent(err))
			if err == nil {
				t.Error("all goes well without it")
			}
		})
	}
	l, _ := s.Do("ACL", "LOG")
	for _, e := range l.([]any) {
		t.Log(e)
	}
}
