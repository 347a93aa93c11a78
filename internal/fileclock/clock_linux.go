package fileclock

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Clock is the time since boot, suspension included. A container with a time namespace of its own
// sees it shifted; ahead takes that back, so that all containers agree.
type Clock struct {
	Boot  string // another one after a reboot
	ahead time.Duration
}

// Steady says that no step can set the clock back.
const Steady = true

// New reads which boot this is.
func New() (Clock, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Clock{}, fmt.Errorf("cannot tell whether the machine was rebooted; mount /proc: %w", err)
	}
	return Clock{strings.TrimSpace(string(id)), boottimeOffset()}, nil
}

// Now is the time, in nanoseconds.
func (c Clock) Now() int64 { return c.At(driver.Now()) }

// At is the time at a reading of driver.Now, which has just been made.
func (c Clock) At(now driver.Instant) int64 { return int64(now.Add(-c.ahead)) }

func (Clock) String() string { return "CLOCK_BOOTTIME" }

func boottimeOffset() time.Duration {
	f, err := os.Open("/proc/self/timens_offsets")
	if err != nil {
		return 0 // a kernel without time namespaces
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var clock string
		var sec, nsec int64
		if n, _ := fmt.Sscan(lines.Text(), &clock, &sec, &nsec); n == 3 && (clock == "boottime" || clock == "7") {
			return time.Duration(sec)*time.Second + time.Duration(nsec)
		}
	}
	return 0
}
