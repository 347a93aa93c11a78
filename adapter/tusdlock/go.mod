module github.com/interlock-go/interlock/adapter/tusdlock

go 1.25.0

require (
	github.com/interlock-go/interlock v0.0.0
	github.com/tus/tusd/v2 v2.9.1
)

require golang.org/x/exp v0.0.0-20250106191152-7588d65b2ba8 // indirect

replace github.com/interlock-go/interlock/adapter/clientgolock => ../clientgolock

replace github.com/interlock-go/interlock/backend/pglock => ../../backend/pglock

replace github.com/interlock-go/interlock/cmd/interlock => ../../cmd/interlock

replace github.com/interlock-go/interlock/drivertest => ../../drivertest

replace github.com/interlock-go/interlock => ../..

replace github.com/interlock-go/interlock/examples => ../../examples

replace github.com/interlock-go/interlock/adapter/gocronlock => ../gocronlock

replace github.com/interlock-go/interlock/backend/mysqllock => ../../backend/mysqllock

replace github.com/interlock-go/interlock/backend/redislock => ../../backend/redislock

replace github.com/interlock-go/interlock/backend/redislock/goredis => ../../backend/redislock/goredis

replace github.com/interlock-go/interlock/backend/sqlitelock => ../../backend/sqlitelock

replace github.com/interlock-go/interlock/otelinterlock => ../../otelinterlock

replace github.com/interlock-go/interlock/adapter/cronlock => ../cronlock

replace github.com/interlock-go/interlock/backend/etcdlock => ../../backend/etcdlock

replace github.com/interlock-go/interlock/backend/zklock => ../../backend/zklock

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../../rowlock/pgxrow

replace github.com/interlock-go/interlock/adapter => ..
