package redislock

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// trialScript tries every command that our scripts use. It finds out more than the
// list of the user's rights tells: commands that were renamed, a server that refuses
// to write. The key is a string that goes by itself, so that commands for other types
// are refused or found to be allowed, but do nothing.
//
// KEYS: a string, nothing. ARGV: channel. Returns command, error, ….
var trialScript = newScript(`
local key, nothing = unpack(KEYS)
local wrong = {}
local function try(...)
	local answer = redis.pcall(...)
	if type(answer) == 'table' and answer.err and not string.find(answer.err, '^WRONGTYPE') then
		wrong[#wrong + 1] = (...)
		wrong[#wrong + 1] = answer.err
		return false
	end
	return true
end
try('TIME')
local there = try('SET', key, '', 'PX', 1000)
if there then try('SET', key, '', 'PX', 1000, 'GET') end
try('GET', key)
try('PTTL', key)
try('PEXPIRE', key, 1000)
try('PEXPIREAT', nothing, 1)
try('PERSIST', nothing)
try('HMGET', key, 'a')
try('HGET', key, 'a')
if there then try('HSET', key, 'a', 'b') end
try('HDEL', key, 'a')
try('HGETALL', key)
try('HLEN', key)
if there then try('ZADD', key, 1, 'a') end
try('ZREM', key, 'a')
try('ZCARD', key)
try('ZRANGE', key, 0, 0)
try('ZRANGEBYSCORE', key, 0, 0)
try('ZREMRANGEBYSCORE', key, 0, 0)
try('ZSCORE', key, 'a')
try('PUBLISH', ARGV[1], '-')
try('DEL', key)
return wrong
`)

// lockScript tries the key that other programs see.
var lockScript = newScript(`
if redis.call('SET', KEYS[1], 'interlock', 'NX', 'PX', 1000) then redis.call('DEL', KEYS[1]) end
return 1
`)

// trial is what a node refuses.
type trial struct {
	commands []string // which the user may not run, or the server does not have
	why      error    // the first refusal
	keys     error    // none of our keys may be used
	lock     error    // the lock's own key may not be used
	listing  error
	writing  error // every other reason why a script fails
}

// scratch is a queue for trials, which the node serves.
func (d *Driver) scratch(n *node) (*queue, rueidis.Client) {
	name := "doctor/" + rand.Text()
	switch {
	case d.client.Mode() != rueidis.ClientModeCluster:
		return new(queues).add(d.allNames+name, d.prefix, ""), n.client
	case !n.topology.known():
		return new(queues).add(d.allNames+name, d.prefix, ""), d.client
	}
	for i := 0; ; i++ {
		q := new(queues).add(d.allNames+name+strconv.Itoa(i), d.prefix, "")
		probe := n.client.B().Get().Key(q.keys[0]).Build()
		if n.topology.own[probe.Slot()%slotsInAll] {
			return q, n.client
		}
	}
}

// serves reports whether this client keeps locks on this node.
func (d *Driver) serves(n *node) bool {
	if n.topology.known() {
		return slices.Contains(n.topology.own[:], true)
	}
	return !n.isReplica() && d.takenFor(n)
}

func (n *node) try(ctx context.Context, d *Driver) (t trial) {
	if !d.serves(n) {
		return t
	}
	note := func(command string, err error) {
		switch {
		case err == nil:
		case refused(err.Error()):
			t.commands = append(t.commands, command)
			if t.why == nil {
				t.why = err
			}
		case t.writing == nil && !unknownScript(err):
			t.writing = fmt.Errorf("%s: %w", command, err)
		}
	}
	q, client := d.scratch(n)
	run := func(c call, how func(call, rueidis.Builder) rueidis.Completed) rueidis.RedisResult {
		d.exchanges.Add(1)
		return client.Do(ctx, how(c, client.B()))
	}
	c := call{trialScript, []string{q.keys[1], q.keys[2]}, []string{d.channel()}}
	note("evalsha", run(c, call.byHash).Error())
	wrong, err := run(c, call.inFull).AsStrSlice()
	if aboutKeys(err) {
		t.keys, err = err, nil
	}
	note("eval", err)
	for i := 0; i+1 < len(wrong); i += 2 {
		note(strings.ToLower(wrong[i]), fmt.Errorf("%s", wrong[i+1]))
	}
	if len(t.commands) == 0 && t.keys == nil && t.writing == nil {
		t.lock = run(call{lockScript, q.keys[:1], nil}, call.inFull).Error()
	}
	if d.replicas > 0 {
		note("wait", n.do(ctx, d, "WAIT", "0", "1").Error())
	}
	if d.client.Mode() == rueidis.ClientModeCluster {
		note("asking", n.do(ctx, d, "ASKING").Error())
	}
	t.listing = n.do(ctx, d, "SCAN", "0", "MATCH", q.keys[1]).Error()
	return t
}

