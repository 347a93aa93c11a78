package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// Procedures run with the rights of who calls them, and whoever may make procedures in the
// database could be there first, with others of the same names. Such a user can make no tables, and
// replace nothing that is there. So meta is made last, when all procedures are there and are of who
// makes it; before that none is called. Where meta is, they may be of another user, an
// administrator, but all of the same one.

// makers are the users who have made the procedures.
type makers struct {
	me      string
	by      map[string]string // one procedure of each
	missing []string          // procedures that are not there, or that this user may not execute
}

func (s *store) makers(ctx context.Context, on *sql.Conn) (m makers, err error) {
	all, err := Schema(s.prefix)
	if err != nil {
		return m, err
	}
	rows, err := on.QueryContext(ctx, "SELECT ROUTINE_NAME, DEFINER, CURRENT_USER() FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_TYPE = 'PROCEDURE'")
	if err != nil {
		return m, err
	}
	defer rows.Close()
	found := map[string]string{} // by names in lower case: those of procedures have no case
	for rows.Next() {
		var name, maker string
		if err := rows.Scan(&name, &maker, &m.me); err != nil {
			return m, err
		}
		found[strings.ToLower(name)] = maker
	}
	m.by = map[string]string{}
	for _, it := range made.FindAllStringSubmatch(strings.Join(all, "\n"), -1) {
		switch maker, ok := found[strings.ToLower(it[2])]; {
		case it[1] != "PROCEDURE":
		case ok:
			m.by[maker] = it[2]
		default:
			m.missing = append(m.missing, it[2])
		}
	}
	return m, rows.Err()
}

// others are those who are not this user.
func (m makers) others() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.by)), func(maker string) bool { return maker == m.me })
}

// strange is why what is there must not be called, if it is so.
func (m makers) strange(meta bool) error {
	others := m.others()
	why := ""
	switch {
	case len(others) == 0:
		return nil
	case len(m.by) > 1:
		why = "not all others were"
	case len(m.missing) > 0:
		why = "missing, or not for this user, are " + strings.Join(m.missing[:min(3, len(m.missing))], ", ") + " (" + doctor.Hint + ")"
	case !meta:
		why = "the tables are missing"
	default:
		return nil
	}
	var whose []string
	for _, maker := range others {
		whose = append(whose, m.by[maker]+" was made by "+maker)
	}
	return driver.Permanent(fmt.Errorf("mysql: the procedure %s, who is not this user (%s), and %s: "+
		"if that is right, have one user make all with what interlock schema prints, else drop the procedure", strings.Join(whose, ", "), m.me, why))
}

// made reports whether all is there. Only then procedures may be called.
func (s *store) made(ctx context.Context, on *sql.Conn) (bool, error) {
	found, err := s.layout(ctx, on)
	if err != nil && !missing(err) && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	m, err := s.makers(ctx, on)
	if err == nil {
		err = m.strange(found == layout)
	}
	return found == layout && len(m.missing) == 0, err
}
