// Package redislock runs Interlock on Redis: one server, Sentinel, or a Cluster.
//
//	import _ "github.com/interlock-go/interlock/backend/redislock"
//
//	c, err := interlock.Open(ctx, "redis://127.0.0.1:6379")
//
// Every call is one Lua script about one queue. All keys of a queue are in one slot.
// Whoever leaves lets in the next one in the same script, which also sends the
// news to the winner alone: each client subscribes to one channel of its own.
// What such a message brings can be lost; heartbeats, the timer of the first in
// line and a look after every reconnection repair it.
//
// # Keys
//
// A lock called name, behind the prefix of the URL, is the key of that name while
// somebody holds it, so that programs that use SET NX respect it; a value that
// others have put there is respected too: the first in line waits for it to go.
// The rest is in keys that begin with "interlock:{name}:". An empty queue leaves
// one small key, for an hour, which keeps tokens growing.
//
// # Promises
//
// Redis replicates asynchronously: a failover may lose what the old master had
// confirmed last, a grant included, and then two hold a lock until the first is
// told by its next heartbeat, which is a third of a TTL at most. The option
// replicas makes a grant count only when so many replicas have it. Tokens grow all
// the same, since they follow the server's clock. Leases are measured by that
// clock: if it is set forward by more than the margin of a lease (a tenth of the
// TTL, a second at most) the lock may be given away before its holder stops.
package redislock
