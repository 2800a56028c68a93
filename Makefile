# make run     process a generated ledger of 100,000 messages and print a summary
# make orders  place 3,000 made-up orders in the shop of examples/orders, and check what became of them
# make test    all checks: format, vet, staticcheck, all tests with -race
# make bench   all benchmarks, to bench/RESULTS.md and bench/plots; see bench/README.md
# make fuzz    each fuzz target for FUZZTIME
# make model   the analytical model of sequences and replay beside measured runs
# make soak    the simulation of the sequencer's core for SIMULATED events, EVENTS from
#              a hostile source applied on SQLite, the crash tests of the ledger for
#              SOAK rounds, and those with a broker for CHAOS; the shop of
#              examples/orders with its database, broker, orchestrator and payment service
#              slow or killed, in full size, for ORDERS rounds of ten minutes; and what
#              ISOLATION sagas see of each other, with Keep, without, and with a flag
# make deps    the programs that the tests need: hledger, PostgreSQL, PgBouncer, RabbitMQ,
#              Chromium, Prometheus

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := test

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 30s
SOAK        ?= 2000
CHAOS       ?= 1000
SIMULATED   ?= 20000000
EVENTS      ?= 10000000
ORDERS      ?= 6
ISOLATION   ?= 100000
MODULES     := . bench
BOOKS       := Berka|Journals|Beancount|Ethereum|Contention|Hostile|Faults|Cut

.PHONY: run orders test lint deps bench model soak fuzz

run:
	go run ./examples/ledger $(ARGS)

orders:
	go run ./examples/orders $(ARGS)

test: deps lint
	for m in $(MODULES); do (cd $$m && go test -race -timeout 19m ./... && echo "module $$m: $$SECONDS s"); done
	# Tests that -race leaves out or shortens: allocations, full load, the whole
	# simulation, the complete books, and all orders.
	go test ./lockkeys ./dispatcher ./ordering/internal/core
	go test -run '$(BOOKS)' ./examples/ledger
	go test -run Simulation ./examples/orders

lint:
	test -z "$$(gofmt -l . | tee /dev/stderr)"
	for m in $(MODULES); do (cd $$m && go vet ./... && go run $(STATICCHECK) ./...); done

# Debian packages are installed as root, or with sudo. The tests start their own
# servers, so the packages' services are not started, unless the machine has a
# policy about that already.
deps:
	@need=; \
	command -v hledger >/dev/null || need="$$need hledger"; \
	compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || need="$$need postgresql"; \
	command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || need="$$need pgbouncer"; \
	command -v chromium >/dev/null || need="$$need chromium"; \
	command -v promtool >/dev/null || need="$$need prometheus"; \
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || command -v rabbitmq-server >/dev/null || need="$$need rabbitmq-server"; \
	[ -n "$$need" ] || exit 0; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	echo "installing$$need, which the tests use"; \
	policy=/usr/sbin/policy-rc.d; \
	[ -e $$policy ] || { \
	  trap "$$sudo rm -f $$policy" EXIT; \
	  printf '#!/bin/sh\nexit 101\n' | $$sudo install -m 755 /dev/stdin $$policy; }; \
	$$sudo apt-get update -qq; \
	$$sudo env DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends $$need

bench:
	cd bench && go run ./cmd/report $(ARGS)

model:
	cd bench && go test -count=1 -v -run TestModel ./model -length 1

# A round of CHAOS kills a consumer and cuts a connection; every third one also
# kills the broker and a producer, and makes a consumer hand over.
soak:
	CORE_SIM_EVENTS=$(SIMULATED) go test -count=1 -timeout 10h -v -run TestSimulation ./ordering/internal/core
	SOAK_EVENTS=$(EVENTS) go test -count=1 -timeout 10h -v -run TestSoak ./ordering/sqlstore
	LEDGER_CRASH_ROUNDS=$(SOAK) go test -count=1 -timeout 10h -v -run TestKilled ./examples/ledger
	LEDGER_CHAOS_ROUNDS=$(CHAOS) go test -count=1 -timeout 10h -v -run TestChaos ./examples/ledger
	ORDERS_DISTURBED_ROUNDS=$(ORDERS) go test -count=1 -timeout 10h -v -run TestDisturbed ./examples/orders
	cd bench && go test -timeout 10h -run '^$$' -bench . -benchtime $(ISOLATION)x ./isolation

fuzz:
	for pkg in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; done; done
