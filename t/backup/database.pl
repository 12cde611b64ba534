# CREATE DATABASE with both strategies, RENAME, SET TABLESPACE and DROP of databases that have
# tables and indexes of mtpower, beside idle workers; tables and indexes that move between
# tablespaces; prepared transactions over restarts and crashes; single-user mode. A crash follows
# each. (t/batch/database.pl and t/batch/ddl.pl do this beside loads.)
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpBackup;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batching = on
mtpower.batch_min_rows = 0
mtpower.batch_size = 64kB
mtpower.workers = 1
wal_level = replica
max_prepared_transactions = 10
wal_compression = on
max_wal_size = 1GB
autovacuum = off
});
$node->start;
my %dir = map { ($_ => PostgreSQL::Test::Utils::tempdir_short) } 1, 2;
$node->safe_psql('postgres', "CREATE TABLESPACE space$_ LOCATION '$dir{$_}'") foreach 1, 2;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower; CREATE DATABASE source');
$node->safe_psql('source', backup_schema('space1') . 'BEGIN;' . fill_sql(1, 6000) . 'COMMIT;
	CREATE UNLOGGED TABLE brief (k int) USING mtpower; CREATE INDEX brief_k ON brief USING mtpower_blink (k); CREATE INDEX brief_h ON brief USING mtpower_hash (k) TABLESPACE space1');
my $load = 10;

# Loads until a worker of the database has put entries in, and leaves it there, idle.
sub idle_worker
{
	my ($db) = @_;
	foreach (1 .. 20)
	{
		$load++;
		$node->safe_psql($db, 'BEGIN;' . fill_sql($load, 6000) . 'SELECT pg_sleep(0.1); COMMIT');
		return if $node->safe_psql('postgres', "SELECT count(*) FROM mtpower.stat_workers WHERE database = '$db' AND entries > 0") > 0;
		# The only worker may still idle elsewhere.
		$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'mtpower worker' AND datname <> '$db'");
	}
	die "no worker in $db";
}

# command WHAT, DB, SQL: beside an idle worker in DB, if one is named.
sub command
{
	my ($db, $sql) = @_;
	idle_worker($db) if $db;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	is("$rc $err", '0 ', $sql . ($db ? ' beside an idle worker' : ''));
	return;
}

sub crash
{
	$node->stop('immediate');
	$node->start;
	return;
}

sub sound
{
	my ($db, $contents, $what) = @_;
	same_contents($node, $contents, $what, $db);
	indexes_serve($node, $what, 10, $db);
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, "$what: no memory is held");
	return;
}

# ---------- CREATE DATABASE with both strategies ----------

my ($source, %copy);
foreach my $how ([ 'wal_log', '' ], [ 'file_copy', 'TABLESPACE space2' ])
{
	my ($strategy, $space) = @$how;
	$node->safe_psql('source', 'TRUNCATE brief; INSERT INTO brief SELECT generate_series(1, 3000)');
	command('source', "CREATE DATABASE $strategy TEMPLATE source STRATEGY $strategy $space");
	$source = contents($node, 'source');
	is(contents($node, $strategy), $source, "$strategy: the same rows");
	is($node->safe_psql($strategy, 'SELECT count(*) FROM brief'), 3000, "$strategy: unlogged ones as well");
	# The copy goes its own way, by loads into copied pages, splits, and page deletions.
	$node->safe_psql($strategy, $_) foreach 'BEGIN;' . fill_sql(5, 4000) . 'COMMIT', 'DELETE FROM kept WHERE k % 2 = 0 OR load = 1', 'VACUUM (INDEX_CLEANUP on) kept';
	$copy{$strategy} = contents($node, $strategy);
	crash();
	sound($strategy, $copy{$strategy}, "$strategy, after a crash");
	sound('source', $source, "the template of $strategy, after a crash");
	is($node->safe_psql($strategy, q{SELECT count(*) FROM brief; INSERT INTO brief SELECT generate_series(1, 1000)}), 0, "$strategy: unlogged tables begin anew");
}
isnt($copy{wal_log}, $source, 'copies and template have gone their own ways');

# ---------- RENAME, SET TABLESPACE, DROP ----------

