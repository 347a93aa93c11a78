package redistest

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Error is an error that the server has answered.
type Error string

func (e Error) Error() string { return string(e) }

// answerWithin is how long a server may take to answer one command.
const answerWithin = 10 * time.Second

// exchange sends commands over a connection of its own and returns the last answer.
func exchange(conn net.Conn, commands ...[]string) (answer any, err error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return nil, err
	}
	var request, buf []byte
	for _, args := range commands {
		request = fmt.Appendf(request, "*%d\r\n", len(args))
		for _, arg := range args {
			request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	read := make([]byte, 64<<10)
	for range commands {
		n := 0
		for answer, n = parse(buf); n == 0; answer, n = parse(buf) {
			more, err := conn.Read(read)
			if err != nil {
				return nil, err
			}
			buf = append(buf, read[:more]...)
		}
		if n < 0 {
			return nil, fmt.Errorf("unexpected answer %q", buf)
		}
		if e, ok := answer.(Error); ok {
			return nil, e
		}
		buf = buf[n:]
	}
	return answer, nil
}

// parse reads the first value of RESP2 or RESP3, and returns its length: 0 if it is not whole, -1 if these bytes are
// something else. It is a string, an int64, nil, an Error, or a []any of them.
func parse(b []byte) (v any, n int) {
	if len(b) > 0 && strings.IndexByte("+-:_#,($=!*~>%|", b[0]) < 0 {
		return nil, -1
	}
	n = bytes.IndexByte(b, '\n') + 1
	if n == 0 {
		return nil, 0
	}
	line := string(bytes.TrimSuffix(b[1:n-1], []byte("\r")))
	switch b[0] {
	case '+', '#', ',', '(':
		return line, n
	case '-':
		return Error(line), n
	case '_':
		return nil, n
	}
	size, err := strconv.Atoi(line)
	switch {
	case err != nil:
		return nil, -1
	case b[0] == ':':
		return int64(size), n
	case size < 0:
		return nil, n
	case strings.IndexByte("$=!", b[0]) >= 0:
		end := n + size + 2
		if len(b) < end {
			return nil, 0
		}
		if b[0] == '!' {
			return Error(b[n : end-2]), end
		}
		return string(b[n : end-2]), end
	case b[0] == '%':
		size *= 2
	case b[0] == '|': // attributes are followed by the value that they are about
		size = 2*size + 1
	}
	list := []any{}
	for range size {
		v, m := parse(b[n:])
		if m <= 0 {
			return nil, m
		}
		list, n = append(list, v), n+m
	}
	return list, n
}
