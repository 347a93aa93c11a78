package mysqltest

import (
	"fmt"
	"strings"
)

// Option changes how a server is started.
type Option func(*settings)

type settings struct {
	lines  []string
	synced bool
	tls    bool
}

// Config adds a line to the server's configuration file: "wait_timeout", "5". A
// later line overrides an earlier one; without a value it is a switch.
func Config(key string, value ...string) Option {
	return func(s *settings) { s.lines = append(s.lines, line(key, value...)) }
}

// Without Synced or Lazy a server writes every commit to its files, but does not
// wait for the disk: a server that is killed loses nothing.

// Synced makes every commit wait for the disk, as servers do by default.
func Synced() Option { return func(s *settings) { s.synced = true } }

// Lazy makes the server write its log once a second only: one that is killed
// loses commits that it has acknowledged.
func Lazy() Option { return Config("innodb_flush_log_at_trx_commit", "0") }

// TLS makes the server offer TLS, with a certificate of its own authority.
// Config("require_secure_transport", "ON") refuses connections without it.
func TLS() Option { return func(s *settings) { s.tls = true } }

// file is the text of the configuration file.
func (s *settings) file(kind program, lines ...string) string {
	all := []string{
		"[mysqld]\n",
		line("bind_address", "127.0.0.1"),
		line("skip_name_resolve"),
		// Small and quick.
		line("innodb_buffer_pool_size", "24M"),
		line("innodb_buffer_pool_dump_at_shutdown", "OFF"),
		line("innodb_buffer_pool_load_at_startup", "OFF"),
		line("key_buffer_size", "64K"),
		line("max_connections", "2000"),
	}
	all = append(all, kind.settings(s.synced)...)
	all = append(append(all, lines...), s.lines...)
	return strings.Join(all, "")
}

func line(key string, value ...string) string {
	if len(value) == 0 {
		return key + "\n"
	}
	text := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(strings.Join(value, ","))
	return fmt.Sprintf("%s=\"%s\"\n", key, text)
}
