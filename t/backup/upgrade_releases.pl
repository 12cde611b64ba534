# pg_upgrade from an older release, whose primary has a standby until then, as the new one has again. Rows, indexes and operator
# classes are there without a REINDEX; all indexes are sound and used, and loads go on.
# Variants: from_15 from_17
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpBackup;

# Where test/run has installed older releases, with mtpower: 15=directory ...
my ($from) = ($ENV{MTP_VARIANT} // 'from_15') =~ /(\d+)/;
my %older = map { split /=/, $_, 2 } split / /, $ENV{MTP_OLDER} // '';
my ($here) = `pg_config --version` =~ /PostgreSQL (\d+)/;
plan skip_all => "PostgreSQL $here is no newer than $from" if $from >= $here;
plan skip_all => "PostgreSQL $from is not among those that OLDER names" if !$older{$from};

my @init = (extra => [ '--encoding=UTF8', '--locale=C', '--data-checksums' ]);
my $old = PostgreSQL::Test::Cluster->new('old', install_path => $older{$from});
$old->init(allows_streaming => 1, @init);
$old->adjust_conf('postgresql.conf', 'autovacuum_worker_slots', undef);	# which the test module of 18 writes for any release
$old->append_conf('postgresql.conf', "shared_preload_libraries = 'mtpower'\nmtpower.batch_size = 64kB\nmtpower.batch_min_rows = 0\n");
$old->start;
is($old->safe_psql('postgres', q{SELECT split_part(current_setting('server_version'), '.', 1)}), $from, 'the old server is of that release');
$old->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('old_standby', install_path => $older{$from});
$standby->init_from_backup($old, 'base', has_streaming => 1);
$standby->start;
$old->safe_psql('postgres', 'CREATE ROLE plain; CREATE DATABASE source');
$old->safe_psql('source', 'CREATE EXTENSION citext;' . backup_schema() . 'BEGIN;' . fill_sql(1, 5000) . 'COMMIT;' . dump_schema());
my $definitions = q{SELECT pg_get_indexdef(i.indexrelid), i.indisvalid, pg_relation_filenode(i.indexrelid) IS NOT NULL FROM pg_index i
	WHERE i.indexrelid >= 16384 ORDER BY pg_get_indexdef(i.indexrelid) COLLATE "C"};
my $least = 19;
my $contents = contents($old, 'source');
my $indexes = $old->safe_psql('source', $definitions);
indexes_serve($old, "on $from", $least, 'source');
$old->wait_for_catchup($standby);
same_contents($standby, $contents, "on $from, standby", 'source');
# The pages as they are, to be found so again; those of unlogged relations, and statistics, are not told.
my $pages = q{SELECT c.relname, md5(pg_read_binary_file(pg_relation_filepath(c.oid))) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE a.amname IN ('mtpower_blink', 'mtpower_hash') AND c.relkind = 'i' AND c.relpersistence = 'p' ORDER BY c.relname};
$old->safe_psql('source', 'CHECKPOINT');
my $files = $old->safe_psql('source', $pages);
$old->stop;
$standby->stop;

my $new = PostgreSQL::Test::Cluster->new('new');
$new->init(allows_streaming => 1, @init);
$new->append_conf('postgresql.conf', "shared_preload_libraries = 'mtpower'\nautovacuum = off\n");
my @command = ('pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', "$older{$from}/bin", '-B', $new->config_data('--bindir'),
	'-s', $new->host, '-p', $old->port, '-P', $new->port);
{
	local $ENV{TMPDIR} = $old->basedir;
	chdir($old->basedir) or die "chdir: $!";
	command_ok([ @command, '--check' ], 'pg_upgrade --check');
	command_ok([@command], 'pg_upgrade');
}
$new->start;
is($new->safe_psql('source', $pages), $files, 'no page of an index has changed');
same_contents($new, $contents, 'upgraded', 'source');
is($new->safe_psql('source', $definitions), $indexes, 'indexes are as they were');
indexes_serve($new, 'upgraded', $least, 'source');
$new->safe_psql('source', 'SELECT * FROM mtpower.sync_opclasses()');
is($new->safe_psql('source', 'SELECT * FROM mtpower.sync_opclasses()'), '', 'operator classes are in step with core');
is($new->safe_psql('source', q{
	SELECT count(*) FROM pg_amproc c JOIN pg_opfamily f ON f.oid = c.amprocfamily
	WHERE f.opfmethod IN (403, 405) AND f.opfnamespace = 'pg_catalog'::regnamespace AND NOT EXISTS (
		SELECT FROM pg_amproc m JOIN pg_opfamily g ON g.oid = m.amprocfamily JOIN pg_am a ON a.oid = g.opfmethod
		WHERE a.amname = CASE f.opfmethod WHEN 403 THEN 'mtpower_blink' ELSE 'mtpower_hash' END AND g.opfname = f.opfname
			AND (m.amproc, m.amproclefttype, m.amprocrighttype, m.amprocnum) = (c.amproc, c.amproclefttype, c.amprocrighttype, c.amprocnum))}),
	'0', 'with all functions of this release');
is($new->safe_psql('source', q{SELECT count(*) FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod WHERE a.amname ~ '^mtpower' AND NOT amvalidate(o.oid) AND o.opcname <> 'num_ops'}), '0', 'which are valid');

# Loads go on, and a standby replays them.
$new->backup('base');
my $follower = PostgreSQL::Test::Cluster->new('new_standby');
$follower->init_from_backup($new, 'base', has_streaming => 1);
$follower->start;
$new->safe_psql('source', $_) foreach 'BEGIN;' . fill_sql(2, 6000) . 'COMMIT', 'DELETE FROM kept WHERE k % 2 = 0', 'VACUUM (INDEX_CLEANUP on) kept', 'CHECKPOINT', 'BEGIN;' . fill_sql(3, 3000) . 'COMMIT';
my $later = contents($new, 'source');
$new->wait_for_catchup($follower);
same_contents($follower, $later, 'upgraded, standby', 'source');
indexes_serve($follower, 'upgraded, standby', $least, 'source');
$new->stop('immediate');
$new->start;
same_contents($new, $later, 'upgraded, a crash later', 'source');
indexes_serve($new, 'upgraded, a crash later', $least, 'source');
log_is_quiet($_) foreach $new, $follower;
$follower->stop;
$new->stop;
done_testing();
