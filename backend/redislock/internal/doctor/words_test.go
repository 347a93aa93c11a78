package doctor

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

func TestCheckOfVersions(t *testing.T) {
	d := &Doctor{}
	for _, c := range []struct {
		hello, info map[string]string
		status      driver.Status
		words       []string
	}{
		{map[string]string{"server": "redis", "version": "7.0.15"}, nil, driver.OK, []string{"Redis 7.0.15"}},
		{nil, map[string]string{"redis_version": "6.2.0"}, driver.OK, []string{"Redis 6.2.0"}},
		{nil, map[string]string{"redis_version": "10.0"}, driver.OK, []string{"Redis 10.0"}},
		{nil, map[string]string{"redis_version": "6.0.16"}, driver.Fail, []string{"SET with GET", "use Redis 6.2"}},
		{nil, map[string]string{"redis_version": "5.0.7"}, driver.Fail, []string{"RESP3", "SET with GET"}},
		{nil, map[string]string{"redis_version": "7.2.4", "valkey_version": "8.0.1"}, driver.OK, []string{"Valkey 8.0.1"}},
		{map[string]string{"server": "valkey", "version": "8.1.0"}, nil, driver.OK, []string{"Valkey 8.1.0"}},
		{map[string]string{"server": "redis", "version": "7.4.0"}, map[string]string{"dragonfly_version": "df-v1.30"}, driver.Warn, []string{"Dragonfly"}},
		{map[string]string{"server": "other", "version": "1"}, nil, driver.Warn, []string{"Other 1"}},
		{nil, nil, driver.Warn, []string{"does not say"}},
	} {
		f := d.checkVersion(t.Context(), &node{hello: c.hello, info: c.info})
		if f.Status != c.status {
			t.Errorf("%v %v: %+v", c.hello, c.info, f)
		}
		for _, w := range c.words {
			if !strings.Contains(f.Detail+f.Remedy, w) {
				t.Errorf("%q is not in %+v", w, f)
			}
		}
	}
}

// Promise: what several nodes have in common is said once; the check of the servers
// names each node, also if all answer alike, to the microsecond.
func TestMerge(t *testing.T) {
	a, b, c := &node{addr: "a"}, &node{addr: "b"}, &node{addr: "c"}
	bad := doctor.Warn("a promise", "a remedy", "bad")
	for _, test := range []struct {
		found   map[*node]driver.Finding
		subject string
		want    string
	}{
		{nil, "s", ""},
		{map[*node]driver.Finding{a: doctor.Fine("x"), b: doctor.Fine("x"), c: doctor.Fine("x")}, "s", "ok s: x"},
		{map[*node]driver.Finding{a: doctor.Fine("x"), b: doctor.Fine("y"), c: doctor.Fine("x")}, "s", "ok s: a, c: x; b: y"},
		{map[*node]driver.Finding{a: bad, c: bad}, "s", "warn s: bad"},
		{map[*node]driver.Finding{a: bad, b: doctor.Fine("x"), c: bad}, "s", "ok s: b: x\nwarn s of a, c: bad"},
		{map[*node]driver.Finding{a: doctor.Fine("x"), b: doctor.Fine("x"), c: doctor.Fine("x")}, "server", "ok server: a, b, c: x"},
		{map[*node]driver.Finding{a: doctor.Fine("x"), b: doctor.Fine("y"), c: doctor.Fine("x")}, "server", "ok server: a, c: x; b: y"},
		{map[*node]driver.Finding{a: bad, b: bad, c: bad}, "server", "warn server of a, b, c: bad"},
		{map[*node]driver.Finding{b: doctor.Fine("x")}, "server", "ok server: x"},
	} {
		var got []string
		for _, f := range merge(test.subject, []*node{a, b, c}, test.found) {
			got = append(got, string(f.Status)+" "+f.Check+": "+f.Detail)
		}
		if text := strings.Join(got, "\n"); text != test.want {
			t.Errorf("got\n%s\nwant\n%s", text, test.want)
		}
	}
}
