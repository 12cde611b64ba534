# Some pages of a hash index belong to nothing, and some only seem to. VACUUM frees the first for
# new stash pages and leaves those that growth is adding.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpHash;

my $dir = MtpFaults::compile('faults');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$dir:\$libdir'
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_min_rows = 0
autovacuum = off
bgwriter_lru_maxpages = 0
fsync = off
});
$node->start;
my $faults = MtpFaults->new($node, 't');
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower; CREATE FUNCTION hold_extension(regclass, text) RETURNS void LANGUAGE c AS $$faults$$;' . hash_model_sql() . q{
CREATE FUNCTION types(i regclass) RETURNS TABLE (type text, n bigint) LANGUAGE sql AS $$
	SELECT p.type, count(*) FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, mtpower.page_info(i, b) p GROUP BY 1 $$});
my $block = $node->safe_psql('postgres', 'SHOW block_size');

sub blocks { return $node->safe_psql('postgres', "SELECT pg_relation_size('t_a') / $block"); }
sub pages_of { return $node->safe_psql('postgres', "SELECT coalesce(sum(n), 0) FROM types('t_a') WHERE type = '$_[0]'"); }

# One frequent key, whose pages are the stash pages, beside others.
sub make_table
{
	my ($options) = @_;
	$node->safe_psql('postgres', qq{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (a int, b int) USING mtpower;
		CREATE INDEX t_a ON t USING mtpower_hash (a) WITH ($options);
		INSERT INTO t SELECT hashint4(g), g FROM generate_series(1, 2000) g;
		INSERT INTO t SELECT 7, g FROM generate_series(1, 10000) g});
	return;
}

sub check
{
	my ($what, $rows) = @_;
	is(differences($node, 't_a', 'SELECT spread(hashint4(a)) FROM t'), '', "$what: every bucket is as the model has it");
	$faults->sound($what, $rows);
	return;
}

# Edits the index's file, and loses its free space map, while the server is down.
sub beside_the_server
{
	my ($edit) = @_;
	my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t_a')});
	$node->stop;
	$edit->($path);
	unlink "${path}_fsm";
	$node->start;
	return;
}

# Zero pages at the end: processes that extended the index left them when they failed.
# With so many buckets the index does not grow.
make_table('initial_buckets = 64');
$node->safe_psql('postgres', 'DELETE FROM t WHERE a = 7 AND b = 1');
my $before = blocks();
beside_the_server(sub { append_to_file($_[0], "\0" x (6 * $block)); });
is(blocks() . ' ' . pages_of('new'), $before + 6 . ' 6', 'zero pages: they are there');
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t');
is(pages_of('new') . ' ' . pages_of('free'), '0 6', 'zero pages: VACUUM makes them free ones');
is(space_of($node, 't_a')->{entries}, 11999, 'zero pages: and counts the entries');
$node->safe_psql('postgres', 'INSERT INTO t SELECT 7, g FROM generate_series(10001, 14000) g');
is(blocks(), $before + 6, 'zero pages: stash pages are put there');
cmp_ok(pages_of('free'), '<', 2, 'zero pages: on nearly all of them');
check('zero pages', 15999);

# Free pages that the map, which is not logged, has lost
$node->safe_psql('postgres', 'DELETE FROM t WHERE a = 7; VACUUM t');
my $free = pages_of('free');
cmp_ok($free, '>', 10, "lost map: $free pages are free");
$before = blocks();
beside_the_server(sub { });
$node->safe_psql('postgres', 'DELETE FROM t WHERE b = 2; VACUUM (INDEX_CLEANUP on) t');
$node->safe_psql('postgres', 'INSERT INTO t SELECT 7, g FROM generate_series(1, 9000) g');
is(blocks(), $before, 'lost map: VACUUM has found them');
cmp_ok(pages_of('free'), '<', $free - 8, 'lost map: they are used');
check('lost map', 10999);

# Growth waits for the lock that extends the index, and VACUUM does when it comes to the pages outside of extents: it must look at the metapage after
# that, since what growth adds lies within the length that it finds.  Blocks that are no buckets yet are zero ones: those after the first extent that is added.
foreach my $load (2000, 10_000, 100_000)
{
	my $what = "beside growth by $load rows";
	make_table('initial_buckets = 2, fillfactor = 10');
	# There is a free space map by then, which VACUUM need not extend; and as many rows again as went.
	$node->safe_psql('postgres', 'DELETE FROM t WHERE a = 7; VACUUM t');
	$node->safe_psql('postgres', 'INSERT INTO t SELECT hashint4(g), g FROM generate_series(10001, 20000) g; DELETE FROM t WHERE b BETWEEN 10001 AND 10050');
	my $b = space_of($node, 't_a')->{b};
	my $flag = "$dir/held";
	append_to_file($flag, '');
	my $holder = $faults->start("SELECT hold_extension('t_a', '$flag')");
	$faults->wait_for("SELECT true FROM pg_locks WHERE locktype = 'extend' AND granted", 'the holder');
	my $waiting = q{SELECT count(*) = %d FROM pg_stat_activity WHERE wait_event = 'extend'};
	my $job = $faults->start("INSERT INTO t SELECT hashint4(g), g FROM generate_series(100001, 100000 + $load) g");
	$faults->wait_for(sprintf($waiting, 1), 'growth to wait');
	my $vacuum = $faults->start('VACUUM (INDEX_CLEANUP on) t');
	$faults->wait_for(sprintf($waiting, 2), 'VACUUM to wait for the lock');
	unlink $flag;
	is($faults->finish($_), '', "$what: all end") foreach $holder, $job, $vacuum;
	cmp_ok(space_of($node, 't_a')->{b}, '>', $b, "$what: it has grown");
	$node->safe_psql('postgres', 'INSERT INTO t SELECT 7, g FROM generate_series(1, 20000) g; INSERT INTO t SELECT hashint4(g), g FROM generate_series(300001, 320000) g');
	check($what, 51950 + $load);
}
$faults->log_is_clean;
$node->stop;
done_testing();
