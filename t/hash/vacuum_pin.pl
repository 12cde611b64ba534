# A cursor enters a bucket of a hash index behind VACUUM: VACUUM has visited the bucket's first
# page, and the cursor reads dead TIDs from a chain that VACUUM has not reached. If an inserter
# deletes these entries first, VACUUM finds nothing there. It must wait for the cursor all the
# same: otherwise the cursor would mark new rows that get the TIDs as dead.
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
mtpower.use_frames = off
mtpower.batching = off
autovacuum = off
bgwriter_lru_maxpages = 0
fsync = off
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
my $index_scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';

# One key: its first 700 entries or so are on the bucket's first page, the others on the first page of a chain.
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE TABLE t (a int, b int) USING mtpower WITH (vacuum_truncate = off);
	CREATE INDEX t_a ON t USING mtpower_hash (a);
	INSERT INTO t SELECT 7, g FROM generate_series(1, 1000) g;
	DELETE FROM t WHERE b BETWEEN 901 AND 990});
is($node->safe_psql('postgres', q{SELECT type, items FROM generate_series(1, 3) b, mtpower.page_info('t_a', b) WHERE items BETWEEN 1 AND 300}) =~ /^stash\|/, 1, 'there is a chain');

hold($node, 155);
my $vacuum = start_psql($node, 'postgres', q{SET mtpower.debug_injection = 'vacuum_chains=wait'}, 'VACUUM (INDEX_CLEANUP ON) t');
$node->poll_query_until('postgres', waits_sql(q{query LIKE 'VACUUM%'})) or die 'VACUUM does not come to the chain';

# The cursor has passed the dead rows and stands on the chain's page.
my $cursor = $node->background_psql('postgres');
$cursor->query_safe("$index_scan BEGIN;");
$cursor->query_safe('DECLARE c CURSOR FOR SELECT b FROM t WHERE a = 7');
my $seen = $cursor->query_safe('FETCH 905 FROM c');
like($seen, qr/\b995$/, 'the cursor stands behind the dead rows');

# Another scan finds them dead, and an inserter wants their room.
is($node->safe_psql('postgres', "$index_scan SELECT count(*) FROM t WHERE a = 7"), 910, 'rows');
$node->safe_psql('postgres', 'INSERT INTO t SELECT 7, 2000 + g FROM generate_series(1, 500) g');
is($node->safe_psql('postgres', q{SELECT sum(items) FROM generate_series(1, 3) b, mtpower.page_info('t_a', b)}), 1410, 'their entries are gone');

release(155);
my $active = q{FROM pg_stat_activity WHERE query LIKE 'VACUUM%' AND state = 'active'};
$node->poll_query_until('postgres', "SELECT count(*) = 0 OR bool_or(wait_event = 'BufferPin') $active");
is($node->safe_psql('postgres', "SELECT count(*) $active"), 1, 'VACUUM waits for the cursor');

# If it does not, these get the dead rows' TIDs.
$node->safe_psql('postgres', 'INSERT INTO t SELECT 7, 3000 + g FROM generate_series(1, 90) g');
$cursor->query_safe('FETCH ALL FROM c');
$cursor->query_safe('COMMIT');
$cursor->quit;
is(finish($vacuum), '', 'VACUUM ends');
is($node->safe_psql('postgres', "$index_scan SELECT count(*) FROM t WHERE a = 7"), 1500, 'all rows are found');
my $err;
is($node->psql('postgres', "SELECT mtpower.verify_index('t_a', true)", stderr => \$err), 0, 'the index verifies') or diag($err);
$node->stop;
done_testing();
