# The hot list when something fails: no room on the disk, no process for a loader, a damaged page,
# loaders and keepers that are ended and killed; and pg_rewind, which brings another server's
# list.
use strict;
use warnings;
use MtpFaults;
use MtpPmem;
use MtpSessions qw(wait_for_restart);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.hot_list = on
mtpower.hot_list_interval = 0
mtpower.buffer_size = 8MB
mtpower.batch_min_rows = 0
mtpower.workers = 0
max_prepared_transactions = 5
wal_log_hints = on
wal_keep_size = 1GB
autovacuum = off
restart_after_crash = on
});
my $file = $node->data_dir . '/mtpower.hot';
my $faults = MtpFaults->new($node, 't');
sub sql { my (@sql) = @_; return $node->safe_psql('postgres', join(';', @sql)); }

# Waits until the server says this of the list; what it has said since the last call.
sub heard
{
	my ($server, $what) = @_;
	my $log = '';
	for (1 .. 600)
	{
		$log .= said($server);
		return $log if $log =~ $what;
		select(undef, undef, undef, 0.1);
	}
	fail("the log says $what") or diag($log);
	return $log;
}
my $there = qr/pages of the hot list in the buffer: (\d+) of (\d+)/;
sub process { my ($what) = @_; return $faults->wait_for("SELECT pid FROM pg_stat_activity WHERE backend_type = 'mtpower hot list $what'", "a $what"); }
sub restarted
{
	said($node);
	$node->restart;
	my $log = heard($node, $there) =~ s/.*starting PostgreSQL//sr;
	my @n = $log =~ $there;
	return (@n[ 0, 1 ], $log);
}

$node->start;
loaded($node);
# A table that keeps its loader waiting for as long as the test likes
sub lock_table { sql(q{BEGIN; LOCK TABLE t; PREPARE TRANSACTION 'locked'}); return; }
sub unlock { sql(q{ROLLBACK PREPARED 'locked'}); return; }
my ($loaded, $of, $log) = restarted();
cmp_ok($loaded, '>', 100, 'a server with pages in its list');
is($loaded, $of, 'all of which are loaded');
my $all = content($node);
sub all_there
{
	my ($what) = @_;
	is(content($node), $all, "$what: all pages are there");
	is(sql('SELECT wrong()'), '', "$what: right answers");
	return;
}

# ---------- no room on the disk ----------

my $was = slurp_file($file);
symlink('/dev/full', "$file.tmp") or die "$!";
sql('ALTER SYSTEM SET mtpower.hot_list_interval = 1', 'SELECT pg_reload_conf()');
like(heard($node, qr/"mtpower.hot.tmp"/), qr/LOG:  could not write file "mtpower.hot.tmp": No space left on device/, 'a list that finds no room is told of in the log');
for (1 .. 600) { last if slurp_file($file) ne $was; select(undef, undef, undef, 0.1); }
ok(slurp_file($file) ne $was, '... until there is room');
ok(!-l "$file.tmp", '... and nothing of it stays');
sql('ALTER SYSTEM RESET mtpower.hot_list_interval', 'SELECT pg_reload_conf()');
($loaded, $of, $log) = restarted();
is($loaded, $of, '... and the next start has all its pages');
unlike($log, qr/ERROR|WARNING|FATAL/, '... without a word');
$was = slurp_file($file);
symlink('/dev/full', "$file.tmp") or die "$!";
$node->stop;
ok(slurp_file($file) eq $was, 'so it is at the end of a server');
$node->start;
heard($node, $there);
all_there('without room');

# ---------- no process ----------

# One for the launcher of logical replication, one for the keeper.
$node->append_conf('postgresql.conf', 'max_worker_processes = 2');
($loaded, $of, $log) = restarted();
is($loaded, 0, 'where there is no process nothing is loaded');
like($log, qr/LOG:  mtpower could not start a process that loads the hot list\n.*HINT:  You might need to increase max_worker_processes\./, '... which the log says');
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
restarted();
loaded_again();

# The list has next to nothing now, since nobody has read a page in between: they are loaded by command.
sub loaded_again
{
	sql($_) foreach map { "SELECT mtpower.warm('$_')" } qw(t_a t_h t);
	$all = content($node);
	restarted();
	all_there('loaded again');
	return;
}

# ---------- a damaged page ----------

