# The gdb helpers (dev/gdb) print pages, frames and batches of a server as they are.
use strict;
use warnings;
use FindBin;
use IPC::Run;
use MtpSessions;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'gdb with python is not installed'
  unless `gdb -batch -nx -ex 'python print(6 * 7)' 2>&1` =~ /^42$/m;
my $script = $FindBin::Bin =~ s{/t/house.*}{}r . '/dev/gdb/mtpower.py';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
mtpower.workers = 0
mtpower.batch_min_rows = 0
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE TABLE t (a int, b int) USING mtpower;
	CREATE INDEX t_a ON t USING mtpower_blink (a);
	CREATE INDEX t_b ON t USING mtpower_hash (b);
	INSERT INTO t SELECT g, g FROM generate_series(1, 1000) g;
	SELECT mtpower.warm('t_a'), mtpower.warm('t_b');
});

# A load that waits in the middle of its statement: its entries are queued.
my $holder = start_psql($node, 'postgres', 'SELECT pg_advisory_lock(1)', 'SELECT pg_sleep(600)');
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory'})
  or die 'no lock';
my $load = start_psql($node, 'postgres', q{
	INSERT INTO t SELECT g, CASE WHEN g = 5000 THEN (SELECT 1 FROM pg_advisory_lock(1)) ELSE g END
	FROM generate_series(1001, 5000) g});
$node->poll_query_until('postgres',
	q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted})
  or die 'the load does not wait';
my $pid = $node->safe_psql('postgres',
	q{SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});

# gdb on that process
sub gdb
{
	my ($out, $err);
	IPC::Run::run([ 'gdb', '-batch', '-nx', '-iex', 'set debuginfod enabled off', '-p', $pid,
		'-ex', "source $script", map { ('-ex', $_) } @_ ], '<', '/dev/null', '>', \$out, '2>', \$err);
	return ($out, $err);
}
my ($frames, $err) = gdb('mtp-frames');

SKIP:
{
	skip 'gdb may not look at processes here', 5 if $err =~ /ptrace: /;
	foreach my $index ('t_a', 't_b')
	{
		my $file = $node->safe_psql('postgres', "SELECT pg_relation_filenode('$index')");
		my ($frame, $block) = $frames =~ /^frame (\d+): index of .* file $file, block (\d+);/m;
		ok(defined $frame, "$index: a page has a frame") or diag("$frames\n$err");
		$frame //= -1;
		my ($out, $said) = gdb("mtp-frame $frame");
		my $items = $node->safe_psql('postgres',
			"SELECT items FROM mtpower.page_info('$index', @{[$block // 0]})");
		my %rows = map { ($_ => 1) } $out =~ /^(?:item|entry) [\d.]+: .*(\(\d+,\d+\))/mg;
		is(scalar(keys %rows), $items, "$index: the page's entries are printed, each of another row")
		  or diag("$out\n$said");
	}
	my ($out, $said) = gdb('mtp-batches');
	my $queued = () = $out =~ /^  phase: MTP_FILLING$/mg;
	is($queued, 2, 'a batch for each index, which its owner fills') or diag("$out\n$said");
}
$node->safe_psql('postgres',
	q{SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'});
finish($_) foreach $holder, $load;
$node->stop;
done_testing();
