// Package doctor examines etcd for whoever asks whether it is fit for locks.
package doctor

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

const (
	everyLock = "every lock: none can be acquired or renewed"
	newLocks  = "no lock can be acquired but by those who wait already"
	kept      = "a healthy holder keeps its lock"
	outlast   = "locks outlast the death of a server"
	waking    = "speed: waiters are woken as soon as a lock is free"
	next      = "speed: the lock of a client that has died is passed on soon"
)

// Doctor examines a cluster, and what of it a user may use.
type Doctor struct {
	client    *clientv3.Client
	namespace string
	clear     bool                        // passwords are sent in clear text
	answers   func(context.Context) error // a read; its error is explained
	members   []member
}

// member is what a server says of itself.
type member struct {
	addr   string
	status *clientv3.StatusResponse
	err    error
}

// New is for a client, and what is before all its keys.
func New(client *clientv3.Client, namespace string, clear bool, answers func(context.Context) error) *Doctor {
	return &Doctor{client: client, namespace: namespace, clear: clear, answers: answers}
}

// Check is called once, for a client that is open or was refused.
func (d *Doctor) Check(ctx context.Context) []driver.Finding {
	began := time.Now()
	err := d.answers(ctx)
	if err != nil && !errors.Is(err, rpctypes.ErrPermissionDenied) {
		return []driver.Finding{doctor.Of("server", Unreachable(err))}
	}
	all := []driver.Finding{doctor.Of("server", doctor.Trip(time.Since(began)))}
	for _, addr := range d.client.Endpoints() {
		of, cancel := context.WithTimeout(ctx, patience)
		status, err := d.client.Status(of, addr)
		cancel()
		d.members = append(d.members, member{addr, status, err})
	}
	return append(all, doctor.Examine(ctx, []doctor.Check{
		{Name: "rights", Of: d.checkRights}, {Name: "access", Of: d.checkAccess}, {Name: "password", Of: d.checkPassword}, {Name: "version", Of: d.checkVersion}, {Name: "members", Of: d.checkMembers},
		{Name: "alarms", Of: d.checkAlarms}, {Name: "database", Of: d.checkDatabase}, {Name: "TTL", Of: d.checkTTL},
	})...)
}

// patience is how long one server may take that does not answer.
const patience = 3 * time.Second

// Unreachable is the finding that the cluster cannot be asked for anything.
func Unreachable(err error) driver.Finding {
	remedy := "see that the servers run, that most of them reach each other, and that the URL names them"
	if errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrUserEmpty) {
		remedy = "correct user and password of the URL, or: etcdctl user passwd USER"
	}
	return doctor.Fail(everyLock, remedy, "%v", err)
}

// checkRights makes and removes a key with a lease, as each ticket is.
func (d *Doctor) checkRights(ctx context.Context) driver.Finding {
	where := fmt.Sprintf("the keys below %q", d.namespace)
	if d.namespace == "" {
		where = "all keys"
	}
	key := d.namespace + "{doctor}/trial"
	lease, err := d.client.Grant(ctx, 60)
	if err == nil {
		_, err = d.client.Put(ctx, key, "", clientv3.WithLease(lease.ID))
	}
	if err == nil {
		_, err = d.client.Txn(ctx).Then(clientv3.OpGet(d.namespace, clientv3.WithPrefix(), clientv3.WithLimit(1)), clientv3.OpDelete(key)).Commit()
	}
	if lease != nil {
		_, revoked := d.client.Revoke(ctx, lease.ID)
		err = errors.Join(err, revoked)
	}
	if err != nil {
		remedy := fmt.Sprintf("etcdctl role grant-permission ROLE readwrite --prefix=true '%s'", d.namespace)
		if d.namespace == "" {
			remedy += ", or name a namespace in the path of the URL"
		}
		if !errors.Is(err, rpctypes.ErrPermissionDenied) {
			remedy = "see the error"
		}
		return doctor.Fail(everyLock, remedy, "writing, watching and leases in %s: %v", where, err)
	}
	return doctor.Fine("%s may be read and written", where)
}

// checkAccess tries a login: only a cluster without authentication says that it has none.
func (d *Doctor) checkAccess(ctx context.Context) driver.Finding {
	_, err := d.client.Authenticate(ctx, cmp.Or(d.client.Username, "interlock-doctor"), cmp.Or(d.client.Password, "-"))
	if errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return doctor.Warn("exclusion, tokens and values: who is not meant to take part can take every lock, end it and forge what is kept",
			"give locks a user of their own, and: etcdctl auth enable (docs/etcd.md); or let nobody else reach the servers",
			"everybody who reaches the servers may change all keys: authentication is off")
	}
	return doctor.Fine("authentication is on; users without any right can still read names, and keep the lock of a client that died")
}

func (d *Doctor) checkPassword(context.Context) driver.Finding {
	if !d.clear {
		return driver.Finding{}
	}
	return doctor.Warn("the password: who can listen on the way, or answers in the place of a server, has it",
		"use etcds://, with servers that have certificates", "etcd:// sends it in clear text")
}

