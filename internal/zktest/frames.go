package zktest

import (
	"encoding/binary"
	"sync"
)

// Frame is one message: a request, the reply to one, or an event.
type Frame struct {
	Reply bool   // or an event: it goes to the client
	Op    Op     // of a reply: that of its request
	Path  string // that the request is about, the first one of a multi; or the event
	Xid   int32
	Zxid  int64 // of a reply
	Err   int32 // of a reply: 0, or the number of an error
	Bytes int   // its whole length

	// Body is what comes after the header, and all of what opens a session. It
	// must not be kept or changed.
	Body []byte
}

// frames cuts a stream into frames. A stream of anything else passes as it comes.
type frames struct {
	raw bool
	buf []byte
}

// mostOpening is more than what opens a session takes; the words of four letters
// and TLS begin with what would be a greater length.
const mostOpening = 1 << 16

// next returns the next whole frame, or nothing if it is not whole yet.
func (f *frames) next(opening bool) []byte {
	n := len(f.buf)
	if !f.raw {
		if n < 4 {
			return nil
		}
		size := int32(binary.BigEndian.Uint32(f.buf))
		if size < 0 || opening && size > mostOpening {
			f.raw = true
		} else if n < 4+int(size) {
			return nil
		} else {
			n = 4 + int(size)
		}
	}
	if n == 0 {
		return nil
	}
	frame := f.buf[:n:n]
	f.buf = f.buf[n:]
	return frame
}

// dialogue knows which request a reply belongs to.
type dialogue struct {
	mu      sync.Mutex
	pending map[int32][]pending
	opening bool // a reply to what opens the session has still to come
}

// pending is a request whose reply has not come.
type pending struct {
	op   Op
	path string
	lose bool
}

// request reads a request; the first one opens a session.
func request(b []byte, opening bool) Frame {
	f := Frame{Bytes: len(b)}
	r := reader{b: b[4:]}
	if opening {
		f.Op, f.Body = OpConnect, r.b
		return f
	}
	f.Xid, f.Op = r.int32(), Op(r.int32())
	f.Body = r.b
	if f.Op == OpMulti {
		first := Op(r.int32())
		r.take(1 + 4) // last one, error
		if first.hasPath() {
			f.Path = r.string()
		}
	} else if f.Op.hasPath() {
		f.Path = r.string()
	}
	return f
}

// asked notes a request before it is sent.
func (d *dialogue) asked(f Frame, lose bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		d.pending = map[int32][]pending{}
	}
	d.opening = d.opening || f.Op == OpConnect
	d.pending[f.Xid] = append(d.pending[f.Xid], pending{f.Op, f.Path, lose})
}

// eventXid is that of all events.
const eventXid = -1

// answered reads a reply or an event, and says whether it is to be lost.
func (d *dialogue) answered(b []byte) (f Frame, lose bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f = Frame{Reply: true, Bytes: len(b)}
	r := reader{b: b[4:]}
	if d.opening {
		d.opening = false
		f.Op, f.Body = OpConnect, r.b
	} else {
		f.Xid, f.Zxid, f.Err = r.int32(), r.int64(), r.int32()
		f.Body = r.b
	}
	if f.Xid == eventXid {
		f.Op = OpEvent
		r.take(4 + 4) // kind, state
		f.Path = r.string()
		return f, false
	}
	if list := d.pending[f.Xid]; len(list) > 0 {
		f.Op, f.Path, lose = list[0].op, list[0].path, list[0].lose
		if list = list[1:]; len(list) > 0 {
			d.pending[f.Xid] = list
		} else {
			delete(d.pending, f.Xid)
		}
	}
	return f, lose
}

// reader reads what may be too short: then it reads zeros.
type reader struct{ b []byte }

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b = nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) int32() int32 {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func (r *reader) int64() int64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (r *reader) string() string { return string(r.take(int(r.int32()))) }
