package ours

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/driver"
)

// session is the driver without the library on top.
type session struct {
	d driver.Driver
	s driver.Session
}

func openDriver(ctx context.Context, url string) (workload.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // as the library does
	defer cancel()
	u, err := driver.ParseURL(url)
	if err != nil {
		return nil, err
	}
	d, err := driver.OpenURL(ctx, u)
	if err != nil {
		return nil, err
	}
	s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Hour, Owner: "bench"})
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return session{d, s}, nil
}

func (s session) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		t, err := s.s.Join(context.Background(), driver.Request{ID: hex.EncodeToString(id[:]), Queue: name, Kind: driver.Mutex, Units: 1, Capacity: 1})
		if err == nil && !t.Held {
			t, err = s.s.Await(ctx, t)
		}
		if err != nil {
			return nil, err
		}
		return &ticket{s.s, t}, nil
	}
}

func (s session) Exchanges() uint64 { return s.d.Exchanges() }

func (s session) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.s.Close(ctx)
	if e := s.d.Close(); err == nil {
		err = e
	}
	return err
}

type ticket struct {
	s driver.Session
	t driver.Ticket
}

func (t *ticket) Token() uint64  { return t.t.Token }
func (t *ticket) Release() error { return t.s.Leave(context.Background(), t.t, true) }