// aboutKeys reports whether it is the keys that the user may not use.
func aboutKeys(err error) bool {
	return err != nil && strings.Contains(err.Error(), "NOPERM") && strings.Contains(err.Error(), "key")
}

const wholeLine = "docs/redis.md has the whole line"

func (d *Driver) checkRights(_ context.Context, n *node) driver.Finding {
	t := n.rights
	switch {
	case !d.serves(n):
		return driver.Finding{}
	case t.keys != nil:
		return doctor.Fail(everyLock, "give the user ~interlock:*; "+wholeLine, "%v", t.keys)
	case len(t.commands) > 0:
		slices.Sort(t.commands)
		commands := slices.Compact(t.commands)
		return doctor.Fail(everyLock, "give the user +"+strings.Join(commands, " +")+"; "+wholeLine,
			"refused: %s (%v)", strings.Join(commands, ", "), t.why)
	case t.lock != nil && refused(t.lock.Error()) && d.allNames != "":
		return doctor.Fail(everyLock, "give the user ~"+d.allNames+"*", "keys that begin with %s: %v", d.allNames, t.lock)
	case t.lock != nil && refused(t.lock.Error()):
		return doctor.Warn("the locks whose names the user's rights do not cover",
			"give the user ~PREFIX*, and add ?prefix=PREFIX to the URL", "a lock called doctor/…: %v", t.lock)
	}
	return doctor.Fine("all commands are allowed")
}

// checkWriting says why the server takes no writes, such as a full disk.
func (d *Driver) checkWriting(_ context.Context, n *node) driver.Finding {
	t := n.rights
	switch {
	case !d.serves(n):
		return driver.Finding{}
	case t.writing != nil:
		return doctor.Fail(everyLock, "see the error: it names the reason", "%v", t.writing)
	case t.lock != nil && !refused(t.lock.Error()):
		return doctor.Fail(everyLock, "see the error: it names the reason", "%v", t.lock)
	case t.keys != nil || len(t.commands) > 0:
		return driver.Finding{}
	}
	return doctor.Fine("it is possible")
}

func (d *Driver) checkListing(_ context.Context, n *node) driver.Finding {
	if err := n.rights.listing; err != nil {
		return doctor.Warn("inspection: interlock ls shows nothing", "give the user +scan", "%v", err)
	}
	return driver.Finding{}
}

// checkMessages sends one to this client.
func (d *Driver) checkMessages(ctx context.Context, n *node) driver.Finding {
	if !d.serves(n) {
		return driver.Finding{}
	}
	slow := func(err error) driver.Finding {
		return doctor.Warn("speed: who waits is not told of a grant, and finds out by its next heartbeat",
			"give the user +subscribe +publish and &interlock:*, and look at the network", "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	if err := d.feed.await(ctx); err != nil {
		return slow(err)
	}
	t, release := d.topics.Topic("check")
	defer release()
	news := t.News()
	q, client := d.scratch(n)
	began := time.Now()
	d.exchanges.Add(1)
	hello := call{echoScript, q.keys[1:2], []string{d.channel(), "f " + strconv.FormatUint(t.Number, 10)}}
	sent := make(chan error, 1)
	go func() { sent <- client.Do(ctx, hello.inFull(client.B())).Error() }()
	for {
		select {
		case err := <-sent:
			if err != nil {
				return slow(err)
			}
			sent = nil
		case <-news:
			return doctor.Fine("one took %v", doctor.Short(time.Since(began)))
		case <-d.ctx.Done():
			return slow(errClosed)
		case <-ctx.Done():
			return slow(fmt.Errorf("none arrived: %w", ctx.Err()))
		}
	}
}
