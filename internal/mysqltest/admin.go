package mysqltest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Query sends statements, separated by semicolons, as root, and returns what the
// client prints: a line for each row, with tabs between the values.
func (s *Server) Query(sql string) (string, error) {
	client, err := find("mariadb")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(client, "--no-defaults", "--socket=socket", "--user=root", "--batch", "--skip-column-names",
		"--default-character-set=utf8mb4", Database)
	cmd.Dir = s.Dir
	cmd.Stdin = strings.NewReader(sql)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// Do is Query for a test that cannot go on without it.
func (s *Server) Do(sql string) string {
	s.Helper()
	answer, err := s.Query(sql)
	s.Check(sql, err)
	return answer
}

// Set changes a global variable of the running server. Connections that there
// are keep what they have of most variables.
func (s *Server) Set(variable, value string) {
	s.Helper()
	s.Do("SET GLOBAL " + variable + " = " + value)
}

// Threads are the ids of the connections that a condition on
// information_schema.processlist selects, those of this package aside: "user = 'app'".
func (s *Server) Threads(where string) []int {
	s.Helper()
	sql := "SELECT id FROM information_schema.processlist" +
		" WHERE id <> CONNECTION_ID() AND user NOT IN ('system user', 'event_scheduler') AND (" + where + ")"
	found, err := s.Query(sql)
	for try := 0; try < 100 && err != nil && strings.Contains(err.Error(), "ERROR 3854"); try++ {
		found, err = s.Query(sql) // MySQL cannot show a statement that has bytes in it
	}
	s.Check(sql, err)
	var ids []int
	for _, id := range strings.Fields(found) {
		n, err := strconv.Atoi(id)
		s.Check("a thread's id", err)
		ids = append(ids, n)
	}
	return ids
}

// KillConnections ends connections, selected as by Threads, and says how many.
func (s *Server) KillConnections(where string) int {
	s.Helper()
	killed := 0
	for _, id := range s.Threads(where) {
		if _, err := s.Query(fmt.Sprintf("KILL %d", id)); err == nil { // it may have ended by itself
			killed++
		}
	}
	return killed
}

// Status sums up what the server counts under names like this one.
func (s *Server) Status(like string) int {
	s.Helper()
	sum := 0
	for _, row := range strings.Split(s.Do("SHOW GLOBAL STATUS LIKE '"+like+"'"), "\n") {
		_, value, _ := strings.Cut(row, "\t")
		n, err := strconv.Atoi(value)
		s.Check("the status "+row, err)
		sum += n
	}
	return sum
}
