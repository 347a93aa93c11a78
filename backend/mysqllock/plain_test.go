package mysqllock

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: a password is not given to whoever answers in the place of a server, also not on this machine, not even
// encrypted with a key that he names, unless only the server can have made the socket.
func TestWhoGetsThePassword(t *testing.T) {
	open := t.TempDir()
	noError(t, os.Chmod(open, 0o777|os.ModeSticky))
	for _, plugin := range []string{"caching_sha2_password", "sha256_password"} {
		for _, at := range []string{"127.0.0.1:0", open} {
			for options, allowed := range map[string]bool{"": false, "?get_server_public_key=true": true} {
				all, err := greeted(t, plugin, at, options)
				if bytes.Contains(all, []byte("S3cret")) {
					t.Errorf("%s at %s, options %q: the password is sent as it is: %q", plugin, at, options, all)
				}
				asked := bytes.HasSuffix(all, []byte("\x01\x00\x00\x03\x02")) || plugin == "sha256_password" && len(all) > 0
				if asked != allowed {
					t.Errorf("%s at %s, options %q: asked for a key: %v", plugin, at, options, asked)
				}
				if said := strings.Contains(err.Error(), "get_server_public_key=true"); said == allowed || said && !driver.IsPermanent(err) {
					t.Errorf("%s at %s, options %q: %v", plugin, at, options, err)
				}
			}
		}
	}
	if all, _ := greeted(t, "caching_sha2_password", t.TempDir(), ""); !bytes.Contains(all, []byte("S3cret")) {
		t.Error("a server whose socket nobody else can make does not get the password")
	}
}

// greeted connects to what answers like MySQL and wants the password as a whole, and returns what it was sent.
func greeted(t *testing.T, plugin, at, options string) (all []byte, err error) {
	t.Helper()
	heard := make(chan []byte, 10)
	if strings.HasPrefix(at, "/") {
		at = filepath.Join(at, rand.Text())
	}
	addr := testserver.AnswerAt(t, at, func(c net.Conn) {
		packet := func(n byte, text string) {
			_, _ = io.WriteString(c, string([]byte{byte(len(text)), byte(len(text) >> 8), 0, n})+text)
		}
		packet(0, "\x0a8.0.30\x00\x01\x00\x00\x00"+"12345678\x00"+"\xff\xf7\x21\x02\x00\xff\xc1\x15"+strings.Repeat("\x00", 10)+"123456789012\x00"+plugin+"\x00")
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		buf := make([]byte, 4096)
		n, _ := c.Read(buf)
		packet(2, "\x01\x04") // give me all of it
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		k, _ := c.Read(buf[n:])
		heard <- buf[:n+k]
	})
	u := errtest.Must(driver.ParseURL("mysql://u:S3cret@" + url.PathEscape(addr) + "/d" + options))(t)
	d, err := driver.OpenURL(t.Context(), u)
	if err == nil {
		d.Close()
		t.Fatal("opened")
	}
	return <-heard, err
}
