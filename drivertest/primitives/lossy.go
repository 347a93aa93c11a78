package primitives

import (
	"context"
	"errors"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

var errReply = errors.New("primitives: the reply was lost")

// losses are the replies that get lost: calls have their effect, and return an
// error. Of each method the first reply is lost and then every third, so that
// a repetition is answered.
type losses struct {
	mu    sync.Mutex
	calls map[string]int
}

// hook loses the reply, or not. A call that has ended with its context has none.
func (l *losses) hook(ctx context.Context, method string, call func(context.Context) error) error {
	err := call(ctx)
	if method == "Open" || method == "Renew" || method == "Close" {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.calls[method]
	l.calls[method]++
	if n%3 == 0 && ctx.Err() == nil && !driver.IsPermanent(err) {
		return errReply
	}
	return err
}
