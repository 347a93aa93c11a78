package redislock_test

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// granting finds the statements by which a remedy gives a user rights.
var granting = regexp.MustCompile(`ACL SETUSER \S+(?: [+~&][^ ;,]*)+`)

// prescribed are the statements that the doctor names, each once.
func prescribed(r doctortest.Report) (all []string) {
	for _, f := range r.All {
		for _, s := range granting.FindAllString(f.Remedy, -1) {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// cured has the doctor name the rights of which one is missing, and takes its advice.
func cured(t *testing.T, url, right string, servers ...*redistest.Server) {
	t.Helper()
	r, _ := doctortest.Consult(t, url)
	name, _, _ := strings.Cut(strings.TrimPrefix(url, "redis://"), ":")
	all := prescribed(r)
	if want := "ACL SETUSER " + name + " "; len(all) != 1 || !strings.HasPrefix(all[0], want) || !strings.Contains(all[0]+" ", " "+right+" ") {
		t.Errorf("the doctor names %q, not one %s with %s: %+v", all, want, right, r.All)
	}
	for _, statement := range all {
		for _, s := range servers {
			if _, err := s.Do(strings.Fields(statement)...); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	r, refused := doctortest.Consult(t, url)
	if all = prescribed(r); refused != nil || len(all) > 0 {
		t.Errorf("after that: %v; the doctor names %q", refused, all)
	}
}

// Promise: if a user lacks one of the rights that are documented, the doctor names it with the
// statement that grants it, also if nothing can be opened without; and that is all it takes.
func TestDoctorNamesEachRightThatIsMissing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := documentedRights(t)
	all := d.with(t, "interlock ls", "interlock doctor")
	without(t, all, all, func(t *testing.T, others []string) {
		right := all[slices.IndexFunc(all, func(r string) bool { return !slices.Contains(others, r) })]
		cured(t, withRights(t, s, others...)+"&"+patient, right, s)
	})
	t.Run("select", func(t *testing.T) {
		cured(t, strings.Replace(withRights(t, s, all...), "?", "/3?", 1)+"&"+patient, "+select", s)
	})
	t.Run("wait", func(t *testing.T) {
		cured(t, withRights(t, s, all...)+"&replicas=1&"+patient, "+wait", s)
	})
	t.Run("several", func(t *testing.T) {
		others := slices.DeleteFunc(slices.Clone(all), func(r string) bool {
			return slices.Contains([]string{"+subscribe", "+zadd", "&interlock:*", "~app/*"}, r)
		})
		url := withRights(t, s, others...) + "&" + patient
		r, refused := doctortest.Consult(t, url)
		if refused == nil {
			t.Error("it can be opened")
		}
		r.Has("exchanges", driver.Fail, " +zadd ", " +subscribe ")
		for range 3 { // keys and channels are looked at after commands
			r, _ = doctortest.Consult(t, url)
			for _, statement := range prescribed(r) {
				errtest.Must(s.Do(strings.Fields(statement)...))(t)
			}
		}
		if r, refused = doctortest.Consult(t, url); refused != nil || len(prescribed(r)) > 0 {
			t.Errorf("after that: %v, %q", refused, prescribed(r))
		}
	})
}

// Promise: a server that answers and cannot be used is told from one that does not answer, and
// what to do is said.
func TestDoctorOfAServerThatRefuses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := withRights(t, s, "on", ">secret", "~*", "&*", "+@all")
	r, refused := doctortest.Consult(t, strings.Replace(url, ":secret@", ":wrong@", 1)+"&"+patient)
	r.Has("server", driver.Fail, "WRONGPASS", "check user and password")
	if refused == nil || strings.Contains(fmt.Sprint(r.All), "wrong@") {
		t.Errorf("%v: %+v", refused, r.All)
	}

	down := redistest.Start(t)
	down.Kill()
	if all, err := interlock.Check(t.Context(), "redis://"+down.Addr); err == nil || len(all) > 0 {
		t.Errorf("a server that is down was examined: %v, %+v", err, all)
	}
}

// Promise: whoever is turned away by a full server is told so, also by the doctor.
func TestAFullServerIsNamed(t *testing.T) {
	t.Parallel()
	path := redistest.SocketPath(t)
	s := redistest.Start(t, redistest.Config("unixsocket", path), redistest.Config("maxclients", "12"))
	(&crowd{t: t, s: s}).fill()
	for _, host := range []string{s.Addr, url.PathEscape(path)} {
		for range 10 {
			says(t, openOnce(t, "redis://"+host), "max number of clients reached")
		}
		r, refused := doctortest.Consult(t, "redis://"+host)
		r.Has("server", driver.Fail, "max number of clients reached")
		if refused == nil {
			t.Error("it can be opened")
		}
	}
}

// Promise: a server that still reads its data is said to.
func TestDoctorOfAServerThatLoads(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config("enable-debug-command", "yes"), redistest.Config("loading-process-events-interval-bytes", "1024"))
	for i := range 200 {
		errtest.Must(s.Do("SET", fmt.Sprint("k", i), strings.Repeat("x", 1000)))(t)
	}
	configure(t, s, "rdbcompression", "no")
	configure(t, s, "key-load-delay", "100000") // microseconds
	reloaded := make(chan error, 1)
	go func() {
		_, err := s.Do("DEBUG", "RELOAD")
		reloaded <- err
	}()
	busy.Until(t, "it loads", func() bool {
		_, err := s.Do("PING")
		return err != nil && strings.Contains(err.Error(), "LOADING")
	})
	r, refused := doctortest.Consult(t, "redis://"+s.Addr+"?"+patient)
	r.Has("server", driver.Fail, "LOADING")
	if refused == nil {
		t.Error("it can be opened")
	}
	if !driver.IsPassing(refused) {
		t.Errorf("whoever opens it does not ask again: %v", refused)
	}
	configure(t, s, "key-load-delay", "0")
	if err := <-reloaded; err != nil {
		t.Log(err) // the connection may have been given up
	}
	busy.Until(t, "it has loaded", func() bool { _, err := s.Do("PING"); return err == nil })
	if r, refused = doctortest.Consult(t, "redis://"+s.Addr+"?"+patient); refused != nil {
		t.Error(refused)
	}
	r.Has("server", driver.OK)
}

// Promise: so it is with the rights that only a Cluster asks for.
func missingInACluster(t *testing.T, c *redistest.Cluster) {
	d := documentedRights(t)
	all := d.with(t, "a Cluster", "interlock ls", "interlock doctor", "interlock doctor in a Cluster")
	addrs := strings.Join(c.Addrs(), ",")
	for _, right := range []string{"+subscribe", "+ping", "+cluster|slots", "+cluster|shards", "+asking"} {
		if right == unasked(t, c.Nodes[0]) {
			continue
		}
		t.Run(right, func(t *testing.T) {
			others := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == right })
			cured(t, user(t, others, c.Nodes...)+addrs+"?prefix=app/&"+patient, right, c.Nodes...)
		})
	}
}
