//go:build linux

package browsertest

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// certificate writes a certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	k := errtest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der := errtest.Must(x509.CreateCertificate(rand.Reader, template, template, k.Public(), k))(t)
	private := errtest.Must(x509.MarshalPKCS8PrivateKey(k))(t)
	roots = x509.NewCertPool()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		file := filepath.Join(t.TempDir(), name)
		errtest.None(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
		if name == "cert" {
			cert = file
			roots.AppendCertsFromPEM(pem.EncodeToMemory(block))
		} else {
			key = file
		}
	}
	return cert, key, roots
}

// Promise: for other machines the page asks for the password of a file, over TLS, and prints an address without a
// secret.
func TestThePageForOtherMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cert, key, roots := certificate(t)
	password := filepath.Join(t.TempDir(), "password")
	errtest.None(t, os.WriteFile(password, []byte("# the page\ncorrect horse\n"), 0o600))
	var said struct{ URL string }
	line := w.ui("--json", "--listen", "0.0.0.0:0", "--password-file", password, "--cert", cert, "--key", key)
	if err := json.Unmarshal([]byte(line), &said); err != nil || !strings.HasPrefix(said.URL, "https://") || strings.Contains(said.URL, "?") {
		t.Fatalf("the first line is %s: %v", line, err)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(said.URL, "https://"), ":")
	port = port[strings.LastIndexByte(port, ':')+1:]
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	for given, want := range map[string]int{"": 401, "wrong horse": 401, "correct horse": 200} {
		r := errtest.Must(http.NewRequestWithContext(t.Context(), "GET", "https://127.0.0.1:"+port, nil))(t)
		if given != "" {
			r.SetBasicAuth("me", given)
		}
		answer := errtest.Must(client.Do(r))(t)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("with the password %q: %s", given, answer.Status)
		}
	}
}

// Promise: a signal ends the page at once, though streams are open, with the status of the signal.
func TestASignalEndsThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.command("ui")
	out := errtest.Must(cmd.StdoutPipe())(t)
	var said bytes.Buffer
	cmd.Stderr = &said
	errtest.None(t, cmd.Start())
	line := errtest.Must(bufio.NewReader(out).ReadString('\n'))(t)
	address, token, _ := strings.Cut(strings.TrimSpace(line), "?token=")
	r := errtest.Must(http.NewRequestWithContext(t.Context(), "GET", address+"api/events", nil))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	errtest.None(t, err)
	defer answer.Body.Close()
	errtest.Must(io.ReadFull(answer.Body, make([]byte, 10)))(t)
	errtest.None(t, cmd.Process.Signal(syscall.SIGTERM))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-time.After(busy.Bound(patience)):
		_ = cmd.Process.Kill()
		t.Fatal("it does not end")
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("it ends with %v: %s", err, said.String())
	}
}
