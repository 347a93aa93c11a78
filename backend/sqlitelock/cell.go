package sqlitelock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"zombiezen.com/go/sqlite"
)

// told are the followers, unless they are longer than anything that is written here.
const told = "iif(octet_length(followers) <= 1048576, followers, '')"

// bounded is the value, or one that is as much too long as has to be known.
var bounded = fmt.Sprintf("iif(octet_length(value) <= %d, value, zeroblob(%d))", driver.MaxCell, driver.MaxCell+1)

// cell reads a cell. Value is a copy.
func (c conn) cell(name string) (cell driver.Cell, followers []string, err error) {
	err = c.one("SELECT version, present, "+told+", "+bounded+" FROM cell WHERE name = ?", func(r *sqlite.Stmt) {
		cell.Version, cell.Exists, followers = uint64(r.ColumnInt64(0)), r.ColumnBool(1), strings.Fields(r.ColumnText(2))
		if cell.Exists {
			cell.Value = make([]byte, r.ColumnLen(3))
			r.ColumnBytes(3, cell.Value)
		}
	}, name)
	return cell, followers, err
}

// Load notes the client, if it watches, in the exchange that reads the cell.
func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (cell driver.Cell, err error) {
	if f.Mailbox == "" {
		err = s.view(ctx, func(c conn, _ time.Time) (err error) {
			cell, _, err = c.cell(name)
			return err
		})
		return cell, err
	}
	err = s.change(ctx, false, func(t *tx) (err error) {
		var followers []string
		if cell, followers, err = t.cell(name); err != nil || slices.Contains(followers, f.Mailbox) {
			return err
		}
		return t.exec(`INSERT INTO cell(name, version, present, followers) VALUES (?1,0,0,?2)
			ON CONFLICT(name) DO UPDATE SET followers=?2`, name, strings.Join(append(followers, f.Mailbox), " "))
	})
	return cell, err
}

func (s *store) Cells(ctx context.Context, prefix, from string) (names []string, next string, err error) {
	err = s.view(ctx, func(c conn, _ time.Time) (err error) {
		names, next, err = c.names("SELECT name FROM cell WHERE name > ? AND name >= ? AND "+named+" AND present ORDER BY name LIMIT ?", prefix, from)
		return err
	})
	return names, next, err
}

// Swap outlasts a power loss.
func (s *store) Swap(ctx context.Context, w driver.Swap) (cell driver.Cell, err error) {
	conflict := false
	err = s.change(ctx, true, func(t *tx) error {
		made := driver.Cell{Exists: !w.Delete}
		if made.Exists {
			made.Value = append([]byte{}, w.Value...)
		}
		cell = made
		first := int64(-1)
		if err := t.one("SELECT version FROM swap WHERE id = ?", func(r *sqlite.Stmt) { first = r.ColumnInt64(0) }, w.ID); err != nil {
			return err
		}
		if first >= 0 {
			cell.Version, conflict = uint64(first), first == 0
			return nil
		}
		now, followers, err := t.cell(w.Name)
		switch {
		case err != nil:
			return err
		case w.Version < now.Version:
			conflict = true // and for ever
			return nil
		case w.Version > now.Version:
			conflict = true
			return t.remember(w.ID, 0)
		}
		cell.Version = max(now.Version+1, clockToken())
		if err := t.exec(`INSERT INTO cell(name, version, present, followers, value) VALUES (?1,?2,?3,'',?4)
			ON CONFLICT(name) DO UPDATE SET version=?2, present=?3, followers='', value=?4`,
			w.Name, int64(cell.Version), cell.Exists, cell.Value); err != nil {
			return err
		}
		for _, mailbox := range followers {
			if exchange.IsMailbox(mailbox) {
				t.events = append(t.events, rows.Event{Mailbox: mailbox, Event: exchange.Event{Type: exchange.CellChanged, Cell: w.Name}})
			}
		}
		return t.remember(w.ID, int64(cell.Version))
	})
	if err == nil && conflict {
		err = driver.ErrConflict
	}
	if err != nil {
		return driver.Cell{}, err
	}
	return cell, nil
}

// remember keeps the result of a Swap, and forgets a few old ones.
func (t *tx) remember(id string, version int64) error {
	wall := time.Now()
	if err := t.exec("INSERT INTO swap(id, at, version) VALUES (?,?,?)", id, wall.UnixNano(), version); err != nil {
		return err
	}
	return t.exec("DELETE FROM swap WHERE id IN (SELECT id FROM swap WHERE at < ? ORDER BY at LIMIT 4)", wall.Add(-2*driver.SwapMemory).UnixNano())
}
