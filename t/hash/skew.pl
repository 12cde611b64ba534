# Keys are frequent. Loads, single rows, builds and deletions of n and 4 n rows cost the same per
# entry, and look-ups of other keys read no more pages than they must.
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
mtpower.workers = 0
mtpower.batch_min_rows = 0
autovacuum = off
bgwriter_lru_maxpages = 0
fsync = off
full_page_writes = off
shared_buffers = 256MB
max_wal_size = 4GB
jit = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql() . q{
-- Pages that a query reads
CREATE FUNCTION buffers(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json, TIMING off) ' || query INTO plan;
	IF plan #>> '{0,Plan,Node Type}' <> 'Index Scan' THEN RAISE 'no index scan: %', plan; END IF;
	RETURN (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
END $$;
-- The work of a statement in this session: pages that it looked at or wrote, and WAL
CREATE FUNCTION work(query text, OUT buffers bigint, OUT wal bigint) LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT json, TIMING off) ' || query INTO plan;
	buffers := (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
	wal := (plan #>> '{0,Plan,WAL Bytes}')::bigint;
END $$;
});

my %keys = (
	'30 % on one key' => 'CASE WHEN g % 10 < 3 THEN 7 ELSE hashint4(g) END',
	'ten keys' => 'g % 10',
	'1,000 keys' => 'g % 1000',
	'one key' => '7');
my $uniform = 'hashint4(g)';

sub fresh
{
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS k; CREATE TABLE k (a int) USING mtpower WITH (autovacuum_enabled = off); CREATE INDEX k_a ON k USING mtpower_hash (a)');
	return;
}

# Pages and WAL per row of a load, in batches of 64 kB.
sub work_of
{
	my ($key, $rows, $settings) = @_;
	fresh();
	my ($buffers, $wal) = split /\|/, $node->safe_psql('postgres', "SET mtpower.batch_size = '64kB'; $settings; SELECT * FROM work('INSERT INTO k SELECT $key FROM generate_series(1, $rows) g')");
	return ($buffers / $rows, $wal / $rows);
}

sub sound
{
	my ($what, $key, $rows) = @_;
	my $err;
	is($node->psql('postgres', "SELECT mtpower.verify_index('k_a', true)", stderr => \$err), 0, "$what: verifies") or diag($err);
	is(differences($node, 'k_a', 'SELECT spread(hashint4(a)) FROM k'), '', "$what: every bucket is as the model has it");
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM k WHERE a = 7'), $node->safe_psql('postgres', "SELECT count(*) FROM generate_series(1, $rows) g WHERE $key = 7"),
		"$what: all rows of a frequent key are found");
	return;
}

foreach my $how ([ 'batches', 'SET mtpower.batching = on', 25_000 ], [ 'single rows', 'SET mtpower.batching = off', 10_000 ])
{
	my ($what, $settings, $n) = @$how;
	my ($base) = work_of($uniform, $n, $settings);
	foreach my $name (sort keys %keys)
	{
		my ($few, $wal_few) = work_of($keys{$name}, $n, $settings);
		my ($many, $wal_many) = work_of($keys{$name}, 4 * $n, $settings);
		note sprintf('%s, %s: %.3f pages a row, %.3f of four times the rows, %.3f of different keys; %.1f and %.1f bytes of WAL', $name, $what, $few, $many, $base, $wal_few, $wal_many);
		cmp_ok($many, '<', 1.5 * $few + 0.1, "$name, $what: pages per row do not grow with the rows");
		cmp_ok($wal_many, '<', 1.5 * $wal_few, "$name, $what: nor does WAL");
		cmp_ok($many, '<', 3 * $base + 0.2, "$name, $what: nor are they many more than with different keys");
		sound("$name, $what", $keys{$name}, 4 * $n);
		cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM pages('k_a') b, mtpower.page_info('k_a', b.blkno) p, unnest(p.flags) f WHERE b.type = 'bucket' AND f LIKE '%@%'}), '>', 0,
			"$name, $what: there are keys with chains of their own") if $name ne '1,000 keys';
	}
}

