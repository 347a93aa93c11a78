package worker

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver for once

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/lab/broken"
	"github.com/interlock-go/interlock/lab/history"
	"github.com/interlock-go/interlock/once"
)

// Variable is the environment variable that makes a process a worker: it has a Task, in JSON.
const Variable = "INTERLOCK_LAB_WORKER"

// Task is what a worker process does. It begins when it is started, and goes on until its standard input says "over",
// or ends.
type Task struct {
	Worker     int
	URL, Other string
	Seed       uint64
	Goroutines int
	Workloads  []string
	Rich       bool // see world.World
	TTL        time.Duration
	Dir        string // of the histories and the resource's socket
	Mixes      bool   // see Env
	Repeats    bool   // each request to the backend comes twice
	Library    string // one of Libraries works instead of Interlock; "": none
	Broken     string // the name of one of package broken; "": none
}

// Socket is where the resource listens, in the folder of a run.
const Socket = "resource"

// Database is the file of what takes effect once, in the folder of a run.
const Database = "effects.db"

// Main does the task and does not return, if this process is a worker.
func Main() {
	text, ok := os.LookupEnv(Variable)
	if !ok {
		return
	}
	var t Task
	must(json.Unmarshal([]byte(text), &t))
	t.run()
	os.Exit(0)
}

// must ends the process if there is an error.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// Choose returns the workloads of these names, of none all, that a backend can do.
func Choose(names []string, rich bool) (chosen []Workload) {
	for _, w := range All {
		if (len(names) == 0 || slices.Contains(names, w.Name)) && (rich || !w.Rich) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

func (t *Task) run() {
	log, err := history.Create(filepath.Join(t.Dir, fmt.Sprintf("worker-%d.jsonl", t.Worker)))
	must(err)
	resource, err := rpc.Dial("unix", filepath.Join(t.Dir, Socket))
	must(err)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	db, err := OpenEffects(ctx, filepath.Join(t.Dir, Database))
	must(err)
	var over atomic.Bool
	go obey(&over)
	client := t.open(ctx, t.URL)
	other := t.open(ctx, t.Other)
	if d, ok := client.Driver().(interface{ Repeat() }); ok && t.Repeats {
		d.Repeat()
	}
	go t.watch(ctx, log, remote{resource})
	workloads := Choose(t.Workloads, t.Rich)
	if t.Library != "" {
		workloads = []Workload{libraryMutex(t.Library, t.URL, t.TTL)}
	}
	var all sync.WaitGroup
	for g := range t.Goroutines {
		e := &Env{
			Client: client, Other: other, DB: db, Resource: remote{resource}, Log: log,
			Rand: rand.New(rand.NewPCG(t.Seed, uint64(t.Worker<<8+g))), TTL: t.TTL, Epoch: 3 * time.Second,
			Worker: t.Worker, G: g + 1, Now: history.Now, Over: over.Load, Stopped: ctx, Mixes: t.Mixes,
		}
		all.Go(func() { e.Work(workloads) })
	}
	all.Wait()
	if err := errors.Join(client.Close(), other.Close()); err != nil {
		log.Write(history.Event{T: history.Now(), Worker: t.Worker, Kind: history.Note, Op: "close", Err: err.Error()})
	}
}

// open tries until it succeeds: the backend may be disturbed just now.
func (t *Task) open(ctx context.Context, url string) *interlock.Client {
	for ; ; time.Sleep(50 * time.Millisecond) {
		c, err := interlock.Open(ctx, url, interlock.TTL(t.TTL), interlock.Owner(fmt.Sprint("worker ", t.Worker)))
		if wrap := broken.Named(t.Broken); err == nil && wrap != nil {
			c, err = interlock.New(ctx, wrap(c.Driver()), interlock.TTL(t.TTL))
		}
		if err == nil {
			return c
		}
	}
}

// obey follows the words of the lab: "over", or "busy" and for how long.
func obey(over *atomic.Bool) {
	for words := bufio.NewScanner(os.Stdin); words.Scan(); {
		var n time.Duration
		if _, err := fmt.Sscanf(words.Text(), "busy %d", &n); err != nil {
			over.Store(true)
		}
		for range 8 {
			go spin(n)
		}
	}
	os.Exit(2) // the lab has ended
}

func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

// watch writes down when the process stood still: when a timer or an echo over loopback came late.
func (t *Task) watch(ctx context.Context, log *history.Log, echo Resource) {
	const every = 20 * time.Millisecond
	note := func(from int64, promised time.Duration) {
		now := history.Now()
		if late := time.Duration(now-from) - promised; late > t.TTL/40 {
			log.Write(history.Event{T: now, Worker: t.Worker, Kind: history.Stall, D: now - from})
		}
	}
	for ctx.Err() == nil {
		from := history.Now()
		time.Sleep(every)
		note(from, every)
		from = history.Now()
		_ = echo.Do(Ask{}, &Answer{})
		note(from, 0)
	}
}

// Effects are what work has done, as rows of a SQLite file.
type Effects struct {
	db    *sql.DB
	table *once.Table
	count atomic.Int64
}

// OpenEffects opens the file of what takes effect once.
func OpenEffects(ctx context.Context, path string) (*Effects, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"+
		"&_pragma=synchronous(OFF)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2)
	table, err := once.NewTable(once.SQLite, once.DefaultTable)
	if err != nil {
		return nil, err
	}
	if err := table.Create(ctx, db); err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS effects (key TEXT)")
	return &Effects{db: db, table: table}, err
}

// Once stores what the work of a key has done, in a transaction.
func (s *Effects) Once(ctx context.Context, key string) (string, error) {
	result, _, err := s.table.Run(ctx, s.db, 10, key, func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", key); err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, "%d/%d", os.Getpid(), s.count.Add(1)), nil
	})
	return string(result), err
}

// Counts says how often the work of each key has taken effect.
func (s *Effects) Counts() (counts map[string]int, err error) {
	var text []byte
	const query = "SELECT json_group_object(key, n) FROM (SELECT key, count(*) AS n FROM effects GROUP BY key)"
	err = s.db.QueryRow(query).Scan(&text)
	return counts, errors.Join(err, json.Unmarshal(text, &counts))
}
