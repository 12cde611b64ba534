# Memory is short: a load goes to many partitions, and other loads run beside a session that holds
# what there is. Each load ends, its batches have a useful size, and both kinds of indexes find
# every row.
#
# Variants: blink btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpVariant;

my $am = access_method();
my $partitions = 300;
my $rows = 120000;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_memory = 1041kB
max_locks_per_transaction = 1000
autovacuum = off
fsync = off
mtpower.batch_min_rows = 10
});
$node->start;
my $faults = MtpFaults->new($node, 'held');
my $held = 'SELECT held_bytes / 1024 FROM mtpower.stat_memory';
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE TABLE held (a int) USING mtpower;
CREATE INDEX held_a ON held USING $am (a);
CREATE TABLE plain (a int) USING mtpower;
CREATE INDEX plain_a ON plain USING $am (a);
SET default_table_access_method = mtpower;
CREATE TABLE parts (p int, a int, b int) PARTITION BY LIST (p);
SELECT format('CREATE TABLE parts_%s PARTITION OF parts FOR VALUES IN (%s)', p, p) FROM generate_series(0, $partitions - 1) p \\gexec
CREATE INDEX ON parts USING $am (a);
CREATE INDEX ON parts USING mtpower_hash (b);
});

# A load that takes all of the memory but so many blocks, and then waits for its client: runs of 1, 2, 4 … blocks behind a header
# of one.  Where there is no room for the next one in one piece it takes half as much.  psql and its library keep
# some kB back, so the last rows, a few at a time, are written with many blanks.
sub hold
{
	my ($free) = @_;
	my $job = $faults->start_fed('', 'COPY held FROM STDIN');
	my ($row, $now, $bytes) = (0, 0, 0);
	for (my $tries = 0; $tries < 1000 && $now < 1041 - $free; $tries++)
	{
		my ($n, $blanks) = $row < 60000 ? (2000, 0) : (24, 1000);
		my $lines = join('', map { ' ' x $blanks . $_ . "\n" } $row + 1 .. $row + $n);
		$faults->feed($job, $lines);
		$row += $n;
		$bytes += length($lines);
		$node->poll_query_until('postgres', "SELECT bytes_processed >= $bytes - 16384 FROM pg_stat_progress_copy UNION ALL SELECT $bytes < 16384 LIMIT 1") or die 'the load does not read';
		$now = $node->safe_psql('postgres', $held);
	}
	is($now, 1041 - $free, "a silent load holds all of the memory but $free blocks");
	return ($job, $row);
}

sub release
{
	my ($job, $row) = @_;
	is($faults->finish($job), '', 'the silent load ends well');
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM held WHERE a BETWEEN 1 AND $row"), $row, 'its rows are found');
	is($node->safe_psql('postgres', $held), 0, 'and no memory is held');
	$node->safe_psql('postgres', 'TRUNCATE held');
}

sub batches
{
	return $node->safe_psql('postgres', 'SELECT coalesce(sum(batches), 0) FROM mtpower.stat_batches');
}

# Loads into all partitions, in order of arrival that has them all at a time; asks both indexes for each row.
sub load_parts
{
	my ($what, $min) = @_;
	my $err;
	$node->safe_psql('postgres', 'TRUNCATE parts; SELECT mtpower.stat_reset()');
	is($node->psql('postgres', "SET statement_timeout = '100s'; INSERT INTO parts SELECT g * 7 % $partitions, g, g FROM generate_series(1, $rows) g", stderr => \$err), 0, "$what: the load ends") or diag($err);
	my $batches = batches();
	# Each queue may leave one batch to the end; all others have 256 entries at least.
	cmp_ok($batches, '<=', 2 * $partitions + 2 * $rows / 256, "$what: few batches");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM generate_series(1, $rows) g, LATERAL (SELECT 1 FROM parts WHERE p = g * 7 % $partitions AND a = g OFFSET 0) s"), $rows, "$what: each row is found by its index on a");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, $rows) g, LATERAL (SELECT 1 FROM parts WHERE p = g * 7 % $partitions AND b = g OFFSET 0) s"), $rows, "$what: and by its hash index");
	return $batches;
}

# One block alone is a batch's header without a run.
my ($job, $row) = hold(1);
my $err;
is($node->psql('postgres', "SET statement_timeout = '20s'; INSERT INTO plain SELECT g FROM generate_series(1, 1000) g", stderr => \$err), 0, 'a load ends for which there is one block') or diag($err);
is($node->safe_psql('postgres', $held), 1040, 'it holds nothing afterwards');
cmp_ok($node->safe_psql('postgres', "SELECT coalesce(sum(batches), 0) FROM mtpower.stat_batches WHERE index = 'plain_a'::regclass"), '<=', 4, 'it made no batch of a few entries each');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM plain WHERE a BETWEEN 1 AND 1000'), 1000, 'its rows are found');
load_parts('beside a silent load');
release($job, $row);

