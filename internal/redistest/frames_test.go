package redistest

import (
	"slices"
	"strings"
	"testing"
)

// Frames are found however the stream is cut into pieces.
func TestFrames(t *testing.T) {
	want := []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123\r\n",
		"$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "$4\r\na\r\nb\r\n", "=5\r\ntxt:x\r\n", "!3\r\nERR\r\n",
		"*0\r\n", "%0\r\n", "*2\r\n*1\r\n:1\r\n$1\r\n*\r\n", "~1\r\n+x\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", "|1\r\n+ttl\r\n:1\r\n*1\r\n:2\r\n",
		">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n\r\n\r\n",
	}
	stream := strings.Join(want, "")
	for size := 1; size <= len(stream); size++ {
		var f frames
		var got []string
		for piece := range slices.Chunk([]byte(stream), size) {
			f.add(piece)
			for frame := f.next(); frame != nil; frame = f.next() {
				got = append(got, string(frame))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: got %q, want %q", size, got, want)
		}
	}
}

// What is no RESP passes at once.
func TestRaw(t *testing.T) {
	for _, stream := range []string{"\x16\x03\x01", "PING\r\n", "$EOF:1234\r\nx", "*x\r\n"} {
		var f frames
		f.add([]byte("+OK\r\n" + stream))
		if got := f.next(); string(got) != "+OK\r\n" {
			t.Fatalf("got %q, want the first frame", got)
		}
		if got := f.next(); string(got) != stream || !f.raw {
			t.Fatalf("got %q, want %q", got, stream)
		}
	}
}
