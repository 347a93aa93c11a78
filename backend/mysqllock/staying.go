package mysqllock

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// stays is for how long a row is not removed, by clients of any release, once staying has named it.
const stays = time.Minute

// staying calls a procedure that makes the row of a queue, and then locks it. The row of a queue that nobody has used for an hour may be
// removed between the two, and then the procedure does nothing and reports success. So before the call the row is given a time for
// which it is kept, as if there were rows in refused. A call that has taken longer than that is made again.
func (s *store) staying(ctx context.Context, queue string, call func() error) error {
	for {
		began := driver.Now()
		if err := s.exec(ctx, "UPDATE {p}queues SET slow = GREATEST(slow, {now} + ?) WHERE name = ?", stays.Microseconds(), []byte(queue)); err != nil {
			return err
		}
		if err := call(); err != nil || driver.Now().Sub(began) < stays {
			return err
		}
	}
}
