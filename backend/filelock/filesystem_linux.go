package filelock

import (
	"fmt"
	"os"
	"syscall"
)

// networks are file systems that other machines share, by their magic numbers.
var networks = map[uint32]string{
	0x6969: "NFS", 0x517B: "SMB", 0xFE534D42: "SMB", 0xFF534D42: "CIFS", 0x5346414F: "AFS", 0x6B414653: "AFS",
	0x73757245: "Coda", 0x564C: "NCP", 0x00C36400: "Ceph", 0x01021997: "9P", 0x7461636F: "OCFS2",
	0x01161970: "GFS2", 0x0BD00BD0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS",
}

const fuse = 0x65735546

// statfs is replaced by tests.
var statfs = syscall.Statfs

// checkFilesystem refuses a file system of other machines, which see the files, but neither our
// locks, wherever those are the kernel's, nor our messages.
func checkFilesystem(path string) error {
	magic, err := filesystem(path)
	if name := networks[magic]; err == nil && name != "" {
		err = fmt.Errorf("%s is on %s: other machines would share the files, but not the locks; use a directory of this machine, or a server", path, name)
	}
	return err
}

func filesystem(path string) (magic uint32, err error) {
	var st syscall.Statfs_t
	if err := statfs(path, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return uint32(st.Type), nil
}

// doubtful reports whether a file system may be one of other machines.
func doubtful(path string) bool {
	magic, err := filesystem(path)
	return err == nil && magic == fuse
}
