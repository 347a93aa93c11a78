package database

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

// Makers are the users who have made the procedures.
type Makers struct {
	Me      string
	by      map[string]string // one procedure of each
	Missing []string          // procedures that are not there, or that this user may not execute
}

func (l Layout) Makers(ctx context.Context, on *sql.Conn) (m Makers, err error) {
	rows, err := on.QueryContext(ctx, "SELECT ROUTINE_NAME, DEFINER, CURRENT_USER() FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_TYPE = 'PROCEDURE'")
	if err != nil {
		return m, err
	}
	defer rows.Close()
	found := map[string]string{} // by names in lower case: those of procedures have no case
	for rows.Next() {
		var name, maker string
		if err := rows.Scan(&name, &maker, &m.Me); err != nil {
			return m, err
		}
		found[strings.ToLower(name)] = maker
	}
	m.by = map[string]string{}
	for _, it := range l.Objects {
		switch maker, ok := found[strings.ToLower(it.Name)]; {
		case it.Kind != Procedure:
		case ok:
			m.by[maker] = it.Name
		default:
			m.Missing = append(m.Missing, it.Name)
		}
	}
	return m, rows.Err()
}

// Others are those who are not this user.
func (m Makers) Others() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.by)), func(maker string) bool { return maker == m.Me })
}

// Strange is why what is there must not be called, if it is so.
func (m Makers) Strange(meta bool) error {
	others := m.Others()
	why := ""
	switch {
	case len(others) == 0:
		return nil
	case len(m.by) > 1:
		why = "not all others were"
	case len(m.Missing) > 0:
		why = "missing, or not for this user, are " + strings.Join(m.Missing[:min(3, len(m.Missing))], ", ") + " (" + doctor.Hint + ")"
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
		"if that is right, have one user make all with what interlock admin schema prints, else drop the procedure", strings.Join(whose, ", "), m.Me, why))
}

// Made reports whether all is there. Only then procedures may be called.
func (l Layout) Made(ctx context.Context, on *sql.Conn) (bool, error) {
	found, err := l.Found(ctx, on)
	if err != nil && !Missing(err) && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	m, err := l.Makers(ctx, on)
	if err == nil {
		err = m.Strange(found == l.Version)
	}
	return found == l.Version && len(m.Missing) == 0, err
}
