package interlock

// Sizes counts what the client remembers: tickets, lines and waiting writers.
func (c *Client) Sizes() (tickets, lines, writers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tickets), len(c.lines), len(c.writers)
}

const (
	MaxGrants    = maxGrants
	MaxHandovers = maxHandovers
	TokenBits    = tokenBits
)
