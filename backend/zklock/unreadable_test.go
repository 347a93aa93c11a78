package zklock_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// Promise: a node that nobody may read, which whoever may create nodes can make, hides no other name
// from a listing.
func TestANodeThatNobodyMayReadHidesNoOther(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a := session(t, d, 40*time.Second)
	holds(t, a, aMutex("well"))
	_, conn := given(t, 40*time.Second, s.Addr)
	id := "00000000-0000-0000-0000-000000000000"
	for _, path := range []string{"/a/queue", "/a/ticket/_c_" + id + "-mutex-lock-0000000000", "/a/plain/x", "/a/zz/y/z"} {
		for i := 3; i < len(path); i++ {
			if path[i] == '/' {
				if _, err := conn.Create(path[:i], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
					t.Fatal(err)
				}
			}
		}
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermDelete))
		noError(t, err)
		var names []string
		for q, err := range d.Queues(limited(t), "") {
			noError(t, err)
			names = append(names, q.Name)
		}
		if len(names) != 1 || names[0] != "well" {
			t.Errorf("beside %s the list is %q", path, names)
		}
	}
}
