package zk

import "encoding/binary"

// The client takes for true what stands in an answer: it makes a list of the length that is said,
// and reads past the end of what is too short. That would end the program. So each answer is
// walked through before.
//
// Layouts: zookeeper.jute of Apache ZooKeeper.

const (
	replyHead = 16 // number, transaction and error
	statSize  = 68
)

// soundGrant reports whether a session is granted, or refused, by a message that can be read.
func soundGrant(m []byte) bool {
	r := reading{left: m}
	r.number() // version of the protocol
	timeout, session := r.number(), r.bytes(8)
	r.text()
	return !r.short && (timeout > 0 || binary.BigEndian.Uint64(session) == 0)
}

// soundReply reports whether the body of an answer without an error can be read.
func soundReply(op int32, body []byte) bool {
	r := reading{left: body}
	switch op {
	case opGetData, opReconfig:
		r.text()
		r.bytes(statSize)
	case opExists, opSetData:
		r.bytes(statSize)
	case opCreate:
		if r.text() == nil {
			r.short = true
		}
	case opGetEphemerals, opGetChildren:
		r.texts()
	case opGetChildren2:
		r.texts()
		r.bytes(statSize)
	case opGetACL:
		r.list(func() {
			r.number() // rights
			r.text()
			r.text()
		})
	case opMulti:
		r.results()
	}
	return !r.short
}

// reading walks through a message.
type reading struct {
	left  []byte
	short bool // it ended too early
}

func (r *reading) bytes(n int) []byte {
	if n > len(r.left) {
		r.left, r.short = nil, true
		return make([]byte, n)
	}
	b := r.left[:n:n]
	r.left = r.left[n:]
	return b
}

func (r *reading) number() int32 { return int32(binary.BigEndian.Uint32(r.bytes(4))) }

// text is a string, or other bytes, behind its length; nil if it is not there, or the length is negative, which
// means none.
func (r *reading) text() []byte {
	n := int(r.number())
	if n > len(r.left) {
		r.short = true
	}
	if n < 0 || r.short {
		return nil
	}
	return r.bytes(n)
}

func (r *reading) list(each func()) {
	n := r.number()
	if n < 0 {
		r.short = true
	}
	for ; n > 0 && !r.short; n-- {
		each()
	}
}

// texts is a list of strings, up to one that is not there.
func (r *reading) texts() (all []string) {
	r.list(func() {
		t := r.text()
		if t == nil {
			r.short = true
			return
		}
		all = append(all, string(t))
	})
	return all
}

func (r *reading) long() int64 { return int64(binary.BigEndian.Uint64(r.bytes(8))) }

func (r *reading) stat() *Stat {
	return &Stat{
		Czxid: r.long(), Mzxid: r.long(), Ctime: r.long(), Mtime: r.long(), Version: r.number(), Cversion: r.number(), Aversion: r.number(),
		EphemeralOwner: r.long(), DataLength: r.number(), NumChildren: r.number(), Pzxid: r.long(),
	}
}

// results are those of several operations, each behind its kind; the last one says that it is.
func (r *reading) results() (all []Result) {
	for !r.short {
		op := r.number()
		last := r.bytes(1)[0] != 0
		r.number() // error
		var one Result
		switch {
		case last:
			return all
		case op == opCreate || op == opCreateContainer:
			one.Path = string(r.text())
		case op == opSetData:
			r.bytes(statSize)
		case op == opError:
			one.Err = errorOf(r.number())
		case op != opDelete && op != opCheck:
			r.short = true
		}
		all = append(all, one)
	}
	return all
}
