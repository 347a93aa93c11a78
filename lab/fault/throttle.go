package fault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// groups are where the time of processors is shared out, in the first and in the second version of cgroups.
var groups = []struct{ root, file, quota string }{
	{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "20000"},
	{"/sys/fs/cgroup", "cpu.max", "20000 100000"},
}

// throttle lets processes have a fifth of a processor together until end is called.
func throttle(pids ...int) (end func(), err error) {
	for _, g := range groups {
		dir := filepath.Join(g.root, fmt.Sprint("interlock-lab-", append(pids, os.Getpid())[0]))
		if err = os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		end := func() {
			left, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for pid := range strings.FieldsSeq(string(left)) {
				_ = os.WriteFile(filepath.Join(g.root, "cgroup.procs"), []byte(pid), 0)
			}
			_ = os.Remove(dir)
		}
		err = os.WriteFile(filepath.Join(dir, g.file), []byte(g.quota), 0)
		for _, pid := range pids {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, pid), 0))
		}
		if err == nil {
			return end, nil
		}
		end()
	}
	return nil, err
}

// throttles says why this machine lets no process have less.
func throttles() error {
	end, err := throttle()
	if err == nil {
		end()
	}
	return err
}
