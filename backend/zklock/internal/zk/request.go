package zk

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	client "github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
)

// Requests of our own go over the client's connection, with numbers that the client does not use. So each takes no
// goroutine, several go in one write, and each answer comes with its transaction. What the client does by itself it goes
// on doing: it connects, keeps the session alive, and says who the user is.
//
// Layouts: zookeeper.jute of Apache ZooKeeper.

const xidOwn = -1000 // our own requests have smaller ones

// request is what a server is asked for.
type request struct {
	op   int32
	body []byte
}

// pending is a request that was sent.
type pending struct {
	w   *wire
	got chan answer
}

// answer is what a server says to one.
type answer struct {
	zxid int64
	code int32
	body []byte
}

// present is the connection that has a session, and that session. Between two connections it waits for the next one.
func (t *Tap) present(ctx context.Context) (w *wire, session int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	now := func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		w, session = t.wire, t.session
		return session != 0
	}
	if !now() {
		_, timeout := t.State()
		bounded, cancel := context.WithTimeout(ctx, timeout/2)
		defer cancel()
		if t.Wait(bounded) != nil || !now() {
			return nil, 0, cmp.Or(ctx.Err(), client.ErrConnectionClosed)
		}
	}
	return w, session, nil
}

// send sends requests, which the server answers in their order.
func (w *wire) send(all ...request) []pending {
	sent := make([]pending, len(all))
	w.mu.Lock()
	for i, r := range all {
		sent[i] = pending{w, make(chan answer, 1)}
		w.put(r, sent[i].got)
	}
	w.writeOut()
	return sent
}

// beat sends a request whose answer no caller waits for.
func (w *wire) beat(r request) error {
	w.mu.Lock()
	if w.beats > 8 {
		w.mu.Unlock()
		return errBehind
	}
	w.beats++
	w.put(r, nil)
	w.writeOut()
	return nil
}

// put puts a request to those that are to be written. The mutex is held.
func (w *wire) put(r request, got chan answer) {
	w.xid--
	w.noted(w.xid, sent{op: r.op, at: driver.Now(), size: len(r.body), got: got})
	w.unread += len(r.body)
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(8+len(r.body)))
	w.out = binary.BigEndian.AppendUint32(w.out, uint32(w.xid))
	w.out = append(binary.BigEndian.AppendUint32(w.out, uint32(r.op)), r.body...)
}

// atOnce is less than any connection takes without waiting for its other end.
const atOnce = 2 << 10

// writeOut writes what is to be sent, unless that is under way; it unlocks the mutex. If little is sent that the server
// may not have read, this takes no time, and the caller does it: else a connection that takes nothing would hold it up.
func (w *wire) writeOut() {
	busy, soon := w.writing, w.unread < atOnce
	w.writing = true
	w.mu.Unlock()
	if !busy && (!soon || w.writeOnce()) {
		go func() {
			for w.writeOnce() {
			}
		}()
	}
}

// writeOnce writes what is to be sent by now, and reports whether more has come.
func (w *wire) writeOnce() (more bool) {
	w.mu.Lock()
	out := w.out
	w.out = nil
	w.mu.Unlock()
	if _, err := w.Conn.Write(out); err != nil {
		_ = w.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = len(w.out) > 0
	return w.writing
}

// wait returns the answer, or why there is none.
func (p pending) wait(ctx context.Context) (answer, error) {
	select {
	case a := <-p.got:
		return a, errorOf(a.code)
	case <-p.w.gone:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	select {
	case a := <-p.got: // it was the last one
		return a, errorOf(a.code)
	default:
		return answer{}, client.ErrConnectionClosed
	}
}

// ask makes one request.
func (t *Tap) ask(ctx context.Context, op int32, body []byte) (answer, error) {
	w, _, err := t.present(ctx)
	if err != nil {
		return answer{}, err
	}
	return w.send(request{op, body})[0].wait(ctx)
}

// errorOf is what a code of an answer means.
func errorOf(code int32) error {
	switch code {
	case tooLong - 1<<32:
		return ErrTooLong
	case 0:
		return nil
	case -8:
		return client.ErrBadArguments
	case -101:
		return client.ErrNoNode
	case -102:
		return client.ErrNoAuth
	case -103:
		return client.ErrBadVersion
	case -108:
		return client.ErrNoChildrenForEphemerals
	case -110:
		return client.ErrNodeExists
	case -111:
		return client.ErrNotEmpty
	case -112:
		return client.ErrSessionExpired
	case -114:
		return client.ErrInvalidACL
	case -115:
		return client.ErrAuthFailed
	case -118:
		return client.ErrSessionMoved
	}
	return fmt.Errorf("zookeeper: the server answers with the error %d", code)
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}

func appendTexts(b []byte, all []string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(all)))
	for _, text := range all {
		b = appendText(b, text)
	}
	return b
}

// change is the request that makes a change.
func change(op any) request {
	switch op := op.(type) {
	case *Create:
		b := appendText(appendText(nil, op.Path), op.Data)
		b = binary.BigEndian.AppendUint32(b, uint32(len(op.Acl)))
		for _, a := range op.Acl {
			b = appendText(appendText(binary.BigEndian.AppendUint32(b, uint32(a.Perms)), a.Scheme), a.ID)
		}
		kind := int32(opCreate)
		if op.Flags == client.FlagContainer {
			kind = opCreateContainer
		}
		return request{kind, binary.BigEndian.AppendUint32(b, uint32(op.Flags))}
	case *Delete:
		return request{opDelete, binary.BigEndian.AppendUint32(appendText(nil, op.Path), uint32(op.Version))}
	case *Check:
		return request{opCheck, binary.BigEndian.AppendUint32(appendText(nil, op.Path), uint32(op.Version))}
	case *Write:
		return request{opSetData, binary.BigEndian.AppendUint32(appendText(appendText(nil, op.Path), op.Data), uint32(op.Version))}
	}
	panic(fmt.Sprintf("%T is no change", op))
}

// changes is the request that makes all changes or none.
func changes(ops []any) request {
	var b []byte
	head := func(op int32, last byte) {
		b = append(binary.BigEndian.AppendUint32(b, uint32(op)), last)
		b = binary.BigEndian.AppendUint32(b, ^uint32(0))
	}
	for _, op := range ops {
		r := change(op)
		head(r.op, 0)
		b = append(b, r.body...)
	}
	head(opError, 1)
	return request{opMulti, b}
}

// watching is the body of a request that reads, and may set a watch.
func watching(path string, watch bool) []byte {
	b := appendText(nil, path)
	if watch {
		return append(b, 1)
	}
	return append(b, 0)
}
