# VACUUM of a B-link tree and its replay on a hot standby: what scans there may meet and what they
# may not.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
bgwriter_lru_maxpages = 0
wal_consistency_checking = 'mtpower'
wal_keep_size = 4GB
});
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION mtpower');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{
max_standby_streaming_delay = -1
hot_standby_feedback = off
});
$standby->start;

# Waits until replay waits for this, or tells that it does not.
sub replay_waits_for
{
	my ($event) = @_;
	my $lsn = $primary->lsn('insert');

	$standby->poll_query_until('postgres', qq{
		SELECT wait_event = '$event' OR pg_last_wal_replay_lsn() >= '$lsn'
		FROM pg_stat_activity WHERE backend_type = 'startup'});
	return $standby->safe_psql('postgres', qq{
		SELECT wait_event = '$event' AND pg_last_wal_replay_lsn() < '$lsn'
		FROM pg_stat_activity WHERE backend_type = 'startup'}) eq 't';
}

sub catch_up
{
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
}

# Rows of one leaf: 1 .. 200, many pages of the table; those in $dead die before the cursor opens.  The
# cursor stands on the leaf and has read all of it, but returned only row 1, when $then is done.
sub cursor_and_vacuum
{
	my ($name, $dead, $then, $expected) = @_;

	$primary->safe_psql('postgres', qq{
		CREATE TABLE $name (a int, filler text) WITH (autovacuum_enabled = off);
		ALTER TABLE $name ALTER filler SET STORAGE plain;
		CREATE INDEX ${name}_a ON $name USING mtpower_blink (a);
		INSERT INTO $name SELECT g, repeat('x', 400) FROM generate_series(1, 200) g;});
	$primary->safe_psql('postgres', "VACUUM $name");
	$primary->safe_psql('postgres', "DELETE FROM $name WHERE $dead");
	catch_up();

	my $session = $standby->background_psql('postgres');
	$session->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN;');
	my $query = "SELECT a FROM $name WHERE a > 0 ORDER BY a";
	like($session->query_safe("EXPLAIN (COSTS OFF) $query"), qr/Index Only Scan using ${name}_a/,
		"$name: the cursor uses the index alone");
	$session->query_safe("DECLARE c CURSOR FOR $query");
	is($session->query_safe('FETCH 1 FROM c'), '1', "$name: the cursor stands on the leaf");

	# New rows must not become all-visible: that alone would be a conflict with the cursor's snapshot.
	my $old = $primary->background_psql('postgres');
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;');
	$primary->safe_psql('postgres', $_) foreach @$then;
	$primary->safe_psql('postgres', "VACUUM $name");
	$old->quit;
	ok(replay_waits_for('BufferPin'), "$name: replay waits for the cursor");
	is($standby->safe_psql('postgres', "SELECT items FROM mtpower.page_info('${name}_a', 1)"), 200, "$name: before it changes the leaf")
		if !@$then;
	my $rows = $session->query_safe('FETCH ALL FROM c');
	is(join(' ', split(/\n/, $rows)), $expected, "$name: no dead row comes");
	$session->query_safe('COMMIT');
	$session->quit;
	catch_up();
}

my $rest = join(' ', 2 .. 49, 151 .. 200);
cursor_and_vacuum('plain', 'a BETWEEN 50 AND 150', [], $rest);

# An inserter takes the dead entries away, so that VACUUM finds none of them on the leaf.
cursor_and_vacuum('reclaimed', 'a BETWEEN 50 AND 150', [
	q{SET enable_seqscan = off; SET enable_bitmapscan = off;
	  SELECT count(filler) FROM reclaimed WHERE a BETWEEN 50 AND 150},
	q{INSERT INTO reclaimed SELECT 200 + g FROM generate_series(1, 420) g}], $rest);
is($primary->safe_psql('postgres', q{SELECT pg_relation_size('reclaimed_a') / current_setting('block_size')::int}),
	'2', 'reclaimed: there was no split');

# A split moves the dead entries to another leaf.
cursor_and_vacuum('moved', 'a BETWEEN 150 AND 190', [
	q{INSERT INTO moved SELECT -g FROM generate_series(1, 500) g}], join(' ', 2 .. 149, 191 .. 200));
isnt($primary->safe_psql('postgres', q{SELECT pg_relation_size('moved_a') / current_setting('block_size')::int}),
	'2', 'moved: there was a split');

