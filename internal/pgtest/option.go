package pgtest

import (
	"fmt"
	"strings"
)

// Option changes how a server is started.
type Option func(*settings)

type settings struct {
	lines     []string
	setup     []string // SQL
	passwords bool
	tls       bool
	fake      bool
}

// Config adds a line to the server's configuration. A later line overrides an
// earlier one.
func Config(key, value string) Option {
	return func(s *settings) { s.lines = append(s.lines, key+" = "+literal(value)) }
}

// Durable makes the server wait for its disk, as it does by default outside of
// tests.
func Durable() Option { return Config("fsync", "on") }

// Setup runs SQL as the superuser when the server is started for the first time.
func Setup(sql string) Option { return func(s *settings) { s.setup = append(s.setup, sql) } }

// User adds a user who may connect and, unlike the owner of a database, may make
// nothing: no schema, and no table in the schema public.
func User(name, password string) Option {
	return Setup(fmt.Sprintf("REVOKE CREATE ON SCHEMA public FROM public; CREATE ROLE %s LOGIN PASSWORD %s", identifier(name), literal(password)))
}

// Passwords has everybody who connects by TCP show the password.
func Passwords() Option { return func(s *settings) { s.passwords = true } }

// literal quotes a text for SQL and for the configuration, which agree on it as
// long as there is no backslash.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// file is the text of the configuration file.
func (s *settings) file(port int, dir string) string {
	lines := []string{
		"listen_addresses = '127.0.0.1'", fmt.Sprintf("port = %d", port),
		"unix_socket_directories = " + literal(dir),
		// Only this one user of the machine gets in without a password.
		"unix_socket_permissions = 0700",
		"max_connections = 200", "shared_buffers = '32MB'", "dynamic_shared_memory_type = mmap",
		"fsync = off", "max_wal_size = '64MB'", "min_wal_size = '2MB'",
		"wal_level = replica", "max_wal_senders = 4", "hot_standby = on",
		"log_line_prefix = '%m [%p] %u@%d '", "logging_collector = off", "log_checkpoints = off",
		"restart_after_crash = on", "timezone = 'UTC'", "log_timezone = 'UTC'",
	}
	return strings.Join(append(lines, s.lines...), "\n") + "\n"
}

// hba is the text of the file that says who may connect how.
func (s *settings) hba() string {
	how, way := "trust", "host"
	if s.passwords {
		how = "scram-sha-256"
	}
	if s.tls {
		way = "hostssl"
	}
	return "local all,replication " + Superuser + " trust\n" +
		way + " all all 127.0.0.1/32 " + how + "\n" +
		way + " replication all 127.0.0.1/32 " + how + "\n"
}
