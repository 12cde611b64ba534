# mtpower: PGXS build.  See README.md for the targets people use.

MODULE_big = mtpower
EXTENSION = mtpower
DATA = mtpower--1.0.sql mtpower--1.0--1.1.sql
DATA_built = mtpower--1.1.sql
PGFILEDESC = "mtpower - bulk loading of heavily indexed tables"

OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
PG_CPPFLAGS = -I$(srcdir)/src
PG_CFLAGS = \
	-std=gnu11 -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Wno-cast-function-type -Wno-declaration-after-statement

# Lists of equal keys that are full with so few TIDs, for tests: src/page/list.h
ifdef LIST_TIDS
PG_CPPFLAGS += -DMTP_LIST_FULL=$(LIST_TIDS)
endif

# The buffer can live in a file on persistent memory where libpmem is: WITH_PMEM=yes insists on it,
# WITH_PMEM=no does without.
WITH_PMEM ?= $(if $(shell pkg-config --exists libpmem 2>/dev/null && echo found),yes,no)
ifeq (yes,$(WITH_PMEM))
PG_CPPFLAGS += -DMTP_WITH_PMEM $(shell pkg-config --cflags libpmem)
SHLIB_LINK += $(shell pkg-config --libs libpmem || echo -lpmem)
endif

# make installcheck, make prove_installcheck PROVE_TESTS=t/batch/faults.pl: test/README.md says what
# they need.
REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
REGRESS_OPTS = --no-locale --encoding=UTF8
# Specs that hold a process at an injection point need a server with assertions.
HAS_ASSERTIONS = $(shell grep '^.define USE_ASSERT_CHECKING' \
	'$(shell $(PG_CONFIG) --includedir-server)/pg_config.h')
