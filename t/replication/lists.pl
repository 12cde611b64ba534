# A standby replays what becomes of lists, each page compared with the primary's, while queries
# read them: each sees its snapshot. A cursor that stands on a list sees none of the rows that come
# to the TIDs of dead ones, and the rows that only the primary knows to be dead.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpLists;
use MtpLoad;
use MtpReplica;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batch_min_rows = 10
mtpower.batch_size = 64kB
wal_consistency_checking = 'mtpower'
autovacuum = off
bgwriter_lru_maxpages = 0
shared_buffers = 32MB
wal_keep_size = 4GB
jit = off
});
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . lists_sql('mtpower'));
my $standby = standby_of($primary, 'standby', q{
max_standby_streaming_delay = -1
hot_standby_feedback = off
});

# Waits until replay waits for this, or tells that it does not.
sub replay_waits_for
{
	my ($event) = @_;
	my $lsn = $primary->lsn('insert');
	$standby->poll_query_until('postgres',
		"SELECT wait_event = '$event' OR pg_last_wal_replay_lsn() >= '$lsn' FROM pg_stat_activity WHERE backend_type = 'startup'");
	return $standby->safe_psql('postgres', "SELECT wait_event = '$event' AND pg_last_wal_replay_lsn() < '$lsn' FROM pg_stat_activity WHERE backend_type = 'startup'") eq 't';
}
sub lists_of { my ($server, $index) = @_; return $server->safe_psql('postgres', "SELECT lists, tids FROM lists('$index')"); }

my $scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';

# ---------- a cursor on a list ----------

# Rows with ids 1 .. 600 and three keys: one leaf with some lists, many pages of the table.  A cursor of the standby has read the leaf and given one row, when rows die and
# their TIDs are used again, for rows of the same keys: it must not see those.  what the primary does then; whether an index-only scan, which looks at
# no row.
foreach my $case (
	[ 'vacuumed', 'id BETWEEN 100 AND 500', [] ],
	[ 'refilled', 'id BETWEEN 100 AND 500', [ 'INSERT INTO refilled SELECT 0, g % 3 FROM generate_series(1, 300) g' ] ],
	[ 'one_key', 'k = 1', [ 'INSERT INTO one_key SELECT 0, 1 FROM generate_series(1, 200) g' ] ],
	[ 'all', 'id > 3', [ 'INSERT INTO "all" SELECT 0, g % 3 FROM generate_series(1, 600) g' ] ])
{
	my ($name, $dead, $then) = @$case;
	my $count = $primary->safe_psql('postgres', qq{
		CREATE TABLE "$name" (id int, k int, filler text DEFAULT repeat('x', 400)) WITH (autovacuum_enabled = off);
		ALTER TABLE "$name" ALTER filler SET STORAGE plain;
		CREATE INDEX "${name}_k" ON "$name" USING mtpower_blink (k);
		INSERT INTO "$name" SELECT g, g % 3 FROM generate_series(1, 600) g;
		VACUUM "$name"; DELETE FROM "$name" WHERE $dead; SELECT count(*) FROM "$name"});
	is($primary->safe_psql('postgres', qq{SELECT count(*), sum(p.items) < 100 FROM generate_series(1, pg_relation_size('"${name}_k"') / current_setting('block_size')::int - 1) b,
		mtpower.page_info('"${name}_k"', b) p}), '1|t', "$name: one leaf with lists");
	catch_up($primary, $standby);

	my $session = $standby->background_psql('postgres');
	$session->query_safe("$scan BEGIN");
	my $query = qq{SELECT k FROM "$name" WHERE k >= 0 ORDER BY k};
	like($session->query_safe("EXPLAIN (COSTS OFF) $query"), qr/Index Only Scan using/, "$name: the cursor uses the index alone");
	$session->query_safe("DECLARE c CURSOR FOR $query");
	is($session->query_safe('FETCH 1 FROM c'), '0', "$name: the cursor stands on the leaf");

	# New rows must not become all-visible: that alone would be a conflict with the cursor's snapshot.
	my $old = $primary->background_psql('postgres');
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;');
	$primary->safe_psql('postgres', qq{VACUUM "$name"});
	$primary->safe_psql('postgres', $_) foreach @$then;
	$primary->safe_psql('postgres', qq{VACUUM "$name"}) if @$then;
	$old->quit;
	ok(replay_waits_for('BufferPin'), "$name: replay waits for the cursor");
	my @rows = split(/\n/, $session->query_safe('FETCH ALL FROM c'));
	is(@rows + 1, $count, "$name: as many rows as there were");
	$session->query_safe('COMMIT');
	$session->quit;
	catch_up($primary, $standby);
	is(lists_of($standby, "\"${name}_k\""), lists_of($primary, "\"${name}_k\""), "$name: the same lists");
	foreach my $server ($primary, $standby)
	{
		$server->safe_psql('postgres', qq{SELECT mtpower.verify_index('"${name}_k"', true)});
		is($server->safe_psql('postgres', qq{$scan SELECT count(filler) FROM "$name" WHERE k >= 0}), $server->safe_psql('postgres', qq{SELECT count(*) FROM "$name"}),
			"$name: all rows are found, " . $server->name);
	}
}

