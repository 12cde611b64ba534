# Loads add buckets within a level and over one, two and more levels. The index is compared with a
# model, bucket by bucket.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX qw(ceil);
use MtpHash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_min_rows = 0
mtpower.batch_size = 16MB
autovacuum = off
fsync = off
max_wal_size = 4GB
work_mem = 64MB
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql());

# The hashes of nearly all rows, computed once
$node->safe_psql('postgres', 'CREATE TABLE spreads AS SELECT a, spread(hashint4(a)) AS h FROM (SELECT DISTINCT hashint4(g) FROM generate_series(1, 700000) g) x(a); ANALYZE spreads');
my $spreads = 'SELECT coalesce(s.h, spread(hashint4(k.a))) FROM k LEFT JOIN spreads s USING (a)';

# The model itself: murmur3's finalizer, and the address space, by hand.
is($node->safe_psql('postgres', 'SELECT spread(0), spread(1), spread(-1)'), '0|1364076727|2180083513', 'the model spreads as murmur3 does');
is($node->safe_psql('postgres', 'SELECT bucket_of(0, 5, 0, 0), bucket_of(4294967295, 5, 0, 0), bucket_of(4294967295, 5, 3, 0), bucket_of(0, 5, 3, 1), bucket_of(2147483648, 1, 1, 0), bucket_of(1073741824, 1, 2, 0)'),
	'0|4|39|0|1|2', 'the model numbers buckets');

my $stat = q{SELECT sum(buckets_ahead), sum(splits_overflow), sum(moved) FROM mtpower.stat_batches};

sub check
{
	my ($what, $query) = @_;
	my $err;
	is(differences($node, 'k_a', $query // $spreads), '', "$what: every bucket is as the model has it");
	is($node->psql('postgres', "SELECT mtpower.verify_index('k_a', true)", stderr => \$err), 0, "$what: verifies") or diag($err);
	return;
}

# bucket_of(), written out, for rows (r, bits)
sub bucket
{
	my ($s) = @_;
	my ($bucket, $further) = map { "(r + $s->{m} * (bits & ((1::bigint << $_) - 1)))" } $s->{n}, $s->{n} + 1;
	return "CASE WHEN $bucket < $s->{p0} THEN $further ELSE $bucket END";
}

# One load is one batch; growth is what it asks for, and before it.
sub load
{
	my ($what, $rows, $from) = @_;
	my $old = space_of($node, 'k_a');
	$node->safe_psql('postgres', "SELECT mtpower.stat_reset('batches')");
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(' . ($from + 1) . ', ' . ($from + $rows) . ') g');
	my $new = space_of($node, 'k_a');
	my ($ahead, $overflow, $moved) = split /\|/, $node->safe_psql('postgres', $stat);
	check($what);
	is(join(' ', @{$new}{qw(m n p0 b)}), join(' ', @{ grow($old, $new->{b} - $old->{b}) }{qw(m n p0 b)}), "$what: grown as linear hashing grows");
	my $want = ceil(($old->{entries} + $rows) / $new->{per_bucket});
	$want = $old->{b} if $want < $old->{b};
	is($new->{entries}, $old->{entries} + $rows, "$what: entries are counted");
	is($new->{b}, $want, "$what: as many buckets as they need");
	is($overflow, 0, "$what: no split on overflow");
	is($ahead, $new->{b} - $old->{b}, "$what: all buckets were split ahead");
	# Rows of the batch itself move no more: what moved are those from before, as often as they had to.
	my $before = $node->safe_psql('postgres', qq{
		SELECT coalesce(sum(moves(@{[ bucket($old) ]}, @{[ bucket($new) ]}, $new->{m})), 0) FROM (
			SELECT h * $new->{m} >> 32 AS r, reverse((h * $new->{m} & 4294967295)::bit(32)::text)::bit(32)::bigint AS bits
			FROM generate_series(1, $from) g JOIN spreads ON a = hashint4(g) OFFSET 0) x});
	cmp_ok($moved, '<=', $before, "$what: $moved entries moved, $before at most");
	cmp_ok($moved, '>', $before / 2, "$what: counted") if $before > 1000;
	return $from + $rows;
}

sub levels { return space_of($node, 'k_a')->{n}; }

# initial_buckets, fillfactor, sizes of batches; what each of them is to do to the level
foreach my $case (
	[ 1, 75, [ 300, 0 ], [ 500, 0 .. 1 ], [ 20_000, 3 .. 6 ], [ 150, 0 ], [ 12_000, 0 .. 1 ], [ 200_000, 2 .. 4 ], [ 60_000, 0 .. 1 ] ],
	[ 1, 10, [ 40, 0 ], [ 200, 1 .. 2 ], [ 50_000, 6 .. 9 ], [ 49_000, 0 .. 1 ] ],
	[ 2, 10, [ 100, 0 ], [ 3_000, 4 ], [ 40, 0 ] ],
	[ 3, 10, [ 200, 0 ], [ 230, 1 ], [ 2_500, 2 ] ],
	[ 367, 10, [ 15_000, 0 ], [ 3_000, 0 ], [ 20_000, 0 .. 1 ], [ 30_000, 1 ], [ 200_000, 2 ], [ 400, 0 ], [ 250_000, 1 ] ],
	[ 367, 10, [ 15_000, 0 ], [ 200_000, 3 ] ])
{
	my ($initial, $fillfactor, @batches) = @$case;
	my $rows = 0;
	$node->safe_psql('postgres', qq{
		CREATE TABLE k (a int) USING mtpower;
		CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = $initial, fillfactor = $fillfactor)});
	is(space_of($node, 'k_a')->{m}, $initial, "M is $initial");
	check("M = $initial, empty");
	foreach my $batch (@batches)
	{
		my ($n, @levels) = @$batch;
		my $level = levels();
		$rows = load("M = $initial, fillfactor $fillfactor, $n rows", $n, $rows);
		my $by = levels() - $level;
		ok((grep { $_ == $by } @levels), "M = $initial, $n rows: $by levels");
	}

	if (@batches < 4)		# the others will do for what follows
	{
		$node->safe_psql('postgres', 'DROP TABLE k');
		next;
	}

	# Rows one by one let it grow as well.
	my $b = space_of($node, 'k_a')->{b};
	$node->safe_psql('postgres', 'SET mtpower.batching = off; INSERT INTO k SELECT hashint4(g) FROM generate_series(' . ($rows + 1) . ', ' . ($rows + 2500) . ') g');
	$rows += 2500;
	check("M = $initial, single rows");
	cmp_ok(space_of($node, 'k_a')->{b}, '>=', $b, "M = $initial: single rows");
	cmp_ok(space_of($node, 'k_a')->{b}, '<=', ceil($rows / space_of($node, 'k_a')->{per_bucket}) + 1 + $initial, "M = $initial: single rows do not grow it beyond its rows");

	# Deleted rows, and what comes in their place.  FREEZE waits for a page that the background writer has pinned, whose dead rows would stay.
	$node->safe_psql('postgres', 'DELETE FROM k WHERE a % 3 = 0; VACUUM (FREEZE) k');
	check("M = $initial, after VACUUM");
	is(space_of($node, 'k_a')->{entries}, $node->safe_psql('postgres', 'SELECT count(*) FROM k'), "M = $initial, after VACUUM: entries are counted anew");
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(2000001, 2030000) g');
	check("M = $initial, room used anew");
	$node->safe_psql('postgres', 'DELETE FROM k; VACUUM (FREEZE) k');
	check("M = $initial, all deleted");
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 30000) g; REINDEX INDEX k_a');
	check("M = $initial, built anew");
	my $built = space_of($node, 'k_a');
	my $needed = ceil(30_000 / $built->{per_bucket});
	is(join(' ', @{$built}{qw(m n p0 entries)}), ($needed > $initial ? $needed : $initial) . ' 0 0 30000', "M = $initial, built anew: as many buckets as the rows need");
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(30001, 130000) g');
	check("M = $initial, grown after a build");
	$node->safe_psql('postgres', 'DROP TABLE k');
}

