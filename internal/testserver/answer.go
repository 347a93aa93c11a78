package testserver

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Answer listens on a free port of this machine in the place of a server. Each connection is
// given to serve, and closed when that returns. At the end of the test all connections are
// closed, and what serve still does is waited for.
func Answer(t testing.TB, serve func(net.Conn)) (addr string) {
	return AnswerAt(t, Address(0), serve)
}

// AnswerAt is Answer at an address, or at a path as a Unix socket.
func AnswerAt(t testing.TB, at string, serve func(net.Conn)) (addr string) {
	network := "tcp"
	if strings.HasPrefix(at, "/") {
		network = "unix"
	}
	l, err := net.Listen(network, at)
	OK(t, err)
	over, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				defer context.AfterFunc(over, func() { c.Close() })()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		end()
		all.Wait()
	})
	return l.Addr().String()
}

// Garble makes a Filter that changes some of what a server answers, after a few answers as they
// were: bits, bytes, lengths, order, parts that are missing, doubled or made up, and the end. One seed
// changes the same things in the same answers: the first connections of a server differ little.
func Garble(seed uint64) Filter {
	r := rand.New(rand.NewPCG(seed, 0))
	how := garblers[seed%uint64(len(garblers))]
	often, spared := []float64{0.02, 0.1, 0.3, 1}[r.IntN(4)], r.IntN(8)
	return func(read []byte) Passed {
		if spared--; spared >= 0 || len(read) == 0 || r.Float64() >= often {
			return Passed{Bytes: read}
		}
		return Passed{Bytes: how(r, slices.Clone(read))}
	}
}

// garblers change an answer that is not empty.
var garblers = []func(r *rand.Rand, b []byte) []byte{
	func(r *rand.Rand, b []byte) []byte {
		for range 1 + r.IntN(4) {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
		return b
	},
	func(r *rand.Rand, b []byte) []byte {
		const special = "\x00\x01\x7f\x80\xfb\xfc\xfd\xfe\xff-*$\n"
		for range 1 + r.IntN(3) {
			b[r.IntN(len(b))] = special[r.IntN(len(special))]
		}
		return b
	},
	func(r *rand.Rand, b []byte) []byte {
		lengths := []uint32{0, 1, 0x00ffffff, 0x40000000, 0x7ffffff0, 0x7fffffff, 0x80000000, 0xffffffff}
		copy(b[r.IntN(len(b)):], binary.BigEndian.AppendUint32(nil, lengths[r.IntN(len(lengths))]))
		return b
	},
	func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] },
	func(_ *rand.Rand, b []byte) []byte { return append(b, b...) },
	func(r *rand.Rand, b []byte) []byte {
		for i, c := range b {
			if c >= '0' && c <= '9' && r.IntN(3) == 0 {
				b[i] = byte('0' + r.IntN(10))
			}
		}
		return b
	},
	func(r *rand.Rand, b []byte) []byte {
		made := make([]byte, r.IntN(40))
		for i := range made {
			made[i] = byte(r.Uint32())
		}
		return slices.Insert(b, r.IntN(len(b)), made...)
	},
	func(r *rand.Rand, b []byte) []byte {
		from := r.IntN(len(b))
		return slices.Delete(b, from, from+r.IntN(len(b)-from+1))
	},
	func(r *rand.Rand, b []byte) []byte {
		for i := 0; i+1 < len(b); i += 2 {
			if r.IntN(4) == 0 {
				b[i], b[i+1] = b[i+1], b[i]
			}
		}
		return b
	},
}
