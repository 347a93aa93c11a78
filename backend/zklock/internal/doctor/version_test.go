package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Promise: doctor warns of the servers of an ensemble whose version is known to lose
// transactions when a leader crashes, and names the faults.
func TestCheckKnowsTheFaultsOfVersions(t *testing.T) {
	ensemble := &members{voters: 3}
	for _, c := range []struct {
		versions, mode string
		status         driver.Status
		names          []string
	}{
		{"3.4.14", "leader", driver.Fail, nil},
		{"3.5.10", "leader", driver.Warn, []string{"ZOOKEEPER-4785", "ZOOKEEPER-4712"}},
		{"3.8.0--1, built on 1970-01-01", "follower", driver.Warn, []string{"ZOOKEEPER-4785", "ZOOKEEPER-4712", "ZOOKEEPER-4394"}},
		{"3.8.5", "leader", driver.Warn, []string{"ZOOKEEPER-4712", "ZOOKEEPER-4394"}},
		{"3.9.2", "leader", driver.Warn, []string{"ZOOKEEPER-4712", "ZOOKEEPER-4394"}},
		{"3.9.3", "leader", driver.Warn, []string{"ZOOKEEPER-4925"}},
		{"3.9.4", "leader", driver.OK, nil},
		{"3.9.10", "leader", driver.OK, nil},
		{"3.10.0", "leader", driver.OK, nil},
		{"3.9.4 3.8.5", "leader", driver.Warn, []string{"3.8.5"}},
		{"3.8.0", "standalone", driver.OK, nil},
	} {
		d := &Doctor{members: ensemble}
		if c.mode == "standalone" {
			d.members = &members{}
		}
		versions := []string{c.versions}
		if !strings.Contains(c.versions, ",") {
			versions = strings.Fields(c.versions)
		}
		for _, v := range versions {
			d.servers = append(d.servers, &server{version: v, mode: c.mode})
		}
		f := d.checkVersion(context.Background())
		if f.Status != c.status {
			t.Errorf("%s, %s: %+v", c.versions, c.mode, f)
		}
		for _, name := range c.names {
			if !strings.Contains(f.Detail, name) {
				t.Errorf("%s: %q does not name %s", c.versions, f.Detail, name)
			}
		}
		if strings.Contains(f.Detail, "4785") != strings.Contains(strings.Join(c.names, " "), "4785") {
			t.Errorf("%s: %q", c.versions, f.Detail)
		}
	}
}