# 0 says nothing; the number is chosen once, by the first batch, also when rows have come and gone before it.
$node->safe_psql('postgres', q{
	CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 0);
	INSERT INTO k VALUES (1); DELETE FROM k; VACUUM k; INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 5000) g});
check('initial_buckets = 0');
is(join(' ', @{ space_of($node, 'k_a') }{qw(m n p0)}), '10 0 0', 'initial_buckets = 0: the first batch that finds the index empty chooses');
$node->safe_psql('postgres', 'DELETE FROM k; VACUUM k; INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 30000) g');
check('initial_buckets = 0, emptied and filled');
is(space_of($node, 'k_a')->{m}, 10, 'initial_buckets = 0: it stays as it is');
$node->safe_psql('postgres', 'DROP TABLE k');

# Where nothing is said, an empty index gets the buckets that the batch needs: no split, none moved.
$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches');
	CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a);
	INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 200000) g});
check('empty index, first batch');
my $first = space_of($node, 'k_a');
is("$first->{n} $first->{p0}", '0 0', 'the first batch chooses M');
is($first->{b}, ceil(200_000 / $first->{per_bucket}), 'as many buckets as its rows need');
like($node->safe_psql('postgres', $stat), qr/\|0\|0$/, 'no split on overflow, nothing moved');
load('beyond the chosen M', 500_000, 200_000);
$node->safe_psql('postgres', 'DROP TABLE k');

