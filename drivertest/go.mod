module github.com/interlock-go/interlock/drivertest

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/interlock-go/interlock v0.0.0
	github.com/interlock-go/interlock/backend/redislock v0.0.0
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/interlock-go/interlock => ..

replace github.com/interlock-go/interlock/adapter => ../adapter

replace github.com/interlock-go/interlock/adapter/clientgolock => ../adapter/clientgolock

replace github.com/interlock-go/interlock/adapter/cronlock => ../adapter/cronlock

replace github.com/interlock-go/interlock/adapter/gocronlock => ../adapter/gocronlock

replace github.com/interlock-go/interlock/adapter/tusdlock => ../adapter/tusdlock

replace github.com/interlock-go/interlock/backend/etcdlock => ../backend/etcdlock

replace github.com/interlock-go/interlock/backend/mysqllock => ../backend/mysqllock

replace github.com/interlock-go/interlock/backend/pglock => ../backend/pglock

replace github.com/interlock-go/interlock/backend/redislock => ../backend/redislock

replace github.com/interlock-go/interlock/backend/redislock/goredis => ../backend/redislock/goredis

replace github.com/interlock-go/interlock/backend/sqlitelock => ../backend/sqlitelock

replace github.com/interlock-go/interlock/backend/zklock => ../backend/zklock

replace github.com/interlock-go/interlock/cmd/interlock => ../cmd/interlock

replace github.com/interlock-go/interlock/examples => ../examples

replace github.com/interlock-go/interlock/otelinterlock => ../otelinterlock

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../rowlock/pgxrow
