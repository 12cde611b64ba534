# mtpower: PGXS build.  See README.md for the targets people use.

MODULE_big = mtpower
EXTENSION = mtpower
DATA_built = mtpower--1.0.sql
PGFILEDESC = "mtpower - bulk loading of heavily indexed tables"

OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
PG_CPPFLAGS = -I$(srcdir)/src
PG_CFLAGS = -std=gnu11 -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Wno-cast-function-type -Wno-declaration-after-statement

REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
REGRESS_OPTS = --inputdir=. --outputdir=. --no-locale --encoding=UTF8

# The server's headers and flags were made for gcc.
ifneq (,$(findstring clang,$(CC)))
PG_CFLAGS += -Wno-unknown-warning-option -Wno-ignored-optimization-argument -Wno-ignored-attributes
endif

EXTRA_CLEAN = mtpower--1.0.sql $(OBJS:.o=.bc)

PG_CONFIG ?= pg_config
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq (,$(PGXS))
include $(PGXS)
else
all install installcheck clean:
	@echo "no PostgreSQL server development files: $(PG_CONFIG) --pgxs finds none (make test and make demo install them)" >&2; exit 1
endif

# The install script is the subsystems' parts, in the order of their dependencies.
SQL_PARTS = src/prelude.sql src/table/table.sql src/blink/blink.sql src/hash/hash.sql src/inspect/inspect.sql src/opclass/opclass.sql src/batch/batch.sql

mtpower--1.0.sql: $(SQL_PARTS)
	cat $^ > $@

# Every object depends on every header: the tree is small, a stale object is expensive.
$(OBJS): $(wildcard src/*.h src/*/*.h)

# These work on a machine without PostgreSQL as well: they install what is missing.
.PHONY: test test-assert judge
test:
	@test/run

# The same with an assertion-enabled PostgreSQL, which is built first where it is not there.
ASSERT_PREFIX ?= /opt/mtpower-pg15-assert
test-assert:
	@test/build-server assert $(ASSERT_PREFIX)
	@PG_CONFIG=$(ASSERT_PREFIX)/bin/pg_config test/run

.PHONY: demo demo-stop
demo:
	@bench/demo start

demo-stop:
	@bench/demo stop

# Benchmarks beside the peers: make bench [PARTS="copy read ..."]
.PHONY: bench
bench:
	@bench/run $(PARTS)

# The kill -9 judge at length: make judge ROUNDS=20
judge: export ROUNDS := $(or $(ROUNDS),20)
judge:
	@PARTS=tap TESTS="judge judge_promote" test/run
