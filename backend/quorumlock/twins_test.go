package quorumlock

import (
	"testing"

	"github.com/interlock-go/interlock/driver"
)

func init() { driver.Register("twin", nil) }

// Promise: the doctor says of a quorum that databases of one server are lost together, and that one server that is
// named twice counts once.
func TestMembersOfOneServerAreTold(t *testing.T) {
	of := func(members ...string) (all []answer[state]) {
		for i := 0; i < len(members); i += 2 {
			all = append(all, answer[state]{m: &member{name: members[i]}, got: state{life: members[i+1]}})
		}
		return all
	}
	for want, all := range map[driver.Status][]answer[state]{
		driver.OK:   of("mem:a", "1", "mem:b", "2", "mem:c", "3"),
		driver.Warn: of("twin://h:1/0", "1", "twin://h:1/1", "2", "twin://h:2/0", "3"),
		driver.Fail: of("twin://h:1/0", "1", "twin://h:1/1", "2", "twin://h:1/0?x=y", "1"),
	} {
		if f := checkTwins(all); f.Status != want {
			t.Errorf("%+v, not %s", f, want)
		}
	}
}
