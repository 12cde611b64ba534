# VACUUM of a hash index, and scans that come to a bucket before it and while it is there: why it
# takes two cleanup locks.
#
# A scan that enters the bucket after the first lock may read dead TIDs from a chain before VACUUM
# reaches it. VACUUM must wait for the scan with the second lock: otherwise a new row gets such a
# TID, perhaps with the same key, and the scan marks its entry dead when it leaves the page.
# (test/isolation/specs/hash_scan_pin.spec has scans that stand there before VACUUM comes.)
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
autovacuum = off
bgwriter_lru_maxpages = 0
fsync = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower');
plan skip_all => 'injection points need a server with assertions' if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';

# What the backend of a process id is doing: at the injection point, waiting for a pin, or done.
sub state_of
{
	my ($pid) = @_;
	my $what = "SELECT CASE WHEN wait_event = 'advisory' THEN 'stopped' WHEN wait_event = 'BufferPin' THEN 'waits' WHEN state = 'idle' THEN 'over' END FROM pg_stat_activity WHERE pid = $pid";
	$node->poll_query_until('postgres', "SELECT ($what) IS NOT NULL");
	return $node->safe_psql('postgres', $what);
}

# Key 7 has a chain of several pages, and half of its rows die.  Other keys' entries are on the primary page, or $stashed: in its stash, where a session that
# stands in the only bucket keeps it from being split while they are loaded.
sub between_the_locks
{
	my ($what, $query, $fetched, $stashed) = @_;
	my $index_scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off';

	$node->safe_psql('postgres', q{
		CREATE TABLE t (k int, v int);
		CREATE INDEX t_k ON t USING mtpower_hash (k) WITH (initial_buckets = 1);
		INSERT INTO t VALUES (-1, -1)});
	my $keeper = $node->background_psql('postgres');
	$keeper->query_safe($_) foreach split(/; /, $index_scan), 'BEGIN', 'DECLARE c CURSOR FOR SELECT FROM t WHERE k = -1', 'FETCH 1 FROM c' x !!$stashed;
	$node->safe_psql('postgres', 'INSERT INTO t SELECT g % 1000 + 100, g FROM generate_series(1, 3000) g') if $stashed;
	$node->safe_psql('postgres', 'INSERT INTO t SELECT 7, g FROM generate_series(1, 3000) g') if !$stashed;
	$keeper->query_safe('COMMIT');
	$keeper->quit;
	$node->safe_psql('postgres', 'DELETE FROM t WHERE v % 2 = 0');

	hold($node, 7);
	my $vacuum = $node->background_psql('postgres');
	my $pid = $vacuum->query_safe('SELECT pg_backend_pid()');
	$vacuum->query_safe("SET mtpower.debug_injection = 'vacuum_chains=wait7'");
	$vacuum->query_until(qr/start/, "\\echo start\nVACUUM (INDEX_CLEANUP on) t;\n");
	is(state_of($pid), 'stopped', "$what: VACUUM has had the first cleanup lock");

	my $scan = $node->background_psql('postgres');
	$scan->query_safe($_) foreach split(/; /, $index_scan), 'BEGIN', "DECLARE c CURSOR FOR $query", "MOVE $fetched IN c";
	release(7);
	is(state_of($pid), 'waits', "$what: it waits for a scan that came after that");
	$node->safe_psql('postgres', 'INSERT INTO t SELECT 7, -g FROM generate_series(1, 2000) g');
	is($scan->query_safe('FETCH 1 FROM c; MOVE FORWARD ALL IN c') =~ /\d/, 1, "$what: the scan goes on");
	$scan->query_safe('COMMIT');
	is(state_of($pid), 'over', "$what: VACUUM ends when the scan is gone");
	$scan->quit;
	$vacuum->quit;

	$node->safe_psql('postgres', 'INSERT INTO t SELECT 7, -g FROM generate_series(2001, 4000) g');
	my ($out, $err);
	is($node->psql('postgres', "SELECT mtpower.verify_index('t_k', true)", stderr => \$err), 0, "$what: verifies") or diag($err);
	is($node->safe_psql('postgres', "$index_scan; SELECT count(*) FROM t WHERE k = 7 AND v < 0"), 4000, "$what: new rows are found");
	$node->safe_psql('postgres', 'DROP TABLE t');
}

between_the_locks('on a chain', 'SELECT v FROM t WHERE k = 7', 1200, 0);
between_the_locks('on the primary page', 'SELECT v FROM t WHERE k = 7', 1, 0);
between_the_locks('on a stash page', 'SELECT v FROM t WHERE k = 777', 2, 1);

