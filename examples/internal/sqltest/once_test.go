package sqltest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/once"
	"github.com/interlock-go/interlock/rowlock"
)

// eachOnce runs a test on each database, which has an item 1 with a stock of 100.
func eachOnce(t *testing.T, kinds []*database, test func(t *testing.T, d *instance, orders *once.Table)) {
	each(t, kinds, func(t *testing.T, d *instance) {
		orders := errtest.Must(once.NewTable(d.once, once.DefaultTable))(t)
		for range 2 { // a second time changes nothing
			noError(t, orders.Create(t.Context(), d.open(t)))
		}
		test(t, d, orders)
	}, "CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL)", "INSERT INTO items VALUES (1, 100), (2, 100)")
}

// sell takes one of item 1, and answers with the text.
func sell(ctx context.Context, tx *sql.Tx, answer string) ([]byte, error) {
	_, err := tx.ExecContext(ctx, "UPDATE items SET stock = stock - 1 WHERE id = 1")
	return []byte(answer), err
}

func stock(t *testing.T, db queryer, want int64) {
	t.Helper()
	if got := number(t, db, "SELECT stock FROM items WHERE id = 1"); got != want {
		t.Errorf("the stock is %d, want %d", got, want)
	}
}

// gives fails the test unless Do returns a result, and says whether it has stood there before.
func gives(t *testing.T, orders *once.Table, tx *sql.Tx, key, answer, want string, repeated bool, opts ...once.Option) {
	t.Helper()
	got, again, err := orders.Do(t.Context(), tx, key, func() ([]byte, error) { return sell(t.Context(), tx, answer) }, opts...)
	if err != nil || string(got) != want || again != repeated {
		t.Fatalf("%s: got %q, %v, %v; want %q, %v", key, got, again, err, want, repeated)
	}
}

// Promise: the work takes effect once for each key; whoever asks again gets the first result.
func TestOnceTheWorkTakesEffectOnceForEachKey(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		for i := range 3 {
			tx := begin(t, db)
			gives(t, orders, tx, "a", fmt.Sprint("answer ", i), "answer 0", i > 0)
			gives(t, orders, tx, "b", fmt.Sprint("other ", i), "other 0", i > 0)
			commit(t, tx)
		}
		if got, found, err := orders.Lookup(t.Context(), db, "a"); string(got) != "answer 0" || !found || err != nil {
			t.Errorf("looked up: %q, %v, %v", got, found, err)
		}
		if got, found, err := orders.Lookup(t.Context(), db, "c"); got != nil || found || err != nil {
			t.Errorf("looked up what is not there: %q, %v, %v", got, found, err)
		}
		stock(t, db, 98)
	})
}

// Promise: work that was rolled back is done by the next call.
func TestOnceWorkThatWasRolledBackIsDoneAgain(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		tx := begin(t, db)
		gives(t, orders, tx, "a", "first", "first", false)
		noError(t, tx.Rollback())
		stock(t, db, 100)
		tx = begin(t, db)
		gives(t, orders, tx, "a", "second", "second", false)
		commit(t, tx)
		stock(t, db, 99)
	})
}

// Promise: of two calls with one key the second waits; it gets the result of the first, or does
// the work if the first was rolled back.
func TestOnceTheSecondOfTwoCallsWaits(t *testing.T) {
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprint("the first commits: ", commits), func(t *testing.T) {
			eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
				a, other := begin(t, d.open(t)), d.open(t)
				gives(t, orders, a, "key", "first", "first", false)
				var ended atomic.Bool
				type answer struct {
					text     string
					repeated bool
					err      error
				}
				second := make(chan answer, 1)
				go func() {
					var got answer
					text, repeated, err := orders.Run(t.Context(), other, 1, "key", func(ctx context.Context, tx *sql.Tx) ([]byte, error) { return sell(ctx, tx, "second") })
					got = answer{string(text), repeated, err}
					if err == nil && !ended.Load() {
						got.err = errors.New("it did not wait")
					}
					second <- got
				}()
				d.awaitWaiter(t)
				ended.Store(true)
				want := answer{"second", false, nil}
				if commits {
					want = answer{"first", true, nil}
					commit(t, a)
				} else if err := a.Rollback(); err != nil {
					t.Fatal(err)
				}
				if got := errtest.Received(t, "the second call, after the first has ended", second); got != want {
					t.Errorf("got %v, want %v", got, want)
				}
				stock(t, other, 99)
			})
		})
	}
}

