package trust

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Filesystem tells what kind of file system a folder is on.
func Filesystem(path string) (Kind, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Kind{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	magic := uint32(st.Type)
	if name, ok := networks[magic]; ok {
		return Kind{Name: name, Network: true}, nil
	}
	if magic == unix.FUSE_SUPER_MAGIC {
		return Kind{Name: "FUSE", Unknown: true}, nil
	}
	return Kind{Name: fmt.Sprintf("a local file system (type %#x)", magic)}, nil
}

var networks = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.V9FS_MAGIC:        "9P",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x01161970:             "GFS2",
	0x0BD00BD0:             "Lustre",
	0x47504653:             "GPFS",
	0x19830326:             "BeeGFS",
}

// Space returns how many bytes are free for us.
func Space(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil
}
