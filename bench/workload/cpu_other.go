//go:build !unix

package workload

import "time"

// cpuTime is unknown here.
func cpuTime() time.Duration { return 0 }
