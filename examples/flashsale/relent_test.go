//go:build linux

package flashsale

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: a worker that is stopped, perhaps in a write that keeps out all others, runs for a moment after each breath,
// and for good after stopLimit.
func TestAStoppedWorkerBreathes(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var asked bytes.Buffer
	w := &worker{process: cmd.Process, in: json.NewEncoder(&asked)}
	r := &rush{sale: sale{Config: Config{Strike: Stop}}, result: &Result{}}
	if err := r.struck(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		runs  bool
		what  string
	}{
		{0, false, "it has just been stopped"},
		{breath - time.Second, false, "it has not been stopped for a breath"},
		{breath, true, "it breathes"},
		{breath, false, "it has breathed"},
		{breath, false, "it has breathed, and the next time has not come"},
		{2 * breath, true, "it breathes again"},
		{2 * breath, false, "it has breathed again"},
		{stopLimit, true, "it goes on"},
		{stopLimit, true, "it has gone on"},
	} {
		r.strike.since = time.Now().Add(-step.after)
		if err := r.relent(); err != nil {
			t.Fatal(err)
		}
		if err := testserver.Until(func() (bool, error) { return stands(t, cmd.Process.Pid) != step.runs, nil }); err != nil {
			t.Fatalf("%s: that it runs is %v: %v", step.what, !step.runs, err)
		}
	}
	if !strings.Contains(asked.String(), string(goOn)) || r.result.Stopped < stopLimit.Seconds() {
		t.Errorf("it was asked %q, and was stopped for %v s", asked.String(), r.result.Stopped)
	}
}

// stands reports whether a process is stopped.
func stands(t *testing.T, pid int) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(state, "T")
}
