# VACUUM of indexes, mtpower.warm and directory scans read the same pages whatever the release;
# PostgreSQL 18 tells that one call reads many.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 64MB
autovacuum = off
# Nobody else reads pages after a restart.
mtpower.hot_list = off
});
$node->start;
sub sql { return $node->safe_psql('postgres', join(';', @_)); }
my $major = int(sql('SHOW server_version_num') / 10000);
my $rows = 300000;

sql('CREATE EXTENSION mtpower', qq{
	CREATE TABLE t (a int, v int) USING mtpower;
	INSERT INTO t SELECT hashint4(g), g FROM generate_series(1, $rows) g;
	CREATE INDEX t_a ON t USING mtpower_blink (a);
	CREATE INDEX t_v ON t USING mtpower_blink (v);
	CREATE TABLE h (a int) USING mtpower;
	INSERT INTO h SELECT g FROM generate_series(1, $rows) g;
	CREATE INDEX h_a ON h USING mtpower_hash (a)}, 'VACUUM t');
my ($index, $table) = split /\|/, sql(q{SELECT pg_relation_size('t_a') / 8192, pg_relation_size('t') / 8192});
cmp_ok($index, '>', 200, "$index pages of an index");

# read_cold WHAT[, CONTEXT]: calls and blocks read by a statement on a server that has just started
sub read_cold
{
	my ($what, $context) = @_;
	$context //= 'vacuum';
	$node->restart;
	return sql($what) if $major < 18;	# its answer counts nothing
	sql(q{SELECT pg_stat_reset_shared('io')});
	sql($what, 'SELECT pg_stat_force_next_flush()');	# not when the process has ended, some time after psql
	my $read = q{SELECT sum(reads), div(sum(read_bytes), 8192) FROM pg_stat_io WHERE backend_type = 'client backend' AND object = 'relation' AND context IN ('bulkread', };
	return split /\|/, sql($read . "'$context')");
}
# many WHAT, PAGES, CALLS, BLOCKS[, EACH]: all pages were read, EACH (3) and more of them with a call
# on the average. Older releases do not tell calls from blocks.
sub many
{
	my ($what, $pages, $calls, $blocks, $each) = @_;
	return if $major < 18;
	cmp_ok($blocks, '>=', $pages - 3, "$what: $blocks blocks are read, of $pages");
	cmp_ok($calls, '<', $pages / ($each // 3), "$what: with $calls calls");
}

many('mtpower.warm of an index', $index, read_cold(q{SELECT mtpower.warm('t_a')}));
is(sql(q{SELECT count(*) FROM mtpower.buffer_content WHERE relation = 't_a'::regclass}), $index - 1, 'all pages have frames, but for the metapage');
many('mtpower.warm of a table', $table, read_cold(q{SELECT mtpower.warm('t')}));
is(sql(q{SELECT count(*) FROM mtpower.buffer_content WHERE relation = 't'::regclass AND kind = 'table'}), int(($table + 1) / 2), 'all pairs have frames');

# Without room nothing is read, but for the first few.
$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 1MB');
$node->restart;
sql(q{SELECT mtpower.warm('t_v')});
my ($calls, $blocks) = read_cold(q{SELECT mtpower.warm('t_v'), mtpower.warm('t')});
my $held = sql(q{SELECT count(*) FROM mtpower.buffer_content WHERE kind = 'index'});
cmp_ok($held, '>', 20, "$held pages fill the buffer");
cmp_ok($blocks, '<', ($index + $table) / 2, "$blocks blocks are read") if $major >= 18;
my $other = $node->background_psql('postgres');
$other->query_safe('CREATE TEMP TABLE other (a int) USING mtpower; INSERT INTO other VALUES (1); CREATE INDEX other_a ON other USING mtpower_blink (a)');
is(sql(q{SELECT mtpower.warm(oid) FROM pg_class WHERE relname IN ('other', 'other_a')}), "0\n0", 'nothing of the temporary tables of other sessions');
$other->quit;
$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 64MB');

sql('DELETE FROM t WHERE v % 50 = 1');
my @read = read_cold('VACUUM (INDEX_CLEANUP ON, PARALLEL 0) t');
many('VACUUM', sql(q{SELECT (pg_relation_size('t_a') + pg_relation_size('t_v')) / 8192}), @read);
is(sql(q{SELECT count(*) || ' ' || count(*) FILTER (WHERE v % 50 = 1) FROM t}), $rows - $rows / 50 . ' 0', 'VACUUM took the dead rows');
is(($node->psql('postgres', q{SELECT mtpower.verify_index('t_a', true), mtpower.verify_index('t_v', true)}))[0], 0, 'the indexes verify');

# Of a hash index, the buckets and what lies between them, but a bucket's chain page by page
sql('DELETE FROM h WHERE a % 50 = 1');
@read = read_cold('VACUUM (INDEX_CLEANUP ON, PARALLEL 0) h');
many('VACUUM of a hash index', sql(q{SELECT pg_relation_size('h_a') / 8192}), @read, 2);
is(sql('SELECT count(*) FROM h'), $rows - $rows / 50, 'VACUUM took its dead rows');
is(($node->psql('postgres', q{SELECT mtpower.verify_index('h_a', true)}))[0], 0, 'the hash index verifies');

# A process that reads ahead first asks for its tablespace. If other sessions have changed the index's
# entry in the catalogs, what the process has cached of the index goes then: a server with assertions
# acts as if they had.
if (sql('SHOW debug_assertions') eq 'on')
{
	sql('SET allow_in_place_tablespaces = on', q{CREATE TABLESPACE other LOCATION ''});
	sql('ALTER INDEX h_a SET TABLESPACE other', 'DELETE FROM h WHERE a % 50 = 2');
	is(($node->psql('postgres', 'SET debug_discard_caches = 1; VACUUM (INDEX_CLEANUP ON, PARALLEL 0) h'))[0], 0, 'VACUUM with caches discarded');
	is(($node->psql('postgres', q{SELECT mtpower.verify_index('h_a', true)}))[0], 0, 'the hash index verifies again');
}

# A directory scan of a table without directories, and then with a few, which the session builds
$node->append_conf('postgresql.conf', 'mtpower.workers = 0');
$node->restart;
sql(q{SELECT mtpower.set_directory('t', 'v')});
my $scan = q{SET max_parallel_workers_per_gather = 0; SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off};
my @rows = ('a % 100 = 7 AND v >= 0', 'v BETWEEN 150000 AND 150100', 'v = 150000', 'v < 0');
like(sql($scan, "EXPLAIN SELECT * FROM t WHERE $rows[0]"), qr/directory scan/, 'a directory scan');
my $aggregate = q{SELECT count(*), coalesce(sum(a::bigint), 0), coalesce(md5(string_agg(ctid::text, ',')), '')};
foreach my $where (@rows)
{
	my $plain = sql($scan, 'SET mtpower.enable_directoryscan = off', "$aggregate FROM t WHERE $where");
	@read = read_cold("$scan; $aggregate FROM t WHERE $where", 'normal');
	many("a directory scan, $where", $table, @read);
	is(sql($scan, "$aggregate FROM t WHERE $where"), $plain, "its rows, $where");
}

$node->stop;
done_testing();
