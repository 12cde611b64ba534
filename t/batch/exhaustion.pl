# A server runs out of memory in the middle of batches, splits and builds, in the loading session
# and in workers; of room in files, of locks, of processes; and it has each kind of dynamic shared
# memory. A load fails cleanly or does its work, and leaves nothing behind. ROUNDS= and SEED=.
#
# Variants: blink btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes;
use MtpFaults;
use MtpSessions qw(takes_connections);
use MtpVariant;

my $am = access_method();

my $seed = $ENV{SEED} || 1;
note "seed $seed";
srand($seed);
my $rounds = $ENV{ROUNDS} || 6;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--wal-segsize', '1' ]);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
mtpower.workers = 2
mtpower.batch_size = 256kB
mtpower.batch_min_rows = 0
max_wal_size = 64MB
restart_after_crash = off
log_min_messages = info
});
# What a process frees goes back at once, or it would have much room left from what it did before, and a limit would not be met.
$ENV{GLIBC_TUNABLES} = 'glibc.malloc.trim_threshold=0:glibc.malloc.top_pad=0:glibc.malloc.mmap_threshold=16384';
$node->start;
my $faults = MtpFaults->new($node, 't');
my $csv = $node->basedir . '/rows.csv';
$node->safe_psql('postgres', qq{
	CREATE EXTENSION mtpower;
	@{[ verifying() ]}
	COPY (SELECT hashint4(g), md5(g::text), repeat(md5(g::text), g % 20) FROM generate_series(1, 6000) g) TO '$csv'});

my $table = qq{DROP TABLE IF EXISTS t; CREATE TABLE t (a int, b text COLLATE "C", c text) USING mtpower;
	CREATE INDEX t_a ON t USING $am (a); CREATE INDEX t_bc ON t USING $am (b, c);
	CREATE INDEX t_c ON t USING $am (c DESC); CREATE INDEX t_h ON t USING mtpower_hash (b)};

# ---------- memory ----------

# A process gets so many bytes more than it has.  The limit is on data alone: stack and shared memory are there.
sub limit_memory
{
	my ($pid, $more) = @_;
	my ($kb) = slurp_file("/proc/$pid/status") =~ /^VmData:\s+(\d+) kB/m or die "no process $pid";
	return system('prlimit', "--pid=$pid", '--data=' . (defined $more ? $kb * 1024 + $more : 'unlimited') . ':unlimited') == 0;
}

