package zklock_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/zktest"
)

// busy is what a busy process has found out.
type busy struct {
	Judged  time.Duration // the time in which a timer and an echo were late by a fifth of the TTL at most, for a whole TTL
	Late    time.Duration // by which they were late then, at most
	Least   time.Duration // that a lease had left then
	Lost    []string      // the leases that were lost then
	Excused int           // those that were lost at other times
}

const (
	busyTTL      = 2 * time.Second
	busyVariable = "ZKLOCK_TEST_BUSY"
)

// Promise: a process that is busy loses no lease as long as a timer and an echo in it are late
// by a fifth of the TTL at most, at a TTL of 2 s. Here it parses JSON in 20 goroutines on two processors.
func TestABusyProcessLosesNoLease(t *testing.T) {
	if url := os.Getenv(busyVariable); url != "" {
		beBusy(t, url)
		return
	}
	rounds := repeated(t, "ZKLOCK_BUSY", 0)
	if rounds == 0 {
		t.Skip("ZKLOCK_BUSY is not set: each round takes two processors for half a minute, which other tests do not bear")
	}
	s := zktest.Start(t, zktest.Tick(busyTTL/2))
	var judged time.Duration
	for ; rounds > 0; rounds-- {
		idle := hold(t, s.Addr, busyTTL, busyTTL)
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), "GOMAXPROCS=2", busyVariable+"=zk://"+s.Addr+"/a?ttl="+busyTTL.String())
		out, err := child.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var b busy
		noError(t, json.NewDecoder(strings.NewReader(string(out))).Decode(&b))
		idle.stop()
		t.Logf("%+v; the idle process had %v left at least", b, idle.least)
		if len(b.Lost) > 0 {
			t.Errorf("a process that was late by %v at most has lost %d leases: %s", b.Late, len(b.Lost), b.Lost[0])
		}
		judged += b.Judged
	}
	if judged == 0 {
		t.Skip("the machine is too slow to tell anything")
	}
}

// beBusy is the busy process. It is as busy as the promise allows: it rests a little while a
// timer is later than that.
func beBusy(t *testing.T, url string) {
	c, err := interlock.Open(t.Context(), url)
	noError(t, err)
	var late atomic.Int64
	document, _ := json.Marshal(make([]struct{ A, B, C string }, 2_000))
	for range 20 {
		go func() {
			for {
				var parsed any
				_ = json.Unmarshal(document, &parsed)
				if late.Load() > int64(busyTTL/6) {
					time.Sleep(20 * time.Millisecond)
				}
			}
		}()
	}
	there, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	go func() {
		for {
			c, err := there.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	began := time.Now()
	var tooLate, latest atomic.Int64 // when a probe was too late last, by how much one was late since then at most
	for range 4 {
		go func() {
			echo, err := net.Dial("tcp", there.Addr().String())
			if err != nil {
				panic(err)
			}
			for {
				const pause = 10 * time.Millisecond
				before := time.Now()
				time.Sleep(pause)
				if _, err := echo.Write([]byte("?")); err != nil {
					panic(err)
				}
				if _, err := io.ReadFull(echo, make([]byte, 1)); err != nil {
					panic(err)
				}
				took := time.Since(before) - pause
				late.Store(int64(took))
				if took > busyTTL/5 {
					tooLate.Store(int64(time.Since(began)))
					latest.Store(0)
				} else if int64(took) > latest.Load() {
					latest.Store(int64(took))
				}
			}
		}()
	}
	b := busy{Least: busyTTL}
	var lease *interlock.Lease
	for last := began; time.Since(began) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		if lease == nil || lease.Err() != nil {
			if lease, err = c.Mutex(fmt.Sprint("busy", os.Getpid())).Acquire(limited(t)); err != nil {
				continue
			}
		}
		left, lost := lease.Remaining(), lease.Err()
		time.Sleep(busyTTL / 5) // a probe that is under way is answered, or is too late
		calm := time.Since(began)-time.Duration(tooLate.Load()) > busyTTL*7/5
		switch {
		case calm && lost != nil:
			b.Lost = append(b.Lost, lost.Error())
		case calm:
			b.Judged += time.Since(last)
			b.Late = max(b.Late, time.Duration(latest.Load()))
			b.Least = min(b.Least, left)
		case lost != nil:
			b.Excused++
		}
		last = time.Now()
	}
	noError(t, json.NewEncoder(os.Stdout).Encode(b))
}
