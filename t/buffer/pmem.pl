# The buffer in a pool file, on tmpfs, and on memory that libpmem takes for persistent: after a
# clean restart its contents are back, without pages that have changed. After a crash it is empty.
use strict;
use warnings;
use MtpPmem;
use MtpSessions qw(kill_a_session);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'mtpower was built without libpmem' if !have_libpmem();

my @modes = home_modes() or plan skip_all => 'there is no tmpfs to write to';
foreach my $mode (@modes)
{
	my ($what, $dir, $env) = @$mode;
	local %ENV = (%ENV, %$env);
	my $file = "$dir/$$.frames";
	my $node = home_server("pmem_$$" . ($what =~ s/\W//gr), $file);
	my $sql = sub { return $node->safe_psql('postgres', $_[0]); };

	my $in = $what =~ /forced/ ? qr/frames live in "\Q$file\E", 4 MB, persistent memory\n/ : qr/frames live in "\Q$file\E", 4 MB\n/;
	$node->start;
	my $log = said($node);
	like($log, $in, "$what: the file is used");
	like($log, qr/file "\Q$file\E" has no frames: it is new/, "$what: it has nothing");
	unlike($log, qr/WARNING/, "$what: nothing is warned of");
	loaded($node);
	is($sql->('SELECT wrong()'), '', "$what: right answers");

	# A clean restart
	my $ratio = $sql->('SELECT probes(10000, 2)');
	my $content = content($node);
	my $n = () = $content =~ /,/g;
	cmp_ok($n, '>', 50, "$what: frames before the restart");
	like($content, qr/ $_(,|$)/, "$what: of $_ pages") foreach 'index', 'table';
	$node->restart;
	$log = said($node);
	my ($left) = $log =~ /left (\d+) frames in file/;
	my ($taken, $of) = $log =~ /took (\d+) of (\d+) frames over/;
	is($left, $n + 1, "$what: all are sealed");
	is("$taken of $of", "$left of $left", "$what: all are taken over");
	is(content($node), $content, "$what: the same pages");
	is($sql->('SELECT sum(taken_over) FROM mtpower.stat_buffer'), $taken, "$what: and counted once");
	cmp_ok($sql->('SELECT probes(5000, 3)'), '>=', 0.95 * $ratio, "$what: in the first 10,000 probes as many hits as before ($ratio %)");
	is($sql->('SELECT wrong()'), '', "$what: right answers after a restart");

	# Changed pages have lost their frames, and don't come back by what the file has of them.
	for my $round (1 .. 3)
	{
		$sql->(q{DELETE FROM t WHERE a % 3 = 0; INSERT INTO t SELECT g, md5(g::text), 8 FROM generate_series(3, 20000, 3) g; SELECT probes(1000, 4)});
		$sql->('VACUUM t') if $round > 1;
		$sql->('REINDEX INDEX t_h') if $round > 2;
		$node->restart;
		like(said($node), qr/took [1-9]\d* of/, "$what: taken over, round $round");
		is($sql->('SELECT wrong()'), '', "$what: right answers after changes and a restart, round $round");
	}
	$node->restart;
	$node->restart;
	like(said($node), qr/took [1-9]\d* of/, "$what: taken over by two servers in a row");
	is($sql->('SELECT wrong()'), '', "$what: right answers after restarts without a change");

	# Files that are gone, or made anew
	$sql->('DROP INDEX t_h; CREATE TABLE gone AS SELECT 1; TRUNCATE gone; CREATE INDEX t_h ON t USING mtpower_hash (b)');
	$node->restart;
	is($sql->('SELECT wrong() || orphans()'), '0', "$what: no frames of files that have gone");

	# Crashes
	$sql->('SELECT probes(1000, 5)');
	said($node);
	$node->stop('immediate');
	$node->start;
	$log = said($node);
	like($log, qr/file "\Q$file\E" has no frames: .*the server before did not end properly/, "$what: nothing after a crash");
	unlike($log, qr/frames in file/, "$what: and nothing was sealed");
	is($sql->(q{SELECT frames_of('t_a')}), '0', "$what: no frames after a crash");
	is($sql->('SELECT wrong()'), '', "$what: right answers after a crash");

	$node->append_conf('postgresql.conf', 'restart_after_crash = on');
	$node->reload;
	$sql->('SELECT probes(1000, 5)');
	kill_a_session($node);
	$node->poll_query_until('postgres', q{SELECT frames_of('t_a') = 0}) or die;
	like(said($node), qr/file "\Q$file\E" is emptied: a process of the server has crashed/, "$what: emptied when a process was killed");
	is($sql->('SELECT wrong()'), '', "$what: right answers then");
	$sql->('SELECT probes(1000, 5)');
	$node->restart;
	like(said($node), qr/took [1-9]\d* of/, "$what: taken over after a clean restart behind that");
	is($sql->('SELECT wrong()'), '', "$what: right answers");

	# kill -9 of the postmaster
	$node->kill9;
	for (1 .. 600)
	{
		# Its children may be there for a moment.
		last if $node->start(fail_ok => 1);
		$node->{_pid} = undef;
		select(undef, undef, undef, 0.1);
	}
	like(said($node), qr/has no frames: .*the server before did not end properly/, "$what: nothing after the postmaster was killed");
	is($sql->('SELECT wrong()'), '', "$what: right answers");
	$node->stop;
	unlike(slurp_file($node->logfile), qr/TRAP|PANIC/, "$what: the log is clean");
	unlink($file);
}

done_testing();