// Promise: of many that ask at once with one key one does the work, and all get its result.
func TestOnceManyAskAtOnce(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		const callers = 20
		db := d.open(t)
		answers := make([]string, callers)
		var ran atomic.Int64
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				text, repeated, err := orders.Run(t.Context(), db, 100, "key", func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
					if n := ran.Add(1); n <= 3 { // the first three die in the middle
						return nil, errors.Join(rowlock.ErrConflict, errors.New("once more"))
					}
					return sell(ctx, tx, fmt.Sprint("caller ", i))
				})
				if err != nil {
					t.Errorf("caller %d: %v, %v", i, repeated, err)
				}
				answers[i] = string(text)
			})
		}
		waitFor(t, "many that ask at once", &all)
		for _, a := range answers {
			if a != answers[0] || a == "" {
				t.Errorf("the answers differ: %q", answers)
				break
			}
		}
		stock(t, db, 99)
	})
}

// Promise: two that repeat a call do not wait for each other.
func TestOnceRepeatedCallsDoNotExcludeEachOther(t *testing.T) {
	eachOnce(t, []*database{postgres, mariadb}, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		tx := begin(t, db)
		gives(t, orders, tx, "key", "answer", "answer", false)
		commit(t, tx)
		a, b := begin(t, db), begin(t, db)
		for _, tx := range []*sql.Tx{a, b, a} {
			gives(t, orders, tx, "key", "", "answer", true)
		}
		commit(t, a)
		commit(t, b)
	})
}

// Promise: a holder whose token is smaller than that of the one that has done the work is refused;
// others get the result.
func TestOnceAStaleGrantIsRefused(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		tx := begin(t, db)
		gives(t, orders, tx, "fenced", "34", "34", false, once.Under(fence.Token(34)))
		gives(t, orders, tx, "free", "0", "0", false)
		commit(t, tx)
		for _, c := range []struct {
			key  string
			opts []once.Option
			want error
		}{
			{"fenced", nil, nil},
			{"fenced", []once.Option{once.Under(fence.Token(34))}, nil},
			{"fenced", []once.Option{once.Under(fence.Token(35))}, nil},
			{"fenced", []once.Option{once.Under(fence.Token(33))}, fence.ErrStale},
			{"free", []once.Option{once.Under(fence.Token(33))}, nil},
			{"fenced", []once.Option{once.Under(nil)}, fence.ErrNotComparable},
			{"fenced", []once.Option{once.Under(shared(50))}, fence.ErrNotComparable},
			{"new", []once.Option{once.Under(nil)}, fence.ErrNotComparable},
		} {
			tx := begin(t, db)
			_, _, err := orders.Do(t.Context(), tx, c.key, func() ([]byte, error) {
				t.Errorf("%s: the work was done again", c.key)
				return nil, nil
			}, c.opts...)
			if !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", c.key, err, c.want)
			}
			var stale *fence.StaleError
			if c.want == fence.ErrStale && (!errors.As(err, &stale) || stale.Token != 33 || stale.Seen != 34) {
				t.Errorf("%s: got %v, want both tokens", c.key, err)
			}
			if ended := tx.Commit(); (c.want == nil) != (ended == nil) || ended != nil && !errors.Is(ended, sql.ErrTxDone) {
				t.Errorf("%s: the commit after %v: %v", c.key, err, ended)
			}
		}
	})
}

