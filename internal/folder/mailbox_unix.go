//go:build unix

package folder

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Mailbox receives the messages of a client, and sends those to others, by a datagram socket in
// the folder.
type Mailbox struct {
	Name    string // "" if there can be no socket
	folder  Folder
	again   []byte       // the message that all is to be looked at: for a mailbox that was full
	open    func([]byte) // called with each message
	refused func(string) // called with what a message is about whose mailbox has no owner any more

	mu     sync.Mutex
	conn   *net.UnixConn
	late   map[string]time.Time // mailboxes that were full, and until when they are tried
	closed bool
	loops  sync.WaitGroup
}

// OpenMailbox makes the mailbox of that name, if there can be one.
func OpenMailbox(f Folder, name string, again []byte, open func([]byte), refused func(about string)) *Mailbox {
	m := &Mailbox{folder: f, again: again, open: open, refused: refused, late: map[string]time.Time{}}
	if m.listen(name) == nil {
		m.Name = name
	}
	return m
}

func (m *Mailbox) listen(name string) error {
	conn, err := m.folder.Bind(name + mailboxSuffix)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return conn.Close()
	}
	if m.conn != nil {
		m.conn.Close()
	}
	m.conn = conn
	m.loops.Go(func() {
		data := make([]byte, 64<<10)
		for {
			n, _, err := conn.ReadFromUnix(data)
			if err != nil { // it was closed
				return
			}
			m.open(data[:n])
		}
	})
	return nil
}

// Repair makes the socket again if another program has removed it.
func (m *Mailbox) Repair() {
	if m.Name == "" {
		return
	}
	if _, err := m.folder.Root.Lstat(m.Name + mailboxSuffix); errors.Is(err, os.ErrNotExist) {
		_ = m.listen(m.Name)
	}
}

// Deliver sends a message without waiting. The owner of a mailbox that is full is asked, as soon as
// it is not, to look at the file instead.
func (m *Mailbox) Deliver(to, about string, data []byte) {
	switch err := m.send(to, data); {
	case err == nil || to == "":
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		m.refused(about)
	default:
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closed {
			return
		}
		if len(m.late) == 0 {
			m.loops.Go(m.deliverLate)
		}
		m.late[to] = time.Now().Add(patience)
	}
}

var errNoMailbox = errors.New("there is no socket")

func (m *Mailbox) send(to string, data []byte) error {
	m.mu.Lock()
	conn := m.conn
	m.mu.Unlock()
	if conn == nil || to == "" {
		return errNoMailbox
	}
	return m.folder.Send(conn, to+mailboxSuffix, data)
}

// Bind makes a socket that receives datagrams of all who share the folder.
func (f Folder) Bind(name string) (*net.UnixConn, error) {
	if f.short == "" {
		return nil, errors.ErrUnsupported
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: f.socket(name), Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	if err := f.openTo(name); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Send sends a datagram to a socket in the folder, without waiting.
func (f Folder) Send(conn *net.UnixConn, to string, data []byte) error {
	if f.short == "" {
		return errors.ErrUnsupported
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	path, _, done, err := f.reach(to)
	if err != nil {
		return err
	}
	defer done()
	addr := &syscall.SockaddrUnix{Name: path}
	if e := raw.Control(func(fd uintptr) {
		for {
			if err = syscall.Sendto(int(fd), data, syscall.MSG_DONTWAIT, addr); err != syscall.EINTR {
				return
			}
		}
	}); e != nil {
		return e
	}
	return err
}

// deliverLate tries until all that were full have got a message or are given up; then heartbeats
// make up for it.
func (m *Mailbox) deliverLate() {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		time.Sleep(pause)
		m.mu.Lock()
		late := make(map[string]time.Time, len(m.late))
		for to, until := range m.late {
			late[to] = until
		}
		m.mu.Unlock()
		for to, until := range late {
			err := m.send(to, m.again)
			gone := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) || errors.Is(err, net.ErrClosed)
			if err == nil || gone || time.Now().After(until) {
				m.mu.Lock()
				delete(m.late, to)
				m.mu.Unlock()
			}
		}
		m.mu.Lock()
		if len(m.late) == 0 {
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
	}
}

// Close gives late messages another second.
func (m *Mailbox) Close() {
	m.mu.Lock()
	m.closed = true
	soon := time.Now().Add(time.Second)
	for to := range m.late {
		m.late[to] = soon
	}
	for len(m.late) > 0 {
		m.mu.Unlock()
		time.Sleep(time.Millisecond)
		m.mu.Lock()
	}
	if m.conn != nil {
		m.conn.Close()
		m.folder.Remove(m.Name + mailboxSuffix)
	}
	m.mu.Unlock()
	m.loops.Wait()
}

// deserted reports whether a mailbox has no owner any more.
func (m *Mailbox) deserted(name string) bool {
	return errors.Is(m.send(name, []byte("{}")), syscall.ECONNREFUSED)
}

// Test sends a message to this client itself.
func (m *Mailbox) Test(data []byte) error { return m.send(m.Name, data) }
