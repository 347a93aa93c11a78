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
	voters  int  // of the ensemble; -1: not known, 0: a server that stands alone
	unfit   bool // locks and values cannot be used
}

// Check examines the ensemble, and each server that can be reached.
func (s *store) Check(ctx context.Context) []driver.Finding {
	ctx, stop := context.WithTimeout(ctx, time.Minute) // for servers that do not answer
	defer stop()
	e := &examination{store: s, voters: -1}
	remedy := func(err error) string { return e.remedy(ctx, err) }
	ttl := doctor.TTL(s, 15*time.Second, "set minSessionTimeout and maxSessionTimeout, or tickTime, on all servers")
	if s.given != nil { // the program's
		ttl.Of = func(context.Context) driver.Finding { return driver.Finding{} }
	}
	return doctor.Examine(ctx, []doctor.Check{
		{"servers", "all that the URL names serve", e.checkServers},
		{"connection", "there is a session", e.checkConnection},
	}, append(doctor.Use(s, e.try, remedy), []doctor.Check{
		{"quorum", "one server may die", e.checkQuorum},
		{"version", "no fault is known by which servers lose transactions", e.checkVersion},
		ttl,
		{"access", "only the user may change nodes", e.checkAccess},
		{"values", "the longest is accepted", e.checkLarge},
		{"clock", "those of the leader and of this machine agree", e.checkClock},
		{"tokens", "they grow", e.checkTokens},
		{"persistence", "changes are on disk before they are confirmed", e.checkPersistence},
	}...)...)
}

func (e *examination) checkConnection(ctx context.Context) driver.Finding {
	var err error
	if e.l, err = e.link(ctx); err == nil {
		err = e.Explain(e.l.Sync(ctx, "/"))
	}
	return doctor.Answer(err, func(error) string {
		return "see that the servers run and have a quorum, and that the URL names them (zks: with TLS)"
	})
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
	to := e.stranger()
	var asked sync.WaitGroup
	for _, h := range to.Hosts {
		name, port, _ := net.SplitHostPort(h)
		ips, err := net.DefaultResolver.LookupHost(ctx, name)
		if len(ips) < 2 {
			ips = []string{name}
		}
		for _, ip := range ips {
			s := &server{addr: net.JoinHostPort(ip, port), err: err, says: map[string]string{}}
			all = append(all, s)
			if err == nil {
				asked.Go(func() { s.ask(ctx, to.Dialler(func() string { return name })) })
			}
		}
	}
	asked.Wait()
	return all
}

// ask sends the words that a server answers without a session.
func (s *server) ask(ctx context.Context, dial zk.Dialler) {
	for _, word := range []string{"mntr", "srvr"} {
		var text string
		text, s.err = say(ctx, dial, s.addr, word)
		s.refuses = strings.Contains(text, "not in the whitelist")
		for line := range strings.Lines(strings.ReplaceAll(text, ": ", "\t")) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				s.says[key] = strings.TrimSpace(value)
			}
		}
	}
}

// say sends one word, over a connection of its own.
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

func (e *examination) checkServers(ctx context.Context) driver.Finding {
	e.servers = e.askAll(ctx)
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

// checkQuorum reads the node that says who belongs to the ensemble, which all may read.
func (e *examination) checkQuorum(ctx context.Context) driver.Finding {
	const three = "use an ensemble of three servers, or five"
	c, err := e.l.Get(ctx, "/zookeeper/config")
	if err != nil {
		return driver.Finding{}
	}
	e.voters = 0
	for line := range strings.Lines(string(c.Data)) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			e.voters++
		}
	}
	switch {
	case e.voters == 0:
		return doctor.Warn(goesOn+": there is no other", three, "one server that stands alone")
	case e.voters < 3:
		return doctor.Warn(goesOn+": those that are left are no majority", three, "%d servers that vote", e.voters)
	case e.given == nil && len(e.servers) < 2:
		return doctor.Warn(goesOn+": this program does not know the others", "name all servers in the URL: zk://host1,host2,host3", "%d servers vote, and the URL names one", e.voters)
	}
	return doctor.Sound
}

// checkVersion knows the first version without the faults by which servers of an ensemble lose transactions when leaders
// crash.
func (e *examination) checkVersion(context.Context) (f driver.Finding) {
	for _, s := range e.servers {
		version, _, known := strings.Cut(s.says["Zookeeper version"], ",")
		if doctor.Older(version, 3, 9, 4) && e.voters != 0 {
			return doctor.Warn("that failovers lose nothing: servers may differ in what they have after a leader has crashed", "use ZooKeeper 3.9.4 or later",
				"%s has ZooKeeper %s, with some of ZOOKEEPER-4394, -4712, -4785 and -4925", s.addr, version)
		}
		if known {
			f = doctor.Sound
		}
	}
	return f
}

