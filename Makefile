# The two commands a newcomer needs are `make run` and `make test`; each sets up
# what it needs. The other targets are parts of them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
BIN     := bin/fairlead
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
LINT    := $(GO) tool -modfile=.ci/lint.mod golangci-lint
APT     := $(if $(filter-out 0,$(shell id -u)),sudo) apt-get
BROWSER ?= /usr/bin/chromium

# Everything but the race detector is built without cgo, as the program is
# shipped, so that no package is compiled twice.
export CGO_ENABLED := 0

.PHONY: help run test build generate check-generated lint vuln unit browser bench setup setup-apt setup-go setup-npm

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

run: build ## build, start with the demo model and print the link to open
	./$(BIN) serve

build: ## build bin/fairlead
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/fairlead

test: setup check-generated lint unit browser vuln ## set up what is needed and run everything

# Without vet, which is a part of lint.
unit: build ## Go tests with the race detector, black-box tests, JavaScript unit tests and types
	CGO_ENABLED=1 TEST_POSTGRES=required E2E_BINARY=$(CURDIR)/$(BIN) $(GO) test -race -vet=off -timeout 20m ./...
	npm run --silent test:unit
	npm run --silent test:types

browser: build ## browser tests in Chromium against the built binary
	CHROMIUM=$(BROWSER) npm run --silent test:browser

bench: ## benchmarks; each prints a ratio against a peer or limit of the same run
	$(GO) test -run '^$$' -bench . -benchtime 2s ./relay/sqldb ./gateway/markdown ./gateway/socket ./e2e

generate: ## regenerate templ components and format
	$(GO) tool templ generate -log-level warn
	$(GO) tool gofumpt -w cmd gateway relay views static e2e

check-generated: ## fail when generated files differ from what is committed
	@before="$$(git status --porcelain; git diff | sha256sum)"; $(MAKE) --no-print-directory generate; \
	after="$$(git status --porcelain; git diff | sha256sum)"; \
	[ "$$before" = "$$after" ] || { git status --short; echo 'make generate changed files: commit them'; exit 1; }

lint: ## golangci-lint
	$(LINT) run ./...

vuln: ## govulncheck; where its database is out of reach it says so and passes
	@code=0; out="$$($(GO) tool govulncheck ./... 2>&1)" || code=$$?; \
	if [ $$code -eq 3 ]; then echo "$$out"; exit 1; fi; \
	if [ $$code -ne 0 ]; then echo "govulncheck could not run (its database is out of reach), skipped"; fi

setup: setup-apt setup-go setup-npm ## install what the tests need (apt, Go modules, npm)

setup-apt: # a C compiler for the race detector, a browser, a PostgreSQL that tests start by themselves
	@missing=; command -v gcc >/dev/null || missing="gcc libc6-dev"; \
	[ -x $(BROWSER) ] || missing="$$missing chromium"; \
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$$missing postgresql"; \
	[ -z "$$missing" ] || { $(APT) update -qq && DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq $$missing; }

setup-go:
	$(GO) mod download

setup-npm: node_modules/.package-lock.json

node_modules/.package-lock.json: package-lock.json
	npm ci --no-audit --no-fund
	@touch $@
