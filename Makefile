# pg-kinetic: `make build` makes bin/pg-kinetic, `make run` tries it, `make check test` is what a change must pass.
# Everything that a target needs it installs itself (PostgreSQL from the system's packages); only Go must be there.

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT     = mvdan.cc/gofumpt@v0.12.0

TOOLS    = sh internal/scripts/tools.sh
POSTGRES = sh internal/pgtest/postgres.sh

FUZZEXECS ?= 200000
SOAK      ?= 3m
MANY      ?= 100000
SEED      ?= $(shell date +%s)
ROUNDS    ?= 5
COUNT     ?= 1
OUT       ?=
UPDATE    ?=
ONLY      ?=

BENCHFLAGS ?=

.PHONY: build run test check sim sim-mutants soak fuzz-smoke bench bench-gate bench-micro drivers newcomer python format clean

build:
	@$(TOOLS) go
	go build -o bin/pg-kinetic ./cmd/pg-kinetic

# A throw-away PostgreSQL with pg-kinetic in front, until Ctrl-C.
run: build
	@go build -o bin/demo ./internal/demo
	@exec bin/demo bin/pg-kinetic

check:
	@$(TOOLS) go
	@unformatted=$$(go run $(GOFUMPT) -l .) && { [ -z "$$unformatted" ] || { echo "gofumpt: $$unformatted"; exit 1; }; }
	go vet ./...
	go vet -tags sim ./admission
	go run $(STATICCHECK) ./...
	go run $(STATICCHECK) -tags sim ./admission
	@for script in .ci/run internal/scripts/*.sh internal/pgtest/*.sh; do bash -n $$script || exit 1; done

format:
	go run $(GOFUMPT) -w .

# Two passes: everything with the race detector; then what it would falsify (tests of allocations and of memory, by their
# names) and every benchmark once, so that none rots.
test: python
	@$(TOOLS) go cc
	@$(POSTGRES) >/dev/null
	go test -race -timeout 12m ./...
	go test -tags sim -timeout 5m ./admission
	go test -timeout 5m -run 'Alloc|Memory' -bench . -benchtime 1x ./...

# The scheduler in the simulator: long random seeds, then every committed mutation, each of which must fail.
sim:
	@$(TOOLS) go
	go test -tags sim -timeout 60m ./admission -args -seeds 20000
	$(MAKE) sim-mutants

sim-mutants:
	@$(TOOLS) go
	go test -tags sim -timeout 30m -run Mutants ./admission -args -mutants

# The end-to-end tests with minutes instead of seconds for each of their storms (SEED is that of tenants and operators), and with MANY
# distinct statements and rounds in those of flat memory, which the race detector would falsify; operations run in both ways.
soak: python
	@$(TOOLS) go cc
	@$(POSTGRES) >/dev/null
	go test -race -count 1 -timeout 120m -v -run 'Storm|Soak' ./internal/e2e -args -soak $(SOAK) -canary-seed $(SEED)
	go test -count 1 -timeout 60m -v -run 'PS14|PS28|OperationsStorm' ./internal/e2e -args -many $(MANY) -soak $(SOAK)

fuzz-smoke:
	@$(TOOLS) go
	sh internal/scripts/fuzz.sh $(FUZZEXECS)

# pg-kinetic beside other poolers (docs/benchmarks.md): ONLY=simple/64,idle makes a choice, OUT=DIR keeps results and charts,
# BENCHFLAGS are further flags of `go run ./bench`.
bench: build
	@$(TOOLS) pgbouncer
	@$(POSTGRES) >/dev/null
	go run ./bench -rounds $(ROUNDS) -only "$(ONLY)" $(if $(OUT),-out $(OUT)) -pg-kinetic bin/pg-kinetic $(BENCHFLAGS)

# A short run whose ratios to PgBouncer must not be worse than those of bench/baseline.json; UPDATE=1 writes these anew.
bench-gate: build
	@$(TOOLS) pgbouncer
	@$(POSTGRES) >/dev/null
	go run ./bench -gate bench/baseline.json $(if $(UPDATE),-update) -only "$(ONLY)" -rounds $(ROUNDS) -seconds 3 -no-syscalls -pg-kinetic bin/pg-kinetic

# The benchmarks of single parts, in the form that benchstat reads; COUNT=10 for a comparison.
bench-micro:
	@$(TOOLS) go
	go test -run '^$$' -bench . -benchmem -count $(COUNT) ./admin/... ./admission/... ./engine/... ./protocol/... ./reaper/...

# Real client libraries through the pooler, alone and among pgbench clients; ONLY=pgx,asyncpg makes a choice, TABLE=1 writes
# the table of docs/drivers.md from the run. Packages are kept in the user's cache directory.
drivers: build
	@$(TOOLS) go
	@$(POSTGRES) >/dev/null
	@go run ./internal/drivers -only "$(ONLY)" -pg-kinetic bin/pg-kinetic $(if $(TABLE),-table docs/drivers.md)

# README's quick start to the letter, as root, in a clean Debian that has make, curl and this machine's Go: minutes, and ports 6432
# and 6433.
newcomer:
	@$(TOOLS) go debootstrap
	go test -count 1 -timeout 20m -v -run NewcomerInCleanRoot ./internal/guide -args -clean-root

# The Python drivers of the end-to-end tests, and a libpq that is newer than the system's, in private directories.
python:
	@sh internal/scripts/drivers.sh
	@sh internal/scripts/libpq.sh

clean:
	rm -rf bin .run
