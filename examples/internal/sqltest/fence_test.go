package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/once"
	"github.com/interlock-go/interlock/rowlock"
)

// shared is the grant of a reader or of a permit.
type shared uint64

func (s shared) Token() uint64 { return uint64(s) }
func (shared) Exclusive() bool { return false }

// checker is a fence in an open database whose resource is called 1.
type checker func(tx *sql.Tx, g fence.Grant) error

// eachFence runs a test with both fences on each database, where there is an
// item 1 with a stock of 100.
func eachFence(t *testing.T, test func(t *testing.T, d *instance, check checker)) {
	t.Run("Table", func(t *testing.T) {
		each(t, databases, func(t *testing.T, d *instance) {
			f := errtest.Must(fence.NewTable(d.fence, fence.DefaultTable))(t)
			for range 2 { // a second time changes nothing
				noError(t, f.Create(t.Context(), d.open(t)))
			}
			test(t, d, func(tx *sql.Tx, g fence.Grant) error { return f.Check(t.Context(), tx, "1", g) })
		}, "CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL)", "INSERT INTO items VALUES (1, 100)")
	})
	t.Run("Column", func(t *testing.T) {
		each(t, databases, func(t *testing.T, d *instance) {
			f := errtest.Must(fence.NewColumn(d.fence, "items", "id", "token"))(t)
			test(t, d, func(tx *sql.Tx, g fence.Grant) error { return f.Check(t.Context(), tx, 1, g) })
		}, "CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, token BIGINT)", "INSERT INTO items VALUES (1, 100, NULL)")
	})
}

// seen has the resource see a token.
func seen(t *testing.T, db *sql.DB, check checker, token fence.Token) {
	t.Helper()
	tx := begin(t, db)
	noError(t, check(tx, token))
	commit(t, tx)
}

// stale makes sure that a token was refused because of the one that the resource has seen.
func stale(t *testing.T, err error, token, seen uint64) {
	t.Helper()
	var got *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &got) || got.Token != token || got.Seen != seen {
		t.Errorf("got %v, want token %d refused because of %d", err, token, seen)
	}
}

func TestOnlyTheLargestTokenWrites(t *testing.T) {
	eachFence(t, func(t *testing.T, d *instance, check checker) {
		db := d.open(t)
		for _, c := range []struct {
			token fence.Token
			seen  uint64 // 0: accepted
		}{{5, 0}, {5, 0}, {4, 5}, {6, 0}, {5, 6}, {1 << 62, 0}, {6, 1 << 62}, {math.MaxInt64, 0}, {math.MaxInt64, 0}} {
			tx := begin(t, db)
			err := check(tx, c.token)
			if c.seen == 0 {
				isErr(t, err, nil, fmt.Sprint("token ", c.token))
			} else {
				stale(t, err, uint64(c.token), c.seen)
			}
			commit(t, tx)
		}
	})
}

// A holder reads, is stopped, and writes after the next holder has only read.
func TestALateWriteIsRefusedOnceTheNextHolderHasRead(t *testing.T) {
	eachFence(t, func(t *testing.T, d *instance, check checker) {
		old, next := d.open(t), d.open(t)
		read := func(db *sql.DB, token fence.Token) int64 {
			tx := begin(t, db)
			noError(t, check(tx, token))
			defer commit(t, tx)
			return number(t, tx, "SELECT stock FROM items WHERE id = 1")
		}
		write := func(db *sql.DB, token fence.Token, stock int64) error {
			tx := begin(t, db)
			if err := check(tx, token); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			must(t, tx, d.sql("UPDATE items SET stock = ? WHERE id = 1"), stock)
			return tx.Commit()
		}
		readByOld, readByNext := read(old, 7), read(next, 8)
		isErr(t, write(old, 7, readByOld-1), fence.ErrStale, "the late write")
		isErr(t, write(next, 8, readByNext-1), nil, "the holder's write")
		if got := number(t, next, "SELECT stock FROM items WHERE id = 1"); got != 99 {
			t.Errorf("stock: got %d, want 99", got)
		}
	})
}

func TestNoOtherCheckSucceedsBeforeTheTransactionEnds(t *testing.T) {
	t.Run("the first check of a token", func(t *testing.T) { noOtherCheck(t, false) })
	t.Run("a further one", func(t *testing.T) { noOtherCheck(t, true) })
}

