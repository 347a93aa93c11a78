package workload

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// OnDisk is what a file, or a folder with all in it, takes on its disk, in bytes.
func OnDisk(ctx context.Context, path string) (float64, error) {
	said, err := exec.CommandContext(ctx, "du", "-sk", path).Output()
	if err != nil {
		return 0, fmt.Errorf("du: %w", err)
	}
	kib, _, _ := strings.Cut(string(said), "\t")
	n, err := strconv.ParseFloat(kib, 64)
	return 1024 * n, err
}
