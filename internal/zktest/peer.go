package zktest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// peer is what a server of an ensemble has of its own.
type peer struct {
	id               int // from 1 on
	quorum, election int // ports
	lines            string
	links            []*testserver.Proxy // to and from the others
	frozen           atomic.Bool
}

// name tells a server who it is.
func (p *peer) name(data string) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(p.id)), 0o600)
}

func (p *peer) freeze(yes bool) {
	p.frozen.Store(yes)
	for _, link := range p.links {
		if yes {
			link.Hang()
		} else {
			link.Resume()
		}
	}
}

// patience is for how long a server that has just become the leader may not
// listen yet. Its follower would try again if it were refused, but not if it
// were accepted and then left alone, and everybody would wait for the initLimit.
const patience = 5 * time.Second

// linkAll makes the links between all servers: each of them knows the others
// only by addresses of proxies, which differ from server to server.
func linkAll(servers []*Server) (links []*testserver.Proxy, err error) {
	var elections sync.Map // address by from and to
	open := func(from, to *Server, port int, options testserver.ProxyOptions) (*testserver.Proxy, error) {
		link, err := testserver.RunProxy(testserver.Address(port), options)
		if err == nil {
			links = append(links, link)
			from.peer.links = append(from.peer.links, link)
			to.peer.links = append(to.peer.links, link)
		}
		return link, err
	}
	for _, from := range servers {
		lines := []string{fmt.Sprintf("server.%d=127.0.0.1:%d:%d", from.peer.id, from.peer.quorum, from.peer.election)}
		for _, to := range servers {
			if from == to {
				continue
			}
			quorum, err := open(from, to, to.peer.quorum, testserver.ProxyOptions{Patience: patience})
			if err != nil {
				return links, err
			}
			back := [2]int{to.peer.id, from.peer.id}
			filters := func() (testserver.Filter, testserver.Filter) {
				addr, _ := elections.Load(back)
				return introduceAs(addr.(string)), testserver.Pass
			}
			election, err := open(from, to, to.peer.election, testserver.ProxyOptions{Filters: filters})
			if err != nil {
				return links, err
			}
			elections.Store([2]int{from.peer.id, to.peer.id}, election.Addr)
			_, port, _ := strings.Cut(election.Addr, ":")
			lines = append(lines, fmt.Sprintf("server.%d=%s:%s", to.peer.id, quorum.Addr, port))
		}
		slices.Sort(lines)
		from.peer.lines = strings.Join(lines, "\n") + "\n"
	}
	return links, nil
}

// introduceAs changes the address by which a server introduces itself at the
// election port of another, which may call back there: it has to find a proxy.
func introduceAs(addr string) testserver.Filter {
	const head = 8 + 8 + 4 // version, id, length of the address
	var opening []byte
	done := false
	return func(read []byte) testserver.Passed {
		if done {
			return testserver.Pass(read)
		}
		opening = append(opening, read...)
		if len(opening) < head {
			return testserver.Passed{}
		}
		size := int(binary.BigEndian.Uint32(opening[head-4:]))
		if len(opening) < head+size {
			return testserver.Passed{}
		}
		done = true
		b := binary.BigEndian.AppendUint32(slices.Clone(opening[:head-4]), uint32(len(addr)))
		b = append(b, addr...)
		return testserver.Passed{Bytes: append(b, opening[head+size:]...)}
	}
}
