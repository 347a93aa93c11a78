package worker

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// Task is what a worker process does. It begins when it is started, writes "ready" to its standard output, and goes on
// until its standard input says "end", or ends.
type Task struct {
	Worker     int
	URL, Other string
	Seed       uint64
	Goroutines int
	Workloads  []string
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
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Choose returns the workloads of these names; of none all.
func Choose(names []string) (chosen []Workload) {
	for _, w := range All {
		if len(names) == 0 || slices.Contains(names, w.Name) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

func (t *Task) run() error {
	log, err := history.Create(filepath.Join(t.Dir, fmt.Sprintf("worker-%d.jsonl", t.Worker)))
	if err != nil {
		return err
	}
	resource, err := rpc.Dial("unix", filepath.Join(t.Dir, Socket))
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	db, err := OpenEffects(ctx, filepath.Join(t.Dir, Database))
	if err != nil {
		return err
	}
	var over atomic.Bool
	hangUp := make(chan struct{})
	go t.obey(&over, end, hangUp)
	client, err := t.open(ctx, t.URL)
	if err != nil {
		return err
	}
	if d, ok := client.Driver().(interface{ Repeat() }); ok && t.Repeats {
		d.Repeat()
	}
	other := client
	if t.Other != "" {
		if other, err = t.open(ctx, t.Other); err != nil {
			return err
		}
	}
	go t.watch(ctx, log, remote{resource})
	workloads := Choose(t.Workloads)
	if open := Libraries[t.Library]; open != nil {
		workloads = []Workload{libraryMutex(open(t.URL, t.TTL))}
	}
	fmt.Println("ready")
	var all sync.WaitGroup
	for g := range t.Goroutines {
		e := &Env{
			Client: client, Other: other, DB: db, Resource: remote{resource}, Log: log, Rand: rand.New(rand.NewPCG(t.Seed,
				uint64(t.Worker<<8+g))),
			TTL: t.TTL, Epoch: 3 * time.Second, Worker: t.Worker, G: g + 1, Now: history.Now, Over: over.Load,
			Stopped: ctx, Mixes: t.Mixes,
		}
		all.Go(func() { e.Work(workloads) })
	}
	all.Wait()
	err = client.Close()
	if other != client {
		err = other.Close()
	}
	if err != nil {
		log.Write(history.Event{T: history.Now(), Worker: t.Worker, Kind: history.Note, Op: "close", Err: err.Error()})
	}
	return nil
}

// open tries until it succeeds: the backend may be disturbed just now.
func (t *Task) open(ctx context.Context, url string) (*interlock.Client, error) {
	for {
		c, err := interlock.Open(ctx, url, interlock.TTL(t.TTL), interlock.Owner(fmt.Sprintf("worker %d", t.Worker)))
		if i := slices.IndexFunc(broken.All, func(b broken.Break) bool { return b.Name == t.Broken }); err == nil &&
			i >= 0 {
			c, err = interlock.New(ctx, broken.All[i].Wrap(c.Driver()), interlock.TTL(t.TTL))
		}
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// obey follows the words of the lab.
func (t *Task) obey(over *atomic.Bool, end func(), hangUp chan struct{}) {
	for words := bufio.NewScanner(os.Stdin); words.Scan(); {
		var n int
		switch text := words.Text(); {
		case text == "over":
			over.Store(true)
		case text == "end":
			end()
		case strings.HasPrefix(text, "busy "):
			if _, err := fmt.Sscanf(text, "busy %d", &n); err == nil {
				for range 8 {
					go spin(time.Duration(n))
				}
			}
		}
	}
	os.Exit(2) // the lab has ended
}

func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		sink.Add(1)
	}
}

var sink atomic.Int64

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
		_ = echo.Progress(Ask{}, &Answer{})
		note(from, 0)
	}
}

// sqlEffects are rows of a SQLite file.
type sqlEffects struct {
	db    *sql.DB
	table *once.Table
	count atomic.Int64
}

// OpenEffects opens the file of what takes effect once.
func OpenEffects(ctx context.Context, path string) (Effects, error) {
	db, err := sql.Open("sqlite",
		"file:"+path+"?_pragma=busy_timeout(10000)"+
			"&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate")
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
	return &sqlEffects{db: db, table: table}, err
}

func (s *sqlEffects) Once(ctx context.Context, key string) (string, error) {
	result, _, err := s.table.Run(ctx, s.db, 10, key, func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", key); err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, "%d/%d", os.Getpid(), s.count.Add(1)), nil
	})
	return string(result), err
}

// CountEffects says how often the work of each key has taken effect.
func CountEffects(path string) (counts map[string]int, err error) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.Query("SELECT key, count(*) FROM effects GROUP BY key")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for counts = map[string]int{}; rows.Next(); {
		var key string
		var n int
		if err := rows.Scan(&key, &n); err != nil {
			return nil, err
		}
		counts[key] = n
	}
	return counts, rows.Err()
}

// Names names the workloads that a backend can do, of these or of all.
func Names(chosen []string, cells, units bool) (names []string) {
	for _, w := range Choose(chosen) {
		if (cells || !w.Cells) && (units || !w.Units) {
			names = append(names, w.Name)
		}
	}
	return names
}
