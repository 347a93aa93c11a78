package zklock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

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
func (e *exam) try(ctx context.Context) {
	t, d, l := &e.trial, e.d, e.l
	name := "doctor-" + strings.ToLower(rand.Text())
	what, err := e.brief(ctx, d.root+"/"+reserved+"-"+name)
	if errors.Is(err, zk.ErrNoNode) && d.root != "" {
		if err = d.lay(ctx, l, d.root, false); err == nil {
			what, err = e.brief(ctx, d.root+"/"+reserved+"-"+name)
		}
	}
	if e.err = fatal(err); e.err != nil {
		return
	}
	top := d.top()
	for top != "/" && !e.there(ctx, top) {
		t.missing = append([]string{top}, t.missing...)
		top = cmp.Or(parent(top), "/")
	}
	t.note(what, top, err)
	_, t.listing = l.list(ctx, d.top(), false)
	if err := d.lay(ctx, l, d.aside(), false); err != nil && !e.there(ctx, d.aside()) {
		t.note(toMake, top, err)
		return
	}
	e.tryShared(ctx)
	path := d.aside(name)
	if _, t.container = call(ctx, func() (string, error) {
		return l.conn.CreateContainer(path, nil, zk.FlagContainer, d.acl)
	}); t.container != nil {
		t.note(toMake, d.aside(), refusal(t.container))
		return
	}
	t.path = path
	ticket, err := call(ctx, func() (string, error) {
		return l.conn.Create(path+"/trial-", nil, zk.FlagEphemeralSequential, d.acl)
	})
	if t.ticket = err; err == nil {
		_, t.mark = l.multi(ctx, &zk.SetDataRequest{Path: path, Data: markOf(0), Version: -1}, &zk.DeleteRequest{Path: ticket, Version: -1})
		if t.mark != nil {
			t.ticket = l.remove(ctx, ticket)
		}
	}
	e.readClock(ctx)
}

// there reports whether a node exists, which everybody may know.
func (e *exam) there(ctx context.Context, path string) bool {
	yes, _ := call(ctx, func() (bool, error) {
		yes, _, err := e.l.conn.Exists(path)
		return yes, err
	})
	return yes
}

// brief makes a node and removes it. If that fails, what says at which of both.
func (e *exam) brief(ctx context.Context, path string) (what string, err error) {
	if _, err := call(ctx, func() (string, error) {
		return e.l.conn.Create(path, nil, zk.FlagEphemeral, e.d.acl)
	}); err != nil {
		return toMake, err
	}
	return toRemove, e.l.remove(ctx, path)
}

