module github.com/interlock-go/interlock/adapter/adaptertest

go 1.26.0

require (
	github.com/caddyserver/certmagic v0.25.6
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/golang-migrate/migrate/v4 v4.20.1
	github.com/google/uuid v1.6.0
	github.com/interlock-go/interlock v0.0.0
	github.com/interlock-go/interlock/adapter v0.0.0
	github.com/interlock-go/interlock/adapter/clientgolock v0.0.0
	github.com/interlock-go/interlock/adapter/cronlock v0.0.0
	github.com/interlock-go/interlock/adapter/gocronlock v0.0.0
	github.com/interlock-go/interlock/adapter/tusdlock v0.0.0
	github.com/interlock-go/interlock/backend/redislock v0.0.0
	github.com/interlock-go/interlock/backend/sqlitelock v0.0.0
	github.com/pressly/goose/v3 v3.30.1
	github.com/robfig/cron/v3 v3.0.1
	github.com/tus/tusd/v2 v2.9.1
	go.uber.org/zap v1.28.0
	golang.org/x/exp v0.0.0-20261109185158-a52e3aef5920
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
	modernc.org/sqlite v1.62.0
)

require (
	github.com/caddyserver/zerossl v0.1.6 // indirect
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/emicklei/go-restful/v3 v3.13.0 // indirect
	github.com/fxamacker/cbor/v2 v2.9.1 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-openapi/jsonpointer v1.0.0 // indirect
	github.com/go-openapi/jsonreference v1.0.0 // indirect
	github.com/go-openapi/swag v0.27.1 // indirect
	github.com/go-openapi/swag/cmdutils v0.27.1 // indirect
	github.com/go-openapi/swag/conv v0.27.1 // indirect
	github.com/go-openapi/swag/fileutils v0.27.1 // indirect
	github.com/go-openapi/swag/jsonutils v0.27.1 // indirect
	github.com/go-openapi/swag/loading v0.27.1 // indirect
	github.com/go-openapi/swag/mangling v0.27.1 // indirect
	github.com/go-openapi/swag/netutils v0.27.1 // indirect
	github.com/go-openapi/swag/pools v0.27.1 // indirect
	github.com/go-openapi/swag/stringutils v0.27.1 // indirect
	github.com/go-openapi/swag/typeutils v0.27.1 // indirect
	github.com/go-openapi/swag/yamlutils v0.27.1 // indirect
	github.com/google/gnostic-models v0.7.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/libdns/libdns v1.1.1 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/mfridman/interpolate v0.2.0 // indirect
	github.com/mholt/acmez/v3 v3.1.7 // indirect
	github.com/miekg/dns v1.1.73 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.3-0.20250322232337-35a7c28c31ee // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/ncruces/go-strftime v1.1.0 // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/sethvargo/go-retry v0.5.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	github.com/zeebo/blake3 v0.2.4 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap/exp v0.3.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/term v0.47.0 // indirect
	golang.org/x/text v0.44.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	gopkg.in/evanphx/json-patch.v4 v4.13.0 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
	k8s.io/api v0.37.2 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/kube-openapi v0.0.0-20260721132016-d427ff9ee9ad // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // indirect
	modernc.org/libc v1.80.2 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
	sigs.k8s.io/randfill v1.0.0 // indirect
	sigs.k8s.io/structured-merge-diff/v6 v6.4.2 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
	zombiezen.com/go/sqlite v1.4.2 // indirect
)

replace github.com/interlock-go/interlock/adapter/gocronlock => ../gocronlock

replace github.com/interlock-go/interlock/backend/pglock => ../../backend/pglock

replace github.com/interlock-go/interlock => ../..

replace github.com/interlock-go/interlock/adapter => ..

replace github.com/interlock-go/interlock/adapter/clientgolock => ../clientgolock

replace github.com/interlock-go/interlock/backend/etcdlock => ../../backend/etcdlock

replace github.com/interlock-go/interlock/backend/mysqllock => ../../backend/mysqllock

replace github.com/interlock-go/interlock/backend/redislock/goredis => ../../backend/redislock/goredis

replace github.com/interlock-go/interlock/backend/sqlitelock => ../../backend/sqlitelock

replace github.com/interlock-go/interlock/backend/zklock => ../../backend/zklock

replace github.com/interlock-go/interlock/examples => ../../examples

replace github.com/interlock-go/interlock/adapter/tusdlock => ../tusdlock

replace github.com/interlock-go/interlock/backend/redislock => ../../backend/redislock

replace github.com/interlock-go/interlock/cmd/interlock => ../../cmd/interlock

replace github.com/interlock-go/interlock/drivertest => ../../drivertest

replace github.com/interlock-go/interlock/otelinterlock => ../../otelinterlock

replace github.com/interlock-go/interlock/rowlock/pgxrow => ../../rowlock/pgxrow

replace github.com/interlock-go/interlock/adapter/cronlock => ../cronlock