load_parts('more queues than memory');
is($node->safe_psql('postgres', $held), 0, 'no memory is held');

# Which rows of a further partition go in at once: 32 where they come partition by partition and the one before had few, none where it had
# as many; 16 where each comes for another one.  The first 12 partitions (24 queues) have batches from the statement's 17th row on, of COPY from the first.
my $file = $node->basedir . '/rows';
for (['20 rows each, in order', 'INSERT INTO parts SELECT (g - 1) / 20, g, g FROM generate_series(1, 2000) g', 2 * (12 * 20 - 16)],
	['40 rows each, in order', 'INSERT INTO parts SELECT (g - 1) / 40, g, g FROM generate_series(1, 4000) g', 2 * (100 * 40 - 16)],
	['20 rows each, by COPY', "COPY (SELECT g / 20, g, g FROM generate_series(0, 1999) g) TO '$file'; COPY parts FROM '$file'", 2 * 12 * 20],
	['40 rows each, by COPY', "COPY (SELECT g / 40, g, g FROM generate_series(0, 3999) g) TO '$file'; COPY parts FROM '$file'", 2 * 100 * 40],
	['20 rows each, for another one each', 'INSERT INTO parts SELECT g % 100, g, g FROM generate_series(1, 2000) g', 2 * (12 * 20 + 16 * 3 + 72 * 4)])
{
	my ($what, $load, $entries) = @$_;
	$node->safe_psql('postgres', "TRUNCATE parts; SELECT mtpower.stat_reset('batches')");
	$node->safe_psql('postgres', "SET mtpower.batch_min_rows = 16; $load");
	is($node->safe_psql('postgres', 'SELECT sum(entries) FROM mtpower.stat_batches'), $entries, "$what: entries in batches");
}

# Each of many queues begins with two blocks of 1 kB: 2,400 entries of 600 queues have room in a megabyte, but 600 x 32 kB have not.
$node->safe_psql('postgres', "TRUNCATE parts; SELECT mtpower.stat_reset(); SET mtpower.batch_min_rows = 0; INSERT INTO parts SELECT g % $partitions, g, g FROM generate_series(1, 4 * $partitions) g");
is($node->safe_psql('postgres', 'SELECT sum(entries) || chr(32) || sum(batches) FROM mtpower.stat_batches'), '2080 520', 'as many queues as there are pairs of blocks have one batch each');
is($node->safe_psql('postgres', $held), 0, 'no memory is held');
$node->stop;

# Errors while the owner applies batches that are its alone.  A barrier meets the error, in a subtransaction that is rolled back; the
# statement goes on, and applies the rest of them at its end.
$node->append_conf('postgresql.conf', 'mtpower.batch_memory = 16MB');
$node->start;
$node->safe_psql('postgres', q{CREATE TABLE log (a int); CREATE FUNCTION probe(i int, last int, stop text, condition text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF i = last THEN
		INSERT INTO log VALUES (i);
		BEGIN
			PERFORM set_config('mtpower.debug_injection', stop, true);
			EXECUTE 'SELECT count(*) FROM parts_200 WHERE ' || condition;
			RAISE 'no error';
		EXCEPTION WHEN raise_exception THEN
			RAISE;
		WHEN others THEN
			RAISE NOTICE 'caught: %', SQLERRM;
		END;
	END IF;
	RETURN i;
END $$});
foreach my $case ($faults->has_stops ? ([ 'owner_claimed', 'a > 0' ], [ 'sort', 'a > 0' ], [ 'prepare', 'b = 1' ], [ 'step_checked', 'b = 1' ], [ 'step_applied', 'a > 0' ], [ 'step_applied', 'b = 1' ]) : ())
{
	my ($stop, $condition) = @$case;
	$node->safe_psql('postgres', 'TRUNCATE parts');
	my $err;
	is($node->psql('postgres', "SET mtpower.batch_min_rows = 0; SET enable_seqscan = off; INSERT INTO parts SELECT g % $partitions, probe(g, 30000, '$stop=error', '$condition'), g FROM generate_series(1, 60000) g", stderr => \$err), 0, "$stop: the load ends") or diag($err);
	like($err, qr/caught: .*$stop/, "$stop: a barrier met an error");
	is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT verify_one(oid) FROM pg_class WHERE relkind = 'i' AND relname LIKE 'parts_%' OFFSET 0) s"), 2 * $partitions, "$stop: all indexes are as they should be");
	is($node->safe_psql('postgres', $held), 0, "$stop: no memory is held");

	# The same at the statement's end: nothing stays.
	isnt($node->psql('postgres', "SET mtpower.batch_min_rows = 0; SET mtpower.debug_injection = '$stop=error'; INSERT INTO parts SELECT g % $partitions, g, g FROM generate_series(1, 10000) g", stderr => \$err), 0, "$stop: a load fails at its end");
	is($node->safe_psql('postgres', $held), 0, "$stop: and holds no memory");
}
done_testing();
