module github.com/interlock-go/interlock/backend/sqlitelock

go 1.25.0

require (
	github.com/interlock-go/interlock v0.0.0
	github.com/interlock-go/interlock/drivertest v0.0.0
	golang.org/x/sys v0.47.0
	zombiezen.com/go/sqlite v1.4.2
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	go.uber.org/goleak v1.3.0 // indirect
	modernc.org/libc v1.75.7 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.59.0 // indirect
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

replace github.com/interlock-go/interlock/backend/zklock => ../zklock

replace github.com/interlock-go/interlock/cmd/interlock => ../../cmd/interlock

replace github.com/interlock-go/interlock/drivertest => ../../drivertest

replace github.com/interlock-go/interlock/examples => ../../examples

replace github.com/interlock-go/interlock/otelinterlock => ../../otelinterlock

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../../rowlock/pgxrow