my $bs = sql('SHOW block_size');
my $path = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath('t_a')});
my ($a, $h) = map { sql("SELECT count(*) FROM mtpower.stat_get_content() WHERE relation = '$_'::regclass") } qw(t_a t_h);
$node->stop;
open(my $index, '+<:raw', $path) or die "$path: $!";
my $right;
my $block = (-s $path) / $bs - 2;
seek($index, $block * $bs, 0);
read($index, $right, $bs) == $bs or die "$path: $!";
sub write_page { my ($bytes) = @_; seek($index, $block * $bs, 0); print $index $bytes; $index->flush; return; }
write_page("\x07" x $bs);
said($node);
$node->start;
$log = heard($node, $there);
like($log, qr/ERROR:  invalid page in block $block of relation/, 'a damaged page is told of');
is(() = $log =~ /ERROR/g, 1, '... once');
is(sql(q{SELECT count(*) FROM mtpower.stat_get_content() WHERE relation = 't_h'::regclass}), $h, '... pages of other files are loaded');
cmp_ok(sql(q{SELECT count(*) FROM mtpower.stat_get_content() WHERE relation = 't_a'::regclass}), '<', $a, '... not all of its own');
my ($rc, $out, $err) = $node->psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM (SELECT a FROM t ORDER BY a) q');
like($err, qr/invalid page in block $block of relation/, '... whoever reads it is told as well');
$node->stop;
write_page($right);
close($index);
$node->start;
heard($node, $there);
loaded_again();

# ---------- loaders and keepers that end ----------

lock_table();
$node->restart;
my $loader = process('loader');
said($node);
sql("SELECT pg_terminate_backend($loader)");
$log = heard($node, $there);
like($log, qr/FATAL:  terminating background worker "mtpower hot list loader" due to administrator command/, 'a loader is ended');
ok($log =~ $there && $1 < $2, '... and what it has not loaded is not');
unlock();
is(sql('SELECT wrong()'), '', '... right answers');
loaded_again();

lock_table();
$node->restart;
$loader = process('loader');
my $keeper = process('keeper');
# It would not wait for the table as long as a busy machine may take for what follows.
kill 'STOP', $loader;
sql("SELECT pg_terminate_backend($keeper)");
$faults->wait_for("SELECT pid FROM pg_stat_activity WHERE backend_type = 'mtpower hot list keeper' AND pid <> $keeper", 'another keeper');
select(undef, undef, undef, 0.5);
is(sql(q{SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE backend_type = 'mtpower hot list loader'}), $loader, 'a keeper that has ended has one after it, which waits for its loader');
said($node);
unlock();
kill 'CONT', $loader;
heard($node, $there);
all_there('with another keeper');

foreach my $which (qw(loader keeper))
{
	lock_table();
	$node->restart;
	process('loader');
	my $pid = process($which);
	said($node);
	kill 'KILL', $pid;
	$log = heard($node, qr/all server processes terminated; reinitializing/);
	wait_for_restart($node);
	process('loader');
	unlock();
	heard($node, $there);
	all_there("a $which killed");
}

# ---------- pg_rewind ----------

# The list of the server that it goes by comes along, and names the same pages in what it has become.
$node->backup('copy');
my $other = PostgreSQL::Test::Cluster->new('other');
$other->init_from_backup($node, 'copy', has_streaming => 1);
$other->start;
$node->wait_for_catchup($other);
$other->promote;
heard($other, $there);
foreach my $server ($node, $other)
{
	my $n = $server->name eq 'other' ? 3000 : 700;
	$server->safe_psql('postgres', $_) foreach "INSERT INTO t SELECT g, md5(g::text), g FROM generate_series(100001, 100000 + $n) g", 'VACUUM t', q{SELECT mtpower.warm('t_a'), mtpower.warm('t')}, 'CHECKPOINT';
}
$all = content($other);
isnt(content($node), $all, 'two servers have gone their own ways');
$_->stop foreach $other, $node;
my $conf = slurp_file($node->data_dir . '/postgresql.conf');
command_ok([ 'pg_rewind', '--no-sync', '--target-pgdata', $node->data_dir, '--source-pgdata', $other->data_dir ], 'pg_rewind');
unlink $node->data_dir . '/postgresql.conf';
append_to_file($node->data_dir . '/postgresql.conf', $conf);
ok(slurp_file($file) eq slurp_file($other->data_dir . '/mtpower.hot'), '... brings the list');
said($node);
$node->start;
like(heard($node, $there), qr/: (\d+) of \g1\b/, '... all its pages are loaded');
all_there('rewound');
is(sql('SELECT count(*) FROM t WHERE a > 100000'), 3000, '... with the other one\'s rows');
$node->stop;
unlike(slurp_file($_->logfile), qr/TRAP/, 'the log is clean') foreach $node, $other;
done_testing();
