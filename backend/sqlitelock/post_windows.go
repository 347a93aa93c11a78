package sqlitelock

import "errors"

// post does nothing: there are no datagram sockets here. See poll.
type post struct{ name string }

func openPost(folder, func([]byte), func(address)) *post { return &post{} }

func (*post) deliver(address, []byte) {}
func (*post) repair()                 {}
func (*post) close()                  {}
func (*post) test(message) error      { return errors.ErrUnsupported }
func (*post) deserted(string) bool    { return false }