SPECS = $(if $(HAS_ASSERTIONS),$(wildcard test/isolation/specs/*.spec), \
	$(shell grep -L debug_injection test/isolation/specs/*.spec))
ISOLATION = $(sort $(basename $(notdir $(SPECS))))
ISOLATION_OPTS = --inputdir=test/isolation --no-locale --encoding=UTF8
PROVE_TESTS ?= t/*/*.pl

# The server's headers and flags were made for gcc.
ifneq (,$(findstring clang,$(CC)))
PG_CFLAGS += -Wno-unknown-warning-option -Wno-ignored-optimization-argument -Wno-ignored-attributes
endif

EXTRA_CLEAN = mtpower--1.1.sql $(OBJS:.o=.bc)

PG_CONFIG ?= pg_config
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq (,$(PGXS))
include $(PGXS)
else
all install installcheck clean:
	@echo "no PostgreSQL server development files: $(PG_CONFIG) --pgxs finds none" \
		"(make test and make demo install them)" >&2; exit 1
endif

# What TAP tests take from the environment
installcheck prove_installcheck: export PERL5LIB := $(CURDIR)/test/perl:$(PERL5LIB)
installcheck prove_installcheck: export TEMP_CONFIG := $(CURDIR)/test/tap.conf
installcheck prove_installcheck: export PG_CONFIG := $(PG_CONFIG)
.PHONY: prove_installcheck
prove_installcheck:
	$(prove_installcheck)

# The install script is the subsystems' parts, in the order of their dependencies.  Scripts of older
# versions, and those that update from them, are files as they were released.
SQL_PARTS = \
	src/core/prelude.sql src/buffer/buffer.sql src/table/table.sql src/blink/blink.sql \
	src/hash/hash.sql src/zone/zone.sql src/index/inspect.sql src/opclass/opclass.sql src/batch/batch.sql \
	src/pagedir/pagedir.sql src/warm/warm.sql

mtpower--1.1.sql: $(SQL_PARTS)
	cat $^ > $@

# Every object depends on every header: the tree is small, a stale object is expensive.
$(OBJS): $(wildcard src/*.h src/*/*.h)

# These work on a machine without PostgreSQL as well: they install what is missing.  There are three
# tiers, which PARTS and TESTS narrow further: what takes less than five minutes on two cores, less
# than 15, and everything.
.PHONY: quicktest test test-all
quicktest test: export PARTS := $(or $(PARTS),layers indent regress isolation tap)
quicktest: export TESTS_tap := crash/judge
test: export TESTS_tap := backup/* crash/* house/* replication/* shards/* unit/*
quicktest test test-all:
	@test/run

# Everything on 15, and the quick tier on the other releases, or on RELEASES, whose servers are built
# first where they are not there
.PHONY: test-releases
test-releases:
	@test/releases $(RELEASES)

# Everything, with an assertion-enabled PostgreSQL of release PG, which is built first where it is
# not there.
.PHONY: test-assert
PG ?= 15
ASSERT_PREFIX ?= /opt/mtpower-pg$(PG)-assert
test-assert:
	@test/build-server $(PG) assert $(ASSERT_PREFIX)
	@PG_CONFIG=$(ASSERT_PREFIX)/bin/pg_config test/run

# The same with a PostgreSQL that checks itself: all that is chosen, or what is fast enough there.
.PHONY: test-sanitize test-valgrind
SANITIZE_PREFIX ?= /opt/mtpower-pg$(PG)-sanitize
test-sanitize: export PARTS := $(or $(PARTS),regress isolation tap)
test-sanitize: export ROUNDS := $(or $(ROUNDS),2)
test-sanitize: export TESTS_tap = \
	batch/c_code batch/callers batch/faults \
	batch/interrupts batch/stress batch/vacuum:hash batch/worker_kill:hash blink/lists \
	blink/scan_race blink/vacuum_race btree/conflicts btree/faults btree/taken \
	btree/vacuum_race buffer/coherence buffer/hotlist buffer/oracle \
	buffer/pmem_files buffer/race buffer/tables buffer/warm crash/btree_split crash/disk_full \
	crash/hash_loads crash/hash_splits crash/judge crash/leaf_split crash/lists fuzz/blink_damage \
	fuzz/hash_damage hash/edges pagedir/admit pagedir/learnt pagedir/race pagedir/scan \
	pagedir/types replication/regress zone/*
test-sanitize:
	@test/build-server $(PG) sanitize $(SANITIZE_PREFIX)
	@PG_CONFIG=$(SANITIZE_PREFIX)/bin/pg_config test/run

VALGRIND_PREFIX ?= /opt/mtpower-pg$(PG)-valgrind
test-valgrind: export PARTS := $(or $(PARTS),regress)
test-valgrind: export TESTS_regress = \
	batch_errors batch_subxact blink_build blink_scan blink_vacuum buffer_hash \
	directory_scan hash_basic hash_changes hash_reads page_info prepared table_am \
	table_build table_directory verify
test-valgrind:
	@test/build-server $(PG) valgrind $(VALGRIND_PREFIX)
	@PG_CONFIG=$(VALGRIND_PREFIX)/bin/pg_config test/run

# Packages for PostgreSQL 15, 17 and 18, or for RELEASES, built and tried in chroots
.PHONY: test-packages
test-packages:
	@test/packages $(RELEASES)

# What PGXN takes: the commit that is checked out, in a zip whose name has default_version as PGXN
# writes it, with three numbers
.PHONY: dist
DIST = mtpower-$(shell sed -n "s/^default_version = '\(.*\)'/\1/p" mtpower.control).0
dist:
	@[ -e .git ] || { echo "make dist packs a commit: this is not a clone of the repository" >&2; \
		exit 1; }
	git archive --format=zip --prefix=$(DIST)/ --output=$(DIST).zip HEAD

# What the compilers' analysers find; whether subsystems include what lies below them alone
.PHONY: analyse layers pgindent
analyse:
	@PARTS=analyse test/run

layers:
	@test/layers.sh

pgindent:
	@test/indent.sh

# What editors and language servers read
.PHONY: compile_commands
compile_commands:
	@{ echo '['; separator=; for source in $(OBJS:.o=.c); do \
		printf '%s{"directory": "%s", "file": "%s", "command": "%s"}\n' \
			"$$separator" '$(CURDIR)' $$source \
			'$(CC) $(CFLAGS) $(CPPFLAGS) -c '$$source; separator=,; \
	done; echo ']'; } > compile_commands.json

.PHONY: demo demo-stop
demo:
	@bench/demo start

demo-stop:
	@bench/demo stop

.PHONY: demo-shards demo-shards-stop
demo-shards:
	@bench/demo-shards start

demo-shards-stop:
	@bench/demo-shards stop

# Benchmarks beside the peers: make bench [PARTS="copy read ..."]
.PHONY: bench
bench:
	@bench/run $(PARTS)

# The judge and the oracle of the buffer at length: make soak [MINUTES=10]; or the judge until so
# many kill -9: make judge [ROUNDS=20].  Both take SEED=, CLIENTS= and JUDGE_SECONDS=.
.PHONY: soak judge
soak: export MINUTES := $(or $(MINUTES),10)
soak:
	@PARTS=tap TESTS="crash/judge buffer/oracle" test/run

judge: export ROUNDS := $(or $(ROUNDS),20)
judge:
	@PARTS=tap TESTS="crash/judge replication/judge_promote" test/run
