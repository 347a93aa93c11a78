package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/doctor"
)

// examine is for a URL that open refuses: what was not opened can be checked, too.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	client, c, err := connect(u)
	if refused(err) {
		return []driver.Finding{doctor.Of("server", doctor.Exchanges(err, remedy))}, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := newStore(client, c, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.answers(ctx); err != nil && !refused(err) {
		return nil, err
	}
	return s.Check(ctx), nil
}

// refused: a server has answered, and refuses the user, or what the user wants.
func refused(err error) bool {
	for _, e := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// examination is one call of Check.
type examination struct {
	*store
	members []member
}

// member is what a server says of itself.
type member struct {
	addr   string
	status *clientv3.StatusResponse
	err    error
}

// Check is called for interlock doctor, and for programs that ask whether their backend is fit.
func (s *store) Check(ctx context.Context) []driver.Finding {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := s.answers(ctx); err != nil && !errors.Is(err, rpctypes.ErrPermissionDenied) {
		return []driver.Finding{doctor.Of("server", doctor.Exchanges(err, remedy))}
	}
	e := &examination{store: s}
	for _, addr := range s.client.Endpoints() {
		of, cancel := context.WithTimeout(ctx, 3*time.Second)
		status, err := s.client.Status(of, addr)
		cancel()
		e.members = append(e.members, member{addr, status, err})
	}
	return doctor.Examine(ctx, []doctor.Check{
		{"exchanges", "locks and values can be used", e.checkExchanges},
		{"access", "authentication is on; users without any right can still read names, and keep the lock of a client that died", e.checkAccess},
		{"password", "it is not sent in clear text", e.checkPassword},
		{"version", "no fault is known that matters here", e.checkVersion},
		{"members", "all serve", e.checkMembers},
		{"alarms", "there are none", e.checkAlarms},
		{"TTL", "short ones are granted", e.checkTTL},
	})
}

// remedy says what to do about an error of a server.
func remedy(err error) string {
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty):
		return "correct user and password of the URL, or: etcdctl user passwd USER"
	case errors.Is(err, rpctypes.ErrNoSpace):
		return "compact and defragment the database, then: etcdctl alarm disarm"
	}
	return "see that the servers run, that most of them reach each other, and that the URL names them"
}

func (e *examination) checkExchanges(ctx context.Context) driver.Finding {
	err := doctor.Try(ctx, e.store, exchange.NewMailbox(), "doctor/"+exchange.NewID()+"/value")
	if err == nil {
		_, _, err = e.List(ctx, "", "")
	}
	return doctor.Exchanges(err, func(err error) string {
		if !errors.Is(err, rpctypes.ErrPermissionDenied) {
			return remedy(err)
		}
		grant := fmt.Sprintf("etcdctl role grant-permission ROLE readwrite --prefix=true '%s'", e.namespace)
		if e.namespace == "" {
			grant += ", or name a namespace in the path of the URL"
		}
		return grant
	})
}

// checkAccess tries a login: only a cluster without authentication says that it has none.
func (e *examination) checkAccess(ctx context.Context) driver.Finding {
	_, err := e.client.Authenticate(ctx, cmp.Or(e.client.Username, "interlock-doctor"), cmp.Or(e.client.Password, "-"))
	if errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return doctor.Warn(doctor.Strangers, "give locks a user of their own, and: etcdctl auth enable (docs/etcd.md); or let nobody else reach the servers",
			"everybody who reaches the servers may change all keys: authentication is off")
	}
	return doctor.Sound
}

func (e *examination) checkPassword(context.Context) driver.Finding {
	if !e.clear {
		return driver.Finding{}
	}
	return doctor.Warn("the password: who can listen on the way, or answers in the place of a server, has it", "use etcds://, with servers that have certificates", "etcd:// sends it in clear text")
}

// checkVersion knows the faults of some versions that matter here. One that it cannot read is newer, most likely.
func (e *examination) checkVersion(context.Context) driver.Finding {
	for _, m := range e.members {
		var major, minor, patch int
		if m.err != nil {
			continue
		}
		if n, _ := fmt.Sscanf(m.status.Version, "%d.%d.%d", &major, &minor, &patch); n < 3 || major > 3 || major == 3 && (minor > 5 || minor == 5 && patch >= 13) {
			continue
		}
		var details, promises []string
		if major < 3 || minor != 4 || patch < 31 {
			details = append(details, "a leader that was replaced may end leases that are being renewed, and watches may miss events")
			promises = append(promises, "a healthy holder keeps its lock; waiters are woken as soon as a lock is free")
		}
		if major < 3 || minor < 5 {
			details = append(details, "a leader whose clock is set back keeps the lock of a client that has died, for that time")
			promises = append(promises, "the lock of a client that has died is passed on soon")
		}
		return doctor.Warn(strings.Join(promises, "; "), "use etcd 3.5.13 or later", "etcd %s: %s", m.status.Version, strings.Join(details, "; "))
	}
	return doctor.Sound
}

// checkMembers looks whether the cluster bears the death of one more server.
func (e *examination) checkMembers(ctx context.Context) driver.Finding {
	const outlast = "locks outlast the death of a server"
	var away []string
	for _, m := range e.members {
		switch {
		case m.err != nil:
			away = append(away, m.addr)
		case m.status.Leader == 0:
			away = append(away, m.addr+" (it has no leader)")
		}
	}
	list, err := e.client.MemberList(ctx)
	if err != nil {
		return doctor.Unknown(outlast, err)
	}
	voters := 0
	for _, m := range list.Members {
		if m.ID == 0 { // it names itself instead of the members
			return doctor.Fail(doctor.Exclusion, "name the members in the URL", "the URL names a gRPC proxy, which may answer a heartbeat with what it was told before")
		}
		if !m.IsLearner {
			voters++
		}
	}
	switch {
	case len(away) > 0:
		return doctor.Warn(outlast, "see that they run, and reach the others", "of %d members these do not serve: %s", voters, strings.Join(away, ", "))
	case voters > len(e.members):
		return doctor.Warn(outlast, "name all members in the URL", "of %d members the URL names %d", voters, len(e.members))
	case voters == 1:
		return doctor.Fine("one member: while it is away, there are no locks")
	}
	return doctor.Sound
}

// checkAlarms looks for data that differ. That a database is full, the exchanges say.
func (e *examination) checkAlarms(ctx context.Context) driver.Finding {
	list, err := e.client.AlarmList(ctx)
	if err != nil {
		return doctor.Unknown(doctor.Exclusion, err)
	}
	for _, a := range list.Alarms {
		if a.Alarm == pb.AlarmType_CORRUPT {
			return doctor.Fail(doctor.Exclusion, "replace the member that differs", "the data of members differ (CORRUPT)")
		}
	}
	return doctor.Sound
}

// checkTTL asks for the shortest lease.
func (e *examination) checkTTL(ctx context.Context) driver.Finding {
	const next = "the lock of a client that has died is passed on soon"
	lease, err := e.client.Grant(ctx, 1)
	if err != nil {
		return doctor.Unknown(next, err)
	}
	_, _ = e.client.Revoke(ctx, lease.ID)
	if lease.TTL > 5 {
		return doctor.Warn(next, "lower --election-timeout, from which the servers derive it", "the shortest TTL is %d s", lease.TTL)
	}
	return doctor.Sound
}
