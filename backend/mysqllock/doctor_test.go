package mysqllock_test

import (
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: the doctor says what of a server weakens a promise, and names the remedy.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.Synced(), mysqltest.Config("log_bin", "binlog"), mysqltest.Config("server_id", "1"), mysqltest.Config("sync_binlog", "1"))
	r := doctortest.ExamineURL(t, s.URL())
	for _, check := range []string{"server", "version", "tables", "procedures", "exchanges", "power", "cluster", "waking", "clock"} {
		r.Has(check, driver.OK)
	}
	s.Set("sync_binlog", "0")
	doctortest.ExamineURL(t, s.URL()).Has("power", driver.Warn, "power loss", "sync_binlog = 1")
	s.Set("innodb_flush_log_at_trx_commit", "2")
	doctortest.ExamineURL(t, s.URL()).Has("power", driver.Warn, "power loss", "innodb_flush_log_at_trx_commit = 1")
	s.Set("innodb_flush_log_at_trx_commit", "0")
	doctortest.ExamineURL(t, s.URL()).Has("power", driver.Warn, "a crash of the server", "longest TTL")
	s.Set("read_only", "1")
	doctortest.ExamineURL(t, s.URL()).Has("exchanges", driver.Fail, "read-only", "primary")
	s.Set("read_only", "0")
	s.Do("ALTER TABLE interlock_cells ENGINE=MyISAM")
	doctortest.ExamineURL(t, s.URL()).Has("tables", driver.Fail, "interlock_cells", "InnoDB")
	s.Do("DROP PROCEDURE interlock_v4_hello; ALTER TABLE interlock_cells ENGINE=InnoDB")
	d := doctortest.Open(t, s.URL()) // it makes what is missing
	s.Do("DROP PROCEDURE interlock_v4_hello")
	doctortest.Examine(t, t.Context(), d).Has("procedures", driver.Fail, "EXECUTE")
	s.Kill()
	doctortest.Examine(t, t.Context(), d).Has("server", driver.Fail, "see that the server runs")
}
