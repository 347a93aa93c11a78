package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock/internal/request"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// trial is what came of doing what locks do.
type trial struct {
	path      string   // of a queue that is none
	refused   []denial // what the user may not do
	missing   []string // nodes above the locks that nobody has made
	listing   error    // of the names of locks
	container error
	ticket    error
	mark      error    // the release mark
	rest      error    // anything else that fails
	illegible []string // names whose tokens were raised, and by how much cannot be read
	reached   uint64   // a transaction of an earlier time

	trip  time.Duration
	zxid  int64
	clock clockReading
	large error
	wide  bool // large was tried
}

// denial is what the user lacks a right for.
type denial struct{ what, path string }

// note takes the answer to a request for a node. One that is not there yet is made when it is
// needed.
func (t *trial) note(what, path string, err error) {
	switch r := (denial{what, path}); {
	case err == nil || errors.Is(err, zk.ErrNoNode) || slices.Contains(t.refused, r):
	case errors.Is(err, zk.ErrNoAuth):
		t.refused = append(t.refused, r)
	case t.rest == nil:
		t.rest = fmt.Errorf(what+": %w", path, err)
	}
}

type clockReading struct {
	ahead, uncertain time.Duration
	known            bool
}

const (
	toMake   = "make a node in %s (create)"
	toRemove = "remove a node from %s (delete)"
	toWrite  = "write %s"
	toRead   = "read %s"
)

// try does what locks do, below the reserved node. All but the container goes
// with the session.
func (d *Doctor) try(ctx context.Context) {
	t := &d.trial
	name := "doctor-" + strings.ToLower(rand.Text())
	what, err := d.brief(ctx, d.Aside()+"-"+name)
	if errors.Is(err, zk.ErrNoNode) && d.Root != "" {
		if err = d.session.Lay(ctx, d.Root); err == nil {
			what, err = d.brief(ctx, d.Aside()+"-"+name)
		}
	}
	if d.err = request.Fatal(err); d.err != nil {
		return
	}
	top := d.top()
	for top != "/" && !d.there(ctx, top) {
		t.missing = append([]string{top}, t.missing...)
		top = path.Dir(top)
	}
	t.note(what, top, err)
	t.listing = d.list(ctx, d.top())
	if err := d.session.Lay(ctx, d.Aside()); err != nil && !d.there(ctx, d.Aside()) {
		t.note(toMake, top, err)
		return
	}
	d.tryShared(ctx)
	queue := d.Aside(name)
	if t.container = d.session.Container(ctx, queue); t.container != nil {
		t.note(toMake, d.Aside(), refusal(t.container))
		return
	}
	t.path = queue
	ticket, err := request.Call(ctx, func() (string, error) {
		return d.session.Conn.Create(queue+"/trial-", nil, zk.FlagEphemeralSequential, d.ACL)
	})
	if t.ticket = err; err == nil {
		_, t.mark = request.Multi(ctx, d.session.Conn, &zk.SetDataRequest{Path: queue, Data: d.Mark, Version: -1}, &zk.DeleteRequest{Path: ticket, Version: -1})
		if t.mark != nil {
			t.ticket = request.Remove(ctx, d.session.Conn, ticket)
		}
	}
	d.readClock(ctx)
}

// there reports whether a node exists, which everybody may know.
func (d *Doctor) there(ctx context.Context, path string) bool {
	yes, _ := request.Call(ctx, func() (bool, error) {
		yes, _, err := d.session.Conn.Exists(path)
		return yes, err
	})
	return yes
}

// list reports whether the names of the nodes below one can be read.
func (d *Doctor) list(ctx context.Context, path string) error {
	_, err := request.Call(ctx, func() ([]string, error) {
		names, _, err := d.session.Conn.Children(path)
		return names, err
	})
	return err
}

func (d *Doctor) get(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	type content struct {
		data []byte
		stat *zk.Stat
	}
	c, err := request.Call(ctx, func() (content, error) {
		data, stat, err := d.session.Conn.Get(path)
		return content{data, stat}, err
	})
	return c.data, c.stat, err
}

