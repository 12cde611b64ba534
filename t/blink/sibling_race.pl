# A batch that leaves out no leaf goes from a leaf to its right sibling.  Here it stops before it locks the sibling, while other sessions
# split both, delete the sibling, or leave its split unfinished.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
wal_consistency_checking = 'mtpower'
autovacuum = off
mtpower.workers = 0
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE FUNCTION k(i int) RETURNS text IMMUTABLE LANGUAGE sql AS
		$$SELECT lpad(i::text, 8, '0') || repeat(md5(i::text), current_setting('block_size')::int / 256)$$;});

sub sql { return $node->safe_psql('postgres', $_[0]); }

my $waiting = q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted};

# Rows for each leaf, in one batch, which stops where it is to lock the first sibling
sub load_stopped
{
	my ($rows, @meanwhile) = @_;
	my $lock = $node->background_psql('postgres');
	my $load = $node->background_psql('postgres');

	$lock->query_safe('SELECT pg_advisory_lock(155)');
	$load->query_safe(q{SET mtpower.debug_injection = 'sibling=wait'; SET mtpower.batch_min_rows = 0});
	$load->query_until(qr/start/, "\\echo start\n$rows;\n\\echo done\n");
	$node->poll_query_until('postgres', $waiting) or die;
	foreach my $do (@meanwhile)
	{
		my $err;
		$node->psql('postgres', $do, stderr => \$err);
		note $err if $err;
	}
	is(sql($waiting), 't', 'it waits still');
	$lock->quit;
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE 'INSERT%' AND state = 'active'})
		or die;
	$load->quit;
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
# Some rows for each leaf, which find room, and so many that each leaf is split
foreach my $case (map { ([ 1000, @$_ ], [ 250, @$_ ]) } @cases)
{
	my ($step, $name, $meanwhile, $before) = @$case;

	sql(q{DROP TABLE IF EXISTS t;
		CREATE TABLE t (a int, b text);
		ALTER TABLE t ALTER b SET STORAGE plain;
		CREATE INDEX t_b ON t USING mtpower_blink (b);
		INSERT INTO t SELECT g, k(g) FROM generate_series(1000, 200000, 1000) g;});
	$name .= ", step $step";
	sql($before) if $before;
	my $leaves = leaves();
	load_stopped(sprintf($few, 1500, 200500, $step), @$meanwhile);
	note "$name: leaves and deleted pages $leaves, then " . leaves();
	cmp_ok((split / /, leaves())[1], '>', 0, "$name: leaves were deleted") if $before;
	my ($rc, $out, $err) = $node->psql('postgres', q{SELECT mtpower.verify_index('t_b', true)});
	is($rc, 0, "$name: the index verifies") or diag($err);
	my $same = q{SET enable_seqscan = %s; SET enable_indexscan = %s; SET enable_bitmapscan = off;
		SELECT count(*), md5(string_agg(a::text, ' ' ORDER BY b %s)) FROM t WHERE b > ''};
	is(sql(sprintf($same, 'off', 'on', '')), sql(sprintf($same, 'on', 'off', '')), "$name: index and table agree");
	is(sql('SELECT count(*) FROM t WHERE a % 250 = 0 AND a % 1000 > 0'), $step == 1000 ? '200' : '598', "$name: the batch is there");
}
done_testing();
