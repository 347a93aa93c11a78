package zktest

import "strconv"

// Op is an operation, by the number that it has in ZooKeeper's protocol.
type Op int32

// The operations.
const (
	OpConnect         Op = -10 // opens a session, or goes on with one
	OpClose           Op = -11
	OpEvent           Op = 0 // comes from the server unasked, since a watch has fired
	OpCreate          Op = 1
	OpDelete          Op = 2
	OpExists          Op = 3
	OpGetData         Op = 4
	OpSetData         Op = 5
	OpGetACL          Op = 6
	OpSetACL          Op = 7
	OpGetChildren     Op = 8
	OpSync            Op = 9
	OpPing            Op = 11
	OpGetChildren2    Op = 12
	OpCheck           Op = 13
	OpMulti           Op = 14
	OpCreate2         Op = 15
	OpRemoveWatches   Op = 18
	OpCreateContainer Op = 19
	OpCreateTTL       Op = 21
	OpAuth            Op = 100
	OpSetWatches      Op = 101
	OpSetWatches2     Op = 105
	OpAddWatch        Op = 106
)

var opNames = map[Op]string{
	OpConnect: "connect", OpClose: "close", OpEvent: "event", OpCreate: "create", OpDelete: "delete",
	OpExists: "exists", OpGetData: "getData", OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL",
	OpGetChildren: "getChildren", OpSync: "sync", OpPing: "ping", OpGetChildren2: "getChildren2",
	OpCheck: "check", OpMulti: "multi", OpCreate2: "create2", OpRemoveWatches: "removeWatches",
	OpCreateContainer: "createContainer", OpCreateTTL: "createTTL", OpAuth: "auth",
	OpSetWatches: "setWatches", OpSetWatches2: "setWatches2", OpAddWatch: "addWatch",
}

func (op Op) String() string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return "operation " + strconv.Itoa(int(op))
}

// hasPath says whether a request begins with a path.
func (op Op) hasPath() bool {
	switch op {
	case OpCreate, OpDelete, OpExists, OpGetData, OpSetData, OpGetACL, OpSetACL, OpGetChildren, OpSync,
		OpGetChildren2, OpCheck, OpCreate2, OpRemoveWatches, OpCreateContainer, OpCreateTTL, OpAddWatch:
		return true
	}
	return false
}
