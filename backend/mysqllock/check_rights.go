package mysqllock

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// allRights are those that programs need in the database.
const allRights = "SELECT, INSERT, UPDATE, DELETE, EXECUTE"

// printed says where a user finds all statements.
func printed(user string) string {
	return "interlock schema --only-grants --grant " + user + " prints what grants all that is needed, for the tables of Interlock alone"
}

// trials are statements that change nothing, by the right that they need, for which the server
// looks before anything else. {it} is a table with a column {c}, or a procedure, none of which
// takes so many arguments.
var trials = []struct{ kind, right, statement string }{
	{"TABLE", "SELECT", "SELECT 1 FROM {it} WHERE FALSE"},
	{"TABLE", "INSERT", "INSERT INTO {it}({c}) SELECT 1 FROM DUAL WHERE FALSE"},
	{"TABLE", "UPDATE", "UPDATE {it} SET {c} = 0 WHERE FALSE"},
	{"TABLE", "DELETE", "DELETE FROM {it} WHERE FALSE"},
	{"PROCEDURE", "EXECUTE", "CALL {it}(" + strings.TrimSuffix(strings.Repeat("NULL,", 64), ",") + ")"},
}

var firstColumn = regexp.MustCompile(`(?m)^CREATE TABLE (?:IF NOT EXISTS )?(\w+)\(\s*(\w+)`)

// lacking tries every right, but that to change tables if nothing can be changed. It returns the
// objects on which the user lacks it, by right, and how many there are for each.
func (s *store) lacking(ctx context.Context, readOnly bool) (on map[string][]string, of map[string]int, err error) {
	statements, err := Schema(s.prefix)
	if err != nil {
		return nil, nil, err
	}
	text := strings.Join(statements, "\n")
	column := map[string]string{}
	for _, m := range firstColumn.FindAllStringSubmatch(text, -1) {
		column[m[1]] = m[2]
	}
	on, of = map[string][]string{}, map[string]int{}
	err = s.aside(ctx, func(c *sql.Conn) error {
		m, err := s.makers(ctx, c)
		if err != nil {
			return err
		}
		found, _ := s.layout(ctx, c)
		trusted := m.strange(found == layout) == nil
		for _, it := range made.FindAllStringSubmatch(text, -1) {
			for _, t := range trials {
				if t.kind != it[1] || readOnly && t.kind == "TABLE" && t.right != "SELECT" {
					continue
				}
				if of[t.right]++; t.kind == "PROCEDURE" && !trusted && !slices.Contains(m.missing, it[2]) {
					continue // whoever sees it has a right to it, and nobody knows what it does
				}
				_, err := c.ExecContext(ctx, strings.NewReplacer("{it}", it[2], "{c}", column[it[2]]).Replace(t.statement))
				if err != nil && !answered(err) {
					return err
				}
				if denied(err) {
					on[t.right] = append(on[t.right], it[2])
				}
			}
		}
		return nil
	})
	return on, of, err
}

// checkRights names the rights that are missing.
func (s *store) checkRights(ctx context.Context, v variables) driver.Finding {
	var user, database string
	if err := s.askAside(ctx, "SELECT CURRENT_USER(), DATABASE()", nil, &user, &database); err != nil {
		return doctor.Warn(everyLock, "see the error", "they are not known: %v", s.Explain(err))
	}
	on, of, err := s.lacking(ctx, v.readOnly())
	if err != nil {
		return doctor.Warn(everyLock, "see the error", "they are not known: %v", s.Explain(err))
	}
	var lacks, everywhere, statements []string
	single := map[string][]string{} // rights by object
	var objects []string
	for _, t := range trials {
		names := on[t.right]
		switch {
		case len(names) == 0:
		case len(names) == of[t.right]:
			lacks = append(lacks, t.right)
			everywhere = append(everywhere, t.right)
		default:
			lacks = append(lacks, t.right+" on "+strings.Join(names, ", "))
			for _, name := range names {
				if t.kind == "PROCEDURE" {
					name = "PROCEDURE " + name
				}
				if single[name] == nil {
					objects = append(objects, name)
				}
				single[name] = append(single[name], t.right)
			}
		}
	}
	if len(lacks) == 0 {
		return doctor.Fine("%s may use all tables and procedures", user)
	}
	to := " TO " + account(user)
	if len(everywhere) > 0 {
		statements = append(statements, "GRANT "+strings.Join(everywhere, ", ")+" ON "+everything(database)+to)
	}
	slices.Sort(objects)
	for _, o := range objects {
		statements = append(statements, "GRANT "+strings.Join(single[o], ", ")+" ON "+o+to)
	}
	return doctor.Fail(everyLock, strings.Join(statements, "; ")+" ("+printed(user)+")", "%s lacks %s", user, strings.Join(lacks, "; "))
}
