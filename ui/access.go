package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// policy lets a page load its own script, style and data, and nothing else; no other page may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// doors knows who may look.
type doors struct {
	cfg  Config
	name string // of the cookie: browsers do not tell the ports of a machine apart

	guesses guesses

	mu    sync.Mutex
	given map[string]bool // cookies of browsers that have opened the address with the token
	used  string          // the one that came back first: the others are worth nothing, and the token opens no page any more
}

func newDoors(cfg Config) *doors {
	d := &doors{cfg: cfg, name: "interlock-ui-" + rand.Text()[:10], given: map[string]bool{}}
	d.cfg.Hosts = nil
	for _, host := range cfg.Hosts {
		d.cfg.Hosts = append(d.cfg.Hosts, strings.ToLower(host))
	}
	return d
}

func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// open reports whether a request has proven that it may look.
func (d *doors) open(r *http.Request) bool {
	if d.cfg.UserHeader != "" && r.Header.Get(d.cfg.UserHeader) == "" {
		return false
	}
	if d.cfg.Token == "" && d.cfg.Password == "" {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	isBearer := strings.EqualFold(scheme, "Bearer")
	_, basic, isBasic := r.BasicAuth()
	for _, secret := range []string{d.cfg.Token, d.cfg.Password} {
		if secret != "" && (isBearer && same(given, secret) || isBasic && same(basic, secret)) {
			return true
		}
	}
	c, err := r.Cookie(d.name)
	if d.cfg.Token == "" || err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used == "" && d.given[c.Value] {
		d.used = c.Value
	}
	return d.used != "" && same(c.Value, d.used)
}

// redeem returns a cookie for a request whose address has the token, if that has opened no browser yet; else "".
func (d *doors) redeem(r *http.Request) string {
	given := r.URL.Query().Get("token")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cfg.Token == "" || d.used != "" || r.Method != http.MethodGet || given == "" || !same(given, d.cfg.Token) || len(d.given) == 1000 {
		return ""
	}
	cookie := rand.Text()
	d.given[cookie] = true
	return cookie
}

// knows reports whether the handler is meant by the Host of a request.
func (d *doors) knows(r *http.Request) bool {
	if len(d.cfg.Hosts) == 0 {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return slices.Contains(d.cfg.Hosts, strings.ToLower(strings.Trim(host, "[]")))
}

// guarded lets in who may look, and says to browsers what they must not do with the answers.
func (h *Handler) guarded(next http.Handler) http.Handler {
	changes := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cache-Control", "no-store")
		site, navigates := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode") == "navigate"
		cookie := ""
		switch {
		case !h.doors.knows(r):
			h.deny(w, r, http.StatusMisdirectedRequest, "This server is not meant by that name: see --host.")
			return
		case changes.Check(r) != nil, site != "" && site != "same-origin" && site != "none" && !navigates:
			h.deny(w, r, http.StatusForbidden, "This request comes from another site.")
			return
		default:
			cookie = h.doors.redeem(r)
		}
		switch {
		case h.cfg.Password != "" && h.doors.guesses.tooMany(r):
			head.Set("Retry-After", "60")
			h.deny(w, r, http.StatusTooManyRequests, "Too many wrong passwords have come from this address: wait for a minute.")
		case cookie != "":
			http.SetCookie(w, &http.Cookie{Name: h.doors.name, Value: cookie, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
			q := r.URL.Query()
			q.Del("token")
			head.Set("Location", relative(r.URL, q))
			w.WriteHeader(http.StatusSeeOther)
		case h.doors.open(r), strings.HasPrefix(r.URL.Path, "/static/"):
			next.ServeHTTP(w, r)
		default:
			h.unknown(w, r)
		}
	})
}

// relative is the address of a page as a page beside it names it.
func relative(at *url.URL, q url.Values) string {
	page := at.Path[strings.LastIndexByte(at.Path, '/')+1:]
	if page == "" {
		page = "./"
	}
	if len(q) > 0 {
		page += "?" + q.Encode()
	}
	return page
}

// unknown refuses a visitor, and says how to get in.
func (h *Handler) unknown(w http.ResponseWriter, r *http.Request) {
	switch {
	case h.cfg.Password != "":
		h.doors.guesses.count(r)
		w.Header().Set("WWW-Authenticate", `Basic realm="interlock", charset="UTF-8"`)
		h.deny(w, r, http.StatusUnauthorized, "The password is missing or wrong.")
	case h.cfg.Token != "":
		w.Header().Set("WWW-Authenticate", "Bearer")
		h.deny(w, r, http.StatusUnauthorized, "Open the address that interlock ui has printed. It lets one browser in, once: for another browser, start interlock ui again.")
	default:
		h.deny(w, r, http.StatusForbidden, "The proxy in front of this page has not said who you are.")
	}
}

// deny refuses a request, and logs it.
func (h *Handler) deny(w http.ResponseWriter, r *http.Request, code int, text string) {
	h.log.WarnContext(r.Context(), "interlock ui: refused", "remote", r.RemoteAddr, "host", r.Host, "path", r.URL.Path, "why", text)
	h.refuse(w, r, code, text)
}

// user is how the log calls a visitor.
func (h *Handler) user(r *http.Request) string {
	if h.cfg.UserHeader != "" {
		return r.Header.Get(h.cfg.UserHeader)
	}
	name, _, _ := r.BasicAuth()
	return name
}

// refuse answers with an error, to people as a page, to programs as JSON.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, code int, text string) {
	if forProgram(r) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		writeJSON(w, map[string]string{"error": text})
		return
	}
	p := h.page(r, http.StatusText(code))
	if code == http.StatusServiceUnavailable {
		p.Stream = brief // the script loads the page again when the backend answers
	}
	if !h.doors.open(r) {
		p.Backend, p.Outside = "", true
	}
	h.render(w, r, code, "message", struct {
		page
		Text string
	}{p, text})
}

func forProgram(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/metrics"
}
