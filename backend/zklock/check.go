package zklock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/doctor"
)

// examine is for a URL at which no session can be opened.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	c, err := configOf(u)
	if err != nil {
		return nil, err
	}
	s := newStore(c)
	defer s.Close()
	if _, err := s.link(ctx); err != nil && !s.lasts(err) { // which servers say
		return nil, err
	}
	return s.Check(ctx), nil
}

// examination is one call of Check.
type examination struct {
	*store
	l       *link
	servers []*server
	voters  int // of the ensemble; -1: not known, 0: a server that stands alone
	tried   trial
}

// Check examines the ensemble, and each server that can be reached.
func (s *store) Check(ctx context.Context) []driver.Finding {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, time.Minute) // for servers that do not answer
	defer stop()
	l, err := s.link(ctx)
	if err == nil {
		err = s.Explain(l.Sync(ctx, "/"))
	}
	e := &examination{store: s, l: l, voters: -1}
	e.servers = e.askAll(ctx)
	unreachable := func(context.Context) driver.Finding {
		if err == nil {
			return doctor.Sound
		}
		return doctor.Fail(doctor.EveryLock, "see that the servers run and have a quorum, and that the URL names them (zks: with TLS)", "%v", err)
	}
	checks := []doctor.Check{
		{"connection", "there is a session", unreachable},
		{"servers", "all that the URL names serve", e.checkServers},
	}
	if err == nil {
		e.askEnsemble(ctx)
		e.tried = e.try(ctx)
		checks = append(checks, []doctor.Check{
			{"version", "no fault is known by which servers lose transactions", e.checkVersion},
			{"quorum", "one server may die", e.checkQuorum},
			{"sessions", "the usual TTL is granted", e.checkSessions},
			{"exchanges", "locks and values can be used", e.checkExchanges},
			{"listing", "names can be read", func(ctx context.Context) driver.Finding {
				return doctor.Listing(ctx, s, func(err error) string { return e.remedy(ctx, err) })
			}},
			{"access", "only the user may change nodes", e.checkAccess},
			{"values", "the longest is accepted", e.checkLarge},
			{"clock", "those of the leader and of this machine agree", e.checkClock},
			{"tokens", "they grow", e.checkTokens},
			{"persistence", "changes are on disk before they are confirmed", e.checkPersistence},
		}...)
	}
	return doctor.Examine(ctx, checks)
}

const goesOn = "that locks go on when a server dies"

// server is what one tells without a session.
type server struct {
	addr    string
	err     error             // it cannot be reached
	says    map[string]string // the answers of srvr and mntr; mntr is often forbidden
	refuses bool              // srvr is
}

// askAll asks all servers of the URL at once; of a program's own connection, only the server that it has now is known.
func (e *examination) askAll(ctx context.Context) (all []*server) {
	hosts := e.config.servers.Hosts
	if e.given != nil {
		hosts = []string{e.given.Conn.Server()}
	}
	var asked sync.WaitGroup
	for _, h := range hosts {
		name, port, _ := net.SplitHostPort(h)
		ips, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil || len(ips) == 1 {
			all = append(all, &server{addr: h, err: err})
			ips = ips[:0]
		}
		for _, ip := range ips {
			all = append(all, &server{addr: net.JoinHostPort(ip, port)})
		}
		for _, s := range all[len(all)-max(1, len(ips)):] {
			dial := e.config.servers.Dialler(func() string { return name })
			if e.given != nil {
				dial = e.given.Dialler()
			}
			asked.Go(func() {
				if s.err == nil {
					s.err = s.ask(ctx, dial)
				}
			})
		}
	}
	asked.Wait()
	return all
}

func (s *server) ask(ctx context.Context, dial zk.Dialler) error {
	s.says = map[string]string{}
	for _, word := range []string{"srvr", "mntr"} {
		text, err := say(ctx, dial, s.addr, word)
		if err != nil && word == "srvr" {
			return err
		}
		s.refuses = s.refuses || word == "srvr" && strings.Contains(text, "not in the whitelist")
		for line := range strings.Lines(strings.ReplaceAll(text, ": ", "\t")) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				s.says[key] = strings.TrimSpace(value)
			}
		}
	}
	return nil
}

