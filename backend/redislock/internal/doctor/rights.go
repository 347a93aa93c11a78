package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// trialScript tries every command that our scripts use. It finds out more than the
// list of the user's rights tells: commands that were renamed, a server that refuses
// to write. The key is a string that goes by itself, so that commands for other types
// are refused or found to be allowed, but do nothing.
//
// KEYS: a string, nothing. ARGV: channel. Returns command, error, ….
const trialScript = `
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
`

// lockScript tries the key that other programs see.
const lockScript = `
if redis.call('SET', KEYS[1], 'interlock', 'NX', 'PX', 1000) then redis.call('DEL', KEYS[1]) end
return 1
`

// echoScript sends an event to a client.
const echoScript = "return redis.call('PUBLISH', ARGV[1], ARGV[2])"

// trial is what a node refuses.
type trial struct {
	missing []string // rights of the user: +command, ~keys, &channels
	why     error    // the first refusal
	absent  []string // commands that the server does not have
	lock    error    // a lock's own key may not be used, and the names of locks are not known
	listing error
	writing error // every other reason why a script fails
}

func (t *trial) lacks(right string, err error) {
	t.missing = append(t.missing, right)
	if t.why == nil {
		t.why = err
	}
}

// note takes the answer to a command.
func (t *trial) note(d *Doctor, command string, err error) {
	switch {
	case err == nil:
	case aboutKeys(err):
		t.lacks(d.keys(), err)
	case aboutChannels(err):
		t.lacks(channels, err)
	case conn.Refused(err.Error()) && strings.Contains(err.Error(), "nknown"):
		t.absent = append(t.absent, command)
	case conn.Refused(err.Error()):
		t.lacks("+"+command, err)
	case t.writing == nil:
		t.writing = fmt.Errorf("%s: %w", command, err)
	}
}

// keys is the right to use all keys but those of the locks themselves.
func (d *Doctor) keys() string {
	if names := d.Prefix + d.AllNames; names != "" {
		return "~interlock:{" + names + "*"
	}
	return "~interlock:*"
}

const channels = "&interlock:*"

// grant is the statement that gives a user rights.
func grant(user string, rights ...string) string {
	return "ACL SETUSER " + cmp.Or(user, "USER") + " " + strings.Join(rights, " ")
}

// scratch are keys of a queue for trials, which the node serves: that of its name, and two others.
func (d *Doctor) scratch(n *node) (keys [3]string, client rueidis.Client) {
	name := d.Prefix + d.AllNames + "doctor/" + rand.Text()
	keysOf := func(name string) [3]string {
		return [3]string{name, "interlock:{" + name + "}:t", "interlock:{" + name + "}:q"}
	}
	switch {
	case d.Redis.Mode() != rueidis.ClientModeCluster:
		return keysOf(name), n.client
	case !n.topology.known():
		return keysOf(name), d.Redis
	}
	for i := 0; ; i++ {
		keys := keysOf(name + strconv.Itoa(i))
		probe := n.client.B().Get().Key(keys[0]).Build()
		if n.topology.own[probe.Slot()%slotsInAll] {
			return keys, n.client
		}
	}
}