# VACUUM has reported the first 1024 blocks when a split puts dead entries into one of them, that was free; an inserter takes them away
# before VACUUM looks back there.
if ($primary->safe_psql('postgres', 'SHOW debug_assertions') eq 'on')
{
	# Wide keys that fill 2,200 blocks and more; behind them rows as above
	$primary->safe_psql('postgres', q{
		CREATE TABLE back (k text, filler text) WITH (autovacuum_enabled = off);
		ALTER TABLE back ALTER k SET STORAGE plain, ALTER filler SET STORAGE plain;
		CREATE INDEX back_k ON back USING mtpower_blink (k);
		INSERT INTO back SELECT 'a' || lpad(g::text, 5, '0') || repeat('x', 2500), '' FROM generate_series(1, 3000) g;
		INSERT INTO back SELECT 'z' || lpad(g::text, 4, '0'), repeat('x', 400) FROM generate_series(1, 200) g;});
	$primary->safe_psql('postgres', $_) foreach (
		q{DELETE FROM back WHERE k < 'a00100'}, 'VACUUM (INDEX_CLEANUP ON) back', 'SELECT txid_current()',
		q{DELETE FROM back WHERE k < 'a00110'}, 'VACUUM (INDEX_CLEANUP ON) back',
		q{DELETE FROM back WHERE k BETWEEN 'z0110' AND 'z0180'});
	my $length = $primary->safe_psql('postgres', q{SELECT pg_relation_size('back_k')});
	cmp_ok($length, '>', 2200 * $primary->safe_psql('postgres', 'SHOW block_size'), 'back: the index is large enough');
	my $lock = $primary->background_psql('postgres');
	my $vacuum = $primary->background_psql('postgres');
	$lock->query_safe('SELECT pg_advisory_lock(155)');
	$vacuum->query_safe(q{SET mtpower.debug_injection = 'vacuum_middle=wait'});
	$vacuum->query_until(qr/start/, "\\echo start\nVACUUM (INDEX_CLEANUP ON) back;\n");
	$primary->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) or die;
	$primary->safe_psql('postgres', q{INSERT INTO back SELECT 'y' || lpad(g::text, 4, '0'), '' FROM generate_series(1, 300) g});
	catch_up();

	my $session = $standby->background_psql('postgres');
	$session->query_safe(q{SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN; DECLARE c CURSOR FOR SELECT k FROM back WHERE k > 'z0060' ORDER BY k});
	is($session->query_safe('FETCH 1 FROM c'), 'z0061', 'back: the cursor stands on the new leaf');
	$primary->safe_psql('postgres', q{
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT count(filler) FROM back WHERE k > 'z0100';
		INSERT INTO back SELECT 'z0180x' || lpad(g::text, 3, '0'), '' FROM generate_series(1, 120) g;});
	is($primary->safe_psql('postgres', q{SELECT pg_relation_size('back_k')}), $length, 'back: the split took a free block, and was the only one');
	$lock->quit;
	$vacuum->quit;
	ok(replay_waits_for('BufferPin'), 'back: replay waits for the cursor');
	is(join(' ', map { substr($_, 1) + 0 } split(/\n/, $session->query_safe('FETCH ALL FROM c'))), join(' ', 62 .. 109, 181 .. 200), 'back: no dead row comes');
	$session->query_safe('COMMIT');
	$session->quit;
	catch_up();
}

# Dead marks come with a page that is logged whole.  They are the primary's: a snapshot of the standby may see the rows.
$primary->safe_psql('postgres', q{
	CREATE TABLE marked (a int, filler text) WITH (autovacuum_enabled = off);
	CREATE INDEX marked_a ON marked USING mtpower_blink (a);
	INSERT INTO marked SELECT g FROM generate_series(1, 100) g;});
catch_up();
my $sees = $standby->background_psql('postgres');
$sees->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$primary->safe_psql('postgres', $_) foreach ('DELETE FROM marked WHERE a <= 50', 'CHECKPOINT',
	'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(filler) FROM marked WHERE a > 0; INSERT INTO marked VALUES (101)');
catch_up();
is($standby->safe_psql('postgres', q{SELECT items, dead FROM mtpower.page_info('marked_a', 1)}), '101|50', 'marked: the marks are on the standby');
is($sees->query_safe('SELECT count(a), count(filler) FROM marked WHERE a > 0'), '100|0', 'marked: a snapshot sees the rows');
is($sees->query_safe(q{SELECT mtpower.verify_index('marked_a', true)}), '', 'marked: and that is no damage');
$sees->quit;

# A deleted page is reused only after the queries that may be on their way to it.
$primary->safe_psql('postgres', q{
	CREATE TABLE reused (a int) WITH (autovacuum_enabled = off);
	CREATE INDEX reused_a ON reused USING mtpower_blink (a);
	INSERT INTO reused SELECT g FROM generate_series(1, 10000) g;
	DELETE FROM reused WHERE a < 9000;});
catch_up();
my $session = $standby->background_psql('postgres');
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($session->query_safe('SELECT count(*) FROM reused'), '1001', 'reused: a snapshot on the standby');
$primary->safe_psql('postgres', 'VACUUM reused');
$primary->safe_psql('postgres', 'SELECT txid_current()');
$primary->safe_psql('postgres', 'VACUUM reused');
my $size = $primary->safe_psql('postgres', q{SELECT pg_relation_size('reused_a')});
$primary->safe_psql('postgres', 'INSERT INTO reused SELECT g FROM generate_series(10001, 15000) g');
is($primary->safe_psql('postgres', q{SELECT pg_relation_size('reused_a')}), $size, 'reused: no new block');
ok(replay_waits_for('RecoveryConflictSnapshot'), 'reused: replay waits for the snapshot');
is($session->query_safe('SET enable_seqscan = off; SELECT count(*) FROM reused WHERE a > 0'), '1001',
	'reused: which still sees what it saw');
