package redislock

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver/exchange"
)

// feed is the connection to which the server sends news without being asked:
// grants, signals, changes of what is followed.
//
// It may die without notice, or live on with a server that is not the master any
// more. So every heartbeat sends an echo by its own connection, and a feed that has
// not brought the last one by the next heartbeat is replaced.
type feed struct {
	mu    sync.Mutex
	conn  *conn.Dedicated    // nil while there is none
	drop  context.CancelFunc // ends conn
	err   error              // why there is none
	tried chan struct{}      // closed by the next attempt
	sent  uint64             // the last echo that was sent since conn is there
	since time.Time          // when that was
	heard uint64             // the last that was heard
}

// is notes the outcome of an attempt.
func (f *feed) is(own *conn.Dedicated, drop context.CancelFunc, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn, f.drop, f.err = own, drop, err
	f.sent, f.heard = 0, 0
	close(f.tried)
	f.tried = make(chan struct{})
}

// echoPatience is how long an echo may take.
const echoPatience = time.Second

// echo notes that the n-th echo is sent, and reports false if there is none to be
// sent now. It gives up a connection that did not bring the last one.
func (f *feed) echo(n uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.conn == nil:
		return false
	case f.sent == f.heard:
		f.sent, f.since = n, time.Now()
		return true
	case time.Since(f.since) > echoPatience:
		f.conn = nil
		f.drop()
	}
	return false
}

// lost is why there is no connection although somebody wants it, as far as that is known.
func (f *feed) lost() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil || errors.Is(f.err, context.Canceled) { // the last listener has ended
		return nil
	}
	return f.err
}

func (f *feed) hear(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n == f.sent {
		f.heard = n
	}
}

// echo has the server send a message to this client, if that is of use now. The key
// chooses a node.
func (s *store) echo() []call {
	n := exchange.NewNumber()
	if !s.feed.echo(n) {
		return nil
	}
	text := "p " + strconv.FormatUint(n, 10)
	return []call{{echoScript, []string{"interlock:{" + s.prefix + s.allNames + s.mailbox + "}"}, []string{s.channel(), text}}}
}

// await waits until there is a feed, and fails with the next attempt that
// does.
func (f *feed) await(ctx context.Context) error {
	f.mu.Lock()
	conn, tried := f.conn, f.tried
	f.mu.Unlock()
	if conn != nil {
		return nil
	}
	select {
	case <-tried:
	case <-ctx.Done():
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// anyNode is where the feed of this client is. In a Cluster the client itself would
// choose the same node for most programs, and a dead one again and again.
func (s *store) anyNode() rueidis.Client {
	if s.client.Mode() == rueidis.ClientModeCluster {
		if nodes := slices.Collect(maps.Values(s.client.Nodes())); len(nodes) > 0 {
			return nodes[rand.N(len(nodes))]
		}
	}
	return s.client
}

var errSilent = errors.New("the connection for news was silent")

// Listen keeps the feed up until its connection is lost, or is given up since it brings nothing.
func (s *store) Listen(ctx context.Context, _ string, up func(), receive func(exchange.Event)) (err error) {
	outer := ctx
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	defer func() {
		if ctx.Err() != nil && outer.Err() == nil {
			err = errSilent
		}
		s.feed.is(nil, nil, err)
	}()
	own, err := conn.Dedicate(ctx, s.ctx, s.anyNode(), (*conn.Dedicated).Close)
	if err != nil {
		return err
	}
	defer own.Close()
	subscribed := make(chan struct{}, 1)
	isUp := sync.OnceFunc(func() { subscribed <- struct{}{} })
	ended := own.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { s.hear(m.Message, receive) },
		OnSubscription: func(rueidis.PubSubSubscription) { isUp() },
	})
	if err := own.Do(ctx, own.B().Subscribe().Channel(s.channel()).Build()).Error(); err != nil {
		return err
	}
	for {
		select {
		case <-subscribed:
			s.feed.is(own, drop, nil)
			up()
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// channel is where scripts send what is for this client.
func (s *store) channel() string { return "interlock:" + s.mailbox }
