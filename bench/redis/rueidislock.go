package redis

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/interlock-go/interlock/bench/workload"
)

// openRueidislock makes clients that renew by themselves what they hold.
func openRueidislock(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		opt, err := rueidis.ParseURL(url)
		if err != nil {
			return workload.Client{}, err
		}
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: opt, KeyValidity: o.TTL})
		if err != nil {
			return workload.Client{}, err
		}
		end := func() error {
			locker.Close()
			return nil
		}
		return workload.Client{Close: end, Lock: func(name string) workload.Lock {
			return func(ctx context.Context) (h workload.Held, err error) {
				held, cancel, err := locker.WithContext(ctx, name)
				if err != nil {
					return h, err
				}
				// The release cannot fail; that the lock was lost meanwhile is all that can be seen.
				return workload.Held{Release: func() error {
					lost := held.Err()
					cancel()
					if lost != nil {
						return errors.Join(errors.New("the lock is not held any more"), lost)
					}
					return nil
				}}, nil
			}
		}}, nil
	}
}
