// Package history is what the workers of a run have done, as they wrote it down: one event a line, in JSON.
//
//	operation  one call of a worker: its events have the same worker, goroutine and number
//	grant      an operation that acquires, with all that follows up to its release
//	witness    a time that the worker took before it looked at its lease, which had not ended: it held then
//	object     a lock, value, latch or key, by its name
//
// A worker writes each event with one system call before it goes on, so that one that is killed has told all.
package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// Kinds of events.
const (
	Invoke  = "invoke"  // the call begins
	OK      = "ok"      // it has succeeded; of a grant: a witness
	Failed  = "fail"    // it has changed nothing
	Unknown = "unknown" // whether it has changed anything is not known
	Held    = "held"    // a witness
	Change  = "change"  // the grant has Units from now on, fewer than up to now; a witness
	Changed = "changed" // the call that Change announced has ended
	Lost    = "lost"    // the worker was told that its lease is over
	Release = "release" // the release begins; a witness, if it says Alive
	Ended   = "ended"   // the release has returned; Err is ErrLost's text if the lease was lost
	Seen    = "seen"    // an observer has seen the queue: IDs, holders first
	Stall   = "stall"   // the worker, or worker 0 the backend, stood still, or nearly, from T-D to T
	Note    = "note"    // anything else that a reader may want to know

	Unexpected = "unexpected" // Err is explained neither by faults nor by what others do

	// Of the lab itself, which is worker 0.
	Fault  = "fault"  // number N, of the kind Op, begins; Object is the worker that it concerns alone, if there is one
	Killed = "killed" // Worker was
	Heal   = "heal"   // it has ended
	Accept = "accept" // the resource has taken the write of Value in the place of Ver, with Token; 0: unfenced
	Refuse = "refuse" // the resource has refused the token
	Left   = "left"   // Object was left behind after the run
)

// An Event is one line.
type Event struct {
	T      int64    `json:"t"` // nanoseconds of the machine's steady clock, or of simulated time
	Worker int      `json:"w"`
	G      int      `json:"g,omitempty"` // goroutine
	N      int      `json:"n,omitempty"` // number of the operation in its goroutine
	Kind   string   `json:"k"`
	Op     string   `json:"op,omitempty"`
	Object string   `json:"o,omitempty"`
	Units  int64    `json:"u,omitempty"`
	Cap    int64    `json:"c,omitempty"`
	Token  uint64   `json:"tok,omitempty"`
	ID     string   `json:"id,omitempty"` // of the lease
	Alive  bool     `json:"a,omitempty"`
	Loses  bool     `json:"l,omitempty"` // the documents say that this fault may lose grants
	Mixes  bool     `json:"x,omitempty"` // and that it may change the order of the waiters
	D      int64    `json:"d,omitempty"`
	Value  string   `json:"v,omitempty"`
	Ver    uint64   `json:"ver,omitempty"`
	Err    string   `json:"e,omitempty"`
	IDs    []string `json:"ids,omitempty"`
}

// Key names an operation.
type Key struct{ Worker, G, N int }

// Key names the event's operation.
func (e *Event) Key() Key { return Key{e.Worker, e.G, e.N} }

// Now is the time of the machine's steady clock.
func Now() int64 { return int64(driver.Now()) }

// A Log takes events. Many may write to it.
type Log struct {
	mu  sync.Mutex
	to  io.Writer // nil: they are kept
	all []Event
}

// NewLog makes a log that keeps the events in memory: as many as an hour of simulated time has, without a copy.
func NewLog() *Log { return &Log{all: make([]Event, 0, 1<<15)} }

// Create makes a log that writes to a file, which must not exist.
func Create(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{to: f}, nil
}

// Write adds an event. It panics if it cannot: a history with gaps would prove nothing.
func (l *Log) Write(e Event) {
	if l.to == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, e)
		return
	}
	line, err := json.Marshal(&e)
	if err == nil {
		_, err = l.to.Write(append(line, '\n'))
	}
	if err != nil {
		panic("history: " + err.Error())
	}
}

// Events returns the kept events, sorted.
func (l *Log) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Sort(slices.Clone(l.all))
}

// Sort sorts events by time; events of one time stay as they are.
func Sort(all []Event) []Event {
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.T, b.T) })
	return all
}

// Read reads the events of all files of a folder, sorted. The last line of a worker that was killed may be cut short.
func Read(dir string) (all []Event, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		for d := json.NewDecoder(bytes.NewReader(text)); err == nil; {
			var e Event
			if err = d.Decode(&e); err == nil {
				all = append(all, e)
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
	}
	return Sort(all), nil
}