sub workers { return split /\n/, $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'mtpower worker'"); }

# In a session that has done the very thing once, so that its caches and its stack are what they will be; what is tried is rolled back or fails.  The first round
# has next to nothing, so that it surely has too little.
sub fail_memory
{
	my ($what, $in_worker, @sql) = @_;
	my %met = (fine => 0, '53200' => 0);
	$node->safe_psql('postgres', "TRUNCATE t; COPY t FROM '$csv'");
	foreach my $round (1 .. $rounds)
	{
		my $more = $round == 1 ? 1 : int(2**(8 + rand(11)));
		my $session = $faults->start_fed("SELECT 1;\n", $sql[0], '\i /dev/stdin');
		my $pid = $faults->pid_of($session);
		$faults->wait_for("SELECT state = 'idle' AND query LIKE 'SELECT 1%' FROM pg_stat_activity WHERE pid = $pid", 'the warm session');
		my @limited = $in_worker ? workers() : $pid;
		limit_memory($_, $more) foreach @limited;
		$faults->feed($session, "$_;\n") foreach @sql[1 .. $#sql];
		my $err = $faults->finish($session);
		$met{ $err eq '' ? 'fine' : $err =~ /53200/ ? '53200' : $err }++;
		if ($in_worker)
		{
			foreach my $worker (workers()) { limit_memory($worker, undef) if -d "/proc/$worker"; }
		}
		last if !takes_connections($node);
	}
	note "$what: " . join(', ', map { "$_: $met{$_}" } sort keys %met);
	is(join(' ', grep { $_ ne 'fine' && $_ ne '53200' } keys %met), '', "no memory, $what: nothing fails but for want of memory");
	$faults->sound("no memory, $what");
	$node->safe_psql('postgres', "COPY t FROM '$csv'");
	$faults->sound("no memory, $what: the next load");
	return $met{'53200'};
}

my $prlimit = `prlimit --version 2>/dev/null`;
SKIP:
{
	skip 'there is no prlimit', 1 if $prlimit eq '';
	$node->safe_psql('postgres', $table);
	my $load = "COPY t FROM '$csv'";
	cmp_ok(fail_memory('in a load', 0, "BEGIN; $load; ROLLBACK", 'BEGIN', $load, 'COMMIT'), '>', 0, 'some loads had too little');
	fail_memory('in workers', 1, "BEGIN; $load; ROLLBACK", 'BEGIN', $load, 'COMMIT');
	cmp_ok(fail_memory('in single insertions', 0, "SET mtpower.batching = off; BEGIN; $load; ROLLBACK", 'BEGIN', $load, 'COMMIT'), '>', 0, 'some insertions had too little');
	my $build = 'REINDEX TABLE t';
	cmp_ok(fail_memory('in a build', 0, "SET maintenance_work_mem = '2MB'; SELECT 1", $build), '>', 0, 'some builds had too little');
	fail_memory('in VACUUM', 0, 'SELECT 1', 'DELETE FROM t WHERE a % 3 = 0', 'VACUUM t');
	fail_memory('in scans', 0, 'SET enable_seqscan = off', q{SELECT count(c) FROM t WHERE a > 0}, q{SELECT count(*) FROM t WHERE b = ANY (ARRAY(SELECT b FROM t LIMIT 1000))});
}

# ---------- locks ----------

$node->safe_psql('postgres', "$table; COPY t FROM '$csv'");
$node->append_conf('postgresql.conf', "max_locks_per_transaction = 10\nmax_connections = 8\nmax_wal_senders = 0\nmtpower.workers = 1\nmax_worker_processes = 4\n" . ($node->pg_version < 18 ? '' : "autovacuum_worker_slots = 1\n"));
$node->restart;
# (PostgreSQL 18 has room for more locks than it promises.)
my $parts = ($node->pg_version < 18 ? 150 : 400);
my $last = $parts - 1;
$node->safe_psql('postgres', qq{CREATE TABLE p (a int, b text COLLATE "C", c text) PARTITION BY HASH (a);
	SELECT format('CREATE TABLE p%s PARTITION OF p FOR VALUES WITH (MODULUS $parts, REMAINDER %s) USING mtpower', g, g) FROM generate_series(0, $last) g \\gexec
	SELECT format('CREATE INDEX p%s_a ON p%s USING $am (a)', g, g) FROM generate_series(0, $last) g \\gexec
	SELECT format('CREATE INDEX p%s_b ON p%s USING mtpower_hash (b)', g, g) FROM generate_series(0, $last) g \\gexec});
foreach my $batching ('on', 'off')
{
	my $err = $faults->finish($faults->start("SET mtpower.batching = $batching", "COPY p FROM '$csv'"));
	like($err, qr/53200/, "no locks, batching $batching: clean error");
	$faults->nothing_held("no locks, batching $batching");
	is($faults->finish($faults->start("COPY p FROM PROGRAM 'head -n 20 $csv'", 'TRUNCATE p0', 'DELETE FROM p1')), '', "no locks, batching $batching: few partitions are fine");
	is($faults->finish($faults->start("COPY t FROM '$csv'")), '', "no locks, batching $batching: one table is fine");
}
# A session has most of the table of locks: the worker gets none, or the load does not.
{
	my $session = $faults->start_fed("SELECT 1;\n", 'SELECT count(*) FROM t', '\i /dev/stdin');
	my $pid = $faults->pid_of($session);
	$faults->wait_for("SELECT state = 'idle' AND query LIKE 'SELECT 1%' FROM pg_stat_activity WHERE pid = $pid", 'the session');
	my $greedy = $node->background_psql('postgres');
	$greedy->query_safe('BEGIN');
	$greedy->query_safe(q{DO $$ DECLARE n int := 0; BEGIN LOOP BEGIN PERFORM pg_advisory_xact_lock(n); EXCEPTION WHEN out_of_memory THEN EXIT; END; n := n + 1; EXIT WHEN n > 5000; END LOOP; END $$});
	$faults->feed($session, "COPY t FROM '$csv';\n");
	like($faults->finish($session), qr/^(\S* ?ERROR:  53200\n)?$/, 'all locks taken: done, or a clean error');
	$greedy->query_safe('ROLLBACK');
	$greedy->quit;
	$faults->sound('all locks taken');
	is($faults->finish($faults->start("COPY t FROM '$csv'")), '', 'locks are back');
	$faults->sound('locks are back');
}

# ---------- processes ----------

$node->append_conf('postgresql.conf', "max_locks_per_transaction = 64\nmax_worker_processes = 0");
$node->restart;
is($faults->finish($faults->start("COPY t FROM '$csv'")), '', 'no worker processes at all');
$faults->sound('no worker processes at all');
$node->append_conf('postgresql.conf', "max_worker_processes = 8\nmtpower.workers = 2");
$node->restart;

# Workers that start and die: their database takes no connections any more.
{
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	my $session = $node->background_psql('postgres');
	$session->query_safe('SELECT 1');
	$node->safe_psql('other', q{UPDATE pg_database SET datallowconn = false WHERE datname = 'postgres'});
	$session->query_safe("COPY t FROM '$csv'");
	$session->query_safe("COPY t FROM '$csv'");
	$node->safe_psql('other', q{UPDATE pg_database SET datallowconn = true WHERE datname = 'postgres'});
	$session->quit;
	my $refused = () = slurp_file($node->logfile) =~ /not currently accepting connections/g;
	cmp_ok($refused, '<', 200, "workers that die at their start are not started again and again ($refused)");
	$faults->sound('workers die at their start');
}

# ---------- dynamic shared memory ----------

foreach my $kind (qw(mmap sysv posix))
{
	$node->append_conf('postgresql.conf', "dynamic_shared_memory_type = $kind\nmin_dynamic_shared_memory = 1MB");
	$node->restart;
	$node->safe_psql('postgres', "TRUNCATE t; COPY t FROM '$csv'");
	is($node->safe_psql('postgres', 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0;
		SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(c) FROM t WHERE a > -2147483648'), 6000, "$kind: a parallel scan");
	$faults->sound("dynamic shared memory of kind $kind", 6000);
}

# ---------- files whose end can't be written ----------

# Once the disk says EIO, or ENOSPC, or takes a part of a page; of each relation in turn, then of all while indexes are built.
{
	my $control = $node->basedir . '/bad_io';
	my $set = sub { open(my $f, '>', "$control.new") or die; print $f "@_\n"; close($f); rename("$control.new", $control) or die; };
	my %code = (5 => '58030', 28 => '53100', 0 => '53100');
	local $ENV{LD_PRELOAD} = MtpFaults::compile('bad_io') . '/bad_io.so';
	local $ENV{MTP_BAD_IO} = $control;
	$node->restart;
	delete $ENV{LD_PRELOAD};
	$node->safe_psql('postgres', "$table; COPY t FROM '$csv'");
	foreach my $relation (qw(t t_a t_bc t_h))
	{
		my $path = $node->safe_psql('postgres', "SELECT pg_relation_filepath('$relation')");
		foreach my $error (5, 28, 0)
		{
			my $batching = $error == 28 ? 'off' : 'on';
			my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
			$set->($error, $path);
			my $err = $faults->finish($faults->start("SET mtpower.batching = $batching", ("COPY t FROM '$csv'") x 3));
			unlink($control);
			is($err, "ERROR:  $code{$error}\n", "$relation can't be written, error $error: clean error");
			$faults->sound("$relation can't be written, error $error");
			$node->safe_psql('postgres', 'TRUNCATE t');
			is($faults->finish($faults->start("COPY t FROM '$csv'")), '', "$relation can be written");
			$path = $node->safe_psql('postgres', "SELECT pg_relation_filepath('$relation')");
		}
	}
	my $before = $node->safe_psql('postgres', 'SELECT count(*) FROM pg_class');
	foreach my $index ("$am (b, c)", 'mtpower_hash (c)')
	{
		$set->(5, 'base/');
		is($faults->finish($faults->start("CREATE INDEX t_new ON t USING $index")), "ERROR:  58030\n", "$index can't be built: clean error");
		unlink($control);
		$faults->sound("$index can't be built");
	}
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_class'), $before, 'no index is left');
}

# ---------- files that may not grow ----------

# The limit comes in the middle of the largest file; what the log says is limited too, so it goes to a pipe.
$node->stop;
{
	my $log = $node->logfile;
	my $data = $node->data_dir;
	my $limit = 6000;				# blocks of 512 bytes: more than a segment of WAL
	system("ulimit -S -f $limit && pg_ctl -w -D '$data' -o '--cluster-name=main' start 2>&1 < /dev/null | cat > '$log.limited' &") == 0 or die;
	my $up = 0;
	for (1 .. 300) { last if $up = takes_connections($node); Time::HiRes::usleep(100_000); }
	ok($up, 'a server whose files may have 3 MB');
	$node->safe_psql('postgres', "TRUNCATE t; COPY t FROM '$csv'");
	my ($failed, $rows) = (0, 6000);
	foreach my $batching (qw(on off on off))
	{
		my $err = $faults->finish($faults->start("SET mtpower.batching = $batching", "COPY t FROM '$csv'"));
		$failed++ if $err ne '';
		$rows += 6000 if $err eq '';
		like($err, qr/^(ERROR:  (XX000|58030|53100)\n)?$/, "file too large, batching $batching: an error, or none: " . ($err =~ s/\n//r));
		$faults->sound("file too large, batching $batching", $rows);
	}
	cmp_ok($failed, '>', 0, 'some loads made a file too large');
	my $err = $faults->finish($faults->start("CREATE INDEX t_all ON t USING $am (c, b) INCLUDE (a)", "CREATE INDEX t_all2 ON t USING $am (b, c) INCLUDE (a)"));
	note "build: $err";
	$faults->sound('file too large, build', $rows);
	system('pg_ctl', '-w', '-D', $data, '-m', 'fast', 'stop');
}
$node->start;
$faults->sound('without limits again');
$faults->log_is_clean;
$node->stop;
done_testing();