// say sends one of the words that a server answers without a session, over a connection of its own.
func say(ctx context.Context, dial zk.Dialler, addr, word string) (string, error) {
	const within = 2 * time.Second
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	c, err := dial("tcp", addr, within)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(within))
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(c, 1<<20))
	switch {
	case len(answer) > 0:
		return string(answer), nil
	case err == nil:
		err = errors.New("it accepts a connection and says nothing")
	}
	return "", err
}

func (e *examination) checkServers(context.Context) driver.Finding {
	var bad []string
	for _, s := range e.servers {
		switch {
		case s.err != nil:
			bad = append(bad, fmt.Sprintf("%s cannot be reached: %v", s.addr, s.err))
		case s.says["Mode"] == "" && !s.refuses:
			bad = append(bad, s.addr+" does not serve: it has no quorum")
		}
	}
	if len(bad) > 0 {
		return doctor.Warn(goesOn+": there are fewer to go to", "start them, or correct the URL; with TLS only, it begins with zks:", "%s", strings.Join(bad, "; "))
	}
	return doctor.Sound
}

// askEnsemble reads the node that says who belongs to the ensemble, which all may read.
func (e *examination) askEnsemble(ctx context.Context) {
	c, err := e.l.Get(ctx, "/zookeeper/config")
	if err != nil {
		return
	}
	e.voters = 0
	for line := range strings.Lines(string(c.Data)) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			e.voters++
		}
	}
}

// checkVersion knows the first version without the faults by which servers lose transactions when leaders crash.
func (e *examination) checkVersion(context.Context) driver.Finding {
	known := false
	for _, s := range e.servers {
		var v [3]int
		text, _, _ := strings.Cut(s.says["Zookeeper version"], ",")
		if n, _ := fmt.Sscanf(text, "%d.%d.%d", &v[0], &v[1], &v[2]); n < 3 {
			continue
		}
		known = true
		if sound := [3]int{3, 9, 4}; slices.Compare(v[:], sound[:]) < 0 && e.voters != 0 {
			return doctor.Warn("that failovers lose nothing: servers may differ in what they have after a leader has crashed", "use ZooKeeper 3.9.4 or later",
				"%s has ZooKeeper %d.%d.%d, with some of ZOOKEEPER-4394, -4712, -4785 and -4925", s.addr, v[0], v[1], v[2])
		}
	}
	if !known {
		return driver.Finding{}
	}
	return doctor.Sound
}

func (e *examination) checkQuorum(context.Context) driver.Finding {
	const three = "use an ensemble of three servers, or five"
	switch {
	case e.voters < 0:
		return driver.Finding{}
	case e.voters == 0:
		return doctor.Warn(goesOn+": there is no other", three, "one server that stands alone")
	case e.voters < 3:
		return doctor.Warn(goesOn+": those that are left are no majority", three, "%d servers that vote", e.voters)
	case e.given == nil && len(e.servers) < 2:
		return doctor.Warn(goesOn+": this program does not know the others", "name all servers in the URL: zk://host1,host2,host3", "%d servers vote, and the URL names one", e.voters)
	}
	return doctor.Sound
}

// checkSessions asks for the TTL that programs have which do not choose one.
func (e *examination) checkSessions(ctx context.Context) driver.Finding {
	const usual = 15 * time.Second
	l, err := e.stranger().Connect(ctx, usual)
	if err != nil {
		return doctor.Unknown("that a lock is passed on in time when its holder dies", err)
	}
	defer l.Close()
	if _, granted := l.State(); granted != usual {
		return doctor.Warn("that a lock is passed on within its TTL, and no sooner", "set minSessionTimeout and maxSessionTimeout, or tickTime, on all servers",
			"a TTL of %v was asked for, and %v was granted", usual, granted)
	}
	return doctor.Sound
}

// stranger is for connections beside the one that is examined, of who is not the user.
func (e *examination) stranger() *zk.Servers {
	if e.given == nil {
		return &zk.Servers{Hosts: e.config.servers.Hosts, TLS: e.config.servers.TLS, Dial: e.config.servers.Dial, Patience: e.config.servers.Patience}
	}
	return &zk.Servers{Hosts: []string{e.given.Conn.Server()}, Dial: e.given.Dialler(), Patience: 5 * time.Second}
}

// trial is what came of doing what locks do.
type trial struct {
	err          error // the first exchange that failed
	ahead, wrong time.Duration
}

