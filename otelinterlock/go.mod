module github.com/interlock-go/interlock/otelinterlock

go 1.25.0

require (
	github.com/interlock-go/interlock v0.0.0
	go.opentelemetry.io/otel v1.46.0
	go.opentelemetry.io/otel/metric v1.46.0
	go.opentelemetry.io/otel/sdk v1.46.0
	go.opentelemetry.io/otel/sdk/metric v1.46.0
	go.opentelemetry.io/otel/trace v1.46.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
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

replace github.com/interlock-go/interlock/drivertest => ../drivertest

replace github.com/interlock-go/interlock/examples => ../examples

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../rowlock/pgxrow
