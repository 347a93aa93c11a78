// Package zk is a connection to ZooKeeper that says what it knows: the timeout that the server granted, the
// transaction of each reply, from when on the session is proven, what has happened at a node, and why no
// server could be reached. The client library, which it uses as it is, keeps these to itself.
//
//   - Tap: what looks at the messages of a client as they pass.
//   - Link: a client with its Tap, and the requests that locks make.
//   - Watch: is told once of the next event at a node, or of the end of the connection.
//   - Proof: the time from which the leader lets the session live for its whole timeout.
//   - Slot: what a request of a crowd waits for.
package zk

import client "github.com/go-zookeeper/zk"

// The types of the client library.
type (
	ACL    = client.ACL
	Conn   = client.Conn
	Stat   = client.Stat
	Create = client.CreateRequest
	Delete = client.DeleteRequest
	Check  = client.CheckVersionRequest
	Write  = client.SetDataRequest
)

// The kinds of nodes.
const (
	Persistent          = client.FlagPersistent
	Ephemeral           = client.FlagEphemeral
	Sequence            = client.FlagSequence
	EphemeralSequential = client.FlagEphemeralSequential
)

// Rights.
const (
	PermAll  = client.PermAll
	PermRead = client.PermRead
)

var (
	WorldACL = client.WorldACL
	AuthACL  = client.AuthACL
)

// The errors of a server, and of the client.
var (
	ErrNoNode           = client.ErrNoNode
	ErrNodeExists       = client.ErrNodeExists
	ErrBadVersion       = client.ErrBadVersion
	ErrNotEmpty         = client.ErrNotEmpty
	ErrNoAuth           = client.ErrNoAuth
	ErrTooLong          = client.ErrAPIError // of a list of children
	ErrAuthFailed       = client.ErrAuthFailed
	ErrInvalidACL       = client.ErrInvalidACL
	ErrBadArguments     = client.ErrBadArguments
	ErrConnectionClosed = client.ErrConnectionClosed
	ErrSessionExpired   = client.ErrSessionExpired
)
