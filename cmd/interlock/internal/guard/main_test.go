//go:build linux || darwin

package guard_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/driver"
)

// TestMain lets copies of the test binary be what the tests need: a guard, or
// the program that runs a job under one.
func TestMain(m *testing.M) {
	guard.Main()
	if os.Getenv("GUARD_TEST_RUN") != "" {
		os.Exit(program())
	}
	os.Exit(m.Run())
}

// program is a small "run under a lock": it renews a lease of GUARD_TEST_TTL
// all the time, as long as it runs, and exits as the job does.
func program() int {
	ttl := time.Hour
	if s := os.Getenv("GUARD_TEST_TTL"); s != "" {
		ttl, _ = time.ParseDuration(s)
	}
	spec := guard.Spec{
		Args:          os.Args[1:],
		TTL:           ttl,
		Deadline:      driver.Now().Add(ttl),
		KillLeftovers: os.Getenv("GUARD_TEST_KILL_LEFTOVERS") != "",
	}
	if fd, err := strconv.Atoi(os.Getenv("GUARD_TEST_LIVENESS")); err == nil {
		f := os.NewFile(uintptr(fd), "liveness")
		spec.Liveness = append(spec.Liveness, f)
	}
	os.Unsetenv("GUARD_TEST_RUN")
	job, err := guard.Start(spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if e, ok := err.(*guard.StartError); ok {
			return e.Code
		}
		return 70
	}
	renew := time.NewTicker(ttl / 10)
	for {
		select {
		case <-renew.C:
			if os.Getenv("GUARD_TEST_NO_RENEWAL") == "" {
				job.Deadline(driver.Now().Add(ttl))
			}
		case <-job.Done():
			r := job.Wait()
			if r.Cause != guard.Ended {
				fmt.Fprintln(os.Stderr, "cause:", r.Cause)
				return 79
			}
			return r.ExitCode()
		}
	}
}
