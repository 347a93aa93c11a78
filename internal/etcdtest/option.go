package etcdtest

// Option changes how a server is started.
type Option func(*settings)

type settings struct {
	version Version
	flags   []string
	tls     bool
}

// Flag adds a flag of the server's command line: "--max-txn-ops=8".
func Flag(flags ...string) Option {
	return func(s *settings) { s.flags = append(s.flags, flags...) }
}

// TLS makes the server speak TLS only, with a certificate of its own authority, and ask clients for
// theirs.
func TLS() Option { return func(s *settings) { s.tls = true } }
