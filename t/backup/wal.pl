# wal_level = minimal: a transaction does not log what it writes to files that it has made itself;
# at its end it syncs or logs them as a whole, by wal_skip_threshold. It logs loads into older
# tables. Then full_page_writes = off, under loads. With data checksums, and a crash after each.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpBackup;
use MtpFaults;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batching = on
mtpower.batch_min_rows = 0
mtpower.batch_size = 64kB
mtpower.workers = 1
max_prepared_transactions = 5
max_connections = 20
shared_buffers = 2MB
max_wal_size = 1GB
autovacuum = off
allow_in_place_tablespaces = on
});
$node->start;
is($node->safe_psql('postgres', 'SHOW wal_level'), 'minimal', 'wal_level');
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION ''");

sub copy { my ($table, $from, $to) = @_; return "COPY $table FROM PROGRAM 'seq -f \"%.0f\trow\" $from $to';"; }

# A table with indexes of all kinds, named after it; so small that its pages come into the WAL, or so large that its files are synced.
sub indexes
{
	my ($t) = @_;
	return "CREATE INDEX ${t}_a ON $t USING mtpower_blink (a); CREATE INDEX ${t}_b ON $t USING mtpower_blink (b, a DESC);
		CREATE INDEX ${t}_h ON $t USING mtpower_hash (a) WITH (initial_buckets = 3); CREATE INDEX ${t}_hb ON $t USING mtpower_hash (b, a);
		CREATE INDEX ${t}_u ON $t (a);";
}
sub table { my ($t) = @_; return "CREATE TABLE $t (a int, b text) USING mtpower;" . indexes($t); }

# crash(what): what was committed is there afterwards.
sub crash
{
	my ($what, $indexes, $gid) = @_;
	my $contents = contents($node, 'work');
	$node->stop('immediate');
	$node->start;
	same_contents($node, $contents, $what, 'work');
	indexes_serve($node, $what, $indexes, 'work');
	return;
}

