package zklock_test

import (
	"encoding/binary"
	"io"
	"net"
)

// messages is a connection that reads one message of a server at a time, after each has
// seen it: without its length, and with the xid first.
type messages struct {
	net.Conn
	each func(message []byte) []byte
	rest []byte // of the message that is read
}

func (c *messages) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		var size [4]byte
		if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
			return 0, err
		}
		message := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c.Conn, message); err != nil {
			return 0, err
		}
		message = c.each(message)
		c.rest = append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