# A bucket that can't be split, as a cursor stands in it: a further row costs the same however long its stash is.
foreach my $how ([ 'batches', 'SET mtpower.batching = on', 20_000, 1.02 ], [ 'single rows', 'SET mtpower.batching = off', 5_000, 1.1 ])
{
	my ($what, $settings, $n, $limit) = @$how;
	my @work;
	foreach my $rows ($n, 4 * $n)
	{
		$node->safe_psql('postgres', 'DROP TABLE k; CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1); INSERT INTO k VALUES (-1), (-1)');
		my ($buffers) = $node->safe_psql('postgres', qq{SET mtpower.batch_size = '64kB'; $settings; SET enable_seqscan = off; SET enable_bitmapscan = off;
			BEGIN;
			DECLARE c CURSOR FOR SELECT a FROM k WHERE a = -1;
			MOVE 1 IN c;
			SELECT buffers FROM work('INSERT INTO k SELECT $uniform FROM generate_series(1, $rows) g');
			COMMIT}) =~ /^(\d+)$/m;
		is(space_of($node, 'k_a')->{b}, 1, "a long stash, $what: one bucket");
		push @work, $buffers / $rows;
	}
	note sprintf('a long stash, %s: %.3f pages a row, %.3f of four times the rows', $what, @work);
	cmp_ok($work[1], '<', $limit * $work[0] + 0.01, "a long stash, $what: pages per row do not grow with it");
}

# Lookups of other keys in a bucket with a frequent one: its primary page and that of the row; of keys that are not there, hardly ever more
# than the one.  The frequent key's own pages are read once each.
fresh();
$node->safe_psql('postgres', q{INSERT INTO k SELECT CASE WHEN g % 10 < 3 THEN 7 ELSE hashint4(g) END FROM generate_series(1, 200000) g; VACUUM k});
my $s = space_of($node, 'k_a');
my $in_bucket = "bucket_of(spread(hashint4(a)), $s->{m}, $s->{n}, $s->{p0}) = bucket_of(spread(hashint4(7)), $s->{m}, $s->{n}, $s->{p0})";
my $others = $node->safe_psql('postgres', "SELECT count(*), max(n), round(avg(n), 2) FROM (SELECT buffers('SELECT a FROM k WHERE a = ' || a) AS n FROM (SELECT a FROM k WHERE a <> 7 AND $in_bucket LIMIT 400) x) y");
my $missing = $node->safe_psql('postgres', "SELECT count(*), max(n), round(avg(n), 2) FROM (SELECT buffers('SELECT a FROM k WHERE a = ' || a) AS n
	FROM (SELECT g AS a FROM generate_series(1000000, 3000000) g(g), LATERAL (SELECT g.g AS a) z WHERE $in_bucket LIMIT 400) x) y");
note "lookups in the frequent key's bucket: $others; of keys that are not there: $missing";
my ($n, $most, $mean) = split /\|/, $others;
cmp_ok($n, '>', 100, 'there are other keys in the bucket');
cmp_ok($mean, '<', 4, 'they are found on few pages');
cmp_ok($most, '<', 8, 'each of them');
($n, $most, $mean) = split /\|/, $missing;
cmp_ok($n, '>', 100, 'keys that are not there');
cmp_ok($mean, '<', 2, 'are known to be missing from few pages');
my $hot = $node->safe_psql('postgres', q{SELECT buffers('SELECT a FROM k WHERE a = 7') - pg_relation_size('k') / current_setting('block_size')::int});
my $chain = $node->safe_psql('postgres', "SELECT count(*) FROM pages('k_a') WHERE bucket = bucket_of(spread(hashint4(7)), $s->{m}, $s->{n}, $s->{p0})");
note "the frequent key: $hot pages of the index, its bucket has $chain";
cmp_ok($hot, '<', 60_000 + $chain + 100, 'the frequent key: no page of the index more than once for each row');

# Deleting the frequent key, or the others: the pages come back, and the work is in proportion.
foreach my $delete ('a = 7', 'a <> 7')
{
	fresh();
	$node->safe_psql('postgres', "INSERT INTO k SELECT $keys{'30 % on one key'} FROM generate_series(1, 100000) g; DELETE FROM k WHERE $delete; VACUUM k");
	is($node->safe_psql('postgres', "SELECT sum(items) FROM pages('k_a')"), $node->safe_psql('postgres', 'SELECT count(*) FROM k'), "DELETE WHERE $delete: no entry is left");
	my $size = $node->safe_psql('postgres', "SELECT pg_relation_size('k_a')");
	$node->safe_psql('postgres', "INSERT INTO k SELECT CASE WHEN $delete AND a <> 7 THEN a ELSE 7 END FROM (SELECT hashint4(g) AS a FROM generate_series(1, 100000) g) x LIMIT 29000");
	cmp_ok($node->safe_psql('postgres', "SELECT pg_relation_size('k_a')"), '<=', 1.2 * $size, "DELETE WHERE $delete: room is used anew");
	is($node->safe_psql('postgres', q{SELECT count(mtpower.verify_index('k_a', true)::text)}), 1, "DELETE WHERE $delete: verifies");
}

