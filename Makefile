# make test is all that a change has to pass. The cheap checks come first. Nothing that
# builds runs beside the tests, which compare what takes milliseconds.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
GO ?= go
TESTFLAGS ?=
TARGETS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# The tools have a module of their own, outside the workspace, so that the
# versions that they need bend nobody else's.
TOOLS := cd internal/tools && GOWORK=off

# Modules outside the workspace that have packages of their own.
OUTSIDE := "$$PWD/bench" "$$PWD/lab" "$$PWD/adapter/adaptertest"

# A look at the working tree, to be compared with a later one.
LOOK := { git status --porcelain && git diff; } 2>&1

.PHONY: test packages check fmt lint built unit race alone cross install modules bench lab mutants soak fuzz release dist snapshot release-check release-files reproducible third-party clean

# Whatever the tests do, the working tree is afterwards as it was before.
test: packages
	@before="$$($(LOOK))"; \
	$(MAKE) --no-print-directory check; \
	after="$$($(LOOK))"; \
	diff <(echo "$$before") <(echo "$$after") || { echo 'make test has changed the working tree' >&2; exit 1; }

check:
	@for step in fmt lint built unit alone cross install; do $(MAKE) --no-print-directory timed-$$step; done

timed-%:
	@echo '== make $*'; start=$$SECONDS; $(MAKE) --no-print-directory $*; echo "== make $*: $$((SECONDS - start)) s"

packages:
	@.ci/packages

fmt:
	@files="$$(gofmt -l .)"; test -z "$$files" || { echo "not formatted (gofmt -w):"; echo "$$files"; exit 1; } >&2

lint:
	.ci/words
	$(GO) vet work
	$(TOOLS) $(GO) vet ./...
	$(TOOLS) $(GO) build -o ../../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck work
	$(TOOLS) ../../bin/staticcheck ./...
	for dir in $(OUTSIDE); do (cd "$$dir" && GOWORK=off "$(CURDIR)/bin/staticcheck" ./...); done

# Each module as its users see it: without the workspace, and without cgo. Some stay outside
# it, since what bench is compared with, and the libraries that have adapters, bend versions, and
# so does the etcd that tests run beside Debian's, a module without packages.
MODULES = $$($(GO) list -m -f '{{.Dir}}') $(OUTSIDE) "$$PWD/internal/etcdtest/current"
lint alone: export CGO_ENABLED := 0
alone:
	@for dir in $(MODULES); do \
		cd "$$dir"; export GOWORK=off; echo "$$($(GO) list -m)"; \
		$(GO) mod tidy -diff | sed -n 1,30p || { echo "run there: GOWORK=off go mod tidy" >&2; exit 1; }; \
		if test -n "$$($(GO) list ./... 2>/dev/null)"; then $(GO) vet ./...; fi; \
	done

# Files of this tree differ by system and not by processor, so that all packages are vetted, with their
# tests, once for each system. make lint has vetted them for this one. The command is built for each system
# and each processor; of the other targets it is seen that every package that it needs has files for them.
# Nobody runs what is built here, so it is not optimized, which saves a third of the time.
PLAIN := -gcflags='all=-N -l'
BUILT := linux/arm64 darwin/arm64 windows/amd64
cross:
	@export CGO_ENABLED=0; \
	for target in $(filter-out $(shell $(GO) env GOHOSTOS)/$(shell $(GO) env GOHOSTARCH),$(TARGETS)); do \
		export GOOS=$${target%/*} GOARCH=$${target#*/}; echo $$target; \
		$(GO) list -deps ./cmd/interlock >/dev/null; \
		case " $(BUILT) " in *" $$target "*) \
			$(GO) build $(PLAIN) -o /dev/null ./cmd/interlock; \
			test $$GOOS = $(shell $(GO) env GOHOSTOS) || $(GO) vet $(PLAIN) work;; \
		esac; \
	done

