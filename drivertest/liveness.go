package drivertest

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/interlock-go/interlock/driver"
)

var _ = rules.Add(rule{Name: "Liveness", Processes: true, Says: []string{
	"Liveness is the open files whose last close, in whatever process, is this session's death; a child that inherits them keeps the session from ending early.",
}}, func(t *trial) {
	d, shut := t.guest()
	a, b := t.session(d, 10*limit), t.client()
	files := a.Liveness
	if len(files) == 0 || runtime.GOOS == "windows" {
		t.Skip("the sessions of this backend live in no file that a child can inherit")
	}
	held := a.hold(t.exclusive("q"))
	next := b.wait(t.exclusive("q"))
	b.beat(next)
	child := t.process(files...)
	t.OK(shut(), "Close")
	ctx, cancel := context.WithTimeout(t.Ctx, 500*time.Millisecond)
	defer cancel()
	if got, err := b.Await(ctx, next); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a child has inherited what keeps the session alive, and the next ticket is %+v, %v", got, err)
	}
	t.stands(b.driver, "q", []driver.Ticket{held}, []driver.Ticket{next})
	child.Kill()
	t.FatalIf(!b.await(next).Inherited, "the next holder does not inherit from a session that died")

	// The death of the only owner is noticed long before the TTL.
	other := t.elsewhere()
	t.session(other, 10*limit).hold(t.exclusive("r"))
	next = b.wait(t.exclusive("r"))
	b.beat(next)
	other.process.Kill()
	b.await(next)
})
