# A hash index grows while VACUUM is in it. VACUUM meets entries that are split off behind it and
# in front of it, so no TID is used again while an entry leads to it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpHash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_min_rows = 0
autovacuum = off
bgwriter_lru_maxpages = 0
fsync = off
});
$node->start;
my $faults = MtpFaults->new($node, 't');
plan skip_all => 'the server was built without assertions, so without injection points' if !$faults->has_stops;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql());

# A table with so many rows and buckets, of which the rows with the numbers up to $dead are dead.
sub make_table
{
	my ($rows, $dead, $options) = @_;
	$node->safe_psql('postgres', qq{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (a int, b int) USING mtpower WITH (vacuum_truncate = off);
		CREATE INDEX t_a ON t USING mtpower_hash (a) WITH ($options);
		INSERT INTO t SELECT hashint4(g), g FROM generate_series(1, $rows) g;
		DELETE FROM t WHERE b <= $dead;});
	return;
}

# No entry leads to a dead row; new rows take the dead ones' places, and no entry leads to them that is not theirs.
sub check
{
	my ($what, $rows) = @_;
	is($node->safe_psql('postgres', q{SELECT sum(items) FROM pages('t_a')}), $rows, "$what: no entry of a dead row is left");
	my $blocks = $node->safe_psql('postgres', q{SELECT pg_relation_size('t') / current_setting('block_size')::int});
	$node->safe_psql('postgres', 'INSERT INTO t SELECT -g, -1 FROM generate_series(1, 3000) g');
	cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE b = -1 AND ctid < '($blocks, 0)'"), '>', 1000, "$what: new rows take the places of dead ones");
	is(differences($node, 't_a', 'SELECT spread(hashint4(a)) FROM t'), '', "$what: every bucket is as the model has it");
	is($node->safe_psql('postgres', q{SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
		SELECT count(*) FROM generate_series(1, 20000) g JOIN t ON a = hashint4(g) WHERE b = -1 AND hashint4(g) NOT BETWEEN -3000 AND -1}), 0, "$what: no stranger's row comes");
	$faults->sound($what, $rows + 3000);
	return;
}

# VACUUM stands in the middle; a load makes the index grow, within its level and over further ones, by splits of buckets that VACUUM has
# seen and of others.
foreach my $case ([ 'within the level', 300 ], [ 'over a level', 20000 ], [ 'over several', 150000 ], [ 'by single rows', 0 ])
{
	my ($name, $load) = @$case;
	make_table(9000, 4500, 'initial_buckets = 8, fillfactor = 10');
	my $before = space_of($node, 't_a');
	$faults->hold;
	my $vacuum = $faults->start("SET mtpower.debug_injection = 'vacuum_middle=wait'", 'VACUUM t');
	$faults->stopped(q{query LIKE 'VACUUM%'});
	$node->safe_psql('postgres', $load ? "INSERT INTO t SELECT hashint4(g), g FROM generate_series(100001, 100000 + $load) g"
		: 'SET mtpower.batching = off; INSERT INTO t SELECT hashint4(g), g FROM generate_series(100001, 105000) g');
	my $after = space_of($node, 't_a');
	cmp_ok($after->{b}, '>', $before->{b}, "$name: the index has grown from $before->{b} to $after->{b} buckets");
	$faults->release;
	is($faults->finish($vacuum), '', "$name: VACUUM ends");

	# What VACUUM met twice, or not at all, because it moved or came meanwhile, is no reason to count wrong.  (Single rows are counted in steps.)
	my $entries = space_of($node, 't_a')->{entries};
	is($entries, 4500 + $load, "$name: the index knows how many entries it has") if $load;
	check($name, 4500 + ($load || 5000));
	$node->safe_psql('postgres', 'DELETE FROM t WHERE b = 4501; VACUUM (INDEX_CLEANUP on) t');
	is(space_of($node, 't_a')->{entries}, 7499 + ($load || 5000), "$name: and after a VACUUM that nobody disturbs");
}

