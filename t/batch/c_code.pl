# C code inserts rows outside of the executor's statements (test/modules/c_inserts.c): within
# another statement, in internal subtransactions, by multi_insert, and in commit callbacks of a
# library that was loaded before mtpower. All rows are found by all indexes.
#
# Variants: blink hash btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpVariant;
use MtpLoad;

my $am = access_method();

my $dir = MtpFaults::compile('c_inserts');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$dir:\$libdir'
shared_preload_libraries = 'c_inserts,mtpower'
mtpower.batching = on
mtpower.batch_min_rows = 0
mtpower.batch_size = '64kB'
max_prepared_transactions = 2
});
$node->start;
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE TABLE t (a int, b text) USING mtpower;
CREATE INDEX t_a ON t USING $am (a);
CREATE INDEX t_b ON t USING $am (b);
CREATE TABLE o (a int, b text) USING mtpower;
CREATE INDEX o_a ON o USING $am (a);
CREATE FUNCTION c_insert(regclass, int, int, text, bool) RETURNS int LANGUAGE c AS 'c_inserts';
CREATE FUNCTION c_insert_sub(regclass, int, int, text, bool) RETURNS int LANGUAGE c AS 'c_inserts';
CREATE FUNCTION c_insert_multi(regclass, int, int, text) RETURNS int LANGUAGE c AS 'c_inserts';
CREATE FUNCTION c_insert_truncated(regclass, int, text) RETURNS int LANGUAGE c AS 'c_inserts';
CREATE FUNCTION found(text) RETURNS bigint LANGUAGE sql VOLATILE SET enable_seqscan = off AS 'SELECT count(*) FROM t WHERE b = \$1';
CREATE FUNCTION undone(i int) RETURNS int LANGUAGE plpgsql AS \$\$
BEGIN
	BEGIN
		PERFORM set_config('mtpower.core_indexes', 'insert', true);
		PERFORM c_insert('t', i, 500, 'gone', true);
		PERFORM set_config('mtpower.debug_injection', CASE WHEN current_setting('mtpower.batching') = 'on' THEN 'btree_insert=error' ELSE '' END, true);
		PERFORM found('gone');
		RAISE EXCEPTION 'no error' USING ERRCODE = CASE WHEN current_setting('mtpower.batching') = 'on' THEN 'P0001' ELSE 'XX000' END;
	EXCEPTION WHEN internal_error THEN
		NULL;
	END;
	RETURN i;
END \$\$;
CREATE FUNCTION verify() RETURNS void LANGUAGE sql AS
	\$\$SELECT verify_one('t_a'), verify_one('t_b'), verify_one('o_a')\$\$;
});

# The same with and without queueing.  $batched is how many entries of t_a come in batches.
sub check
{
	my ($what, $sql, $expected, $batched) = @_;
	foreach my $batching (qw(on off))
	{
		my $out = $node->safe_psql('postgres', "SELECT mtpower.stat_reset()\\g /dev/null\nSET mtpower.batching = $batching; TRUNCATE t, o; $sql; "
			. "SELECT b, found(b), count(*) FROM t GROUP BY b ORDER BY b; SELECT verify()");
		$out =~ s/\n?$//;
		is($out, $expected, "$what, batching $batching");
		is($node->safe_psql('postgres', q{SELECT coalesce(sum(entries), 0) FROM mtpower.stat_batches WHERE index = 't_a'::regclass}), $batching eq 'on' ? $batched : 0,
			"$what, batching $batching: entries in batches") if defined $batched;
	}
}

check('in no statement that modifies anything', q{SELECT c_insert('t', 1, 3000, 'x', true)}, "3000\nx|3000|3000");
check('in a statement on another table',
	q{INSERT INTO o SELECT c_insert('t', i, 1000, 'x', true) FROM generate_series(1, 5) i}, 'x|5000|5000');
check('which then reads it',
	q{INSERT INTO o SELECT c_insert('t', i, 1000, 'x', true), found('x') FROM generate_series(1, 3) i; SELECT * FROM o},
	"1000|1000\n1000|2000\n1000|3000\nx|3000|3000");
