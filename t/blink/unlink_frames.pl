# VACUUM deletes leaves, whose pages are then used for other keys.  A cursor that begins while VACUUM has the pages locked, with a snapshot
# that does not keep them, finds no way to them in frames (invariant B13).
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
autovacuum = off
mtpower.buffer_size = '8MB'
enable_seqscan = off
enable_bitmapscan = off
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(q{CREATE EXTENSION mtpower;
	CREATE FUNCTION k(i int) RETURNS text IMMUTABLE LANGUAGE sql AS
		$$SELECT lpad(i::text, 8, '0') || repeat(md5(i::text), current_setting('block_size')::int / 256)$$;
	CREATE TABLE t (a int, b text);
	ALTER TABLE t ALTER b SET STORAGE plain;
	CREATE INDEX t_b ON t USING mtpower_blink (b);
	CREATE FUNCTION deleted() RETURNS bigint LANGUAGE sql AS $$
		SELECT count(*) FROM generate_series(0, pg_relation_size('t_b') / current_setting('block_size')::int - 1) b, mtpower.page_info('t_b', b) p
		WHERE p.type = 'deleted' $$;
	INSERT INTO t SELECT g, k(g) FROM generate_series(1000, 200000, 1000) g;
	CREATE TABLE ends AS SELECT substr(high_key, 2, 8)::int AS a, row_number() OVER (ORDER BY high_key)
		FROM generate_series(0, pg_relation_size('t_b') / current_setting('block_size')::int - 1) b, mtpower.page_info('t_b', b)
		WHERE type = 'leaf' AND high_key IS NOT NULL;
	SELECT count(*) FROM generate_series(1, 20) i, generate_series(1000, 200000, 1000) g, LATERAL (SELECT FROM t WHERE b = k(g + 0 * i) OFFSET 0) x;});

# All rows of some leaves; the one before these, the cursor's, stays as it is.  A high key is the first key to its right.
my ($from, $to) = map { sql("SELECT a FROM ends WHERE row_number = $_") } 8, 13;
my $last = $from - 1000;
sql("DELETE FROM t WHERE a >= $from AND a < $to");
hold($node, 155);
hold($node, 156);
my $vacuum = start_psql($node, 'postgres', "SET mtpower.debug_injection = 'unlink_safexid=wait'", 'VACUUM t');
$node->poll_query_until('postgres', waits_sql("query LIKE 'VACUUM%'")) or die;
sql('SELECT txid_current()');
my $cursor = start_psql($node, 'postgres', 'BEGIN', "DECLARE c CURSOR FOR SELECT a FROM t WHERE b >= k($last) ORDER BY b", 'FETCH 1 FROM c',
	'SELECT pg_advisory_lock(156)', 'FETCH ALL FROM c', 'COMMIT');
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND
	((query LIKE 'FETCH 1%' AND wait_event = 'BufferContent') OR (query LIKE '%lock(156)' AND wait_event = 'advisory' AND state = 'active'))}) or die;
note sql(q{SELECT string_agg(query || ' waits for ' || wait_event, '; ') FROM pg_stat_activity WHERE query LIKE 'FETCH%' OR query LIKE '%lock(156)'});
release(155);
is(finish($vacuum), '', 'VACUUM ends well');
$node->poll_query_until('postgres', waits_sql("query LIKE '%lock(156)'")) or die;
my $deleted = sql('SELECT deleted()');
cmp_ok($deleted, '>', 0, 'it has deleted leaves');
sql('VACUUM t');
sql('INSERT INTO t SELECT g, k(g) FROM generate_series(150001, 150999, 3) g');
cmp_ok(sql('SELECT deleted()'), '<', $deleted, 'the first of their pages has other keys now');
release(156);
is(finish($cursor), '', 'the cursor ends well');
is($cursor->{out} =~ s/\n+/ /gr, join(' ', $last, (map { $_ * 1000 } $to / 1000 .. 200), ''), 'it has returned all rows, in their order');
is($node->psql('postgres', q{SELECT mtpower.verify_index('t_b', true)}), 0, 'the index verifies');
done_testing();
