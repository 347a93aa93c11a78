package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

// mostOffers is how many words the shell gets to choose from.
const mostOffers = 100

// words yields what the next argument of the task may be completed to; a tab is before what a word means.
type words = func(ctx context.Context, t task, begin string, yield func(string, error) bool)

// completes offers words for so many arguments; then comes what is next. The backend is given little time, and nothing
// is said if it does not answer: who types cannot read that. A word that is not tame is left out.
func (o *options) completes(most int, next cobra.ShellCompDirective, words words) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, next
		}
		cmd.SetErr(io.Discard)
		offered := map[string]bool{}
		_ = o.connect(cmd, args, lastWord, func(ctx context.Context, t task) (failed error) {
			words(ctx, t, begin, func(w string, err error) bool {
				if failed = err; err != nil || len(found) == mostOffers {
					return false
				}
				word, meaning, described := strings.Cut(w, "\t")
				if !strings.HasPrefix(word, begin) || !tame(word) || offered[word] {
					return true
				}
				offered[word] = true
				if described {
					word = cobra.CompletionWithDesc(word, tamed(meaning))
				}
				found = append(found, word)
				return true
			})
			return failed
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// Shells put what words have in common into the line, some with their descriptions and not always
// escaped, and evaluate that line when the next Tab asks for words. So what is offered has only
// letters, digits, and these characters, which mean nothing to any shell: the later ones if they
// are not the first of a word.
const (
	harmless      = "_./"
	harmlessLater = "-:@+=,%"
)

// special reports whether a character may mean something to a shell.
func special(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.M, unicode.N) && !strings.ContainsRune(harmless+harmlessLater, r)
}

// tame reports whether every shell takes a word as it stands.
func tame(word string) bool {
	return word != "" && !strings.ContainsFunc(word, special) && strings.IndexAny(word, harmlessLater) != 0
}

// tamed is a description of such characters and spaces.
func tamed(text string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && special(r) {
			return '·'
		}
		return r
	}, text)
}

// completeNames offers the names of locks that are in use; what comes behind the name is for
// the shell to complete.
func completeNames(o *options) cobra.CompletionFunc {
	return o.completes(1, cobra.ShellCompDirectiveDefault, namesOf(nil))
}

// namesOf yields the names of locks that have wanted members; nil: of all.
func namesOf(wanted func(interlock.Member) bool) words {
	return func(ctx context.Context, t task, begin string, yield func(string, error) bool) {
		for q, err := range t.Admin().Queues(ctx, begin) {
			if (err != nil || wanted == nil || slices.ContainsFunc(slices.Concat(q.Holders, q.Waiters), wanted)) && !yield(q.Name, err) {
				return
			}
		}
	}
}

// completeStored offers the names of what is stored of one kind.
func completeStored(o *options, kind string) cobra.CompletionFunc {
	return o.completes(1, cobra.ShellCompDirectiveNoFileComp, func(ctx context.Context, t task, begin string, yield func(string, error) bool) {
		for s, err := range t.Admin().Stored(ctx, begin) {
			if (err != nil || s.Kind == kind) && !yield(s.Name, err) {
				return
			}
		}
	})
}

// completeIDs offers the names of locks that have such members, and then the IDs of these; nil: all members.
func completeIDs(o *options, wanted func(interlock.Member) bool) cobra.CompletionFunc {
	return o.completes(2, cobra.ShellCompDirectiveNoFileComp, func(ctx context.Context, t task, begin string, yield func(string, error) bool) {
		if len(t.args) == 0 {
			namesOf(wanted)(ctx, t, begin, yield)
			return
		}
		q, err := t.Admin().Queue(ctx, t.args[0])
		short := shortIDs(q)
		for _, m := range slices.Concat(q.Holders, q.Waiters) {
			what := "holds: "
			if m.Token == 0 {
				what = "waits: "
			}
			if (wanted == nil || wanted(m)) && !yield(cobra.CompletionWithDesc(short(m.ID), what+owner(m)), err) {
				return
			}
		}
	})
}

// completeSignals offers the names of signals.
func completeSignals(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return signalNames(), cobra.ShellCompDirectiveNoFileComp
}