// Promise: a key that was used for another request is noticed, where both calls say what it is.
func TestOnceAKeyOfAnotherRequestIsRefused(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		tx := begin(t, db)
		gives(t, orders, tx, "known", "1", "1", false, once.Request([]byte("POST"), []byte("/a")))
		gives(t, orders, tx, "unknown", "2", "2", false)
		commit(t, tx)
		tx = begin(t, db)
		gives(t, orders, tx, "known", "", "1", true, once.Request([]byte("POST"), []byte("/a")))
		gives(t, orders, tx, "known", "", "1", true)
		gives(t, orders, tx, "unknown", "", "2", true, once.Request([]byte("POST")))
		commit(t, tx)
		for _, parts := range [][][]byte{{[]byte("POST/a")}, {[]byte("POST"), []byte("/b")}, {[]byte("POST/"), []byte("a")}, {}} {
			tx := begin(t, db)
			_, _, err := orders.Do(t.Context(), tx, "known", func() ([]byte, error) {
				t.Error("the work was done again")
				return nil, nil
			}, once.Request(parts...))
			if !errors.Is(err, once.ErrMismatch) {
				t.Errorf("%q: got %v, want ErrMismatch", parts, err)
			}
		}
	})
}

// Promise: when the work fails, in whatever way, nothing of its transaction is committed.
func TestOnceAFailureLeavesNothing(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func() ([]byte, error){
		"an error":           func() ([]byte, error) { return nil, broken },
		"a panic":            func() ([]byte, error) { panic(broken) },
		"the goroutine ends": func() ([]byte, error) { runtime.Goexit(); return nil, nil },
		"a result too large": func() ([]byte, error) { return make([]byte, once.MaxResult+1), nil },
	} {
		t.Run(name, func(t *testing.T) {
			eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
				db := d.open(t)
				tx := begin(t, db)
				failed := make(chan error, 1)
				go func() {
					var err error
					defer func() {
						_ = recover()
						failed <- err
					}()
					_, _, err = orders.Do(t.Context(), tx, "key", func() ([]byte, error) {
						if _, err := sell(t.Context(), tx, ""); err != nil {
							t.Error(err)
						}
						return fail()
					})
				}()
				err := errtest.Received(t, "the call that fails", failed)
				if name == "an error" && err != broken {
					t.Errorf("got %v, want the function's own error", err)
				}
				if name == "a result too large" && !errors.Is(err, once.ErrInvalid) {
					t.Errorf("got %v, want ErrInvalid", err)
				}
				if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
					t.Errorf("the commit afterwards: %v, want that the transaction has ended", err)
				}
				stock(t, db, 100)
				tx = begin(t, db)
				gives(t, orders, tx, "key", "answer", "answer", false)
				commit(t, tx)
			})
		})
	}
}

// Promise: a result comes back as it was, and keys are told apart byte by byte.
func TestOnceResultsAndKeysAreExact(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		long := strings.Repeat("x", once.MaxKey-1)
		want := map[string][]byte{
			"nil": nil, "empty": {}, "zero": {0}, "bytes": {0xff, 0, 0xfe, '\'', '\\'}, "large": bytes.Repeat([]byte{7, 0}, once.MaxResult/2),
			"a": []byte("1"), "A": []byte("2"), "a ": []byte("3"), "ä": []byte("4"), "a\u0308": []byte("5"), long + "a": []byte("6"), long + "b": []byte("7"),
		}
		for _, repeated := range []bool{false, true} {
			for key, result := range want {
				tx := begin(t, db)
				got, again, err := orders.Do(t.Context(), tx, key, func() ([]byte, error) { return result, nil })
				if err != nil || !bytes.Equal(got, result) || again != repeated {
					t.Errorf("%.20q: got %d bytes, %v, %v; want %d bytes, %v", key, len(got), again, err, len(result), repeated)
				}
				commit(t, tx)
			}
		}
		for _, key := range []string{"", long + "ab", "a\x00b", "a\xff"} {
			tx := begin(t, db)
			if _, _, err := orders.Do(t.Context(), tx, key, func() ([]byte, error) { return nil, nil }); !errors.Is(err, once.ErrInvalid) {
				t.Errorf("%.20q: got %v, want ErrInvalid", key, err)
			}
		}
	})
}

