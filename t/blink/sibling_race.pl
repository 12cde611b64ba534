# A batch knows where the next entry's leaf is before it locks it: one that leaves out no leaf goes to the right sibling, another one
# has looked into frames.  Here it stops before it locks the leaf, while other sessions split it and others, delete it, or leave its
# split unfinished.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpSessions;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
wal_consistency_checking = 'mtpower'
autovacuum = off
mtpower.workers = 0
mtpower.buffer_size = '8MB'
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE FUNCTION k(i int) RETURNS text IMMUTABLE LANGUAGE sql AS
		$$SELECT lpad(i::text, 8, '0') || repeat(md5(i::text), current_setting('block_size')::int / 256)$$;});

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Rows in one batch, which stops at that point when it comes there first
sub load_stopped
{
	my ($point, $rows, @meanwhile) = @_;
	my $waits = waits_sql("query LIKE 'INSERT%'");

	hold($node, 155);
	my $load = start_psql($node, 'postgres', "SET mtpower.debug_injection = '$point=wait'", 'SET mtpower.batch_min_rows = 0', $rows);
	$node->poll_query_until('postgres', $waits) or die;
	foreach my $do (@meanwhile)
	{
		my $err;
		$node->psql('postgres', $do, stderr => \$err);
		note $err if $err;
	}
	is(sql($waits), 't', 'it waits still');
	release(155);
	is(finish($load), '', 'the load ends well');
}

sub leaves { return sql(q{SELECT count(*) FILTER (WHERE p.type = 'leaf') || ' ' || count(*) FILTER (WHERE p.type = 'deleted')
	FROM generate_series(0, pg_relation_size('t_b') / current_setting('block_size')::int - 1) b, mtpower.page_info('t_b', b) p}); }

my $few = q{INSERT INTO t SELECT g, k(g) FROM generate_series(%d, %d, %d) g};
my @cases = (
	[ 'nothing', [] ],
	[ 'a row for the sibling', [ sprintf($few, 20001, 20001, 1) ] ],
	[ 'splits of leaves all around', [ map { sprintf($few, $_ * 1000 + 1, $_ * 1000 + 990, 90) } 1 .. 60 ] ],
	[ 'a split of the leaf before', [ map { sprintf($few, $_ * 1000 + 1, $_ * 1000 + 990, 90) } 8 .. 16 ] ],
	[ 'a split that is not finished', [ map { q{SET mtpower.debug_injection = 'leaf_split=error'; } . sprintf($few, $_ * 1000 + 1, $_ * 1000 + 990, 90) } 10 .. 50 ] ],
	[ 'VACUUM deletes the sibling', ['VACUUM t'], 'DELETE FROM t WHERE a BETWEEN 16000 AND 80000' ],
	[ 'VACUUM deletes it, and others come', [ 'VACUUM t', map { sprintf($few, $_ * 1000 + 1, $_ * 1000 + 990, 90) } 10 .. 90 ],
		'DELETE FROM t WHERE a BETWEEN 16000 AND 80000' ],
	[ 'VACUUM deletes all leaves behind', ['VACUUM t'], 'DELETE FROM t WHERE a > 16000' ]);
# Rows for each leaf, or for each third one or so: some, which find room, and so many that each of the leaves is split.  For each third one,
# scans put inner pages into frames.
my @loads = (
	[ 'sibling', 'a few rows for each leaf', 'g % 1000 = 500' ],
	[ 'sibling', 'many rows for each leaf', 'g % 1000 > 0' ],
	[ 'foreseen', 'a row for some leaves', 'g % 20000 = 1500' ],
	[ 'foreseen', 'many rows for some leaves', 'g % 1000 > 0 AND g % 20000 < 5000' ]);
foreach my $run (map { my $load = $_; map { [ @$load, @$_ ] } @cases } @loads)
{
	my ($point, $load, $which, $name, $meanwhile, $before) = @$run;
	my $rows = "FROM generate_series(1500, 200500, 250) g WHERE $which";

	sql(q{DROP TABLE IF EXISTS t;
		CREATE TABLE t (a int, b text);
		ALTER TABLE t ALTER b SET STORAGE plain;
		CREATE INDEX t_b ON t USING mtpower_blink (b);
		INSERT INTO t SELECT g, k(g) FROM generate_series(1000, 200000, 1000) g;
		SET enable_seqscan = off;
		SET enable_bitmapscan = off;
		SELECT count(*) FROM generate_series(1, 5) i, generate_series(1000, 200000, 1000) g, LATERAL (SELECT FROM t WHERE b = k(g + 0 * i) OFFSET 0) x;});
	$name = "$load, $name";
	sql($before) if $before;
	my $leaves = leaves();
	load_stopped($point, "INSERT INTO t SELECT g, k(g) $rows", @$meanwhile);
	note "$name: leaves and deleted pages $leaves, then " . leaves();
	cmp_ok((split / /, leaves())[1], '>', 0, "$name: leaves were deleted") if $before;
	my ($rc, $out, $err) = $node->psql('postgres', q{SELECT mtpower.verify_index('t_b', true)});
	is($rc, 0, "$name: the index verifies") or diag($err);
	my $same = q{SET enable_seqscan = %s; SET enable_indexscan = %s; SET enable_bitmapscan = off;
		SELECT count(*), md5(string_agg(a::text, ' ' ORDER BY b %s)) FROM t WHERE b > ''};
	is(sql(sprintf($same, 'off', 'on', '')), sql(sprintf($same, 'on', 'off', '')), "$name: index and table agree");
	is(sql('SELECT count(*) FROM t WHERE a % 250 = 0 AND a % 1000 > 0'), sql("SELECT count(*) $rows"), "$name: the batch is there");
}
done_testing();
