# Every target explains itself: make help
GO ?= go
# The tools are pinned in a module of their own; go builds and caches them.
TOOL = $(GO) tool -modfile=tools/go.mod
# go test holds back what it has to say of a package until those before it have ended.
TESTS = $(GO) tool -modfile=tools/gotestsum/go.mod gotestsum --format pkgname-and-test-fails --format-icons text --format-hide-empty-pkg --hide-summary=skipped,failed,output --no-color --raw-command -- $(GO) test -json

# The race detector is off for SQLite's translated C with its C library, and for password
# hashing: with it they would take most of the tests' processor time, and they share no
# data of ours. Pointer checks are off for that C too. It must stay on for packages that
# use generic types of others: the linker might take their unwatched copy for all.
# By default the detector sleeps for a second at the end of each program; GORACE shortens that.
# Garbage is collected at five times what is held, not at twice: that saves a tenth.
race := -race -trimpath -gcflags='modernc.org/sqlite/lib=-race=false -d=checkptr=0' \
	-gcflags='modernc.org/libc=-race=false -d=checkptr=0' -gcflags='modernc.org/memory=-race=false -d=checkptr=0' \
	-gcflags='golang.org/x/crypto/argon2=-race=false' -gcflags='golang.org/x/crypto/blake2b=-race=false'
test: export GORACE ?= atexit_sleep_ms=10
test: export GOGC ?= 400
# Without the tables of symbols and of a debugger, which linking takes most of its
# time for. test/servers builds our programs with the same flags, and -trimpath lets
# every clone of the repository use what another one has compiled.
undebugged := -ldflags='-s -w'
# Releases are built by this profile of nodes under load, so that the compiler inlines what
# every check calls. It is no default.pgo, for which go would compile every package twice in
# most commands.
profile := cmd/stint-server/release.pgo

# The packages whose tests take longest. They are started first, so that none
# runs alone at the end, but for a short one, whose line shows soon that the tests
# run. test-short omits both lists.
soon := ./internal/keys
longest := ./test/e2e ./test/firewall ./internal/timestamplog/redislog ./internal/logfollow ./internal/sqlstore ./internal/sqlstore/offences ./internal/sqlstore/db ./internal/api
long := ./internal/app ./test/bench ./test/compare ./client ./client/fibermw ./test/parity ./test/upgrade ./test/servers ./test/detection \
	$(addprefix ./internal/sqlstore/,entries identities operations policies profiles)
# These look from outside, with a browser, a gateway or a command, at one thing after
# another: the race detector would see little of them and double their time. It watches
# the pages in TestPagesAtOnce, and the doors in the tests of internal/doors.
outside := ./internal/adminui ./test/doors ./internal/cli ./test/clients
# Twice the processors beside the tests from outside, because most tests wait for servers
# half of the time.
packages = $$((2 * $$(getconf _NPROCESSORS_ONLN)))
space := $(subst ,, )

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: run
run: ## Run one node with its data in ./data
	$(GO) run ./cmd/server

.PHONY: setup
setup: ## Install what the tests need: redis-server, Postgres, Chromium, gateways, and the languages and frameworks of the clients
	bash scripts/setup-tests.sh

# golangci-lint vets, in lint and verify.
.PHONY: test
test: setup ## Run all tests on real servers, with the race detector but for those with a browser, a gateway or a command
	@echo "The tests take 30 to 50 minutes on two cores. Each package has its line when it has ended."
	{ $(TESTS) -trimpath $(undebugged) -vet=off -timeout 60m -p 2 $(outside) && \
	$(TESTS) -trimpath $(undebugged) -vet=off -run Contract ./internal/timestamplog/... && \
	$(TESTS) $(race) $(undebugged) -vet=off -parallel 8 -run '^TestPagesAtOnce$$' ./internal/adminui; } & outside=$$!; \
	$(TESTS) $(race) $(undebugged) -vet=off -timeout 30m -p $(packages) $(soon) $(longest) $(long) \
		$$($(GO) list ./... | grep -vE '$(subst $(space),|,$(strip $(outside:.%=%$$)))'); \
	inside=$$?; wait $$outside && exit $$inside

.PHONY: test-short
test-short: setup ## Run the packages whose tests start no node, database server or browser of their own, in about a minute
	$(GO) test -trimpath $(undebugged) -vet=off $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE '$(subst $(space),|,$(strip $(outside:.%=%$$) $(longest:.%=%$$) $(long:.%=%$$)))')

.PHONY: test-doors
test-doors: setup ## Build Caddy 2.11 and Traefik 3.6 once, which takes ten minutes, and run the doors' tests with them
	$(GO) test ./test/doors -count 1 -timeout 30m -args -built-gateways "$$(GO="$(GO)" bash scripts/build-gateways.sh)"

# The packages whose tests start Redis and depend on what it does.
redis := ./internal/algorithms ./internal/app ./internal/gate ./internal/redisconn ./internal/timestamplog/... ./test/e2e ./test/upgrade
.PHONY: test-redis
test-redis: setup ## Run the tests on another program than redis-server: make test-redis REDIS_SERVER=valkey-server
	STINT_TEST_REDIS_SERVER="$(REDIS_SERVER)" $(GO) test -trimpath $(undebugged) -vet=off -count 1 -p 1 -timeout 30m $(redis)