command('wal_log', 'ALTER DATABASE wal_log RENAME TO renamed');
idle_worker('renamed');
$copy{renamed} = contents($node, 'renamed');
# Its tables may lie in the tablespace only if they do so by default.
$node->safe_psql('postgres', 'CREATE DATABASE lodger TEMPLATE template0');
$node->safe_psql('lodger', backup_schema() . 'BEGIN;' . fill_sql(1, 4000) . 'COMMIT');
command('lodger', 'ALTER DATABASE lodger SET TABLESPACE space2');
$copy{lodger} = contents($node, 'lodger');
$node->safe_psql('lodger', 'BEGIN;' . fill_sql(7, 3000) . 'ROLLBACK');
crash();
indexes_serve($node, 'SET TABLESPACE, after a crash', 8, 'lodger');
same_contents($node, $copy{lodger}, 'SET TABLESPACE, after a crash', 'lodger');
sound('renamed', $copy{renamed}, 'renamed, after a crash');
command('lodger', 'ALTER DATABASE lodger SET TABLESPACE pg_default');
command('lodger', 'DROP DATABASE lodger');
command('file_copy', 'DROP DATABASE file_copy WITH (FORCE)');
crash();
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_database WHERE datname IN ('lodger', 'file_copy', 'wal_log')}), 0, 'dropped databases are gone after a crash');
# A database of the same name has nothing of the one before.
$node->safe_psql('postgres', 'CREATE DATABASE lodger TEMPLATE template0');
$node->safe_psql('lodger', backup_schema() . 'BEGIN;' . fill_sql(1, 4000) . 'COMMIT');
idle_worker('lodger');
indexes_serve($node, 'a new database of an old name', 8, 'lodger');
command('lodger', 'DROP DATABASE lodger');
command('renamed', 'DROP DATABASE renamed');

# ---------- tables and indexes that move ----------

sub spaces
{
	return $node->safe_psql('source', q{SELECT coalesce(spcname, 'default'), count(*) FROM pg_class c LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace
		WHERE relname ~ '^(fed|kept|brief)' GROUP BY 1 ORDER BY 1}) =~ s/\n/, /gr;
}
foreach my $move (
	[ 'default|7, space2|6', 'ALTER TABLE ALL IN TABLESPACE space1 SET TABLESPACE space2', 'ALTER INDEX ALL IN TABLESPACE space1 SET TABLESPACE space2' ],
	[ 'default|5, space1|4, space2|4', 'ALTER TABLE kept SET TABLESPACE space1', 'ALTER INDEX fed_k SET TABLESPACE space1', 'ALTER INDEX fed_txt SET TABLESPACE space2', 'ALTER INDEX kept_k SET TABLESPACE space1', 'REINDEX (TABLESPACE space1) INDEX CONCURRENTLY kept_ver' ],
	[ 'default|13', 'ALTER TABLE ALL IN TABLESPACE space1 SET TABLESPACE pg_default', 'ALTER TABLE ALL IN TABLESPACE space2 SET TABLESPACE pg_default', 'ALTER INDEX ALL IN TABLESPACE space1 SET TABLESPACE pg_default', 'ALTER INDEX ALL IN TABLESPACE space2 SET TABLESPACE pg_default' ])
{
	my ($where, @sql) = @$move;
	my ($rc, $out, $err) = (0, '', '');
	# A load in the same transaction finds the new files, and one afterwards does.
	$load++;
	foreach (@sql)
	{
		$load++;
		($rc, $out, $err) = $node->psql('source', /CONCURRENTLY/ ? $_ : "BEGIN; $_;" . fill_sql($load, 700) . 'COMMIT');
		is("$rc $err", '0 ', $_);
	}
	is(spaces(), $where, 'they are where they should be');
	$node->safe_psql('source', 'BEGIN;' . fill_sql(++$load, 2000) . 'COMMIT; DELETE FROM fed WHERE k % 10 = 3; VACUUM (INDEX_CLEANUP on) fed');
	$source = contents($node, 'source');
	crash();
	sound('source', $source, 'moved, after a crash');
	$node->safe_psql('source', 'INSERT INTO brief SELECT generate_series(1, 1000)');
}
command('', "DROP TABLESPACE space$_") foreach 1, 2;

# ---------- prepared transactions ----------

my $items = q{SELECT string_agg(relname || ' ' || n, ', ' ORDER BY relname) FROM pg_class c, LATERAL (SELECT sum(items) AS n
	FROM generate_series(1, pg_relation_size(c.oid) / current_setting('block_size')::int - 1) b, mtpower.page_info(c.oid, b) p WHERE p.type IN ('leaf', 'bucket', 'stash')) i
	WHERE relname IN ('fed_h', 'kept_k')};