# SQLite here is C that was translated to Go. To watch each of its loads and stores makes it six
# times slower and would find nothing: C's memory is not Go's.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

# tusd v2.9 reads the body of a request that it ends while another goroutine sets it (context.go:65).
RACING := -gcflags=github.com/tus/tusd/v2/pkg/handler=-race=false

# Where the race detector is left to make race: what runs servers, or SQLite. It makes these tests up to half as
# long again; the client, the engine and the suites, which all backends share, are watched each time.
UNWATCHED := /(backend/(etcd|mysql|pg|redis|sqlite|zk)lock|cmd|examples)(/|$$)
unwatched = $$($(GO) list work | grep -E '$(UNWATCHED)')
watched = $$($(GO) list work | grep -Ev '$(UNWATCHED)')

# What tests are made of, all but themselves.
built:
	$(GO) list -f '{{with .GoFiles}}{{$$.ImportPath}}{{end}}' $(unwatched) | CGO_ENABLED=0 xargs $(GO) build
	$(GO) list -f '{{with .GoFiles}}{{$$.ImportPath}}{{end}}' $(watched) | CGO_ENABLED=1 xargs $(GO) build $(RACE)

# As many packages are tested at once as there are processors: tests run beside each other in
# each of them. make lint has vetted all of them already, with more rules.
# What failed and what was skipped is said again at the end. The race detector lets each
# test process sleep for a second before it exits, which is long for so many. What they write
# is in memory, if there is much, unless TMPDIR says where.
tested = TMPDIR="$$(.ci/memory)" GORACE=atexit_sleep_ms=100 bin/gotestsum --format pkgname -- -p $$(getconf _NPROCESSORS_ONLN) -vet=off -timeout 30m $(TESTFLAGS)
unit: bin/gotestsum
	CGO_ENABLED=0 $(tested) $(unwatched)
	CGO_ENABLED=1 $(tested) $(RACE) $(watched)
	cd bench && GOWORK=off $(GO) test -vet=off $(TESTFLAGS) ./workload ./figures
	cd adapter/adaptertest && GOWORK=off CGO_ENABLED=0 $(GO) test -vet=off $(TESTFLAGS) .
	cd lab && TMPDIR="$$(../.ci/memory)" GOWORK=off CGO_ENABLED=0 $(GO) test -vet=off $(TESTFLAGS) ./...

race: bin/gotestsum
	CGO_ENABLED=1 $(tested) $(RACE) $(unwatched)
	cd adapter/adaptertest && GOWORK=off CGO_ENABLED=1 $(GO) test -vet=off $(RACE) $(RACING) $(TESTFLAGS) .

.PHONY: bin/gotestsum
bin/gotestsum:
	$(TOOLS) $(GO) build -o ../../bin/gotestsum gotest.tools/gotestsum

# The modules of this tree as a release: tagged, packed, installed, used.
install:
	$(TOOLS) $(GO) test $(TESTFLAGS) ./...

# All tests again and again; the random ones try other cases each time.
COUNT ?= 20
soak:
	CGO_ENABLED=1 $(GO) test $(RACE) -count=$(COUNT) -timeout=0 $(TESTFLAGS) work

# Each parser of what others write, one after the other. What it finds stays in testdata/fuzz.
# Before Go 1.27 the end of the time can be taken for a failure (go.dev/issue/75804): then there
# is no input, and nothing else is said.
FUZZTIME ?= 10s
fuzz:
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' driver backend cmd internal | while IFS=: read -r file name; do \
		name="^$${name#func }\$$"; \
		if said="$$($(GO) test -run "$$name" -fuzz "$$name" -fuzztime $(FUZZTIME) -parallel 1 -timeout 5m "./$$(dirname "$$file")" </dev/null 2>&1 | grep -v '^fuzz: elapsed')"; then \
			echo "$$said"; \
		elif grep -A2 -- '^--- FAIL: ' <<<"$$said" | tr '\n' ' ' | grep -Eq '^--- FAIL: [^ ]+ \([0-9.]+s\)     context deadline exceeded FAIL $$'; then \
			echo "ok $${name//[^A-Za-z]/}: it found nothing up to the end of its time"; \
		else \
			echo "$$said"; exit 1; \
		fi; \
	done

