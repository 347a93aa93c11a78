package fence

// Dialect is the SQL of one database.
type Dialect interface {
	table(name string) (string, error)
	column(name string) (string, error)

	// create makes the table of a Table, if it does not exist.
	create(table string) string

	// raise stores a token for a resource unless it has a larger one, and in any
	// case locks the resource's row until the end of the transaction if it
	// stores. It is given the resource and the token, in this order.
	raise(table string) string

	// param is the placeholder of the n-th argument, from 1.
	param(n int) string
}
