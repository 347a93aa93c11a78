package interlock

import "github.com/interlock-go/interlock/internal/engine"

// Sizes counts what the client remembers: tickets, queues, and followers.
func (c *Client) Sizes() (tickets, queues, followers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tickets, queues = c.e.Sizes()
	return tickets, queues, len(c.followers)
}

const (
	Crowded      = engine.Crowded
	MaxGrants    = engine.MaxGrants
	MaxHandovers = engine.MaxHandovers
	TokenBits    = engine.TokenBits

	MinTTL         = minTTL
	MinTime        = minTime
	MaxTime        = maxTime
	MaxUpdates     = maxUpdates
	MaxMembers     = maxMembers
	MaxStripes     = maxStripes
	MaxLeaderValue = maxLeaderValue
)
