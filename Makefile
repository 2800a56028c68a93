# make run     process a generated ledger of 100,000 messages and print a summary
# make test    everything that must hold: format, vet, staticcheck, all tests with -race
# make bench   the full benchmark table, to bench/RESULTS.md
# make targets one line for each performance target
# make fuzz    each fuzz target for FUZZTIME
# make deps    what the tests need and Go does not bring: hledger

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := test

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 30s
MODULES     := . bench

.PHONY: run test lint deps bench targets fuzz

run:
	go run ./examples/ledger $(ARGS)

test: deps lint
	for m in $(MODULES); do (cd $$m && go test -race -timeout 14m ./...); done
	go test ./lockkeys ./dispatcher # allocations and full load, which -race leaves out

lint:
	test -z "$$(gofmt -l . | tee /dev/stderr)"
	for m in $(MODULES); do (cd $$m && go vet ./... && go run $(STATICCHECK) ./...); done

# Debian packages are installed as root, or with sudo where there is one.
deps:
	@command -v hledger >/dev/null || { \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "installing hledger, which checks the ledger example"; \
	  $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq hledger; }

bench:
	cd bench && go run ./cmd/report

targets:
	@cd bench && go run ./cmd/targets

fuzz:
	for pkg in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg; done; done
