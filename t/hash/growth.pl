# A hash index grows beside other sessions' loads and rows, and the free-space map names pages
# that are not free. No entry is lost.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX qw(ceil);
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
});
$node->start;
my $faults = MtpFaults->new($node, 'k');
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql());
my $scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;';

sub check
{
	my ($what, $rows) = @_;
	is(differences($node, 'k_a', 'SELECT spread(hashint4(a)) FROM k'), '', "$what: every bucket is as the model has it");
	is($node->safe_psql('postgres', "$scan SELECT count(*) FROM (SELECT DISTINCT a FROM k) d JOIN k USING (a)"), $rows, "$what: all rows are found");
	$faults->sound($what, $rows);
	return;
}

# ---------- two at once ----------

# A load is about to choose the first number of buckets, and the index is empty no more when it goes on, or has got its buckets from another load.
SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if !$faults->has_stops;
	foreach my $case (
		[ 'a load', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(100001, 110000) g', 10_000 ],
		[ 'a larger load', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(100001, 150000) g', 50_000 ],
		[ 'a row', 'SET mtpower.batching = off; INSERT INTO k VALUES (1)', 1 ],
		[ 'rows', 'SET mtpower.batching = off; INSERT INTO k SELECT hashint4(g) FROM generate_series(100001, 102000) g', 2_000 ],
		[ 'VACUUM', 'VACUUM k', 0 ])
	{
		my ($name, $other, $rows) = @$case;
		$node->safe_psql('postgres', 'DROP TABLE IF EXISTS k; CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a)');
		$faults->hold;
		my $load = $faults->start(q{SET mtpower.debug_injection = 'hash_extended=wait'}, 'INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 20000) g');
		$faults->stopped(q{query LIKE 'INSERT%'});
		is($faults->finish($faults->start($other)), '', "$name comes first: it ends");
		is($node->safe_psql('postgres', 'SELECT count(*) FROM k'), $rows, "$name comes first: its rows");
		$faults->release;
		is($faults->finish($load), '', "$name comes first: so does the load");
		check("$name comes first", 20_000 + $rows);
		my $s = space_of($node, 'k_a');
		# How far to grow was known before the others came.
		ok($s->{b} >= ceil(20_000 / $s->{per_bucket}) && $s->{b} <= ceil((20_000 + $rows) / $s->{per_bucket}) + 1, "$name comes first: $s->{b} buckets");
	}
}

# ---------- a map that is not true ----------

# The free space map is not logged.  Pages that VACUUM freed are in it when the server writes everything out; then they are used, and the server
# crashes.  The map says that they are free, and they say that they are not.
foreach my $case ([ 'a chain', 'SELECT 7' ], [ 'a stash', 'SELECT g % 20 + 1' ])
{
	my ($name, $query) = @$case;
	$node->safe_psql('postgres', qq{
		DROP TABLE IF EXISTS k;
		CREATE TABLE k (a int, b int) USING mtpower;
		CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1);
		INSERT INTO k SELECT 1000 + g, 0 FROM generate_series(1, 20) g;
		$scan
		BEGIN;
		DECLARE c CURSOR FOR SELECT FROM k WHERE a = 1001;
		FETCH 1 FROM c;
		INSERT INTO k $query, g FROM generate_series(1, 30000) g;
		COMMIT;
		DELETE FROM k WHERE b > 2000;
		VACUUM (TRUNCATE off) k});
	my $free = q{SELECT count(*) FROM generate_series(1, pg_relation_size('k_a') / current_setting('block_size')::int - 1) b, mtpower.page_info('k_a', b) p WHERE p.type = 'free'};
	my $before = $node->safe_psql('postgres', $free);
	cmp_ok($before, '>', 20, "$name: VACUUM has freed pages");
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', "$scan BEGIN; DECLARE c CURSOR FOR SELECT FROM k WHERE a = 1001; FETCH 1 FROM c; INSERT INTO k $query, g FROM generate_series(1, 15000) g; COMMIT");
	cmp_ok($node->safe_psql('postgres', $free), '<', $before - 10, "$name: they are used");
	$node->stop('immediate');
	$node->start;
	$node->safe_psql('postgres', "$scan BEGIN; DECLARE c CURSOR FOR SELECT FROM k WHERE a = 1001; FETCH 1 FROM c; INSERT INTO k $query, g FROM generate_series(1, 10000) g; COMMIT");
	check("$name, after the crash", 27_020);
	$node->safe_psql('postgres', "INSERT INTO k SELECT hashint4(g), 0 FROM generate_series(1, 20000) g");
	check("$name, grown", 47_020);
}
$faults->log_is_clean;
$node->stop;
done_testing();
