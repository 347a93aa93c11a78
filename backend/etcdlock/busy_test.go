package etcdlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: a process in which twenty goroutines parse JSON on two processors keeps its leases at the shortest TTL, if a timer and an echo
// in it are late by no more than a fifth of the TTL.
func TestABusyProcessKeepsItsLeases(t *testing.T) {
	const url, echo = "ETCDLOCK_BUSY", "ETCDLOCK_ECHO"
	if os.Getenv(url) != "" {
		busy(t, os.Getenv(url), os.Getenv(echo))
		return
	}
	t.Parallel()
	s := etcdtest.Start(t)
	at := testserver.Answer(t, func(c net.Conn) {
		b := make([]byte, 1)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			_, _ = c.Write(b)
		}
	})
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestABusyProcessKeepsItsLeases$", "-test.v")
	c.Env = append(os.Environ(), url+"=etcd://"+s.Addr, echo+"="+at, "GOMAXPROCS=2")
	out, err := c.CombinedOutput()
	if text := string(out); err != nil {
		t.Errorf("%v: %s", err, text)
	} else if _, why, late := strings.Cut(text, "too late: "); late {
		t.Skip(why)
	}
}

func busy(t *testing.T, url, echo string) {
	conn, err := net.Dial("tcp", echo)
	noError(t, err)
	defer conn.Close()
	client := open(t, url, interlock.TTL(TTL))
	var leases []*interlock.Lease
	for i := range 5 {
		lease, err := client.Mutex(fmt.Sprint("m", i)).Acquire(limited(t))
		noError(t, err)
		leases = append(leases, lease)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	text := []byte("[" + strings.Repeat(`{"a":[1,2,3,"some text",{"b":null}],"c":1.5},`, 2000) + "1]")
	for range 20 {
		go func() {
			for ctx.Err() == nil {
				var v any
				_ = json.Unmarshal(text, &v)
			}
		}()
	}
	late := time.Duration(0)
	for ctx.Err() == nil && late <= TTL/5 {
		began := time.Now()
		time.Sleep(10 * time.Millisecond)
		_, err := conn.Write([]byte("x"))
		noError(t, err)
		_, err = conn.Read(make([]byte, 1))
		noError(t, err)
		late = max(late, time.Since(began)-10*time.Millisecond)
		for _, l := range leases {
			if err := l.Err(); err != nil && late <= TTL/5 {
				t.Fatalf("lost, where a timer and an echo are %v late at most: %v", late, err)
			}
		}
	}
	if late > TTL/5 {
		fmt.Printf("too late: a timer and an echo took %v, on %d processors\n", late, runtime.GOMAXPROCS(0))
	}
}
