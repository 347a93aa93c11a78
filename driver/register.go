package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Opener makes a driver from a URL. It takes the options that it knows, and
// fails with u.Check() before it touches anything if some are left.
type Opener func(ctx context.Context, u *URL) (Driver, error)

// Examiner examines what a URL leads to where no driver can be opened, such as for a user
// who lacks a right. It finds out what [Driver].Check does, as far as that is possible, and
// fails if the backend does not answer. It takes options as an Opener does.
type Examiner func(ctx context.Context, u *URL) ([]Finding, error)

var registry = struct {
	sync.Mutex
	openers   map[string]Opener
	examiners map[string]Examiner
	shown     map[string][]string
}{openers: map[string]Opener{}, examiners: map[string]Examiner{}, shown: map[string][]string{}}

// Register makes a backend available under a URL scheme. Backends call it when
// they are imported; a scheme that is registered twice is a panic. shown are the options whose
// values everybody may see, in messages, logs and the environment of jobs: [URL].String hides
// all others.
func Register(scheme string, open Opener, shown ...string) {
	registry.Lock()
	defer registry.Unlock()
	if _, ok := registry.openers[scheme]; ok {
		panic("interlock: scheme " + scheme + " is registered twice")
	}
	registry.openers[scheme] = open
	registry.shown[scheme] = shown
}

// harmless reports whether everybody may see the value of an option.
func harmless(scheme, key string) bool {
	scheme = meant(scheme, Schemes())
	registry.Lock()
	defer registry.Unlock()
	return meant(key, append([]string{"ttl", "prefix", "owner"}, registry.shown[scheme]...)) != ""
}

// meant is which of some words is meant by one that may be mistyped: the word itself, or the first one
// that has three letters or more and differs by one letter that is wrong, missing or too much, or by
// two that are swapped. "" if there is none.
func meant(typed string, words []string) string {
	if slices.Contains(words, typed) {
		return typed
	}
	for _, w := range words {
		if len(w) >= 3 && len(typed) >= 3 && mistyped(typed, w) {
			return w
		}
	}
	return ""
}

func mistyped(typed, word string) bool {
	for len(typed) > 0 && len(word) > 0 && typed[0] == word[0] {
		typed, word = typed[1:], word[1:]
	}
	for len(typed) > 0 && len(word) > 0 && typed[len(typed)-1] == word[len(word)-1] {
		typed, word = typed[:len(typed)-1], word[:len(word)-1]
	}
	return len(typed) <= 1 && len(word) <= 1 ||
		len(typed) == 2 && len(word) == 2 && typed[0] == word[1] && typed[1] == word[0]
}

// RegisterExaminer is for backends that can answer and still refuse to be opened. A
// scheme has one at most.
func RegisterExaminer(scheme string, examine Examiner) {
	registry.Lock()
	defer registry.Unlock()
	if _, ok := registry.examiners[scheme]; ok {
		panic("interlock: scheme " + scheme + " has two examiners")
	}
	registry.examiners[scheme] = examine
}

// Schemes lists the registered URL schemes in order.
func Schemes() []string {
	registry.Lock()
	defer registry.Unlock()
	return slices.Sorted(maps.Keys(registry.openers))
}

// known names the packages of this project's backends, so that the error for a
// missing one can tell what to import.
var known = map[string]string{
	"etcd":       "etcdlock",
	"etcds":      "etcdlock",
	"mem":        "memlock",
	"file":       "filelock",
	"postgres":   "pglock",
	"postgresql": "pglock",
	"mysql":      "mysqllock",
	"mariadb":    "mysqllock",
	"quorum":     "quorumlock",
	"redis":      "redislock",
	"rediss":     "redislock",
	"zk":         "zklock",
	"zks":        "zklock",
	"sqlite":     "sqlitelock",
}

// OpenURL opens the driver of the URL's scheme.
func OpenURL(ctx context.Context, u *URL) (Driver, error) {
	registry.Lock()
	open := registry.openers[u.Scheme]
	registry.Unlock()
	if open != nil {
		return open(ctx, u)
	}
	if pkg := known[u.Scheme]; pkg != "" {
		return nil, fmt.Errorf("%w: scheme %q needs the line: import _ \"github.com/interlock-go/interlock/backend/%s\"", ErrInvalid, u.Scheme, pkg)
	}
	switch like := meant(u.Scheme, Schemes()); {
	case u.isPort():
		return nil, fmt.Errorf("%w: %s:%s has no scheme; this program has %v, as in SCHEME://%[2]s:%[3]s", ErrInvalid, u.Scheme, u.Path, Schemes())
	case like != "":
		return nil, fmt.Errorf("%w: unknown scheme %q: did you mean %s?", ErrInvalid, u.Scheme, like)
	}
	return nil, fmt.Errorf("%w: unknown scheme %q; this program has %v, as in SCHEME://host", ErrInvalid, u.Scheme, Schemes())
}

// ExamineURL calls the examiner of the URL's scheme. If it has none, the error wraps
// errors.ErrUnsupported.
func ExamineURL(ctx context.Context, u *URL) ([]Finding, error) {
	registry.Lock()
	examine := registry.examiners[u.Scheme]
	registry.Unlock()
	if examine == nil {
		return nil, fmt.Errorf("%s: can only be examined once it is open: %w", u.Scheme, errors.ErrUnsupported)
	}
	return examine(ctx, u)
}
