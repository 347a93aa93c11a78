package workload

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Run has the contender do it. One that comes to no end is left behind, as hung: its
// context ends, which also closes its clients and kills its processes. What it did wrong
// until then is in the result.
func (w Workload) Run(ctx context.Context, c Contender, e Env) Result {
	e.seen = &mistakes{}
	patience := w.patience(e)
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done := make(chan Result, 1)
	go func() { done <- w.run(limited, c, e) }()
	var r Result
	select {
	case r = <-done:
	case <-limited.Done():
		select { // what it closes and kills shall not disturb the next one
		case <-done:
		case <-time.After(min(farewell, e.Grace)):
		}
		r = newResult(c, e)
		if r.Hung = fmt.Sprintf("it was not through after %v", patience); ctx.Err() != nil {
			r.Hung, r.Failed = "", context.Cause(ctx).Error()
		}
	}
	e.seen.into(&r)
	return r
}

// patience is longer than all that the workload may take by itself.
func (w Workload) patience(e Env) time.Duration {
	return e.Time + 2*e.Limit + e.Settle + 3*aliveTTL + e.Grace
}

// mistakes are what many goroutines saw a lock do that it must never do, whether they
// come to an end or not.
type mistakes struct {
	mu   sync.Mutex
	errs []error
}

// note takes nil for no mistake.
func (m *mistakes) note(err error) {
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.errs) < enough {
		m.errs = append(m.errs, err)
	}
}

func (m *mistakes) into(r *Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, err := range m.errs {
		r.wrong("%v", err)
	}
}