func noOtherCheck(t *testing.T, further bool) {
	eachFence(t, func(t *testing.T, d *instance, check checker) {
		if further {
			seen(t, d.open(t), check, 7)
		}
		a, b := begin(t, d.open(t)), begin(t, d.open(t))
		noError(t, check(a, fence.Token(7)))
		noError(t, d.freed(t, "the check of the larger token, after the first has ended", func() error { return check(b, fence.Token(8)) }, func() {
			must(t, a, "UPDATE items SET stock = 99 WHERE id = 1")
			commit(t, a)
		}))
		if got := number(t, b, "SELECT stock FROM items WHERE id = 1"); got != 99 {
			t.Errorf("what is read under the larger token: got %d, want 99", got)
		}
	})
}

func TestARolledBackCheckLeavesNothing(t *testing.T) {
	eachFence(t, func(t *testing.T, d *instance, check checker) {
		db := d.open(t)
		tx := begin(t, db)
		noError(t, check(tx, fence.Token(8)))
		noError(t, tx.Rollback())
		errtest.Is(t, check(begin(t, db), fence.Token(7)), nil, "token 7 after 8 was rolled back")
	})
}

func TestTokensThatCannotBeComparedAreRefused(t *testing.T) {
	eachFence(t, func(t *testing.T, d *instance, check checker) {
		tx := begin(t, d.open(t))
		for _, g := range []fence.Grant{nil, fence.Token(0), fence.Token(math.MaxInt64 + 1), shared(5)} {
			isErr(t, check(tx, g), fence.ErrNotComparable, fmt.Sprintf("%#v", g))
		}
		isErr(t, check(tx, fence.Token(1)), nil, "a refused token has left a mark")
	})
}

func TestEachResourceHasItsOwnToken(t *testing.T) {
	each(t, databases, func(t *testing.T, d *instance) {
		db := d.open(t)
		f := errtest.Must(fence.NewTable(d.fence, "tokens"))(t)
		noError(t, f.Create(t.Context(), db))
		tx := begin(t, db)
		long := strings.Repeat("x", 511)
		for _, resource := range []string{"a", "A", "a ", "ä", long + "a"} {
			noError(t, f.Check(t.Context(), tx, resource, fence.Token(9)))
		}
		for _, resource := range []string{"b", "a/b", long + "b"} {
			isErr(t, f.Check(t.Context(), tx, resource, fence.Token(3)), nil)
		}
		if got := number(t, tx, "SELECT count(*) FROM tokens"); got != 8 {
			t.Errorf("%d resources, want 8", got)
		}
		for _, resource := range []string{"", long + "ab"} {
			isOther(t, f.Check(t.Context(), tx, resource, fence.Token(9)), fmt.Sprintf("a resource of %d bytes", len(resource)))
		}
	})
}

func TestColumnNamesOneRow(t *testing.T) {
	each(t, databases, func(t *testing.T, d *instance) {
		db := d.open(t)
		check := func(key any, names ...string) error {
			f := errtest.Must(fence.NewColumn(d.fence, names[0], names[1], names[2]))(t)
			tx := begin(t, db)
			defer tx.Rollback()
			return f.Check(t.Context(), tx, key, fence.Token(5))
		}
		isErr(t, check(7, "items", "id", "token"), sql.ErrNoRows, "no such row")
		isOther(t, check(2, "items", "id", "token"), "two rows with one key", fence.ErrStale)
		for _, names := range [][]string{{"itemz", "id", "token"}, {"items", "idd", "token"}, {"items", "id", "tokn"}} {
			isOther(t, check(1, names...), fmt.Sprint(names), fence.ErrStale, sql.ErrNoRows)
		}
		for _, names := range [][3]string{{"", "id", "token"}, {"items", "", "token"}, {"items", "id", ""}} {
			isOther(t, errOf(fence.NewColumn(d.fence, names[0], names[1], names[2])), fmt.Sprintf("NewColumn%q", names))
		}
	}, "CREATE TABLE items (id INTEGER, token BIGINT)", "INSERT INTO items VALUES (1, 0), (2, 0), (2, 0)")
}

