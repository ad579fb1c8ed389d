# Everything here works in a fresh clone with Go, a C compiler and pip or npm.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GO ?= go

.PHONY: build demo test race lint vuln runtime bench clean

build: runtime ## bin/verisci
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/verisci ./cmd/verisci

demo: build ## claims through topics to verdicts, embedded
	bin/verisci demo

TESTLOG ?= bin/tests.json
test: runtime ## all tests; those that need data read it from VERISCI_DATA, skips are listed at the end
	$(GO) vet ./...
	$(GO) tool gotestsum --format pkgname --jsonfile $(TESTLOG) -- -timeout 45m ./...

race: runtime ## under the race detector; the system tests run a binary of their own and are left out
	$(GO) test -race -timeout 45m $$($(GO) list ./... | grep -v internal/systemtest)

lint:
	test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

vuln: ## known vulnerabilities; needs the Go vulnerability database
	$(GO) tool govulncheck ./...

bench: runtime
	$(GO) test -run '^$$' -bench . -benchmem ./...

runtime: ## ONNX Runtime's shared library
	./models/runtime/fetch.sh bin/lib

clean:
	rm -rf bin
