package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/cmd/interlock/internal/play"
	"github.com/interlock-go/interlock/ui"
)

// uiFlags say where the page is served, and to whom.
type uiFlags struct {
	listen       string
	passwordFile string
	userHeader   string
	hosts        []string
	cert, key    string
	changes      bool
	record       time.Duration
	demo         bool
	path         string // of the page that opens
}

func newUI(o *options) *cobra.Command {
	var f uiFlags
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show the locks in a browser, live, until interrupted",
		Long: `Ui serves a page that shows who holds and who waits, each lock with its queue and its last
grants, who waits for whom, the longest waits, what is stored, and what doctor finds. Its first
line is the address to open. That lets one browser in, once.

By default only this machine reaches it. To serve others, give --listen with an address, and
--password-file or --user-header, and --cert and --key unless a proxy in front has TLS.

With --allow-changes the page can also revoke, evict, set a latch and delete a value.

--demo needs no backend: four worker processes compete for a lock in a SQLite file of their own,
and the page has buttons that crash the holder, stop it, and cut it off from the backend.

Below the page, api/locks, api/locks/NAME, api/waits, api/longest, api/stored, api/checks and
api/events (a stream of server-sent events) give JSON, and metrics is for Prometheus. Programs
send the token of the address, or the password, as a bearer token.`,
		Example: `  interlock ui                                   the page for this machine
  interlock ui --demo                            see what happens when a holder dies, stops, is cut off
  interlock ui --allow-changes --record 10s      with evict, and a history while no browser looks
  interlock ui --listen :8443 --password-file /etc/interlock/ui --cert tls.crt --key tls.key`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"password-file", "user-header", "host"} {
				given := cmd.Flags().Lookup(flag)
				if text := strings.Trim(given.Value.String(), "[]"); given.Changed && (text == "" || strings.ContainsAny(text, " \t")) {
					return usage("--%s is empty, or has a space", flag)
				}
			}
			cfg, err := f.config(cmd.Context())
			if err != nil {
				return err
			}
			if f.demo {
				end, err := f.play(cmd, o, &cfg)
				if err != nil {
					return err
				}
				defer end()
			}
			b, err := o.backend(cmd.Context())
			if err != nil {
				return err
			}
			cfg.Backend = b.shown()
			return o.waits(func(ctx context.Context, t task) error { return f.serve(ctx, o, t, cfg) })(cmd, nil)
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "`address` and port; port 0 takes a free one")
	cmd.Flags().BoolVar(&f.changes, "allow-changes", false, "revoke, evict, set a latch, delete a value")
	cmd.Flags().BoolVar(&f.demo, "demo", false, "worker processes that compete for a lock, to break them")
	cmd.Flags().StringVar(&f.passwordFile, "password-file", "", "`file` with the password that visitors give; any user name does")
	cmd.Flags().StringVar(&f.userHeader, "user-header", "", "the `header` in which a proxy in front says who the visitor is; it must remove it from what comes from outside")
	cmd.Flags().StringSliceVar(&f.hosts, "host", nil, "a `name` by which visitors call this server (repeatable)")
	cmd.Flags().StringVar(&f.cert, "cert", "", "`file` with the certificate of the server, and its chain")
	cmd.Flags().StringVar(&f.key, "key", "", "`file` with the key of the certificate")
	durationVar(cmd.Flags(), &f.record, "record", "", "look so often also while no browser does, for the history")
	return cmd
}

// play starts the workers of --demo, whose backend the page shows. End ends them.
func (f *uiFlags) play(cmd *cobra.Command, o *options, cfg *ui.Config) (end func(), err error) {
	if given := o.named(); len(given) > 0 {
		return nil, usage("--demo has a backend of its own: %s does not go with it", given[0])
	}
	ctx, stop := untilSignal(cmd.Context())
	p, err := play.Start()
	if err != nil {
		stop()
		return nil, failed(exitIO, fmt.Errorf("--demo: %w", err))
	}
	cmd.SetContext(ctx)
	o.found = backend{url: p.URL(), source: "--demo"}
	page := p.Page()
	cfg.Pages, f.path = []ui.Page{page}, page.Path
	return func() {
		if err := p.Close(); err != nil {
			say(cmd, "interlock: --demo: %v", err)
		}
		stop()
	}, nil
}

// config checks the flags. A page that others reach asks who they are.
func (f *uiFlags) config(ctx context.Context) (ui.Config, error) {
	cfg := ui.Config{AllowChanges: f.changes, UserHeader: f.userHeader, Hosts: f.hosts}
	host, _, err := net.SplitHostPort(f.listen)
	switch {
	case err != nil:
		return cfg, usage("--listen %s: an address and a port are wanted, such as 127.0.0.1:8080", f.listen)
	case (f.cert == "") != (f.key == ""):
		return cfg, usage("--cert and --key belong together")
	case f.record != 0 && f.record < time.Second:
		return cfg, usage("--record %v: at least 1s is wanted", f.record)
	case !isLoopback(host) && f.passwordFile == "" && f.userHeader == "":
		return cfg, usage("--listen %s is for other machines too: it needs --password-file or --user-header", f.listen)
	}
	if f.passwordFile != "" {
		file, err := readURL(ctx, f.passwordFile) // its first line is not a URL here
		if err != nil {
			return cfg, usage("--password-file: %w", err)
		}
		if cfg.Password = file.url; len(cfg.Password) < 8 {
			return cfg, failed(exitConfig, fmt.Errorf("--password-file %s: a password of at least 8 characters is wanted in its first line", f.passwordFile))
		}
	}
	if isLoopback(host) {
		if f.passwordFile == "" && f.userHeader == "" {
			cfg.Token = rand.Text()
		}
		cfg.Hosts = append(cfg.Hosts, "localhost", "127.0.0.1", "::1", host)
	}
	return cfg, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// address is how a browser reaches the page, as far as this command can know.
func (f *uiFlags) address(at *net.TCPAddr) string {
	host := at.IP.String()
	switch {
	case len(f.hosts) > 0:
		host = f.hosts[0]
	case at.IP.IsUnspecified():
		host = "localhost"
	}
	return net.JoinHostPort(host, strconv.Itoa(at.Port))
}

// notifyReady tells systemd, if that has started this as a service of Type=notify, that the page is there.
func notifyReady() {
	if socket := os.Getenv("NOTIFY_SOCKET"); socket != "" {
		if c, err := net.Dial("unixgram", socket); err == nil {
			_, _ = io.WriteString(c, "READY=1")
			_ = c.Close()
		}
	}
}

// serve serves the page until the context ends. The first line that it writes is the address.
func (f *uiFlags) serve(ctx context.Context, o *options, t task, cfg ui.Config) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return failed(exitConfig, fmt.Errorf("--listen: %w", err))
	}
	at := url.URL{Scheme: "http", Host: f.address(listener.Addr().(*net.TCPAddr)), Path: "/" + f.path}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			_ = listener.Close()
			return usage("--cert: %w", err)
		}
		at.Scheme = "https"
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}})
	}
	if cfg.Password != "" && f.cert == "" && cfg.Hosts == nil {
		say(t.cmd, "interlock: passwords can be read on the way, unless a proxy in front has TLS: give --cert and --key")
	}
	if cfg.Token != "" {
		at.RawQuery = url.Values{"token": {cfg.Token}}.Encode()
	}
	page := ui.New(t.Client, cfg)
	if f.record > 0 {
		go page.Record(ctx, f.record)
	}
	server := &http.Server{
		Handler: page, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
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
