# Sessions insert, update, delete and roll back, roughly in order, beside VACUUM, queries and CREATE
# INDEX CONCURRENTLY.  Each query sees each row of its snapshot; a kill -9 in between loses nothing;
# a standby answers alike, and its pages are the primary's.
use strict;
use warnings;
use MtpJudgeDisturb;
use MtpLoad;
use MtpReplica;
use MtpSessions;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{ROUNDS} || 3;
my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
fsync = off
jit = off
shared_buffers = 128MB
wal_consistency_checking = 'all'
hot_standby_feedback = on
wal_keep_size = 8GB
max_parallel_workers_per_gather = 0
mtpower.enable_directoryscan = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE TABLE z (id bigserial, ts int, k int, pad text) USING mtpower WITH (autovacuum_enabled = off);
CREATE INDEX z_ts ON z USING mtpower_zone (ts);
CREATE INDEX z_more ON z USING mtpower_zone (id, k, ts, (ts % 100)) WHERE k > 0;
CREATE SEQUENCE clock;
INSERT INTO z (ts, k, pad) SELECT nextval('clock'), g % 10, repeat('x', 200) FROM generate_series(1, 20000) g;
-- The same answer with the index and without: the number of rows in a range of times, in one snapshot
CREATE FUNCTION ask(lo int, hi int) RETURNS void LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
	IF (SELECT count(*) FROM z WHERE ts BETWEEN lo AND hi) <> (SELECT count(*) FROM z WHERE ts + 0 BETWEEN lo AND hi) THEN
		RAISE 'rows are missing from % to %', lo, hi;
	END IF;
END $$;
CREATE FUNCTION ask_directories(lo int, hi int) RETURNS void LANGUAGE plpgsql STABLE
	SET enable_bitmapscan = off SET mtpower.enable_directoryscan = on AS $$
BEGIN
	IF (SELECT count(*) FROM z WHERE ts BETWEEN lo AND hi) <> (SELECT count(*) FROM z WHERE ts + 0 BETWEEN lo AND hi) THEN
		RAISE 'directory scans miss rows from % to %', lo, hi;
	END IF;
END $$;
});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

my %scripts = (
	"INSERT INTO z (ts, k, pad) SELECT nextval('clock') - (random() * 50)::int, g % 10, repeat('y', 200) FROM generate_series(1, 40) g;" => 6,
	"\\set part random(0, 99)\nBEGIN;\nINSERT INTO z (ts, k, pad) VALUES (1000000 + :part, 1, '');\nROLLBACK;" => 2,
	"\\set part random(0, 199)\nDELETE FROM z WHERE ts % 200 = :part;" => 1,
	"\\set part random(0, 199)\nUPDATE z SET ts = nextval('clock'), k = k + 1 WHERE ts % 200 = :part;" => 1,
	"VACUUM z;" => 1,
	"\\set lo random(1, 60000)\nSELECT ask(:lo, :lo + 100);" => 5,
	"\\set lo random(1, 60000)\nSELECT ask_directories(:lo, :lo + 100);" => 5,
	"SELECT mtpower.verify_index(i, true) FROM unnest('{z_ts,z_more}'::regclass[]) i;" => 1);

sub sound
{
	my ($server, $what) = @_;
	is($server->safe_psql('postgres', "SELECT count(mtpower.verify_index(i, true)) FROM unnest('{z_ts,z_more}'::regclass[]) i"), 2, "$what: indexes are sound");
	is($server->safe_psql('postgres', "SELECT count(ask(g * 500, g * 500 + 600)) FROM generate_series(0, 200) g"), 201, "$what: answers are right");
	return;
}

foreach my $round (1 .. $rounds)
{
	my $run = start_pgbench($node, 60, 6, %scripts);
	sleep(3 + rand(2));
	cmp_ok(MtpJudgeDisturb::kill_server($node), '>', 1, "round $round: killed");
	eval { $run->{h}->finish };
	unlike($run->{err}, qr/ERROR:(?!.*(?:terminat|deadlock))/, "round $round: no error before") or diag($run->{err});
	$node->start;
	sound($node, "round $round");
	$node->safe_psql('postgres', 'VACUUM z');
	sound($node, "round $round, vacuumed");
	$node->wait_for_catchup($standby);
	sound($standby, "round $round, standby");
}

# An index that is built beside writers has their rows.
my $run = start_pgbench($node, 8, 4, "INSERT INTO z (ts, k, pad) SELECT nextval('clock'), g % 10, '' FROM generate_series(1, 10) g;" => 3, "VACUUM z;" => 1);
$node->safe_psql('postgres', 'CREATE INDEX CONCURRENTLY z_late ON z USING mtpower_zone (ts, id)');
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY z_ts');
finish_pgbench($run, 'beside CREATE INDEX CONCURRENTLY', 10);
is($node->safe_psql('postgres', "SELECT mtpower.verify_index('z_late', true)"), '', 'the index that was built meanwhile is sound');
sound($node, 'in the end');

$node->wait_for_catchup($standby);
$standby->promote;
$standby->safe_psql('postgres', "INSERT INTO z (ts, k) SELECT g, 1 FROM generate_series(1, 1000) g; DELETE FROM z WHERE ts % 3 = 0; VACUUM z");
sound($standby, 'promoted');
log_is_clean($node);
done_testing();
