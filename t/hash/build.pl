# CREATE INDEX USING mtpower_hash with temporary files, on a standby, across crashes, without WAL,
# with checksums, and as another session sees it. Each bucket has what the model gives it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use MtpHash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1, extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batch_min_rows = 0
autovacuum = off
max_wal_size = 4GB
wal_consistency_checking = 'all, mtpower'
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql() . q{
CREATE TABLE t AS SELECT hashint4(g) AS a FROM generate_series(1, 70000) g;
CREATE TABLE skewed AS SELECT CASE WHEN g % 10 < 3 THEN 7 WHEN g % 10 < 4 THEN g % 40 ELSE hashint4(g) END AS a FROM generate_series(1, 70000) g;
-- Temporary files made so far
CREATE FUNCTION files() RETURNS bigint LANGUAGE sql AS 'SELECT pg_stat_get_db_temp_files(oid) FROM pg_database WHERE datname = current_database()'});

sub check
{
	my ($server, $table, $what) = @_;
	my $err;
	is(differences($server, "${table}_a", "SELECT spread(hashint4(a)) FROM $table"), '', "$what: every bucket is as the model has it");
	is($server->psql('postgres', "SELECT mtpower.verify_index('${table}_a', true)", stderr => \$err), 0, "$what: verifies") or diag($err);
	is($server->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SELECT count(*) FROM (SELECT DISTINCT a FROM $table ORDER BY a LIMIT 500) d JOIN $table USING (a)"),
		$server->safe_psql('postgres', "SELECT count(*) FROM (SELECT DISTINCT a FROM $table ORDER BY a LIMIT 500) d JOIN $table USING (a)"), "$what: rows are found");
	return space_of($server, "${table}_a");
}

# With memory for all entries and for less than half of them, with buckets as the rows need them and more.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
foreach my $table ('t', 'skewed')
{
	foreach my $case ([ '64MB', '', 0 ], [ '1MB', '', 3 ], [ '1MB', 'WITH (initial_buckets = 367, fillfactor = 100)', 3 ], [ '64MB', 'WITH (fillfactor = 10)', 0 ])
	{
		my ($memory, $options, $files) = @$case;
		next if $table eq 'skewed' && !$files;
		my $what = "$table, $memory, $options";
		my $made = $node->safe_psql('postgres', qq{
			SET stats_fetch_consistency = none; SET maintenance_work_mem = '$memory';
			DROP INDEX IF EXISTS ${table}_a; SELECT pg_stat_force_next_flush() \\g /dev/null
			SELECT files() AS before \\gset
			CREATE INDEX ${table}_a ON $table USING mtpower_hash (a) $options; SELECT pg_stat_force_next_flush() \\g /dev/null
			SELECT files() - :before >= $files});
		is($made, 't', "$what: temporary files") if $files;
		my $space = check($node, $table, $what);
		is("$space->{n} $space->{p0} $space->{entries}", '0 0 70000', "$what: built at level 0, and counted");
		is($space->{m}, $options =~ /367/ ? 367 : int((70000 + $space->{per_bucket} - 1) / $space->{per_bucket}), "$what: M");
	}
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	check($standby, $table, "$table, standby");
}
$node->safe_psql('postgres', 'INSERT INTO t SELECT hashint4(g) FROM generate_series(200001, 220000) g');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
check($standby, 't', 'standby, grown');
$standby->stop;
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC|TRAP/, 'redo agrees with every page');

# A build that waits while it scans the table, and one that crashes there.
$node->safe_psql('postgres', q{
CREATE TABLE few AS SELECT a FROM t LIMIT 3000;
CREATE FUNCTION pausing(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	PERFORM pg_stat_clear_snapshot();
	IF EXISTS (SELECT FROM pg_stat_progress_create_index WHERE pid = pg_backend_pid() AND phase = 'building index: scanning table') THEN
		PERFORM pg_advisory_xact_lock_shared(1);
	END IF;
	RETURN i;
END $$});
foreach my $end ('goes on', 'crashes')
{
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	my $builder = $node->background_psql('postgres');
	$builder->query_until(qr/started/, "\\echo started\nCREATE INDEX slow ON few USING mtpower_hash (pausing(a));\n\\echo ended\n");
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}), "the build waits, and $end");
	is($node->safe_psql('postgres', 'SELECT command, phase, blocks_total > 0, blocks_done <= blocks_total FROM pg_stat_progress_create_index'),
		'CREATE INDEX|building index: scanning table|t|t', "and $end: how far it is");
	if ($end eq 'crashes')
	{
		$node->stop('immediate');
		eval { $builder->{run}->finish };
		eval { $holder->{run}->finish };
		$node->start;
		is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'slow'}), 0, 'a crash leaves no index');
		next;
	}
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	$builder->query_until(qr/ended/, '');
	$_->quit foreach $builder, $holder;
	is($node->safe_psql('postgres', q{SELECT mtpower.verify_index('slow', true); DROP INDEX slow}), '', 'it ends');
}
check($node, 't', 'after a crash');