# Changes one operator after the other and says which changes no test of the same package notices. A package of
# a thousand lines takes an hour.
MUTATED ?= ./driver/exchange
mutants:
	$(GO) run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0 unleash $(MUTATED) --invert-logical --timeout-coefficient 10 --workers 1

bench:
	cd bench && GOWORK=off $(GO) run . $(BENCHFLAGS)

# Faults on real servers, and histories that are checked: make lab LAB='run -backend redis -for 20m -report redis.html'.
LAB ?= run
lab:
	cd lab && GOWORK=off CGO_ENABLED=0 $(GO) build -o ../bin/lab . && cd .. && bin/lab $(LAB)

# Writes what the modules need of each other into every go.mod and go.sum.
modules:
	.ci/modules
	@for dir in $(MODULES); do cd "$$dir"; GOWORK=off $(GO) mod tidy; done

# A release is a commit beside the branch, with a tag for every module:
# make release VERSION=v1.2.3
release: test race
	.ci/release '$(VERSION)'

# The command as it is released, by GoReleaser (.goreleaser.yaml): make dist VERSION=v1.2.3 on its tag gives the same
# files to all who have the same Go, and signs their checksums. make snapshot is the same from HEAD, without a tag
# and a signature. Neither publishes anything, and neither needs a network once the modules are there.
RELEASER := PATH="$$PWD/bin:$$PATH" bin/goreleaser release --clean --skip=publish,announce
dist: bin/goreleaser bin/cyclonedx-gomod release-files
	GORELEASER_CURRENT_TAG='$(VERSION)' $(RELEASER) $(DISTFLAGS)
snapshot: bin/goreleaser bin/cyclonedx-gomod release-files
	$(RELEASER),sign --snapshot $(DISTFLAGS)

# Is .goreleaser.yaml sound? A check of its own: to build GoReleaser takes longer than all of lint.
release-check: bin/goreleaser
	bin/goreleaser check -q

# What is in an archive, and in a package, beside the binary.
release-files:
	rm -rf bin/release bin/completion && mkdir -p bin/release bin/completion
	$(GO) build -ldflags='-X main.release=$(VERSION)' -o bin/interlock ./cmd/interlock
	bin/interlock man >bin/release/interlock.1
	for shell in bash zsh fish; do bin/interlock completion $$shell >bin/completion/$$shell; done
	$(TOOLS) $(GO) run ./licences texts $(TARGETS) >../../bin/release/THIRD_PARTY.txt

# Two snapshots, in different folders: are all files the same?
reproducible: bin/goreleaser bin/cyclonedx-gomod
	@rm -rf bin/twice && mkdir -p bin/twice && for folder in bin/twice/a 'bin/twice/another folder'; do \
		git clone -q . "$$folder" && mkdir "$$folder/bin" && ln bin/goreleaser bin/cyclonedx-gomod "$$folder/bin"; \
		$(MAKE) -C "$$folder" snapshot; \
	done
	diff bin/twice/*/dist/SHA256SUMS && rm -rf bin/twice

# The versions are fixed, so that all who build a release get the same files.
bin/goreleaser:
	GOBIN='$(CURDIR)/bin' GOWORK=off $(GO) install github.com/goreleaser/goreleaser/v2@v2.16.0
bin/cyclonedx-gomod:
	GOBIN='$(CURDIR)/bin' GOWORK=off $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

third-party:
	$(TOOLS) $(GO) run ./licences table $(TARGETS) >../../THIRD_PARTY.md

clean:
	rm -rf bin dist
