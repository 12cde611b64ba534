# VACUUM of a hash index and its replay on a hot standby: a scan there keeps what it has read, in
# whichever way it leaves its page, and meets no dead row's place that another row has got.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpHash;
use MtpSessions;

my $module = MtpFaults::compile('faults');
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batching = off
autovacuum = off
bgwriter_lru_maxpages = 0
fsync = off
wal_consistency_checking = 'mtpower'
wal_keep_size = 4GB
});
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql());
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{
max_standby_streaming_delay = -1
hot_standby_feedback = off
});
$standby->start;
my $index_scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';

sub catch_up { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert')); return; }

# Does replay come to a wait for a pin before it has replayed everything?
sub replay_waits
{
	my $lsn = $primary->lsn('insert');
	my $from = q{FROM pg_stat_activity WHERE backend_type = 'startup'};
	$standby->poll_query_until('postgres', "SELECT wait_event = 'BufferPin' OR pg_last_wal_replay_lsn() >= '$lsn' $from");
	return $standby->safe_psql('postgres', "SELECT wait_event = 'BufferPin' AND pg_last_wal_replay_lsn() < '$lsn' $from") eq 't';
}

# A session on the standby whose cursor has returned so many rows of a query.
sub open_scan
{
	my ($query, $n) = @_;
	my $scan = $standby->background_psql('postgres');
	$scan->query_safe($_) foreach 'SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'BEGIN', "DECLARE c CURSOR FOR $query", "MOVE $n IN c";
	return $scan;
}

sub close_scan
{
	my ($scan, $what) = @_;
	$scan->query_safe('COMMIT');
	$scan->quit;
	catch_up();
	foreach my $server ($primary, $standby)
	{
		my $err;
		is($server->psql('postgres', "SELECT mtpower.verify_index('t_a', true)", stderr => \$err), 0, "$what, " . $server->name . ': verifies') or diag($err);
	}
	$primary->safe_psql('postgres', 'DROP TABLE t');
	return;
}

# Keys of each of three buckets, whose pages are full: 200 entries of the first, 531 of the second.
my @keys = map { [ split /\n/, $primary->safe_psql('postgres', "SELECT g FROM generate_series(1, 100) g WHERE bucket_of(spread(hashint4(g)), 3, 0, 0) = $_ ORDER BY g LIMIT 2") ] } 0 .. 2;
sub make_table
{
	$primary->safe_psql('postgres', q{
		CREATE TABLE t (a int, b int, filler text) WITH (autovacuum_enabled = off);
		ALTER TABLE t ALTER filler SET STORAGE plain;
		CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 3, fillfactor = 100);});
	$primary->safe_psql('postgres', "INSERT INTO t SELECT $_->[0], g, repeat('x', 400) FROM generate_series(1, 200) g; INSERT INTO t SELECT $_->[1], g FROM generate_series(1, 531) g") foreach @keys;
	return;
}

sub items { my ($server, $bucket) = @_; return $server->safe_psql('postgres', "SELECT items FROM pages('t_a') WHERE type = 'bucket' AND bucket = $bucket"); }

# The scan has read the dead entries of a bucket, and has returned one row.  VACUUM deletes them; or an inserter has done so, and VACUUM finds nothing in the bucket.
foreach my $bucket (0 .. 2)
{
	foreach my $how ('deleted by VACUUM', 'deleted by an inserter')
	{
		my $what = "bucket $bucket, $how";
		my ($key, $other) = @{ $keys[$bucket] };
		make_table();
		$primary->safe_psql('postgres', "DELETE FROM t WHERE a = $key AND b BETWEEN 50 AND 150");
		catch_up();
		my $scan = open_scan("SELECT b FROM t WHERE a = $key", 1);

		# New rows must not become all-visible: that alone would be a conflict with the cursor's snapshot.
		my $old = $primary->background_psql('postgres');
		$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
		my $left = 731;
		if ($how =~ /inserter/)
		{
			is($primary->safe_psql('postgres', "$index_scan SELECT count(*) FROM t WHERE a = $key"), 99, "$what: a scan marks them");
			$primary->safe_psql('postgres', "INSERT INTO t SELECT $other, g FROM generate_series(1001, 1060) g");
			$left = 731 - 101 + 60;
			is(items($primary, $bucket), $left, "$what: their room is taken");
			catch_up();
		}
		$primary->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t');
		$old->quit;
		is(items($primary, $bucket), $how =~ /inserter/ ? $left : 630, "$what: VACUUM");
		ok(replay_waits(), "$what: replay waits for the scan");
		is(items($standby, $bucket), $left, "$what: before it changes the bucket");
		is(join(' ', split(/\n/, $scan->query_safe('FETCH ALL FROM c'))), join(' ', 2 .. 49, 151 .. 200), "$what: no dead row comes");
		close_scan($scan, $what);
	}
}

