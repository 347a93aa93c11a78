package zkpeer_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

type counter func(ctx context.Context, file string, n int) error

// additions are few, but enough to see two at the same time.
const additions = 100

// counted has the counters add to one file, and returns the sum.
func counted(t *testing.T, counters ...counter) int {
	t.Helper()
	ctx := within(t)
	file := filepath.Join(t.TempDir(), "count")
	must(t, zkpeer.NewCount(file))
	var all []<-chan error
	for _, count := range counters {
		all = append(all, later(func() error { return count(ctx, file, additions) }))
	}
	for _, done := range all {
		must(t, <-done)
	}
	return get[int](t)(zkpeer.ReadCount(file))
}

// miscounted takes a sum that is right by chance for no answer.
func miscounted(t *testing.T, one, two counter) {
	t.Helper()
	eventually(t, "the sum is wrong", func() bool { return counted(t, one, two) < 2*additions })
}

func TestCount(t *testing.T) {
	curator, kazoo := curator(t), kazoo(t)
	other := zkpeer.Curator(t, server(t))
	for _, test := range []struct {
		name     string
		lock     func(th *zkpeer.Thread) *zkpeer.Lock
		one, two *zkpeer.Peer
	}{
		{"mutexes of Curator", func(th *zkpeer.Thread) *zkpeer.Lock { return th.Mutex("/count") }, curator, other},
		{"write locks of Curator", func(th *zkpeer.Thread) *zkpeer.Lock { return th.Write("/write") }, curator, other},
		{"semaphore mutexes of Curator", func(th *zkpeer.Thread) *zkpeer.Lock { return th.SemaphoreMutex("/semaphore") }, curator, other},
		{"locks of kazoo", func(th *zkpeer.Thread) *zkpeer.Lock { return th.Mutex("/kazoo") }, kazoo, kazoo},
	} {
		t.Run(test.name, func(t *testing.T) {
			sum := counted(t,
				test.lock(test.one.Thread("a")).Count, test.lock(test.one.Thread("b")).Count,
				test.lock(test.two.Session("other").Thread("a")).Count)
			if sum != 3*additions {
				t.Errorf("counted %d of %d", sum, 3*additions)
			}
		})
	}
}

// The count can tell: without a lock it is wrong, whoever counts.
func TestCountIsWrongWithoutALock(t *testing.T) {
	curator, kazoo := curator(t), kazoo(t)
	ours := func(_ context.Context, file string, n int) error {
		for range n {
			if err := zkpeer.Increment(file); err != nil {
				return err
			}
		}
		return nil
	}
	for _, test := range []struct {
		name     string
		one, two counter
	}{
		{"Curator", curator.NoLock().Count, curator.Thread("b").NoLock().Count},
		{"kazoo", kazoo.NoLock().Count, kazoo.Thread("b").NoLock().Count},
		{"Go", ours, ours},
		{"Curator and Go", curator.NoLock().Count, ours},
	} {
		t.Run(test.name, func(t *testing.T) {
			miscounted(t, test.one, test.two)
		})
	}
	// Locks that do not know each other are as good as none.
	t.Run("Curator and kazoo with their locks on one path", func(t *testing.T) {
		miscounted(t, curator.Mutex("/both").Count, kazoo.Mutex("/both").Count)
	})
}
