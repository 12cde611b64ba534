# A restarted standby replays from its last restartpoint on. Pages that it wrote after that point
# already have changes of records that come again: without full-page images only their LSNs say
# so. Pages that it should have written before that point have all older changes: it writes only
# what replay marked dirty.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
full_page_writes = off
autovacuum = off
mtpower.batch_min_rows = 10
checkpoint_timeout = 1h
max_wal_size = 4GB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE TABLE t (a int, b text COLLATE "C") USING mtpower;
CREATE INDEX t_a ON t USING mtpower_blink (a);
CREATE INDEX t_b ON t USING mtpower_blink (b);
CREATE INDEX t_h ON t USING mtpower_hash (a) WITH (fillfactor = 100);
CREATE FUNCTION put(low int, high int, step int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO t SELECT g, md5(g::text) || repeat('x', 100) FROM generate_series(low, high, step) g $$;
SELECT put(10, 20000, 10);
});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

sub replayed { $node->wait_for_catchup($standby, 'replay', $node->lsn('insert')); return; }

sub sound
{
	my ($what) = @_;
	my $sums = 'SET enable_%sscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(a), md5(string_agg(left(b, 8), $$$$ ORDER BY b)) FROM t WHERE %s';
	my ($rc, $out, $err) = $standby->psql('postgres', q{SELECT mtpower.verify_index(i, true) FROM unnest('{t_a,t_b,t_h}'::regclass[]) i});

	is($rc, 0, "$what: all indexes verify") or diag($err);
	is($standby->safe_psql('postgres', sprintf($sums, 'seq', $_)), $node->safe_psql('postgres', sprintf($sums, 'index', $_)), "$what: rows with $_")
		foreach 'a > 0', q{b > ''};
	return;
}

# Changes of every kind.  What stands alone in its case changes each page that it touches once.
foreach my $case (
	[ 'single rows', q{SET mtpower.batching = off; SELECT put(1001, 20000, 1000)} ],
	[ 'single rows that split', q{SET mtpower.batching = off; SELECT put(5002, 9000, 10)} ],
	[ 'a small batch', 'SELECT put(3003, 4000, 50)' ],
	[ 'a batch', 'SELECT put(30004, 60000, 10)' ],
	[ 'a batch everywhere', 'SELECT put(5, 60000, 10)' ],
	[ 'a frequent key', 'SELECT put(77, 77, 1) FROM generate_series(1, 3000)' ],
	[ 'VACUUM', 'DELETE FROM t WHERE a % 3 = 0; VACUUM t' ],
	[ 'VACUUM of empty pages', 'DELETE FROM t WHERE a BETWEEN 10000 AND 50000; VACUUM t' ],
	[ 'reuse', 'SELECT txid_current(); VACUUM t; SELECT put(10006, 30000, 10)' ],
	[ 'room from dead entries', q{SET mtpower.batching = off; DELETE FROM t WHERE a % 7 = 0; SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT count(b) FROM t WHERE a > 0; SELECT count(a) FROM t WHERE b > ''; SELECT put(8, 60000, 20)} ])
{
	my ($name, $sql) = @$case;

	# Written by the standby, with changes of records that are behind the restartpoint
	$node->safe_psql('postgres', "CHECKPOINT");
	$node->safe_psql('postgres', $sql);
	replayed();
	$standby->safe_psql('postgres', 'CHECKPOINT');
	$standby->restart;
	replayed();
	sound("$name, replayed twice");

	# The same changes are in front of the restartpoint now; a restart reads what is on disk
	$node->safe_psql('postgres', 'CHECKPOINT');
	replayed();
	$standby->safe_psql('postgres', 'CHECKPOINT');
	$standby->restart;
	sound("$name, written");
}

$standby->stop;
$node->stop;

unlike(slurp_file($_->logfile), qr/PANIC|TRAP|terminated by signal/, $_->name . ': nothing went wrong') foreach $node, $standby;
done_testing();
