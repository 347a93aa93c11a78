package sqltest

import (
	"database/sql"
	"errors"
	"math"
	"testing"

	"github.com/interlock-go/interlock/fence"
)

// shared is the grant of a reader or of a permit.
type shared uint64

func (s shared) Token() uint64 { return uint64(s) }
func (shared) Exclusive() bool { return false }

// checker is a fence in an open database whose resource is called 1.
type checker func(tx *sql.Tx, g fence.Grant) error

func fences(t *testing.T) map[string]func(t *testing.T) (file string, check checker) {
	return map[string]func(t *testing.T) (string, checker){
		"Table": func(t *testing.T) (string, checker) {
			file := newFile(t, "WAL", "CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL)", "INSERT INTO items VALUES (1, 100)")
			f, err := fence.NewTable(fence.SQLite, fence.DefaultTable)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // a second time changes nothing
				if err := f.Create(t.Context(), open(t, file)); err != nil {
					t.Fatal(err)
				}
			}
			return file, func(tx *sql.Tx, g fence.Grant) error { return f.Check(t.Context(), tx, "1", g) }
		},
		"Column": func(t *testing.T) (string, checker) {
			file := newFile(t, "WAL", "CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, token INTEGER)", "INSERT INTO items VALUES (1, 100, NULL)")
			f, err := fence.NewColumn(fence.SQLite, "items", "id", "token")
			if err != nil {
				t.Fatal(err)
			}
			return file, func(tx *sql.Tx, g fence.Grant) error { return f.Check(t.Context(), tx, 1, g) }
		},
	}
}

func TestOnlyTheLargestTokenWrites(t *testing.T) {
	for name, newFence := range fences(t) {
		t.Run(name, func(t *testing.T) {
			file, check := newFence(t)
			db := open(t, file)
			for _, c := range []struct {
				token fence.Token
				seen  uint64 // 0: accepted
			}{{5, 0}, {5, 0}, {4, 5}, {6, 0}, {5, 6}, {1 << 62, 0}, {6, 1 << 62}, {math.MaxInt64, 0}, {math.MaxInt64, 0}} {
				tx := begin(t, db)
				err := check(tx, c.token)
				var stale *fence.StaleError
				switch {
				case c.seen == 0 && err != nil:
					t.Errorf("token %d: %v", c.token, err)
				case c.seen != 0 && (!errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || stale.Token != uint64(c.token) || stale.Seen != c.seen):
					t.Errorf("token %d: got %v, want ErrStale with %d and %d", c.token, err, c.token, c.seen)
				}
				commit(t, tx)
			}
		})
	}
}

// A holder reads, is stopped, and writes after the next holder has only read.
func TestALateWriteIsRefusedOnceTheNextHolderHasRead(t *testing.T) {
	for name, newFence := range fences(t) {
		t.Run(name, func(t *testing.T) {
			file, check := newFence(t)
			old, next := open(t, file), open(t, file)
			read := func(db *sql.DB, token fence.Token) int64 {
				tx := begin(t, db)
				if err := check(tx, token); err != nil {
					t.Fatal(err)
				}
				defer commit(t, tx)
				return number(t, tx, "SELECT stock FROM items WHERE id = 1")
			}
			write := func(db *sql.DB, token fence.Token, stock int64) error {
				tx := begin(t, db)
				if err := check(tx, token); err != nil {
					return errors.Join(err, tx.Rollback())
				}
				must(t, tx, "UPDATE items SET stock = ? WHERE id = 1", stock)
				return tx.Commit()
			}
			seenByOld := read(old, 7)
			seenByNext := read(next, 8)
			if err := write(old, 7, seenByOld-1); !errors.Is(err, fence.ErrStale) {
				t.Errorf("the late write: got %v, want ErrStale", err)
			}
			if err := write(next, 8, seenByNext-1); err != nil {
				t.Error("the holder's write:", err)
			}
			if got := number(t, next, "SELECT stock FROM items WHERE id = 1"); got != 99 {
				t.Errorf("stock: got %d, want 99", got)
			}
		})
	}
}

