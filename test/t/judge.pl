# The judge: clients load, change, roll back, vacuum and checkpoint at random; the whole server is killed with kill -9 at a
# random moment, recovers, and everything acknowledged must be there.
#
# ROUNDS (3), SEED, CLIENTS (4), JUDGE_SECONDS the longest time of a round's load (4).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpJudge;

my $rounds = $ENV{ROUNDS} || 3;
my $longest = $ENV{JUDGE_SECONDS} || 4;
my $seed = $ENV{SEED} || time;
srand($seed);
note "seed $seed";

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum_naptime = 1s
max_connections = 20
max_wal_size = 64MB
});
$node->start;
$node->safe_psql('postgres', MtpJudge::schema());
my $judge = MtpJudge->new(clients => $ENV{CLIENTS} || 4);
$judge->on($node);

foreach my $round (1 .. $rounds)
{
	# Every round another server: much or little memory, workers or none, with fsync or without.
	my @settings = (
		'shared_buffers = ' . (qw(2MB 16MB 128MB))[ rand(3) ],
		'fsync = ' . ($round % 2 ? 'on' : 'off'),
		"wal_consistency_checking = '" . ($round % 3 == 0 ? 'mtpower' : '') . "'",
		'mtpower.batching = ' . (rand(8) < 1 ? 'off' : 'on'),
		'mtpower.batch_min_rows = ' . (1, 20, 500)[ rand(3) ],
		'mtpower.batch_size = ' . (qw(64kB 1MB 16MB))[ rand(3) ],
		'mtpower.workers = ' . int(rand(3)));
	$node->append_conf('postgresql.conf', join("\n", @settings, ''));
	note "round $round: " . join(', ', @settings);
	$node->restart;

	$judge->start_clients;
	sleep(0.5 + rand($longest - 0.5));
	my $killed = $judge->kill_server($node);
	cmp_ok($killed, '>', 3, "round $round: the server was killed");
	$judge->wait_for_clients;
	$node->start;
	$judge->judge($node, "round $round");
}
cmp_ok($judge->{under_way}, '>', $rounds / 2, 'servers died in the middle of operations');
$node->stop;
done_testing();
