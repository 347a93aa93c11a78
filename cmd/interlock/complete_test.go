//go:build linux

package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: whoever presses Tab in bash runs nothing that stands in a name.
func TestCompletionRunsNothing(t *testing.T) {
	t.Parallel()
	url, dir := testURL(t, ""), t.TempDir()
	c, err := interlock.Open(t.Context(), url, interlock.TTL(time.Hour))
	errtest.None(t, err)
	defer c.Close()
	for _, name := range []string{"a$(touch ran)1", "a$(touch ran)2", "b`touch ran`1", "b`touch ran`2", "c-1", "c-2"} {
		errtest.None(t, acquire(t, c.Mutex(name)))
	}
	// The package bash-completion has more of _init_completion than is needed here.
	rc := filepath.Join(dir, "rc")
	err = os.WriteFile(rc, []byte(`_init_completion() { cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD; }
eval "$(interlock completion bash)"
PS1='READY'
`), 0o600)
	errtest.None(t, err)
	env := append(cli(t, url).Env, "TERM=dumb", "HISTFILE=")
	bash := exec.Command("bash", "--noprofile", "--rcfile", rc, "-i")
	bash.Dir, bash.Env = dir, env
	tty := errtest.Must(pty.Start(bash))(t)
	defer func() {
		_ = bash.Process.Kill()
		_ = bash.Wait()
		tty.Close()
	}()
	var text written
	go func() { _, _ = io.Copy(&text, tty) }()
	busy.Until(t, "bash is ready", func() bool { return strings.Contains(text.String(), "READY") })
	const kill = "\x15" // of the line
	for _, name := range []string{"a", "b", "c"} {
		_, _ = io.WriteString(tty, "interlock show "+name+"\t\t\t"+kill)
	}
	_, _ = io.WriteString(tty, "echo do''ne\r")
	busy.Until(t, "bash has completed", func() bool { return strings.Contains(text.String(), "done") })
	if !strings.Contains(text.String(), "c-1") || !strings.Contains(text.String(), "c-2") {
		t.Errorf("no words are listed:\n%s", text.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Errorf("a name was run:\n%s", text.String())
	}
}

// Promise: the shell gets no word, and no description, that a shell could take for something else,
// and no word twice.
func TestOnlyTameWordsAreOffered(t *testing.T) {
	t.Parallel()
	offered := func(words ...string) []string {
		o := &options{urls: []string{testURL(t, "")}}
		cmd := newLs(o)
		cmd.SetContext(t.Context())
		found, _ := o.completes(1, 0, func(_ context.Context, _ task, _ string, yield func(string, error) bool) {
			for _, w := range words {
				if !yield(w, nil) {
					return
				}
			}
		})(cmd, nil, "")
		return found
	}
	tame := []string{"a", "jobs/a.b-c_d:e@f+g=h,i%j", ".a", "_a", "0a", "größe", "वर्ग", "名前"}
	if found := offered(tame...); !slices.Equal(found, tame) {
		t.Errorf("%q are offered, not %q", found, tame)
	}
	var wild []string
	for _, c := range "\x00\x1b\n !\"#$&'()*;<>?[\\]^`{|}~\u0085\u00a0\u2018\u2019\u201c\u2013\u2028\u202e\ufeff\U000e0041\ufffd" {
		wild = append(wild, "a"+string(c)+"b", string(c)+"b")
	}
	for _, c := range "-:@+=,%" {
		wild = append(wild, string(c)+"b")
	}
	if found := offered(append(wild, "", "a\xffb", "_activeHelp_ a")...); len(found) > 0 {
		t.Errorf("%q are offered", found)
	}
	found := offered("a\tholds: me:1", "a\tholds: you", "b\tholds: $(x)`y`\u202e")
	if want := []string{"a\tholds: me:1", "b\tholds: ··x··y··"}; !slices.Equal(found, want) {
		t.Errorf("%q are offered, not %q", found, want)
	}
}