# A scan that enters the bucket when VACUUM has been through its chains, and is about to put their entries on fewer pages: VACUUM does not wait for
# it, and leaves the chains alone, since the scan has its way along them.
sub before_squeezing
{
	my ($what, $fetched) = @_;
	my $index_scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off';
	my $pages = q{SELECT count(*) FROM generate_series(1, pg_relation_size('t_k') / current_setting('block_size')::int - 1) b, mtpower.page_info('t_k', b) p WHERE p.type = 'stash'};

	$node->safe_psql('postgres', q{
		CREATE TABLE t (k int, v int);
		CREATE INDEX t_k ON t USING mtpower_hash (k) WITH (initial_buckets = 1);
		INSERT INTO t SELECT 7, g FROM generate_series(1, 9000) g;
		DELETE FROM t WHERE v % 8 <> 0});
	my $before = $node->safe_psql('postgres', $pages);
	cmp_ok($before, '>', 8, "$what: there is a long chain");
	hold($node, 7);
	my $vacuum = $node->background_psql('postgres');
	my $pid = $vacuum->query_safe('SELECT pg_backend_pid()');
	$vacuum->query_safe("SET mtpower.debug_injection = 'vacuum_squeeze=wait7'");
	$vacuum->query_until(qr/start/, "\\echo start\nVACUUM t;\n");
	is(state_of($pid), 'stopped', "$what: VACUUM is about to squeeze the chain");

	my $scan = $node->background_psql('postgres');
	$scan->query_safe($_) foreach split(/; /, $index_scan), 'BEGIN', 'DECLARE c CURSOR FOR SELECT v FROM t WHERE k = 7';
	my @seen = split /\n/, $scan->query_safe("FETCH $fetched FROM c");
	release(7);
	is(state_of($pid), 'over', "$what: VACUUM does not wait for a scan that came");
	push @seen, split /\n/, $scan->query_safe('FETCH ALL FROM c');
	$scan->query_safe('COMMIT');
	$scan->quit;
	$vacuum->quit;
	is(join(' ', sort { $a <=> $b } @seen), join(' ', map { 8 * $_ } 1 .. 1125), "$what: the scan sees each row once");
	is($node->safe_psql('postgres', $pages), $before, "$what: the chain is as long as before");

	# Nobody stands there now.
	$node->safe_psql('postgres', 'DELETE FROM t WHERE v % 16 <> 0; VACUUM t');
	cmp_ok($node->safe_psql('postgres', $pages), '<', 4, "$what: the next VACUUM squeezes it");
	my $err;
	is($node->psql('postgres', "SELECT mtpower.verify_index('t_k', true)", stderr => \$err), 0, "$what: verifies") or diag($err);
	$node->safe_psql('postgres', 'DROP TABLE t');
}

before_squeezing('on the primary page', 1);
before_squeezing('on a chain', 400);

# VACUUM in a session of its own, which stops at a point, or not at all
sub start_vacuum
{
	my ($stop) = @_;
	my $vacuum = $node->background_psql('postgres');
	my $pid = $vacuum->query_safe('SELECT pg_backend_pid()');
	$vacuum->query_safe("SET mtpower.debug_injection = '$stop'");
	$vacuum->query_until(qr/start/, "\\echo start\nVACUUM (INDEX_CLEANUP on) t;\n");
	return ($vacuum, $pid);
}

sub open_scan
{
	my ($query, @more) = @_;
	my $scan = $node->background_psql('postgres');
	$scan->query_safe($_) foreach 'SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'BEGIN', "DECLARE c CURSOR FOR $query", @more;
	return $scan;
}

sub found
{
	my ($where) = @_;
	return $node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM t WHERE $where");
}

sub verifies
{
	my ($what) = @_;
	my $err;
	is($node->psql('postgres', "SELECT mtpower.verify_index('t_k', true)", stderr => \$err), 0, "$what: verifies") or diag($err);
	return;
}

my $pages = q{FROM generate_series(1, pg_relation_size('t_k') / current_setting('block_size')::int - 1) b, mtpower.page_info('t_k', b) p WHERE p.type = };