// Promise: a function that breaks the rules does not make its work be done twice, nor wait for itself.
func TestOnceAFunctionThatBreaksTheRules(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		tx := begin(t, db)
		_, _, err := orders.Do(t.Context(), tx, "itself", func() ([]byte, error) {
			inner, _, err := orders.Do(t.Context(), tx, "itself", func() ([]byte, error) {
				t.Error("the work was done inside itself")
				return nil, nil
			})
			return inner, err
		})
		if err == nil || !strings.Contains(err.Error(), "same key") {
			t.Errorf("it asks with its own key: got %v", err)
		}
		_ = tx.Rollback() // done already

		tx = begin(t, db)
		_, _, err = orders.Do(t.Context(), tx, "ends", func() ([]byte, error) {
			if _, err := sell(t.Context(), tx, ""); err != nil {
				return nil, err
			}
			return []byte("answer"), tx.Commit()
		})
		if !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("it ends the transaction: got %v", err)
		}
		_, _, err = orders.Run(t.Context(), db, 3, "ends", func(context.Context, *sql.Tx) ([]byte, error) {
			t.Error("work that was committed was done again")
			return nil, nil
		})
		if err == nil {
			t.Error("work without a result: want an error")
		}
		stock(t, db, 99)
	})
}

// Promise: where the database ends the transaction under the function, and that does not say so,
// nothing is stored.
func TestOnceATransactionThatEndedUnderItsFunction(t *testing.T) {
	eachOnce(t, []*database{mariadb}, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		tx := begin(t, db)
		_, _, err := orders.Do(t.Context(), tx, "key", func() ([]byte, error) {
			_, err := tx.Exec("ROLLBACK") // as the server does it after a deadlock
			return []byte("answer"), err
		})
		if err == nil || !strings.Contains(err.Error(), "return every error") {
			t.Errorf("got %v, want that the transaction has ended", err)
		}
		if n := number(t, db, "SELECT count(*) FROM "+once.DefaultTable); n != 0 {
			t.Errorf("%d rows are stored", n)
		}
	})
}

// Promise: a transaction that has read before the result was committed gets the result, or is told
// to begin again; it never does the work.
func TestOnceATransactionThatIsOlderThanTheResult(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
				if d.database == sqlite && level != sql.LevelDefault {
					return // it has one level
				}
				db := d.open(t)
				old := errtest.Must(db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level}))(t)
				defer old.Rollback()
				number(t, old, "SELECT count(*) FROM "+once.DefaultTable)
				if level == sql.LevelSerializable && d.database != postgres {
					// A plain read locks there: the other transaction waits for its end.
					noError(t, old.Commit())
					old = begin(t, db)
				}
				tx := begin(t, db)
				gives(t, orders, tx, "key", "answer", "answer", false)
				commit(t, tx)
				text, repeated, err := orders.Do(t.Context(), old, "key", func() ([]byte, error) {
					t.Error("the work was done again")
					return nil, nil
				})
				conflict := d.database == sqlite || d.database == postgres && level >= sql.LevelRepeatableRead
				switch {
				case conflict && !errors.Is(err, once.ErrConflict):
					t.Errorf("got %v, want ErrConflict", err)
				case !conflict && (err != nil || string(text) != "answer" || !repeated):
					t.Errorf("got %q, %v, %v; want the stored answer", text, repeated, err)
				}
			})
		})
	}
}

