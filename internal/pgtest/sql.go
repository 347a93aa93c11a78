package pgtest

import (
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// own is what the connections of this package are called: one that is just ending shows
// its last query for a moment, which may be what a test looks for.
const own = "pgtest"

// Exec runs SQL as the superuser, over a connection of its own, and returns the
// rows: a line for each, with a bar between columns.
func (s *Server) Exec(database, sql string) (string, error) {
	return s.psql("postgres:///"+url.PathEscape(database)+"?"+url.Values{
		"host": {s.Dir}, "port": {strconv.Itoa(s.Port)}, "user": {Superuser}, "application_name": {own},
	}.Encode(), sql)
}

func (s *Server) psql(target, sql string) (string, error) {
	cmd := exec.Command(filepath.Join(s.bin, "psql"), "--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--no-password",
		"--set", "ON_ERROR_STOP=1", target)
	s.user.use(cmd)
	cmd.Dir = s.Dir
	cmd.Stdin = strings.NewReader(sql)
	var out, failed strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("postgres on %s: %s: %w: %s", s.Addr, sql, err, failed.String())
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// SQL is Exec in the database that is there from the start.
func (s *Server) SQL(sql string) string {
	s.Helper()
	out, err := s.Exec(Database, sql)
	s.Check("SQL", err)
	return out
}
