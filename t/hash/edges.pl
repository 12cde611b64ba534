# Hashes are the first and the last ones of their buckets, at every level that the index reaches.
# Splits, steps of batches and walks cut exactly there. The operator class's hash function returns
# its argument, so there is a key for each hash.
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
mtpower.workers = 1
mtpower.batch_min_rows = 0
autovacuum = off
fsync = off
statement_timeout = 60s
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql() . q{
CREATE OPERATOR CLASS itself FOR TYPE int4 USING mtpower_hash AS OPERATOR 1 =, FUNCTION 1 int4up(int4);
});

# ---------- keys ----------

sub product { my ($x, $y) = @_; return ($x * ($y & 0xFFFF) + ((($x * ($y >> 16)) & 0xFFFF) << 16)) & 0xFFFFFFFF; }

# Undoes murmur3's finalizer, with the inverses of its factors.
sub unspread
{
	my ($h) = @_;
	$h = product($h ^ $h >> 16, 0x7ED1B41D);
	$h = product($h ^ $h >> 13 ^ $h >> 26, 0xA5CB9243);
	return $h ^ $h >> 16;
}

sub as_int { my ($x) = @_; return $x >= 0x80000000 ? $x - 2**32 : $x; }

# The second column, beside 1 in the first one, of the row that has the hash in an index of both: hash_combine() solved for it
sub second
{
	my ($h) = @_;
	my $first = 1364076727;		# spread(1)
	return ((unspread($h) ^ $first) - 0x9E3779B9 - ($first << 6) - ($first >> 2)) & 0xFFFFFFFF;
}

# The first and the last hash of each of the intervals that M buckets have when all were split so many times
sub edges
{
	my ($m, $levels) = @_;
	my $n = $m << $levels;
	my @first = map { my $q = $_ << (32 - $levels); ($q - $q % $m) / $m + ($q % $m ? 1 : 0) } 0 .. $n - 1;
	return map { ($first[$_], ($_ + 1 < $n ? $first[ $_ + 1 ] : 2**32) - 1) } 0 .. $n - 1;
}

sub values_of { return join(', ', map { '(1, ' . as_int(unspread($_)) . ', ' . as_int(second($_)) . ')' } @_); }

# ---------- checks ----------

my $plain = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;';
my $walk = "$plain SET seq_page_cost = 1000; SET random_page_cost = 0; SET cpu_index_tuple_cost = 0; SET cpu_operator_cost = 0;";

sub check
{
	my ($what, $rows, $edges) = @_;
	my $err;
	foreach my $index ('a', 'ob')
	{
		my $hash = $index eq 'a' ? 'spread(a)' : 'spread((hash_of_both(one, b))::int)';
		is($node->psql('postgres', "SELECT mtpower.verify_index('e_$index', true)", stderr => \$err), 0, "$what: e_$index verifies") or diag($err);
		is(differences($node, "e_$index", "SELECT $hash FROM e"), '', "$what: every bucket of e_$index is as the model has it");
	}
	is($node->safe_psql('postgres', "$plain SELECT count(*) FROM edge JOIN e USING (a)"), $edges, "$what: rows at the edges are found by one column");
	is($node->safe_psql('postgres', "$plain SELECT count(*) FROM edge JOIN e USING (one, b)"), $edges, "$what: and by both");
	is($node->safe_psql('postgres', "$walk SELECT count(*), count(DISTINCT ctid) FROM e WHERE one = 1"), "$rows|$rows", "$what: a walk sees each row once");
	return;
}

