# Three servers under Patroni, with synchronous_mode on, and a client that loads and loads: when the
# leader's postmaster is killed, or the leader with its Patroni, a standby is promoted and the loads
# go on there. Each load that was acknowledged is there, no load is there in part, the old leader
# comes back (by pg_rewind if it had WAL that the others have not), and the indexes of all servers
# agree with their tables.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use HTTP::Tiny;
use POSIX qw(_exit);
use Time::HiRes qw(sleep);

my ($etcd, $patroni) = map { my $program = $_; (grep { -x } map { "$_/$program" } split /:/, $ENV{PATH})[0] } qw(etcd patroni);
plan skip_all => 'Patroni and etcd are not installed' if !$etcd || !$patroni;

my $dir = PostgreSQL::Test::Utils::tempdir;
my $sockets = PostgreSQL::Test::Utils::tempdir_short;
chmod 0700, $dir, $sockets;
chomp(my $bindir = qx(pg_config --bindir));
my %pid;		# of what runs here, by name

sub start_program
{
	my ($name, @command) = @_;
	my $pid = fork() // die $!;
	if (!$pid)
	{
		open(STDOUT, '>>', "$PostgreSQL::Test::Utils::log_path/$name.log");
		open(STDERR, '>&', \*STDOUT);
		exec(@command) or _exit(1);
	}
	return $pid{$name} = $pid;
}

sub stop_program
{
	my ($name, $signal) = @_;
	kill $signal, $pid{$name};
	waitpid(delete $pid{$name}, 0);
	return;
}

END
{
	my $status = $?;
	stop_program($_, 'TERM') foreach grep { $_ ne 'etcd' } keys %pid;
	stop_program('etcd', 'TERM') if $pid{etcd};
	$? = $status;
}

sub wait_until
{
	my ($what, $condition) = @_;
	my $end = time() + $PostgreSQL::Test::Utils::timeout_default;
	while (time() < $end)
	{
		my $is = $condition->();
		return $is if $is;
		sleep(0.1);
	}
	die "$what: not so after $PostgreSQL::Test::Utils::timeout_default s";
}

# ---------- the servers ----------

my ($client, $peer) = map { PostgreSQL::Test::Cluster::get_free_port() } 1, 2;
start_program('etcd', $etcd, '--data-dir', "$dir/etcd", '--listen-client-urls', "http://127.0.0.1:$client", '--advertise-client-urls', "http://127.0.0.1:$client",
	'--listen-peer-urls', "http://127.0.0.1:$peer", '--initial-advertise-peer-urls', "http://127.0.0.1:$peer", '--initial-cluster', "default=http://127.0.0.1:$peer");

my @names = qw(a b c);
my (%port, %api);
foreach my $name (@names)
{
	$port{$name} = PostgreSQL::Test::Cluster::get_free_port();
	$api{$name} = PostgreSQL::Test::Cluster::get_free_port();
	append_to_file("$dir/$name.yml", <<"END");
scope: test
name: $name
restapi:
  listen: 127.0.0.1:$api{$name}
  connect_address: 127.0.0.1:$api{$name}
etcd3:
  host: 127.0.0.1:$client
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 5
    synchronous_mode: true
    primary_start_timeout: 0
    postgresql:
      use_pg_rewind: true
      parameters:
        shared_preload_libraries: mtpower
        wal_log_hints: 'on'
        wal_keep_size: 1GB
        max_worker_processes: 12
        mtpower.batch_min_rows: 100
        autovacuum: 'off'
  initdb:
  - encoding: UTF8
  - locale: C
postgresql:
  listen: 127.0.0.1:$port{$name}
  connect_address: 127.0.0.1:$port{$name}
  data_dir: $dir/$name
  bin_dir: $bindir
  pgpass: $dir/$name.pgpass
  use_unix_socket: true
  parameters:
    unix_socket_directories: $sockets
  pg_hba:
  - local all all trust
  - local replication all trust
  - host all all 127.0.0.1/32 scram-sha-256
  - host replication all 127.0.0.1/32 scram-sha-256
  authentication:
    superuser: {username: postgres, password: first}
    replication: {username: replicator, password: second}
    rewind: {username: rewinder, password: third}
END
}

sub start_patroni { my ($name) = @_; return start_program("patroni-$name", $patroni, "$dir/$name.yml"); }

