package redistest

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/interlock-go/interlock/internal/testserver"
)

// link is one connection through a proxy.
type link struct {
	proxy   *Proxy
	replies replies
	raw     atomic.Bool // it is no dialogue of requests and replies
}

func (p *Proxy) filters() (requests, replies testserver.Filter) {
	k := &link{proxy: p}
	return k.filter(k.request), k.filter(k.reply)
}

// verdict is what becomes of a frame.
type verdict int

const (
	forward verdict = iota
	drop
	hangUp // drop it, and end the connection
)

// filter lets whole frames pass, up to one that ends the connection.
func (k *link) filter(judge func([]byte) verdict) testserver.Filter {
	var f frames
	return func(read []byte) (passed testserver.Passed) {
		f.raw = f.raw || k.raw.Load()
		f.add(read)
		for {
			frame := f.next()
			if frame == nil {
				return passed
			}
			if !f.raw {
				switch judge(frame) {
				case hangUp:
					k.proxy.lost.Add(1)
					passed.Cut = true
					return passed
				case drop:
					continue
				}
				passed.Frames++
			}
			passed.Bytes = append(passed.Bytes, frame...)
		}
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
