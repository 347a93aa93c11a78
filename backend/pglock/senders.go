package pglock

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// senders are the server processes whose users may change tickets. Whoever may connect to the
// database may send to any channel, and who may read the tables knows the channels and the
// tickets. With a message comes the number of the process that has sent it, which nobody can forge:
// so messages of these are believed, and those of others are a reason to ask.
//
// All are asked for before the first message is heard, and again while messages come: a number may get
// another user. Who listens asks, over the connection on which it does: in time after a message, since a
// whole line may wait for the one who hears of its grant.
type senders struct {
	mu    sync.Mutex
	known map[uint32]bool
	at    time.Time // when they were asked for
	tried time.Time // when somebody asked last
}

const (
	sendersSoon  = time.Second            // they are asked for again after so long, behind a message
	sendersAgain = 2 * time.Second        // and before it
	sendersLast  = 3 * time.Second        // and believed for so long: a number comes again sooner only if somebody uses up all others
	sendersRest  = 200 * time.Millisecond // between two questions
)

// trusts reports whether messages of a process are believed.
func (x *senders) trusts(conn *pgx.Conn, table string, process uint32) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.knows(process) || time.Since(x.at) > sendersAgain {
		x.ask(conn, table)
	}
	return x.knows(process)
}

func (x *senders) knows(process uint32) bool {
	return x.known[process] && time.Since(x.at) < sendersLast
}

// learn asks before there are messages.
func (x *senders) learn(conn *pgx.Conn, table string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ask(conn, table)
}

// refresh asks behind a message.
func (x *senders) refresh(conn *pgx.Conn, table string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Since(x.at) > sendersSoon {
		x.ask(conn, table)
	}
}

// ask asks for the processes whose users may change a table, unless somebody has just done so. If that
// fails, messages are reasons to look.
func (x *senders) ask(conn *pgx.Conn, table string) {
	now := time.Now()
	if now.Sub(x.tried) < sendersRest {
		return
	}
	x.tried = now
	ctx, cancel := context.WithTimeout(context.Background(), lookEvery)
	defer cancel()
	rows, err := conn.Query(ctx, `SELECT a.pid FROM pg_catalog.pg_stat_get_activity(NULL) a JOIN pg_catalog.pg_database d ON d.oid = a.datid
		WHERE d.datname = current_database() AND pg_catalog.has_table_privilege(a.usesysid, $1::text, 'UPDATE')`, pgx.QueryExecModeSimpleProtocol, table)
	if err != nil {
		return
	}
	known := map[uint32]bool{}
	var pid int32
	if _, err = pgx.ForEachRow(rows, []any{&pid}, func() error {
		known[uint32(pid)] = true
		return nil
	}); err == nil {
		x.known, x.at = known, now
	}
}
