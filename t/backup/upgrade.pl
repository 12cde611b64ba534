# pg_dump and pg_restore in all formats, in parallel, by sections and with the data last, and
# pg_upgrade with --link and --clone, each with the preload and without. Every index is there
# afterwards, is sound, and is used. What fails says why and loses nothing. (dump_tables.pl has
# other access methods, dump_opclasses.pl the operator classes.)
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpBackup;

sub cluster
{
	my ($name, $preload) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'mtpower'") if $preload;
	return $node;
}

my $old = cluster('old', 1);
$old->append_conf('postgresql.conf', "mtpower.batch_size = 64kB\nmtpower.batch_min_rows = 0");
$old->start;
my $dir = $old->basedir;
$old->safe_psql('postgres', 'CREATE ROLE plain; CREATE DATABASE source');
$old->safe_psql('source', 'CREATE EXTENSION citext;' . backup_schema() . 'BEGIN;' . fill_sql(1, 5000) . 'COMMIT;' . dump_schema());
my $least = 19;
my $contents = contents($old, 'source');
my $definitions = q{SELECT pg_get_indexdef(i.indexrelid), a.amname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid LEFT JOIN pg_am a ON a.oid = t.relam
	WHERE i.indexrelid >= 16384 AND t.relnamespace <> 'pg_toast'::regnamespace ORDER BY pg_get_indexdef(i.indexrelid) COLLATE "C"};
my $indexes = $old->safe_psql('source', $definitions);
indexes_serve($old, 'before', $least, 'source');

sub restored
{
	my ($node, $db, $what) = @_;
	same_contents($node, $contents, $what, $db);
	is($node->safe_psql($db, $definitions), $indexes, "$what: indexes and access methods");
	indexes_serve($node, $what, $least, $db);
	return;
}

# ---------- dumps ----------

command_ok([ 'pg_dump', '-Fd', '-j', 3, '-f', "$dir/dump.dir", '-d', $old->connstr('source') ], 'pg_dump -Fd -j');
command_ok([ 'pg_dump', '-Fc', '-f', "$dir/dump.custom", '-d', $old->connstr('source') ], 'pg_dump -Fc');
command_ok([ 'pg_dump', '-f', "$dir/dump.sql", '-d', $old->connstr('source') ], 'pg_dump');
$old->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach qw(parallel sections late);
my @restore = ('pg_restore', '--exit-on-error');
command_ok([ @restore, '-j', 3, '-d', $old->connstr('parallel'), "$dir/dump.dir" ], 'pg_restore -j');
restored($old, 'parallel', 'parallel');
command_ok([ @restore, "--section=$_", '-d', $old->connstr('sections'), "$dir/dump.custom" ], "pg_restore --section=$_") foreach qw(pre-data data post-data);
restored($old, 'sections', 'by sections');
# Data come last, into indexes that are live: in batches.
command_ok([ @restore, '--schema-only', '-d', $old->connstr('late'), "$dir/dump.custom" ], 'pg_restore --schema-only');
command_ok([ @restore, '--data-only', '-j', 2, '-d', $old->connstr('late'), "$dir/dump.dir" ], 'pg_restore --data-only -j');
$old->safe_psql('late', 'REFRESH MATERIALIZED VIEW mv');
restored($old, 'late', 'indexes before data');
cmp_ok($old->safe_psql('late', 'SELECT sum(entries) FROM mtpower.stat_batches WHERE index IS NOT NULL'), '>', 15000, 'into live indexes: in batches');

# ---------- where it is not preloaded ----------