// readClock compares the leader's clock, by which nodes are dated, with ours.
func (e *exam) readClock(ctx context.Context) {
	t := &e.trial
	for range 3 {
		sent := time.Now()
		stat, err := e.l.set(ctx, t.path, nil, -1)
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
func (e *exam) tryShared(ctx context.Context) {
	t, d := &e.trial, e.d
	for _, folder := range []string{"post", "cells", "swaps"} {
		what, err := e.brief(ctx, d.aside(folder, "doctor-"+strings.ToLower(rand.Text())))
		t.note(what, d.aside(folder), err)
	}
	_, err := e.l.list(ctx, d.aside("post"), false)
	t.note(toRead, d.aside("post"), err)
	_, err = e.l.set(ctx, d.aside("clock"), nil, -1)
	t.note(toWrite, d.aside("clock"), err)
	c, err := e.l.get(ctx, d.aside("floors"))
	t.note(toRead, d.aside("floors"), err)
	if err == nil {
		t.illegible = decodeAdditions(c).illegible()
	}
}

// tryLarge writes the longest value, over a connection of its own: a server to which
// it is too long ends that.
func (e *exam) tryLarge(ctx context.Context) {
	t := &e.trial
	if t.path == "" || e.d.given != nil {
		return
	}
	l, err := e.d.dialled(ctx, usual)
	if err != nil {
		return
	}
	defer l.close()
	const names = 1024 // and what else is in the message
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, t.large = l.set(ctx, t.path, make([]byte, driver.MaxCell+names), -1)
	t.wide = true
}

// cleanUp removes the container. If that fails, the server does it.
func (e *exam) cleanUp(ctx context.Context) {
	if e.trial.path != "" {
		_ = e.l.remove(ctx, e.trial.path)
	}
}

// who is the user whose rights are examined.
func (e *exam) who() string {
	if user, _, ok := strings.Cut(e.d.auth, ":"); ok {
		return "the user " + user
	}
	if e.d.given != nil {
		return "the user of the client"
	}
	return "everybody"
}

// grant says what gives the user all rights on some nodes, to whoever has the right a there. A
// node that is not there is made with them instead, in one to which the user has no right.
func (e *exam) grant(paths ...string) string {
	acl := "world:anyone:cdrwa"
	var all []string
	if user, _, ok := strings.Cut(e.d.auth, ":"); ok {
		acl = "auth::cdrwa"
		all = append(all, "addauth digest "+user+":PASSWORD")
	} else if e.d.given != nil {
		acl = "SCHEME:USER:cdrw"
	}
	for _, path := range e.trial.missing {
		all = append(all, `create `+path+` "" `+acl)
	}
	for _, path := range paths {
		if len(e.trial.missing) > 0 && path == cmp.Or(parent(e.trial.missing[0]), "/") {
			continue
		}
		all = append(all, "setAcl "+path+" "+acl)
	}
	return strings.Join(all, "; ") + " (as a user with the right a; setAcl replaces what getAcl shows)"
}

func checkRights(_ context.Context, e *exam) driver.Finding {
	if e.err != nil {
		return driver.Finding{}
	}
	const wrong = "a user who does not exist, or has another password, has the rights of everybody: ZooKeeper does not say so"
	t, who := &e.trial, e.who()
	switch {
	case len(t.refused) > 0:
		var what, paths []string
		shared := false
		for _, r := range t.refused {
			what = append(what, fmt.Sprintf(r.what, r.path))
			if !slices.Contains(paths, r.path) {
				paths = append(paths, r.path)
			}
			shared = shared || strings.HasPrefix(r.path, e.d.aside())
		}
		remedy := e.grant(paths...)
		if e.d.auth != "" {
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
	return doctor.Fine("%s may make, write and remove nodes in %s", who, e.d.top())
}

// checkListing looks whether the names of locks can be read.
func checkListing(_ context.Context, e *exam) driver.Finding {
	if e.err != nil || !errors.Is(e.trial.listing, zk.ErrNoAuth) {
		return driver.Finding{}
	}
	return doctor.Warn("inspection: interlock ls shows nothing", e.grant(e.d.top()), "%s may not read %s", e.who(), e.d.top())
}

// refusal is err if it says that the user may not.
func refusal(err error) error {
	if errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	return nil
}

func checkMarks(_ context.Context, e *exam) driver.Finding {
	switch err := e.trial.mark; {
	case err == nil || e.err != nil:
		return driver.Finding{}
	case errors.Is(err, zk.ErrNoAuth):
		return doctor.Warn("Inherited, which is then true whenever a lock was used by others before, and speed: waiters list the queue at every grant",
			"let the ACL of new nodes include write (w)",
			"a release cannot be marked in the node of its queue")
	default:
		return doctor.Fail(everyLock, "see the logs of the servers", "a release fails: %v", err)
	}
}

func checkContainers(_ context.Context, e *exam) driver.Finding {
	switch err := e.trial.container; {
	case e.err != nil || e.trial.rest != nil || refusal(err) != nil:
	case err != nil:
		return doctor.Fail(everyLock, "use ZooKeeper 3.5.1 or later", "nodes of the kind that queues are cannot be made: %v", err)
	case e.trial.path != "":
		return doctor.Fine("queues that nobody uses vanish by themselves")
	}
	return driver.Finding{}
}

// checkAccess sees who may change what only the user of the URL is meant to.
func checkAccess(ctx context.Context, e *exam) driver.Finding {
	if e.err != nil {
		return driver.Finding{}
	}
	var open []string
	for _, path := range []string{e.d.top(), e.d.aside()} {
		list, err := call(ctx, func() ([]zk.ACL, error) {
			list, _, err := e.l.conn.GetACL(path)
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
	for _, a := range e.d.acl {
		world = world || a.Scheme == "world" && a.Perms&^zk.PermRead != 0
	}
	switch {
	case world:
		return doctor.Warn("exclusion, tokens and values: who is not meant to take part can take every lock, end it and forge what is kept",
			"use a user (zk://USER:PASSWORD@…, without acl=world), who has to make the path, or be given the nodes that are there: setAcl -R "+e.d.top()+" auth::cdrwa, as that user; or let nobody else reach the servers",
			"everybody who reaches the servers may change all nodes (acl=world, the default without a user)")
	case len(open) > 0:
		return doctor.Warn("exclusion against those who are not meant to take part: they can make the nodes of locks before you do, and be the ones who own them",
			"setAcl "+open[0]+" auth::cdrwa, as that user", "everybody may change %s", strings.Join(open, ", "))
	}
	return doctor.Fine("only the user may change nodes")
}
