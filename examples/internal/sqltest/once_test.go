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

// given is gives in a transaction of its own.
func given(t *testing.T, orders *once.Table, db *sql.DB, key, answer, want string, repeated bool, opts ...once.Option) {
	t.Helper()
	tx := begin(t, db)
	gives(t, orders, tx, key, answer, want, repeated, opts...)
	commit(t, tx)
}

// again is work that has been done already.
func again(t *testing.T) func() ([]byte, error) {
	return func() ([]byte, error) {
		t.Error("the work was done again")
		return nil, nil
	}
}

// rows makes sure that so many results are stored.
func rows(t *testing.T, db queryer, want int64) {
	t.Helper()
	if n := number(t, db, "SELECT count(*) FROM "+once.DefaultTable); n != want {
		t.Errorf("%d rows are stored, want %d", n, want)
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

// Promise: of two calls with one key the second waits; it gets the result of the first, or does
// the work if the first was rolled back: then nothing of it is left.
func TestOnceTheSecondOfTwoCallsWaits(t *testing.T) {
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprint("the first commits: ", commits), func(t *testing.T) {
			eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
				a, other := begin(t, d.open(t)), d.open(t)
				gives(t, orders, a, "key", "first", "first", false)
				want, repeated, end := "second", false, (*sql.Tx).Rollback
				if commits {
					want, repeated, end = "first", true, (*sql.Tx).Commit
				}
				noError(t, d.freed(t, "the second call, after the first has ended", func() error {
					text, again, err := orders.Run(t.Context(), other, 1, "key", func(ctx context.Context, tx *sql.Tx) ([]byte, error) { return sell(ctx, tx, "second") })
					if string(text) != want || again != repeated {
						t.Errorf("got %q, %v; want %q, %v", text, again, want, repeated)
					}
					return err
				}, func() { noError(t, end(a)) }))
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
		given(t, orders, db, "key", "answer", "answer", false)
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
		given(t, orders, db, "fenced", "34", "34", false, once.Under(fence.Token(34)))
		given(t, orders, db, "free", "0", "0", false)
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
			_, _, err := orders.Do(t.Context(), tx, c.key, again(t), c.opts...)
			isErr(t, err, c.want, c.key)
			if c.want == fence.ErrStale {
				stale(t, err, 33, 34)
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
		given(t, orders, db, "known", "1", "1", false, once.Request([]byte("POST"), []byte("/a")))
		given(t, orders, db, "unknown", "2", "2", false)
		given(t, orders, db, "known", "", "1", true, once.Request([]byte("POST"), []byte("/a")))
		given(t, orders, db, "known", "", "1", true)
		given(t, orders, db, "unknown", "", "2", true, once.Request([]byte("POST")))
		for _, parts := range [][][]byte{{[]byte("POST/a")}, {[]byte("POST"), []byte("/b")}, {[]byte("POST/"), []byte("a")}, {}} {
			_, _, err := orders.Do(t.Context(), begin(t, db), "known", again(t), once.Request(parts...))
			isErr(t, err, once.ErrMismatch, fmt.Sprintf("%q", parts))
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
				isErr(t, err, map[string]error{"an error": broken, "a result too large": once.ErrInvalid}[name])
				if name == "an error" && err != broken {
					t.Errorf("got %v, want the function's own error", err)
				}
				isErr(t, tx.Commit(), sql.ErrTxDone, "the commit afterwards")
				stock(t, db, 100)
				given(t, orders, db, "key", "answer", "answer", false)
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
			_, _, err := orders.Do(t.Context(), begin(t, db), key, again(t))
			isErr(t, err, once.ErrInvalid, fmt.Sprintf("%.20q", key))
		}
	})
}

// Promise: a function that breaks the rules does not make its work be done twice, nor wait for itself.
func TestOnceAFunctionThatBreaksTheRules(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		tx := begin(t, db)
		_, _, err := orders.Do(t.Context(), tx, "itself", func() ([]byte, error) {
			inner, _, err := orders.Do(t.Context(), tx, "itself", again(t))
			return inner, err
		})
		errtest.Says(t, err, "same key")
		_ = tx.Rollback() // done already

		tx = begin(t, db)
		_, _, err = orders.Do(t.Context(), tx, "ends", func() ([]byte, error) {
			if _, err := sell(t.Context(), tx, ""); err != nil {
				return nil, err
			}
			return []byte("answer"), tx.Commit()
		})
		isErr(t, err, sql.ErrTxDone, "it ends the transaction")
		_, _, err = orders.Run(t.Context(), db, 3, "ends", func(context.Context, *sql.Tx) ([]byte, error) { return again(t)() })
		isOther(t, err, "work without a result")
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
		errtest.Says(t, err, "return every error")
		rows(t, db, 0)
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
				rows(t, old, 0)
				if level == sql.LevelSerializable && d.database != postgres {
					// A plain read locks there: the other transaction waits for its end.
					noError(t, old.Commit())
					old = begin(t, db)
				}
				given(t, orders, db, "key", "answer", "answer", false)
				text, repeated, err := orders.Do(t.Context(), old, "key", again(t))
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
		tries, ran := 0, make(chan error, 1)
		go func() {
			_, _, err := orders.Run(t.Context(), db, 10, "key", func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
				tries++
				return sell(ctx, tx, "")
			})
			ran <- err
		}()
		d.awaitWaiter(t)
		_, _, err := orders.Do(t.Context(), a, "key", func() ([]byte, error) { return nil, nil })
		if err == nil { // the other one was chosen
			commit(t, a)
		} else {
			isErr(t, err, once.ErrDeadlock)
		}
		isErr(t, errtest.Received(t, "the other one", ran), nil, "the other one")
		if err == nil && tries != 1 {
			t.Errorf("it has run %d times", tries)
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
		must(t, db, d.hurry)
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
		rows(t, db, 0)
	})
}

// Promise: a sweep deletes what is older than its age, all of it and nothing else.
func TestOnceASweepDeletesWhatIsOldEnough(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		now := number(t, db, d.now)
		const old = 2500
		var values strings.Builder
		for i := range old {
			fmt.Fprintf(&values, "('old/%d', 1, %d), ", i, now-7200-int64(i))
		}
		fmt.Fprintf(&values, "('young', 1, %d)", now-1800)
		must(t, db, "INSERT INTO "+once.DefaultTable+" ("+d.key+", done, created) VALUES "+values.String())
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
		if got := number(t, db, "SELECT count(*) FROM "+once.DefaultTable+" WHERE "+d.key+" = 'young'"); got != 1 {
			t.Error("a young row was swept")
		}
		if d.database == sqlite { // what has just been done is younger than a second
			given(t, orders, db, "just now", "answer", "answer", false)
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
			isOther(t, errOf(once.NewTable(d.once, name)), fmt.Sprintf("%q", name))
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
		if errtest.Says(t, err, "the work is done"); !repeated {
			t.Error("a result of another type is not said to be repeated")
		}
	})
}
