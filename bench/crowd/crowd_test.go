package crowd_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/interlock-go/interlock/bench/crowd"
)

func TestMain(m *testing.M) {
	if os.Getenv(crowd.Variable) != "" {
		if err := crowd.Member(); err != nil {
			fmt.Fprintln(os.Stderr, "member of a crowd:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A small crowd of which most give up harms nobody: the lock passes on, no lease
// is lost, other clients get in, all end. How fast it is, the command tells.
func TestACrowdThatGivesUpHarmsNobody(t *testing.T) {
	for _, backend := range crowd.Backends() {
		t.Run(backend, func(t *testing.T) {
			s, err := crowd.Start(t.Context(), backend)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			f, err := crowd.Run(t.Context(), s, crowd.Options{
				Waiters: 40, Processes: 2, GivingUp: 0.8, Patience: 200 * time.Millisecond,
				TTL: 15 * time.Second, Time: 3 * time.Second, Grace: time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range f.Wrong() {
				t.Error(w)
			}
			if f.GaveUp == 0 {
				t.Error("nobody gave up")
			}
			if backend != "sqlite" && f.Connections < 2 {
				t.Errorf("%d connections of two processes", f.Connections)
			}
			if f.Failed > 0 {
				t.Errorf("%d calls failed", f.Failed)
			}
			if t.Failed() {
				t.Logf("%+v", f)
			}
		})
	}
}
