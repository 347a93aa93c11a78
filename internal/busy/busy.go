// Package busy scales the bounds of tests by how busy the machine is, in one place.
//
// A bound ends a wait for what must happen. It is long on an idle machine, and beside other work everything takes
// longer: not the product, but its tests would fail.
package busy

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// most is by how much a bound grows at most. A test that hangs must end before its package does.
const most = 4

// Bound returns d, multiplied by how many processes each processor has to run now, or had in the last
// minute. Where that is not known, it returns d.
func Bound(d time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d
	}
	return time.Duration(float64(d) * factor(string(text), runtime.NumCPU()))
}

// factor reads the text of /proc/loadavg.
func factor(text string, processors int) float64 {
	var minute, five, fifteen, now float64
	if _, err := fmt.Sscanf(text, "%f %f %f %f/", &minute, &five, &fifteen, &now); err != nil {
		return 1
	}
	return min(most, max(1, max(minute, now)/float64(processors)))
}
