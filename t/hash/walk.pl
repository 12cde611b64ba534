# A query has clauses on a prefix of the index's columns and no other way to read the table. The
# scan walks through all buckets in the order of hashes and returns each row once, however many
# buckets are split before and behind its place meanwhile.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpHash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.enable_directoryscan = off
mtpower.workers = 1
mtpower.batch_min_rows = 0
autovacuum = off
fsync = off
statement_timeout = 120s
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql());
# A walk through the index costs what a disabled scan does, so that is not enough: pages are dear in sequence, and cheap otherwise.
my @dear = ('SET enable_seqscan = off', 'SET seq_page_cost = 1000', 'SET random_page_cost = 0', 'SET cpu_index_tuple_cost = 0', 'SET cpu_operator_cost = 0');
my @plain = (@dear, 'SET enable_bitmapscan = off');
my $plain = join(';', @plain, '');
my $bitmap = join(';', @dear, 'SET enable_indexscan = off', '');

# Rows of the first column's 1 lie in all buckets; b is NULL in some of them.
sub make_table
{
	my ($options) = @_;
	$node->safe_psql('postgres', qq{
		DROP TABLE IF EXISTS k;
		CREATE TABLE k (a int, b int, c int) USING mtpower;
		CREATE INDEX k_ab ON k USING mtpower_hash (a, b) WITH ($options);
		INSERT INTO k SELECT 1, CASE WHEN g % 50 > 0 THEN g END, g FROM generate_series(1, 6000) g;
		INSERT INTO k SELECT NULL, g, -g FROM generate_series(1, 100) g;
		INSERT INTO k SELECT 2, 7, -1000 - g FROM generate_series(1, 4000) g});
	return;
}

sub sound
{
	my ($what) = @_;
	my $err;
	is($node->psql('postgres', "SELECT mtpower.verify_index('k_ab', true)", stderr => \$err), 0, "$what: verifies") or diag($err);
	return;
}

make_table('initial_buckets = 1');
like($node->safe_psql('postgres', "$plain EXPLAIN (COSTS OFF) SELECT c FROM k WHERE a = 1"), qr/Index Scan using k_ab/, 'the index is used where there is nothing else');
like($node->safe_psql('postgres', 'ANALYZE k; EXPLAIN (COSTS OFF) SELECT c FROM k WHERE a = 1'), qr/Seq Scan/, 'and only there');
foreach my $where ('a = 1', 'a = 2', 'a = 3', 'a = 1 AND b IS NULL', 'a = 1 AND b < 100', 'a = 1 AND b = 77', 'a = 2 AND b = 7')
{
	my $want = $node->safe_psql('postgres', "SELECT count(*), sum(c) FROM k WHERE $where");
	like($node->safe_psql('postgres', "$plain EXPLAIN (COSTS OFF) SELECT count(*), sum(c) FROM k WHERE $where"), qr/Index Scan using k_ab/, "index scan, $where: is one");
	like($node->safe_psql('postgres', "$bitmap EXPLAIN (COSTS OFF) SELECT count(*), sum(c) FROM k WHERE $where"), qr/Bitmap Index Scan on k_ab/, "bitmap scan, $where: is one");
	is($node->safe_psql('postgres', "$plain SELECT count(*), sum(c) FROM k WHERE $where"), $want, "index scan, $where");
	is($node->safe_psql('postgres', "$bitmap SELECT count(*), sum(c) FROM k WHERE $where"), $want, "bitmap scan, $where");
}

# A cursor goes on by some rows, and the index grows by some splits, time and again.  Where it stands is never split, so sometimes growth stops.
foreach my $case ([ 'one bucket to begin with', 'initial_buckets = 1, fillfactor = 50', 150 ], [ 'five', 'initial_buckets = 5, fillfactor = 10', 400 ], [ 'as many as it needs', 'fillfactor = 20', 90 ])
{
	my ($what, $options, $step) = @$case;
	make_table($options);
	my $began = space_of($node, 'k_ab');
	my $cursor = $node->background_psql('postgres');
	$cursor->query_safe($_) foreach @plain, 'BEGIN';
	like($cursor->query_safe('EXPLAIN (COSTS OFF) SELECT c FROM k WHERE a = 1'), qr/Index Scan using k_ab/, "$what: by the index");
	$cursor->query_safe('DECLARE c CURSOR FOR SELECT c FROM k WHERE a = 1');
	my @seen;
	my ($grown, $round, $size) = (0, 0, $began->{b});
	while (1)
	{
		my @rows = split /\n/, $cursor->query_safe("FETCH $step FROM c");
		push @seen, @rows;
		last if @rows < $step;
		$round++;
		$node->safe_psql('postgres', "INSERT INTO k SELECT 1 + $round % 3, g, 100000 * $round + g FROM generate_series(1, " . int($size * $began->{per_bucket} / 8 + 10) . ') g') if $size < 3000;
		my $now = space_of($node, 'k_ab')->{b};
		$grown++ if $now > $size;
		$size = $now;
	}
	$cursor->query_safe('COMMIT');
	$cursor->quit;
	my %times;
	$times{$_}++ foreach @seen;
	is(join(' ', grep { ($times{$_} // 0) != 1 } 1 .. 6000), '', "$what: every row is returned once");
	is(scalar(grep { $_ < 1 || $_ > 6000 } @seen), 0, "$what: and no other");
	my $ended = space_of($node, 'k_ab');
	note "$what: $round steps, growth in $grown of them, from $began->{b} buckets to $ended->{b}";
	cmp_ok($grown, '>=', 3, "$what: it grew beside the scan");
	cmp_ok($ended->{n}, '>', $began->{n} + 1, "$what: by levels");
	$node->safe_psql('postgres', 'INSERT INTO k VALUES (5, 5, 5)');
	sound($what);
	is($node->safe_psql('postgres', "$plain SELECT count(*), sum(c) FROM k WHERE a = 1"), $node->safe_psql('postgres', 'SELECT count(*), sum(c) FROM k WHERE a = 1'), "$what: afterwards");
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|WARNING/, 'the log is clean');
$node->stop;
done_testing();
