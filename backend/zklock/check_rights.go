package zklock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// trial is what came of doing what locks do.
type trial struct {
	path      string // of a queue that is none
	below     error  // a node directly below the root, as locks have them
	container error
	ticket    error
	mark      error    // the release mark
	others    []string // nodes that all programs share and that are refused
	rest      error    // anything else that fails

	trip  time.Duration
	zxid  int64
	clock clockReading
	large error
	wide  bool // large was tried
}

type clockReading struct {
	ahead, uncertain time.Duration
	known            bool
}

// try does what locks do, below the reserved node. All but the container goes
// with the session.
func (e *exam) try(ctx context.Context) {
	t, d, l := &e.trial, e.d, e.l
	name := "doctor-" + strings.ToLower(rand.Text())
	t.below = e.brief(ctx, d.root+"/"+reserved+"-"+name)
	if errors.Is(t.below, zk.ErrNoNode) && d.root != "" {
		if t.below = d.lay(ctx, l, d.root, false); t.below == nil {
			t.below = e.brief(ctx, d.root+"/"+reserved+"-"+name)
		}
	}
	if e.err = fatal(t.below); e.err != nil {
		return
	}
	if t.rest = d.lay(ctx, l, d.aside(), false); t.rest != nil {
		return
	}
	path := d.aside(name)
	if _, t.container = call(ctx, func() (string, error) {
		return l.conn.CreateContainer(path, nil, zk.FlagContainer, d.acl)
	}); t.container != nil {
		return
	}
	t.path = path
	child, err := call(ctx, func() (string, error) {
		return l.conn.Create(path+"/trial-", nil, zk.FlagEphemeralSequential, d.acl)
	})
	if t.ticket = err; err == nil {
		_, t.mark = l.multi(ctx, &zk.SetDataRequest{Path: path, Data: markOf(0), Version: -1}, &zk.DeleteRequest{Path: child, Version: -1})
		if t.mark != nil {
			t.ticket = l.remove(ctx, child)
		}
	}
	e.readClock(ctx)
	e.tryShared(ctx)
}

// brief makes a node and removes it.
func (e *exam) brief(ctx context.Context, path string) error {
	if _, err := call(ctx, func() (string, error) {
		return e.l.conn.Create(path, nil, zk.FlagEphemeral, e.d.acl)
	}); err != nil {
		return err
	}
	return e.l.remove(ctx, path)
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
	note := func(path string, err error) {
		switch {
		case err == nil || errors.Is(err, zk.ErrNoNode):
		case errors.Is(err, zk.ErrNoAuth):
			t.others = append(t.others, path)
		default:
			t.rest = err
		}
	}
	for _, folder := range []string{"post", "cells", "swaps"} {
		note(d.aside(folder), e.brief(ctx, d.aside(folder, "doctor-"+strings.ToLower(rand.Text()))))
	}
	_, err := e.l.set(ctx, d.aside("clock"), nil, -1)
	note(d.aside("clock"), err)
	_, err = e.l.get(ctx, d.aside("floors"))
	note(d.aside("floors"), err)
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

func checkRights(_ context.Context, e *exam) driver.Finding {
	if e.err != nil {
		return driver.Finding{}
	}
	t, root := &e.trial, e.d.top()
	who := "everybody"
	if user, _, ok := strings.Cut(e.d.auth, ":"); ok {
		who = "the user " + user
	} else if e.d.given != nil {
		who = "the user of the client"
	}
	const wrong = "a user who does not exist, or has another password, has the rights of everybody: ZooKeeper does not say so"
	for _, c := range []struct {
		what string
		err  error
	}{
		{"make and remove a node in " + root, t.below},
		{"make a node in " + e.d.aside(), refusal(t.container)},
		{"make and remove a node in " + t.path, t.ticket},
		{"use " + e.d.aside(), t.rest},
	} {
		switch {
		case errors.Is(c.err, zk.ErrNoAuth):
			return doctor.Fail(everyLock, fmt.Sprintf("give %s create, delete, read and write (crdw) on %s and on what is below %s, or correct user and password: %s",
				who, root, e.d.aside(), wrong), "%s may not %s", who, c.what)
		case c.err != nil:
			return doctor.Fail(everyLock, "see the logs of the servers", "cannot %s: %v", c.what, c.err)
		}
	}
	if len(t.others) > 0 {
		return doctor.Fail("every lock and value: all programs that share a path share these nodes, too",
			"use one user for all, or ?acl=world; setAcl changes what is there already",
			"%s may not use %s, which another user has made", who, strings.Join(t.others, ", "))
	}
	return doctor.Fine("%s may make, write and remove nodes in %s", who, root)
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
		return doctor.Fine("new nodes may be changed by everybody who reaches the servers (acl=world)")
	case len(open) > 0:
		return doctor.Warn("exclusion against those who are not meant to take part: they can make the nodes of locks before you do, and be the ones who own them",
			"setAcl "+open[0]+" auth::cdrwa, as that user", "everybody may change %s", strings.Join(open, ", "))
	}
	return doctor.Fine("only the user may change nodes")
}
