module github.com/interlock-go/interlock/cmd/interlock

go 1.25.0

replace (
	github.com/interlock-go/interlock => ../..
	github.com/interlock-go/interlock/backend/sqlitelock => ../../backend/sqlitelock
	github.com/interlock-go/interlock/drivertest => ../../drivertest
	github.com/interlock-go/interlock/examples => ../../examples
)

require (
	github.com/interlock-go/interlock v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.47.0
)
