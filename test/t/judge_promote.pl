# The judge on a standby: the primary is killed with kill -9 at a random moment, its synchronous standby promoted, and everything
# acknowledged must be there.  The standby replays beside readers, and its pages are compared with the primary's
# (wal_consistency_checking).
#
# ROUNDS (1), SEED, CLIENTS (3), JUDGE_SECONDS the longest time of a round's load (4).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpJudge;

my $rounds = $ENV{ROUNDS} || 1;
my $longest = $ENV{JUDGE_SECONDS} || 4;
my $seed = $ENV{SEED} || time;
srand($seed);
note "seed $seed";

my $primary = PostgreSQL::Test::Cluster->new('server_0');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
shared_buffers = 32MB
wal_consistency_checking = 'mtpower'
autovacuum_naptime = 1s
max_connections = 20
fsync = off
mtpower.batch_min_rows = 20
});
$primary->start;
$primary->safe_psql('postgres', MtpJudge::schema());
my $judge = MtpJudge->new(clients => $ENV{CLIENTS} || 3);

foreach my $round (1 .. $rounds)
{
	$primary->backup("backup_$round");
	my $standby = PostgreSQL::Test::Cluster->new("server_$round");
	$standby->init_from_backup($primary, "backup_$round", has_streaming => 1);
	$standby->start;
	$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'\n");
	$primary->reload;
	$primary->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'})
	  or die 'the standby is not synchronous';

	$judge->on($primary);
	$judge->start_clients;
	my $end = Time::HiRes::time() + 0.5 + rand($longest - 0.5);
	my @wrong;
	while (Time::HiRes::time() < $end)
	{
		# Readers on the standby, beside its replay.
		foreach my $index (qw(fed_op kept_txt fed_ts))
		{
			my ($rc, $out, $err) = $standby->psql('postgres', "SELECT mtpower.verify_index('$index', true)");
			push @wrong, $err if $rc != 0 && $err !~ /conflict with recovery/;
		}
		sleep(0.05);
	}
	is(join("\n", @wrong), '', "round $round: indexes on the standby are sound beside replay");
	cmp_ok($judge->kill_server($primary), '>', 3, "round $round: the primary was killed");
	$judge->wait_for_clients;

	$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
	$standby->promote;
	$judge->judge($standby, "round $round, promoted");
	unlike(slurp_file($standby->logfile), qr/inconsistent page found|PANIC|TRAP/, "round $round: the standby's log is clean");
	$primary = $standby;
}
$primary->stop;
done_testing();
