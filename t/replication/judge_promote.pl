# The judge on a standby: the primary is killed with kill -9 at a random moment, its synchronous
# standby is promoted, and everything acknowledged must be there. The standby replays beside
# readers, and its pages are compared with the primary's (wal_consistency_checking).
#
# ROUNDS: a tenth of it (1), SEED, CLIENTS (3), JUDGE_SECONDS the longest time of a round's load
# (4).
use strict;
use warnings;
use File::Path 'rmtree';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use MtpJudge;

my $rounds = int(($ENV{ROUNDS} || 1) / 10) || 1;
my $judge = MtpJudge->new(seed => $ENV{SEED} || int(time), clients => $ENV{CLIENTS} || 3, seconds => $ENV{JUDGE_SECONDS} || 4, disturb => 0);
my $primary = $judge->make_primary('server_0');

foreach my $round (1 .. $rounds)
{
	$primary->append_conf('postgresql.conf', $judge->settings . "wal_consistency_checking = 'all, mtpower'\n");
	$primary->restart;
	my $standby = PostgreSQL::Test::Cluster->new("server_$round");
	$standby->init_from_backup($primary, $judge->take_backup, has_streaming => 1);
	$standby->append_conf('postgresql.conf', "archive_command = 'true'\n" . $judge->home_of($standby));
	$standby->start;
	$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'\n");
	$primary->reload;
	$primary->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'})
	  or die 'the standby is not synchronous';

	my $end = time + 0.5 + rand($judge->{seconds} - 0.5);
	$judge->start_clients;
	my @wrong;
	while (time < $end)
	{
		# Readers on the standby, beside its replay
		foreach my $index (qw(fed_op kept_txt fed_ts counted_htxt))
		{
			my ($rc, $out, $err) = $standby->psql('postgres', "SELECT mtpower.verify_index('$index', true)");
			push @wrong, $err if $rc != 0 && $err !~ /conflict with recovery|could not open relation|relation with OID \d+ does not exist/;
		}
		sleep(0.05);
	}
	is(join("\n", @wrong), '', "round $round: indexes on the standby are sound beside replay");
	cmp_ok(MtpJudgeDisturb::kill_server($primary), '>', 3, "round $round: the primary was killed");
	$judge->{counts}{kills}++;
	$judge->wait_for_clients("round $round");

	$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''\nprimary_conninfo = ''\n");
	$standby->promote;
	$judge->on($standby);
	$judge->judge($standby, "round $round, promoted");
	rmtree($primary->backup_dir);
	$judge->remove($primary);
	$primary = $standby;
}
note join("\n", $judge->report);
$primary->stop;
done_testing();
