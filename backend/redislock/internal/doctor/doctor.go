// Package doctor examines Redis for whoever asks whether it is fit for locks.
package doctor

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// Client is what the doctor is told of who uses the server.
type Client struct {
	Redis            rueidis.Client
	User             string // of the server; "" if that is not known
	Prefix, AllNames string // of all keys, and what all names begin with, if the client said so
	Replicas         int    // that have to confirm a grant

	Count   func()            // is called for each exchange
	Explain func(error) error // says what an error means
	Channel string            // on which events arrive
	// Listens waits until events can arrive. Expect returns an event, and what is closed when it has arrived.
	Listens func(context.Context) error
	Expect  func() (event string, came <-chan struct{})
}

// Doctor examines the server, in a Cluster every node. What it may not see is a
// warning, and keeps it from nothing else.
type Doctor struct{ Client }

// New is for a client that is open or was refused.
func New(c Client) *Doctor { return &Doctor{c} }

// Check is called once. The cause of a context that has ended is what users are told.
func (d *Doctor) Check(ctx context.Context) []driver.Finding {
	nodes := d.examine(ctx)
	var all []driver.Finding
	for _, c := range []struct {
		name string
		of   func(context.Context, *node) driver.Finding
	}{
		{whoAnswers, d.checkServer},
		{"version", d.checkVersion},
		{"mode", d.checkMode},
		{"rights", d.checkRights},
		{"access", d.checkAccess},
		{"writing", d.checkWriting},
		{"listing", d.checkListing},
		{"messages", d.checkMessages},
		{"persistence", d.checkPersistence},
		{"replication", d.checkReplication},
		{"memory", d.checkMemory},
		{"cluster", d.checkCluster},
		{"connections", d.checkConnections},
		{"scripts", d.checkScripts},
		{"configuration", d.checkVisible},
	} {
		found := map[*node]driver.Finding{}
		for _, n := range nodes {
			if n.err == nil || c.name == whoAnswers {
				found[n] = c.of(ctx, n)
			}
		}
		all = append(all, merge(c.name, nodes, found)...)
	}
	return append(all, checkClocks(nodes)...)
}

const (
	everyLock = "every lock: none can be acquired or renewed"
	exclusion = "exclusion: two could hold one lock"
)

// unreachable is the finding that a server cannot be asked for anything.
func unreachable(err error) driver.Finding {
	says := func(part string) bool { return strings.Contains(err.Error(), part) }
	remedy := "see the error: it names the reason"
	switch {
	case !conn.Answered(err):
		remedy = "see that the server runs, and that the URL names it"
	case says("LOADING"):
		remedy = "wait until the server has read its data: INFO persistence shows loading_eta_seconds"
	case says("MASTERDOWN"):
		remedy = "name the master in the URL, or the Sentinels and ?master=NAME: this is a replica without one"
	case says("BUSY"):
		remedy = "wait until the script of another program has ended, or SCRIPT KILL"
	case says("max number of clients"):
		remedy = "raise maxclients, or share clients: one needs two to four connections"
	}
	return doctor.Fail(everyLock, remedy, "%v", err)
}

// refusedCommand is where a server says which command a user may not run.
var refusedCommand = regexp.MustCompile(`run the '([^']+)' command`)

// Unreachable is the finding about a client that is closed, or has no time left.
func Unreachable(err error) driver.Finding { return doctor.Of(whoAnswers, unreachable(err)) }

// TurnedAway is the finding about a server, or a Sentinel, that answers and does not let a user
// connect. The error is said twice, as it is and explained.
func TurnedAway(user, sentinelUser string, err, explained error) driver.Finding {
	command := refusedCommand.FindStringSubmatch(err.Error())
	says := func(part string) bool { return strings.Contains(err.Error(), part) }
	switch {
	case command != nil && strings.HasPrefix(command[1], "sentinel"):
		return doctor.Of("rights", doctor.Fail(everyLock, "on each Sentinel: "+grant(sentinelUser, "+"+command[1])+"; "+wholeLine, "%v", err))
	case command != nil:
		return doctor.Of("rights", doctor.Fail(everyLock, grant(user, "+"+command[1])+"; "+wholeLine, "%v", err))
	case says("WRONGPASS"), says("NOAUTH"):
		return doctor.Of(whoAnswers, doctor.Fail(everyLock, "correct user and password of the URL, or "+grant(user, "on", ">PASSWORD"), "%v", err))
	}
	return doctor.Of(whoAnswers, unreachable(explained))
}

// whoAnswers is the check that says which nodes there are: it names each, also if all
// are alike.
const whoAnswers = "server"

// merge says once what is true of several nodes, and names those that differ.
func merge(subject string, nodes []*node, found map[*node]driver.Finding) []driver.Finding {
	var order []driver.Finding
	who := map[driver.Finding][]string{}
	said := 0
	for _, n := range nodes {
		f := found[n]
		if f == (driver.Finding{}) {
			continue
		}
		said++
		if who[f] == nil {
			order = append(order, f)
		}
		who[f] = append(who[f], n.addr)
	}
	var all []driver.Finding
	var good []string
	for _, f := range order {
		where := strings.Join(who[f], ", ")
		switch {
		case len(who[f]) == said && (said == 1 || subject != whoAnswers):
			all = append(all, doctor.Of(subject, f))
		case f.Status == driver.OK:
			good = append(good, where+": "+f.Detail)
		default:
			all = append(all, doctor.Of(subject+" of "+where, f))
		}
	}
	if len(good) > 0 {
		all = slices.Insert(all, 0, doctor.Of(subject, doctor.Fine("%s", strings.Join(good, "; "))))
	}
	return all
}
