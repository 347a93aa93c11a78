package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// deathTTL is the TTL of those who are killed. The kill comes before anybody
// would renew, so that the lock is due one TTL after the grant.
const deathTTL = time.Second

var killed = []Column{
	{Figure: "from the grant, TTLs", Decimals: 3, Less: true}, {Figure: "from SIGKILL ms"},
}

// Holder is what a process needs to know in order to hold a lock and die.
type Holder struct {
	Backend, Contender string
	URL, Name, File    string
	TTL                time.Duration
}

// HolderVariable makes this program a holder: it is a Holder in JSON.
const HolderVariable = "INTERLOCK_BENCH_HOLDER"

// Hold holds the lock until the process is killed or its input ends.
func (h Holder) Hold(ctx context.Context, contenders []Contender) error {
	for _, c := range contenders {
		if c.Name != h.Contender {
			continue
		}
		client, err := c.Open(ctx, Options{TTL: h.TTL, Clients: 1})
		if err != nil {
			return err
		}
		if _, err := client.Lock(h.Name)(ctx); err != nil {
			return err
		}
		now := time.Now().UnixNano()
		if err := os.WriteFile(h.File, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
		fmt.Println(now)
		_, _ = os.Stdin.Read(make([]byte, 1))
		return nil
	}
	return fmt.Errorf("no contender %q", h.Contender)
}

// death has another process hold the lock, kills it, and times the next one.
func death(ctx context.Context, c Contender, e Env) Result {
	r := newResult(c, e)
	if err := killHolder(ctx, c, e, &r); err != nil {
		r.Failed = err.Error()
	}
	return r
}

func killHolder(ctx context.Context, c Contender, e Env, r *Result) error {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	clients, end, err := begin(ctx, c, 1, deathTTL)
	if err != nil {
		return err
	}
	defer end()
	h := Holder{Backend: e.Backend, Contender: c.Name, URL: e.Server.URL(), Name: newName(), File: filepath.Join(dir, "holder"), TTL: deathTTL}
	p, granted, err := h.start(ctx)
	if err != nil {
		return err
	}
	defer p.kill()

	waiting, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	type grant struct {
		held Held
		at   time.Time
		err  error
	}
	next := make(chan grant, 1)
	go func() {
		held, err := clients[0].Lock(h.Name)(waiting)
		next <- grant{held, time.Now(), err}
	}()
	time.Sleep(deathTTL / 5) // it stands in line by then
	select {
	case g := <-next:
		return errors.Join(errors.New("the next one did not wait"), g.err)
	default:
	}
	died := time.Now()
	p.kill()
	g := <-next
	if g.err != nil {
		r.Stuck = "1 of 1: " + g.err.Error()
		return nil
	}
	defer g.held.Release()
	// What the lock protects is a file here; it names who holds.
	pid, err := os.ReadFile(h.File)
	if err != nil {
		return err
	}
	if string(pid) != strconv.Itoa(p.cmd.Process.Pid) || p.cmd.ProcessState == nil || g.at.Before(died) {
		r.wrong("process %s held while the next one got the lock", pid)
	}
	r.set("from SIGKILL ms", micros(g.at.Sub(died))/1000)
	r.set("from the grant, TTLs", float64(g.at.Sub(granted))/float64(deathTTL))
	return nil
}

// process is a holder's.
type process struct{ cmd *exec.Cmd }

// start returns when the process has got the lock.
func (h Holder) start(ctx context.Context) (p process, granted time.Time, err error) {
	what, err := json.Marshal(h)
	if err != nil {
		return p, granted, err
	}
	self, err := os.Executable()
	if err != nil {
		return p, granted, err
	}
	p.cmd = exec.CommandContext(ctx, self)
	// What it cannot remove any more goes with the folder of its file.
	p.cmd.Env = append(os.Environ(), HolderVariable+"="+string(what), "TMPDIR="+filepath.Dir(h.File))
	p.cmd.Stderr = os.Stderr
	if _, err := p.cmd.StdinPipe(); err != nil { // it ends with this process
		return p, granted, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return p, granted, err
	}
	if err := p.cmd.Start(); err != nil {
		return p, granted, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var nanos int64
	if err == nil {
		nanos, err = strconv.ParseInt(line[:len(line)-1], 10, 64)
	}
	if err != nil {
		p.kill()
		return p, granted, fmt.Errorf("the holder: %w", err)
	}
	return p, time.Unix(0, nanos), nil
}

// kill returns when the process is gone.
func (p process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