// Promise: a deadlock is told as such, and Run begins again.
func TestOnceADeadlockIsToldAndTriedAgain(t *testing.T) {
	eachOnce(t, servers, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		a := begin(t, db)
		must(t, a, "UPDATE items SET stock = 50 WHERE id = 1") // the row first, then the key
		type outcome struct {
			tries int
			err   error
		}
		ran := make(chan outcome, 1)
		go func() {
			var o outcome
			_, _, o.err = orders.Run(t.Context(), db, 10, "key", func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
				o.tries++
				return sell(ctx, tx, "")
			})
			ran <- o
		}()
		d.awaitWaiter(t)
		_, _, err := orders.Do(t.Context(), a, "key", func() ([]byte, error) { return nil, nil })
		switch {
		case err == nil: // the other one was chosen
			commit(t, a)
		case !errors.Is(err, once.ErrDeadlock):
			t.Errorf("got %v, want ErrDeadlock", err)
		}
		o := errtest.Received(t, "the other one", ran)
		if o.err != nil {
			t.Error("the other one:", o.err)
		}
		if err == nil && o.tries != 1 {
			t.Errorf("it has run %d times", o.tries)
		}
	})
}

// Promise: a call that waited for as long as the database lets it is told that the key is busy.
func TestOnceABusyKeyIsTold(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		a := begin(t, d.open(t))
		gives(t, orders, a, "key", "answer", "answer", false)
		db := d.open(t)
		db.SetMaxOpenConns(1)
		must(t, db, map[bool]string{true: "PRAGMA busy_timeout = 50"}[d.database == sqlite]+
			map[bool]string{true: "SET lock_timeout = '50ms'"}[d.database == postgres]+
			map[bool]string{true: "SET innodb_lock_wait_timeout = 1"}[d.name != "SQLite" && d.database != postgres])
		_, _, err := orders.Run(t.Context(), db, 1, "key", func(context.Context, *sql.Tx) ([]byte, error) { return nil, nil })
		if !errors.Is(err, once.ErrBusy) || errors.Is(err, once.ErrUnknown) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		commit(t, a)
	})
}

// Promise: what a commit is refused for is returned as it is, and not taken for a lost reply.
func TestOnceACommitThatIsRefused(t *testing.T) {
	eachOnce(t, []*database{postgres}, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		must(t, db, "CREATE TABLE parts (item INTEGER REFERENCES items (id) DEFERRABLE INITIALLY DEFERRED)")
		tries := 0
		_, _, err := orders.Run(t.Context(), db, 5, "key", func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
			tries++
			_, err := tx.ExecContext(ctx, "INSERT INTO parts VALUES (7)")
			return nil, err
		})
		if err == nil || errors.Is(err, once.ErrUnknown) || tries != 1 {
			t.Errorf("got %v after %d tries", err, tries)
		}
		if n := number(t, db, "SELECT count(*) FROM "+once.DefaultTable); n != 0 {
			t.Errorf("%d rows are stored", n)
		}
	})
}

