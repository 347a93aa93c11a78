package etcdtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Cluster is a number of members with a leader.
type Cluster struct{ testserver.Group[*Server] }

// StartCluster starts a cluster of n members that ends with the test.
func StartCluster(t testing.TB, n int, opts ...Option) *Cluster {
	c := &Cluster{}
	var all []string
	for i := range n {
		s := servers.New(t.TempDir(), opts...)
		s.name = fmt.Sprint("member", i+1)
		member, err := s.join()
		testserver.OK(t, err)
		c.Servers, all = append(c.Servers, s), append(all, member)
	}
	for _, s := range c.Servers {
		s.cluster = strings.Join(all, ",")
	}
	testserver.Start(t, c.Servers...)
	return c
}

// Replace is for a member whose disk is lost: it leaves the cluster, and one with the same name and address,
// and with an empty disk, comes. It returns when that serves.
func (c *Cluster) Replace(s *Server) {
	id, _, err := s.status()
	s.Check("ask for the ID of the member", err)
	s.Kill()
	for _, change := range [][]string{
		{"member", "remove", fmt.Sprintf("%x", id)},
		{"member", "add", s.name, "--peer-urls", s.peer},
	} {
		s.Await(strings.Join(change, " "), func() (bool, error) {
			out, err := c.Others(s)[0].Command(context.Background(), change...).CombinedOutput()
			// They refuse it while they are not sure of each other.
			return err == nil || strings.Contains(string(out), "Member not found"), nil
		})
	}
	s.state = "existing"
	s.Check("start the new member", s.Again(func() error { return os.RemoveAll(s.Path("data")) }))
}

// Endpoints are the addresses of all members, as a URL names them.
func (c *Cluster) Endpoints() string {
	return strings.Join(c.Addrs(), ",")
}

// Leader waits until all members that are asked name the same leader, and returns it. Members that are
// paused or dead must not be asked.
func (c *Cluster) Leader(asked ...*Server) (leader *Server) {
	if len(asked) == 0 {
		asked = c.Servers
	}
	c.Servers[0].Await("wait for a leader", func() (bool, error) {
		ids := map[uint64]bool{}
		leader = nil
		for _, s := range asked {
			own, of, err := s.status()
			if err != nil {
				return false, nil
			}
			if ids[of] = true; own == of {
				leader = s
			}
		}
		return len(ids) == 1 && leader != nil, nil
	})
	return leader
}

// Others are the members but for one.
func (c *Cluster) Others(but *Server) (all []*Server) {
	for _, s := range c.Servers {
		if s != but {
			all = append(all, s)
		}
	}
	return all
}

// status is the ID of the member, and that of its leader.
func (s *Server) status() (own, leader uint64, err error) {
	var all []struct {
		Status struct {
			Header struct {
				Member uint64 `json:"member_id"`
			}
			Leader uint64
		}
	}
	out, err := s.Command(context.Background(), "endpoint", "status", "--write-out=json", "--command-timeout=1s").Output()
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil || len(all) != 1 {
		return 0, 0, fmt.Errorf("%w: %s", err, out)
	}
	return all[0].Status.Header.Member, all[0].Status.Leader, nil
}
