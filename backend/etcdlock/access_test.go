package etcdlock_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// Promise: with authentication on, a user whose role may read and write the namespace has all locks in it, and
// the doctor says what others lack.
func TestUsers(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		s := etcdtest.Start(t, of)
		for _, c := range []string{
			"user add root:secret", "user grant-role root root", "role add locks", "role grant-permission locks readwrite --prefix=true locks/",
			"user add app:secret", "user grant-role app locks", "user add nobody:secret", "auth enable",
		} {
			s.Ctl(strings.Fields(c)...)
		}
		url := func(user string) string { return "etcd://" + user + s.Addr + "/locks" }

		ctx := limited(t)
		a, b := open(t, url("app:secret@")), open(t, url("app:secret@"))
		lease := errtest.Must(a.Mutex("m").Acquire(ctx))(t)
		if _, err := b.Mutex("m").TryAcquire(ctx); !errors.Is(err, interlock.ErrBusy) {
			t.Errorf("a lock that is held: %v", err)
		}
		noError(t, lease.Release())
		errtest.Must(interlock.NewValue[string](b, "v").Update(ctx, func(string) (string, error) { return "x", nil }))(t)
		for _, f := range doctortest.ExamineURL(t, url("app:secret@")).All {
			if f.Status == driver.Fail || f.Check == "access" && f.Status != driver.OK || f.Check == "password" && f.Status != driver.Warn {
				t.Errorf("%s: %s: %s", f.Check, f.Status, f.Detail)
			}
		}
		for user, words := range map[string]string{
			"app:wrong@":     "etcdctl user passwd USER",
			"":               "correct user and password of the URL",
			"nobody:secret@": "etcdctl role grant-permission ROLE readwrite --prefix=true 'locks/'",
		} {
			report, err := doctortest.Consult(t, url(user))
			if !driver.IsPermanent(err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q is refused with %v", user, err)
			}
			told := false
			for _, f := range report.All {
				told = told || f.Status == driver.Fail && strings.Contains(f.Remedy, words)
			}
			if !told {
				t.Errorf("%q is told %+v, not: %s", user, report.All, words)
			}
		}
	})
}

// Promise: a heartbeat logs nobody in: a login takes the server much longer than all else.
func TestHeartbeatsDoNotLogIn(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		s := etcdtest.Start(t, of)
		for _, c := range []string{"user add root:secret", "user grant-role root root", "auth enable"} {
			s.Ctl(strings.Fields(c)...)
		}
		logins := func() (n float64) {
			t.Helper()
			got := errtest.Must(http.Get("http://" + s.Addr + "/metrics"))(t)
			defer got.Body.Close()
			text, err := io.ReadAll(got.Body)
			noError(t, err)
			_, text, found := bytes.Cut(text, []byte("\ngrpc_server_started_total{grpc_method=\"Authenticate\""))
			_, text, _ = bytes.Cut(text, []byte("} "))
			text, _, _ = bytes.Cut(text, []byte("\n"))
			if n, err = strconv.ParseFloat(string(text), 64); err != nil || !found {
				t.Fatalf("the server does not count logins: %v", err)
			}
			return n
		}
		lease := errtest.Must(open(t, "etcd://root:secret@"+s.Addr).Mutex("m").Acquire(limited(t)))(t)
		before := logins()
		time.Sleep(6 * time.Second) // three heartbeats
		noError(t, lease.Err())
		if n := logins() - before; n > 1 {
			t.Errorf("%v logins", n)
		}
		noError(t, lease.Release())
	})
}

// Promise: with TLS the server has to prove its name, and the client its own. An error says what to write.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.TLS())
	ctx := limited(t)
	url := "etcds://" + s.Addr + "/locks?ca=" + s.CA
	with := url + "&cert=" + s.ClientCert + "&key=" + s.ClientKey
	noError(t, doOnce(t, with))
	noError(t, doOnce(t, with+"&server_name=localhost"))
	for url, says := range map[string]string{
		url:                                      "?cert=…&key=…",
		strings.Replace(with, "ca="+s.CA, "", 1): "?ca=…",
		with + "&server_name=other":              "?server_name=…",
		"etcd://" + s.Addr:                       "write etcds://",
		strings.Replace(with, s.Addr, etcdtest.Start(t).Addr, 1): "write etcd://",
	} {
		if c, err := interlock.Open(ctx, url); err == nil {
			_ = c.Close()
			t.Errorf("%s is opened", url)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want: %s", url, err, says)
		}
	}
}

func doOnce(t *testing.T, url string) error {
	lease, err := open(t, url).Mutex("m").Acquire(limited(t))
	if err != nil {
		return err
	}
	return lease.Release()
}

// Promise: what is wrong in a URL is said at once.
func TestWrongURLs(t *testing.T) {
	t.Parallel()
	for url, words := range map[string]string{
		"etcd://127.0.0.1:1/a//b":              "the path of a URL",
		"etcd://127.0.0.1:1/?ca=file":          "options about TLS are for the scheme etcds",
		"etcds://127.0.0.1:1/?ca=/nowhere/ca":  "ca:",
		"etcd://127.0.0.1:1/?colour=red":       "colour",
		"etcd://127.0.0.1:1/?dial_timeout=red": "dial_timeout",
		"etcd://127.0.0.1:1":                   "connection refused",
	} {
		if _, err := interlock.Open(limited(t), url); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v; it must say %q", url, err, words)
		}
	}
}

