# Two commands do all the set-up: `make demo` and `make test`.

CARGO ?= cargo
MYSQL := target/servers/mysql-9.7/mysqld

.PHONY: demo test drills lint verdicts bench bench-quick mysql bless clean help

help: ## Show the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

demo: ## Install what is missing, build, run the quickstart on a private throw-away server
	@sh tests/servers/need.sh mariadb
	$(CARGO) build --release --locked
	./target/release/capbench plans/quickstart.toml

# The tests wait for servers most of the time: more of them run side by side than there are cores.
test: ## Run all tests (needs MariaDB; MySQL 9.7 too after `make mysql`, 5.6 after `make mysql56`)
	@sh tests/servers/need.sh mariadb
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-4} $(CARGO) test --locked --no-fail-fast

drills: ## Induce each bottleneck on private servers and require its name (needs a C compiler for slow disks; ten minutes)
	@sh tests/servers/need.sh mariadb
	$(CARGO) test --locked --test drills -- --include-ignored --test-threads 1

lint: ## Formatting and lints, as CI runs them
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings

verdicts: ## A/A and A/B runs on real servers: false alarms, and whether +5 % is found (ten minutes a server)
	@sh tests/servers/need.sh mariadb
	$(CARGO) test --locked --test verdicts -- --ignored --nocapture

bench: ## capbench against sysbench on private servers; writes docs/performance.md (about 40 minutes; BENCH="--help" shows the options)
	@sh tests/servers/need.sh mariadb
	@sh tests/servers/sysbench.sh
	$(CARGO) bench --locked --bench bench -- --write docs/performance.md $(BENCH)

bench-quick: ## The same at the tiniest setting: shows that it works, measures nothing
	@sh tests/servers/need.sh mariadb
	@sh tests/servers/sysbench.sh
	$(CARGO) test --locked --bench bench -- --quick

mysql: $(MYSQL) ## Put a private MySQL 9.7 into target/ for the tests (root, 30 s)

$(MYSQL):
	sh tests/servers/mysql-9.7.sh

.PHONY: mysql56
mysql56: ## Put a private MySQL 5.6 into target/ for the tests, where npm is there to fetch it
	@sh tests/servers/mysql-5.6.sh || echo "skipped: the tests run without MySQL 5.6"

bless: ## Rewrite what is generated from the code: plans/reference.toml, docs/plan.md, snapshots
	CAPBENCH_BLESS=1 INSTA_UPDATE=always TRYCMD=overwrite $(CARGO) test --locked

clean: ## Remove what was built
	$(CARGO) clean

.PHONY: faults
faults: ## Kill capbench at twenty moments on each server, six loads, and every other fault drill: everything is put back
	@sh tests/servers/need.sh mariadb
	CAPBENCH_KILLS=20 $(CARGO) test --locked --test end_to_end -- --include-ignored faults
	CAPBENCH_LOAD_KILLS=6 $(CARGO) test --locked --test dataset_load
