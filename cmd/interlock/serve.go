package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/adapter/statelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/view"
)

func newServe(o *options) *cobra.Command {
	return group("serve", "Serve locks to programs that speak HTTP", newServeTerraform(o))
}

func newServeTerraform(o *options) *cobra.Command {
	var s serving
	var states, prefix string
	hold := 12 * time.Hour
	var force bool
	cmd := &cobra.Command{
		Use:   "terraform --states FOLDER --password-file FILE",
		Short: "Keep and lock states of Terraform and OpenTofu, until interrupted",
		Long: `Terraform serves states to Terraform and OpenTofu, for their backend "http". The first line that
it writes is the address. The configuration names it three times, with the name of the state:

  terraform {
    backend "http" {
      address        = "http://127.0.0.1:8080/network"
      lock_address   = "http://127.0.0.1:8080/network"
      unlock_address = "http://127.0.0.1:8080/network"
    }
  }

Their environment has TF_HTTP_PASSWORD, which is the first line of FILE, and any TF_HTTP_USERNAME.

States are files in FOLDER, each with the one before it (.backup). The lock of /network is the
mutex terraform/network of the backend: interlock ls shows it, interlock run takes it. It stays
while this server is started anew, and servers of one machine may share FOLDER. A write of a
client that does not hold the lock is refused, also one that comes late. What is refused, and
why, is said on standard error.

Terraform does not renew its lock. So the lock ends when --hold has passed since it was taken, or
since the last write of the state.`,
		Example: `  interlock serve terraform --states /var/lib/states --password-file /etc/interlock/states --listen 127.0.0.1:8080
  interlock serve terraform --states /var/lib/states --password-file /etc/interlock/states --listen :8443 --cert tls.crt --key tls.key`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, err := s.host()
			switch {
			case err != nil:
				return err
			case states == "":
				return usage("--states is missing: the folder in which the states are")
			case s.passwordFile == "":
				return usage("--password-file is missing: states have secrets")
			case hold < time.Second:
				return usage("--hold %v: at least 1s is wanted", hold)
			}
			password, err := s.password(cmd.Context(), 16) // too long to be guessed
			if err != nil {
				return err
			}
			files, err := statelock.NewFiles(states)
			if err != nil {
				return failed(exitIO, fmt.Errorf("--states: %w", err))
			}
			if err := driver.CheckName(prefix + "/state"); err != nil {
				return usage("--prefix %s: %w", prefix, err)
			}
			return o.waits(func(ctx context.Context, t task) error {
				if s.cert == "" && !isLoopback(host) {
					say(t.cmd, "interlock: "+passwordsSeen)
				}
				var opts []statelock.Option
				if force {
					opts = append(opts, statelock.AllowForce(func(*http.Request) bool { return true }))
				}
				h := statelock.New(t.Client, prefix, hold, files, opts...)
				return s.until(ctx, o, t, telling(t.cmd, askingPassword(password, h)), url.URL{Path: "/"})
			})(cmd, nil)
		},
	}
	s.add(cmd.Flags())
	cmd.Flags().StringVar(&states, "states", "", "`folder` of the states, which this user alone may read")
	cmd.Flags().StringVar(&prefix, "prefix", "terraform", "`name` before the names of the locks")
	durationVar(cmd.Flags(), &hold, "hold", "", "how long a lock stays without a write: longer than the longest step")
	cmd.Flags().BoolVar(&force, "allow-force", false, "let force-unlock end the lock of another client")
	return cmd
}

// askingPassword lets in who gives the password.
func askingPassword(password string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, given, _ := r.BasicAuth()
		if got := sha256.Sum256([]byte(given)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="interlock", charset="UTF-8"`)
			http.Error(w, "the password is missing or wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// telling says which requests were refused, and why: Terraform does not show it.
func telling(cmd *cobra.Command, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(a, r)
		if a.status >= 400 && (a.status != http.StatusNotFound || r.Method != http.MethodGet) {
			say(cmd, "interlock: %s %q from %s: %d %s", r.Method, r.URL.Path, r.RemoteAddr, a.status, view.Plain(a.why))
		}
	})
}

// answer notes what a request is answered with.
type answer struct {
	http.ResponseWriter
	status int
	why    string // the beginning
}

// Unwrap lets a handler set deadlines.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(text []byte) (int, error) {
	if a.why == "" && a.status >= 400 {
		a.why = strings.TrimSpace(string(text[:min(len(text), 300)]))
	}
	return a.ResponseWriter.Write(text)
}
