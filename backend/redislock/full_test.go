package redislock_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// crowd are connections of others to a server.
type crowd struct {
	t    *testing.T
	s    *redistest.Server
	open []*bufio.ReadWriter
	conn []net.Conn
}

// add reports false if the server lets nobody in any more.
func (c *crowd) add() bool {
	c.t.Helper()
	conn := errtest.Must(net.Dial("tcp", c.s.Addr))(c.t)
	c.t.Cleanup(func() { conn.Close() })
	rw := bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	if !strings.HasPrefix(ask(rw, "PING"), "+PONG") {
		return false
	}
	c.open, c.conn = append(c.open, rw), append(c.conn, conn)
	return true
}

func (c *crowd) fill() {
	for c.add() {
	}
}

func ask(rw *bufio.ReadWriter, command string) string {
	fmt.Fprint(rw, command, "\r\n")
	rw.Flush()
	line, _ := rw.ReadString('\n')
	return line
}

// ids are those of the connections of Interlock, in the order in which they were made.
func (c *crowd) ids() (all []int) {
	rw := c.open[0]
	var n int
	errtest.Must(fmt.Sscanf(ask(rw, "CLIENT LIST"), "$%d", &n))(c.t)
	for read := 0; read < n+2; {
		line := errtest.Must(rw.ReadString('\n'))(c.t)
		if m := regexp.MustCompile(`^id=(\d+) .* name=interlock `).FindStringSubmatch(line); m != nil {
			id, _ := strconv.Atoi(m[1])
			all = append(all, id)
		}
		read += len(line)
	}
	slices.Sort(all)
	return all
}

// Promise: a server that lets nobody in any more costs no lease of those who are in, before
// the first heartbeat or after the connection for heartbeats has been lost; and there is
// one again when there is room.
func TestAFullServerCostsNoLease(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost=", lost), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.Config("maxclients", "12"))
			const ttl = 3 * time.Second
			var beats atomic.Int64
			c := opener(t, s.URL(), interlock.TTL(ttl), interlock.Observe(func(_ context.Context, e interlock.Event) {
				if e.Kind == interlock.EventRenewed {
					beats.Add(1)
				}
			}))()
			l := acquire(t, c.Mutex("m"))
			others := &crowd{t: t, s: s}
			others.add()
			if lost {
				busy.Until(t, "there is a connection for heartbeats", func() bool { return len(others.ids()) > 2 })
			}
			busy.Until(t, "the client has two connections to a server that is full", func() bool {
				others.fill()
				all := others.ids()
				for _, id := range all[2:] {
					ask(others.open[0], fmt.Sprint("CLIENT KILL ID ", id))
				}
				return len(all) == 2
			})
			before := beats.Load()
			busy.Until(t, "heartbeats for three TTLs", func() bool { return l.Err() != nil || beats.Load() >= before+9 })
			errtest.MustBe(t, l.Err(), nil, "the lease is lost")
			if n := len(others.ids()); n != 2 {
				t.Errorf("the client has %d connections to a server that is full", n)
			}
			others.conn[1].Close()
			busy.Until(t, "there is a connection for heartbeats again", func() bool { return len(others.ids()) > 2 })
		})
	}
}

// Promise: a heartbeat does not wait long for its own connection. One that is late is for the
// next, and is the only one on its way.
func TestAHeartbeatDoesNotWaitForItsConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var dials atomic.Int64
	late := make(chan struct{})
	d := errtest.Must(redislock.Connect(t.Context(), rueidis.ClientOption{
		InitAddress: []string{s.Addr},
		Dialer:      net.Dialer{Timeout: time.Hour},
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if dials.Add(1) > 2 {
				<-late
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	}))(t)
	defer d.Close()
	sess := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: 10 * time.Minute}))(t)
	tk := errtest.Must(sess.Join(t.Context(), exclusive("q")))(t)
	renew := func(how string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
		defer cancel()
		began := time.Now()
		answer, err := sess.Renew(ctx, []driver.Ticket{tk})
		inTime(t, "Renew", began, nil)
		if err != nil || len(answer) != 1 || answer[0].State != driver.Kept {
			t.Errorf("Renew %s: %v, %v", how, answer, err)
		}
	}
	renew("without its connection")
	renew("while that is on its way")
	if n := dials.Load(); n != 3 {
		t.Errorf("%d connections, not 3", n)
	}
	close(late)
	others := &crowd{t: t, s: s}
	others.add()
	busy.Until(t, "the connection is there", func() bool { return len(others.ids()) == 3 })
	had := dials.Load() // an attempt that took too long may have been repeated
	renew("with its connection")
	if n := dials.Load(); n != had {
		t.Errorf("then %d connections, not %d", n, had)
	}
}

// Promise: a server whose memory is full takes nobody's lock away.
func TestAFullMemoryCostsNobodyALock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	held := errtest.Must(a.Join(t.Context(), exclusive("q")))(t)
	wait := errtest.Must(b.Join(t.Context(), exclusive("q")))(t)
	alone := errtest.Must(a.Join(t.Context(), exclusive("alone")))(t)
	warm(t, b)
	do(t, s, "CONFIG", "SET", "maxmemory", "100000")
	r, err := a.Renew(t.Context(), []driver.Ticket{held, alone})
	if err != nil || len(r) != 2 {
		t.Errorf("Renew with a full memory: %v %v", r, err)
	}
	errtest.Is(t, a.Leave(t.Context(), held, true), nil, "Leave")
	errtest.Is(t, a.Leave(t.Context(), alone, true), nil, "Leave")
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := b.Await(ctx, wait); err != nil {
		t.Errorf("Await: %v", err)
	}
}
