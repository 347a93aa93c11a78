package pgtest

import (
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/internal/testserver"
)

// others are the connections that are not of this package.
const others = "backend_type = 'client backend' AND application_name <> '" + own + "'"

// Backends are the process ids of those that serve connections of clients for
// which the condition holds, a condition on pg_stat_activity.
func (s *Server) Backends(where string) []int {
	s.Helper()
	var pids []int
	out := s.SQL("SELECT pid FROM pg_stat_activity WHERE " + others + " AND (" + where + ")")
	for line := range strings.FieldsSeq(out) {
		pid, err := strconv.Atoi(line)
		s.Check("process ids", err)
		pids = append(pids, pid)
	}
	return pids
}

// Terminate ends connections in good order, as an administrator would: those for
// which the condition holds, a condition on pg_stat_activity. It returns how many.
func (s *Server) Terminate(where string) int {
	s.Helper()
	n, err := strconv.Atoi(s.SQL("SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity WHERE " + others + " AND (" + where + ")"))
	s.Check("terminate", err)
	return n
}

// Until looks again and again until there is a result or an error.
func Until(ready func() (bool, error)) error { return testserver.Until(ready) }