# What the index of both columns has as hash before it is spread: the columns' own ones combined
$node->safe_psql('postgres', q{
	CREATE FUNCTION hash_of_both(one int, b int) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
	DECLARE
		first bigint := spread(one);
		x bigint := (first # (((b::bigint & 4294967295) + 2654435769 + (first << 6) + (first >> 2)) & 4294967295));
	BEGIN
		RETURN CASE WHEN x > 2147483647 THEN x - 4294967296 ELSE x END;
	END $$});

foreach my $case ([ 1, 5 ], [ 5, 4 ], [ 3, 4 ])
{
	my ($m, $levels) = @$case;
	my @edges = edges($m, $levels);
	my $values = values_of(@edges);
	my $rows = 3 * @edges;
	$node->safe_psql('postgres', qq{
		DROP TABLE IF EXISTS e, edge;
		CREATE TABLE edge (one int, a int, b int);
		INSERT INTO edge VALUES $values;
		CREATE TABLE e (one int, a int, b int) USING mtpower;
		CREATE INDEX e_a ON e USING mtpower_hash (a itself) WITH (initial_buckets = $m, fillfactor = 10);
		CREATE INDEX e_ob ON e USING mtpower_hash (one itself, b itself) WITH (initial_buckets = $m, fillfactor = 10);
		ANALYZE edge});
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT spread(a)), count(DISTINCT spread(hash_of_both(one, b)::int)), bool_and(spread(a) = spread(hash_of_both(one, b)::int)) FROM edge'),
		join('|', scalar @edges, scalar @edges, scalar @edges, 't'), "M = $m: a key for each hash");

	like($node->safe_psql('postgres', "$walk EXPLAIN (COSTS OFF) SELECT count(*) FROM e WHERE one = 1"), qr/Index Scan using e_ob/, "M = $m: there is a walk");

	# One by one, in a batch, and in one that comes after growth
	$node->safe_psql('postgres', "SET mtpower.batching = off; INSERT INTO e SELECT edge.* FROM edge");
	$node->safe_psql('postgres', 'INSERT INTO e SELECT edge.* FROM edge, generate_series(1, 2)');
	check("M = $m, at first", $rows, $rows);
	my $from = 0;
	while (space_of($node, 'e_a')->{n} <= $levels)
	{
		my $more = int(50 + $rows / 2);
		$node->safe_psql('postgres', "INSERT INTO e SELECT 1, hashint4(g), hashint4(-g) FROM generate_series($from + 1, $from + $more) g");
		$from += $more;
		$rows += $more;
		check("M = $m, $rows rows", $rows, 3 * @edges);
	}
	$node->safe_psql('postgres', 'INSERT INTO e SELECT edge.* FROM edge ORDER BY random()');
	$rows += @edges;
	check("M = $m, added to", $rows, 4 * @edges);
	$node->safe_psql('postgres', 'REINDEX TABLE e');
	check("M = $m, built", $rows, 4 * @edges);
	$node->safe_psql('postgres', 'DELETE FROM e USING edge WHERE e.a = edge.a; VACUUM (INDEX_CLEANUP on) e; INSERT INTO e SELECT edge.* FROM edge');
	$rows -= 3 * @edges;
	check("M = $m, taken away and added", $rows, scalar @edges);
}

# Frequent keys there, which have chains of their own, besides entries on the first page and in the stash: in one bucket, as a cursor keeps it from being split; then it is, in one record or in pieces.
foreach my $case ([ 'no stash', 0 ], [ 'a short stash', 2000 ], [ 'a long stash', 15000 ])
{
	my ($what, $others) = @$case;
	my @hashes = (0, 0x3FFFFFFF, 0x7FFFFFFF, 0x80000000, 0xC0000000, 0xFFFFFFFF);
	my $values = values_of(@hashes);
	$node->safe_psql('postgres', qq{$plain
		DROP TABLE e, edge;
		CREATE TABLE edge (one int, a int, b int);
		INSERT INTO edge VALUES $values;
		CREATE TABLE e (one int, a int, b int) USING mtpower;
		CREATE INDEX e_a ON e USING mtpower_hash (a itself) WITH (initial_buckets = 1);
		CREATE INDEX e_ob ON e USING mtpower_hash (one itself, b itself) WITH (initial_buckets = 1);
		INSERT INTO e VALUES (1, -1, -1), (1, -1, -1);
		INSERT INTO e SELECT edge.* FROM edge;
		BEGIN;
		DECLARE c CURSOR FOR SELECT FROM e WHERE a = -1;
		FETCH 1 FROM c;
		DECLARE d CURSOR FOR SELECT FROM e WHERE one = 1 AND b = -1;
		FETCH 1 FROM d;
		INSERT INTO e SELECT 1, hashint4(g), hashint4(-g) FROM generate_series(1, $others) g;
		INSERT INTO e SELECT edge.* FROM edge;
		INSERT INTO e SELECT 1, hashint4(-g), hashint4(g) FROM generate_series(1, 200) g;
		INSERT INTO e SELECT edge.* FROM generate_series(1, 1000), edge;
		COMMIT});
	my $rows = 6214 + $others;
	is(join(' ', map { space_of($node, "e_$_")->{b} } 'a', 'ob'), '1 1', "frequent, $what: one bucket");
	like($node->safe_psql('postgres', "SELECT flags FROM mtpower.page_info('e_a', 1)"), qr/heavy=6/, "frequent, $what: six keys have chains");
	check("frequent, $what", $rows, 6012);
	foreach my $more (1 .. 4)
	{
		$node->safe_psql('postgres', "SET mtpower.batching = off; INSERT INTO e SELECT 1, hashint4(g), hashint4(-g) FROM generate_series(1000 * $more + 100001, 1000 * $more + 100200) g");
		$rows += 200;
		check("frequent, $what, split $more", $rows, 6012);
	}
	cmp_ok(space_of($node, "e_$_")->{b}, '>', 4, "frequent, $what: e_$_ is split") foreach 'a', 'ob';
	$node->safe_psql('postgres', 'INSERT INTO e SELECT edge.* FROM generate_series(1, 100), edge');
	check("frequent, $what, loaded", $rows + 600, 6612);
}
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|WARNING/, 'the log is clean');
$node->stop;
done_testing();
