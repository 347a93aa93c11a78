package pglock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: what is kept of a lock and cannot be read harms that name only: all others are listed, and an
// error names it.
func TestGarbageInAQueueHarmsOneName(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a := session(t, d)
	var sound []string
	for i := range 7 {
		name := fmt.Sprint("harmed", i)
		if i != 4 {
			name = fmt.Sprint("well", i)
			sound = append(sound, name)
		}
		acquire(t, a, name, 1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	s.SQL("CREATE TABLE was AS SELECT * FROM interlock.queue WHERE name = 'harmed4'")
	for _, harm := range []string{
		"units = NULL",
		"since = NULL",
		"since = NULL, units = NULL, session = NULL",
		"since = 9223372036854775807",
		`"offset" = 9223372036854775807`,
	} {
		s.SQL("UPDATE interlock.queue SET " + harm + " WHERE name = 'harmed4'")
		var names []string
		var last error
		for q, err := range d.Queues(ctx, "") {
			if last = err; err == nil {
				names = append(names, q.Name)
			}
		}
		if !slices.Equal(names, sound) || !driver.IsPermanent(last) || !strings.Contains(last.Error(), `"harmed4" cannot be read`) {
			t.Errorf("%s: listed: %q, %v", harm, names, last)
		}
		if _, err := d.Follow(ctx, "harmed4", ""); !driver.IsPermanent(err) || !strings.Contains(err.Error(), `"harmed4" cannot be read`) {
			t.Errorf("%s: shown with %v", harm, err)
		}
		s.SQL("DELETE FROM interlock.queue WHERE name = 'harmed4'; INSERT INTO interlock.queue SELECT * FROM was")
	}
	if q, err := d.Follow(ctx, "harmed4", ""); err != nil || len(q.Members) != 1 {
		t.Errorf("as it was: %+v, %v", q, err)
	}
}
