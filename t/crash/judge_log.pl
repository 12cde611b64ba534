# The judge does not complain of what core warns of when processes are signaled and servers crash
# at certain moments, each of which this test brings about. It complains of everything else in a
# log.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpJudge;
use MtpJudgeDisturb;

my $TABLES = 60;	# with their indexes more files than a checkpointer of so few buffers has room for in its queue
my $judge = {};
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "shared_buffers = 1MB\nautovacuum_naptime = 1s\nmax_prepared_transactions = 10\nmax_locks_per_transaction = 256\n");
$node->start;
my $control = $node->data_dir . '/global/pg_control';

# tolerated DO, LIKE, WHAT: the server warns so, or a process ends so, and the judge does not mind.
sub tolerated
{
	my ($do, $like, $what) = @_;
	my $from = -s $node->logfile;
	$do->();
	my $log = slurp_file($node->logfile, $from);
	like($log, qr/(?:WARNING|FATAL):  $like/, "$what: the server says so");
	is(MtpJudge::new_complaints($judge, $node), '', "$what: no complaint");
	return;
}

# Runs SQL, whose :keep keeps the control file, and crashes before the checkpoint behind that counts.
sub crash_within_checkpoint
{
	my ($sql) = @_;
	$node->safe_psql('postgres', ($sql =~ s/:keep/\n\\! cp '$control' '$control.kept'\n/r) . "CHECKPOINT;\n");
	$node->stop('immediate');
	rename("$control.kept", $control) or die "rename: $!";
	$node->start;
	return;
}

# The postmaster alone is killed while a transaction is under way that begins with $begin, truncates all tables, and ends with $end.
sub orphan_at
{
	my ($begin, $end) = @_;
	my $dir = $node->data_dir;
	my $tables = join(', ', map { "t$_" } 1 .. $TABLES);
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		exec('psql', '-X', '-d', $node->connstr('postgres'), '-c', "$begin; TRUNCATE $tables; DO 'BEGIN WHILE pg_stat_file(''go'', true) IS NULL LOOP END LOOP; END'; $end");
	}
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%BEGIN WHILE%' AND pid <> pg_backend_pid() AND state = 'active'}) or die 'it does not begin';
	kill 'KILL', (split /\n/, slurp_file("$dir/postmaster.pid"))[0];
	for (my $tries = 0; $tries < 600 && grep { /checkpointer/ } values %{ { MtpJudgeDisturb::processes($dir) } }; $tries++) { sleep(0.1); }
	append_to_file("$dir/go", '');
	waitpid($pid, 0);
	MtpJudgeDisturb::kill_server($node, 1);
	unlink "$dir/go";
	$node->start;
	return;
}

# The postmaster alone is killed while a session waits for its parallel worker.
sub orphan_leader
{
	my $parallel = 'SET ' . ($node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query') . ' = on;';
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		exec('psql', '-X', '-d', $node->connstr('postgres'), '-c', $parallel . ' SELECT pg_sleep(600)');
	}
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event = 'PgSleep'}) or die 'no parallel worker';
	kill 'KILL', (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	waitpid($pid, 0);
	MtpJudgeDisturb::kill_server($node, 1);
	$node->start;
	return;
}

tolerated(sub {
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my $from = -s $node->logfile;
	kill 'STOP', $postmaster;
	for (my $tries = 0; $tries < 600 && slurp_file($node->logfile, $from) !~ /WARNING/; $tries++) { sleep(0.1); }
	kill 'CONT', $postmaster;
}, 'autovacuum worker took too long to start', 'a postmaster that is stopped');

tolerated(sub {
	my $pid = $node->safe_psql('postgres', 'SELECT pg_backend_pid()');
	for (my $tries = 0; $tries < 600 && kill(0, $pid); $tries++) { sleep(0.1); }
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
}, 'PID \d+ is not a PostgreSQL backend process', 'a signal to a process that has ended');

$node->safe_psql('postgres', 'CREATE TABLE t (a int)');
tolerated(sub { crash_within_checkpoint("CHECKPOINT; :keep BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'later';\n") },
	'removing future two-phase state file', 'a crash before the end of a checkpoint, transaction begun since the last one');
tolerated(sub { crash_within_checkpoint("BEGIN; INSERT INTO t VALUES (2); CHECKPOINT; :keep PREPARE TRANSACTION 'earlier';\n") },
	'could not recover two-phase state file', 'a crash before the end of a checkpoint, transaction begun before the last one');
is($node->safe_psql('postgres', 'SELECT string_agg(gid, \' \' ORDER BY gid) FROM pg_prepared_xacts'), 'earlier later', 'both transactions are there');

$node->safe_psql('postgres', join('', map { "CREATE TABLE t$_ (a int PRIMARY KEY);\n" } 1 .. $TABLES));
{
	local $judge->{orphaned} = 1;
	tolerated(sub { orphan_at('BEGIN', 'ROLLBACK') }, 'AbortTransaction while in ABORT state', 'a rollback without a postmaster');
	tolerated(sub { orphan_at('BEGIN; SAVEPOINT a', 'ROLLBACK TO a; COMMIT') }, 'AbortSubTransaction while in ABORT state', 'a rollback to a savepoint without a postmaster');
	tolerated(sub { orphan_at('BEGIN', 'COMMIT') }, 'AbortTransaction while in COMMIT state', 'a commit without a postmaster');
	tolerated(\&orphan_leader, 'postmaster exited during a parallel transaction', 'a parallel query without a postmaster');
}

foreach my $wrong ('buffer refcount leak: [012]', 'relcache reference leak: relation "t" not closed', 'mtpower hazard pointer of index 7 was not given back',
	'AbortTransaction while in ABORT state', 'page is not marked all-visible but visibility map bit is set in relation "t" page 0', 'removing corrupt two-phase state')
{
	$node->safe_psql('postgres', "DO \$\$ BEGIN RAISE WARNING '$wrong'; END \$\$");
	like(MtpJudge::new_complaints($judge, $node), qr/WARNING:  \Q$wrong\E$/m, "$wrong: a complaint");
}

$node->stop;
done_testing();
