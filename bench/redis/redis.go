// Package redis contributes what competes on Redis.
package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	_ "github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Backend starts a server without persistence.
func Backend() workload.Backend {
	return workload.Backend{Name: "redis", Start: start, Contenders: func(url string) []workload.Contender {
		return append([]workload.Contender{
			{Name: "publish and retry", Settings: "SET NX PX; who fails waits for PUBLISH, then all retry", Open: openPublisher(url)},
			{Name: "redsync", Settings: "go-redis pool; default delays of 50 to 250 ms; never gives up (default: after 32 tries)", Open: openRedsync(url)},
			{Name: "redislock, 100 ms", Settings: "linear back-off of 100 ms, never gives up", Open: openRedislock(url, 100*time.Millisecond)},
			{Name: "redislock, 1 ms", Settings: "polls every 1 ms, never gives up", Open: openRedislock(url, time.Millisecond)},
			{Name: "rueidislock", Settings: "its defaults: 2 of 3 keys, woken by invalidation messages", Open: openRueidislock(url)},
		}, ours.All(url)...)
	}}
}

func start(context.Context) (workload.Server, error) {
	s, end, err := workload.Launch(func(dir string) (*redistest.Server, error) {
		return redistest.Run(dir, redistest.Config("maxclients", "19000"))
	}, (*redistest.Server).Stop)
	if err != nil {
		return workload.Server{}, err
	}
	version, _ := info(s, "server", "redis_version")
	return workload.Server{URL: s.URL(), About: "Redis " + version + ", one node, no persistence", Close: end,
		Kept: func(context.Context) (float64, error) {
			used, err := info(s, "memory", "used_memory")
			if err != nil {
				return 0, err
			}
			return strconv.ParseFloat(used, 64)
		}}, nil
}

func info(s *redistest.Server, section, key string) (string, error) {
	answer, err := s.Do("INFO", section)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(fmt.Sprintf("%s", answer)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("INFO %s: no %s", section, key)
}