# A bucket that is one full page.  The scan has read its dead TIDs, and an inserter has deleted them since: VACUUM finds nothing there to delete, and must wait
# for the scan all the same.
{
	my $what = 'nothing to delete';
	$node->safe_psql('postgres', q{
		SET mtpower.batching = off;
		CREATE TABLE t (k int, v int);
		CREATE INDEX t_k ON t USING mtpower_hash (k) WITH (initial_buckets = 1, fillfactor = 100);
		INSERT INTO t SELECT CASE WHEN g <= 100 THEN 7 ELSE g END, g FROM generate_series(1, 731) g;
		DELETE FROM t WHERE k = 7 AND v % 2 = 0});
	my $scan = open_scan('SELECT v FROM t WHERE k = 7');
	is($scan->query_safe('FETCH 1 FROM c'), 1, "$what: the scan has read the page");
	is(found('k = 7'), 50, "$what: another one finds the dead rows");
	$node->safe_psql('postgres', 'SET mtpower.batching = off; INSERT INTO t SELECT 1000 + g, g FROM generate_series(1, 30) g');
	is($node->safe_psql('postgres', q{SELECT type, items FROM mtpower.page_info('t_k', 1)}), 'bucket|711', "$what: an inserter has taken their room");
	my ($vacuum, $pid) = start_vacuum('');
	is(state_of($pid), 'waits', "$what: VACUUM waits");
	is(scalar(split(/\n/, $scan->query_safe('FETCH ALL FROM c'))), 49, "$what: the scan goes on");
	$scan->query_safe('COMMIT');
	is(state_of($pid), 'over', "$what: VACUUM ends when the scan is gone");
	$scan->quit;
	$vacuum->quit;
	verifies($what);
	$node->safe_psql('postgres', 'DROP TABLE t');
}

# Between the look at a stash page and the locks to delete from it, others change the page: what VACUUM has found lies elsewhere then.
{
	my $what = 'a stash page that changes';
	$node->safe_psql('postgres', q{
		SET mtpower.batching = off;
		CREATE TABLE t (k int, v int);
		CREATE INDEX t_k ON t USING mtpower_hash (k) WITH (initial_buckets = 1);
		INSERT INTO t SELECT 7, g FROM generate_series(1, 731 + 738) g;
		DELETE FROM t WHERE v BETWEEN 800 AND 899});
	is($node->safe_psql('postgres', "SELECT items $pages 'stash'"), 738, "$what: it is full");
	hold($node, 7);
	my ($vacuum, $pid) = start_vacuum('vacuum_stash=wait7');
	is(state_of($pid), 'stopped', "$what: VACUUM has found what is dead");
	is(found('k = 7'), 1369, "$what: a scan marks them");
	$node->safe_psql('postgres', 'SET mtpower.batching = off; INSERT INTO t SELECT 7, -g FROM generate_series(1, 40) g');
	is($node->safe_psql('postgres', "SELECT items $pages 'stash'"), 678, "$what: an inserter has taken their room");
	release(7);
	is(state_of($pid), 'over', "$what: VACUUM ends");
	$vacuum->quit;
	is(found('k = 7'), 1409, "$what: all rows are found");
	verifies($what);
	$node->safe_psql('postgres', 'DROP TABLE t');
}

# A scan that comes to a chain when VACUUM has deleted from it, and is about to squeeze it: the chain stays as it is.
{
	my $what = 'a chain that is squeezed';
	$node->safe_psql('postgres', q{
		CREATE TABLE t (k int, v int);
		CREATE INDEX t_k ON t USING mtpower_hash (k) WITH (initial_buckets = 1);
		INSERT INTO t SELECT 7, g FROM generate_series(1, 6000) g;
		DELETE FROM t WHERE v % 10 < 6});
	my $before = $node->safe_psql('postgres', "SELECT count(*) $pages 'stash'");
	cmp_ok($before, '>', 6, "$what: it has $before pages");
	hold($node, 7);
	my ($vacuum, $pid) = start_vacuum('vacuum_squeeze=wait7');
	is(state_of($pid), 'stopped', "$what: VACUUM has been along it");
	my $scan = open_scan('SELECT v FROM t WHERE k = 7', 'MOVE 400 IN c');
	release(7);
	is(state_of($pid), 'over', "$what: VACUUM does not wait for the scan");
	$vacuum->quit;
	is($node->safe_psql('postgres', "SELECT count(*) $pages 'stash'"), $before, "$what: nor squeezes it");
	is(scalar(split(/\n/, $scan->query_safe('FETCH ALL FROM c'))), 2000, "$what: the scan goes on, and misses nothing");
	$scan->query_safe('COMMIT');
	$scan->quit;

	# The next VACUUM does.  Of the pages that are left the first one has room, which is where inserters look for it.
	$node->safe_psql('postgres', 'DELETE FROM t WHERE v = 6; VACUUM (INDEX_CLEANUP on) t');
	my $after = $node->safe_psql('postgres', "SELECT count(*) $pages 'stash'");
	is($after, 3, "$what: the next one does");
	is($node->safe_psql('postgres', "SELECT count(*) $pages 'free'"), $before - $after, "$what: the others are free");
	$node->safe_psql('postgres', 'SET mtpower.batching = off; INSERT INTO t SELECT 7, -g FROM generate_series(1, 100) g');
	is($node->safe_psql('postgres', "SELECT count(*) $pages 'stash'"), $after, "$what: there is room on its first page");
	is(found('k = 7'), 2499, "$what: all rows are found");
	verifies($what);
	$node->safe_psql('postgres', 'DROP TABLE t');
}

$node->stop;
done_testing();
