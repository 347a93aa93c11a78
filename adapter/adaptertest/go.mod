module github.com/interlock-go/interlock/adapter/adaptertest

go 1.26.0

require (
	github.com/caddyserver/certmagic v0.25.6
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/google/uuid v1.6.0
	github.com/interlock-go/interlock v0.0.0
	github.com/interlock-go/interlock/adapter v0.0.0
	github.com/interlock-go/interlock/adapter/cronlock v0.0.0
	github.com/interlock-go/interlock/adapter/gocronlock v0.0.0
	github.com/interlock-go/interlock/backend/redislock v0.0.0
	github.com/interlock-go/interlock/backend/sqlitelock v0.0.0
	github.com/pressly/goose/v3 v3.30.1
	github.com/robfig/cron/v3 v3.0.1
	go.uber.org/zap v1.28.0
	modernc.org/sqlite v1.62.0
)

require (
	github.com/caddyserver/zerossl v0.1.6 // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/libdns/libdns v1.1.1 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/mfridman/interpolate v0.2.0 // indirect
	github.com/mholt/acmez/v3 v3.1.7 // indirect
	github.com/miekg/dns v1.1.73 // indirect
	github.com/ncruces/go-strftime v1.1.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/sethvargo/go-retry v0.5.0 // indirect
	github.com/zeebo/blake3 v0.2.4 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap/exp v0.3.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
	modernc.org/libc v1.80.2 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	zombiezen.com/go/sqlite v1.4.2 // indirect
)

replace github.com/interlock-go/interlock/backend/etcdlock => ../../backend/etcdlock

replace github.com/interlock-go/interlock/backend/pglock => ../../backend/pglock

replace github.com/interlock-go/interlock/cmd/interlock => ../../cmd/interlock

replace github.com/interlock-go/interlock/drivertest => ../../drivertest

replace github.com/interlock-go/interlock/adapter => ..

replace github.com/interlock-go/interlock/backend/sqlitelock => ../../backend/sqlitelock

replace github.com/interlock-go/interlock/backend/zklock => ../../backend/zklock

replace github.com/interlock-go/interlock/backend/redislock => ../../backend/redislock

replace github.com/interlock-go/interlock/backend/redislock/goredis => ../../backend/redislock/goredis

replace github.com/interlock-go/interlock/otelinterlock => ../../otelinterlock

replace github.com/interlock-go/interlock/backend/mysqllock => ../../backend/mysqllock

replace github.com/interlock-go/interlock/examples => ../../examples

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../../rowlock/pgxrow

replace github.com/interlock-go/interlock => ../..

replace github.com/interlock-go/interlock/adapter/cronlock => ../cronlock

replace github.com/interlock-go/interlock/adapter/gocronlock => ../gocronlock
