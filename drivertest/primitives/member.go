package primitives

import (
	"errors"
	"net/rpc"
	"time"

	"github.com/interlock-go/interlock/drivertest/internal/process"
)

// member is a client in a process of its own.
type member struct {
	*process.Process
	t   *trial
	rpc *rpc.Client
}

// member starts a process and opens a client there.
func (t *trial) member(ttl time.Duration) *member {
	t.Helper()
	p, err := process.Start(role)
	t.OK(err, "start a process")
	m := &member{Process: p, t: t, rpc: rpc.NewClient(p.Conn)}
	t.Later(func() { p.Kill(); m.rpc.Close() })
	t.OK(m.call("Open", Place{t.world.URL, ttl}, &struct{}{}), "open a client in another process")
	return m
}

// call calls a method of Served.
func (m *member) call(method string, args, reply any) error {
	call := m.rpc.Go("Member."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-m.t.Ctx.Done():
		return m.t.Ctx.Err()
	}
}

func (m *member) acquire(w Want) Grant {
	m.t.Helper()
	var g Grant
	m.t.OK(m.call("Acquire", w, &g), "acquire in another process")
	return g
}

// stop stops the process, which is resumed by the function that it returns. It
// does so between two heartbeats: a process that is stopped during an exchange
// may keep its backend from serving others.
func (m *member) stop() (resume func()) {
	m.t.Helper()
	m.t.OK(m.call("Renewed", struct{}{}, &struct{}{}), "the heartbeat of another process")
	if err := m.Stop(); errors.Is(err, errors.ErrUnsupported) {
		m.t.Skip("processes cannot be stopped on this system")
	} else {
		m.t.OK(err, "stop a process")
	}
	return func() {
		m.t.Helper()
		m.t.OK(m.Resume(), "resume a process")
	}
}
