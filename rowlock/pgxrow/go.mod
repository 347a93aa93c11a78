module github.com/interlock-go/interlock/rowlock/pgxrow

go 1.25.0

require (
	github.com/interlock-go/interlock v0.0.0
	github.com/jackc/pgx/v5 v5.12.0
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace github.com/interlock-go/interlock => ../..

replace github.com/interlock-go/interlock/adapter => ../../adapter

replace github.com/interlock-go/interlock/adapter/clientgolock => ../../adapter/clientgolock

replace github.com/interlock-go/interlock/adapter/cronlock => ../../adapter/cronlock

replace github.com/interlock-go/interlock/adapter/gocronlock => ../../adapter/gocronlock

replace github.com/interlock-go/interlock/adapter/tusdlock => ../../adapter/tusdlock

replace github.com/interlock-go/interlock/backend/etcdlock => ../../backend/etcdlock

replace github.com/interlock-go/interlock/backend/mysqllock => ../../backend/mysqllock

replace github.com/interlock-go/interlock/backend/pglock => ../../backend/pglock

replace github.com/interlock-go/interlock/backend/redislock => ../../backend/redislock

replace github.com/interlock-go/interlock/backend/redislock/goredis => ../../backend/redislock/goredis

replace github.com/interlock-go/interlock/backend/sqlitelock => ../../backend/sqlitelock

replace github.com/interlock-go/interlock/backend/zklock => ../../backend/zklock

replace github.com/interlock-go/interlock/cmd/interlock => ../../cmd/interlock

replace github.com/interlock-go/interlock/drivertest => ../../drivertest

replace github.com/interlock-go/interlock/examples => ../../examples

replace github.com/interlock-go/interlock/otelinterlock => ../../otelinterlock
