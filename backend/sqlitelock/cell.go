package sqlitelock

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

// cell reads a cell. Value is a copy.
func (c conn) cell(name string) (cell driver.Cell, watched bool, err error) {
	_, err = c.one("SELECT version, present, watched, value FROM cell WHERE name = ?", func(s *sqlite.Stmt) {
		cell.Version, cell.Exists, watched = uint64(s.ColumnInt64(0)), s.ColumnBool(1), s.ColumnBool(2)
		if cell.Exists {
			cell.Value = make([]byte, s.ColumnLen(3))
			s.ColumnBytes(3, cell.Value)
		}
	}, name)
	return cell, watched, err
}

func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	if err := driver.CheckCell(name); err != nil {
		return driver.Cell{}, err
	}
	var cell driver.Cell
	err := d.view(ctx, func(c conn, _ moment) (err error) {
		cell, _, err = c.cell(name)
		return err
	})
	return cell, err
}

func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		const most = 100
		for from := ""; ; {
			var names []string
			err := d.view(ctx, func(c conn, _ moment) error {
				names = names[:0]
				return c.all("SELECT name FROM cell WHERE name > ? AND name >= ? AND "+named+" AND present ORDER BY name LIMIT ?", func(s *sqlite.Stmt) bool {
					names = append(names, s.ColumnText(0))
					return true
				}, from, prefix, most)
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, name := range names {
				if name <= from || !strings.HasPrefix(name, prefix) || !yield(name, nil) {
					return
				}
				from = name
			}
			if len(names) < most {
				return
			}
		}
	}
}

func (d *Driver) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	if err := driver.CheckID(s.ID); err != nil {
		return driver.Cell{}, err
	}
	if err := driver.CheckCell(s.Name); err != nil {
		return driver.Cell{}, err
	}
	if !s.Delete && len(s.Value) > driver.MaxCell {
		return driver.Cell{}, driver.ErrTooLarge
	}
	made := driver.Cell{Exists: !s.Delete}
	if made.Exists {
		made.Value = append([]byte{}, s.Value...)
	}
	conflict := false
	err := d.change(ctx, durable, func(t *tx) error {
		conflict = false
		first := int64(-1)
		if _, err := t.one("SELECT version FROM swap WHERE id = ?", func(r *sqlite.Stmt) { first = r.ColumnInt64(0) }, s.ID); err != nil {
			return err
		}
		switch {
		case first == 0:
			return driver.ErrConflict
		case first > 0:
			made.Version = uint64(first)
			return errNothing
		}
		now, watched, err := t.cell(s.Name)
		if err != nil {
			return err
		}
		switch {
		case s.Version < now.Version:
			return driver.ErrConflict // and for ever
		case s.Version > now.Version:
			conflict = true
			return t.remember(s.ID, 0)
		}
		made.Version = max(now.Version+1, uint64(ticks()))
		if err := t.exec(`INSERT INTO cell(name, version, present, watched, value) VALUES (?1,?2,?3,0,?4)
			ON CONFLICT(name) DO UPDATE SET version=?2, present=?3, watched=0, value=?4`,
			s.Name, int64(made.Version), made.Exists, made.Value); err != nil {
			return err
		}
		if watched {
			if err := t.tellWatchers("cell", s.Name, message{Cell: s.Name}); err != nil {
				return err
			}
		}
		return t.remember(s.ID, int64(made.Version))
	})
	switch {
	case conflict && err == nil:
		return driver.Cell{}, driver.ErrConflict
	case err == nil || err == errNothing:
		return made, nil
	case full(err):
		err = driver.Permanent(err)
	}
	return driver.Cell{}, err
}

// remember keeps the result of a Swap, and forgets a few old ones.
func (t *tx) remember(id string, version int64) error {
	wall := time.Now()
	if err := t.exec("INSERT INTO swap(id, at, version) VALUES (?,?,?)", id, wall.UnixNano(), version); err != nil {
		return err
	}
	return t.exec("DELETE FROM swap WHERE id IN (SELECT id FROM swap WHERE at < ? ORDER BY at LIMIT 4)", wall.Add(-2*driver.SwapMemory).UnixNano())
}

func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	if err := driver.CheckCell(name); err != nil {
		return driver.Cell{}, err
	}
	return await(ctx, d, "cell", name,
		func(c conn, _ moment) (driver.Cell, bool, error) {
			cell, _, err := c.cell(name)
			return cell, cell.Version != after, err
		},
		func(t *tx) (changed bool, err error) {
			cell, _, err := t.cell(name)
			if err != nil || cell.Version != after {
				return true, err
			}
			return false, t.exec(`INSERT INTO cell(name, version, present, watched) VALUES (?,0,0,1)
				ON CONFLICT(name) DO UPDATE SET watched=1`, name)
		})
}
