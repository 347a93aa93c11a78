//go:build linux

package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: what cannot be read is shown as that, in few words, and what else there is as it is.
func TestWhatCannotBeReadHarmsNoOther(t *testing.T) {
	t.Parallel()
	harms := map[string]func(t *testing.T) (url string, harm func() error){
		"latch": func(t *testing.T) (string, func() error) {
			file := filepath.Join(t.TempDir(), "locks.db")
			return "sqlite:" + filepath.ToSlash(file), func() error {
				db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
				if err != nil {
					return err
				}
				defer db.Close()
				_, err = db.Exec("UPDATE cell SET value = ? WHERE name = 'harmed/latch'", bytes.Repeat([]byte("x"), 10_000_000))
				return err
			}
		},
		"value of file": func(t *testing.T) (string, func() error) {
			dir := t.TempDir()
			return "file:" + filepath.ToSlash(dir), func() error {
				return os.WriteFile(filepath.Join(dir, ".interlock", "cells", "harmed%2Fvalue"), bytes.Repeat([]byte("garbage "), 512), 0o600)
			}
		},
		"value": func(t *testing.T) (string, func() error) {
			s := redistest.Start(t)
			return s.URL(), func() error {
				_, err := s.Do("HSET", "interlock:{harmed/value}:c", "version", "x")
				return err
			}
		},
	}
	for kind, prepare := range harms {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			kind, _, _ := strings.Cut(kind, " ")
			url, harm := prepare(t)
			c := errtest.Must(interlock.Open(t.Context(), url, interlock.TTL(time.Hour)))(t)
			defer c.Close()
			errtest.None(t, acquire(t, c.Mutex("harmed")))
			for _, name := range []string{"harmed", "other"} {
				errtest.Must(c.Latch(name).Set(t.Context(), 2))(t)
				errtest.Must(interlock.NewValue[string](c, name).Set(t.Context(), "text", 0))(t)
			}
			errtest.None(t, harm())
			for _, c := range []struct {
				args []string
				want string
			}{
				{[]string{"ls", "--all"}, `(?m)^harmed +` + kind + ` +cannot be read: .+\n(.*\n)?other +latch +2 left\nother +value +version \d+, 6 bytes$`},
				{[]string{"ls", "--all", "--json"}, `\{"name":"harmed","kind":"` + kind + `","error":".+"name":"other","kind":"value","exists":true`},
				{[]string{"show", "harmed"}, `(?m)^the ` + kind + ` harmed cannot be read: .+\n(the .+\n)?harmed, mutex: held by 1`},
				{[]string{"show", "--json", "harmed"}, `"name":"harmed","kind":"mutex".*"unreadable":\{"` + kind + `":".+"\}`},
				{[]string{"show", "other"}, `the latch other is set, 2 left`},
			} {
				cmd := cli(t, url, c.args...)
				out, err := cmd.Output()
				if err != nil || len(out) > 5_000 || !regexp.MustCompile(c.want).Match(out) {
					t.Errorf("%v: %v, %d bytes: %.2000s%.2000s", c.args, err, len(out), out, cmd.Stderr)
				}
			}
		})
	}
}
