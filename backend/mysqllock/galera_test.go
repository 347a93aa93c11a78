package mysqllock_test

import (
	"database/sql"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: a node of a Galera cluster is refused, with what to do, unless all clients are
// said to use the same one; then it serves as any other server does, and the doctor says
// what that depends on.
func TestGalera(t *testing.T) {
	t.Parallel()
	const library = "/usr/lib/galera/libgalera_smm.so"
	if _, err := os.Stat(library); err != nil || !mysqltest.MariaDB() {
		t.Skip("without Galera")
	}
	port, release, err := testserver.Reserve()
	noError(t, err)
	defer release()
	at := "127.0.0.1:" + strconv.Itoa(port)
	s := mysqltest.Start(t, mysqltest.Config("wsrep_on", "ON"), mysqltest.Config("wsrep_provider", library), mysqltest.Config("wsrep_cluster_address", "gcomm://"),
		mysqltest.Config("wsrep_node_address", "127.0.0.1"), mysqltest.Config("binlog_format", "ROW"), mysqltest.Config("innodb_autoinc_lock_mode", "2"),
		mysqltest.Config("wsrep_provider_options", "gmcast.listen_addr=tcp://"+at+";ist.recv_addr="+at+";gcache.size=1M"))
	refused := func(err error) {
		t.Helper()
		if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "galera=one-node") {
			t.Errorf("got %v, want a cluster refused, and what to do", err)
		}
	}
	_, err = open(t.Context(), s.URL())
	refused(err)
	u := errtest.Must(driver.ParseURL(s.URL()))(t)
	all := errtest.Must(driver.ExamineURL(t.Context(), u))(t)
	doctortest.Report{T: t, All: all}.Has("cluster", driver.Fail, "Galera", "galera=one-node")
	db, err := sql.Open("mysql", s.DSN())
	noError(t, err)
	defer db.Close()
	_, err = mysqllock.New(t.Context(), db)
	refused(err)
	own := errtest.Must(mysqllock.New(t.Context(), db, mysqllock.OneNode()))(t)
	defer own.Close()
	url := s.URL() + "?galera=one-node"
	handsOver(t, own, opened(t, url), "one node")
	r := doctortest.ExamineURL(t, url)
	r.Has("cluster", driver.Warn, "Galera", "all clients use this node")
	r.Has("exchanges", driver.OK)
}
