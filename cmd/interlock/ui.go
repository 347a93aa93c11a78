package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/cmd/interlock/internal/play"
	"github.com/interlock-go/interlock/ui"
)

// uiFlags say where the page is served, and to whom.
type uiFlags struct {
	serving
	userHeader string
	hosts      []string
	changes    bool
	record     time.Duration
	demo       bool
	path       string // of the page that opens
}

func newUI(o *options) *cobra.Command {
	f := uiFlags{serving: serving{slowest: 30 * time.Second}}
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
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&f.changes, "allow-changes", false, "revoke, evict, set a latch, delete a value")
	cmd.Flags().BoolVar(&f.demo, "demo", false, "worker processes that compete for a lock, to break them")
	cmd.Flags().StringVar(&f.userHeader, "user-header", "", "the `header` in which a proxy in front says who the visitor is; it must remove it from what comes from outside")
	cmd.Flags().StringSliceVar(&f.hosts, "host", nil, "a `name` by which visitors call this server (repeatable)")
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
	host, err := f.host()
	switch {
	case err != nil:
		return cfg, err
	case f.record != 0 && f.record < time.Second:
		return cfg, usage("--record %v: at least 1s is wanted", f.record)
	case !isLoopback(host) && f.passwordFile == "" && f.userHeader == "":
		return cfg, usage("--listen %s is for other machines too: it needs --password-file or --user-header", f.listen)
	}
	if f.passwordFile != "" {
		if cfg.Password, err = f.password(ctx, 8); err != nil {
			return cfg, err
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

// serve serves the page until the context ends. The first line that it writes is the address.
func (f *uiFlags) serve(ctx context.Context, o *options, t task, cfg ui.Config) error {
	if cfg.Password != "" && f.cert == "" && cfg.Hosts == nil {
		say(t.cmd, "interlock: "+passwordsSeen)
	}
	at := url.URL{Path: "/" + f.path}
	if len(f.hosts) > 0 {
		at.Host = f.hosts[0]
	}
	if cfg.Token != "" {
		at.RawQuery = url.Values{"token": {cfg.Token}}.Encode()
	}
	page := ui.New(t.Client, cfg)
	if f.record > 0 {
		go page.Record(ctx, f.record)
	}
	return f.until(ctx, o, t, page, at)
}
