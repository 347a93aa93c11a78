package sqlitelock

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// fileClock is the time since boot. A container with a time namespace of its own
// sees it shifted; ahead takes that back, so that all containers agree.
type fileClock struct {
	boot  string
	ahead time.Duration
}

// steady says that no step can set the clock back.
const steady = true

func newFileClock() (fileClock, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fileClock{}, fmt.Errorf("cannot tell whether the machine was rebooted; mount /proc: %w", err)
	}
	return fileClock{strings.TrimSpace(string(id)), boottimeOffset()}, nil
}

func (c fileClock) now() moment { return moment(driver.Now().Add(-c.ahead)) }

func (fileClock) String() string { return "CLOCK_BOOTTIME" }

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
