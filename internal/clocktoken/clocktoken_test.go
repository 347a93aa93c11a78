package clocktoken

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

func server(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }

func token() uint64 { return uint64(time.Now().UnixMicro() / 10) }

// After Pass every token that follows the clock is larger than the floor.
func TestPassWaitsForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ahead := range []time.Duration{-time.Hour, 0, 10 * time.Microsecond, 9 * time.Second} {
			began, floor := time.Now(), token()+uint64(ahead/(10*time.Microsecond))
			if err := Pass(t.Context(), floor, server); err != nil {
				t.Errorf("%v ahead: %v", ahead, err)
			}
			if got := token(); got <= floor {
				t.Errorf("%v ahead: the token is %d, the floor %d", ahead, got, floor)
			}
			if waited := time.Since(began); waited > max(0, ahead)+10*time.Microsecond {
				t.Errorf("%v ahead: it waits %v", ahead, waited)
			}
		}
	})
}

// It does not wait for hours, and ends with its context and with the server's error.
func TestPassRefusesWhatIsFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for _, floor := range []uint64{token() + 11*perSecond, driver.MaxToken - 2} {
			if err := Pass(t.Context(), floor, server); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("a floor of %d: %v", floor, err)
			}
		}
		broken := errors.New("broken")
		if err := Pass(t.Context(), 1, func(context.Context) (int64, error) { return 0, broken }); !errors.Is(err, broken) {
			t.Errorf("a server that fails: %v", err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it waits %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errtest.Is(t, Pass(ctx, token()+5*perSecond, server), context.DeadlineExceeded, "with a context that ends")
	})
}
