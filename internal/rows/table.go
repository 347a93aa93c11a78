package rows

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table is a table whose rows are locked by their key.
type Table struct {
	D Dialect

	name    string   // as the caller gave it
	table   string   // quoted
	keys    []string // quoted
	version string   // quoted; "" without
}

// NewTable describes a table by its name and the columns of its key.
func NewTable(d Dialect, name string, keys []string) (*Table, error) {
	if d == nil {
		return nil, errors.New("no dialect is given, such as PostgreSQL")
	}
	t := &Table{D: d, name: name}
	var err error
	if t.table, err = d.Table(name); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("table %s: no column of its key is given", name)
	}
	for _, key := range keys {
		quoted, err := d.Column(key)
		if err != nil {
			return nil, err
		}
		if slices.Contains(t.keys, quoted) {
			return nil, fmt.Errorf("table %s: column %s is in its key twice", name, key)
		}
		t.keys = append(t.keys, quoted)
	}
	return t, nil
}

// WithVersion is the same table with a column for versions.
func (t *Table) WithVersion(column string) (*Table, error) {
	v := *t
	var err error
	if v.version, err = t.D.Column(column); err != nil {
		return nil, err
	}
	if slices.Contains(t.keys, v.version) {
		return nil, fmt.Errorf("table %s: column %s is in its key and cannot be its version", t.name, column)
	}
	return &v, nil
}

// Lock locks a row and reads the columns.
func (t *Table) Lock(ctx context.Context, tx Conn, key any, into Columns, c Config) error {
	err := t.lock(ctx, tx, key, into, c)
	if err != nil {
		return fmt.Errorf("lock %s: %w", t.row(key), err)
	}
	return nil
}

func (t *Table) lock(ctx context.Context, tx Conn, key any, into Columns, c Config) error {
	names, dest, err := t.split(into)
	if err != nil {
		return err
	}
	where, args, err := t.where(key, 1)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names, dest = []string{"1"}, []any{new(int)}
	}
	r := Row{
		Table:  t,
		Select: "SELECT " + strings.Join(names, ", ") + where,
		Exists: "SELECT 1" + where,
		Args:   args,
		Into:   dest,
	}
	return fail(ctx, t.D, tx, t.D.LockRow(ctx, tx, r, c))
}

// LockFree locks up to n of the rows, without waiting, and returns which of the
// keys.
func (t *Table) LockFree(ctx context.Context, tx Conn, n int, keys []any, c Config) (locked []int, err error) {
	if n < 1 {
		return nil, fmt.Errorf("lock %d free rows of %s: at least 1 is needed", n, t.name)
	}
	c.Wait = 0
	for i, key := range keys {
		switch err := t.Lock(ctx, tx, key, nil, c); {
		case err == nil:
			locked = append(locked, i)
		case isNone(err), errors.Is(err, ErrBusy):
		default:
			return nil, err
		}
		if len(locked) == n {
			break
		}
	}
	return locked, nil
}

// Read reads columns of a row together with its version.
func (t *Table) Read(ctx context.Context, q Conn, key any, into Columns) (version int64, err error) {
	names, dest, err := t.split(into)
	if err == nil {
		var where string
		var args []any
		if where, args, err = t.where(key, 1); err == nil {
			query := "SELECT " + strings.Join(append(names, t.version), ", ") + where
			err = fail(ctx, t.D, q, q.Row(ctx, query, args, append(dest, &version)...))
		}
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", t.row(key), err)
	}
	return version, nil
}

// Write changes a row of that version. It names all columns of the key and the
// version, which it always changes: so each row that it finds counts as changed,
// on MySQL too.
func (t *Table) Write(ctx context.Context, e Conn, key any, version int64, values Columns) error {
	names, args, err := t.split(values)
	if err != nil {
		return fmt.Errorf("write %s: %w", t.row(key), err)
	}
	var set strings.Builder
	for i, name := range names {
		fmt.Fprintf(&set, "%s = %s, ", name, t.D.Param(i+1))
	}
	head := fmt.Sprintf("UPDATE %s SET %s%s = %s + 1", t.table, &set, t.version, t.version)
	return t.change(ctx, e, "write", head, args, key, version)
}

// Delete removes a row of that version.
func (t *Table) Delete(ctx context.Context, e Conn, key any, version int64) error {
	return t.change(ctx, e, "delete", "DELETE FROM "+t.table, nil, key, version)
}

// change runs a statement on the row of that version, if there is one.
func (t *Table) change(ctx context.Context, e Conn, verb, head string, args []any, key any, version int64) error {
	condition, keys, err := t.condition(key, len(args)+1)
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, t.row(key), err)
	}
	args = append(append(args, keys...), version)
	query := fmt.Sprintf("%s WHERE %s AND %s = %s", head, condition, t.version, t.D.Param(len(args)))
	n, err := e.Exec(ctx, query, args...)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", verb, t.row(key), fail(ctx, t.D, e, err))
	case n == 0:
		return fmt.Errorf("%s %s: %w: version %d does not stand any more", verb, t.row(key), ErrConflict, version)
	case n > 1:
		return fmt.Errorf("%s %s: %d rows have this key; it must name one", verb, t.row(key), n)
	}
	return nil
}

// row names a row in messages.
func (t *Table) row(key any) string {
	if parts, ok := key.(Key); ok {
		var b strings.Builder
		for _, part := range parts {
			fmt.Fprintf(&b, "/%v", part)
		}
		return t.name + b.String()
	}
	return fmt.Sprintf("%s/%v", t.name, key)
}

func (t *Table) where(key any, first int) (where string, args []any, err error) {
	condition, args, err := t.condition(key, first)
	return " FROM " + t.table + " WHERE " + condition, args, err
}

// condition selects the row; its arguments are numbered from first.
func (t *Table) condition(key any, first int) (condition string, args []any, err error) {
	args, ok := key.(Key)
	if !ok {
		args = []any{key}
	}
	if len(args) != len(t.keys) {
		return "", nil, fmt.Errorf("the key has %d values, and %d columns", len(args), len(t.keys))
	}
	parts := make([]string, len(args))
	for i, name := range t.keys {
		parts[i] = name + " = " + t.D.Param(first+i)
	}
	return strings.Join(parts, " AND "), slices.Clone(args), nil
}

// split returns the quoted names in a fixed order, so that databases see the
// same statement each time, and what belongs to them.
func (t *Table) split(c Columns) (names []string, values []any, err error) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		quoted, err := t.D.Column(name)
		if err != nil {
			return nil, nil, err
		}
		if strings.EqualFold(quoted, t.version) {
			return nil, nil, errors.New("the version is not among the columns: it is read and written by itself")
		}
		names, values = append(names, quoted), append(values, c[name])
	}
	return names, values, nil
}

// found says whether a query has a row.
func found(ctx context.Context, c Conn, query string, args ...any) (bool, error) {
	var one int
	err := c.Row(ctx, query, args, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
