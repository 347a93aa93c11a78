package interlock

import "fmt"

// Close ends waiting and every context that is bound to a lease, with the
// cause ErrClosed, waits for the running functions of Do, but no longer than
// their leases last, and releases what is held; leases of ExpiresAfter stay. A lease
// whose function is still running then is left as if its holder had died. A
// backend that cannot be reached makes Close last for about a TTL, or longer where its
// driver says so: one on the program's own ZooKeeper connection takes two more.
// A second Close does nothing and returns ErrClosed, also while the first goes on.
func (c *Client) Close() error {
	if err := c.e.Close(); err != nil {
		return fmt.Errorf("interlock: close: %w", err)
	}
	return nil
}

// Overruns is how many leases were lost though work goes on under them: a function of [Lock.Do], or
// a context of [Lease.Bind] whose function was not called. Work that ends within a tenth of the TTL,
// or a second if that is shorter, is not counted. The resource that it works on has to refuse it, if
// it checks tokens. Events of the kind [EventOverrun] tell of each, and [Admin.Queues] of those of
// all clients. It is 0 once the client is being closed.
func (c *Client) Overruns() int { return c.e.Overruns() }