// try does what locks do, below a name of its own.
func (e *examination) try(ctx context.Context) (t trial) {
	name := "doctor/" + strings.ToLower(exchange.NewID())
	if t.err = doctor.Try(ctx, e.store, exchange.NewMailbox(), name); t.err == nil {
		if err := e.Explain(e.brief(ctx)); err != nil {
			t.err = fmt.Errorf("cannot remove what nobody uses: %w", err)
		}
	}
	began := time.Now()
	if now, _, _, err := e.clock(ctx, e.l); err == nil {
		t.ahead, t.wrong = doctor.Ahead(time.UnixMilli(now), began.Round(0), time.Now().Round(0))
	}
	return t
}

// brief makes a node and removes it, where queues are, and where all programs have theirs.
func (e *examination) brief(ctx context.Context) error {
	for _, node := range []string{e.aside() + "-", e.aside("cells") + "/", e.aside("swaps") + "/"} {
		at := node + "doctor-" + exchange.NewID()
		_, err := zk.Call(ctx, func() (string, error) { return e.l.Conn.Create(at, nil, zk.Ephemeral, e.acl) })
		if err == nil {
			err = e.l.Remove(ctx, at)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// remedy gives the user all rights on the nodes of locks, to whoever has the right a there. A node that is not there is
// made.
func (e *examination) remedy(ctx context.Context, err error) string {
	if !errors.Is(err, zk.ErrNoAuth) && !errors.Is(err, zk.ErrInvalidACL) && !errors.Is(err, zk.ErrAuthFailed) {
		return "see the logs of the servers: the session needs ZooKeeper 3.6 or later"
	}
	acl, commands := "world:anyone:cdrwa", []string(nil)
	if user, _, ok := strings.Cut(e.config.servers.Auth, ":"); ok {
		acl = "auth::cdrwa"
		commands = append(commands, "addauth digest "+user+":PASSWORD")
	} else if e.given != nil {
		acl = "SCHEME:USER:cdrwa"
	}
	there := func(node string) bool {
		stat, _ := e.l.Exists(ctx, node)
		return stat != nil
	}
	var missing []string
	for top := e.top(); top != "/" && !there(top); top = path.Dir(top) {
		missing = append([]string{`create ` + top + ` "" ` + acl}, missing...)
	}
	commands = append(commands, missing...)
	switch {
	case len(missing) > 0:
	case e.root != "":
		commands = append(commands, "setAcl -R "+e.root+" "+acl)
	default:
		commands = append(commands, "setAcl / "+acl)
		if there(e.aside()) {
			commands = append(commands, "setAcl -R "+e.aside()+" "+acl)
		}
	}
	text := strings.Join(commands, "; ") + " (as a user with the right a; setAcl replaces what getAcl shows). Programs that share a path share its nodes: use one user for all, or ?acl=world"
	if e.config.servers.Auth != "" {
		text += "; or correct user and password: a user who does not exist, or has another password, has the rights of everybody: ZooKeeper does not say so"
	}
	return text
}

func (e *examination) checkExchanges(ctx context.Context) driver.Finding {
	if e.tried.err != nil {
		return doctor.Fail(doctor.EveryLock, e.remedy(ctx, e.tried.err), "%s", doctor.WithoutHint(e.tried.err.Error()))
	}
	return doctor.Sound
}

// checkAccess tries to make a node without the user of the URL.
func (e *examination) checkAccess(ctx context.Context) driver.Finding {
	l, err := e.stranger().Connect(ctx, 10*time.Second)
	if err != nil {
		return doctor.Unknown(doctor.Strangers, err)
	}
	defer l.Close()
	for _, node := range []string{e.top(), e.aside()} {
		at := strings.TrimSuffix(node, "/") + "/_interlock-doctor-" + exchange.NewID()
		if _, err := zk.Call(ctx, func() (string, error) { return l.Conn.Create(at, nil, zk.Ephemeral, zk.WorldACL(zk.PermAll)) }); err == nil {
			return doctor.Warn(doctor.Strangers, "use a user (zk://USER:PASSWORD@…, without acl=world), and give it the nodes that are there: setAcl -R "+e.top()+" auth::cdrwa, as that user; or let nobody else reach the servers",
				"everybody who reaches the servers may change %s", node)
		}
	}
	return doctor.Sound
}

// checkLarge writes the longest value, over connections of its own: a server to which it is too long ends them.
func (e *examination) checkLarge(ctx context.Context) driver.Finding {
	if e.given != nil || e.tried.err != nil {
		return driver.Finding{}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	d := newDriver(e.config)
	defer d.Close()
	c := driver.Swap{ID: exchange.NewID(), Name: "doctor/" + exchange.NewID() + "/value", Value: make([]byte, driver.MaxCell)}
	v, err := d.Swap(ctx, c)
	if err != nil {
		return doctor.Warn("values and long lines: a server ends the connection of who sends a longer message", "leave jute.maxbuffer at its default of a million bytes, or at 128 KiB at least, on all servers",
			"a value of %d bytes is not accepted: %v", driver.MaxCell, err)
	}
	_, _ = d.Swap(ctx, driver.Swap{ID: exchange.NewID(), Name: c.Name, Version: v.Version, Delete: true})
	return doctor.Sound
}

// checkClock compares the leader's clock with ours. Leases of a fixed time end by it, all others do not.
func (e *examination) checkClock(context.Context) driver.Finding {
	t := e.tried
	switch {
	case t.wrong == 0:
		return driver.Finding{}
	case t.ahead.Abs()-t.wrong > time.Second:
		return doctor.Warn("leases of a fixed time (ExpiresAfter, AtLeast, Extend), if the leader's clock is the wrong one and is corrected, or another leader's differs: they end that much sooner or later",
			doctor.Slewing, "that of the leader differs from that of this machine by %v ± %v", doctor.Short(t.ahead), doctor.Short(t.wrong))
	}
	return doctor.Sound
}

// checkTokens looks how many leaders there have been: their number is the upper part of each transaction; and whether
// transactions have fallen back, by what programs have noted, or by what was copied from another ensemble.
func (e *examination) checkTokens(ctx context.Context) driver.Finding {
	now, before := e.l.Reached(), uint64(0)
	raised, _ := e.l.List(ctx, e.aside("floors"), false)
	for _, name := range raised.Names {
		if r, _, err := e.readRecord(ctx, e.l, name); err == nil && len(r.Floor) > 0 { // else who joins is told
			before = max(before, uint64(r.Floor[len(r.Floor)-1].After), r.Lost)
		}
	}
	const most = driver.MaxToken >> 32
	const remedy = "start a new ensemble before that, stop the programs meanwhile, and raise the tokens of resources that check them to what they have seen"
	switch leaders := now >> 32; {
	case before > now:
		return doctor.Warn("that tokens grow: resources that check them may refuse who gets a lock now; and two may have held one",
			"interlock admin raise-token --all FLOOR, with a FLOOR above the largest token that resources have seen, or --all --ahead 24h; and start no server with old data, or none, before those that have the latest",
			"the ensemble is at transaction %#x, and had reached %#x before: it has lost data, or was restored", now, before)
	case leaders >= most:
		return doctor.Fail(doctor.EveryLock+": its token would be too large", remedy, "the ensemble has elected %d leaders, and %d is the limit", leaders, most)
	case leaders > most/10*9:
		return doctor.Warn("every lock, once the limit is reached", remedy, "the ensemble has elected %d leaders, and %d is the limit", leaders, most)
	}
	return doctor.Sound
}

// checkPersistence sees from the figures whether servers wait for their disks: how often they have, and how many
// changes they have written. The last few may be on their way to the disk.
func (e *examination) checkPersistence(ctx context.Context) driver.Finding {
	told := false
	for _, s := range e.askAll(ctx) { // after the trial, whose changes count
		syncs, err1 := strconv.ParseFloat(s.says["zk_cnt_fsynctime"], 64)
		changes, err2 := strconv.ParseFloat(s.says["zk_cnt_sync_process_time"], 64)
		told = told || err1 == nil && err2 == nil
		if told && syncs == 0 && changes >= 5 {
			return doctor.Warn("exclusion, tokens and values, when machines lose their power together: what was granted last is forgotten, and tokens may come back",
				"take forceSync=no out of the configuration of all servers", "%s writes without waiting for the disk", s.addr)
		}
	}
	if !told {
		return doctor.Fine("not known: mntr may not be asked (4lw.commands.whitelist)")
	}
	return doctor.Sound
}
