//go:build unix

package sqlitelock

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// post sends and receives messages by a datagram socket in the folder.
type post struct {
	name      string // "" if there can be no socket
	folder    folder
	open      func([]byte)  // called with each message
	abandoned func(address) // called when nobody receives there any more

	mu     sync.Mutex
	conn   *net.UnixConn
	late   map[string]time.Time // to whom there is something to say, until when
	closed bool
	loops  sync.WaitGroup
}

func openPost(f folder, open func([]byte), abandoned func(address)) *post {
	p := &post{folder: f, open: open, abandoned: abandoned, late: map[string]time.Time{}}
	name := newID() + postSuffix
	if f.short != "" && p.listen(name) == nil {
		p.name = name
	}
	return p
}

func (p *post) listen(name string) error {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p.folder.socket(name), Net: "unixgram"})
	if err != nil {
		return err
	}
	if err := p.folder.openTo(name); err != nil {
		conn.Close()
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return conn.Close()
	}
	if p.conn != nil {
		p.conn.Close()
	}
	p.conn = conn
	p.loops.Go(func() {
		data := make([]byte, 64<<10)
		for {
			n, _, err := conn.ReadFromUnix(data)
			if err != nil { // it was closed
				return
			}
			p.open(data[:n])
		}
	})
	return nil
}

// repair makes the socket again if somebody has removed it.
func (p *post) repair() {
	if p.name == "" {
		return
	}
	if _, err := p.folder.root.Lstat(p.name); errors.Is(err, os.ErrNotExist) {
		_ = p.listen(p.name)
	}
}

// deliver sends a message without waiting. Somebody whose socket is full is asked,
// as soon as it is not, to look at the file instead.
func (p *post) deliver(to address, data []byte) {
	switch err := p.send(to.post, data); {
	case err == nil || to.post == "":
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		p.abandoned(to)
	default:
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed {
			return
		}
		if len(p.late) == 0 {
			p.loops.Go(p.deliverLate)
		}
		p.late[to.post] = time.Now().Add(patience)
	}
}

var errNoPost = errors.New("there is no socket")

func (p *post) send(to string, data []byte) error {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn == nil || to == "" {
		return errNoPost
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	path, _, done, err := p.folder.reach(to)
	if err != nil {
		return err
	}
	defer done()
	addr := &unix.SockaddrUnix{Name: path}
	if e := raw.Control(func(fd uintptr) {
		for {
			if err = unix.Sendto(int(fd), data, unix.MSG_DONTWAIT, addr); err != syscall.EINTR {
				return
			}
		}
	}); e != nil {
		return e
	}
	return err
}

// deliverLate tries until everybody has got something or is given up; then Renew
// makes up for it.
func (p *post) deliverLate() {
	look, _ := json.Marshal(message{Look: true})
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		time.Sleep(pause)
		p.mu.Lock()
		late := make(map[string]time.Time, len(p.late))
		for to, until := range p.late {
			late[to] = until
		}
		p.mu.Unlock()
		for to, until := range late {
			err := p.send(to, look)
			gone := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) || errors.Is(err, net.ErrClosed)
			if err == nil || gone || time.Now().After(until) {
				p.mu.Lock()
				delete(p.late, to)
				p.mu.Unlock()
			}
		}
		p.mu.Lock()
		if len(p.late) == 0 {
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

// close gives late messages another second.
func (p *post) close() {
	p.mu.Lock()
	p.closed = true
	soon := time.Now().Add(time.Second)
	for to := range p.late {
		p.late[to] = soon
	}
	for len(p.late) > 0 {
		p.mu.Unlock()
		time.Sleep(time.Millisecond)
		p.mu.Lock()
	}
	if p.conn != nil {
		p.conn.Close()
		p.folder.remove(p.name)
	}
	p.mu.Unlock()
	p.loops.Wait()
}

// deserted reports whether nobody receives at a socket any more.
func (p *post) deserted(name string) bool {
	return errors.Is(p.send(name, []byte("{}")), syscall.ECONNREFUSED)
}

// test sends a message to this driver itself.
func (p *post) test(m message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return p.send(p.name, data)
}