// stranger is for connections beside the one that is examined, of who is not the user.
func (e *examination) stranger() *zk.Servers {
	if e.given == nil {
		return &zk.Servers{Hosts: e.config.servers.Hosts, TLS: e.config.servers.TLS, Dial: e.config.servers.Dial, Patience: e.config.servers.Patience}
	}
	return &zk.Servers{Hosts: []string{e.given.Conn.Server()}, Dial: e.given.Dialler(), Patience: 5 * time.Second}
}

// try does what locks do, below a name of its own.
func (e *examination) try(ctx context.Context, s exchange.Store) error {
	err := doctor.Try(ctx, s)
	if err == nil {
		if err = e.Explain(e.brief(ctx)); err != nil {
			err = fmt.Errorf("cannot remove what nobody uses: %w", err)
		}
	}
	e.unfit = err != nil
	return err
}

// brief makes a node and removes it, where queues are, and where all programs have theirs.
func (e *examination) brief(ctx context.Context) error {
	for _, node := range []string{e.aside() + "-", e.aside("cells") + "/", e.aside("swaps") + "/"} {
		at := node + "doctor-" + exchange.NewID()
		err := e.l.Make(ctx, at, nil, zk.Ephemeral, e.acl)
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
	created := len(commands)
	for top := e.top(); top != "/" && !there(top); top = path.Dir(top) {
		commands = slices.Insert(commands, created, `create `+top+` "" `+acl)
	}
	if there(e.top()) && e.root != "" {
		commands = append(commands, "setAcl -R "+e.root+" "+acl)
	} else if e.root == "" {
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

// checkAccess tries to make a node without the user of the URL.
func (e *examination) checkAccess(ctx context.Context) driver.Finding {
	l, err := e.stranger().Connect(ctx, 10*time.Second)
	if err != nil {
		return doctor.Unknown(doctor.Strangers, err)
	}
	defer l.Close()
	for _, node := range []string{e.top(), e.aside()} {
		at := strings.TrimSuffix(node, "/") + "/_interlock-doctor-" + exchange.NewID()
		if err := l.Make(ctx, at, nil, zk.Ephemeral, zk.WorldACL(zk.PermAll)); err == nil {
			return doctor.Warn(doctor.Strangers, "use a user (zk://USER:PASSWORD@…, without acl=world), and give it the nodes that are there: setAcl -R "+e.top()+" auth::cdrwa, as that user; or let nobody else reach the servers",
				"everybody who reaches the servers may change %s", node)
		}
	}
	return doctor.Sound
}

// checkLarge writes the longest value, over connections of its own: a server to which it is too long ends them.
func (e *examination) checkLarge(ctx context.Context) driver.Finding {
	if e.given != nil || e.unfit {
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
func (e *examination) checkClock(ctx context.Context) driver.Finding {
	began := time.Now()
	now, _, _, err := e.clock(ctx, e.l)
	if err != nil {
		return driver.Finding{} // see the exchanges
	}
	return doctor.Ahead("that of the leader", time.UnixMilli(now), began, time.Now()).Differs("leases of a fixed time (ExpiresAfter, AtLeast, Extend), " +
		"if the leader's clock is the wrong one and is corrected, or another leader's differs: they end that much sooner or later")
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
	leaders := now >> 32
	if before > now {
		return doctor.Warn("that tokens grow: resources that check them may refuse who gets a lock now; and two may have held one",
			"interlock admin raise-token --all FLOOR, with a FLOOR above the largest token that resources have seen, or --all --ahead 24h; and start no server with old data, or none, before those that have the latest",
			"the ensemble is at transaction %#x, and had reached %#x before: it has lost data, or was restored", now, before)
	}
	if leaders <= most/10*9 {
		return doctor.Sound
	}
	f := doctor.Warn(doctor.EveryLock+", once the limit is reached: its token would be too large",
		"start a new ensemble before that, stop the programs meanwhile, and raise the tokens of resources that check them to what they have seen",
		"the ensemble has elected %d leaders, and %d is the limit", leaders, most)
	if leaders >= most {
		f.Status = driver.Fail
	}
	return f
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
