package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// permits are those of a queue: its capacity, whether that was set, and how many tickets are in it.
type permits struct {
	capacity int64
	set      bool
	tickets  int
}

func permitsOf(t *testing.T, d driver.Driver, queue string) permits {
	t.Helper()
	q := errtest.Must(d.Follow(t.Context(), queue, ""))(t)
	return permits{q.Capacity, q.Resized, len(q.Members)}
}

func isMismatch(t *testing.T, s *driver.Opened, r driver.Request) {
	t.Helper()
	if k, err := s.Join(t.Context(), r); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("a %s of %d where another number of permits was set: %+v, %v", r.Kind, r.Capacity, k, err)
	}
}

// Promise: a number of permits that was set outlasts a crash of the server, which empties the
// tables of locks; a permit of a fixed time counts by that number, also once it is not kept any more.
func TestTheNumberOfPermitsOutlastsACrash(t *testing.T) {
	t.Parallel()
	for _, way := range ways[1:3] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Start(t, pgtest.Durable())
			d := opened(t, s.URL())
			a := session(t, d)
			fixed := request("used", 5)
			fixed.Hold = time.Hour
			if k := join(t, a, fixed); !k.Held {
				t.Fatal("the first ticket waits")
			}
			join(t, a, request("undone", 2))
			fixed.ID, fixed.Queue = newID(), "undone"
			fixed.Capacity = 2
			join(t, a, fixed)
			for queue, capacity := range map[string]int64{"used": 3, "empty": 4, "undone": 7} {
				noError(t, d.Resize(t.Context(), queue, capacity))
			}
			noError(t, d.Resize(t.Context(), "undone", 0))

			way.do(s)
			var b *driver.Opened
			busy.Until(t, "a session begins", func() bool { // connections of the pool have died
				var err error
				if d, err = openURL(t.Context(), s.URL()); err != nil {
					return false
				}
				t.Cleanup(func() { d.Close() })
				b, err = d.Open(t.Context(), driver.SessionOptions{TTL: ttl})
				return err == nil
			})
			if got := permitsOf(t, d, "empty"); got != (permits{4, true, 0}) {
				t.Errorf("four permits were set, and nobody uses them: %+v", got)
			}
			if got := permitsOf(t, d, "used"); got != (permits{3, true, 1}) {
				t.Errorf("three permits were set, and one is held for an hour: %+v", got)
			}
			if got := permitsOf(t, d, "undone"); got.capacity != 7 || got.set {
				t.Errorf("seven permits were set, which was taken back while one was held: %+v", got)
			}
			for _, queue := range []string{"used", "empty"} {
				isMismatch(t, b, request(queue, 5))
				isMismatch(t, b, request(queue, 1))
			}
			isMismatch(t, b, request("undone", 2))
			three := request("used", 3)
			three.Units = 3
			k := join(t, b, three)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if k, err := b.Await(ctx, k); err == nil {
				t.Errorf("all three permits, of which one is held: %+v", k)
			}
		})
	}
}

// Promise: functions of an earlier release, which could not change a number of permits, are replaced
// by the first client whose user owns them; clients that have opened before go on. Another user's
// clients use them as they are, and say why they cannot change the number.
func TestFunctionsOfAnEarlierReleaseAreReplaced(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.User("app", ""))
	old := opened(t, s.URL())
	a := session(t, old)
	held := acquire(t, a, "s", 2)
	s.SQL(`DROP FUNCTION interlock.resize, interlock.joins; GRANT USAGE ON SCHEMA interlock TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA interlock TO app`)
	app := opened(t, s.URLOf("app", ""))
	useful(t, app)
	if err := app.Resize(t.Context(), "s", 3); !errors.Is(err, errors.ErrUnsupported) || !driver.IsPermanent(err) {
		t.Errorf("a number of permits, by functions of an earlier release: %v", err)
	}
	s.SQL(`ALTER TABLE interlock.floor DROP COLUMN capacity`)
	d := opened(t, s.URL())
	noError(t, d.Resize(t.Context(), "s", 3))
	noError(t, app.Resize(t.Context(), "s", 1))
	if got := permitsOf(t, old, "s"); got != (permits{1, true, 1}) {
		t.Errorf("one permit was set, and one is held: %+v", got)
	}
	noError(t, a.Leave(t.Context(), held, true))
	isMismatch(t, a, request("s", 2))
	useful(t, old)
}

