// Package zklock keeps locks in ZooKeeper, in the layout of Apache Curator's
// recipes, so that Go and Java programs exclude each other on the same path.
//
//	import _ "github.com/interlock-go/interlock/backend/zklock"
//
//	c, err := interlock.Open(ctx, "zk://host1,host2,host3/locks")
//
// The queue a/b is the node /a/b behind the path of the URL. A ticket is an
// ephemeral, sequential child of it whose name says all that decides who holds:
//
//	_c_<ID of the ticket as a UUID>-[marks-]lock-<number>
//
// Its token is the transaction in which it was created. Cells and whatever else
// nobody shares with us are below the node _interlock.
package zklock
