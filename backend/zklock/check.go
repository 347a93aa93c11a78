package zklock

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Check examines the ensemble, and each server that can be reached. What servers
// tell without a session (srvr, conf, mntr) is often forbidden, and then tried out
// where that is possible.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	if err := d.usable(ctx); err != nil {
		return []driver.Finding{unreachable(err).of("connection")}
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, time.Minute) // for servers that do not answer
	defer stop()
	e := &exam{d: d}
	e.l, e.err = d.link(ctx)
	e.servers = e.askAll(ctx)
	if e.err == nil {
		e.askEnsemble(ctx)
		e.try(ctx)
		e.tryLarge(ctx)
		e.cleanUp(ctx)
		e.servers = e.askAll(ctx) // the counts have changed by what was tried
	}
	var all []driver.Finding
	for _, c := range []struct {
		subject string
		of      func(context.Context, *exam) finding
	}{
		{"connection", checkConnection},
		{"servers", checkServers},
		{"version", checkVersion},
		{"quorum", checkQuorum},
		{"sessions", checkSessions},
		{"rights", checkRights},
		{"marks", checkMarks},
		{"containers", checkContainers},
		{"access", checkAccess},
		{"values", checkLarge},
		{"clock", checkClock},
		{"tokens", checkTokens},
		{"persistence", checkPersistence},
		{"configuration", checkVisible},
	} {
		if f := c.of(ctx, e); f != (finding{}) {
			all = append(all, f.of(c.subject))
		}
	}
	return all
}

// exam is what has been found out.
type exam struct {
	d       *Driver
	l       *link
	err     error // why there is no link
	servers []*server
	members *members // nil: not known
	trial   trial
}

// finding is a driver.Finding without its subject. The zero value has nothing to say.
type finding struct {
	status                  driver.Status
	detail, promise, remedy string
}

func (f finding) of(subject string) driver.Finding {
	return driver.Finding{Check: subject, Status: f.status, Detail: f.detail, Promise: f.promise, Remedy: f.remedy}
}

const (
	everyLock = "every lock: none can be acquired or renewed"
	goesOn    = "that locks go on when a server dies"
)

func fine(format string, args ...any) finding {
	return finding{status: driver.OK, detail: fmt.Sprintf(format, args...)}
}

func warn(promise, remedy, format string, args ...any) finding {
	return finding{driver.Warn, fmt.Sprintf(format, args...), promise, remedy}
}

func fail(promise, remedy, format string, args ...any) finding {
	return finding{driver.Fail, fmt.Sprintf(format, args...), promise, remedy}
}

func unreachable(err error) finding {
	return fail(everyLock, "see that the servers run and have a quorum, and that the URL names them (zks: with TLS)", "%v", err)
}

// short leaves out digits that nobody needs.
func short(t time.Duration) time.Duration {
	switch {
	case t.Abs() < time.Millisecond:
		return t.Round(time.Microsecond)
	case t.Abs() < time.Second:
		return t.Round(100 * time.Microsecond)
	}
	return t.Round(time.Millisecond)
}