// fault is one of some versions that matters here.
type fault struct{ detail, promise string }

// faulty says which faults a version has.
func faulty(version string) (all []fault) {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n != 3 {
		return nil // it is newer than this list, most likely
	}
	if major < 3 || major == 3 && (minor < 4 || minor == 4 && patch < 31 || minor == 5 && patch < 13) {
		all = append(all, fault{"a leader that was replaced may end leases that are being renewed, and watches may miss events", kept + "; " + waking})
	}
	if major < 3 || major == 3 && minor < 5 {
		all = append(all, fault{"a leader whose clock is set back keeps the lock of a client that has died, for that time", next})
	}
	return all
}

func (d *Doctor) checkVersion(context.Context) driver.Finding {
	var all, details, promises []string
	for _, m := range d.members {
		if m.err != nil {
			continue
		}
		if v := m.status.Version; !slices.Contains(all, v) {
			all = append(all, v)
		}
		for _, f := range faulty(m.status.Version) {
			if !slices.Contains(details, f.detail) {
				details, promises = append(details, f.detail), append(promises, f.promise)
			}
		}
	}
	switch {
	case len(all) == 0:
		return driver.Finding{}
	case details != nil:
		return doctor.Warn(strings.Join(promises, "; "), "use etcd 3.5.13 or later", "etcd %s: %s", strings.Join(all, ", "), strings.Join(details, "; "))
	}
	return doctor.Fine("etcd %s", strings.Join(all, ", "))
}

// checkMembers looks whether the cluster bears the death of one more server.
func (d *Doctor) checkMembers(ctx context.Context) driver.Finding {
	var away []string
	for _, m := range d.members {
		switch {
		case m.err != nil:
			away = append(away, m.addr)
		case m.status.Leader == 0:
			away = append(away, m.addr+" (it has no leader)")
		}
	}
	list, err := d.client.MemberList(ctx)
	if err != nil {
		return doctor.Warn(outlast, "see the error", "the members cannot be listed: %v", err)
	}
	voters := 0
	for _, m := range list.Members {
		if m.ID == 0 { // it names itself instead of the members
			return doctor.Fail("exclusion: two could hold one lock", "name the members in the URL", "the URL names a gRPC proxy, which may answer a heartbeat with what it was told before")
		}
		if !m.IsLearner {
			voters++
		}
	}
	switch {
	case len(away) > 0:
		return doctor.Warn(outlast, "see that they run, and reach the others", "of %d members these do not serve: %s", voters, strings.Join(away, ", "))
	case voters > len(d.members):
		return doctor.Warn(outlast, "name all members in the URL", "of %d members the URL names %d", voters, len(d.members))
	case voters == 1:
		return doctor.Fine("one member: while it is away, there are no locks")
	}
	return doctor.Fine("%d members serve", voters)
}

func (d *Doctor) checkAlarms(ctx context.Context) driver.Finding {
	list, err := d.client.AlarmList(ctx)
	if err != nil {
		return doctor.Warn(everyLock, "see the error", "alarms cannot be listed: %v", err)
	}
	for _, a := range list.Alarms {
		switch a.Alarm {
		case pb.AlarmType_NOSPACE:
			return doctor.Fail(newLocks, "compact and defragment the database, then: etcdctl alarm disarm", "the database of a member is full (NOSPACE)")
		case pb.AlarmType_CORRUPT:
			return doctor.Fail("exclusion: two could hold one lock", "replace the member that differs", "the data of members differ (CORRUPT)")
		}
	}
	return doctor.Fine("there are none")
}

// checkTTL asks for the shortest lease.
func (d *Doctor) checkTTL(ctx context.Context) driver.Finding {
	lease, err := d.client.Grant(ctx, 1)
	if err != nil {
		return doctor.Warn(next, "see the error", "the shortest TTL is not known: %v", err)
	}
	_, _ = d.client.Revoke(ctx, lease.ID)
	if lease.TTL > 5 {
		return doctor.Warn(next, "lower --election-timeout, from which the servers derive it", "the shortest TTL is %d s", lease.TTL)
	}
	return doctor.Fine("the shortest TTL is %d s", lease.TTL)
}

// quota is how large a database may get by default.
const quota = 2 << 30

// checkDatabase looks for a database that nobody compacts: each lock adds to it.
func (d *Doctor) checkDatabase(context.Context) driver.Finding {
	var size int64
	for _, m := range d.members {
		if m.err == nil {
			size = max(size, m.status.DbSize)
		}
	}
	if size > quota*3/4 {
		return doctor.Warn(everyLock, "start the servers with --auto-compaction-retention=1h, or raise --quota-backend-bytes, and defragment",
			"it has %d MB, and by default it may have %d", size>>20, quota>>20)
	}
	return doctor.Fine("it has %d MB", size>>20)
}
