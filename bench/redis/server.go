package redis

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/redistest"
)

// server is a Redis that was started here, or one that was running already.
type server struct {
	url    string
	stop   func() // nil if it was not started here
	admin  *redis.Client
	asked  int64 // questions of usage, which are not its use
	sent   int64 // bytes of the answers
	gotten int64 // bytes of the questions
}

// start runs a server without persistence, unless there is one at url.
func start(ctx context.Context, url string) (workload.Server, error) {
	s := &server{url: url}
	if url == "" {
		dir, err := os.MkdirTemp("", "bench-redis-")
		if err != nil {
			return nil, err
		}
		running, err := redistest.Run(dir, redistest.Config("maxclients", "19000"))
		if err != nil {
			_ = os.RemoveAll(dir)
			return nil, err
		}
		s.url = "redis://" + running.Addr
		s.stop = func() {
			running.Stop()
			_ = os.RemoveAll(dir)
		}
	}
	opt, err := redis.ParseURL(s.url)
	if err != nil {
		s.end()
		return nil, err
	}
	opt.Protocol, opt.PoolSize = 2, 1 // its bytes can be counted
	s.admin = redis.NewClient(opt)
	if err := s.admin.Ping(ctx).Err(); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("%s: %w", opt.Addr, err)
	}
	return s, nil
}

func (s *server) URL() string { return s.url }

func (s *server) About() []string {
	info := s.info(context.Background(), "server")
	about := "redis-server " + info["redis_version"] + ", one node"
	if saved, err := s.admin.ConfigGet(context.Background(), "appendonly").Result(); err == nil {
		about += ", appendonly " + saved["appendonly"]
	}
	return []string{about}
}

func (s *server) Close() error {
	err := s.admin.Close()
	s.end()
	return err
}

func (s *server) end() {
	if s.stop != nil {
		s.stop()
	}
}

// Clear deletes everything, unless others may use the server. Keys that wait
// for their end would delay that of others.
func (s *server) Clear(ctx context.Context) error {
	if s.stop == nil {
		return nil
	}
	s.asked++
	return s.admin.FlushAll(ctx).Err()
}

var sections = []string{"stats", "cpu", "commandstats"}

// Usage reads the server's counters. Whatever it costs itself is left out.
func (s *server) Usage(ctx context.Context) (u workload.Usage, err error) {
	text, err := s.admin.Info(ctx, sections...).Result()
	if err != nil {
		return u, err
	}
	info := parse(text)
	number := func(key string) float64 {
		n, e := strconv.ParseFloat(info[key], 64)
		if e != nil && err == nil {
			err = fmt.Errorf("INFO: %s: %w", key, e)
		}
		return n
	}
	u.Transactions = math.NaN()
	u.Sent = number("total_net_output_bytes") - float64(s.sent)
	s.gotten += questionBytes() // this one is read already, its answer is not written yet
	u.Received = number("total_net_input_bytes") - float64(s.gotten)
	u.Commands = number("total_commands_processed") - float64(s.asked)
	for _, key := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, e := strconv.ParseFloat(info[key], 64)
		if e != nil && err == nil {
			err = fmt.Errorf("INFO: %s: %w", key, e)
		}
		u.CPU += time.Duration(seconds * float64(time.Second))
	}
	for _, script := range []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"} {
		calls, _, _ := strings.Cut(strings.TrimPrefix(info["cmdstat_"+script], "calls="), ",")
		n, _ := strconv.ParseFloat(calls, 64) // it is not there before the first call
		u.Scripts += n
	}
	s.asked++
	s.sent += int64(len(text) + len(strconv.Itoa(len(text))) + len("$\r\n\r\n"))
	return u, err
}

// questionBytes is the length of an INFO with these sections on the wire.
func questionBytes() int64 {
	n := 0
	for _, word := range append([]string{"info"}, sections...) {
		n += len(word) + len(strconv.Itoa(len(word))) + len("$\r\n\r\n")
	}
	return int64(n + len("*4\r\n"))
}

func (s *server) info(ctx context.Context, section string) map[string]string {
	text, _ := s.admin.Info(ctx, section).Result()
	return parse(text)
}

func parse(info string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[key] = value
		}
	}
	return all
}

// Kept is the memory of the server.
func (s *server) Kept(ctx context.Context) (float64, error) {
	info := s.info(ctx, "memory")
	return strconv.ParseFloat(info["used_memory"], 64)
}
