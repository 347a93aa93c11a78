package trust

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Filesystem tells what kind of file system a folder is on.
func Filesystem(path string) (Kind, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return Kind{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return Kind{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without it, the magic number has to do
	name, source := mounted(string(mounts), uint64(st.Dev))
	return kindOf(uint32(fs.Type), name, source), nil
}

// mounted finds the type and the source of the file system on a device.
func mounted(mounts string, dev uint64) (name, source string) {
	id := fmt.Sprintf("%d:%d", dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff)
	for line := range strings.Lines(mounts) {
		mount, fs, _ := strings.Cut(line, " - ")
		if m, f := strings.Fields(mount), strings.Fields(fs); len(m) > 2 && m[2] == id && len(f) > 1 {
			return f[0], f[1]
		}
	}
	return "", ""
}

// Mounted reports whether a file is mounted by itself, so that what lies beside it is not what lies beside the same
// file elsewhere. The path has no links.
func Mounted(path string) bool {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	path = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == path {
			return true
		}
	}
	return false
}

// kindOf knows a file system by its magic number, or by its type and source in the list of mounts.
func kindOf(magic uint32, name, source string) Kind {
	of, isNetwork := networks[magic]
	switch {
	case isNetwork:
		return Kind{Name: of, Network: true}
	case shared[name] || strings.HasPrefix(name, "fuse.") && shared[name[len("fuse."):]]:
		return Kind{Name: name, Network: true}
	case (name == "fuse" || name == "fuse.bindfs") && strings.HasPrefix(source, "/"):
		return Kind{Name: "FUSE, which shows " + source, Network: true}
	case magic == 0x65735546:
		return Kind{Name: "FUSE", Unknown: true}
	}
	return Kind{Name: fmt.Sprintf("a local file system (type %#x)", magic)}
}

// networks are file systems that other machines share, by their magic numbers.
var networks = map[uint32]string{
	0x6969: "NFS", 0x517B: "SMB", 0xFE534D42: "SMB", 0xFF534D42: "CIFS", 0x5346414F: "AFS", 0x6B414653: "AFS",
	0x73757245: "Coda", 0x564C: "NCP", 0x00C36400: "Ceph", 0x01021997: "9P", 0x7461636F: "OCFS2",
	0x01161970: "GFS2", 0x0BD00BD0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS",
	0x786F4256: "vboxsf", 0x7C7C6673: "prl_fs", 0xBACBACBC: "vmhgfs",
}

// shared are those that a virtual machine shares with its host, or machines by FUSE.
var shared = map[string]bool{
	"virtiofs": true, "fakeowner": true, "grpcfuse": true, "osxfs": true, "vboxsf": true, "prl_fs": true, "vmhgfs": true, "vmhgfs-fuse": true,
	"sshfs": true, "glusterfs": true, "ceph": true, "ceph-fuse": true, "s3fs": true, "rclone": true, "juicefs": true, "mfs": true,
}