$session->query_safe('COMMIT');
$session->quit;
catch_up();

# Queries beside the replay of everything.  A function compares what the index says, read both ways,
# with the table.
$primary->safe_psql('postgres', q{
	CREATE TABLE s (a int, k text);
	ALTER TABLE s ALTER k SET STORAGE plain;
	CREATE INDEX s_a ON s USING mtpower_blink (a);
	CREATE INDEX s_k ON s USING mtpower_blink (k);
	CREATE FUNCTION k(i int) RETURNS text LANGUAGE sql AS
		$$SELECT lpad(i::text, 8, '0') || repeat(md5(i::text), 5 + i % 20)$$;
	CREATE FUNCTION compare(lo int, hi int) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		want int[]; got int[];
	BEGIN
		SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off;
		SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = on;
		SELECT array_agg(a ORDER BY a) FROM s WHERE a BETWEEN lo AND hi INTO want;
		SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on;
		SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off;
		SELECT array_agg(a) FROM (SELECT a FROM s WHERE a BETWEEN lo AND hi ORDER BY a) q INTO got;
		IF got IS DISTINCT FROM want THEN RAISE 'forward, % to %', lo, hi; END IF;
		SELECT array_agg(a) FROM (SELECT a FROM s WHERE a BETWEEN lo AND hi ORDER BY a DESC) q INTO got;
		IF got IS DISTINCT FROM (SELECT array_agg(x ORDER BY n DESC) FROM unnest(want) WITH ORDINALITY u (x, n))
		THEN RAISE 'backward, % to %', lo, hi; END IF;
		SELECT array_agg(a) FROM (SELECT a FROM s WHERE k BETWEEN lpad(lo::text, 8, '0') AND lpad(hi::text, 8, '0') || 'z'
			ORDER BY k) q INTO got;
		IF got IS DISTINCT FROM want THEN RAISE 'by text, % to %', lo, hi; END IF;
		RETURN array_length(want, 1);
	END$$;});
catch_up();

my $dir = PostgreSQL::Test::Utils::tempdir();
my %scripts = (
	insert => q{\set lo random(0, 100000)
		\set n random(1, 300)
		INSERT INTO s SELECT g, k(g) FROM generate_series(:lo, :lo + :n) g;},
	update => q{\set lo random(0, 100000)
		UPDATE s SET a = a WHERE a BETWEEN :lo AND :lo + 3;},
	delete => q{\set lo random(0, 100000)
		\set n random(1, 3000)
		DELETE FROM s WHERE a BETWEEN :lo AND :lo + :n;},
	vacuum => q{VACUUM s;},
	compare => q{\set lo random(0, 100000)
		BEGIN ISOLATION LEVEL REPEATABLE READ;
		SELECT compare(:lo, :lo + 2000);
		COMMIT;});
foreach my $name (keys %scripts)
{
	open(my $f, '>', "$dir/$name") or die;
	print $f $scripts{$name};
	close($f);
}

my @pgbench = ('pgbench', '-n', '-T', $ENV{MTP_STRESS_SECONDS} || 15);
my @runs = (
	[ 'changes', $primary, '-c', 3, map { ('-f', "$dir/$_") } ('insert@6', 'update@10', 'delete@3', 'compare@2') ],
	[ 'VACUUM', $primary, '-c', 1, '-f', "$dir/vacuum" ],
	[ 'queries on the standby', $standby, '-c', 2, '-f', "$dir/compare" ]);
my @handles;
foreach my $run (@runs)
{
	my ($name, $node, @args) = @$run;
	my ($out, $err) = ('', '');
	push @handles, [ $name, \$err, IPC::Run::start([ @pgbench, '-h', $node->host, '-p', $node->port, @args, 'postgres' ],
		'<', \undef, '>', \$out, '2>', \$err) ];
}
foreach my $handle (@handles)
{
	my ($name, $err, $run) = @$handle;
	ok($run->finish, "together: $name") or diag($$err);
}
catch_up();
foreach my $node ($primary, $standby)
{
	ok($node->safe_psql('postgres', 'SELECT compare(0, 200000)') > 0, 'afterwards on ' . $node->name);
}

# Crash recovery, and a standby that becomes a server of its own.
$primary->stop('immediate');
$primary->start;
ok($primary->safe_psql('postgres', 'SELECT compare(0, 200000)') > 0, 'after a crash');
$standby->promote;
$standby->safe_psql('postgres', 'DELETE FROM s WHERE a % 3 = 0');
$standby->safe_psql('postgres', 'VACUUM s');
$standby->safe_psql('postgres', 'INSERT INTO s SELECT g, k(g) FROM generate_series(1, 5000) g');
ok($standby->safe_psql('postgres', 'SELECT compare(0, 200000)') > 0, 'on the promoted standby');
foreach my $node ($primary, $standby)
{
	my $log = slurp_file($node->logfile);
	unlike($log, qr/PANIC|FATAL:.*inconsistent page|TRAP/, 'nothing bad in the log of ' . $node->name);
}
done_testing();