# The index is closed when it is read; its cache entry may be rebuilt before.
if ($node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on')
{
	check('which reads it with caches discarded',
		q{SET debug_discard_caches = 1; INSERT INTO o SELECT c_insert('t', i, 100, 'x', true), found('x') FROM generate_series(1, 3) i; RESET debug_discard_caches; SELECT * FROM o},
		"100|100\n100|200\n100|300\nx|300|300");

	# An error in the middle of its entries ends a subtransaction, and not the statement around it.  (Of others workers may put them in.)
	check('whose entries meet an error in a subtransaction that is rolled back', q{INSERT INTO o SELECT undone(i) FROM generate_series(1, 3) i; SELECT * FROM o},
		"1|\n2|\n3|") if $am eq 'btree';
}
check('in a statement on the same table',
	q{INSERT INTO t SELECT c_insert('t', i, 1000, 'inner', true), 'outer' FROM generate_series(1, 3) i}, "inner|3000|3000\nouter|3|3");
check('and the table unlocked at once',
	q{INSERT INTO o SELECT c_insert('t', i, 1000, 'x', false) FROM generate_series(1, 5) i}, 'x|5000|5000');
check('by multi_insert', q{INSERT INTO o SELECT c_insert_multi('t', i, 1000, 'x') FROM generate_series(1, 5) i}, 'x|5000|5000');
check('by multi_insert outside of a statement', q{SELECT sum(c_insert_multi('t', i, 1000, 'x')) FROM generate_series(1, 5) i}, "5000\nx|5000|5000");
check('in an internal subtransaction',
	q{INSERT INTO o SELECT c_insert_sub('t', i, 1000, 'x', true) FROM generate_series(1, 5) i}, 'x|5000|5000');
check('in internal subtransactions, some of which are rolled back',
	q{INSERT INTO o SELECT c_insert_sub('t', i, 1000, CASE i % 2 WHEN 1 THEN 'kept' ELSE 'gone' END, i % 2 = 1) FROM generate_series(1, 5) i},
	'kept|3000|3000');
check('and between them others',
	q{INSERT INTO t SELECT CASE i % 3 WHEN 0 THEN c_insert('t', i, 1000, 'between', true) ELSE
		c_insert_sub('t', i, 1000, CASE i % 3 WHEN 1 THEN 'kept' ELSE 'gone' END, i % 3 = 1) END, 'outer' FROM generate_series(1, 6) i},
	"between|2000|2000\nkept|2000|2000\nouter|6|6");
check('in a subtransaction of one that is rolled back',
	q{DO $$ BEGIN
		INSERT INTO o SELECT c_insert_sub('t', i, 1000, 'gone', true) FROM generate_series(1, 5) i;
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN END $$; INSERT INTO t SELECT i, 'x' FROM generate_series(1, 3000) i}, 'x|3000|3000');
check('and the table is empty in a subtransaction that is rolled back', q{SELECT c_insert_truncated('t', 1, 'x')}, "1\nx|1|1");
check('at commit, of a statement that inserted',
	q{SET c_inserts.at_commit = 't'; INSERT INTO t SELECT i, 'x' FROM generate_series(1, 3000) i; RESET c_inserts.at_commit},
	"commit, by SPI|2000|2000\ncommit, directly|2000|2000\nx|3000|3000", 3000);
check('at PREPARE',
	q{BEGIN; INSERT INTO t SELECT i, 'x' FROM generate_series(1, 3000) i; SET LOCAL c_inserts.at_commit = 't'; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'},
	"commit, by SPI|1000|1000\ncommit, directly|1000|1000\nx|3000|3000", 3000);
check('at the commit of subtransactions of a statement that inserts',
	q{SET c_inserts.at_subcommit = 't'; INSERT INTO o SELECT c_insert_sub('t', i, 1000, 'x', i <> 2) FROM generate_series(1, 4) i; RESET c_inserts.at_subcommit},
	"subcommit|3000|3000\nx|3000|3000", 3000);
check('and of one whose parent is rolled back',
	q{SET c_inserts.at_subcommit = 't'; INSERT INTO t SELECT i, 'y' FROM generate_series(1, 3000) i;
	DO $$ BEGIN INSERT INTO o SELECT c_insert_sub('t', i, 1000, 'x', true) FROM generate_series(1, 4) i; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN END $$;
	RESET c_inserts.at_subcommit}, 'y|3000|3000', 7000);

# While a statement's entries are queued the table stays, though who inserted them has let go of it.
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
my $loader = $node->background_psql('postgres');
$node->safe_psql('postgres', 'TRUNCATE t, o');
$loader->query_until(qr/go/, "\\echo go\nINSERT INTO o SELECT c_insert('t', 1, 5000, 'x', false) FROM pg_sleep(0) UNION ALL SELECT 1 FROM pg_advisory_lock_shared(1);\n");
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}), 'a statement goes on behind what was inserted');
my ($ret, $out, $err) = $node->psql('postgres', 'BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE NOWAIT');
like($err, qr/could not obtain lock/, 'the table is kept until the entries are in');
$holder->quit;
$loader->quit;
is($node->safe_psql('postgres', q{SELECT found('x'), verify()}), '5000|', 'and they are');

# Of a subtransaction that was rolled back nothing is queued when VACUUM gives its rows' places to others.
$holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
$node->safe_psql('postgres', 'TRUNCATE t, o');
$loader = $node->background_psql('postgres');
$loader->query_until(qr/go/, "\\echo go\nINSERT INTO o SELECT c_insert_sub('t', 1, 5000, 'gone', false) FROM pg_sleep(0) UNION ALL SELECT 1 FROM pg_advisory_lock_shared(1);\n");
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}), 'a statement goes on behind a subtransaction that was rolled back');
$node->safe_psql('postgres', $_) foreach 'VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) t',
	q{SET mtpower.batching = off; INSERT INTO t SELECT i, 'new' FROM generate_series(1, 5000) i};
is($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM t WHERE ctid < '(1,0)'}), 't', 'new rows take the places of those that are gone');
$holder->quit;
$loader->quit;
is($node->safe_psql('postgres', q{SELECT found('gone'), found('new'), verify()}), '0|5000|', 'no entry leads to them');
is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, 'no memory is held');

$node->stop;
done_testing();