# ---------- dead hints ----------

# The hint of a list comes with a page that is logged whole.  It is the primary's: a snapshot of the standby may see the rows.
$primary->safe_psql('postgres', q{
	CREATE TABLE marked (id int, k int, filler text) WITH (autovacuum_enabled = off);
	CREATE INDEX marked_k ON marked USING mtpower_blink (k);
	INSERT INTO marked SELECT g, g % 2 FROM generate_series(1, 150) g;
	REINDEX INDEX marked_k;});
catch_up($primary, $standby);
my $sees = $standby->background_psql('postgres');
$sees->query_safe("$scan BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
# Of one key the first rows, of the other one all.  The table's page has room, so that no scan prunes it, which would be a conflict.
$primary->safe_psql('postgres', $_) foreach ('DELETE FROM marked WHERE k = 0 AND id <= 80 OR k = 1', 'CHECKPOINT',
	"$scan SELECT count(filler) FROM marked WHERE k >= 0; INSERT INTO marked VALUES (0, 5)");
catch_up($primary, $standby);
is($standby->safe_psql('postgres', q{SELECT lists > 0, dead > 0 FROM mtpower.page_info('marked_k', 1)}), 't|t', 'marked: the marks are on the standby');
is($sees->query_safe('SELECT count(k), count(id) FROM marked WHERE k >= 0'), '150|150', 'marked: a snapshot sees the rows');
is($sees->query_safe(q{SELECT mtpower.verify_index('marked_k', true)}), '', 'marked: and that is no damage');
# The primary reclaims them: a conflict with the snapshot.
$primary->safe_psql('postgres', 'SET mtpower.batching = off; INSERT INTO marked SELECT 0, g FROM generate_series(1, 3000) g');
ok(replay_waits_for('RecoveryConflictSnapshot'), 'marked: replay waits for the snapshot before the entries go');
is($sees->query_safe('SELECT count(id) FROM marked WHERE k >= 0'), '150', 'marked: which still sees the rows');
$sees->query_safe('COMMIT');
$sees->quit;
catch_up($primary, $standby);

# ---------- queries beside replay ----------

my $file = rows_file(1500);
my ($changes, $questions) = lists_scripts($file);
my $seconds = $ENV{MTP_STRESS_SECONDS} || 15;
my @runs = (
	[ 'primary', start_pgbench($primary, $seconds, 4, %$changes, $questions->%*) ],
	[ 'standby', start_pgbench($standby, $seconds, 3, %$questions) ]);
finish_pgbench($_->[1], "together, $_->[0]", 20) foreach @runs;
catch_up($primary, $standby);
lists_sound($_, 'afterwards, ' . $_->name, 1) foreach $primary, $standby;
is(lists_of($standby, $_), lists_of($primary, $_), "$_: the same lists") foreach qw(l_k l_g l_t l_n);
same_servers('afterwards', $primary, $standby);

# A standby that becomes a server of its own goes on with them.
$primary->stop;
$standby->promote;
$standby->safe_psql('postgres', $_) foreach ('INSERT INTO l (k, g, t) SELECT * FROM some_rows(3000, 7)', 'UPDATE l SET n = n + 1 WHERE id % 3 = 0', 'DELETE FROM l WHERE id % 5 = 0',
	'VACUUM (INDEX_CLEANUP ON) l', 'SET mtpower.batching = off; INSERT INTO l (k, g, t) SELECT * FROM some_rows(3000, 8)');
lists_sound($standby, 'promoted', 1);
log_is_clean($_) foreach $primary, $standby;
$standby->stop;
done_testing();
