package folder

import "errors"

// Mailbox receives nothing: there are no datagram sockets here. The client polls.
type Mailbox struct{ Name string }

// OpenMailbox makes none.
func OpenMailbox(Folder, string, []byte, func([]byte), func(string)) *Mailbox { return &Mailbox{} }

func (*Mailbox) Deliver(string, string, []byte) {}
func (*Mailbox) Repair()                        {}
func (*Mailbox) Close()                         {}
func (*Mailbox) Test([]byte) error              { return errors.ErrUnsupported }
func (*Mailbox) deserted(string) bool           { return false }