# A split moves entries away from a scan.
{
	my $what = 'split';
	$primary->safe_psql('postgres', q{
		CREATE TABLE t (a int, b int);
		CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 1);
		INSERT INTO t SELECT 7, g FROM generate_series(1, 100) g; INSERT INTO t SELECT g, g FROM generate_series(101, 400) g});
	catch_up();
	my $scan = open_scan('SELECT b FROM t WHERE a = 7', 1);
	$primary->safe_psql('postgres', 'INSERT INTO t SELECT g, g FROM generate_series(401, 700) g');
	cmp_ok(space_of($primary, 't_a')->{b}, '>', 1, "$what: there is one");
	ok(replay_waits(), "$what: replay waits for the scan");
	is(space_of($standby, 't_a')->{b}, 1, "$what: before it splits the bucket");
	is(scalar(split(/\n/, $scan->query_safe('FETCH ALL FROM c'))), 99, "$what: the scan goes on");
	close_scan($scan, $what);
}

# The scan stands in a chain that VACUUM has been along on the primary, and squeezes then.
SKIP:
{
	my $what = 'squeezed';
	skip 'the server was built without assertions, so without injection points', 1 if $primary->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
	$primary->safe_psql('postgres', q{
		CREATE TABLE t (a int, b int);
		CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 1);
		INSERT INTO t SELECT 7, g FROM generate_series(1, 6000) g;
		DELETE FROM t WHERE b % 10 < 6});
	hold($primary, 155);
	my $vacuum = start_psql($primary, 'postgres', q{SET mtpower.debug_injection = 'vacuum_squeeze=wait'}, 'VACUUM (INDEX_CLEANUP on) t');
	$primary->poll_query_until('postgres', waits_sql(q{query LIKE 'VACUUM%'})) or die 'VACUUM does not come to the chain';
	catch_up();
	my $pages = q{SELECT count(*) FROM pages('t_a') WHERE type = 'stash'};
	my $before = $standby->safe_psql('postgres', $pages);
	my $scan = open_scan('SELECT b FROM t WHERE a = 7', 400);
	release(155);
	is(finish($vacuum), '', "$what: VACUUM ends");
	cmp_ok($primary->safe_psql('postgres', $pages), '<', $before, "$what: the chain is shorter");
	ok(replay_waits(), "$what: replay waits for the scan");
	is($standby->safe_psql('postgres', $pages), $before, "$what: before it changes the chain");
	is(scalar(split(/\n/, $scan->query_safe('FETCH ALL FROM c'))), 2000, "$what: the scan misses nothing");
	close_scan($scan, $what);
}

# Replay of a split stands at the new bucket's page.  A query whose row goes there waits at the old bucket, which is held until the new one is there.
SKIP:
{
	my $what = 'split as a whole';
	skip 'the server was built without assertions, so without injection points', 1 if $primary->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
	my $flag = PostgreSQL::Test::Utils::tempdir . '/hold';
	append_to_file($flag, '');
	$primary->safe_psql('postgres', qq{
		CREATE FUNCTION hold_page(regclass, bigint, text) RETURNS void LANGUAGE c AS '$module/faults';
		CREATE TABLE t (a int);
		CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 1);
		INSERT INTO t SELECT generate_series(1, 400)});
	my $moves = $primary->safe_psql('postgres', 'SELECT min(a) FROM t WHERE bucket_of(spread(hashint4(a)), 1, 1, 0) = 1');
	hold($primary, 155);
	my $load = start_psql($primary, 'postgres', q{SET mtpower.debug_injection = 'hash_extended=wait'}, 'INSERT INTO t SELECT generate_series(401, 700)');
	$primary->poll_query_until('postgres', waits_sql(q{query LIKE 'INSERT%'})) or die 'no growth';
	catch_up();
	is(space_of($standby, 't_a')->{b}, 1, "$what: there is room for a bucket");
	my $block = $standby->safe_psql('postgres', q{SELECT pg_relation_size('t_a') / current_setting('block_size')::int - 1});
	my $waits = q{SELECT wait_event = 'BufferContent' FROM pg_stat_activity WHERE};
	my $holder = start_psql($standby, 'postgres', "SELECT hold_page('t_a', $block, '$flag')");
	$standby->poll_query_until('postgres', q{SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE query LIKE 'SELECT hold_page%'}) or die 'the page is not held';
	release(155);
	is(finish($load), '', "$what: the load ends");
	$standby->poll_query_until('postgres', "$waits backend_type = 'startup'") or die 'replay does not wait';
	my $query = start_psql($standby, 'postgres', "$index_scan SELECT count(*) FROM t WHERE a = $moves");
	while ($query->{run}->pumpable && $standby->safe_psql('postgres', "$waits query LIKE '%WHERE a = $moves'") ne 't')
	{
		$query->{run}->pump_nb;
	}
	unlink($flag);
	is(finish($query) . $query->{out}, "1\n", "$what: the query finds its row");
	is(finish($holder), '', "$what: the page is free");
	catch_up();
	cmp_ok(space_of($standby, 't_a')->{b}, '>', 1, "$what: there is one");
	$primary->safe_psql('postgres', 'DROP TABLE t');
}
unlike(slurp_file($standby->logfile), qr/inconsistent page|TRAP|PANIC|FATAL:  (?!the database system is starting up|terminating connection)/, 'redo agrees with every page');
$standby->stop;
$primary->stop;
done_testing();
