package sqlitelock

import (
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/internal/folder"
)

// Files in the folder are called by an ID and a suffix. All who share the database can
// write other names into it, so what is read is checked before it is used: a row with
// something else is damage.

// checkID refuses what exchange.NewID does not make.
func checkID(id string) error {
	if len(id) == 32 && strings.Trim(id, "0123456789abcdef") == "" {
		return nil
	}
	return fmt.Errorf("%w: a session has the ID %.40q", sqlite.ResultCorrupt.ToError(), id)
}

// checkMailbox refuses what is not the name of a socket of a client. "" is one: there is none.
func checkMailbox(name string) error {
	if id, ok := strings.CutSuffix(name, folder.MailboxSuffix); name == "" || ok && checkID(id) == nil {
		return nil
	}
	return fmt.Errorf("%w: messages are to go to %.40q", sqlite.ResultCorrupt.ToError(), name)
}

// peer is a session, most often of another client.
type peer struct {
	sid int64
	id  string
}

// peers runs a statement that returns numbers and IDs of sessions.
func (c conn) peers(sql string, args ...any) (all []peer, err error) {
	err = c.each(sql, func(s *sqlite.Stmt) error {
		p := peer{s.ColumnInt64(0), s.ColumnText(1)}
		all = append(all, p)
		return checkID(p.id)
	}, args...)
	return all, err
}

// checkAddress refuses an address that leads out of the folder.
func checkAddress(a address) error {
	if err := checkID(a.Session); err != nil {
		return err
	}
	return checkMailbox(a.Mailbox)
}
