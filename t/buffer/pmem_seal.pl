# A server with a pool file ends with no time at all, with too little time, or is killed while it
# ends. Frames that were sealed before come back, the warmest first; nothing else does.
use strict;
use warnings;
use MtpFaults;
use MtpPmem;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'mtpower was built without libpmem' if !have_libpmem();
my $dir = home_dir(1) or plan skip_all => 'there is no tmpfs to write to';
my $file = "$dir/$$.frames";
my $node = home_server('main', $file, "mtpower.pmem_seal_after = 1d\n");
sub sql { return $node->safe_psql('postgres', $_[0]); }
sub set { $node->append_conf('postgresql.conf', "$_[0]\n"); $node->reload; return; }

my $control = "$dir/slow";
local $ENV{LD_PRELOAD} = MtpFaults::compile('slow_pmem') . '/slow_pmem.so';
local $ENV{MTP_SLOW_PMEM} = $control;
sub slow { my (@numbers) = @_; unlink $control; append_to_file($control, "@numbers\n") if @numbers; return; }

# restarted: what is left and why, what is taken over, and the answers
sub restarted
{
	my ($what, $left, $taken) = @_;
	$node->restart;
	my $log = said($node);
	like($log, $left, "$what: left behind");
	like($log, $taken, "$what: taken over");
	is(sql('SELECT wrong()'), '', "$what: right answers");
	sql('SELECT probes(3000, 7)');
	return $log;
}

foreach my $forced (0, 1)
{
	my $as = $forced ? ', as persistent memory' : '';
	if ($forced)
	{
		$node->stop;
		$ENV{PMEM_IS_PMEM_FORCE} = 1;
		unlink $file;
	}
	$node->start;
	$forced ? sql('SELECT probes(3000, 7)') : loaded($node);
	set('mtpower.pmem_seal_timeout = 0');
	restarted("no time$as", qr/left 0 frames in file .*\n.*DETAIL:  There was no time for [1-9]\d+/, qr/took 0 of 0 frames/);

	# Some time, and each frame takes 20 ms: the warmest are there.  Directories are made anew.
	set('mtpower.pmem_seal_timeout = 400ms');
	slow(20000, 0, 0);
	sql('SELECT probes(3000, 7)');
	my @warmest = split(/,/, sql(q{SELECT string_agg(relation::oid || ' ' || block || '=' || heat, ',' ORDER BY heat DESC) FROM mtpower.stat_get_content() WHERE kind <> 'directory'}));
	$node->stop;
	slow();
	$node->start;
	my $log = said($node);
	my ($left, $late) = $log =~ /left (\d+) frames in file .*\n.*There was no time for (\d+)/;
	is($left + $late, @warmest, "little time$as: all were looked at ($left, $late)");
	cmp_ok($left, '>=', 1, "little time$as: some are left");
	cmp_ok($left, '<=', 25, "little time$as: no more than it lasts");
	like($log, qr/took $left of $left frames/, "little time$as: these are taken over");
	# Many are as warm as others, in any order.
	my %heat = map { split /=/ } @warmest;
	my $enough = (split /=/, $warmest[2 * $left + 20])[1];
	my @late = grep { $heat{$_} < $enough } split(/,/, sql(q{SELECT string_agg(relation::oid || ' ' || block, ',') FROM mtpower.stat_get_content() WHERE kind <> 'directory'}));
	cmp_ok(scalar @late, '<=', 3, "little time$as: the warmest");
	is(sql('SELECT wrong()'), '', "little time$as: right answers");

	# Killed in the middle
	set('mtpower.pmem_seal_timeout = 10s');
	foreach my $kill ([ 1, 0 ], [ 2, 0 ], [ 40, 0 ], [ 0, 1 ])
	{
		my $what = $kill->[1] ? "killed at the marker$as" : "killed at header $kill->[0]$as";
		sql('SELECT probes(3000, 7)');
		slow(0, @$kill);
		$node->stop('fast', fail_ok => 1);
		slow();
		$node->start;
		$log = said($node);
		unlike($log, qr/left \d+ frames/, "$what: it was");
		like($log, qr/has no frames: /, "$what: nothing is found");
		is(sql('SELECT frames_of(\'t_a\')'), '0', "$what: no frames");
		is(sql('SELECT wrong()'), '', "$what: right answers");
	}
	sql('SELECT probes(3000, 7)');
	restarted("in time$as", qr/left ([1-9]\d*) frames in file [^\n]*\n(?!.*There was no time)/, qr/took ([1-9]\d*) of \1 frames over/);

	# What the sealer has done is there without any time at the end; what has changed since is not.
	set('mtpower.pmem_seal_timeout = 0');
	set('mtpower.pmem_seal_after = 1s');
	my $pid = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'mtpower sealer'});
	cmp_ok($pid, '>', 0, "a worker$as");
	# What was taken over counts as sealed; new frames are for the worker.
	sql(q{REINDEX INDEX t_a; SELECT probes(3000, 8)});
	$node->poll_query_until('postgres', q{SELECT sum(sealed) >= frames_of('t_a') AND frames_of('t_a') > 20 FROM mtpower.stat_buffer}) or die;
	restarted("sealed before$as", qr/left [1-9]\d+ frames/, qr/took ([1-9]\d*) of \1 frames over/);
	$node->poll_query_until('postgres', q{SELECT sum(sealed + taken_over) >= (SELECT count(*) FROM mtpower.stat_get_content() WHERE kind <> 'directory') FROM mtpower.stat_buffer}) or die;
	set('mtpower.pmem_seal_after = 1d');
	sql(q{UPDATE t SET v = v + 1 WHERE a % 100 < 3; DELETE FROM t WHERE a BETWEEN 5000 AND 5500});
	restarted("sealed, and changed since$as", qr/left \d+ frames/, qr/took (\d+) of \1 frames over/);
	restarted("and once more$as", qr/left \d+ frames/, qr/took (\d+) of \1 frames over/);
	$node->poll_query_until('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'mtpower sealer'}) or die;
	set('mtpower.pmem_seal_timeout = 10s');
	set('mtpower.pmem_seal_after = 1d');
}
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC/, 'the log is clean');
unlink($file, $control);
done_testing();
