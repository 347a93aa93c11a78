package sqlitelock

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"zombiezen.com/go/sqlite"
)

// cell reads a cell. Value is a copy.
func (c conn) cell(name string) (cell driver.Cell, watched bool, err error) {
	_, err = c.one("SELECT version, present, watched, value FROM cell WHERE name = ?", func(r *sqlite.Stmt) {
		cell.Version, cell.Exists, watched = uint64(r.ColumnInt64(0)), r.ColumnBool(1), r.ColumnBool(2)
		if cell.Exists {
			cell.Value = make([]byte, r.ColumnLen(3))
			r.ColumnBytes(3, cell.Value)
		}
	}, name)
	return cell, watched, err
}

// Load notes the client, if it watches, in the exchange that reads the cell.
func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (cell driver.Cell, err error) {
	if f.Mailbox == "" {
		err = s.view(ctx, func(c conn, _ moment) (err error) {
			cell, _, err = c.cell(name)
			return err
		})
		return cell, err
	}
	err = s.change(ctx, fast, func(t *tx) (err error) {
		if cell, _, err = t.cell(name); err != nil {
			return err
		}
		if err := t.watch("cell", name, f.Mailbox); err != nil {
			return err
		}
		return t.exec(`INSERT INTO cell(name, version, present, watched) VALUES (?,0,0,1)
			ON CONFLICT(name) DO UPDATE SET watched=1`, name)
	})
	return cell, err
}

func (s *store) Cells(ctx context.Context, prefix, from string) (names []string, next string, err error) {
	err = s.view(ctx, func(c conn, _ moment) (err error) {
		names, next, err = c.names("SELECT name FROM cell WHERE name > ? AND name >= ? AND "+named+" AND present ORDER BY name LIMIT ?", prefix, from)
		return err
	})
	return names, next, err
}

// Swap is committed synchronously: values outlast a power loss.
func (s *store) Swap(ctx context.Context, w driver.Swap) (driver.Cell, error) {
	made := driver.Cell{Exists: !w.Delete}
	if made.Exists {
		made.Value = append([]byte{}, w.Value...)
	}
	conflict := false
	err := s.change(ctx, durable, func(t *tx) error {
		conflict = false
		first := int64(-1)
		if _, err := t.one("SELECT version FROM swap WHERE id = ?", func(r *sqlite.Stmt) { first = r.ColumnInt64(0) }, w.ID); err != nil {
			return err
		}
		switch {
		case first == 0:
			return driver.ErrConflict
		case first > 0:
			made.Version = uint64(first)
			return errNothing
		}
		now, watched, err := t.cell(w.Name)
		if err != nil {
			return err
		}
		switch {
		case w.Version < now.Version:
			return driver.ErrConflict // and for ever
		case w.Version > now.Version:
			conflict = true
			return t.remember(w.ID, 0)
		}
		made.Version = max(now.Version+1, uint64(ticks()))
		if err := t.exec(`INSERT INTO cell(name, version, present, watched, value) VALUES (?1,?2,?3,0,?4)
			ON CONFLICT(name) DO UPDATE SET version=?2, present=?3, watched=0, value=?4`,
			w.Name, int64(made.Version), made.Exists, made.Value); err != nil {
			return err
		}
		if watched {
			if err := t.notifyWatchers("cell", w.Name, message{Cell: w.Name}); err != nil {
				return err
			}
		}
		return t.remember(w.ID, int64(made.Version))
	})
	switch {
	case conflict && err == nil:
		return driver.Cell{}, driver.ErrConflict
	case err == nil || err == errNothing:
		return made, nil
	}
	return driver.Cell{}, fullIsPermanent(err)
}

// remember keeps the result of a Swap, and forgets a few old ones.
func (t *tx) remember(id string, version int64) error {
	wall := time.Now()
	if err := t.exec("INSERT INTO swap(id, at, version) VALUES (?,?,?)", id, wall.UnixNano(), version); err != nil {
		return err
	}
	return t.exec("DELETE FROM swap WHERE id IN (SELECT id FROM swap WHERE at < ? ORDER BY at LIMIT 4)", wall.Add(-2*driver.SwapMemory).UnixNano())
}
