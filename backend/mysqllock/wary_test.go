package mysqllock

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: a password is not given to whoever answers in the place of a server on another machine, not even
// encrypted with a key that he names.
func TestWhoGetsThePassword(t *testing.T) {
	was := isLocal
	defer func() { isLocal = was }()
	for _, plugin := range []string{"caching_sha2_password", "sha256_password"} {
		for _, remote := range []bool{true, false} {
			isLocal = func(string) bool { return !remote }
			for options, allowed := range map[string]bool{"": !remote, "?get_server_public_key=true": true} {
				asked, err := greeted(t, plugin, options)
				if asked != allowed {
					t.Errorf("%s, on another machine %v, options %q: asked for a key: %v", plugin, remote, options, asked)
				}
				if said := strings.Contains(err.Error(), "get_server_public_key=true"); said == allowed || said && !driver.IsPermanent(err) {
					t.Errorf("%s, on another machine %v, options %q: %v", plugin, remote, options, err)
				}
			}
		}
	}
	isLocal = was
	for addr, want := range map[string]bool{"127.0.0.1:3306": true, "[::1]:3306": true, "localhost:3306": true, "db.example:3306": false, "192.0.2.1:3306": false} {
		if isLocal(addr) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
}

// greeted connects to what answers like MySQL and wants the password as a whole, and reports whether the client
// asks for a key to encrypt it with.
func greeted(t *testing.T, plugin, options string) (asked bool, err error) {
	t.Helper()
	heard := make(chan []byte, 10)
	addr := testserver.Answer(t, func(c net.Conn) {
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
	u, err := driver.ParseURL("mysql://u:S3cret@" + addr + "/d" + options)
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.OpenURL(t.Context(), u)
	if err == nil {
		d.Close()
		t.Fatal("opened")
	}
	all := <-heard
	if bytes.Contains(all, []byte("S3cret")) {
		t.Errorf("the password is sent as it is: %q", all)
	}
	return bytes.HasSuffix(all, []byte("\x01\x00\x00\x03\x02")) || plugin == "sha256_password" && len(all) > 0, err
}
