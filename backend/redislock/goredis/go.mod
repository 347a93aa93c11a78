module github.com/interlock-go/interlock/backend/redislock/goredis

go 1.25.0

require (
	github.com/interlock-go/interlock v0.0.0
	github.com/interlock-go/interlock/backend/redislock v0.0.0
	github.com/redis/go-redis/v9 v9.10.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/interlock-go/interlock => ../../..

replace github.com/interlock-go/interlock/adapter => ../../../adapter

replace github.com/interlock-go/interlock/adapter/clientgolock => ../../../adapter/clientgolock

replace github.com/interlock-go/interlock/adapter/cronlock => ../../../adapter/cronlock

replace github.com/interlock-go/interlock/adapter/gocronlock => ../../../adapter/gocronlock

replace github.com/interlock-go/interlock/adapter/tusdlock => ../../../adapter/tusdlock

replace github.com/interlock-go/interlock/backend/etcdlock => ../../etcdlock

replace github.com/interlock-go/interlock/backend/mysqllock => ../../mysqllock

replace github.com/interlock-go/interlock/backend/pglock => ../../pglock

replace github.com/interlock-go/interlock/backend/redislock => ..

replace github.com/interlock-go/interlock/backend/sqlitelock => ../../sqlitelock

replace github.com/interlock-go/interlock/backend/zklock => ../../zklock

replace github.com/interlock-go/interlock/cmd/interlock => ../../../cmd/interlock

replace github.com/interlock-go/interlock/drivertest => ../../../drivertest

replace github.com/interlock-go/interlock/examples => ../../../examples

replace github.com/interlock-go/interlock/otelinterlock => ../../../otelinterlock

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../../../rowlock/pgxrow