// Promise: the doctor finds a sound server fit, and names what is known against an old one.
func TestCheck(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		s := etcdtest.Start(t, of)
		for _, f := range doctortest.ExamineURL(t, "etcd://"+s.Addr+"/a").All {
			old := f.Check == "version" && strings.Contains(f.Detail, "etcd 3.4.") || f.Check == "access" && strings.Contains(f.Detail, "authentication is off")
			if f.Status != driver.OK && !old || f.Status == driver.OK && old {
				t.Errorf("%+v", f)
			}
		}
		s.Ctl("put", "x", "y")
		s.Kill()
		if _, err := interlock.Open(limited(t), "etcd://"+s.Addr+"/a"); err == nil {
			t.Error("a server that is away is opened")
		}
	})
}

// Promise: the doctor finds a shortest TTL that is long, and a gRPC proxy in front of the members.
func TestCheckOfAProxy(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		s := etcdtest.Start(t, of, etcdtest.Flag("--election-timeout=5000"))
		doctortest.ExamineURL(t, "etcd://"+s.Addr+"/a").Has("TTL", driver.Warn, "--election-timeout")
		proxy := etcdtest.GRPCProxy(t, s.Addr)
		report := errtest.Must(doctortest.Consult(t, "etcd://"+proxy+"/a"))(t)
		report.Has("members", driver.Fail, "gRPC proxy")
	})
}

// Promise: a cluster whose database is full is not fit.
func TestCheckOfAFullDatabase(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		s := etcdtest.Start(t, of, etcdtest.Flag("--quota-backend-bytes=16384"))
		cmd := s.Command(limited(t), "put", "x", strings.Repeat("y", 20000))
		_ = cmd.Run() // it raises the alarm
		report, err := doctortest.Consult(t, "etcd://"+s.Addr+"/a")
		if err == nil {
			t.Error("a full database is opened")
		}
		report.Has("exchanges", driver.Fail, "alarm disarm")
	})
}

// fill has a database of two megabytes filled.
func fill(ctx context.Context, t *testing.T, s *etcdtest.Server) {
	t.Helper()
	value := strings.Repeat("x", 100_000)
	busy.Until(t, "the database is full", func() bool { return s.Command(ctx, "put", "k", value).Run() != nil })
}

// Promise: when the database gets full, those who hold locks keep them, and pass them on to those who wait.
func TestLocksArePassedOnThoughTheDatabaseIsFull(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		s := etcdtest.Start(t, of, etcdtest.Flag("--quota-backend-bytes=2000000"))
		ctx := limited(t)
		url := "etcd://" + s.Addr + "/locks"
		first, err := open(t, url).Mutex("m").Acquire(ctx)
		noError(t, err)
		type grant struct {
			lease *interlock.Lease
			err   error
		}
		granted := make(chan grant, 2)
		for i := range cap(granted) {
			c := open(t, url)
			go func() {
				lease, err := c.Mutex("m").Acquire(ctx)
				granted <- grant{lease, err}
			}()
			busy.Until(t, "one more waits", func() bool {
				q, err := c.Admin().Queue(ctx, "m")
				return err == nil && len(q.Waiters) == i+1
			})
		}
		fill(ctx, t, s)
		lease := first
		for range cap(granted) {
			noError(t, lease.Release())
			g := <-granted
			noError(t, g.err)
			lease = g.lease
		}
		time.Sleep(6 * time.Second) // longer than the TTL
		noError(t, lease.Err())
		noError(t, lease.Release())
	})
}

// Promise: a lock that cannot be granted while the database is full fails no heartbeat: the client keeps what it holds.
// It is granted when there is room again.
func TestAGrantThatFindsNoRoomWaitsForIt(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		s := etcdtest.Start(t, of, etcdtest.Flag("--quota-backend-bytes=2000000"))
		ctx := limited(t)
		url := "etcd://" + s.Addr + "/locks"
		front := errtest.Must(open(t, url).Mutex("m").Acquire(ctx))(t)
		c := open(t, url)
		other := errtest.Must(c.Mutex("other").Acquire(ctx))(t)
		granted := make(chan error, 1)
		go func() {
			_, err := c.Mutex("m", interlock.ReportDeath()).Acquire(ctx)
			granted <- err
		}()
		busy.Until(t, "it waits", func() bool {
			q, err := c.Admin().Queue(ctx, "m")
			return err == nil && len(q.Waiters) == 1
		})
		fill(ctx, t, s)
		noError(t, front.Release())
		select {
		case <-other.Done():
			t.Fatalf("another lock of the client is lost: %v", other.Err())
		case err := <-granted:
			t.Fatalf("it is granted in a full database: %v", err)
		case <-time.After(2 * time.Until(other.Deadline())):
		}
		out := errtest.Must(s.Command(ctx, "get", "k", "-w", "fields").Output())(t)
		revision := regexp.MustCompile(`"Revision" : (\d+)`).FindSubmatch(out)
		if revision == nil {
			t.Fatalf("no revision: %s", out)
		}
		for _, args := range [][]string{{"del", "k"}, {"compact", string(revision[1])}, {"defrag"}, {"alarm", "disarm"}} {
			if out, err := s.Command(ctx, args...).CombinedOutput(); err != nil {
				t.Fatalf("etcdctl %v: %v: %s", args, err, out)
			}
		}
		noError(t, <-granted)
		noError(t, other.Release())
	})
}
