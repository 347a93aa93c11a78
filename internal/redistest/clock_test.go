package redistest_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/redistest"
)

// ahead is how far the server's wall clock is ahead of the true one, for the
// command TIME, alone or in a script.
func ahead(t *testing.T, s *redistest.Server, command ...string) time.Duration {
	t.Helper()
	answer := do(t, s, command...).([]any)
	sec, err1 := strconv.ParseInt(answer[0].(string), 10, 64)
	usec, err2 := strconv.ParseInt(answer[1].(string), 10, 64)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return time.Until(time.Unix(sec, usec*1000))
}

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if (got - want).Abs() > 5*time.Second {
		t.Errorf("%s: got %v, want about %v", what, got, want)
	}
}

func TestFakeTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	s := redistest.Start(t, redistest.FakeTime(-time.Hour), redistest.Durable())
	script := []string{"EVAL", "return redis.call('TIME')", "0"}
	look := func(want time.Duration) {
		t.Helper()
		near(t, "TIME", ahead(t, s, "TIME"), want)
		near(t, "TIME in a script", ahead(t, s, script...), want)
	}
	left := func(key string) time.Duration {
		return time.Duration(do(t, s, "PTTL", key).(int64)) * time.Millisecond
	}
	look(-time.Hour)
	do(t, s, "SET", "long", "x", "PX", "7200000")
	do(t, s, "SET", "short", "x", "PX", "60000")

	s.StepClock(90 * time.Minute)
	look(30 * time.Minute)
	near(t, "what is left of two hours", left("long"), 30*time.Minute)
	expect(t, "a minute", do(t, s, "GET", "short"), nil)

	s.StepClock(-40 * time.Minute)
	look(-10 * time.Minute)
	near(t, "what is left after a step back", left("long"), 70*time.Minute)

	s.Restart()
	look(-10 * time.Minute)
	near(t, "what is left after a restart", left("long"), 70*time.Minute)
	do(t, s, "EVAL", "redis.call('SET', KEYS[1], 'x', 'PX', 60000)", "1", "set by a script")
	near(t, "what is left of a minute", left("set by a script"), time.Minute)
}
