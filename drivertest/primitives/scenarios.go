package primitives

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
)

// Five want the lock at the same moment, each waits for 5 units of time and, when
// it has the lock, works for 4: the first is served at 0 and the second at 4, and
// the others give up at 5.
var _ = rules.Add(rule{Name: "FiveContenders", Long: true, Exact: true, Says: []string{
	"Of five contenders that wait for 5 s for work of 4 s two succeed and three give up, and nothing is left.",
}}, func(t *trial) {
	const contenders, unit = 5, 400 * time.Millisecond
	a, b := t.pair()
	pulse := t.pulse()
	var began, worked [contenders]time.Duration
	var succeeded atomic.Int32
	start := time.Now()
	t.Parallel(contenders, func(i int) {
		lock := []*interlock.Client{a, b}[i%2].Mutex("order", interlock.Wait(5*unit))
		began[i] = time.Since(start)
		lease, err := lock.Acquire(t.Ctx)
		switch {
		case errors.Is(err, interlock.ErrBusy):
			return
		case errors.Is(err, interlock.ErrUnavailable):
			t.Slow("a contender was not answered: %v", err)
		}
		t.OK(err, "contend")
		succeeded.Add(1)
		worked[i] = time.Since(start)
		time.Sleep(4 * unit)
		t.release(lease)
	})
	if succeeded.Load() == 2 {
		return
	}
	// All must have come at about the same moment, and the second have got the lock in time.
	if late := slices.Max(began[:]); late > unit/4 {
		t.Slow("a contender came %v after the first", late)
	}
	if felt := pulse.Longest(); felt > unit/8 {
		t.Slow("an exchange took %v", felt)
	}
	t.Fatalf("%d of %d succeeded, at %v", succeeded.Load(), contenders, worked)
})

// draw takes the next number from a file that nothing but the lock protects.
func draw(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, err
	}
	time.Sleep(200 * time.Microsecond) // let the others in, if they can get in
	return n + 1, os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}

// thirty have numbers drawn from a file.
func (t *trial) thirty(draw func(i int, file string) int) {
	file := filepath.Join(t.TempDir(), "number")
	t.OK(os.WriteFile(file, []byte("0"), 0o600), "write the file")
	drawn := make([]int, 30)
	t.Parallel(len(drawn), func(i int) { drawn[i] = draw(i, file) })
	slices.Sort(drawn)
	for i, n := range drawn {
		t.FatalIf(n != i+1, "%d contenders drew %v", len(drawn), drawn)
	}
}

var _ = rules.Add(rule{Name: "ThirtyNumbers", Says: []string{
	"Thirty contenders draw order numbers, none twice.",
}}, func(t *trial) {
	clients := []*interlock.Client{t.client(), t.client(), t.client()}
	t.thirty(func(i int, file string) (n int) {
		t.under(clients[i%3].Mutex("order"), func(*interlock.Lease) {
			var err error
			n, err = draw(file)
			t.OK(err, "draw")
		})
		return n
	})
})

var _ = rules.Add(rule{Name: "ThirtyNumbersInProcesses", Processes: true, Says: []string{
	"Thirty contenders in three processes draw order numbers, none twice.",
}}, func(t *trial) {
	members := []*member{t.member(10 * limit), t.member(10 * limit), t.member(10 * limit)}
	t.thirty(func(i int, file string) (n int) {
		t.OK(members[i%3].call("Draw", file, &n), "draw in another process")
		return n
	})
})