# A split whose long stash is not finished when VACUUM comes: it cleans the stash where it is, and the rest of the split brings nothing back.
# The one before VACUUM's own cleaning; then one that begins and ends while VACUUM stands in the middle.
foreach my $case ([ 'before', 'hash_split' ], [ 'while', 'hash_split' ])
{
	my ($name, $point) = @$case;
	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (a int, b int) USING mtpower WITH (vacuum_truncate = off);
		CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 2);
		INSERT INTO t VALUES (-1000000, 0), (-1000001, 0), (-1000002, 0), (-1000003, 0), (-1000004, 0);
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		BEGIN;
		DECLARE c CURSOR FOR SELECT a FROM t WHERE a = -1000000; FETCH 1 FROM c;
		DECLARE d CURSOR FOR SELECT a FROM t WHERE a = -1000001; FETCH 1 FROM d;
		DECLARE e CURSOR FOR SELECT a FROM t WHERE a = -1000002; FETCH 1 FROM e;
		DECLARE f CURSOR FOR SELECT a FROM t WHERE a = -1000003; FETCH 1 FROM f;
		DECLARE g CURSOR FOR SELECT a FROM t WHERE a = -1000004; FETCH 1 FROM g;
		INSERT INTO t SELECT hashint4(g), g FROM generate_series(1, 60000) g;
		COMMIT;
		DELETE FROM t WHERE b BETWEEN 1 AND 30000;});
	$faults->hold;
	$faults->hold(7);
	my $vacuum;
	if ($name eq 'while')
	{
		$vacuum = $faults->start("SET mtpower.debug_injection = 'vacuum_middle=wait7'", 'VACUUM t');
		$faults->stopped(q{query LIKE 'VACUUM%'});
	}
	my $load = $faults->start("SET mtpower.debug_injection = '$point=wait'", 'INSERT INTO t SELECT hashint4(g), g FROM generate_series(100001, 101000) g');
	$faults->stopped(q{query LIKE 'INSERT%'});
	like($node->safe_psql('postgres', q{SELECT string_agg(source::text, ' ') FROM pages('t_a')}), qr/\d/, "unfinished $name VACUUM: the split is not finished");
	$vacuum = $faults->start('VACUUM t') if $name eq 'before';
	is($faults->finish($vacuum), '', "unfinished $name VACUUM: VACUUM ends") if $name eq 'before';
	$faults->release;
	is($faults->finish($load), '', "unfinished $name VACUUM: the load ends");
	$faults->release(7);
	is($faults->finish($vacuum), '', "unfinished $name VACUUM: VACUUM ends") if $name eq 'while';
	check("unfinished $name VACUUM", 31005);
}

# VACUUM again and again beside loads, single rows and deletions, with workers
$node->append_conf('postgresql.conf', "mtpower.workers = 2\nmtpower.batch_size = 64kB");
$node->restart;
$node->safe_psql('postgres', q{
	DROP TABLE t;
	CREATE TABLE t (a int, b int) USING mtpower WITH (vacuum_truncate = off);
	CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 1, fillfactor = 10);
	CREATE INDEX t_b ON t USING mtpower_hash (b);});
my $rounds = $ENV{MTP_LONG} ? 20 : 4;
foreach my $round (1 .. $rounds)
{
	my $from = $round * 100000;
	my @jobs = (
		$faults->start(map { my $f = $from + $_ * 3000; "INSERT INTO t SELECT hashint4(g), g % 50 FROM generate_series($f + 1, $f + 3000) g" } 0 .. 9),
		$faults->start(map { my $f = $from + 50000 + $_ * 200; "SET mtpower.batching = off; INSERT INTO t SELECT hashint4(g), g % 50 FROM generate_series($f + 1, $f + 200) g" } 0 .. 9),
		$faults->start(map { ("DELETE FROM t WHERE a % 4 = $_ % 4 AND b > 25", 'SELECT pg_sleep(0.05)') } 0 .. 5),
		$faults->start(map { my $f = $from + 70000; ("BEGIN", "INSERT INTO t SELECT -hashint4(g) / 2, 77 FROM generate_series($f + 1, $f + 3000) g", 'ROLLBACK') } 0 .. 5),
		$faults->start(('VACUUM (INDEX_CLEANUP on) t') x 8));
	is(join('', map { $faults->finish($_) } @jobs), '', "round $round: all end");
	is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM t WHERE b = 77}), 0, "round $round: nothing that was rolled back is found");
	$faults->sound("round $round");
}
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t');
is(differences($node, 't_a', 'SELECT spread(hashint4(a)) FROM t'), '', 'in the end: every bucket is as the model has it');
$faults->sound('in the end');
$faults->log_is_clean;
$node->stop;
done_testing();
