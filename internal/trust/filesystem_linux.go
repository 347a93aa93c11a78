package trust

import (
	"fmt"
	"os"
	"syscall"
)

// Filesystem tells what kind of file system a folder is on.
func Filesystem(path string) (Kind, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return Kind{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	magic := uint32(st.Type)
	if name, ok := networks[magic]; ok {
		return Kind{Name: name, Network: true}, nil
	}
	if magic == 0x65735546 {
		return Kind{Name: "FUSE", Unknown: true}, nil
	}
	return Kind{Name: fmt.Sprintf("a local file system (type %#x)", magic)}, nil
}

// networks are file systems that other machines share, by their magic numbers.
var networks = map[uint32]string{
	0x6969: "NFS", 0x517B: "SMB", 0xFE534D42: "SMB", 0xFF534D42: "CIFS", 0x5346414F: "AFS", 0x6B414653: "AFS",
	0x73757245: "Coda", 0x564C: "NCP", 0x00C36400: "Ceph", 0x01021997: "9P", 0x7461636F: "OCFS2",
	0x01161970: "GFS2", 0x0BD00BD0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS",
}

// Space returns how many bytes are free for us.
func Space(path string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil
}