// brief makes a node and removes it. If that fails, what says at which of both.
func (d *Doctor) brief(ctx context.Context, path string) (what string, err error) {
	if _, err := request.Call(ctx, func() (string, error) {
		return d.session.Conn.Create(path, nil, zk.FlagEphemeral, d.ACL)
	}); err != nil {
		return toMake, err
	}
	return toRemove, request.Remove(ctx, d.session.Conn, path)
}

// readClock compares the leader's clock, by which nodes are dated, with ours.
func (d *Doctor) readClock(ctx context.Context) {
	t := &d.trial
	for range 3 {
		sent := time.Now()
		stat, err := request.Set(ctx, d.session.Conn, t.path, nil, -1)
		if err != nil {
			return
		}
		trip := time.Since(sent)
		t.zxid = stat.Mzxid
		if t.trip == 0 || trip < t.trip {
			t.trip = trip
		}
		if uncertain := trip/2 + time.Millisecond; !t.clock.known || uncertain < t.clock.uncertain {
			t.clock = clockReading{time.UnixMilli(stat.Mtime).Sub(sent.Add(trip / 2)), uncertain, true}
		}
	}
}

// tryShared tries the nodes that all programs share, if they are there: they
// belong to whoever was first.
func (d *Doctor) tryShared(ctx context.Context) {
	t := &d.trial
	for _, folder := range []string{"post", "cells", "swaps"} {
		what, err := d.brief(ctx, d.Aside(folder, "doctor-"+strings.ToLower(rand.Text())))
		t.note(what, d.Aside(folder), err)
	}
	t.note(toRead, d.Aside("post"), d.list(ctx, d.Aside("post")))
	_, err := request.Set(ctx, d.session.Conn, d.Aside("clock"), nil, -1)
	t.note(toWrite, d.Aside("clock"), err)
	data, stat, err := d.get(ctx, d.Aside("floors"))
	t.note(toRead, d.Aside("floors"), err)
	if err == nil {
		t.illegible, t.reached = d.Floors(data, stat)
	}
}

// tryLarge writes the longest value, over a connection of its own: a server to which
// it is too long ends that.
func (d *Doctor) tryLarge(ctx context.Context) {
	t := &d.trial
	if t.path == "" || len(d.Hosts) == 0 {
		return
	}
	other, err := d.Beside(ctx, usual)
	if err != nil {
		return
	}
	defer other.Close()
	const names = 1024 // and what else is in the message
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, t.large = request.Set(ctx, other.Conn, t.path, make([]byte, driver.MaxCell+names), -1)
	t.wide = true
}

// cleanUp removes the container. If that fails, the server does it.
func (d *Doctor) cleanUp(ctx context.Context) {
	if d.trial.path != "" {
		_ = request.Remove(ctx, d.session.Conn, d.trial.path)
	}
}

// who is the user whose rights are examined.
func (d *Doctor) who() string {
	if user, _, ok := strings.Cut(d.Auth, ":"); ok {
		return "the user " + user
	}
	if len(d.Hosts) == 0 {
		return "the user of the client"
	}
	return "everybody"
}

// grant says what gives the user all rights on some nodes, to whoever has the right a there. A
// node that is not there is made with them instead, in one to which the user has no right.
func (d *Doctor) grant(paths ...string) string {
	acl := "world:anyone:cdrwa"
	var all []string
	if user, _, ok := strings.Cut(d.Auth, ":"); ok {
		acl = "auth::cdrwa"
		all = append(all, "addauth digest "+user+":PASSWORD")
	} else if len(d.Hosts) == 0 {
		acl = "SCHEME:USER:cdrw"
	}
	for _, node := range d.trial.missing {
		all = append(all, `create `+node+` "" `+acl)
	}
	for _, node := range paths {
		if len(d.trial.missing) > 0 && node == path.Dir(d.trial.missing[0]) {
			continue
		}
		all = append(all, "setAcl "+node+" "+acl)
	}
	return strings.Join(all, "; ") + " (as a user with the right a; setAcl replaces what getAcl shows)"
}