foreach my $how ('restart', 'crash')
{
	$node->safe_psql('source', 'VACUUM (INDEX_CLEANUP on) fed; VACUUM (INDEX_CLEANUP on) kept; CREATE TABLE emptied (a int, b int) USING mtpower; CREATE INDEX emptied_a ON emptied USING mtpower_blink (a);
		CREATE INDEX emptied_h ON emptied USING mtpower_hash (a); INSERT INTO emptied SELECT g, g FROM generate_series(1, 3000) g');
	my $contents = contents($node, 'source');
	my $before = $node->safe_psql('source', $items);
	my $create = sub { my ($t) = @_; return "CREATE TABLE $t (a int) USING mtpower; CREATE INDEX ${t}_a ON $t USING mtpower_blink (a); CREATE INDEX ${t}_h ON $t USING mtpower_hash (a); COPY $t FROM PROGRAM 'seq 1 3000';" };
	$node->safe_psql('source', 'BEGIN; ' . fill_sql(9001, 5000) . 'SAVEPOINT s;' . fill_sql(9002, 3000) . 'ROLLBACK TO s; UPDATE kept SET ver = ver + 1 WHERE load = 9001;' . $create->('made') . q{PREPARE TRANSACTION 'commits'});
	$node->safe_psql('source', 'BEGIN; ' . fill_sql(9003, 6000) . 'DELETE FROM kept WHERE load = 1;' . $create->('unmade') . q{TRUNCATE emptied; INSERT INTO emptied SELECT g, -g FROM generate_series(1, 2000) g; PREPARE TRANSACTION 'rolls back'});
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, "$how: what is prepared holds no memory");
	# Others write, and VACUUM, meanwhile.
	$node->safe_psql('source', $_) foreach 'CHECKPOINT', 'BEGIN;' . fill_sql(9004, 2000) . 'COMMIT', 'VACUUM (INDEX_CLEANUP on) fed', 'VACUUM (INDEX_CLEANUP on) kept';
	if ($how eq 'crash') { crash() }
	else { $node->restart; }
	my $count = q{SELECT load, (SELECT count(*) FROM fed WHERE fed.load = x.load), (SELECT count(*) FROM kept WHERE kept.load = x.load) FROM (VALUES (9001), (9002), (9003), (9004)) x(load)};
	is($node->safe_psql('source', $count), "9001|0|0\n9002|0|0\n9003|0|0\n9004|2000|2000", "$how: nothing of them shows");
	$node->safe_psql('source', $_) foreach 'BEGIN;' . fill_sql(9005, 2000) . 'COMMIT', 'VACUUM (INDEX_CLEANUP on) fed', q{COMMIT PREPARED 'commits'}, q{ROLLBACK PREPARED 'rolls back'};
	is($node->safe_psql('source', $count), "9001|5000|5000\n9002|0|0\n9003|0|0\n9004|2000|2000", "$how: what was committed shows");
	is($node->safe_psql('source', q{SELECT count(*), to_regclass('unmade'), (SELECT sum(b) FROM emptied), (SELECT count(*) FROM kept WHERE load = 9001 AND ver = 1) FROM made}), '3000||4501500|5000', "$how: new tables, and those that were truncated");
	crash() if $how eq 'crash';
	indexes_serve($node, "$how, finished", 13, 'source');
	# VACUUM takes the entries of what was rolled back; then only those of rows are left.
	$node->safe_psql('source', 'DROP TABLE made, emptied; DELETE FROM fed WHERE load > 9000; DELETE FROM kept WHERE load > 9000; VACUUM (INDEX_CLEANUP on) fed; VACUUM (INDEX_CLEANUP on) kept');
	same_contents($node, join("\n", grep { !/^emptied/ } split /\n/, $contents), "$how, cleared away", 'source');
	is($node->safe_psql('source', $items), $before, "$how: no entry is left of what was rolled back");
	indexes_serve($node, "$how, after VACUUM", 10, 'source');
}
# ---------- single-user mode ----------

log_is_quiet($node);
$node->stop;
my @single = ('postgres', '--single', '-j', '-c', 'exit_on_error=on', '-D', $node->data_dir, 'source');
my $commands = join(";\n\n", 'CREATE TABLE alone (a int, b text) USING mtpower', 'CREATE INDEX alone_a ON alone USING mtpower_blink (a)', 'CREATE INDEX alone_h ON alone USING mtpower_hash (b)',
	q{INSERT INTO alone SELECT g, g::text FROM generate_series(1, 20000) g}, fill_sql(9010, 5000) =~ s/;\s*INSERT/;\n\nINSERT/r =~ s/;\s*$//r, 'DELETE FROM alone WHERE a % 2 = 0',
	'VACUUM (INDEX_CLEANUP on) alone', 'REINDEX INDEX fed_h', '') . "\n\n";
my ($said, $complained);
ok(IPC::Run::run(\@single, '<', \$commands, '>', \$said, '2>', \$complained), 'a server of a single process loads, too') or diag($complained);
unlike($complained, qr/ERROR|FATAL|PANIC|WARNING/, 'without complaint');
$node->start;
is($node->safe_psql('source', 'SELECT count(*), (SELECT count(*) FROM kept WHERE load = 9010) FROM alone'), '10000|5000', 'and all is there');
indexes_serve($node, 'single-user mode', 12, 'source');
$node->stop;
command_like([ 'pg_checksums', '--check', '-D', $node->data_dir ], qr/Bad checksums:  0$/m, 'all checksums are right');
done_testing();