# More frequent keys in one bucket than it can keep apart
fresh();
$node->safe_psql('postgres', q{DROP INDEX k_a; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1);
	INSERT INTO k SELECT g % 20 FROM generate_series(1, 60000) g; INSERT INTO k SELECT g FROM generate_series(1, 3000) g});
sound('twenty frequent keys', 'CASE WHEN g <= 60000 THEN g % 20 ELSE g - 60000 END', 63000);
$node->safe_psql('postgres', 'REINDEX INDEX k_a');
sound('twenty frequent keys, built', 'CASE WHEN g <= 60000 THEN g % 20 ELSE g - 60000 END', 63000);

# A stash of few keys, with a filter for them: who looks for another key, in none of their classes, reads the bucket's own page only.  When most of
# them are gone VACUUM makes the filter anew.  (A cursor keeps the only bucket from being split.)
fresh();
$node->safe_psql('postgres', q{DROP INDEX k_a; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1);
	INSERT INTO k SELECT 1000 + g % 100 FROM generate_series(1, 500) g;
	SET enable_seqscan = off; SET enable_bitmapscan = off;
	BEGIN;
	DECLARE c CURSOR FOR SELECT FROM k WHERE a = 1001;
	FETCH 1 FROM c;
	INSERT INTO k SELECT g % 20 + 1 FROM generate_series(1, 2400) g;
	COMMIT});
is(space_of($node, 'k_a')->{b}, 1, 'filter: one bucket');
my $class = '(spread(hashint4(%s)) >> 8) %% 256';
my $stashed = 'SELECT ' . sprintf($class, 'g') . ' FROM generate_series(1, 20) g';
# The first lookup of a session reads the metapage as well.
my $pages_of = "DO \$\$ BEGIN PERFORM buffers('SELECT FROM k WHERE a = 0'); END \$\$; SELECT count(*), min(n), max(n) FROM (SELECT buffers('SELECT FROM k WHERE a = ' || g) AS n FROM (%s) x(g)) y";
is($node->safe_psql('postgres', sprintf($pages_of, "SELECT g FROM generate_series(5001, 6000) g WHERE " . sprintf($class, 'g') . " NOT IN ($stashed) LIMIT 50")), '50|1|1',
	'filter: a key that is not there is known to be missing from one page');
$node->safe_psql('postgres', 'DELETE FROM k WHERE a BETWEEN 1 AND 17; VACUUM k');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM pages('k_a') WHERE type = 'stash'}), '>', 0, 'filter: there is a stash after VACUUM');
is($node->safe_psql('postgres', sprintf($pages_of, "SELECT g FROM generate_series(1, 17) g WHERE " . sprintf($class, 'g') . ' NOT IN (SELECT ' . sprintf($class, 'g') . ' FROM generate_series(18, 20) g)')) =~ /^\d+\|1\|1$/, 1,
	'filter: keys that are gone are missed from one page, too');
sound('filter', 'CASE WHEN g > 500 THEN g % 3 + 18 ELSE 1000 END', 860);

# CREATE INDEX
foreach my $name (sort keys %keys)
{
	fresh();
	my @work;
	foreach my $rows (30_000, 120_000)
	{
		$node->safe_psql('postgres', "TRUNCATE k; DROP INDEX IF EXISTS k_a; INSERT INTO k SELECT $keys{$name} FROM generate_series(1, $rows) g");
		my $start = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
		$node->safe_psql('postgres', "CREATE INDEX k_a ON k USING mtpower_hash (a)");
		push @work, $node->safe_psql('postgres', "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '$start')") / $rows;
	}
	cmp_ok($work[1], '<', 1.3 * $work[0], "$name: a build writes in proportion to its rows");
	sound("$name, built", $keys{$name}, 120_000);
	# 11 bytes an entry: once for the buckets, which are a quarter empty, and once more for full pages of frequent keys, which don't go there
	my $size = $node->safe_psql('postgres', "SELECT pg_relation_size('k_a')") / 120_000;
	cmp_ok($size, '<', 11 * (1 / 0.75 + 1) * 1.05, "$name: and its size is");
	$node->safe_psql('postgres', 'CREATE INDEX k_core ON k USING hash (a)');
	cmp_ok($size, '<=', $node->safe_psql('postgres', "SELECT pg_relation_size('k_core')") / 120_000, "$name: it is not larger than core's");
}
$node->stop;
done_testing();
