package interlock

import "github.com/interlock-go/interlock/driver"

// RWMutex is a lock that many readers hold together, or one writer alone.
// Readers and writers are served in the order in which they came: a writer
// that waits keeps later readers out. A writer may become a reader (see
// [Lease.Downgrade]); a reader that asks for the writer's side gets
// ErrDeadlock, since two that did so would wait for each other for ever.
type RWMutex struct{ reader, writer *Lock }

// RWMutex makes a read-write lock.
func (c *Client) RWMutex(name string, opts ...Option) *RWMutex {
	return &RWMutex{
		reader: c.lock(driver.RWMutex, name, 1, driver.RWCapacity, opts),
		writer: c.lock(driver.RWMutex, name, driver.RWCapacity, driver.RWCapacity, opts),
	}
}

// Reader is the side that many hold.
func (m *RWMutex) Reader() *Lock { return m.reader }

// Writer is the side that one holds.
func (m *RWMutex) Writer() *Lock { return m.writer }
