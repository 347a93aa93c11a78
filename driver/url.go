package driver

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
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
//
// Nothing that may be a password is in its errors or in String: not the URL itself, where its
// parts are in doubt or its scheme is not registered, and not the value of an option that is wrong.
type URL struct {
	Scheme string
	User   *url.Userinfo // nil if there is none
	Hosts  []string      // host or host:port; IPv6 addresses in brackets; see also SocketPath
	Path   string        // with its leading "/" if there were hosts or "//"

	options url.Values
	at      bool // there is an "@" behind the "?"
	taken   map[string]bool
	hidden  map[string]bool // options with a wrong value
	wrong   []error
	doubted bool // an "@" seems to be misplaced
}

// ParseURL reads a URL. Its errors wrap ErrInvalid and repeat nothing of it.
func ParseURL(s string) (*URL, error) {
	u, err := parseURL(s)
	return u, Invalid(err)
}

var (
	errMisplaced = errors.New("the URL has an @ where it cannot be: write a password's / as %2F and ? as %3F, and an @ behind the host as %40")
	errNested    = errors.New("the URL has another one behind its scheme: write that one alone")
	errStray     = errors.New("the URL has words of another form in its hosts or path: write options behind a ?, joined by & (in a path, = as %3D, ; as %3B and a space as %20)")
	errPort      = errors.New("hosts of the URL: a port is not a number (a password is written user:password@host, with / as %2F and ? as %3F)")
)

func parseURL(s string) (*URL, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#@ ") {
		return nil, errors.New("not a URL: it must begin with a scheme, such as sqlite: or redis://")
	}
	u := &URL{Scheme: strings.ToLower(scheme), taken: map[string]bool{}, hidden: map[string]bool{}}
	path, query, _ := strings.Cut(rest, "?")
	authority := ""
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		authority, path = rest, ""
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			authority, path = rest[:i], rest[i:]
		}
	}
	if misplaced(authority, path, query) {
		return nil, errMisplaced
	}
	hosts := authority[strings.LastIndexByte(authority, '@')+1:]
	if stray(u.Scheme, hosts, path) {
		return nil, errStray
	}
	u.at = strings.Contains(query, "@")
	var err error
	if u.options, err = url.ParseQuery(query); err != nil {
		return nil, errors.New("options of the URL: a wrong escape, or a semicolon (write % as %25 and ; as %3B)")
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		name, password, has := strings.Cut(authority[:i], ":")
		if u.User, err = userinfo(name, password, has); err != nil {
			return nil, err
		}
	}
	if hosts != "" {
		u.Hosts = strings.Split(hosts, ",")
	}
	for _, h := range u.Hosts {
		if h == "" {
			return nil, errors.New("hosts of the URL: one is empty")
		}
		if !portIsNumber(h) {
			return nil, errPort
		}
	}
	if u.Path, err = url.PathUnescape(path); err != nil {
		return nil, errors.New("path of the URL: a wrong escape (write % as %25)")
	}
	if strings.Contains(strings.Join(u.Hosts, ",")+u.Path, "://") {
		return nil, errNested
	}
	return u, nil
}

// misplaced reports whether an "@" seems to be that of user:password@host whose parts were
// taken for something else: for the path if the password has a "/", for options if it has a "?",
// for the path if there is no "//".
func misplaced(authority, path, query string) bool {
	if i := strings.LastIndexByte(path, '@'); i >= 0 && (authority != "" || path[0] != '/' || strings.Contains(path[:i], ":")) {
		return true
	}
	for pair := range strings.SplitSeq(query, "&") {
		key, _, has := strings.Cut(pair, "=")
		switch {
		case !strings.Contains(pair, "@"):
		case authority != "" && !strings.Contains(authority, "@"), authority == "" && strings.Contains(path, ":"):
			return true
		case !has || !isOption(key):
			return true
		}
	}
	return false
}

// stray reports whether hosts or a path have options in the form of another library, as "host=h password=p",
// "h,password=p" or "h;password=p". The name of a file may have all but a password.
func stray(scheme, hosts, path string) bool {
	const no = "=; \t\r\n"
	isFile := scheme == "sqlite" || scheme == "file"
	return strings.ContainsAny(hosts, no) || !isFile && strings.ContainsAny(path, no) || password.MatchString(path)
}

var password = regexp.MustCompile(`(?i)(password|passwd|pwd) *=`)

