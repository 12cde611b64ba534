# initial_buckets asks for more than the disk has, in every command that makes buckets: it fails
# cleanly and leaves nothing. A build with many buckets ends at once when it is cancelled.
use strict;
use warnings;
use MtpSmallDisk '48m';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $disk = $ENV{MTP_SMALL_DISK};
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
max_wal_size = 2GB
});
$node->start;
mkdir "$disk/space" or die "$disk/space: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$disk/space'");
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE TABLE t (a int) USING mtpower;
CREATE UNLOGGED TABLE u (a int) USING mtpower;
CREATE INDEX t_small ON t USING mtpower_hash (a) TABLESPACE small;
CREATE INDEX u_small ON u USING mtpower_hash (a) TABLESPACE small;
INSERT INTO t SELECT g FROM generate_series(1, 3000) g;
INSERT INTO u SELECT g FROM generate_series(1, 3000) g;
});

sub files { return join(' ', sort split /\n/, `cd $disk/space && find . -type f -size +0`); }

sub refused
{
	my ($what, $sql, $after) = @_;
	my ($before, $err) = (files());
	$node->psql('postgres', $sql, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	$node->safe_psql('postgres', $after) if defined $after;
	like($err, qr/ERROR:  53100: could not extend file/, "$what: a clean error");
	is(files(), $before, "$what: no file is left");
	is($node->safe_psql('postgres', q{SET enable_seqscan = off;
		SELECT (SELECT count(*) FROM t WHERE a = 7), (SELECT count(*) FROM u WHERE a = 7), mtpower.verify_index('t_small', true), mtpower.verify_index('u_small', true)}),
		'1|1||', "$what: what there was is as it was");
	return;
}

my $all = 'initial_buckets = 1073741824';
refused('CREATE INDEX', "CREATE INDEX ON t USING mtpower_hash (a) WITH ($all) TABLESPACE small");
refused('CREATE INDEX on an empty table', "CREATE TABLE e (a int); CREATE INDEX e_a ON e USING mtpower_hash (a) WITH ($all) TABLESPACE small");
refused('CREATE INDEX, unlogged', "CREATE INDEX ON u USING mtpower_hash (a) WITH ($all) TABLESPACE small");
# What it has made stays, as with any access method, until the invalid index is dropped.
refused('CREATE INDEX CONCURRENTLY', "CREATE INDEX CONCURRENTLY t_invalid ON t USING mtpower_hash (a) WITH ($all) TABLESPACE small", 'DROP INDEX t_invalid; CHECKPOINT');
$node->safe_psql('postgres', "ALTER INDEX t_small SET ($all); ALTER INDEX u_small SET ($all)");
refused("$_, after ALTER INDEX", $_) foreach 'REINDEX INDEX t_small', 'TRUNCATE t', 'TRUNCATE u', 'VACUUM FULL t', 'ALTER TABLE t ALTER a TYPE int8';
is($node->safe_psql('postgres', 'ALTER INDEX t_small RESET (initial_buckets); REINDEX INDEX t_small; SELECT mtpower.verify_index($$t_small$$, true)'), '', 'without the option it is built');

# All rows have a hash of the first buckets, so that their chain's pages, behind all buckets, come before those.
$node->safe_psql('postgres', q{
CREATE TABLE c (a int);
CREATE INDEX c_a ON c USING mtpower_hash (a) WITH (initial_buckets = 200);
DO $$
BEGIN
	FOR i IN 1 .. 100000 LOOP
		INSERT INTO c VALUES (i);
		EXIT WHEN (SELECT items FROM mtpower.page_info('c_a', 1)) > 0;
	END LOOP;
	CREATE TABLE k AS SELECT max(a) AS a FROM c, generate_series(1, 5000);
	INSERT INTO k SELECT a FROM k, generate_series(1, 5000);
END $$;
});
my $out;
$node->psql('postgres', q{
SELECT clock_timestamp() AS began \gset
SET statement_timeout = '150ms';
CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 500000);
RESET statement_timeout;
SELECT extract(epoch FROM clock_timestamp() - :'began'::timestamptz);
}, stdout => \$out, on_error_stop => 0);
cmp_ok($out, '<', 5, 'a build of many buckets ends when it is cancelled');
$node->stop;
done_testing();
