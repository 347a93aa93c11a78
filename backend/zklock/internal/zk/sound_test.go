package zk

import (
	"encoding/binary"
	"testing"
)

// answerOf puts numbers of four bytes, and texts, each with its length, behind each other.
func answerOf(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
		case byte:
			b = append(b, p)
		}
	}
	return b
}

// Promise: an answer is passed on to the client only if all that it says is there.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	t.Parallel()
	stat := string(make([]byte, statSize-4)) // with its length as many bytes
	for _, x := range []struct {
		what string
		ok   bool
		got  bool
	}{
		{"a session", true, soundGrant(answerOf(0, 4000, 0, 7, "password", byte(0)))},
		{"a session, of a server before 3.4", true, soundGrant(answerOf(0, 4000, 0, 7, "password"))},
		{"no session", true, soundGrant(answerOf(0, 0, 0, 0, "password", byte(0)))},
		{"a session without time", false, soundGrant(answerOf(0, 0, 0, 7, "password", byte(0)))},
		{"a session for less than no time", false, soundGrant(answerOf(0, -4000, 0, 7, "password", byte(0)))},
		{"a password of two gigabytes", false, soundGrant(answerOf(0, 4000, 0, 7, 1<<31-1))},
		{"half a session", false, soundGrant(answerOf(0, 4000, 0))},
		{"nothing", false, soundGrant(nil)},
		{"data", true, soundReply(opGetData, answerOf("data", stat))},
		{"no data", true, soundReply(opGetData, answerOf(-1, stat))},
		{"data of two gigabytes", false, soundReply(opGetData, answerOf(1<<31-1, "x"))},
		{"children", true, soundReply(opGetChildren2, answerOf(2, "a", "b", stat))},
		{"no children", true, soundReply(opGetChildren, answerOf(0))},
		{"more children than are there", false, soundReply(opGetChildren2, answerOf(3, "a", "b"))},
		{"two billion children", false, soundReply(opGetChildren2, answerOf(1<<31-1, ""))},
		{"four billion children", false, soundReply(opGetChildren, answerOf(-1))},
		{"a child of two gigabytes", false, soundReply(opGetChildren, answerOf(1, 1<<31-1))},
		{"rights", true, soundReply(opGetACL, answerOf(1, 31, "world", "anyone", stat))},
		{"two billion rights", false, soundReply(opGetACL, answerOf(1<<31-1, 31, "world", "anyone"))},
		{"results", true, soundReply(opMulti, answerOf(opCreate, byte(0), 0, "/a", opSetData, byte(0), 0, stat, opDelete, byte(0), 0, -1, byte(1), -1))},
		{"results of which one failed", true, soundReply(opMulti, answerOf(opError, byte(0), 0, 0, opError, byte(0), -101, -101, -1, byte(1), -1))},
		{"results without an end", false, soundReply(opMulti, answerOf(opDelete, byte(0), 0))},
		{"half a result", false, soundReply(opMulti, answerOf(opSetData))},
		{"what was not asked for", false, soundReply(opMulti, answerOf(99, byte(0), 0, -1, byte(1), -1))},
		{"nothing of a delete", true, soundReply(opDelete, nil)},
	} {
		if x.got != x.ok {
			t.Errorf("%s: passed on: %v", x.what, x.got)
		}
	}
	for _, m := range [][]byte{nil, answerOf(1), answerOf(1, 0, 0)} {
		w := newWire(NewTap(nil), nil)
		w.ready = true
		if _, err := w.look(m); err != errMessage {
			t.Errorf("an answer of %d bytes: %v", len(m), err)
		}
	}
	w := newWire(NewTap(nil), nil)
	w.ready, w.sent[1] = true, sent{op: opGetChildren2}
	if _, err := w.look(answerOf(1, 0, 0, 0, 1<<31-1)); err != errMessage {
		t.Errorf("an answer without its list: %v", err)
	}
}

// Promise: whatever a server answers, it is read without harm, and no list has more than was sent.
func FuzzAnswers(f *testing.F) {
	for _, op := range []int32{opGetData, opGetChildren, opGetChildren2, opGetACL, opMulti, opCreate, opSync, opReconfig, opGetEphemerals} {
		for _, body := range [][]byte{nil, answerOf(1<<31-1, "x"), answerOf(2, "a", "b"), answerOf(-1), answerOf(opCreate, byte(0), 0, "/a0000000001", -1, byte(1), -1), make([]byte, 100)} {
			f.Add(op, append(answerOf(1, 0, 7, 0), body...))
		}
	}
	f.Add(int32(opSync), answerOf(xidEvent, 0, 0, 0, 3, 3, "/a"))
	f.Add(int32(opSync), answerOf(xidEvent, 0, 0, 0, 3, 3, 1<<31-1))
	f.Add(int32(opPing), answerOf(0, 4000, 0, 7, "password", byte(0)))
	f.Fuzz(func(t *testing.T, op int32, m []byte) {
		w := newWire(NewTap(nil), nil)
		_, _ = w.look(m) // as the grant of a session
		w = newWire(NewTap(nil), nil)
		w.ready, w.sent[1] = true, sent{op: op}
		if _, err := w.look(m); err == nil && len(m) > replyHead {
			r := reading{left: m[replyHead:]}
			if list := r.texts(); len(list) > len(m)/4 {
				t.Errorf("%d texts in %d bytes", len(list), len(m))
			}
		}
	})
}
