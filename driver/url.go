package driver

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// URL says where a backend is: scheme://user:password@host1,host2/path?options
// or scheme:path?options. Unlike net/url it takes several hosts, and it knows
// which options nobody has asked for.
type URL struct {
	Scheme string
	User   *url.Userinfo // nil if there is none
	Hosts  []string      // host or host:port; IPv6 addresses in brackets; see also SocketPath
	Path   string        // with its leading "/" if there were hosts or "//"

	options url.Values
	taken   map[string]bool
	wrong   []error
}

// ParseURL reads a URL. Its errors wrap ErrInvalid and do not show the password.
func ParseURL(s string) (*URL, error) {
	u, err := parseURL(s)
	return u, Invalid(err)
}

func parseURL(s string) (*URL, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#@ ") {
		return nil, errors.New("not a URL: it must begin with a scheme, such as sqlite: or redis://")
	}
	u := &URL{Scheme: strings.ToLower(scheme), taken: map[string]bool{}}
	rest, query, _ := strings.Cut(rest, "?")
	var err error
	if u.options, err = url.ParseQuery(query); err != nil {
		return nil, fmt.Errorf("options of the URL: %w", err)
	}
	path := rest
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		path = ""
		if i := strings.IndexByte(authority, '/'); i >= 0 {
			authority, path = authority[:i], authority[i:]
		}
		hosts := authority
		if i := strings.LastIndexByte(authority, '@'); i >= 0 {
			hosts = authority[i+1:]
			name, password, has := strings.Cut(authority[:i], ":")
			if u.User, err = userinfo(name, password, has); err != nil {
				return nil, err
			}
		}
		if hosts != "" {
			u.Hosts = strings.Split(hosts, ",")
			if slices.Contains(u.Hosts, "") {
				return nil, fmt.Errorf("hosts of the URL: an empty one in %q", hosts)
			}
		}
	}
	if u.Path, err = url.PathUnescape(path); err != nil {
		return nil, fmt.Errorf("path of the URL: %w", err)
	}
	return u, nil
}

func userinfo(name, password string, has bool) (*url.Userinfo, error) {
	name, err1 := url.PathUnescape(name)
	password, err2 := url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return nil, errors.New("user of the URL: a wrong escape (write % as %25)")
	}
	if !has {
		return url.User(name), nil
	}
	return url.UserPassword(name, password), nil
}

// secret is the password within a URL, and rather too much than too little.
var secret = regexp.MustCompile(`(://[^:@]*):.*@`)

// String returns the URL with its password hidden.
func (u *URL) String() string {
	var b strings.Builder
	b.WriteString(u.Scheme + ":")
	if len(u.Hosts) > 0 || u.User != nil || strings.HasPrefix(u.Path, "/") {
		b.WriteString("//")
	}
	if u.User != nil {
		b.WriteString(url.PathEscape(u.User.Username()))
		if _, has := u.User.Password(); has {
			b.WriteString(":xxxxx")
		}
		b.WriteString("@")
	}
	b.WriteString(strings.Join(u.Hosts, ",") + (&url.URL{Path: u.Path}).EscapedPath())
	if len(u.options) > 0 {
		shown := maps.Clone(u.options)
		for k := range shown {
			if strings.Contains(strings.ToLower(k), "password") {
				shown[k] = []string{"xxxxx"}
				continue
			}
			shown[k] = slices.Clone(shown[k])
			for i, v := range shown[k] { // an option may be a URL, too
				shown[k][i] = secret.ReplaceAllString(v, "$1:xxxxx@")
			}
		}
		b.WriteString("?" + shown.Encode())
	}
	return b.String()
}

// SocketPath is the path of a Unix socket that takes the place of a host, with its slashes
// escaped: redis://%2Frun%2Fredis.sock. ok is false if the host is something else.
func SocketPath(host string) (path string, ok bool) {
	path, err := url.PathUnescape(host)
	return path, err == nil && path != host && strings.HasPrefix(path, "/")
}

// Text takes the option key; def if it is not given.
func (u *URL) Text(key, def string) string {
	u.taken[key] = true
	v, ok := u.options[key]
	if !ok {
		return def
	}
	if len(v) > 1 {
		u.wrong = append(u.wrong, fmt.Errorf("option %s is given %d times", key, len(v)))
	}
	return v[0]
}

// Duration takes the option key, in Go's form (1m30s) or in plain seconds.
func (u *URL) Duration(key string, def time.Duration) time.Duration {
	s := u.Text(key, "")
	if s == "" && !u.options.Has(key) {
		return def
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f < 1e9 {
		return time.Duration(f * float64(time.Second))
	}
	u.wrong = append(u.wrong, fmt.Errorf("option %s=%s is no duration, such as 10s", key, s))
	return def
}

// Int takes the option key as a number in the given base.
func (u *URL) Int(key string, base int, def int64) int64 {
	s := u.Text(key, "")
	if s == "" && !u.options.Has(key) {
		return def
	}
	n, err := strconv.ParseInt(s, base, 64)
	if err != nil {
		u.wrong = append(u.wrong, fmt.Errorf("option %s=%s is no number in base %d", key, s, base))
		return def
	}
	return n
}

// Check reports options that nobody has taken and values that were wrong, as
// ErrInvalid.
func (u *URL) Check() error {
	wrong := u.wrong
	for _, k := range slices.Sorted(maps.Keys(u.options)) {
		if !u.taken[k] {
			wrong = append(wrong, fmt.Errorf("unknown option %s; %s: knows %s", k, u.Scheme, strings.Join(slices.Sorted(maps.Keys(u.taken)), ", ")))
		}
	}
	return Invalid(errors.Join(wrong...))
}
