# VACUUM deletes leaves, whose pages are then used for other keys.  It stops behind the xid that keeps the deleted pages, and another xid
# ends.  Cursors that begin then have snapshots that do not keep the pages.  On the primary the cursor finds no way to them in frames; on
# the standby, where the links can still be read, it is cancelled before a page is used anew (invariant B13).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpSessions;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
wal_consistency_checking = 'mtpower'
autovacuum = off
mtpower.buffer_size = '8MB'
enable_seqscan = off
enable_bitmapscan = off
});
$primary->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $primary->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
$primary->safe_psql('postgres', 'CREATE EXTENSION mtpower');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 0');
$standby->start;

sub sql { return $primary->safe_psql('postgres', $_[0]); }
sub catch_up { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert')); }

# The scans put leaves into frames.
sql(q{CREATE FUNCTION k(i int) RETURNS text IMMUTABLE LANGUAGE sql AS
		$$SELECT lpad(i::text, 8, '0') || repeat(md5(i::text), current_setting('block_size')::int / 256)$$;
	CREATE TABLE other (a int);
	CREATE TABLE t (a int, b text);
	ALTER TABLE t ALTER b SET STORAGE plain;
	CREATE INDEX t_b ON t USING mtpower_blink (b);
	CREATE FUNCTION pages() RETURNS TABLE (type text, high_key text) LANGUAGE sql AS $$
		SELECT type, high_key FROM generate_series(0, pg_relation_size('t_b') / current_setting('block_size')::int - 1) b, mtpower.page_info('t_b', b) $$;
	INSERT INTO t SELECT g, k(g) FROM generate_series(1000, 200000, 1000) g;
	CREATE TABLE ends AS SELECT substr(high_key, 2, 8)::int AS a, row_number() OVER (ORDER BY high_key)
		FROM pages() WHERE type = 'leaf' AND high_key IS NOT NULL;
	SELECT count(*) FROM generate_series(1, 20) i, generate_series(1000, 200000, 1000) g, LATERAL (SELECT FROM t WHERE b = k(g + 0 * i) OFFSET 0) x;});

# All rows of some leaves; the one before these, the cursors', stays as it is.  A high key is the first key to its right.
my ($from, $to) = map { sql("SELECT a FROM ends WHERE row_number = $_") } 8, 13;
my $last = $from - 1000;
my $all = join(' ', $last, (map { $_ * 1000 } $to / 1000 .. 200), '');
my $deleted = q{SELECT count(*) FROM pages() WHERE type = 'deleted'};
sql("DELETE FROM t WHERE a >= $from AND a < $to");

# Opens a cursor that fetches the last row of its leaf, waits for the lock, and fetches the rest
sub start_cursor
{
	my ($node) = @_;
	return start_psql($node, 'postgres', 'BEGIN', "DECLARE c CURSOR FOR SELECT a FROM t WHERE b >= k($last) ORDER BY b", 'FETCH 1 FROM c',
		'SELECT pg_advisory_lock(156)', 'FETCH ALL FROM c', 'COMMIT');
}

my $waits = waits_sql("query LIKE '%lock(156)'");
hold($primary, 155);
my $vacuum = start_psql($primary, 'postgres', "SET mtpower.debug_injection = 'unlink_safexid=wait'", 'VACUUM t');
$primary->poll_query_until('postgres', waits_sql("query LIKE 'VACUUM%'")) or die;
sql('INSERT INTO other VALUES (1)');
catch_up();

my $holder = $standby->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(156)');
hold($primary, 156);
my $on_standby = start_cursor($standby);
my $on_primary = start_cursor($primary);
$standby->poll_query_until('postgres', $waits) or die;
$primary->poll_query_until('postgres', "$waits OR (SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'FETCH 1%' AND wait_event = 'BufferContent')") or die;
release(155);
is(finish($vacuum), '', 'VACUUM ends well');
$primary->poll_query_until('postgres', $waits) or die;

my $before = sql($deleted);
cmp_ok($before, '>', 0, 'it has deleted leaves');
sql('VACUUM t');
sql('INSERT INTO t SELECT g, k(g) FROM generate_series(150001, 150999, 3) g');
cmp_ok(sql($deleted), '<', $before, 'the first of their pages has other keys now');
catch_up();

release(156);
is(finish($on_primary), '', 'the cursor on the primary ends well');
is($on_primary->{out} =~ s/\n+/ /gr, $all, 'it has returned all rows, in their order');
eval { $holder->quit };
my $error = finish($on_standby);
note "on the standby: $error";
ok($error =~ /40001/ || ($error eq '' && $on_standby->{out} =~ s/\n+/ /gr eq $all), 'the cursor on the standby has returned all rows, or was cancelled');
is($_->psql('postgres', q{SELECT mtpower.verify_index('t_b', true)}), 0, 'the index verifies') foreach $primary, $standby;
done_testing();
