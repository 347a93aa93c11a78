package sqlitelock

import (
	"context"
	"encoding/json"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/backend/sqlitelock/internal/doctor"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/fileclock"
)

// Check is called for interlock doctor, and for programs that ask whether their backend is fit.
func (s *store) Check(ctx context.Context) []driver.Finding {
	return doctor.New(doctor.Client{
		Path: s.file.path, Mode: s.file.mode, Folder: s.file.folder, Named: named, ReadID: readID,
		Same: func() error { return s.view(ctx, func(conn, moment) error { return s.file.same() }) },
		View: func(ctx context.Context, f func(*sqlite.Conn) error) error {
			return s.view(ctx, func(c conn, _ moment) error { return f(c.Conn) })
		},
		Write: func(ctx context.Context) error {
			return s.change(ctx, fast, func(t *tx) error { return t.exec("UPDATE file SET opened = opened") })
		},
		Sessions: s.sessionIDs,
		Clock:    s.clock, Steady: fileclock.Steady, LookEvery: pollEvery, Socket: s.mailbox.Name != "", Message: s.message,
	}).Check(ctx)
}

func (s *store) sessionIDs(ctx context.Context) (ids []string, err error) {
	err = s.view(ctx, func(c conn, _ moment) error {
		all, err := c.peers("SELECT sid, id FROM session")
		ids = nil
		for _, p := range all {
			ids = append(ids, p.id)
		}
		return err
	})
	return ids, err
}

// message sends one to this store.
func (s *store) message() (arrived <-chan struct{}, end func(), err error) {
	name, came := "check/"+exchange.NewID(), make(chan struct{})
	data, err := json.Marshal(message{Cell: name})
	if err != nil {
		return nil, nil, err
	}
	s.tests.Store(name, came)
	end = func() { s.tests.Delete(name) }
	if err := s.mailbox.Test(data); err != nil {
		end()
		return nil, nil, err
	}
	return came, end, nil
}