.PHONY: test-kubernetes
test-kubernetes: ## Build the API server of Kubernetes, which takes ten minutes the first time, and install the Helm chart into it
	GO="$(GO)" bash scripts/test-kubernetes.sh

.PHONY: test-openid
test-openid: ## Build dex, which takes a minute the first time, and log in to a node with it
	$(GO) mod verify -C tools/dex
	$(GO) build -C tools/dex -trimpath -o ../../bin/dex .
	$(GO) test -tags dex ./test/dex -count 1 -args -dex "$(CURDIR)/bin/dex"

# The last released version, of which test/upgrade has the fixture.
released := 60b28a8
.PHONY: test-upgrade
test-upgrade: setup ## Build the last released version and run it beside this one on the same stores
	$(GO) test ./test/upgrade -count 1 -bench SideBySide -benchtime 1x -timeout 15m -args -old "$$(GO="$(GO)" bash scripts/build-version.sh $(released))"

.PHONY: test-clients
test-clients: ## Try the middleware with chi, echo and gin, generate clients for Go and TypeScript from openapi.json and call a node with each; needs npm
	GO="$(GO)" bash scripts/test-clients.sh

.PHONY: test-compose
test-compose: setup ## Check deploy/compose by the schema of compose files, nginx and promtool, without containers
	$(GO) test -C tools/compose -count 1 .

.PHONY: docs
docs: ## Build the site of the documents, with a search, in bin/docs/VERSION; needs npm
	bash scripts/build-docs.sh

.PHONY: docs-api
docs-api: ## Render openapi.json as a page in bin/api; needs npm
	GO="$(GO)" bash scripts/render-api.sh

.PHONY: faults
faults: setup ## Inject faults into Redis, Postgres and nodes, and write docs/RELIABILITY.md
	@echo "The table of faults takes up to ten minutes."
	$(GO) test ./test/e2e -run TestFaults -count 1 -timeout 30m -faults -reliability ../../docs/RELIABILITY.md

.PHONY: lint
lint: ## Run the pinned golangci-lint, including the import rules, look for retired words, and warn of long files
	bash scripts/lengths.sh
	bash scripts/words.sh
	$(TOOL) golangci-lint run ./...

.PHONY: verify
verify: ## Verify the modules and workflows, lint, and write the bills of materials to bin/sbom
	GO="$(GO)" bash scripts/verify.sh

.PHONY: verify-release
verify-release: test-upgrade test-clients test-openid ## Run them, verify, lint the OpenAPI document and the chart, and run govulncheck; needs npm and the vulnerability database
	GO="$(GO)" bash scripts/verify-release.sh

.PHONY: build
build: ## Build bin/stint-server and bin/stint-admin
	$(GO) build -trimpath $(undebugged) -pgo=$(profile) -o bin/ ./cmd/stint-server ./cmd/stint-admin

.PHONY: dist
dist: ## Build archives, deb, rpm, an OCI image, bills of materials and checksums of the commit in bin/dist
	$(GO) run -C tools/dist . -root "$(CURDIR)"

.PHONY: test-dist
test-dist: ## Build the release of the last commit twice, compare, and install it; needs root
	$(GO) test -C tools/dist -count 1 -timeout 60m ./...

.PHONY: wrk
wrk:
	@command -v wrk >/dev/null || { echo "wrk is not installed: apt-get install wrk, or brew install wrk" >&2; exit 1; }

.PHONY: bench
bench: wrk setup ## Run the benchmarks and write docs/BENCHMARKS.md
	bash scripts/bench.sh

.PHONY: bench-peers
bench-peers: wrk setup ## Measure envoyproxy/ratelimit, redis_rate and Gubernator beside Stint and write docs/BENCHMARKS_PEERS.md
	STINT_BENCH_REPORT="$(CURDIR)/docs/BENCHMARKS_PEERS.md" $(GO) test -run '^$$' -bench '^BenchmarkPeers$$' -benchtime 1x -timeout 30m -v ./test/bench

.PHONY: pgo
pgo: wrk setup ## Take the profile that releases are built by from nodes under load, in about five minutes
	STINT_BENCH_PROFILE="$(CURDIR)/$(profile)" $(GO) test -run '^$$' -bench '^BenchmarkProfile$$' -benchtime 1x -timeout 20m -v ./test/bench

.PHONY: bench-tracing
bench-tracing: ## Measure what tracing costs a check while it is off
	GO="$(GO)" bash scripts/bench-tracing.sh

.PHONY: bench-detection
bench-detection: setup ## Measure the presets beside fail2ban and CrowdSec and write docs/DETECTION_QUALITY.md
	@echo "Replaying the day through CrowdSec takes some five minutes."
	$(GO) test ./test/detection -run '^$$' -bench Quality -benchtime 1x -timeout 60m -document ../../docs/DETECTION_QUALITY.md
