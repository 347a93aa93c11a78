package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Error is an error that the server has answered.
type Error string

func (e Error) Error() string { return string(e) }

// answerWithin is how long a server may take to answer one command.
const answerWithin = 10 * time.Second

// exchange sends commands over a connection of its own and returns the last answer.
func exchange(addr string, secure *tls.Config, commands ...[]string) (any, error) {
	var conn net.Conn
	var err error
	dialer := &net.Dialer{Timeout: answerWithin}
	if secure != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", addr, secure)
	} else {
		conn, err = dialer.Dial("tcp", addr)
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return nil, err
	}
	var request []byte
	for _, args := range commands {
		request = appendCommand(request, args)
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	var answer any
	for range commands {
		if answer, err = readValue(r); err != nil {
			return nil, err
		}
		if e, ok := answer.(Error); ok {
			return nil, e
		}
	}
	return answer, nil
}

func appendCommand(b []byte, args []string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}

// readValue reads a string, an int64, nil, an Error, or a []any of them.
func readValue(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("unexpected answer %q", line)
	}
	rest := line[1 : len(line)-2]
	switch line[0] {
	case '+':
		return rest, nil
	case '-':
		return Error(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, err
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, err
		}
		list := make([]any, n)
		for i := range list {
			if list[i], err = readValue(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, errors.New("unexpected answer " + strconv.Quote(line))
}
