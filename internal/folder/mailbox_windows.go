package folder

import "errors"

// Mailbox receives nothing: there are no datagram sockets here. The client polls.
type Mailbox struct{ Name string }

// OpenMailbox makes none.
func OpenMailbox(Folder, string, []byte, func([]byte), func(Address)) *Mailbox { return &Mailbox{} }

func (*Mailbox) Deliver(Address, []byte) {}
func (*Mailbox) Repair()                 {}
func (*Mailbox) Close()                  {}
func (*Mailbox) Test([]byte) error       { return errors.ErrUnsupported }
func (*Mailbox) deserted(string) bool    { return false }
