package crowd

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock"
)

// other is a client that has nothing to do with the crowd. Again and again it
// connects, takes a lock that nobody else wants, and goes.
type other struct {
	url     string
	tries   int
	refused int
	longest time.Duration
	said    []string
}

// enough is how long an Open, or an Acquire, may take. Whoever needs longer is refused.
const enough = 10 * time.Second

func (o *other) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		// The last one may go on after the time of the crowd.
		err := o.once(context.WithoutCancel(ctx))
		o.longest = max(o.longest, time.Since(began))
		if o.tries++; err != nil {
			o.refused++
			o.said = append(o.said, "another client: "+err.Error())
		}
		pause(ctx)
	}
}

func (o *other) once(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	c, err := interlock.Open(ctx, o.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	l, err := c.Mutex("other").Acquire(ctx)
	if err != nil {
		return err
	}
	return l.Release()
}
