package exchangetest_test

import (
	"os/exec"
	"runtime"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
)

// A replica takes over as soon as the holder was told of its grant.
func failoverAfterAGrant(t *testing.T, w *exchangetest.World) string {
	a := begin(t, w.Optional(t.TempDir()))
	k := join(t, a)
	w.Failover()
	next := join(t, begin(t, w.Optional(t.TempDir())))
	if proven := a.d.Now() < k.Proof.Add(ttl); proven && next.Held {
		return "the replica that has taken over does not know of the holder, and another client holds, too"
	}
	return ""
}

// A holder dies, and a child of it goes on, which has inherited what the session lives as long as.
func childThatOutlivesItsHolder(t *testing.T, w *exchangetest.World) string {
	if runtime.GOOS == "windows" {
		t.Skip("a child inherits no files")
	}
	a := begin(t, w.Optional(t.TempDir()))
	join(t, a)
	child := exec.Command("cat")
	child.ExtraFiles = a.Session.(*driver.Opened).Liveness
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	_ = a.d.Close() // as if its process had died
	b, wrong := begin(t, w.Optional(t.TempDir())), ""
	waiter := join(t, b)
	if waiter.Held {
		wrong = "another client holds, and the child of the first goes on"
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := b.Await(t.Context(), waiter); err != nil && wrong == "" {
		t.Error(err)
	}
	return wrong
}
