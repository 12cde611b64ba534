# The judge. Clients load, change, roll back, prepare and truncate at random, beside DDL and
# maintenance, while their processes are cancelled, terminated, stopped and killed. A round ends
# mostly with kill -9 of the whole server. After recovery everything acknowledged must be there
# and nothing that was rolled back; each index, read alone in every way, must agree with its
# table; verify_index and the log must be clean; and a streaming standby must have the same. Now
# and then, and at the end, all WAL is replayed onto an older base backup, since kill -9 leaves
# the operating system's cache alone.
#
# It prints the seed and what happened. ROUNDS that end with kill -9 (2), or MINUTES; SEED,
# CLIENTS (4), JUDGE_SECONDS the longest time of a round's load (4).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use MtpJudge;

my $rounds = $ENV{MINUTES} ? 0 : $ENV{ROUNDS} || 2;
my $end = time + 60 * ($ENV{MINUTES} || 0);
my $judge = MtpJudge->new(seed => $ENV{SEED} || int(time), clients => $ENV{CLIENTS} || 4, seconds => $ENV{JUDGE_SECONDS} || 4);
my $node = $judge->make_primary('main');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, $judge->take_backup, has_streaming => 1, has_restoring => 1);
$standby->append_conf('postgresql.conf', $judge->home_of($standby));
$standby->start;

my $since = 0;
while ($rounds ? ($judge->{counts}{kills} // 0) < $rounds : time < $end)
{
	$node->append_conf('postgresql.conf', $judge->settings);
	$node->restart;
	my $what = "round $judge->{round}";
	$judge->play;
	$judge->judge($node, $what);
	if (rand(3) < 1)
	{
		MtpJudgeDisturb::kill_server($standby);
		$standby->start;
	}
	$judge->judge_replica($standby, "$what, standby");
	if (++$since == 10)
	{
		$judge->judge_backup;
		$judge->take_backup;
		$since = 0;
	}
	last if !Test::More->builder->is_passing;
}
$judge->judge_backup if $since > 0;
cmp_ok($judge->{counts}{'under way'}, '>', 0, 'servers died in the middle of operations');
my @report = $judge->report;
$ENV{ROUNDS} || $ENV{MINUTES} ? diag(join("\n", "seed $judge->{seed}", @report)) : note(join("\n", @report));
$standby->stop;
$node->stop;
done_testing();