// age makes the functions of a schema those of a release that could not change a number of permits.
func age(s *pgtest.Server, schema string) {
	s.SQL(fmt.Sprintf("DROP FUNCTION %[1]s.resize, %[1]s.joins", schema))
}

// Promise: functions that are replaced are for tables as they are: those of tables that are logged go on to wait for
// the disk.
func TestFunctionsAreReplacedByThoseOfTheSameDurability(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	const waiting = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname = '%s' AND prosrc LIKE '%%synchronous_commit%%'"
	for _, kind := range []string{"logged", "unlogged"} {
		opened(t, s.URL()+"&schema="+kind+"&durability="+kind)
		before := s.SQL(fmt.Sprintf(waiting, kind))
		age(s, kind)
		noError(t, opened(t, s.URL()+"&schema="+kind).Resize(t.Context(), "s", 3))
		if after := s.SQL(fmt.Sprintf(waiting, kind)); after != before {
			t.Errorf("%s: %s functions saw to it that the disk is waited for, and now %s do", kind, before, after)
		}
	}
}

// Promise: an owner who may not make functions any more goes on with those of an earlier release.
func TestWhoMayMakeNoFunctionsUsesThoseThatThereAre(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.User("app", ""))
	s.SQL("CREATE SCHEMA own; GRANT USAGE, CREATE ON SCHEMA own TO app")
	url := s.URLOf("app", "") + "&schema=own"
	opened(t, url)
	s.SQL("REVOKE CREATE ON SCHEMA own FROM app")
	age(s, "own")
	d := opened(t, url)
	useful(t, d)
	errtest.Is(t, d.Resize(t.Context(), "s", 3), errors.ErrUnsupported, "Resize")
}

// Promise: functions that are replaced belong to whom the tables belong, such as a group: no other of its members is
// locked out.
func TestFunctionsThatAreReplacedBelongToTheOwnerOfTheTables(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.User("one", ""), pgtest.User("two", ""))
	s.SQL("CREATE ROLE several; GRANT several TO one, two; CREATE SCHEMA own AUTHORIZATION several; ALTER ROLE one SET role = several")
	opened(t, s.URLOf("one", "")+"&schema=own")
	s.SQL("ALTER ROLE one RESET role")
	age(s, "own")
	noError(t, opened(t, s.URLOf("one", "")+"&schema=own").Resize(t.Context(), "s", 3))
	noError(t, opened(t, s.URLOf("two", "")+"&schema=own").Resize(t.Context(), "s", 2))
}

// Promise: while somebody reads the tables for long, such as pg_dump, functions are not replaced, since running
// programs would wait behind that; later they are.
func TestFunctionsAreNotReplacedWhileTablesAreRead(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	a := session(t, opened(t, s.URL()))
	age(s, "interlock")
	conn := connect(t, s)
	errtest.Must(conn.Exec(t.Context(), "BEGIN; LOCK TABLE interlock.floor IN ACCESS SHARE MODE"))(t)
	d := opened(t, s.URL())
	errtest.Is(t, d.Resize(t.Context(), "s", 3), errors.ErrUnsupported, "Resize")
	noError(t, a.Leave(t.Context(), acquire(t, a, "new", 1), true))
	errtest.Must(conn.Exec(t.Context(), "COMMIT"))(t)
	noError(t, opened(t, s.URL()).Resize(t.Context(), "s", 3))
}

// Promise: a Join whose reply was lost finds its ticket when it is repeated, whatever the number of
// permits is by then.
func TestAJoinIsRepeatedAfterANumberOfPermitsWasSet(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a := session(t, d)
	held := acquire(t, a, "s", 2)
	noError(t, d.Resize(t.Context(), "s", 3))
	const again = "SELECT (interlock.join('s', 'semaphore', 2, '%s', 1, '%s', '', NULL, 0, false, true, false))[1:2]"
	if got, want := s.SQL(fmt.Sprintf(again, held.ID, a.ID)), fmt.Sprintf("{1,%d}", held.Token); got != want {
		t.Errorf("the Join that is repeated answers %s, not %s", got, want)
	}
}
