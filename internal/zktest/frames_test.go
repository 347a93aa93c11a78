package zktest

import (
	"slices"
	"testing"
)

func framed(b record) []byte { return append(record{}.int32(int32(len(b))), b...) }

// Frames are found however the stream is cut into pieces.
func TestFrames(t *testing.T) {
	var want []string
	for _, size := range []int{0, 1, 44, 3, 300, 0} {
		want = append(want, string(framed(make(record, size))))
	}
	stream := slices.Concat([]byte(want[0]), []byte(want[1]), []byte(want[2]), []byte(want[3]), []byte(want[4]), []byte(want[5]))
	for size := 1; size <= len(stream); size++ {
		var f frames
		var got []string
		for piece := range slices.Chunk(stream, size) {
			f.buf = append(f.buf, piece...)
			for frame := f.next(false); frame != nil; frame = f.next(false) {
				got = append(got, string(frame))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: got %q, want %q", size, got, want)
		}
	}
}

// What opens no session passes at once.
func TestRaw(t *testing.T) {
	for _, stream := range []string{"ruok", "mntr\n", "\x16\x03\x01\x00\x01", "\xff\xff\xff\xff"} {
		f := frames{buf: []byte(stream)}
		if got := f.next(true); string(got) != stream || !f.raw {
			t.Errorf("got %q, want %q", got, stream)
		}
	}
}

// A request or a reply that is too short is no reason to end.
func TestShortFrames(t *testing.T) {
	whole := framed(record{}.int32(1).int32(int32(OpMulti)).int32(int32(OpCreate)).bool(false).int32(-1).string("/a"))
	if f := request(whole, false); f.Path != "/a" || f.Op != OpMulti || f.Xid != 1 {
		t.Errorf("got %+v", f)
	}
	for n := 4; n < len(whole); n++ {
		if f := request(whole[:n], false); f.Path != "" {
			t.Errorf("got %+v of %d bytes", f, n)
		}
		var d dialogue
		d.answered(whole[:n])
	}
}
