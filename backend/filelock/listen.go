//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"encoding/json"
	"errors"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// message is an event for a mailbox. Granted to another process has the queue only: the client
// looks which of its tickets are granted, and locks the file for them.
type message struct{ Event exchange.Event }

// over is the type of an event that says of a ticket that it has ended by itself: its file is unlocked.
const over = exchange.Wake

// Listen receives messages by a datagram socket, and is told by the kernel when files are closed.
func (s *store) Listen(ctx context.Context, mailbox string, up func(), receive func(exchange.Event)) error {
	in, err := s.dir.current(mailboxes)
	if err != nil {
		return err
	}
	_ = in.Root.Remove(mailbox) // of an earlier call
	conn, err := in.Bind(mailbox)
	if errors.Is(err, syscall.EINVAL) { // the path is too long
		return errors.Join(err, errors.ErrUnsupported)
	}
	if err != nil {
		return err
	}
	defer in.Root.Remove(mailbox)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer context.AfterFunc(in.stands, func() { conn.Close() })() // others look for the mailbox in the new folder
	s.receive.Store(&receive)
	defer s.receive.Store(nil)
	if err := s.watch.start(s.dir.in(lives), s.closed); err != nil {
		return err
	}
	defer s.watch.stop()
	up()
	for data := make([]byte, 64<<10); ; {
		n, err := conn.Read(data)
		if err != nil {
			return err
		}
		s.open(data[:n])
	}
}

// open reads a message, which anybody may have sent who shares the directory.
func (s *store) open(data []byte) {
	var m message
	if json.Unmarshal(data, &m) == nil {
		s.deliver(m.Event)
	}
}

// post sends an event. If it is lost, heartbeats make up for it.
func (s *store) post(mailbox string, ev exchange.Event) {
	if mailbox == "" {
		return
	}
	if near, ok := s.dir.stores.Load(mailbox); ok {
		near.(*store).deliver(ev)
		return
	}
	data, _ := json.Marshal(message{ev})
	for pause := time.Millisecond; pause < 20*time.Millisecond; pause *= 2 {
		err := s.dir.in(mailboxes).Send(s.sender, mailbox, data)
		if !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.ENOBUFS) {
			return
		}
		time.Sleep(pause) // the mailbox is full
	}
}

// deliver passes on an event.
func (s *store) deliver(ev exchange.Event) {
	switch {
	case ev.Type == exchange.Removed, ev.Type == over:
		s.locks.release(ev.ID)
	case ev.Type == exchange.Granted && ev.Queue != "":
		s.turn(ev.Queue)
		return
	}
	if receive := s.receive.Load(); receive != nil {
		(*receive)(ev)
	}
}

// turn has the file of a queue locked for the tickets of this client that were granted.
func (s *store) turn(name string) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	if s.change(ctx, name, func(q *queue) error {
		for _, t := range q.Tickets {
			if t.Held && t.PID == 0 && q.client(t) == s {
				q.Events = append(q.Events, rows.Event{Mailbox: s.mailbox, Event: exchange.Event{Type: exchange.Granted, ID: t.ID}})
			}
		}
		return nil
	}) != nil {
		s.deliver(exchange.Event{Type: exchange.Wake})
	}
}

// closed is called by the watch: for a ticket whose file another program has closed, or with the ID
// of a session whose process may be dead.
func (s *store) closed(queue, session string) {
	if queue != "" {
		s.turn(queue)
	} else if s.dead(session) {
		s.deliver(exchange.Event{Type: exchange.Wake})
	}
}
