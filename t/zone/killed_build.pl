# The server is killed while it builds a zone index, which logs nothing until it is done, or builds one again: what is there
# afterwards has all rows, on a standby too.
use strict;
use warnings;
use MtpJudgeDisturb;
use MtpReplica;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{ROUNDS} || 6;
my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
fsync = off
shared_buffers = 128MB
wal_keep_size = 4GB
min_parallel_table_scan_size = 0
checkpoint_timeout = 1h
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE TABLE t (a int, b text COLLATE "C") USING mtpower;
INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 400000) g;
CREATE INDEX t_old ON t USING mtpower_zone (a, b);
});
my $standby = standby_of($node, 'standby');

my $sound = q{SELECT count(mtpower.verify_index(indexrelid, true)) FROM pg_index WHERE indrelid = 't'::regclass AND indisvalid};
my $found = q{SET enable_seqscan = off; SELECT count(*) FROM t WHERE a BETWEEN 100001 AND 300000};
my ($done, $killed) = (0, 0);
foreach my $round (1 .. $rounds)
{
	my $workers = $round % 2 * 2;
	my $sql = join(';', "SET max_parallel_maintenance_workers = $workers", ('REINDEX INDEX t_old', 'DROP INDEX IF EXISTS t_new', 'CREATE INDEX t_new ON t USING mtpower_zone (b, a)') x 20);
	my $run = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SELECT 1', map { ('-c', $_) } split(/;/, $sql) ], '<', \undef, '>', \my $out, '2>', \my $err);
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query ~ '^(REINDEX|CREATE)'}) or die;
	select(undef, undef, undef, rand(1.2));
	MtpJudgeDisturb::kill_server($node);
	eval { $run->finish };
	$killed++ if $err =~ /connection|terminat/;
	$node->start;
	cmp_ok($node->safe_psql('postgres', $sound), '>=', 1, "round $round: the indexes that are there have all rows");
	is($node->safe_psql('postgres', $found), 200000, "round $round: and find them");
	$node->safe_psql('postgres', "INSERT INTO t SELECT 1000000 + $round, 'later'; CREATE INDEX IF NOT EXISTS t_new ON t USING mtpower_zone (b, a)");
	is($node->safe_psql('postgres', $sound), 2, "round $round: a row comes to both");
	catch_up($node, $standby);
	is($standby->safe_psql('postgres', $sound), 2, "round $round: and to the standby's");
}
cmp_ok($killed, '>', $rounds / 2, "builds were under way in $killed of $rounds rounds");
$standby->stop;
$node->stop;
done_testing();
