package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"os"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

// tickets are what the guard gives back when interlock was killed and nobody of the job is
// left: the next one need not wait for the TTL then. It goes to the guard through a pipe,
// since the URL may have a password.
type tickets struct {
	URL   string
	Dir   string // that relative paths in the URL are relative to
	Names []string
	IDs   []string // of each name; the next holder has another
	From  driver.Instant
}

// tickets is nil if the backend has liveness files: it sees the end of the guard at once.
func (j *job) tickets(lease *interlock.Lease) []byte {
	if len(lease.Liveness()) > 0 {
		return nil
	}
	dir, _ := os.Getwd() // without one, relative paths mean nothing here either
	var b bytes.Buffer
	t := tickets{URL: j.backend.url, Dir: dir, From: driver.Now().Add(j.atLeast - time.Since(j.acquired))}
	for _, p := range lease.Parts() {
		t.Names, t.IDs = append(t.Names, p.Name()), append(t.IDs, p.ID())
	}
	_ = gob.NewEncoder(&b).Encode(t)
	return b.Bytes()
}

// giveBack is called in the guard. It tries each once; a ticket that it cannot give back runs out
// within a TTL, and so does one before the time of --at-least is over.
func giveBack(data []byte) {
	var t tickets
	if gob.NewDecoder(bytes.NewReader(data)).Decode(&t) != nil || driver.Now() < t.From {
		return
	}
	_ = within(patience, func() error {
		_ = os.Chdir(t.Dir)
		ctx, cancel := answering(context.Background(), patience)
		defer cancel()
		c, err := interlock.Open(ctx, t.URL)
		if err != nil {
			return err
		}
		defer c.Close()
		for i, name := range t.Names {
			_ = c.Admin().Evict(ctx, name, t.IDs[i], true)
		}
		return nil
	})
}