// Promise: a sweep deletes what is older than its age, all of it and nothing else.
func TestOnceASweepDeletesWhatIsOldEnough(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		now := number(t, db, map[bool]string{true: "SELECT floor(extract(epoch FROM now()))::bigint"}[d.database == postgres]+
			map[bool]string{true: "SELECT unix_timestamp()"}[d.rows == rowlock.MySQL]+map[bool]string{true: "SELECT unixepoch()"}[d.database == sqlite])
		const old = 2500
		var rows strings.Builder
		for i := range old {
			fmt.Fprintf(&rows, ", ('old/%d', 1, %d)", i, now-7200-int64(i))
		}
		key := map[bool]string{true: `"key"`, false: "`key`"}[d.database == postgres]
		must(t, db, "INSERT INTO "+once.DefaultTable+" ("+key+", done, created) VALUES "+rows.String()[1:])
		must(t, db, d.sql("INSERT INTO "+once.DefaultTable+" ("+key+", done, created) VALUES ('young', 1, ?)"), now-1800)
		isErr(t, errOf(orders.Sweep(t.Context(), db, 500*time.Millisecond)), once.ErrInvalid, "an age of half a second")
		if d.database != sqlite { // a call that is under way does not hold the sweep up, nor the sweep it
			tx := begin(t, db)
			gives(t, orders, tx, "new", "answer", "answer", false)
			defer func() {
				gives(t, orders, tx, "newer", "answer", "answer", false)
				commit(t, tx)
			}()
		}
		n, err := orders.Sweep(t.Context(), db, time.Hour)
		if err != nil || n != old {
			t.Errorf("swept %d, %v; want %d", n, err, old)
		}
		if n, err := orders.Sweep(t.Context(), db, time.Hour); err != nil || n != 0 {
			t.Errorf("swept %d, %v; want none", n, err)
		}
		if got := number(t, db, "SELECT count(*) FROM "+once.DefaultTable+" WHERE "+key+" = 'young'"); got != 1 {
			t.Error("a young row was swept")
		}
		// What has just been done is younger than a second.
		tx := begin(t, d.open(t))
		if d.database == sqlite {
			gives(t, orders, tx, "just now", "answer", "answer", false)
			commit(t, tx)
			if n, err := orders.Sweep(t.Context(), db, time.Hour); err != nil || n != 0 {
				t.Errorf("swept %d, %v; want none", n, err)
			}
		}
	})
}

// Promise: a table with a name of its own works, and names cannot become SQL.
func TestOnceTablesHaveNames(t *testing.T) {
	each(t, databases, func(t *testing.T, d *instance) {
		db := d.open(t)
		for _, name := range []string{"orders", `x"; DROP TABLE items; --`, "a`b"} {
			table := errtest.Must(once.NewTable(d.once, name))(t)
			noError(t, table.Create(t.Context(), db))
			_, repeated, err := table.Run(t.Context(), db, 1, "key", func(context.Context, *sql.Tx) ([]byte, error) { return nil, nil })
			if err != nil || repeated {
				t.Errorf("%s: %v, %v", name, repeated, err)
			}
		}
		for _, name := range []string{"", "a.", "a\x00b"} {
			if _, err := once.NewTable(d.once, name); err == nil {
				t.Errorf("%q: want an error", name)
			}
		}
		number(t, db, "SELECT count(*) FROM items")
	}, "CREATE TABLE items (id INTEGER)")
}

// Promise: a result of a type of one's own comes back as it was, and one that cannot be read is
// an error that says that the work is done.
func TestOnceResultsAsJSON(t *testing.T) {
	type receipt struct {
		Item string
		Left int
	}
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		receipts := once.JSON[receipt]{Table: orders}
		want := receipt{"42", 99}
		for _, repeated := range []bool{false, true} {
			got, again, err := receipts.Run(t.Context(), db, 5, "key", func(context.Context, *sql.Tx) (receipt, error) { return want, nil })
			if got != want || again != repeated || err != nil {
				t.Errorf("got %v, %v, %v; want %v, %v", got, again, err, want, repeated)
			}
		}
		tx := begin(t, db)
		if got, again, err := receipts.Do(t.Context(), tx, "key", func() (receipt, error) { return receipt{}, nil }); got != want || !again || err != nil {
			t.Errorf("got %v, %v, %v", got, again, err)
		}
		commit(t, tx)
		broken := errors.New("broken")
		if _, _, err := receipts.Run(t.Context(), db, 5, "other", func(context.Context, *sql.Tx) (receipt, error) { return want, broken }); err != broken {
			t.Errorf("got %v, want the function's error", err)
		}
		_, repeated, err := once.JSON[int]{Table: orders}.Run(t.Context(), db, 5, "key", func(context.Context, *sql.Tx) (int, error) {
			t.Error("the work was done again")
			return 0, nil
		})
		if err == nil || !repeated || !strings.Contains(err.Error(), "the work is done") {
			t.Errorf("a result of another type: got %v, %v", repeated, err)
		}
	})
}
