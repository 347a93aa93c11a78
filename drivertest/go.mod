module github.com/interlock-go/interlock/drivertest

go 1.25.0

replace (
	github.com/interlock-go/interlock => ..
	github.com/interlock-go/interlock/backend/sqlitelock => ../backend/sqlitelock
	github.com/interlock-go/interlock/cmd/interlock => ../cmd/interlock
	github.com/interlock-go/interlock/examples => ../examples
)

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/interlock-go/interlock v0.0.0
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)
