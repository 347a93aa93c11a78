module github.com/interlock-go/interlock/backend/zklock

go 1.25.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/interlock-go/interlock v0.0.0
	github.com/interlock-go/interlock/drivertest v0.0.0
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/interlock-go/interlock => ../..

replace github.com/interlock-go/interlock/adapter => ../../adapter

replace github.com/interlock-go/interlock/adapter/clientgolock => ../../adapter/clientgolock

replace github.com/interlock-go/interlock/adapter/cronlock => ../../adapter/cronlock

replace github.com/interlock-go/interlock/adapter/gocronlock => ../../adapter/gocronlock

replace github.com/interlock-go/interlock/adapter/tusdlock => ../../adapter/tusdlock

replace github.com/interlock-go/interlock/backend/etcdlock => ../etcdlock

replace github.com/interlock-go/interlock/backend/mysqllock => ../mysqllock

replace github.com/interlock-go/interlock/backend/pglock => ../pglock

replace github.com/interlock-go/interlock/backend/redislock => ../redislock

replace github.com/interlock-go/interlock/backend/redislock/goredis => ../redislock/goredis

replace github.com/interlock-go/interlock/backend/sqlitelock => ../sqlitelock

replace github.com/interlock-go/interlock/cmd/interlock => ../../cmd/interlock

replace github.com/interlock-go/interlock/drivertest => ../../drivertest

replace github.com/interlock-go/interlock/examples => ../../examples

replace github.com/interlock-go/interlock/otelinterlock => ../../otelinterlock

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../../rowlock/pgxrow