// Promise: a check sees the latest token, also in a transaction that has read an older
// one before.
func TestACheckSeesTheLatestToken(t *testing.T) {
	eachFence(t, func(t *testing.T, d *instance, check checker) {
		db := d.open(t)
		seen(t, db, check, 5)
		old := begin(t, db)
		number(t, old, "SELECT stock FROM items WHERE id = 1") // from now on MariaDB reads this moment
		seen(t, db, check, 9)
		err := check(old, fence.Token(7))
		if d.database == sqlite { // refuses it because of the old read
			isOther(t, err, "a token that is too old")
			return
		}
		stale(t, err, 7, 9)
	})
}

// Promise: a check whose token was not stored does not succeed, whatever the reason was.
func TestATokenThatIsNotStoredIsNotAccepted(t *testing.T) {
	table := errtest.Must(fence.NewTable(fence.SQLite, fence.DefaultTable))(t)
	column := errtest.Must(fence.NewColumn(fence.SQLite, "items", "id", "token"))(t)
	db := open(t, newFile(t, "WAL",
		"CREATE TABLE "+fence.DefaultTable+" (resource TEXT PRIMARY KEY, token INTEGER NOT NULL)",
		"INSERT INTO "+fence.DefaultTable+" VALUES ('1', 3)",
		"CREATE TRIGGER keep_the_token BEFORE UPDATE ON "+fence.DefaultTable+" BEGIN SELECT RAISE(IGNORE); END",
		"CREATE TABLE items (id INTEGER PRIMARY KEY, token INTEGER)",
		"INSERT INTO items VALUES (1, 3)",
		"CREATE TRIGGER keep_the_items_token BEFORE UPDATE ON items BEGIN SELECT RAISE(IGNORE); END",
	))
	for name, check := range map[string]checker{
		"Table":  func(tx *sql.Tx, g fence.Grant) error { return table.Check(t.Context(), tx, "1", g) },
		"Column": func(tx *sql.Tx, g fence.Grant) error { return column.Check(t.Context(), tx, 1, g) },
	} {
		tx := begin(t, db)
		isOther(t, check(tx, fence.Token(5)), name+": the row holds 3 and has not taken token 5", fence.ErrStale)
		commit(t, tx)
	}
}

// Promise: of many holders at once, the last word is the largest token's, and
// nobody fails for another reason than that.
func TestManyCheckAtOnce(t *testing.T) {
	eachFence(t, func(t *testing.T, d *instance, check checker) {
		const holders = 20
		db := d.open(t)
		if d.database == sqlite {
			db.SetMaxOpenConns(1)
		}
		var all sync.WaitGroup
		for token := fence.Token(1); token <= holders; token++ {
			all.Go(func() {
				tx, err := db.Begin()
				if err != nil {
					t.Error(err)
					return
				}
				defer tx.Rollback()
				switch err := check(tx, token); {
				case err == nil:
					_, err := tx.ExecContext(t.Context(), d.sql("UPDATE items SET stock = ? WHERE id = 1"), int64(token))
					isErr(t, errors.Join(err, tx.Commit()), nil)
				case token == holders || !errors.Is(err, fence.ErrStale):
					t.Errorf("token %d: %v", token, err)
				}
			})
		}
		waitFor(t, "many checks at once", &all)
		if got := number(t, db, "SELECT stock FROM items WHERE id = 1"); got != holders {
			t.Errorf("written by token %d, want the largest, %d", got, holders)
		}
	})
}

type creator interface {
	Create(ctx context.Context, db *sql.DB) error
}

// Promise: clients that create a table at once all succeed.
func TestTheTableIsCreatedByManyAtOnce(t *testing.T) {
	for name, table := range map[string]func(d *instance) (creator, error){
		"fence": func(d *instance) (creator, error) { return fence.NewTable(d.fence, fence.DefaultTable) },
		"once":  func(d *instance) (creator, error) { return once.NewTable(d.once, once.DefaultTable) },
		"names": func(d *instance) (creator, error) { return rowlock.NewNames(d.rows, rowlock.DefaultNames) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, databases, func(t *testing.T, d *instance) {
				var all sync.WaitGroup
				for range 8 {
					db := d.open(t)
					c := errtest.Must(table(d))(t)
					all.Go(func() { isErr(t, c.Create(t.Context(), db), nil) })
				}
				waitFor(t, "clients that create the table at once", &all)
			}, "CREATE TABLE items (id INTEGER)") // many that make a file of SQLite and set its journal mode at once can fail at that
		})
	}
}
