package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// examine is for a URL that open refuses: what was not opened can be checked, too.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	client, c, err := connect(u)
	if refused(err) {
		return doctor.Examine(ctx, []doctor.Check{doctor.Server(err, c.layout().remedy)}), nil
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
	e := &examination{store: s}
	return doctor.Examine(ctx, []doctor.Check{{"server", "it answers", e.checkServer}}, append(doctor.Use(s, doctor.Try, e.remedy), []doctor.Check{
		{"access", "authentication is on; users without any right can still read names, and keep the lock of a client that died", e.checkAccess},
		{"password", "it is not sent in clear text", e.checkPassword},
		{"version", "no fault is known that matters here", e.checkVersion},
		{"members", "all serve, and have the same data", e.checkMembers},
		doctor.TTL(s, 5*time.Second, "lower --election-timeout, from which the servers derive the shortest one"),
	}...)...)
}

// remedy says what to do about an error of a server.
func (l layout) remedy(err error) string {
	switch {
	case errors.Is(err, rpctypes.ErrPermissionDenied) && l.namespace == "":
		return "etcdctl role grant-permission ROLE readwrite --prefix=true '', or name a namespace in the path of the URL"
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Sprintf("etcdctl role grant-permission ROLE readwrite --prefix=true '%s'", l.namespace)
	case refused(err):
		return "correct user and password of the URL, or: etcdctl user passwd USER"
	case errors.Is(err, rpctypes.ErrNoSpace):
		return "compact and defragment the database, then: etcdctl alarm disarm"
	}
	return "see that the servers run, that most of them reach each other, and that the URL names them"
}

// checkServer asks the cluster, and then each member that the URL names. That a right is missing, the exchanges say.
func (e *examination) checkServer(ctx context.Context) driver.Finding {
	if err := e.answers(ctx); err != nil && !errors.Is(err, rpctypes.ErrPermissionDenied) {
		return doctor.Answer(err, e.remedy)
	}
	for _, addr := range e.client.Endpoints() {
		of, cancel := context.WithTimeout(ctx, 3*time.Second)
		status, err := e.client.Status(of, addr)
		cancel()
		e.members = append(e.members, member{addr, status, err})
	}
	return doctor.Sound
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

// checkVersion knows the faults of some versions that matter here.
func (e *examination) checkVersion(context.Context) driver.Finding {
	for _, m := range e.members {
		if m.err != nil || !doctor.Older(m.status.Version, 3, 5, 13) {
			continue
		}
		var details, promises []string
		if doctor.Older(m.status.Version, 3, 4, 31) || !doctor.Older(m.status.Version, 3, 5) {
			details = append(details, "a leader that was replaced may end leases that are being renewed, and watches may miss events")
			promises = append(promises, "a healthy holder keeps its lock; waiters are woken as soon as a lock is free")
		}
		if doctor.Older(m.status.Version, 3, 5) {
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
	list, err := e.client.MemberList(ctx)
	if err != nil {
		return doctor.Unknown(outlast, err)
	}
	alarms, err := e.client.AlarmList(ctx) // that the database is full, the exchanges say
	if err != nil {
		return doctor.Unknown(doctor.Exclusion, err)
	}
	voters := 0
	for _, m := range list.Members {
		if !m.IsLearner {
			voters++
		}
	}
	var away []string
	for _, m := range e.members {
		if m.err != nil || m.status.Leader == 0 {
			away = append(away, m.addr)
		}
	}
	switch {
	case slices.ContainsFunc(list.Members, func(m *pb.Member) bool { return m.ID == 0 }): // it names itself instead of the members
		return doctor.Fail(doctor.Exclusion, "name the members in the URL", "the URL names a gRPC proxy, which may answer a heartbeat with what it was told before")
	case slices.ContainsFunc(alarms.Alarms, func(a *pb.AlarmMember) bool { return a.Alarm == pb.AlarmType_CORRUPT }):
		return doctor.Fail(doctor.Exclusion, "replace the member that differs", "the data of members differ (CORRUPT)")
	case len(away) > 0:
		return doctor.Warn(outlast, "see that they run, and reach the others", "of %d members these do not serve: %s", voters, strings.Join(away, ", "))
	case voters > len(e.members):
		return doctor.Warn(outlast, "name all members in the URL", "of %d members the URL names %d", voters, len(e.members))
	case voters == 1:
		return doctor.Fine("one member: while it is away, there are no locks")
	}
	return doctor.Sound
}
