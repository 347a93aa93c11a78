package fence

// Dialect is the SQL of one database: one of the variables of this package.
type Dialect interface {
	Table(name string) (string, error)
	Column(name string) (string, error)
	Param(n int) string // the placeholder of the n-th argument, from 1

	// create makes the table of a Table, if it does not exist.
	create(table string) string

	// raise stores a token for a resource unless it has a larger one, and in any
	// case locks the resource's row until the end of the transaction if it
	// stores. It is given the resource, the token, and the token again.
	raise(table string) string

	// latest follows a SELECT that is to find what raise has found, whatever the
	// transaction has read before.
	latest() string

	// counts says whether the number of rows that raise has changed tells
	// whether it has stored the token.
	counts() bool
}