# Builds that end early, by a limit on temporary files and at many moments: over soon, and no file of theirs is left.
sub files_there { return scalar(my @files = glob($node->data_dir . '/base/*/*')); }
$node->safe_psql('postgres', 'CREATE TABLE big AS SELECT hashint4(g) AS a FROM generate_series(1, 300000) g; CHECKPOINT');
my $before = files_there();
my (undef, undef, $limit) = $node->psql('postgres', "SET temp_file_limit = '3MB'; SET maintenance_work_mem = '1MB'; CREATE INDEX big_a ON big USING mtpower_hash (a)");
like($limit, qr/temporary file size exceeds "?temp_file_limit/, 'a limit on temporary files');
my ($cancelled, $late) = (0, 0);
foreach my $step (1 .. 12)
{
	my $start = time;
	my ($rc, undef, $err) = $node->psql('postgres', "SET statement_timeout = '" . 40 * $step . "ms'; SET maintenance_work_mem = '" . ($step % 2 ? '1MB' : '64MB') . "'; CREATE INDEX big_a ON big USING mtpower_hash (a)");
	$late = time - $start if time - $start > $late;
	$cancelled++ if $rc && $err =~ /canceling statement due to statement timeout/;
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS big_a');
}
cmp_ok($cancelled, '>', 0, "$cancelled of 12 builds were cancelled");
cmp_ok($late, '<', 4, 'each soon');
$node->safe_psql('postgres', 'CHECKPOINT');
is(files_there(), $before, 'no file is left of them');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), 0, 'and no temporary one');

# Unlogged: empty after a crash, there after a clean shutdown; with as many buckets as were asked for.
foreach my $options ('', 'WITH (initial_buckets = 100)')
{
	$node->safe_psql('postgres', "DROP TABLE IF EXISTS un; CREATE UNLOGGED TABLE un (a int) USING mtpower; CREATE INDEX un_a ON un USING mtpower_hash (a) $options; INSERT INTO un SELECT a FROM t LIMIT 20000");
	$node->restart;
	check($node, 'un', "unlogged $options, restarted");
	$node->stop('immediate');
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM un'), 0, "unlogged $options: empty after a crash");
	is(check($node, 'un', "unlogged $options, after a crash")->{b}, $options ? 100 : 1, "unlogged $options: its buckets");
	$node->safe_psql('postgres', 'INSERT INTO un SELECT a FROM t LIMIT 20000');
	check($node, 'un', "unlogged $options, filled again");
}

# Files of relations that skip WAL are synced when their transaction commits: built, grown, truncated, and cut back to a savepoint.
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\nwal_skip_threshold = 0");
$node->restart;
$node->safe_psql('postgres', q{
BEGIN;
CREATE TABLE min USING mtpower AS SELECT a FROM t LIMIT 5000;
CREATE INDEX min_a ON min USING mtpower_hash (a);
INSERT INTO min SELECT a FROM t LIMIT 40000;
SAVEPOINT s;
INSERT INTO min SELECT a FROM skewed;
ROLLBACK TO s;
COMMIT;
BEGIN;
TRUNCATE few;
CREATE INDEX few_a ON few USING mtpower_hash (a) WITH (initial_buckets = 1);
INSERT INTO few SELECT a FROM skewed LIMIT 40000;
COMMIT;
BEGIN;
REINDEX INDEX t_a;
INSERT INTO t SELECT 5 FROM generate_series(1, 3000);
ROLLBACK;
VACUUM min;
});
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM min), (SELECT count(*) FROM few)'), '45000|40000', 'without WAL: rows');
check($node, $_, "without WAL, $_") foreach 'min', 'few';
$node->safe_psql('postgres', 'VACUUM t');
check($node, 't', 'without WAL, REINDEX rolled back');
$node->safe_psql('postgres', 'INSERT INTO min SELECT hashint4(g) FROM generate_series(500001, 520000) g');
check($node, 'min', 'without WAL, grown afterwards');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums are right');
done_testing();
