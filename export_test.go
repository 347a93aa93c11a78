package interlock

// Sizes counts what the client remembers: tickets, queues, and followers.
func (c *Client) Sizes() (tickets, queues, followers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tickets, queues = c.e.sizes()
	return tickets, queues, len(c.followers)
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
