package doctor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/deadline"
	"github.com/interlock-go/interlock/internal/doctor"
)

// node is what a server says of itself.
type node struct {
	addr      string
	client    rueidis.Client
	err       error // why it cannot be asked for anything
	ping      error // why it refuses a PING
	trip      time.Duration
	clock     reading
	hello     map[string]string // who it is; needs no right
	info      map[string]string
	infoErr   error
	config    map[string]string
	configErr error
	topology  topology // as this node sees it
	rights    trial
}

// reading is the difference of a server's wall clock to ours.
type reading struct {
	ahead, uncertain time.Duration
	known            bool
}

// checkPatience is how long a node may take for all that it is asked.
const checkPatience = 5 * time.Second

// settings are read from the configuration, each in a call of its own: several
// at once are possible since Redis 7 only.
var settings = []string{
	"appendfsync", "no-appendfsync-on-rewrite", "save", "min-replicas-to-write", "client-output-buffer-limit",
	"timeout", "lua-time-limit", "maxclients", "cluster-require-full-coverage",
}

// examine asks all nodes at once.
func (d *Doctor) examine(ctx context.Context) []*node {
	var nodes []*node
	var mu sync.Mutex
	var all sync.WaitGroup
	for addr, client := range d.Redis.Nodes() {
		all.Go(func() {
			n := d.examineOne(ctx, addr, client)
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, n)
		})
	}
	all.Wait()
	slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	return nodes
}

func (d *Doctor) examineOne(ctx context.Context, addr string, client rueidis.Client) *node {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	done := make(chan *node, 1)
	go func() {
		n := &node{addr: addr, client: client}
		if err := n.ask(ctx, d); err != nil {
			n.err = cmp.Or(context.Cause(ctx), deadline.Err(ctx), d.Explain(err))
		}
		done <- n
	}()
	select {
	case n := <-done:
		return n
	case <-ctx.Done(): // a client may see only the deadline
		return &node{addr: addr, client: client, err: context.Cause(ctx)}
	}
}

func (n *node) do(ctx context.Context, d *Doctor, words ...string) rueidis.RedisResult {
	d.Count()
	return n.client.Do(ctx, n.client.B().Arbitrary(words...).Build())
}

// text asks for a longer text.
func (n *node) text(ctx context.Context, d *Doctor, words ...string) (string, error) {
	s, err := n.do(ctx, d, words...).ToString()
	return strings.TrimPrefix(s, "txt:"), err // its type, in RESP3
}

// ask fails if the node does not answer. What it refuses stays unknown.
func (n *node) ask(ctx context.Context, d *Doctor) error {
	began := time.Now()
	if n.ping = n.do(ctx, d, "PING").Error(); n.ping != nil && !conn.Refused(n.ping.Error()) {
		return n.ping
	}
	n.trip = time.Since(began)
	for range 5 {
		n.readClock(ctx, d)
	}
	var err error
	if n.hello, err = texts(n.do(ctx, d, "HELLO")); err != nil && !conn.Answered(err) {
		return err
	}
	var text string
	if text, n.infoErr = n.text(ctx, d, "INFO"); n.infoErr != nil && !conn.Answered(n.infoErr) {
		return n.infoErr
	}
	n.info = lines(text)
	var commands []rueidis.Completed
	for _, s := range settings {
		commands = append(commands, n.client.B().ConfigGet().Parameter(s).Build())
	}
	d.Count()
	n.config = map[string]string{}
	for _, r := range n.client.DoMulti(ctx, commands...) {
		m, err := r.AsStrMap()
		if err != nil {
			n.configErr = err
		}
		for k, v := range m {
			n.config[k] = v
		}
	}
	if d.Redis.Mode() == rueidis.ClientModeCluster {
		n.topology = n.askTopology(ctx, d)
	}
	n.rights = n.try(ctx, d)
	return nil
}

// readClock keeps the reading with the shortest round trip: within that the server
// has looked at its clock.
func (n *node) readClock(ctx context.Context, d *Doctor) {
	sent := time.Now()
	at, err := n.do(ctx, d, "TIME").AsIntSlice()
	trip := time.Since(sent)
	if err != nil || len(at) != 2 {
		return
	}
	n.trip = min(n.trip, trip)
	if r := trip / 2; !n.clock.known || r < n.clock.uncertain {
		server := time.Unix(at[0], at[1]*1000)
		n.clock = reading{server.Sub(sent.Round(0)) - r, r, true}
	}
}

// texts reads a map, leaving out what is no text or number.
func texts(r rueidis.RedisResult) (map[string]string, error) {
	m, err := r.AsMap()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for k, v := range m {
		if s, err := v.ToString(); err == nil {
			all[k] = s
		} else if i, err := v.ToInt64(); err == nil {
			all[k] = strconv.FormatInt(i, 10)
		}
	}
	return all, nil
}

// lines reads the answer of INFO and its like.
func lines(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[k] = v
		}
	}
	return all
}

// number reads a number of INFO; it reports false if there is none.
func (n *node) number(key string) (int64, bool) {
	i, err := strconv.ParseInt(n.info[key], 10, 64)
	return i, err == nil
}

// setting reads a number of the configuration.
func (n *node) setting(key string) (int64, bool) {
	i, err := strconv.ParseInt(n.config[key], 10, 64)
	return i, err == nil
}

func (n *node) isReplica() bool {
	return n.hello["role"] == "replica" || n.hello["role"] == "slave" || n.info["role"] == "slave"
}

// checkVisible says what could not be examined.
func (d *Doctor) checkVisible(_ context.Context, n *node) driver.Finding {
	err := errors.Join(n.infoErr, n.configErr)
	if err == nil {
		return driver.Finding{}
	}
	var what, rights []string
	if n.infoErr != nil {
		what, rights = append(what, "INFO (persistence, replicas, memory)"), append(rights, "+info")
	}
	if n.configErr != nil {
		what, rights = append(what, "CONFIG GET ("+strings.Join(settings, ", ")+")"), append(rights, "+config|get")
	}
	return doctor.Warn("those that depend on what cannot be seen",
		grant(d.User, rights...)+", or look yourself", "%s cannot be seen: %s",
		strings.Join(what, " and "), strings.ReplaceAll(err.Error(), "\n", "; "))
}
