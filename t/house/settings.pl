# Settings of the server: the default number of workers, changes by reload, no places for workers,
# little memory, wrong values.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
max_wal_size = 4GB
});

# The smaller of cores - 1 and half of max_worker_processes, at least 1; a setting in a file, read later, is another matter.
my $cores = `getconf _NPROCESSORS_ONLN` + 0;
sub min { return $_[0] < $_[1] ? $_[0] : $_[1] }
sub default_for
{
	my $n = min($cores - 1, int($_[0] / 2));
	return $n < 1 ? 1 : min($n, 64);
}
for my $processes (0, 1, 2, 3, 32, 200)
{
	$node->append_conf('postgresql.conf', "max_worker_processes = $processes");
	$node->start;
	is($node->safe_psql('postgres', 'SHOW mtpower.workers'), default_for($processes),
		"default of mtpower.workers with max_worker_processes = $processes and $cores cores");
	$node->stop;
}

$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE TABLE t (a int) USING mtpower;
	CREATE INDEX ta ON t USING mtpower_blink (a);
	CREATE INDEX tb ON t USING mtpower_blink (a DESC)});
my $load = 'INSERT INTO t SELECT hashint4(i) FROM generate_series(1, 200000) i';
my $running = 'SELECT count(*) FROM mtpower.stat_workers';

sub reload_workers
{
	my ($n) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET mtpower.workers = $n");
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT setting = '$n' FROM pg_settings WHERE name = 'mtpower.workers'"),
		"reload with mtpower.workers = $n");
}

# Three loads that take longer than the test bring up so many workers as there may be.  (Idle workers
# would leave after some seconds anyway.)
my @loads;
sub start_loads
{
	@loads = map { IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
		q{SET mtpower.batch_size = '4MB'}, '-c', 'INSERT INTO t SELECT hashint4(generate_series(1, 100000000))' ],
		'<', '/dev/null', '>', '/dev/null', '2>', '/dev/null') } 1 .. 3;
}

reload_workers(3);
start_loads();
ok($node->poll_query_until('postgres', "SELECT count(*) = 3 FROM mtpower.stat_workers"), 'three workers come');
reload_workers(1);
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM mtpower.stat_workers"), 'two of them leave');
my $no_more = 1;
for (1 .. 10)
{
	$no_more = 0 if $node->safe_psql('postgres', "SELECT pg_sleep(0.1); $running") > 1;
}
ok($no_more, 'and do not come back');
reload_workers(0);
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM mtpower.stat_workers"), 'the last one leaves');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%100000000%' AND pid <> pg_backend_pid()}),
	'3', 'the loads go on');
reload_workers(2);
ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM mtpower.stat_workers"), 'two come again');
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%100000000%' AND pid <> pg_backend_pid()});
$_->finish foreach @loads;
ok($node->poll_query_until('postgres', 'SELECT held_bytes = 0 FROM mtpower.stat_memory'), 'no memory is held');

# None to be had: no error, counted, logged once per load with a hint.
$node->append_conf('postgresql.conf', 'max_worker_processes = 2');
$node->restart;
$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches')});	# since 18 they survive a restart
my $offset = -s $node->logfile;
$node->safe_psql('postgres', $load);
my $log = slurp_file($node->logfile, $offset);
my $lines = () = $log =~ /LOG:  mtpower could not start a batch worker/g;
is($lines, 1, 'a load without a worker is logged, once');
like($log, qr/DETAIL:  The loading session applies its index entries itself\.\n.*HINT:  You might need to increase max_worker_processes\./,
	'with detail and hint');
cmp_ok($node->safe_psql('postgres', 'SELECT no_worker FROM mtpower.stat_memory'), '>', 0, 'and counted');
is($node->safe_psql('postgres', 'SELECT sum(entries_workers), sum(entries_backends) FROM mtpower.stat_batches'), '0|399488',
	'the session did it all');
$node->safe_psql('postgres', $load);
$lines = () = slurp_file($node->logfile, $offset) =~ /LOG:  mtpower could not start a batch worker/g;
is($lines, 2, 'another load, another line');
$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('workers')});
is($node->safe_psql('postgres', 'SELECT no_worker FROM mtpower.stat_memory'), '0', 'the count is reset');

# The least memory there can be.
$node->append_conf('postgresql.conf', "mtpower.batch_memory = '1MB'\nmax_worker_processes = 8");
$node->restart;
is($node->safe_psql('postgres', 'SELECT total_bytes, held_bytes FROM mtpower.stat_memory'), '1048576|0', 'batch_memory after a restart');
$node->safe_psql('postgres', "TRUNCATE t; $load; $load");
is($node->safe_psql('postgres', q{
	SELECT held_bytes, (SELECT count(*) FROM t), (SELECT count(*) FROM (SELECT mtpower.verify_index(i, true) FROM unnest('{ta,tb}'::regclass[]) i) x)
	FROM mtpower.stat_memory}), '0|400000|2', 'loads in little memory');

# Wrong values in the file: said in the log, and the default stands.
$offset = -s $node->logfile;
$node->append_conf('postgresql.conf', "mtpower.batch_memory = '12kB'\nmtpower.batch_size = 'large'\nmtpower.wrokers = 1");
$node->restart;
$log = slurp_file($node->logfile, $offset);
like($log, qr/12 kB is outside the valid range for parameter "mtpower.batch_memory" \(1024(?: kB)? \.\. 67108864(?: kB)?\)/, 'too little memory');
like($log, qr/invalid value for parameter "mtpower.batch_size": "large"/, 'a word for a number');
like($log, qr/invalid configuration parameter name "mtpower.wrokers"/, 'a name misspelt');
is($node->safe_psql('postgres', q{SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings WHERE name IN ('mtpower.batch_memory', 'mtpower.batch_size')}),
	'65536 16384', 'the defaults stand');
$node->stop;
done_testing();
