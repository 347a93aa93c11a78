package interlock

// Sizes counts what the client remembers: tickets, lines, waiting writers, and tickets that
// have come to a line, or are still to come, or followers.
func (c *Client) Sizes() (tickets, lines, writers, waiting int) {
	c.crowds.mu.Lock()
	for _, q := range c.crowds.all {
		waiting += q.came + q.coming.Len()
	}
	c.crowds.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tickets), len(c.lines), len(c.writers), waiting + len(c.followers)
}

const (
	Crowded      = crowded
	MaxGrants    = maxGrants
	MaxHandovers = maxHandovers
	TokenBits    = tokenBits

	MinTTL         = minTTL
	MinTime        = minTime
	MaxTime        = maxTime
	MaxUpdates     = maxUpdates
	MaxMembers     = maxMembers
	MaxStripes     = maxStripes
	MaxLeaderValue = maxLeaderValue
)
