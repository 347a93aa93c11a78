package redislock_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/redistest"
)

// cycles is how often each has to hold: more often with REDISLOCK_CYCLES, a factor.
func cycles(t *testing.T, n int) int {
	if text := os.Getenv("REDISLOCK_CYCLES"); text != "" {
		factor, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("REDISLOCK_CYCLES: %v", err)
		}
		n *= factor
	}
	return n
}

// Promise: connections that are killed and scripts that are flushed at any moment
// leave one holder at a time, nobody waiting, and no key behind but the tokens.
func TestKilledConnectionsAndFlushedScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	chaos.Run(t, chaos.Load{URL: s.URL(), TTL: 3 * time.Second, Clients: 4, Each: 8, Times: cycles(t, 10)}, func() {
		switch rand.IntN(3) {
		case 0:
			s.KillConnections("normal")
		case 1:
			s.KillConnections("pubsub")
		case 2:
			s.FlushScripts()
		}
	})
	onlyTokens(t, s)
}

// Promise: a server that is killed and comes back with its data leaves one holder at
// a time and nobody waiting.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Durable())
	chaos.Run(t, chaos.Load{URL: s.URL(), TTL: 2 * time.Second, Clients: 4, Each: 6, Times: cycles(t, 12)}, func() {
		time.Sleep(300 * time.Millisecond)
		s.Kill()
		s.Restart()
	})
	onlyTokens(t, s)
}

// onlyTokens waits until nothing is left of the locks but what keeps tokens growing,
// which goes away by itself.
func onlyTokens(t *testing.T, s *redistest.Server) {
	t.Helper()
	var left []string
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		left = left[:0]
		for _, k := range s.Keys() {
			if ttl, _ := s.Do("PTTL", k); ttl == int64(-1) {
				t.Fatalf("the key %q stays for ever", k)
			}
			if !strings.HasSuffix(k, ":t") && k != "interlock:{}:m" {
				left = append(left, k)
			}
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("keys that are left: %q", left)
}
