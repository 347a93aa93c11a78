package sqlitelock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
)

// What outlasts its holder outlasts a power loss: fixed ends, values and raised tokens
// are on the disk before the call returns. A grant or a release is not waited for.
func TestWhatOutlastsAPowerLoss(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: ", err)
	}
	path, log := file(t), filepath.Join(t.TempDir(), "syncs")
	if err := exec.Command(strace, "-o", os.DevNull, "true").Run(); err != nil {
		t.Skip("strace may not be used here: ", err)
	}
	s := session(t, open(t, path), time.Hour)
	p := newPuppetBy(t, path, strace, "-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-o", log)
	p.must("open", "open", time.Hour)
	p.must("held", "join", "passed-on")
	r := mutex("passed-on")
	r.Hold = time.Hour
	next := join(t, s, r, false)

	syncs := func() int {
		text := errtest.Must(os.ReadFile(log))(t)
		return strings.Count(string(text), "sync")
	}
	for _, step := range []struct {
		durable bool
		want    string
		command string
		args    []any
	}{
		{false, "held", "join", []any{"plain"}},
		{false, "left", "leave", []any{"plain"}},
		{true, "held", "join", []any{"fixed", time.Hour}},
		{true, "swapped", "swap", []any{"value"}},
		{true, "raised", "raise", []any{"q"}},
		{true, "kept", "keep", []any{"fixed", 2 * time.Hour}},
		{true, "left", "leave", []any{"passed-on"}}, // to a ticket with a fixed time
	} {
		before := syncs()
		p.must(step.want, step.command, step.args...)
		if n := syncs() - before; n > 0 != step.durable {
			t.Errorf("%s %v: synchronised %d times; it is to be on the disk: %v", step.command, step.args, n, step.durable)
		}
	}
	if got := await(t, s, next); !got.Held {
		t.Errorf("%+v", got)
	}
}
