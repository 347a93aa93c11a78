package zk

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	client "github.com/go-zookeeper/zk"
)

// Knows reports whether a ticket is one of a session on this connection.
func (t *Tap) Knows(id string) bool {
	return slices.ContainsFunc(t.snapshot(), func(l *Listener) bool { return l.Knows != nil && l.Knows(id) })
}

const opGetEphemerals = 103

// Ephemerals lists the nodes of the session below a path.
func (t *Tap) Ephemerals(ctx context.Context, root string) ([]string, error) {
	got, err := t.ask(ctx, opGetEphemerals, binary.BigEndian.AppendUint32(nil, uint32(len(root))), []byte(root))
	if err == nil && got.code != 0 {
		err = client.ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	return texts(got.body), nil
}

// texts reads a list of strings as ZooKeeper sends it, up to one that is not there.
func texts(b []byte) (list []string) {
	r := reading{left: b}
	r.list(func() {
		t := r.text()
		if t == nil {
			r.short = true
			return
		}
		list = append(list, string(t))
	})
	return list
}

const xidOwn = -1000 // those below are of our own requests

// answer is what a server says to a request of our own.
type answer struct {
	code int32
	body []byte
}

// send makes a request that the client does not know.
func (t *Tap) send(op int32, body ...[]byte) (*wire, <-chan answer, error) {
	t.mu.Lock()
	w, session := t.wire, t.session
	t.mu.Unlock()
	if w == nil || session == 0 {
		return nil, nil, client.ErrConnectionClosed
	}
	got := make(chan answer, 1)
	w.mu.Lock()
	w.xid--
	xid := w.xid
	w.own[xid] = got
	w.mu.Unlock()
	m := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(make([]byte, 4), uint32(xid)), uint32(op))
	for _, b := range body {
		m = append(m, b...)
	}
	binary.BigEndian.PutUint32(m, uint32(len(m)-4))
	_, err := w.Write(m)
	return w, got, err
}

// ask is send that waits for the answer.
func (t *Tap) ask(ctx context.Context, op int32, body ...[]byte) (answer, error) {
	return Run(ctx, func() (answer, error) {
		w, got, err := t.send(op, body...)
		if err != nil {
			return answer{}, err
		}
		select {
		case a := <-got:
			return a, nil
		case <-w.gone:
			return answer{}, client.ErrConnectionClosed
		case <-time.After(time.Minute): // the client has long left the server
			return answer{}, client.ErrConnectionClosed
		}
	})
}
