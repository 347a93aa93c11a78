package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/interlock-go/interlock/internal/testserver"
)

// runAll starts n servers at once, in folders of their own. Either all of them
// run afterwards, or none.
func runAll(dir, name string, n int, opts func(i int) []Option) ([]*Server, error) {
	servers, errs := make([]*Server, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			own := filepath.Join(dir, fmt.Sprint(name, i+1))
			if errs[i] = os.Mkdir(own, 0o700); errs[i] == nil {
				servers[i], errs[i] = Run(own, opts(i)...)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		stopAll(servers)
		return nil, err
	}
	return servers, nil
}

func stopAll(servers []*Server) {
	for _, s := range servers {
		if s != nil {
			s.Stop()
		}
	}
}

// oneAuthority lets servers with TLS trust each other.
func oneAuthority(dir string, opts []Option) (Option, error) {
	var set settings
	for _, opt := range opts {
		opt(&set)
	}
	if !set.tls {
		return func(*settings) {}, nil
	}
	ca, err := testserver.NewAuthority(filepath.Join(dir, "ca.crt"))
	return func(s *settings) { s.ca = ca }, err
}

// says looks for all of the lines in the answer to a command.
func (s *Server) says(command []string, lines ...string) bool {
	answer, err := s.Do(command...)
	text, ok := answer.(string)
	if err != nil || !ok {
		return false
	}
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\r\n") {
			return false
		}
	}
	return true
}

// inSync says whether a replica has all that its master had when it was asked
// to follow it.
func (s *Server) inSync() bool {
	return s.says([]string{"INFO", "replication"}, "role:slave", "master_link_status:up")
}

// addrs are the addresses of servers.
func addrs(servers []*Server) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.Addr)
	}
	return list
}
