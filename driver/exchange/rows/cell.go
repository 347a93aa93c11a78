package rows

import (
	"maps"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Cell is the row of a cell.
type Cell struct {
	Name string
	driver.Cell
	Swaps     map[string]Swapped // by ID
	Followers []string           // mailboxes

	*Exchange `json:"-"`
}

// Swapped is the result of a Swap.
type Swapped struct {
	driver.Cell
	Conflict bool
	End      time.Time // until then it is kept
}

func (c *Cell) begin(now time.Time) *Exchange {
	c.Exchange = &Exchange{Now: now}
	return c.Exchange
}

// Load is [exchange.Store.Load].
func (c *Cell) Load(f exchange.Follower) driver.Cell {
	c.follow(&c.Followers, f)
	return c.Cell
}

// Swap is [exchange.Store.Swap].
func (c *Cell) Swap(s driver.Swap) (driver.Cell, error) {
	c.Changed = true
	maps.DeleteFunc(c.Swaps, func(_ string, old Swapped) bool { return !old.End.After(c.Now) })
	done, again := c.Swaps[s.ID]
	if !again {
		done = Swapped{Conflict: c.Version != s.Version, End: c.Now.Add(driver.SwapMemory)}
		if !done.Conflict {
			c.Cell = driver.Cell{Version: c.Version + 1, Exists: !s.Delete}
			if c.Exists {
				c.Value = s.Value
			}
			done.Cell = c.Cell
			c.change(&c.Followers, exchange.Event{Type: exchange.CellChanged, Cell: c.Name})
		}
		if c.Swaps == nil {
			c.Swaps = map[string]Swapped{}
		}
		c.Swaps[s.ID] = done
	}
	if done.Conflict {
		return driver.Cell{}, driver.ErrConflict
	}
	return done.Cell, nil
}