foreach my $threshold ('1GB', '0')
{
	my $what = "wal_skip_threshold = $threshold";
	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS work');
	$node->safe_psql('postgres', 'CREATE DATABASE work STRATEGY file_copy');
	$node->safe_psql('postgres', "ALTER DATABASE work SET wal_skip_threshold = '$threshold'");
	$node->safe_psql('work', uses_sql() . 'CREATE EXTENSION mtpower;');
	# What is there before: tables whose loads are logged, those that are emptied, moved, rewritten and rolled back, and tables of earlier kinds.
	$node->safe_psql('work', table($_) . copy($_, 1, 2000)) foreach qw(older emptied twice moved rewritten reindexed relogged prepared undone);
	$node->safe_psql('work', 'CHECKPOINT');
	$node->safe_psql('work', $_) foreach
	  # new table and indexes, then the load
	  'BEGIN;' . table('fresh') . copy('fresh', 1, 6000) . 'COMMIT',
	  # the load, then the indexes; one of them has more buckets than its rows need, one no row at all
	  'BEGIN; CREATE TABLE built (a int, b text) USING mtpower;' . copy('built', 1, 6000) . indexes('built') . 'CREATE INDEX built_many ON built USING mtpower_hash (a) WITH (initial_buckets = 300);
		CREATE INDEX built_none ON built USING mtpower_hash (b) WHERE a < 0; ' . copy('built', 6001, 8000) . 'COMMIT',
	  # room for more than comes: the index need not grow, and only its metapage says how many entries there are
	  'BEGIN;' . table('roomy') . 'CREATE INDEX roomy_many ON roomy USING mtpower_hash (a) WITH (initial_buckets = 100);' . copy('roomy', 1, 9000) . 'COMMIT',
	  # empty ones, which later loads fill
	  'BEGIN;' . table('vacant') . 'COMMIT',
	  copy('vacant', 1, 3000),
	  'BEGIN; TRUNCATE emptied;' . copy('emptied', 5001, 9000) . 'COMMIT',
	  'BEGIN; TRUNCATE twice;' . copy('twice', 1, 3000) . 'SAVEPOINT s; TRUNCATE twice;' . copy('twice', 7001, 9000) . 'ROLLBACK TO s;' . copy('twice', 3001, 5000) . 'TRUNCATE twice;' . copy('twice', 1, 2500) . 'COMMIT',
	  'BEGIN; ALTER TABLE moved SET TABLESPACE space; ALTER INDEX moved_a SET TABLESPACE space; ALTER INDEX moved_h SET TABLESPACE space;' . copy('moved', 5001, 8000) . 'COMMIT',
	  'BEGIN; ALTER TABLE rewritten SET ACCESS METHOD heap; ALTER TABLE rewritten ALTER a TYPE bigint;' . copy('rewritten', 5001, 8000) . 'ALTER TABLE rewritten SET ACCESS METHOD mtpower;' . copy('rewritten', 8001, 9000) . 'COMMIT',
	  'CLUSTER rewritten USING rewritten_b',
	  'BEGIN; REINDEX TABLE reindexed;' . copy('reindexed', 5001, 8000) . 'COMMIT',
	  'ALTER TABLE relogged SET UNLOGGED;' . copy('relogged', 5001, 6000) . 'BEGIN; ALTER TABLE relogged SET LOGGED;' . copy('relogged', 6001, 8000) . 'COMMIT',
	  'BEGIN; TRUNCATE undone;' . copy('undone', 5001, 9000) . 'CREATE INDEX undone_more ON undone USING mtpower_blink (b); ROLLBACK',
	  'BEGIN;' . table('never') . copy('never', 1, 3000) . 'ROLLBACK',
	  'CREATE MATERIALIZED VIEW mv USING mtpower AS SELECT * FROM fresh; CREATE INDEX mv_a ON mv USING mtpower_blink (a); CREATE INDEX mv_h ON mv USING mtpower_hash (a)',
	  'BEGIN; TRUNCATE prepared;' . copy('prepared', 1, 3000) . table('with_prepared') . copy('with_prepared', 1, 3000) . q{PREPARE TRANSACTION 'prepared'},
	  copy('older', 2001, 9000);
	$node->stop('immediate');
	$node->start;
	$node->safe_psql('work', q{COMMIT PREPARED 'prepared'});
	# Loads of known content: their digests are those of generate_series().
	my %rows = (older => '1, 9000', roomy => '1, 9000', fresh => '1, 6000', built => '1, 8000', vacant => '1, 3000', emptied => '5001, 9000', twice => '1, 2500', moved => '1, 2000|5001, 8000',
		rewritten => '1, 2000|5001, 9000', reindexed => '1, 2000|5001, 8000', relogged => '1, 2000|5001, 8000', undone => '1, 2000', mv => '1, 6000', prepared => '1, 3000', with_prepared => '1, 3000');
	foreach my $t (sort keys %rows)
	{
		my $want = join(' UNION ALL ', map { "SELECT g, 'row' FROM generate_series($_) g" } split /\|/, $rows{$t});
		is($node->safe_psql('work', "SELECT count(*) FROM ((TABLE $t EXCEPT ALL ($want)) UNION ALL (($want) EXCEPT ALL TABLE $t)) x"), 0, "$what: rows of $t after a crash");
	}
	is($node->safe_psql('work', q{SELECT to_regclass('never')}), '', "$what: what was rolled back is not there");
	is($node->safe_psql('work', q{SELECT relname, f FROM pg_class c, mtpower.page_info(c.oid, 0) p, unnest(p.flags) f WHERE relname IN ('roomy_many', 'built_many') AND f LIKE 'entries=%' ORDER BY 1}),
		"built_many|entries=8000\nroomy_many|entries=9000", "$what: hash indexes know how many entries they have");
	indexes_serve($node, $what, 60, 'work');
	# And what comes now is logged.
	$node->safe_psql('work', $_) foreach map { copy($_, 10001, 11500), "DELETE FROM $_ WHERE a % 3 = 0", "VACUUM (INDEX_CLEANUP on) $_" } qw(fresh roomy built vacant twice moved rewritten with_prepared);
	crash("$what, a crash later", 60);
}
log_is_quiet($node);

# ---------- full_page_writes = off ----------

# A server that is stopped at once leaves whole pages, so recovery must not need images but those that mtpower's records have always: pages on disk may be older or
# newer than a record, each for itself.
$node->append_conf('postgresql.conf', "full_page_writes = off\nwal_level = replica\n");
$node->restart;
is($node->safe_psql('postgres', 'SHOW full_page_writes'), 'off', 'full_page_writes');
$node->safe_psql('postgres', backup_schema() . 'BEGIN;' . fill_sql(1, 5000) . 'COMMIT');
my $load = MtpBackup->new($node, 2, 1 => '5000 5000 0');
foreach my $round (1 .. ($ENV{MTP_LONG} ? 20 : 2))
{
	$load->start;
	$load->wait_for_operations(8, 1);
	$node->stop('immediate');
	$load->stop;
	$node->start;
	$load->judge($node, undef, undef, "full_page_writes = off, crash $round");
	indexes_serve($node, "full_page_writes = off, crash $round", 8);
}
log_is_quiet($node);
$node->stop;
command_like([ 'pg_checksums', '--check', '-D', $node->data_dir ], qr/Bad checksums:  0$/m, 'all checksums are right');
done_testing();
