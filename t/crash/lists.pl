# The server is killed while sessions load few keys, one by one and in batches, update, delete and
# vacuum. Replay, which compares each page with the one that was changed, leaves indexes that agree
# with their table. ROUNDS (6), SEED.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpJudgeDisturb;
use MtpLists;
use MtpLoad;
use MtpSessions;

my $rounds = $ENV{ROUNDS} || 6;
my $seed = $ENV{SEED} || int(time);
note "seed $seed";
srand($seed);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batch_min_rows = 10
mtpower.batch_size = 64kB
wal_consistency_checking = 'mtpower'
autovacuum = off
jit = off
max_wal_size = 4GB
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower; CREATE EXTENSION pg_walinspect;' . lists_sql('mtpower') . 'CREATE TABLE done (id bigint)');
my $file = rows_file(600);
my ($changes) = lists_scripts($file);
# What was acknowledged must be there.
my $acknowledged = q{\set seed random(1, 1000000)
	\set n random(1, 200)
	BEGIN; WITH i AS (INSERT INTO l (k, g, t, kept) SELECT *, true FROM some_rows(:n, :seed) RETURNING id) INSERT INTO done SELECT id FROM i; COMMIT;};

# Each kind of change alone, then all of them together.
my @alone = (
	[ 'COPY', "COPY l (k, g, t) FROM '$file';" ],
	[ 'one by one', "SET mtpower.batching = off;\nINSERT INTO l (k, g, t) SELECT * FROM some_rows(400, 7);" ],
	[ 'UPDATE', "\\set part random(0, 9)\nUPDATE l SET n = n + 1 WHERE id % 10 = :part AND NOT kept;" ],
	[ 'VACUUM', "\\set part random(0, 9)\nDELETE FROM l WHERE id % 10 = :part AND NOT kept;\nVACUUM (INDEX_CLEANUP ON) l;\nINSERT INTO l (k, g, t) SELECT * FROM some_rows(900, :part);" ]);
$node->safe_psql('postgres', 'INSERT INTO l (k, g, t) SELECT * FROM some_rows(8000, 1)');
foreach my $round (1 .. $rounds)
{
	my ($what, @scripts) = $round <= @alone ? ($alone[ $round - 1 ][0], $alone[ $round - 1 ][1] => 4) : ('everything', %$changes);
	$what = "round $round, $what";
	my $killed = 0;
	# The killed server's checkpoint may be older, or as new as can be.
	$node->safe_psql('postgres', 'CHECKPOINT') if rand(2) < 1;
	my $before = $node->lsn('insert');
	my $run = start_pgbench($node, 60, 4, @scripts, $acknowledged => 1);
	$node->poll_query_until('postgres', "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before') > 300000") or die 'no load';
	sleep(rand(0.5));
	if ($what =~ /one by one/)
	{
		ok($node->poll_query_until('postgres', "SELECT count(*) > 100 FROM pg_get_wal_records_info('$before', pg_current_wal_flush_lsn()) WHERE description ~ '^items 1 children 0 splices'"),
			"$what: TIDs fell into lists");
	}
	cmp_ok(MtpJudgeDisturb::kill_server($node), '>', 1, "$what: killed");
	eval { $run->{h}->finish };
	unlike($run->{err}, qr/ERROR:(?!.*(?:serialize|terminat|deadlock))/, "$what: no error before") or diag($run->{err});
	$node->start;
	lists_sound($node, $what, 1);
	is($node->safe_psql('postgres', 'SELECT count(*) FROM done WHERE id NOT IN (SELECT id FROM l WHERE kept)'), 0, "$what: all acknowledged rows are there");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM l WHERE kept AND id NOT IN (SELECT id FROM done)'), 0, "$what: and no other");
	# The indexes go on.
	$node->safe_psql('postgres', "INSERT INTO l (k, g, t) SELECT * FROM some_rows(500, $round)");
	$node->safe_psql('postgres', 'DELETE FROM l WHERE NOT kept AND hashint8(id) % 3 <> 0 AND (SELECT count(*) FROM l) > 8000');
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) l');
	lists_sound($node, "$what, gone on", 1);
}
log_is_clean($node);
$node->stop;
done_testing();
