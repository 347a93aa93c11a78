package zklock

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// examine is for a URL at which no session can be opened.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	made, err := open(ctx, u)
	if err != nil {
		return nil, err
	}
	d := made.(*Driver)
	defer d.Close()
	if _, err := d.link(ctx); err != nil && !driver.IsPermanent(err) { // which servers say
		return nil, err
	}
	return d.Check(ctx), nil
}

// Check examines the ensemble, and each server that can be reached. What servers
// tell without a session (srvr, conf, mntr) is often forbidden, and then tried out
// where that is possible.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	if err := d.usable(ctx); err != nil {
		return []driver.Finding{doctor.Of("connection", unreachable(err))}
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
		of      func(context.Context, *exam) driver.Finding
	}{
		{"connection", checkConnection},
		{"servers", checkServers},
		{"version", checkVersion},
		{"quorum", checkQuorum},
		{"sessions", checkSessions},
		{"rights", checkRights},
		{"listing", checkListing},
		{"marks", checkMarks},
		{"containers", checkContainers},
		{"access", checkAccess},
		{"values", checkLarge},
		{"clock", checkClock},
		{"tokens", checkTokens},
		{"floors", checkFloors},
		{"persistence", checkPersistence},
		{"configuration", checkVisible},
	} {
		if f := c.of(ctx, e); f != (driver.Finding{}) {
			all = append(all, doctor.Of(c.subject, f))
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

const (
	everyLock = "every lock: none can be acquired or renewed"
	goesOn    = "that locks go on when a server dies"
)

func unreachable(err error) driver.Finding {
	return doctor.Fail(everyLock, "see that the servers run and have a quorum, and that the URL names them (zks: with TLS)", "%v", err)
}