my $bare = cluster('bare', 0);
$bare->start;
$bare->safe_psql('postgres', 'CREATE ROLE plain; CREATE DATABASE early TEMPLATE template0; CREATE DATABASE at_once TEMPLATE template0; CREATE DATABASE without TEMPLATE template0');
my $preload = qr/ERROR:  mtpower must be loaded via "shared_preload_libraries"\s.*?HINT:  Add "mtpower" to "shared_preload_libraries" in postgresql.conf, and restart the server\./s;
command_fails_like([ 'pg_restore', '--single-transaction', '-d', $bare->connstr('at_once'), "$dir/dump.custom" ], $preload, 'a restore that stops at errors says what is missing');
command_fails_like([ 'psql', '-Xq1', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/dump.sql", '-d', $bare->connstr('at_once') ], $preload, 'so does a plain one');
is($bare->safe_psql('at_once', q{SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace}), '0', 'and nothing has come');
# One that goes on brings all rows, as heap; which can become mtpower then.
my ($out, $err) = run_command([ 'psql', '-Xq', '-f', "$dir/dump.sql", '-d', $bare->connstr('early') ]);
like($err, $preload, 'one that goes on says it as well');
same_contents($bare, $contents, 'all rows have come', 'early');
is($bare->safe_psql('early', q{SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE amname ~ 'mtpower'}), '0', 'into heap tables');
$bare->append_conf('postgresql.conf', "shared_preload_libraries = 'mtpower'");
$bare->restart;
$bare->safe_psql('early', q{CREATE EXTENSION mtpower; SELECT FROM mtpower.sync_opclasses();
	SELECT mtpower.adopt(oid::regclass) FROM pg_class WHERE oid IN ('fed'::regclass, 'words'::regclass, 'brief'::regclass, 'parted_1'::regclass, 'mv'::regclass)});
command_ok([ 'sh', '-c', 'grep "^CREATE INDEX .* mtpower_\(blink\|hash\) \|^ALTER INDEX .* ATTACH" "$1" | psql -Xq -v ON_ERROR_STOP=1 -d "$2"', 'sh', "$dir/dump.sql", $bare->connstr('early') ],
	'with the preload its indexes can be made');
restored($bare, 'early', 'late preload');
command_ok([ 'psql', '-Xq1', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/dump.sql", '-d', $bare->connstr('at_once') ], 'and with the preload the same dump runs');
restored($bare, 'at_once', 'the same dump');

# ---------- leaving: release_all and index_ddl, then a dump for a server without it ----------

$old->safe_psql('postgres', 'CREATE DATABASE leaving TEMPLATE source');
$old->safe_psql('leaving', q{DROP INDEX parted_k, parted_h; CREATE INDEX parted_k ON parted (k)});
$old->safe_psql('leaving', q{SELECT * FROM mtpower.release_all();
	SELECT format('ALTER INDEX %s RESET (initial_buckets%s)', c.oid::regclass, CASE WHEN i.indnkeyatts > 1 THEN ', fillfactor' END)
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'mtpower_hash' AND c.relkind = 'i' \gexec
	SELECT mtpower.index_ddl(c.oid, CASE WHEN a.amname = 'mtpower_hash' AND i.indnkeyatts = 1 THEN 'hash' ELSE 'btree' END)
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE a.amname IN ('mtpower_blink', 'mtpower_hash') AND c.relkind = 'i' \gexec
	DROP EXTENSION mtpower});
command_ok([ 'pg_dump', '-Fd', '-j', 2, '-f', "$dir/leaving.dir", '-d', $old->connstr('leaving') ], 'pg_dump after release_all and index_ddl');
$bare->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$bare->safe_psql('postgres', 'DROP DATABASE early; DROP DATABASE at_once');
$bare->restart;
command_ok([ @restore, '-j', 2, '-d', $bare->connstr('without'), "$dir/leaving.dir" ], 'it is restored without an error where mtpower is not');
same_contents($bare, $contents, 'without mtpower', 'without');
is($bare->safe_psql('without', q{SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace = 'public'::regnamespace AND indisvalid;
	SET enable_seqscan = off; SELECT a FROM words WHERE c = 'WORD 77'; SELECT a FROM words WHERE n = '99'}), "19\n77\n99", 'with indexes of core that serve');
$bare->stop;
$old->safe_psql('postgres', "DROP DATABASE $_") foreach qw(parallel sections late leaving);

# ---------- pg_upgrade ----------

$old->stop;
my $bindir = $old->config_data('--bindir');

# Output, and whether it went well.
sub upgrade
{
	my ($new, @options) = @_;
	local $ENV{TMPDIR} = $dir;
	chdir($dir);
	my $out = '';
	my $ok = IPC::Run::run([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $bindir, '-B', $bindir,
			'-s', $new->host, '-p', $old->port, '-P', $new->port, @options ], '>&', \$out);
	return ($ok, $out);
}

my $new = cluster('new', 0);
foreach my $how ([ '--check', '--link' ], ['--link'])
{
	my ($ok, $out) = upgrade($new, @$how);
	ok(!$ok, "pg_upgrade @$how where the new cluster does not preload it: refused");
	my ($file) = $out =~ m{^\s*(/\S+loadable_libraries\.txt)$}m;
	my $text = $file ? slurp_file($file) : "(no file: $out)";
	like($text, qr/could not load library "\$libdir\/mtpower": $preload\n?In database: source/, "pg_upgrade @$how: says what is missing, and where");
}
$new->append_conf('postgresql.conf', "shared_preload_libraries = 'mtpower'");
{
	$old->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
	my ($ok, $out) = upgrade($new, '--link');
	ok(!$ok, 'pg_upgrade where the old cluster does not preload it any more: fails');
	my ($logs) = reverse sort(glob($new->data_dir . '/pg_upgrade_output.d/*/log'));
	like(join('', map { slurp_file($_) } glob("$logs/pg_upgrade_dump_*.log $logs/pg_upgrade_internal.log")), $preload, 'says what is missing');
	$old->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'mtpower'");
}
$old->start;
same_contents($old, $contents, 'refused: the old cluster is as it was', 'source');
$old->stop;

# Those whose pages are shared with the old cluster's must not change that: the last one takes the files.
foreach my $mode ('--clone', '--link')
{
	SKIP:
	{
		my ($ok, $out) = upgrade($new, '--check', $mode);
		skip "the file system cannot clone files", 1 if $mode eq '--clone' && $out =~ /could not clone file/;
		ok($ok, "pg_upgrade --check $mode") or diag($out);
		($ok, $out) = upgrade($new, $mode);
		ok($ok, "pg_upgrade $mode") or diag($out);
		$new->start;
		restored($new, 'source', "pg_upgrade $mode");
		is($new->safe_psql('source', q{SELECT * FROM mtpower.sync_opclasses(); SELECT count(*) FROM brief}), '1000', "pg_upgrade $mode: nothing is left to mirror, unlogged rows are there");
		# Pages go on from where they were, and an unlogged table begins anew after a crash.
		$new->safe_psql('source', $_) foreach 'BEGIN;' . fill_sql(2, 6000) . 'COMMIT', 'DELETE FROM kept WHERE k % 2 = 0', 'VACUUM (INDEX_CLEANUP on) kept', 'CHECKPOINT', 'BEGIN;' . fill_sql(3, 3000) . 'COMMIT';
		my $later = contents($new, 'source');
		$new->stop('immediate');
		$new->start;
		same_contents($new, $later, "pg_upgrade $mode, a crash later", 'source');
		is($new->safe_psql('source', q{INSERT INTO brief SELECT generate_series(1, 500) RETURNING k}) =~ tr/\n//, 499, "pg_upgrade $mode: unlogged table and indexes begin anew");
		indexes_serve($new, "pg_upgrade $mode, later", $least, 'source');
		log_is_quiet($new);
		$new->stop;
		if ($mode eq '--clone')
		{
			$old->start;
			same_contents($old, $contents, 'cloned: the old cluster is as it was', 'source');
			$old->stop;
			$new = cluster('linked', 1);
		}
	}
}
done_testing();
