# What the judge takes for a complaint in a server's log: not what core warns of when processes are signaled and servers crash at certain moments,
# which are met here for sure; everything else.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpJudge;

my $judge = {};
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum_naptime = 1s\nmax_prepared_transactions = 10\n");
$node->start;
my $control = $node->data_dir . '/global/pg_control';

# tolerated DO, LIKE, WHAT: the server warns so, and the judge does not mind.
sub tolerated
{
	my ($do, $like, $what) = @_;
	my $from = -s $node->logfile;
	$do->();
	my $log = slurp_file($node->logfile, $from);
	like($log, qr/WARNING:  $like/, "$what: the server warns");
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

foreach my $wrong ('buffer refcount leak: [012]', 'relcache reference leak: relation "t" not closed', 'mtpower slot of index 7 was not given back',
	'page is not marked all-visible but visibility map bit is set in relation "t" page 0', 'removing corrupt two-phase state')
{
	$node->safe_psql('postgres', "DO \$\$ BEGIN RAISE WARNING '$wrong'; END \$\$");
	like(MtpJudge::new_complaints($judge, $node), qr/WARNING:  \Q$wrong\E$/m, "$wrong: a complaint");
}

$node->stop;
done_testing();
