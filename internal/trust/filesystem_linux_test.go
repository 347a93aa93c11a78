package trust

import (
	"strings"
	"testing"
)

// Promise: a file system is refused if not all who see its files see the locks: that of other machines, of
// a host, or a second mount of a folder.
func TestFileSystemsWhoseLocksDoNotReachAll(t *testing.T) {
	const fuse = 0x65735546
	for _, c := range []struct {
		magic            uint32
		name, source     string
		network, unknown bool
	}{
		{0xEF53, "ext4", "/dev/vda", false, false},
		{0x794c7630, "overlay", "overlay", false, false},
		{0x01021994, "tmpfs", "", false, false}, // no list of mounts
		{fuse, "fuseblk", "/dev/sdb1", false, true},
		{fuse, "fuse.fuse-overlayfs", "fuse-overlayfs", false, true},
		{fuse, "fuse.gocryptfs", "/home/a/cipher", false, true},
		{fuse, "", "", false, true},
		{fuse, "fuse", "/srv/locks", true, false}, // bindfs
		{fuse, "fuse.bindfs", "/srv/locks", true, false},
		{fuse, "virtiofs", "share", true, false},
		{fuse, "fuse.grpcfuse", "grpcfuse", true, false},
		{fuse, "fuse.sshfs", "a@b:", true, false},
		{fuse, "fakeowner", "/run/host_mark/Users", true, false},
		{0x786F4256, "vboxsf", "share", true, false},
		{0x6969, "nfs4", "a:/b", true, false},
		{0x01021997, "", "", true, false},
	} {
		if k := kindOf(c.magic, c.name, c.source); k.Network != c.network || k.Unknown != c.unknown {
			t.Errorf("%#x %s of %s: %+v", c.magic, c.name, c.source, k)
		}
	}
}

func TestTheMountOfADevice(t *testing.T) {
	mounts := strings.Join([]string{
		"22 27 0:20 / /proc rw,relatime - proc proc rw",
		"27 0 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/root rw,discard",
		"broken - ",
		"42 27 0:39 / /m\\0401 rw,nosuid - fuse /srv/locks rw,user_id=0",
	}, "\n")
	for dev, want := range map[uint64]string{254 << 8: "ext4 /dev/root", 39: "fuse /srv/locks", 0x1234: " "} {
		if name, source := mounted(mounts, dev); name+" "+source != want {
			t.Errorf("device %#x: %s of %s, not %s", dev, name, source, want)
		}
	}
}