func (d *Doctor) checkRights(context.Context) driver.Finding {
	if d.err != nil {
		return driver.Finding{}
	}
	const wrong = "a user who does not exist, or has another password, has the rights of everybody: ZooKeeper does not say so"
	t, who := &d.trial, d.who()
	switch {
	case len(t.refused) > 0:
		var what, paths []string
		shared := false
		for _, r := range t.refused {
			what = append(what, fmt.Sprintf(r.what, r.path))
			if !slices.Contains(paths, r.path) {
				paths = append(paths, r.path)
			}
			shared = shared || strings.HasPrefix(r.path, d.Aside())
		}
		remedy := d.grant(paths...)
		if d.Auth != "" {
			remedy += "; or correct user and password: " + wrong
		}
		if shared {
			remedy += ". Programs that share a path share these nodes: use one user for all, or ?acl=world"
		}
		return doctor.Fail(everyLock, remedy, "%s may not %s", who, strings.Join(what, ", nor "))
	case t.rest != nil:
		return doctor.Fail(everyLock, "see the logs of the servers", "cannot %v", t.rest)
	case errors.Is(t.ticket, zk.ErrNoAuth):
		return doctor.Fail(everyLock, "let the ACL of new nodes include create, delete and read (cdr)", "%s may not make and remove a ticket", who)
	case t.ticket != nil:
		return doctor.Fail(everyLock, "see the logs of the servers", "cannot make and remove a ticket: %v", t.ticket)
	}
	return doctor.Fine("%s may make, write and remove nodes in %s", who, d.top())
}

// checkListing looks whether the names of locks can be read.
func (d *Doctor) checkListing(context.Context) driver.Finding {
	if d.err != nil || !errors.Is(d.trial.listing, zk.ErrNoAuth) {
		return driver.Finding{}
	}
	return doctor.Warn("inspection: interlock ls shows nothing", d.grant(d.top()), "%s may not read %s", d.who(), d.top())
}

// refusal is err if it says that the user may not.
func refusal(err error) error {
	if errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	return nil
}

func (d *Doctor) checkMarks(context.Context) driver.Finding {
	switch err := d.trial.mark; {
	case err == nil || d.err != nil:
		return driver.Finding{}
	case errors.Is(err, zk.ErrNoAuth):
		return doctor.Warn("Inherited, which is then true whenever a lock was used by others before, and speed: waiters list the queue at every grant",
			"let the ACL of new nodes include write (w)",
			"a release cannot be marked in the node of its queue")
	default:
		return doctor.Fail(everyLock, "see the logs of the servers", "a release fails: %v", err)
	}
}

func (d *Doctor) checkContainers(context.Context) driver.Finding {
	switch err := d.trial.container; {
	case d.err != nil || d.trial.rest != nil || refusal(err) != nil:
	case err != nil:
		return doctor.Fail(everyLock, "use ZooKeeper 3.5.1 or later", "nodes of the kind that queues are cannot be made: %v", err)
	case d.trial.path != "":
		return doctor.Fine("queues that nobody uses vanish by themselves")
	}
	return driver.Finding{}
}

// checkAccess sees who may change what only the user of the URL is meant to.
func (d *Doctor) checkAccess(ctx context.Context) driver.Finding {
	if d.err != nil {
		return driver.Finding{}
	}
	var open []string
	for _, path := range []string{d.top(), d.Aside()} {
		list, err := request.Call(ctx, func() ([]zk.ACL, error) {
			list, _, err := d.session.Conn.GetACL(path)
			return list, err
		})
		if err != nil {
			continue // that needs a right of its own, without which locks work
		}
		for _, a := range list {
			if a.Scheme == "world" && a.Perms&^zk.PermRead != 0 {
				open = append(open, path)
				break
			}
		}
	}
	world := false
	for _, a := range d.ACL {
		world = world || a.Scheme == "world" && a.Perms&^zk.PermRead != 0
	}
	switch {
	case world:
		return doctor.Warn("exclusion, tokens and values: who is not meant to take part can take every lock, end it and forge what is kept",
			"use a user (zk://USER:PASSWORD@…, without acl=world), who has to make the path, or be given the nodes that are there: setAcl -R "+d.top()+" auth::cdrwa, as that user; or let nobody else reach the servers",
			"everybody who reaches the servers may change all nodes (acl=world, the default without a user)")
	case len(open) > 0:
		return doctor.Warn("exclusion against those who are not meant to take part: they can make the nodes of locks before you do, and be the ones who own them",
			"setAcl "+open[0]+" auth::cdrwa, as that user", "everybody may change %s", strings.Join(open, ", "))
	}
	return doctor.Fine("only the user may change nodes")
}
