//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/testserver"
)

// impostors are what answers in the place of a server, by what they say to whoever connects, again and
// again if they have no end.
var impostors = map[string]struct {
	says  string
	again bool
}{
	"hangs":                 {},
	"a banner":              {says: "220 mail.example ESMTP ready\r\n"},
	"HTTP":                  {says: "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"},
	"two errors":            {says: "-ERR a\r\n-ERR b\r\n"},
	"four errors":           {says: "-ERR a\r\n-ERR b\r\n-ERR c\r\n-ERR d\r\n"},
	"a huge array":          {says: "*2000000000\r\n"},
	"a huge map":            {says: "%1000000000\r\n"},
	"a huge text":           {says: "$2000000000\r\n"},
	"values in values":      {says: strings.Repeat("*1\r\n", 10_000), again: true},
	"an endless line":       {says: "+" + strings.Repeat("A", 64<<10), again: true},
	"a huge PostgreSQL row": {says: "R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05ID\x7f\xff\xff\xf0"},
	"a huge greeting":       {says: "R\x7f\xff\xff\xf0"},
	"a huge error":          {says: "E\x7f\xff\xff\xf0SFATAL\x00"},
	"huge packets of MySQL": {says: "\xff\xff\xff\x00\x0a" + strings.Repeat("A", 64<<10), again: true},
	"a huge length":         {says: "\x7f\xff\xff\xff"},
	"zeros":                 {says: strings.Repeat("\x00", 64<<10), again: true},
	"ones":                  {says: strings.Repeat("\xff", 64<<10), again: true},
}

// imitate listens, and says the same to all.
func imitate(t *testing.T, says string, again bool) (addr string) {
	t.Helper()
	return testserver.Answer(t, func(c net.Conn) {
		go func() {
			_, err := io.WriteString(c, says)
			for again && err == nil {
				_, err = io.WriteString(c, says)
			}
		}()
		_, _ = io.Copy(io.Discard, c)
	})
}

// Promise: whatever answers in the place of a server, the command fails with one line and status 69, in
// half a gigabyte of memory: it neither panics nor waits for ever.
func TestImpostors(t *testing.T) {
	t.Parallel()
	command := filepath.Join(plainFolder(t), "interlock")
	slots := make(chan struct{}, 12)
	for name, i := range impostors {
		for scheme, rest := range map[string]string{"redis": "", "postgres": "/d?sslmode=disable", "mysql": "/d", "zk": "/d", "etcd": "/d"} {
			t.Run(name+"/"+scheme, func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				addr := imitate(t, i.says, i.again)
				ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(45*time.Second))
				defer cancel()
				c := exec.CommandContext(ctx, "sh", "-c", "ulimit -d 524288; exec "+command+" ls")
				c.Env = append(os.Environ(), fmt.Sprintf("INTERLOCK_URL=%s://u:p@%s%s", scheme, addr, rest))
				out, err := c.CombinedOutput()
				text := strings.TrimSpace(string(out))
				if c.ProcessState.ExitCode() != 69 || strings.Contains(text, "\n") || ctx.Err() != nil {
					t.Errorf("status %d, %v: %.2000s", c.ProcessState.ExitCode(), err, text)
				}
			})
		}
	}
}