func TestNoOtherCheckSucceedsBeforeTheTransactionEnds(t *testing.T) {
	for name, newFence := range fences(t) {
		t.Run(name, func(t *testing.T) {
			file, check := newFence(t)
			a, b := begin(t, open(t, file)), begin(t, open(t, file))
			if err := check(a, fence.Token(7)); err != nil {
				t.Fatal(err)
			}
			if err := check(b, fence.Token(8)); err == nil {
				t.Error("a second transaction checked a larger token while the first could still write")
			}
		})
	}
}

func TestARolledBackCheckLeavesNothing(t *testing.T) {
	for name, newFence := range fences(t) {
		t.Run(name, func(t *testing.T) {
			file, check := newFence(t)
			db := open(t, file)
			tx := begin(t, db)
			if err := check(tx, fence.Token(8)); err != nil {
				t.Fatal(err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if err := check(begin(t, db), fence.Token(7)); err != nil {
				t.Errorf("token 7 after 8 was rolled back: %v", err)
			}
		})
	}
}

func TestTokensThatCannotBeComparedAreRefused(t *testing.T) {
	for name, newFence := range fences(t) {
		t.Run(name, func(t *testing.T) {
			file, check := newFence(t)
			tx := begin(t, open(t, file))
			for _, g := range []fence.Grant{nil, fence.Token(0), fence.Token(math.MaxInt64 + 1), shared(5)} {
				if err := check(tx, g); !errors.Is(err, fence.ErrNotComparable) {
					t.Errorf("%#v: got %v, want ErrNotComparable", g, err)
				}
			}
			if err := check(tx, fence.Token(1)); err != nil {
				t.Error("a refused token has left a mark:", err)
			}
		})
	}
}

func TestEachResourceHasItsOwnToken(t *testing.T) {
	db := open(t, newFile(t, "WAL"))
	f, err := fence.NewTable(fence.SQLite, "main.tokens")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, db)
	for _, resource := range []string{"a", "A", "a ", "ä"} {
		if err := f.Check(t.Context(), tx, resource, fence.Token(9)); err != nil {
			t.Fatal(err)
		}
	}
	for _, resource := range []string{"b", "a/b"} {
		if err := f.Check(t.Context(), tx, resource, fence.Token(3)); err != nil {
			t.Error(err)
		}
	}
	if got := number(t, tx, "SELECT count(*) FROM tokens"); got != 6 {
		t.Errorf("%d resources, want 6", got)
	}
	for _, resource := range []string{"", string(make([]byte, 513))} {
		if err := f.Check(t.Context(), tx, resource, fence.Token(9)); err == nil {
			t.Errorf("a resource of %d bytes: want an error", len(resource))
		}
	}
}

func TestColumnNamesOneRow(t *testing.T) {
	db := open(t, newFile(t, "WAL",
		"CREATE TABLE items (id INTEGER, token INTEGER)", "INSERT INTO items VALUES (1, 0), (2, 0), (2, 0)"))
	tx := begin(t, db)
	check := func(key any, names ...string) error {
		f, err := fence.NewColumn(fence.SQLite, names[0], names[1], names[2])
		if err != nil {
			t.Fatal(err)
		}
		return f.Check(t.Context(), tx, key, fence.Token(5))
	}
	if err := check(7, "items", "id", "token"); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no such row: got %v, want sql.ErrNoRows", err)
	}
	if err := check(2, "items", "id", "token"); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("two rows with one key: got %v, want an error that says so", err)
	}
	for _, names := range [][]string{{"itemz", "id", "token"}, {"items", "idd", "token"}, {"items", "id", "tokn"}} {
		if err := check(1, names...); err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, sql.ErrNoRows) {
			t.Errorf("%v: got %v, want an error that names the mistake", names, err)
		}
	}
	for _, names := range [][3]string{{"", "id", "token"}, {"items", "", "token"}, {"items", "id", ""}} {
		if _, err := fence.NewColumn(fence.SQLite, names[0], names[1], names[2]); err == nil {
			t.Errorf("NewColumn%q: want an error", names)
		}
	}
}
