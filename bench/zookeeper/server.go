package zookeeper

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/bench/kernel"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/zktest"
)

// server is a ZooKeeper that was started here.
type server struct {
	*zktest.Server
	traffic *kernel.Traffic

	mu    sync.Mutex
	asked float64 // questions of usage, which are not its use
}

// tick is the server's unit of time. A session ends at the next whole tick, and
// W9 has sessions of one second, a fifteenth of what is usual.
const tick = 100 * time.Millisecond

// start runs a server of which writes do not wait for the disk, and has it
// compile what locks need.
func start(ctx context.Context) (*server, error) {
	dir, err := os.MkdirTemp("", "bench-zookeeper-")
	if err != nil {
		return nil, err
	}
	running, err := zktest.Run(dir, zktest.JVM("-Xmx1g", "-XX:TieredStopAtLevel=4"),
		zktest.Tick(tick), zktest.Config("maxSessionTimeout", "600000"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	s := &server{Server: running, traffic: kernel.NewTraffic(running.Port, 0)}
	if err := warmUp(ctx, s.URL()); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *server) Close() error {
	s.Stop()
	return os.RemoveAll(s.Dir)
}

// URL has no path: all have the same ones, which the server repeats in what it sends.
func (s *server) URL() string { return "zk://" + s.Addr }

func (s *server) About() []string {
	stat, _ := s.Ask("srvr")
	version, _, _ := strings.Cut(strings.TrimPrefix(stat, "Zookeeper version: "), "-")
	about := []string{
		"ZooKeeper " + version + ", one server, heap of 1 GiB, forceSync=no (writes do not wait for the disk), tickTime " + tick.String(),
		"Curator " + curatorVersion() + "; " + javaVersion(),
	}
	if _, _, err := s.traffic.Read(); err != nil {
		about = append(about, "bytes are not counted: "+err.Error())
	}
	return about
}

func javaVersion() string {
	said, err := exec.Command("java", "-version").CombinedOutput()
	if err != nil {
		return err.Error()
	}
	first, _, _ := strings.Cut(string(said), "\n")
	return first
}

// curatorVersion is in the name of a link to the jar.
func curatorVersion() string {
	const jar, end = "/usr/share/java/curator-recipes-", ".jar"
	links, _ := filepath.Glob(jar + "*" + end)
	if len(links) == 0 {
		return "of an unknown version"
	}
	return strings.TrimSuffix(strings.TrimPrefix(links[0], jar), end)
}

// Usage reads the kernel's counters of bytes and CPU and the server's own of
// packets. Pings are packets too.
func (s *server) Usage(context.Context) (u workload.Usage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.CPU = kernel.CPU(s.Pid())
	u.Scripts, u.Transactions = math.NaN(), math.NaN()
	if u.Sent, u.Received, err = s.traffic.Read(); err != nil {
		u.Sent, u.Received = math.NaN(), math.NaN()
	}
	s.asked++
	packets, err := s.packets()
	u.Commands = packets - s.asked
	return u, err
}

func (s *server) packets() (float64, error) {
	answer, err := s.Ask("mntr")
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(strings.NewReader(answer)); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "zk_packets_received\t"); ok {
			return strconv.ParseFloat(n, 64)
		}
	}
	return 0, fmt.Errorf("mntr: no packets_received in:\n%s", answer)
}

// warmUp locks and unlocks for a while: a JVM compiles what it has already run
// for some time.
func warmUp(ctx context.Context, url string) error {
	const clients, long = 8, 3 * time.Second
	open := openRecipe(url)
	end := time.Now().Add(long)
	errs := make(chan error)
	for range clients {
		go func() {
			c, err := open(ctx, workload.Options{TTL: time.Minute})
			if err != nil {
				errs <- err
				return
			}
			lock := c.Lock("warm")
			for err == nil && time.Now().Before(end) {
				var h workload.Held
				if h, err = lock(ctx); err == nil {
					err = h.Release()
				}
			}
			_ = c.Close()
			errs <- err
		}()
	}
	var one error
	for range clients {
		if err := <-errs; err != nil {
			one = err
		}
	}
	return one
}

// Kept is the heap of the server after a collection.
func (s *server) Kept(ctx context.Context) (float64, error) {
	pid := strconv.Itoa(s.Pid())
	if out, err := exec.CommandContext(ctx, "jcmd", pid, "GC.run").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("jcmd: %w: %s", err, out)
	}
	// The objects that are reachable, and their bytes; the last line is the sum.
	out, err := exec.CommandContext(ctx, "jcmd", pid, "GC.class_histogram").Output()
	if err != nil {
		return 0, fmt.Errorf("jcmd: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "Total" {
			return strconv.ParseFloat(words[2], 64)
		}
	}
	return 0, fmt.Errorf("jcmd: no sum in:\n%.200s", out)
}