# What a query answers, undef where it fails
sub ask
{
	my ($servers, $sql) = @_;
	my $ports = join(',', map { $port{$_} } @$servers);
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'host=' . join(',', ($sockets) x @$servers) . " port=$ports user=postgres dbname=postgres connect_timeout=5"
		. (@$servers > 1 ? ' target_session_attrs=read-write' : ''), '-c', $sql ], '<', '/dev/null', '>', \$out, '2>', \$err);
	chomp($out);
	return $ok ? $out : undef;
}
sub on_leader { return ask(\@names, $_[0]); }
sub leader { return (grep { (ask([$_], 'SELECT pg_is_in_recovery()') // '') eq 'f' } @names)[0]; }

# Both others stream from the leader, and Patroni would promote one of them: it does so only with a
# standby that it knows to be synchronous.
sub is_whole
{
	my $streaming = on_leader(q{SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'}) // 0;
	my ($any) = values %api;
	my $members = HTTP::Tiny->new->get("http://127.0.0.1:$any/cluster")->{content};
	return $streaming == 2 && $members =~ /"role": "sync_standby"/;
}

start_patroni('a');
wait_until('the first server', \&leader);
start_patroni($_) foreach 'b', 'c';
wait_until('two standbys', \&is_whole);

# ---------- loads ----------

my $rows = 3000;
defined on_leader($_) or die $_ foreach 'CREATE EXTENSION mtpower',
	'CREATE TABLE t (load int, k int, v text, PRIMARY KEY (load, k)) USING mtpower', 'CREATE INDEX ON t USING mtpower_blink (k)',
	'CREATE INDEX ON t USING mtpower_blink (v)', 'CREATE INDEX ON t USING mtpower_hash (v)';

# A client loads until it is ended; it writes down which loads were acknowledged.
my $acknowledged = "$dir/acknowledged";
append_to_file($acknowledged, '');
if (!($pid{loader} = fork() // die $!))
{
	%pid = ();
	my $stop = 0;
	local $SIG{TERM} = sub { $stop = 1 };
	for (my $load = 1; !$stop; $load++)
	{
		my $sql = "COPY t FROM PROGRAM 'seq $rows | sed \"s/.*/$load\\t&\\tv& $load/\"'";
		append_to_file($acknowledged, "$load\n") if defined on_leader($sql);
		sleep(0.1);
	}
	_exit(0);
}
sub loads { return split /\n/, slurp_file($acknowledged); }

sub more_loads
{
	my ($what) = @_;
	my $before = loads();
	wait_until("$what: loads", sub { loads() >= $before + 5 });
	return;
}

# All that was acknowledged is there, and nothing in part.
sub holds
{
	my ($what, $servers) = @_;
	my @loads = loads();
	my %there = map { split /\|/ } split /\n/, ask($servers, 'SELECT load, count(*) FROM t GROUP BY 1');
	my @lost = grep { !$there{$_} } @loads;
	is("@lost", '', "$what: nothing that was acknowledged is lost");
	is(join(' ', grep { $there{$_} != $rows } keys %there), '', "$what: no load is there in part");
	return;
}

more_loads('at first');
foreach my $how ('the postmaster', 'Patroni and the postmaster')
{
	my $old = leader();
	wait_until('a COPY under way', sub { (on_leader(q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY t%' AND state = 'active' AND backend_xid IS NOT NULL}) // 0) > 0 });
	my ($postmaster) = split /\n/, slurp_file("$dir/$old/postmaster.pid");
	stop_program("patroni-$old", 'KILL') if $how =~ /Patroni/;
	kill 'KILL', $postmaster;
	my $new = wait_until("$how killed: another leader", sub { my $is = leader(); $is && $is ne $old && $is });
	ok($new, "$how killed: $new is promoted after $old");
	more_loads("$how killed");
	holds("$how killed", \@names);
	start_patroni($old) if $how =~ /Patroni/;
	wait_until("$how killed: the old leader comes back", \&is_whole);
	ok(wait_until("$how killed: the old leader answers", sub { (ask([$old], 'SELECT pg_is_in_recovery()') // '') eq 't' }),
		"$how killed: the old leader is a standby");
	more_loads("$how killed, and all are back");
}
stop_program('loader', 'TERM');

# ---------- afterwards ----------

my $lsn = on_leader('SELECT pg_current_wal_lsn()');
foreach my $name (@names)
{
	wait_until("$name has replayed all", sub { (ask([$name], "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() >= '$lsn' ELSE true END") // '') eq 't' });
	holds("server $name", [$name]);
	is(ask([$name], q{SELECT count(mtpower.verify_index(indexrelid, true)::text) FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
		WHERE indrelid = 't'::regclass AND amname LIKE 'mtpower%'}), 3, "server $name: indexes verify");
	is(ask([$name], 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE k > 0'), ask([$name], 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM t'),
		"server $name: an index finds all rows");
}
my $rewound = () = join('', map { slurp_file("$PostgreSQL::Test::Utils::log_path/patroni-$_.log") } @names) =~ /pg_rewind exit code=0/g;
note(scalar(loads()) . " loads, pg_rewind ran $rewound times");
done_testing();
