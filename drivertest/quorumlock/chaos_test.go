package quorumlock_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/redistest"
)

// rounds is how often a member is disturbed: QUORUM_ROUNDS, or a few.
func rounds(t *testing.T, few int) int {
	text := os.Getenv("QUORUM_ROUNDS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("QUORUM_ROUNDS: %v", err)
	}
	return n
}

// redis is a member that can be disturbed in every way.
type redis struct {
	server *redistest.Server
	proxy  *redistest.Proxy
}

func startRedis(t *testing.T, n int) (members []*redis, urls []string) {
	for range n {
		s := redistest.Start(t)
		p := redistest.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", s.Port))
		members = append(members, &redis{s, p})
		urls = append(urls, "redis://"+p.Addr)
	}
	return members, urls
}

func quorumURL(urls []string, options ...string) string {
	var parts []string
	for _, u := range urls {
		parts = append(parts, "member="+url.QueryEscape(u))
	}
	return "quorum:?" + strings.Join(append(parts, options...), "&")
}

// disturb does something to a member and returns what ends it.
func (r *redis) disturb(kind int) (mend func()) {
	switch kind {
	case 0: // killed for a while, and empty afterwards
		r.server.Kill()
		return r.server.Restart
	case 1: // restarted empty at once
		r.server.Kill()
		r.server.Restart()
		return func() {}
	case 2: // stopped
		r.server.Pause()
		return r.server.Resume
	case 3: // cut off, without a word
		r.proxy.Hang()
		return r.proxy.Resume
	case 4: // cut off by a refusal
		r.proxy.Refuse(true)
		r.proxy.Cut()
		return func() { r.proxy.Refuse(false) }
	default: // its answers are late
		r.proxy.Late()
		return r.proxy.Resume
	}
}

// Promise: of five Redis servers any two may be killed, restarted empty, stopped or cut off at a time, again and
// again under load: never do two hold a lock at once, no token falls, and the locks go on being granted. All five are
// members again afterwards.
//
// A member that has lost its data counts as one of the two until it has been there for a TTL.
func TestAnyMinorityMayFail(t *testing.T) {
	const ttl = time.Second
	members, urls := startRedis(t, 5)
	target := quorumURL(urls)
	awaitMembers(t, target, ttl, 5)
	disturbances := rounds(t, 4)
	var n atomic.Int64
	load := chaos.Load{URL: target, TTL: ttl, Clients: 3, Each: 2, Times: 1 << 30}
	load.Until = func() bool { return n.Load() >= int64(disturbances) }
	chaos.Run(t, load, func() {
		if load.Until() {
			time.Sleep(time.Millisecond)
			return
		}
		two := rand.Perm(len(members))[:1+rand.IntN(2)]
		var mend []func()
		kinds := []int{}
		for _, i := range two {
			kind := rand.IntN(6)
			kinds = append(kinds, kind)
			mend = append(mend, members[i].disturb(kind))
		}
		time.Sleep(rand.N(ttl * 3 / 2))
		for _, f := range mend {
			f()
		}
		awaitMembers(t, target, ttl, 5)
		t.Logf("round %d: members %v, disturbed by %v", n.Add(1), two, kinds)
	})
}

// awaitMembers waits until so many members count.
func awaitMembers(t *testing.T, target string, ttl time.Duration, n int) {
	t.Helper()
	c, err := interlock.Open(t.Context(), target, interlock.TTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var last string
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		good := 0
		last = ""
		for _, f := range c.Check(t.Context()) {
			if f.Check == "members" || f.Check == "restarts" {
				last += f.Detail + "; "
				if f.Status == "ok" {
					good++
				}
			}
		}
		if good == 2 {
			return
		}
	}
	t.Fatalf("not all %d members count again: %s", n, last)
}
