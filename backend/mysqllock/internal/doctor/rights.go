package doctor

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
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
	{database.Table, "SELECT", "SELECT 1 FROM {it} WHERE FALSE"},
	{database.Table, "INSERT", "INSERT INTO {it}({c}) SELECT 1 FROM DUAL WHERE FALSE"},
	{database.Table, "UPDATE", "UPDATE {it} SET {c} = 0 WHERE FALSE"},
	{database.Table, "DELETE", "DELETE FROM {it} WHERE FALSE"},
	{database.Procedure, "EXECUTE", "CALL {it}(" + strings.TrimSuffix(strings.Repeat("NULL,", 64), ",") + ")"},
}

// everything is what rights in a whole database are granted on.
func everything(database string) string {
	return "`" + strings.NewReplacer("`", "``", "_", `\_`, "%", `\%`).Replace(database) + "`.*"
}

// lacking tries every right, but that to change tables if nothing can be changed. It returns the
// objects on which the user lacks it, by right, and how many there are for each.
func (d *Doctor) lacking(ctx context.Context, readOnly bool) (on map[string][]string, of map[string]int, err error) {
	on, of = map[string][]string{}, map[string]int{}
	err = d.Aside(ctx, func(c *sql.Conn) error {
		m, err := d.Layout.Makers(ctx, c)
		if err != nil {
			return err
		}
		found, _ := d.Layout.Found(ctx, c)
		trusted := m.Strange(found == d.Layout.Version) == nil
		for _, it := range d.Layout.Objects {
			for _, t := range trials {
				if t.kind != it.Kind || readOnly && t.kind == database.Table && t.right != "SELECT" {
					continue
				}
				if slices.Contains(m.Later, it.Name) {
					continue // only whoever sets a number of permits needs it
				}
				if of[t.right]++; t.kind == database.Procedure && !trusted && !slices.Contains(m.Missing, it.Name) {
					continue // whoever sees it has a right to it, and nobody knows what it does
				}
				_, err := c.ExecContext(ctx, strings.NewReplacer("{it}", it.Name, "{c}", it.Column).Replace(t.statement))
				if err != nil && !database.Answered(err) {
					return err
				}
				if database.Denied(err) {
					on[t.right] = append(on[t.right], it.Name)
				}
			}
		}
		return nil
	})
	return on, of, err
}

// checkRights names the rights that are missing.
func (d *Doctor) checkRights(ctx context.Context) driver.Finding {
	var user, base string
	if err := d.row(ctx, "SELECT CURRENT_USER(), DATABASE()", nil, &user, &base); err != nil {
		return doctor.Warn(everyLock, "see the error", "they are not known: %v", database.Explain(err))
	}
	on, of, err := d.lacking(ctx, d.variables.readOnly())
	if err != nil {
		return doctor.Warn(everyLock, "see the error", "they are not known: %v", database.Explain(err))
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
				if t.kind == database.Procedure {
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
	to := " TO " + database.Account(user)
	if len(everywhere) > 0 {
		statements = append(statements, "GRANT "+strings.Join(everywhere, ", ")+" ON "+everything(base)+to)
	}
	slices.Sort(objects)
	for _, o := range objects {
		statements = append(statements, "GRANT "+strings.Join(single[o], ", ")+" ON "+o+to)
	}
	return doctor.Fail(everyLock, strings.Join(statements, "; ")+" ("+printed(user)+")", "%s lacks %s", user, strings.Join(lacks, "; "))
}