// option is what the name of an option looks like.
var option = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,40}$`)

func isOption(key string) bool { return option.MatchString(key) }

// portIsNumber reports false if a host is rather user:password.
func portIsNumber(host string) bool {
	_, port, has := strings.Cut(host[strings.LastIndexByte(host, ']')+1:], ":")
	if !has || port == "" {
		return true
	}
	if strings.Contains(port, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
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

const masked = "xxxxx"

// nameEscaper escapes what ends the name of a user, and PathEscape leaves as it is.
var nameEscaper = strings.NewReplacer(":", "%3A", "@", "%40")

// String returns the URL with its password hidden, and with the values of all options but those
// that the backend has named to [Register], and ttl, prefix and owner; and with what stands behind the
// scheme without "//", if it has a colon. It is itself a URL that can be parsed. A scheme or option that
// is mistyped is read as the one that is meant. Of any other scheme that is not registered only hosts are
// shown, and only if there is nothing else: its parts may mean anything.
func (u *URL) String() string {
	var b strings.Builder
	b.WriteString(u.Scheme + ":")
	if u.doubted || u.foreign() {
		return b.String() + masked
	}
	if len(u.Hosts) > 0 || u.User != nil || strings.HasPrefix(u.Path, "/") {
		b.WriteString("//")
	}
	if u.User != nil {
		b.WriteString(nameEscaper.Replace(url.PathEscape(u.User.Username())))
		if _, has := u.User.Password(); has {
			b.WriteString(":" + masked)
		}
		b.WriteString("@")
	}
	path := strings.ReplaceAll((&url.URL{Path: u.Path}).EscapedPath(), "@", "%40")
	if u.opaque() {
		path = masked
	}
	b.WriteString(strings.Join(u.Hosts, ",") + path)
	if len(u.options) > 0 {
		shown := url.Values{}
		for k, values := range u.options {
			switch {
			case !namesOption(k, values):
				k, values = masked, []string{masked}
			case u.nests(k):
				values = nested(values)
			case u.hidden[k] || !harmless(u.Scheme, k):
				values = []string{masked}
			}
			shown[k] = values
		}
		b.WriteString("?" + shown.Encode())
	}
	return b.String()
}

// Secret reports whether the URL has something that String hides, such as a password.
func (u *URL) Secret() bool {
	if u.User != nil {
		if password, _ := u.User.Password(); password != "" {
			return true
		}
	}
	for k, values := range u.options {
		if u.nests(k) {
			for _, v := range values {
				if inner, err := ParseURL(v); err != nil || inner.Secret() {
					return true
				}
			}
		} else if !harmless(u.Scheme, k) {
			return true
		}
	}
	return u.opaque() || u.foreign()
}

// foreign reports whether the scheme is none of this program's, and the URL has more than its hosts.
func (u *URL) foreign() bool {
	return meant(u.Scheme, Schemes()) == "" && (len(u.options) > 0 || u.User != nil || strings.Trim(u.Path, "/") != "" && !u.isPort())
}

// isPort reports whether the URL is host:port, without a scheme.
func (u *URL) isPort() bool {
	_, err := strconv.ParseUint(u.Path, 10, 16)
	return err == nil && len(u.Hosts) == 0
}

// nests reports whether the values of an option are URLs themselves: those of the members of a quorum.
func (u *URL) nests(key string) bool { return u.Scheme == "quorum" && key == "member" }

// nested shows URLs as String does.
func nested(values []string) []string {
	shown := make([]string, len(values))
	for i, v := range values {
		shown[i] = masked
		if inner, err := ParseURL(v); err == nil {
			shown[i] = inner.String()
		}
	}
	return shown
}

// opaque reports whether the path may be user:password, of a URL without its "//". It may also be a
// name with a colon, but not one behind the letter of a drive.
func (u *URL) opaque() bool {
	return strings.Contains(u.Path, ":") && !strings.HasPrefix(u.Path, "/") && !drive.MatchString(u.Path)
}

var drive = regexp.MustCompile(`^[A-Za-z]:[/\\][^:]*$`)

// namesOption reports whether something is an option at all, and not what followed a "?" by
// mistake.
func namesOption(key string, values []string) bool {
	return isOption(key) && strings.Join(values, "") != ""
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
		u.refuse(key, "is given %d times", len(v))
	}
	return v[0]
}

// Texts takes the option key, which may be given several times, in the order of the URL.
func (u *URL) Texts(key string) []string {
	u.taken[key] = true
	return u.options[key]
}

// Choice takes the option key, which is one of some words; the first of them if it is not given.
func (u *URL) Choice(key string, words ...string) string {
	s := u.Text(key, words[0])
	if !slices.Contains(words, s) {
		known := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
		u.refuse(key, "is not one of: %s", strings.Join(known, ", "))
		return words[0]
	}
	return s
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
	u.refuse(key, "is not a duration, such as 10s")
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
		u.refuse(key, "is not a number in base %d", base)
		return def
	}
	return n
}

// Hide has String hide the values of options, which are wrong.
func (u *URL) Hide(keys ...string) {
	for _, k := range keys {
		u.hidden[k] = true
	}
}

func (u *URL) refuse(key, format string, args ...any) {
	u.Hide(key)
	u.wrong = append(u.wrong, fmt.Errorf("option %s %s", key, fmt.Sprintf(format, args...)))
}

// Check reports options that nobody has taken and values that were wrong, as
// ErrInvalid.
func (u *URL) Check() error {
	wrong := u.wrong
	for _, k := range slices.Sorted(maps.Keys(u.options)) {
		if !u.taken[k] {
			name := ""
			if namesOption(k, u.options[k]) {
				name = " " + k
			}
			knows := slices.Sorted(maps.Keys(u.taken))
			if like := meant(k, knows); like != "" {
				name += " (did you mean " + like + "?)"
			}
			wrong = append(wrong, fmt.Errorf("unknown option%s; %s: knows %s", name, u.Scheme, strings.Join(knows, ", ")))
		}
	}
	if len(wrong) > 0 && u.at { // the options may be the end of a password
		u.doubted = true
		return Invalid(errMisplaced)
	}
	return Invalid(errors.Join(wrong...))
}