// script runs a script that is sent in full.
func (d *Doctor) script(ctx context.Context, client rueidis.Client, text string, keys []string, args ...string) rueidis.RedisResult {
	d.Count()
	return client.Do(ctx, client.B().Eval().Script(text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// serves reports whether this client keeps locks on this node.
func (d *Doctor) serves(n *node) bool {
	if n.topology.known() {
		return slices.Contains(n.topology.own[:], true)
	}
	return !n.isReplica() && d.takenFor(n)
}

func (n *node) try(ctx context.Context, d *Doctor) (t trial) {
	if !d.serves(n) {
		return t
	}
	keys, client := d.scratch(n)
	t.note(d, "ping", n.ping)
	sum := sha1.Sum([]byte(trialScript))
	d.Count()
	err := client.Do(ctx, client.B().Evalsha().Sha1(hex.EncodeToString(sum[:])).Numkeys(2).Key(keys[1:]...).Arg(d.Channel).Build()).Error()
	if e, ok := rueidis.IsRedisErr(err); !ok || !e.IsNoScript() {
		t.note(d, "evalsha", err)
	}
	wrong, err := d.script(ctx, client, trialScript, keys[1:], d.Channel).AsStrSlice()
	t.note(d, "eval", err)
	for i := 0; i+1 < len(wrong); i += 2 {
		t.note(d, strings.ToLower(wrong[i]), fmt.Errorf("%s", wrong[i+1]))
	}
	switch err := d.script(ctx, client, lockScript, keys[:1]).Error(); {
	case aboutKeys(err) && d.AllNames != "":
		t.lacks("~"+d.AllNames+"*", err)
	case aboutKeys(err):
		t.lock = err
	case err != nil && !conn.Refused(err.Error()): // commands were tried
		t.note(d, "eval", err)
	}
	if d.Replicas > 0 {
		t.note(d, "wait", n.do(ctx, d, "WAIT", "0", "1").Error())
	}
	if d.Redis.Mode() == rueidis.ClientModeCluster {
		t.note(d, "asking", n.do(ctx, d, "ASKING").Error())
	}
	t.listing = n.do(ctx, d, "SCAN", "0", "MATCH", keys[1]).Error()
	return t
}

// aboutKeys reports whether it is keys that the user may not use.
func aboutKeys(err error) bool {
	return err != nil && conn.Refused(err.Error()) && strings.Contains(err.Error(), " key")
}

// aboutChannels reports whether it is channels that the user may not use.
func aboutChannels(err error) bool {
	return err != nil && conn.Refused(err.Error()) && strings.Contains(err.Error(), " channel")
}

const wholeLine = "docs/redis.md has the whole line"

func (d *Doctor) checkRights(_ context.Context, n *node) driver.Finding {
	t := n.rights
	switch {
	case !d.serves(n):
		return driver.Finding{}
	case len(t.missing)+len(t.absent) > 0:
		return d.refusals(t)
	case t.lock != nil:
		return doctor.Warn("the locks whose names the user's rights do not cover",
			grant(d.User, "~PREFIX*")+", and add ?prefix=PREFIX to the URL", "a lock called doctor/…: %v", t.lock)
	}
	return doctor.Fine("all commands are allowed")
}

// checkAccess looks whether a client without a password is a user that may change keys. Of a server that does not say so it says nothing.
func (d *Doctor) checkAccess(ctx context.Context, n *node) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	user, err := n.do(ctx, d, "ACL", "GETUSER", "default").AsMap()
	of, commands := user["flags"], user["commands"]
	flags, wrong := of.AsStrSlice()
	may, _ := commands.ToString()
	if err != nil || wrong != nil || !slices.Contains(flags, "on") || !slices.Contains(flags, "nopass") || strings.HasPrefix(may, "-@all") {
		return driver.Finding{}
	}
	return doctor.Warn("exclusion, tokens and values: who is not meant to take part can take every lock, end it and forge what is kept",
		"give locks a user of their own (docs/redis.md), and the others a password: ACL SETUSER default resetpass >PASSWORD; or let nobody else reach the server",
		"everybody who reaches the server may change keys: the user default has no password")
}

// refusals names each right that is missing.
func (d *Doctor) refusals(t trial) driver.Finding {
	var names, remedies []string
	slices.Sort(t.missing)
	t.missing = slices.Compact(t.missing)
	for _, right := range t.missing {
		switch name := right[1:]; right[0] {
		case '~':
			names = append(names, "the keys "+name)
		case '&':
			names = append(names, "the channels "+name)
		default:
			names = append(names, name)
		}
	}
	if len(t.missing) > 0 {
		remedy := grant(d.User, t.missing...)
		if slices.Contains(t.missing, "~interlock:*") {
			remedy += ", or add ?prefix=PREFIX to the URL, if the user's keys have one"
		}
		remedies = append(remedies, remedy+"; "+wholeLine)
	}
	slices.Sort(t.absent)
	if t.absent = slices.Compact(t.absent); len(t.absent) > 0 {
		remedies = append(remedies, "use a server that has "+strings.Join(t.absent, ", ")+", and take them out of its rename-command")
	}
	detail := "refused: " + strings.Join(append(names, t.absent...), ", ")
	if t.why != nil {
		detail += " (" + t.why.Error() + ")"
	}
	return doctor.Fail(everyLock, strings.Join(remedies, "; "), "%s", detail)
}

// checkWriting says why the server takes no writes, such as a full disk.
func (d *Doctor) checkWriting(_ context.Context, n *node) driver.Finding {
	t := n.rights
	switch {
	case !d.serves(n):
		return driver.Finding{}
	case t.writing != nil:
		return doctor.Fail(everyLock, "see the error: it names the reason", "%v", t.writing)
	case len(t.missing)+len(t.absent) > 0:
		return driver.Finding{}
	}
	return doctor.Fine("it is possible")
}

func (d *Doctor) checkListing(_ context.Context, n *node) driver.Finding {
	if err := n.rights.listing; err != nil {
		return doctor.Warn("inspection: interlock ls shows nothing", grant(d.User, "+scan"), "%v", err)
	}
	return driver.Finding{}
}

// checkMessages sends one to this client.
func (d *Doctor) checkMessages(ctx context.Context, n *node) driver.Finding {
	if !d.serves(n) {
		return driver.Finding{}
	}
	slow := func(err error) driver.Finding {
		return doctor.Warn("speed: who waits is not told of a grant, and finds out by its next heartbeat",
			"look at the network, and at what is between this machine and the server", "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	if err := d.Listens(ctx); err != nil {
		if !conn.Refused(err.Error()) {
			return slow(err)
		}
		right := "+subscribe"
		if aboutChannels(err) {
			right = channels
		}
		return doctor.Fail("every lock of programs that start: they are refused", grant(d.User, right)+"; "+wholeLine, "%v", err)
	}
	event, came := d.Expect()
	keys, client := d.scratch(n)
	began := time.Now()
	sent := make(chan error, 1)
	go func() { sent <- d.script(ctx, client, echoScript, keys[1:2], d.Channel, event).Error() }()
	for {
		select {
		case err := <-sent:
			if err != nil && conn.Refused(err.Error()) {
				return driver.Finding{} // see checkRights
			}
			if err != nil {
				return slow(err)
			}
			sent = nil
		case <-came:
			return doctor.Fine("one took %v", doctor.Short(time.Since(began)))
		case <-ctx.Done():
			return slow(fmt.Errorf("none arrived: %w", context.Cause(ctx)))
		}
	}
}
