# CREATE INDEX is sound after crashes, without WAL, on a standby, and with checksums. Another
# session sees its progress.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1, extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
max_parallel_maintenance_workers = 0
autovacuum = off
wal_consistency_checking = 'all, mtpower'
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE TABLE t AS SELECT (i * 7919::bigint) % 50021 AS a, md5(i::text) AS b FROM generate_series(1, 50000) i;
});

# What the index gives must be what the table has.
sub same
{
	my ($server, $table, $key, $name) = @_;
	my $query = "SELECT count(*), md5(string_agg(k::text, ',')) FROM (SELECT $key FROM $table ORDER BY $key) s(k)";
	my $want = $server->safe_psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off; $query");
	my $by_index = "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;";
	like($server->safe_psql('postgres', "$by_index EXPLAIN $query"), qr/Index (Only )?Scan/, "$name: uses the index");
	is($server->safe_psql('postgres', "$by_index $query"), $want, "$name: same rows");
	is($server->psql('postgres', "SELECT mtpower.verify_index(indexrelid, true) FROM pg_index WHERE indrelid = '$table'::regclass"),
		0, "$name: index and table agree");
	return $want;
}

# A standby replays the pages.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', 'CREATE INDEX ta ON t USING mtpower_blink (a); CREATE INDEX tb ON t USING mtpower_blink (b)');
$node->wait_for_catchup($standby);
same($standby, 't', 'a', 'standby, ints');
same($standby, 't', 'b', 'standby, text');
$node->safe_psql('postgres', 'INSERT INTO t SELECT -i, i::text FROM generate_series(1, 5000) i');
$node->wait_for_catchup($standby);
same($standby, 't', 'a', 'standby, inserted into');
# An unlogged one begins anew there.
$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE ut AS SELECT a FROM t; CREATE INDEX uta ON ut USING mtpower_blink (a); CREATE INDEX uth ON ut USING mtpower_hash (a)');
$node->wait_for_catchup($standby);
$standby->promote;
like(same($standby, 'ut', 'a', 'promoted, unlogged'), qr/^0/, 'a promoted standby has no unlogged rows');
$standby->safe_psql('postgres', 'INSERT INTO ut SELECT a FROM t');
same($standby, 'ut', 'a', 'promoted, unlogged, filled');
$standby->stop;

# A build that waits, once it scans the table and once it loads pages, for the lock that we hold: its comparison function
# asks the progress view what it is doing.
$node->safe_psql('postgres', q{
CREATE FUNCTION pause(phase_wanted text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_stat_clear_snapshot();
	IF EXISTS (SELECT 1 FROM pg_stat_progress_create_index WHERE pid = pg_backend_pid() AND phase = phase_wanted) THEN
		PERFORM pg_advisory_xact_lock_shared(1);
	END IF;
END $$;
CREATE FUNCTION pausing_int(i bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF i % 1000 = 0 THEN PERFORM public.pause('building index: scanning table'); END IF;
	RETURN i;
END $$;
CREATE FUNCTION pausing_cmp(x bigint, y bigint) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	PERFORM public.pause('building index: loading tuples in tree');
	RETURN btint8cmp(x, y);
END $$;
CREATE OPERATOR CLASS pausing_ops FOR TYPE bigint USING mtpower_blink AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 pausing_cmp(bigint, bigint);
CREATE TABLE few AS SELECT a FROM t WHERE a BETWEEN 0 AND 2999;
});
my $holder = $node->background_psql('postgres');
for my $case ([ 'pausing_int(a)', 'building index: scanning table' ], [ 'a pausing_ops', 'building index: loading tuples in tree' ])
{
	my ($key, $phase) = @$case;
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	my $builder = $node->background_psql('postgres');
	$builder->query_until(qr/started/, "\\echo started\nCREATE INDEX slow ON few USING mtpower_blink ($key);\n\\echo ended\n");
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}),
		"$phase: the build waits");
	is($node->safe_psql('postgres', 'SELECT command, phase FROM pg_stat_progress_create_index'), "CREATE INDEX|$phase",
		"$phase: so it says");
	is( $node->safe_psql('postgres', $phase =~ /scanning/ ?
			'SELECT blocks_total > 0, blocks_done <= blocks_total FROM pg_stat_progress_create_index' :
			'SELECT tuples_total > 2900, tuples_done <= tuples_total FROM pg_stat_progress_create_index'),
		't|t', "$phase: how far it is");
	$node->safe_psql('postgres', 'CHECKPOINT');
	if ($phase =~ /scanning/)
	{
		$holder->query_safe('SELECT pg_advisory_unlock(1)');
		$builder->query_until(qr/ended/, "");
		$builder->quit;
		same($node, 'few', 'pausing_int(a)', 'a checkpoint later');
		$node->safe_psql('postgres', 'DROP INDEX slow');
		next;
	}
	# The server crashes while pages are being written.
	$node->stop('immediate');
	$builder->{run}->finish;
	$holder->{run}->finish;
	$node->start;
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'slow'}), '0', 'a crash leaves no index');
}
$node->safe_psql('postgres', 'CREATE INDEX slow ON few USING mtpower_blink (a)');
same($node, 'few', 'a', 'built after the crash');
same($node, 't', 'a', 'built before the crash');

# Unlogged: empty after a crash, there after a clean shutdown.
$node->safe_psql('postgres', q{
CREATE UNLOGGED TABLE un AS SELECT a FROM few;
CREATE INDEX una ON un USING mtpower_blink (a);
});
$node->restart;
like(same($node, 'un', 'a', 'unlogged, restarted'), qr/^[1-9]/, 'unlogged rows outlive a restart');
$node->stop('immediate');
$node->start;
like(same($node, 'un', 'a', 'unlogged, after a crash'), qr/^0/, 'unlogged rows are gone after a crash');
$node->safe_psql('postgres', 'INSERT INTO un SELECT * FROM few');
same($node, 'un', 'a', 'unlogged, filled again');

# The file of a relation that skips WAL is synced at commit.
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\nwal_skip_threshold = 0");
$node->restart;
$node->safe_psql('postgres', q{
BEGIN;
CREATE TABLE min AS SELECT * FROM t;
CREATE INDEX mina ON min USING mtpower_blink (a);
CREATE INDEX minb ON min USING mtpower_blink (b);
INSERT INTO min SELECT -i, i::text FROM generate_series(1, 3000) i;
COMMIT;
BEGIN;
TRUNCATE few;
INSERT INTO few SELECT a FROM t;
COMMIT;
BEGIN;
REINDEX INDEX ta;
ROLLBACK;
});
$node->stop('immediate');
$node->start;
same($node, 'min', 'a', 'without WAL, ints');
same($node, 'min', 'b', 'without WAL, text');
same($node, 'few', 'a', 'without WAL, truncated and filled');
same($node, 't', 'a', 'REINDEX rolled back');

$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');
done_testing();