# A few rows that are there already, as the first ones of most statements are, are dealt out over buckets that are made at once.
foreach my $case (
	[ 'the first rows of a statement', '', 'SET mtpower.batch_min_rows = 256;', 256 ],
	[ 'small statements before', 'SET mtpower.batching = off; INSERT INTO k SELECT hashint4(-g) FROM generate_series(1, 500) g; SET mtpower.batching = on;', '', 500 ],
	[ 'a full page', 'SET mtpower.batching = off; INSERT INTO k SELECT hashint4(-g) FROM generate_series(1, 511) g;
		INSERT INTO k SELECT 7 FROM generate_series(1, 20) g; SET mtpower.batching = on;', '', 531 ],
	[ 'dead rows', 'SET mtpower.batching = off; INSERT INTO k SELECT hashint4(-g) FROM generate_series(1, 500) g; DELETE FROM k WHERE a % 2 = 0;
		SET enable_seqscan = off; SELECT count(*) FROM k WHERE a = hashint4(-2); SET mtpower.batching = on;', '', 500 ],
	[ 'rows of one key', 'SET mtpower.batching = off; INSERT INTO k SELECT 7 FROM generate_series(1, 500) g; SET mtpower.batching = on;', '', 500 ])
{
	my ($what, $before, $set, $rows) = @$case;
	$node->safe_psql('postgres', qq{SELECT mtpower.stat_reset('batches');
		CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a);
		$before
		$set
		INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 200000) g});
	my $space = space_of($node, 'k_a');
	is("$space->{n} $space->{p0}", '0 0', "$what: the first batch chooses M");
	cmp_ok(abs($space->{b} - (200_000 + $rows) / $space->{per_bucket}), '<=', 2, "$what: as many buckets as the rows need");
	my ($ahead, $overflow, $moved) = split /\|/, $node->safe_psql('postgres', $stat);
	is("$ahead $overflow", '0 0', "$what: no split");
	ok($moved > 0 && $moved <= $rows, "$what: $moved of $rows rows moved");
	# Dead rows are gone, for the model.
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON, FREEZE) k');
	check($what);
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(200001, 700000) g');
	check("$what, and beyond the chosen M");
	$node->safe_psql('postgres', 'DROP TABLE k');
}

# They stay where they are while a cursor stands there, and as long as there is more than a page of them.
$node->safe_psql('postgres', q{CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a);
	INSERT INTO k VALUES (-1), (-1);
	BEGIN;
	SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
	DECLARE c CURSOR FOR SELECT a FROM k WHERE a = -1;
	FETCH 1 FROM c;
	INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 20000) g;
	COMMIT});
is(space_of($node, 'k_a')->{b}, 1, 'a cursor in the only bucket: it stays as it is');
check('a cursor in the only bucket');
$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(20001, 40000) g');
my $split = space_of($node, 'k_a');
is($split->{m}, 1, 'more than a page: by splits');
cmp_ok(abs($split->{b} - 40_000 / $split->{per_bucket}), '<=', 1, 'more than a page: as far as it should');
check('more than a page');
$node->safe_psql('postgres', 'DROP TABLE k');

# Workers and the backend, and several batches in one statement
$node->safe_psql('postgres', q{SET mtpower.batch_size = '64kB'; SELECT mtpower.stat_reset('batches');
	CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1);
	INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 150000) g});
check('many batches');
cmp_ok($node->safe_psql('postgres', 'SELECT batches FROM mtpower.stat_batches'), '>', 5, 'there were many');
is($node->safe_psql('postgres', 'SELECT splits_overflow FROM mtpower.stat_batches'), 0, 'many batches: no split on overflow');
$node->safe_psql('postgres', 'DROP TABLE k');

# Loads at once, into one bucket, and into an index whose first number of buckets each of them may choose
foreach my $case ([ 'one bucket', 'WITH (initial_buckets = 1, fillfactor = 10)' ], [ 'no number of buckets', '' ])
{
	my ($what, $options) = @$case;
	$node->safe_psql('postgres', "DROP TABLE IF EXISTS k; CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a) $options");
	my @jobs = map {
		my $from = $_ * 100_000;
		my $job = { err => '' };
		$job->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SET mtpower.batch_size = '64kB'",
			'-c', "INSERT INTO k SELECT hashint4(g) FROM generate_series($from + 1, $from + 40000) g" ], '<', '/dev/null', '>', \$job->{out}, '2>', \$job->{err});
		$job;
	} 0 .. 3;
	foreach my $job (@jobs)
	{
		$job->{run}->finish;
		is($job->{err}, '', "$what: a load beside three others");
	}
	check("$what: four loads at once");
}
$node->safe_psql('postgres', 'DROP TABLE k');

# Updates without VACUUM, of rows whose other columns are indexed, one by one and in batches: dead entries make room for new ones, and are not counted any more,
# so the index does not grow with the number of updates.
foreach my $step (1, 100)
{
	$node->safe_psql('postgres', q{CREATE TABLE k (a int, b int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a); CREATE INDEX k_b ON k USING mtpower_blink (b);
		INSERT INTO k SELECT hashint4(g), 0 FROM generate_series(1, 1000) g});
	my $last = $step - 1;
	$node->safe_psql('postgres', qq{SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
		DO \$\$ BEGIN FOR i IN 1 .. 60 LOOP FOR j IN 1 .. 1000 BY $step LOOP UPDATE k SET b = b + 1 FROM generate_series(j, j + $last) g WHERE a = hashint4(g); END LOOP; COMMIT; END LOOP; END \$\$});
	my $s = space_of($node, 'k_a');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM k WHERE b = 60'), 1000, "60,000 updates, $step at a time");
	cmp_ok($s->{b}, '<', 40, "$step at a time: $s->{b} buckets");
	$node->safe_psql('postgres', 'DROP TABLE k');
}
$node->stop;
done_testing();
