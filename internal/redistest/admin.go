package redistest

import (
	"fmt"
	"slices"
)

// Do sends one command over a connection of its own, as a user who may do
// everything. It returns a string, an int64, nil or a []any of these; an error
// that the server has answered is an Error.
func (s *Server) Do(args ...string) (any, error) {
	answer, err := exchange(s.Addr, s.secure, []string{"AUTH", admin, adminPassword}, args)
	if err != nil {
		return nil, fmt.Errorf("redis on %s: %s: %w", s.Addr, args[0], err)
	}
	return answer, nil
}

func (s *Server) must(args ...string) any {
	s.Helper()
	answer, err := s.Do(args...)
	s.Check(args[0], err)
	return answer
}

// KillConnections makes the server close all connections of a kind, "normal"
// or "pubsub", and returns how many there were. A connection that has
// subscribed to anything is of the latter kind only.
func (s *Server) KillConnections(kind string) int {
	s.Helper()
	return int(s.must("CLIENT", "KILL", "TYPE", kind).(int64))
}

// FlushScripts makes the server forget all scripts.
func (s *Server) FlushScripts() {
	s.Helper()
	s.must("SCRIPT", "FLUSH", "SYNC")
}

// Keys lists all keys, sorted.
func (s *Server) Keys() []string {
	s.Helper()
	var keys []string
	for cursor := "0"; ; {
		page := s.must("SCAN", cursor, "COUNT", "1000").([]any)
		for _, key := range page[1].([]any) {
			keys = append(keys, key.(string))
		}
		if cursor = page[0].(string); cursor == "0" {
			slices.Sort(keys)
			return slices.Compact(keys)
		}
	}
}
