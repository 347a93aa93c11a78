package redistest

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// link is one connection through a proxy.
type link struct {
	proxy   *Proxy
	client  net.Conn
	replies replies
	raw     atomic.Bool // it is no dialogue of requests and replies

	gone    chan struct{} // closed by cut
	cutOnce sync.Once
}

func (k *link) run() {
	p := k.proxy
	defer func() {
		k.cut()
		_ = k.client.Close()
		p.mu.Lock()
		delete(p.links, k)
		p.mu.Unlock()
	}()
	if !k.pass() {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() { k.pump(server, k.client, k.request, &p.toServer) })
	both.Go(func() { k.pump(k.client, server, k.reply, &p.toClients) })
	ended := make(chan struct{})
	go func() { both.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-k.gone:
		_ = k.client.Close()
		_ = server.Close()
		<-ended
	}
}

// cut ends the connection, whatever hangs.
func (k *link) cut() { k.cutOnce.Do(func() { close(k.gone) }) }

// pass waits while bytes are held back. It says no if the connection is cut.
func (k *link) pass() bool {
	select {
	case <-k.gone:
		return false
	default:
	}
	select {
	case <-k.proxy.gate():
		return true
	case <-k.gone:
		return false
	}
}

// verdict is what becomes of a frame.
type verdict int

const (
	forward verdict = iota
	drop
	hangUp // drop it, and end the connection
)

// pump forwards one direction until it ends.
func (k *link) pump(to, from net.Conn, judge func([]byte) verdict, count *counter) {
	var f frames
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !k.pass() {
			return
		}
		f.raw = f.raw || k.raw.Load()
		f.add(buf[:n])
		out, cut := k.sift(&f, judge, count)
		if len(out) > 0 {
			count.bytes.Add(int64(len(out)))
			if _, err := to.Write(out); err != nil {
				k.cut()
			}
		}
		if cut {
			k.proxy.lost.Add(1)
			k.cut()
			return
		}
		if err != nil {
			if half, ok := to.(*net.TCPConn); !ok || half.CloseWrite() != nil {
				k.cut()
			}
			return
		}
	}
}

// sift returns the whole frames that are to be forwarded now, up to one that
// ends the connection.
func (k *link) sift(f *frames, judge func([]byte) verdict, count *counter) (out []byte, cut bool) {
	for {
		frame := f.next()
		if frame == nil {
			return out, false
		}
		if !f.raw {
			switch judge(frame) {
			case hangUp:
				return out, true
			case drop:
				continue
			}
			count.frames.Add(1)
		}
		out = append(out, frame...)
	}
}

func (k *link) request(frame []byte) verdict {
	l := k.proxy.loser.Load()
	lose := l != nil && l.wants(frame)
	if lose && l.requests {
		return hangUp
	}
	if args := words(frame, 1); len(args) == 1 && (strings.EqualFold(args[0], "PSYNC") || strings.EqualFold(args[0], "SYNC")) {
		k.raw.Store(true) // a replica: what follows is a file, and more
	}
	k.replies.asked(frame, lose)
	return forward
}

func (k *link) reply(frame []byte) verdict {
	if frame[0] != '>' {
		if k.replies.answered(frame[0] == '-' || frame[0] == '!') {
			return hangUp
		}
		return forward
	}
	kind := words(frame, 1)
	switch {
	case len(kind) == 0:
	case slices.Contains([]string{"message", "pmessage", "smessage"}, kind[0]):
		if k.proxy.dropPushes.Load() {
			return drop
		}
	case strings.HasSuffix(kind[0], "subscribe"):
		k.replies.confirmed()
	}
	return forward
}

// elements is how many values an array says that it has.
func elements(frame []byte) int {
	n, _ := strconv.Atoi(strings.TrimRight(strings.SplitN(string(frame[1:min(len(frame), 16)]), "\n", 2)[0], "\r"))
	return n
}
