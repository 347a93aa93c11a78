package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// serving says where a command serves HTTP, and what its visitors have to know.
type serving struct {
	listen       string
	passwordFile string
	cert, key    string
	slowest      time.Duration // answer; 0: without a limit
}

const passwordsSeen = "passwords can be read on the way, unless a proxy in front has TLS: give --cert and --key"

func (s *serving) add(flags *pflag.FlagSet) {
	flags.StringVar(&s.listen, "listen", "127.0.0.1:0", "`address` and port; port 0 takes a free one")
	flags.StringVar(&s.passwordFile, "password-file", "", "`file` with the password that visitors give; any user name does")
	flags.StringVar(&s.cert, "cert", "", "`file` with the certificate of the server, and its chain")
	flags.StringVar(&s.key, "key", "", "`file` with the key of the certificate")
}

// host is the part of --listen before the port.
func (s *serving) host() (string, error) {
	host, _, err := net.SplitHostPort(s.listen)
	switch {
	case err != nil:
		return "", usage("--listen %s: an address and a port are wanted, such as 127.0.0.1:8080", s.listen)
	case (s.cert == "") != (s.key == ""):
		return "", usage("--cert and --key belong together")
	}
	return host, nil
}

// password is the first line of the file, of at least so many characters.
func (s *serving) password(ctx context.Context, least int) (string, error) {
	file, err := readURL(ctx, s.passwordFile) // its first line is not a URL here
	switch {
	case err != nil:
		return "", usage("--password-file: %w", err)
	case len(file.url) < least:
		return "", failed(exitConfig, fmt.Errorf("--password-file %s: a password of at least %d characters is wanted in its first line", s.passwordFile, least))
	}
	return file.url, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// until serves until the context ends. The first line that it writes is the address, as far as this command
// can know it: at, with what it lacks.
func (s *serving) until(ctx context.Context, o *options, t task, h http.Handler, at url.URL) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return failed(exitConfig, fmt.Errorf("--listen: %w", err))
	}
	listens := listener.Addr().(*net.TCPAddr)
	switch {
	case at.Host != "":
	case listens.IP.IsUnspecified():
		at.Host = "localhost"
	default:
		at.Host = listens.IP.String()
	}
	at.Scheme, at.Host = "http", net.JoinHostPort(at.Host, strconv.Itoa(listens.Port))
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			_ = listener.Close()
			return usage("--cert: %w", err)
		}
		at.Scheme = "https"
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}})
	}
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16, WriteTimeout: s.slowest,
		BaseContext: func(net.Listener) context.Context { return ctx }, // streams end with it
	}
	if err := o.print(t.cmd, map[string]string{"url": at.String()}, "%s", at.String()); err != nil {
		_ = listener.Close()
		return err
	}
	notifyReady()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
		defer cancel()
		_ = server.Shutdown(leaving)
		_ = server.Close()
		err = context.Cause(ctx)
	}
	return err
}

// notifyReady tells systemd, if that has started this as a service of Type=notify, that the address is there.
func notifyReady() {
	if socket := os.Getenv("NOTIFY_SOCKET"); socket != "" {
		if c, err := net.Dial("unixgram", socket); err == nil {
			_, _ = io.WriteString(c, "READY=1")
			_ = c.Close()
		}
	}
}
