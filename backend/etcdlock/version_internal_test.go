package etcdlock

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Promise: the doctor names the faults that a version has, the promises that these weaken, and no others.
func TestTheDoctorKnowsTheFaultsOfAVersion(t *testing.T) {
	for version, has := range map[string][2]bool{ // leases that end too soon, locks that are kept too long
		"3.3.27": {true, true}, "3.4.23": {true, true}, "3.4.31": {false, true},
		"3.5.12": {true, false}, "3.5.13": {}, "3.6.0": {}, "4.0.0": {}, "new": {},
	} {
		e := &examination{members: []member{{status: &clientv3.StatusResponse{Version: version}}}}
		f := e.checkVersion(t.Context())
		for i, says := range [2][2]string{
			{"may end leases", "a healthy holder keeps its lock"},
			{"whose clock is set back", "is passed on soon"},
		} {
			if strings.Contains(f.Detail, says[0]) != has[i] || strings.Contains(f.Promise, says[1]) != has[i] {
				t.Errorf("etcd %s: %+v", version, f)
			}
		}
	}
}
