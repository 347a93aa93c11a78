package mysqllock

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// stays is for how long a row is not removed, by clients of any release, once staying has named it.
const stays = time.Minute

// staying calls a procedure that makes the row of a queue, and then locks it. The row of a queue that nobody
// has used for an hour may be removed between the two, and then the procedure does nothing and reports
// success. So may one that was made just now, by a client that has found the one before it idle. So before
// the call the row is given a time for which it is kept, as if there were rows in refused, and made with
// that. A call that has taken longer than that is made again.
func (s *store) staying(ctx context.Context, queue string, call func() error) error {
	for {
		began := driver.Now()
		if err := s.exec(ctx, keep, []byte(queue), stays.Microseconds()); err != nil {
			return err
		}
		if err := call(); err != nil || driver.Now().Sub(began) < stays {
			return err
		}
	}
}

// keep makes the row as the procedure make does. As INSERT … SELECT it would lock the numbers of new rows for as long
// as it waits for this one.
const keep = `INSERT INTO {p}queues(name, kind, capacity, last, granted, since, slow)
	VALUES (?, '', 0, (SELECT floor FROM {p}meta WHERE one = 1), (SELECT floor FROM {p}meta WHERE one = 1), {now}, {now} + ?)
	ON DUPLICATE KEY UPDATE slow = GREATEST(slow, VALUES(slow))`
