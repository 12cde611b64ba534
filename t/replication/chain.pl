# A standby, and a standby of that standby, follow loads. Under remote_apply each kind of index
# finds there what was acknowledged. Servers crash while they replay; the middle one is promoted
# within a load, the last one follows it, and the old primary is rebuilt behind it. A standby
# without the library stops, and goes on with it. In the end all are equal. MTP_LONG=1 loads for a
# minute.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpJudgeDisturb;
use MtpLoad;
use MtpReplica;
use MtpSessions qw(start_psql finish);

my $seconds = $ENV{MTP_LONG} ? 60 : 3;
my $crashes = $ENV{MTP_LONG} ? 20 : 3;
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => ['--wal-segsize=64']);	# see the promotion below
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batch_min_rows = 100
mtpower.batch_size = 64kB
mtpower.workers = 2
max_worker_processes = 12
max_connections = 20
max_prepared_transactions = 4
shared_buffers = 4MB
wal_consistency_checking = 'all, mtpower'
wal_keep_size = 8GB
wal_init_zero = off
max_wal_size = 8GB
autovacuum = off
log_statement = none
});
$primary->start;
$primary->safe_psql('postgres', scans_sql() . q{
CREATE EXTENSION mtpower;
CREATE TABLE fed (k int, txt text COLLATE "C") USING mtpower;
CREATE TABLE kept (k int, txt text COLLATE "C") USING heap;
CREATE INDEX fed_k ON fed USING mtpower_blink (k);
CREATE INDEX fed_txt ON fed USING mtpower_blink (txt DESC) INCLUDE (k);
CREATE INDEX fed_h ON fed USING mtpower_hash (k) WITH (initial_buckets = 1);
CREATE INDEX kept_k ON kept USING mtpower_blink (k);
CREATE INDEX kept_h ON kept USING mtpower_hash (txt, k);
CREATE INDEX kept_hk ON kept USING mtpower_hash (k);
});
my $middle = standby_of($primary, 'middle', "max_standby_streaming_delay = 1s\n");
my $last = standby_of($middle, 'last');

# ---------- what is acknowledged is there ----------

# The standby takes its time, so that a commit which does not wait for it would be too early.
$middle->append_conf('postgresql.conf', "recovery_min_apply_delay = 100ms\n");
$middle->reload;
$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'middle'\nsynchronous_commit = remote_apply\n");
$primary->reload;
$primary->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'}) or die 'the standby is not synchronous';

my @kinds = (
	[ 'Index Only Scan using fed_k', 'enable_bitmapscan', 'SELECT count(k) FROM fed WHERE k BETWEEN %1$d AND %1$d + 999' ],
	[ 'Index Scan using fed_k', 'enable_bitmapscan', 'SELECT count(txt) FROM fed WHERE k BETWEEN %1$d AND %1$d + 999' ],
	[ 'Bitmap Index Scan on fed_k', 'enable_indexscan', 'SELECT count(txt) FROM fed WHERE k BETWEEN %1$d AND %1$d + 999' ],
	[ 'Index (Only )?Scan using fed_txt', 'enable_bitmapscan', q{SELECT count(k) FROM fed WHERE txt BETWEEN 'n%1$08d' AND 'n%1$08dz'} ],
	[ 'Index Scan using fed_h', 'enable_bitmapscan', 'SELECT count(txt) FROM (SELECT DISTINCT k FROM generate_series(%1$d, %1$d + 999) k) g CROSS JOIN LATERAL (SELECT txt FROM fed WHERE k = g.k) x' ],
	[ 'Index Scan using kept_hk', 'enable_bitmapscan', 'SELECT count(txt) FROM generate_series(%1$d, %1$d + 999) g(k) CROSS JOIN LATERAL (SELECT txt FROM kept WHERE k = g.k) x' ],
	[ 'Index (Only )?Scan using kept_k', 'enable_bitmapscan', 'SELECT count(k) FROM kept WHERE k BETWEEN %1$d AND %1$d + 999' ],
	[ 'Bitmap Index Scan on kept_h', 'enable_indexscan', q{SELECT count(k) FROM generate_series(%1$d, %1$d + 999) g(i) CROSS JOIN LATERAL (SELECT k FROM kept WHERE txt = 'n' || lpad('%1$d', 8, '0') AND k = g.i) x} ]);

sub found_on_standby
{
	my ($what, $from, $fed, $kept) = @_;
	my @wrong;
	foreach my $kind (@kinds)
	{
		my ($node, $without, $query) = @$kind;
		my $sql = sprintf($query, $from);
		my $answer = $middle->safe_psql('postgres', "SET enable_seqscan = off; SET enable_indexonlyscan = " . ($node =~ /Only/ ? 'on' : 'off') . "; SET enable_hashjoin = off; SET enable_mergejoin = off; SET $without = off; EXPLAIN (COSTS OFF) $sql; $sql");
		my ($n) = $answer =~ /(\d+)$/;
		push @wrong, "$node: $n" if $n != ($sql =~ /kept/ ? $kept : $fed);
		push @wrong, "no $node: $answer" if $what eq 'batch' && $answer !~ $node;
	}
	is(join("\n", @wrong), '', "remote_apply, $what: each kind of scan of the standby finds what was acknowledged");
	return;
}

sub insert { my ($table, $from, $n) = @_; return "INSERT INTO $table SELECT $from + g, 'n' || lpad('$from', 8, '0') FROM generate_series(0, $n - 1) g;"; }
$primary->safe_psql('postgres', insert('fed', 1000000, 5000) . insert('kept', 1000000, 5000) . 'ANALYZE');
$primary->safe_psql('postgres', 'BEGIN;' . insert('fed', 1000, 1000) . insert('kept', 1000, 1000) . 'COMMIT');
found_on_standby('batch', 1000, 1000, 1000);
$primary->safe_psql('postgres', 'BEGIN;' . insert('fed', 2000, 1) . insert('kept', 2000, 1) . 'COMMIT');
found_on_standby('one row', 2000, 1, 1);
$primary->safe_psql('postgres', "COPY (SELECT 3000 + g, 'n00003000' FROM generate_series(0, 899) g) TO PROGRAM 'cat > rows.copy'; COPY fed FROM 'rows.copy'");
$primary->safe_psql('postgres', "COPY kept FROM 'rows.copy'");
found_on_standby('COPY', 3000, 900, 900);
$primary->safe_psql('postgres', "BEGIN; UPDATE fed SET k = k + 3000, txt = 'n00004000' WHERE k BETWEEN 1000 AND 1499; UPDATE kept SET k = k + 3000, txt = 'n00004000' WHERE k BETWEEN 1000 AND 1499; COMMIT");
found_on_standby('UPDATE', 4000, 500, 500);
$primary->safe_psql('postgres', 'BEGIN; DELETE FROM fed WHERE k BETWEEN 4000 AND 4099; DELETE FROM kept WHERE k BETWEEN 4000 AND 4099; COMMIT');
found_on_standby('DELETE', 4000, 400, 400);
$primary->safe_psql('postgres', 'BEGIN;' . insert('fed', 5000, 700) . insert('kept', 5000, 700) . "PREPARE TRANSACTION 'x'");
found_on_standby('PREPARE', 5000, 0, 0);
$primary->safe_psql('postgres', "COMMIT PREPARED 'x'");
found_on_standby('COMMIT PREPARED', 5000, 700, 700);
$primary->append_conf('postgresql.conf', "synchronous_standby_names = ''\nsynchronous_commit = on\n");
$primary->reload;
$middle->append_conf('postgresql.conf', "recovery_min_apply_delay = 0\n");
$middle->reload;

# ---------- crashes in the middle of replay ----------

my $load = q{\set n random(1, 1000000)
	COPY fed FROM PROGRAM 'awk "BEGIN { srand(:n); for (i = 0; i < 2000; i++) { k = i % 8 ? int(rand() * 200000) : 7; printf(\"%d\tload %d\n\", k, k * i) } }"';};
my $insert = q{\set n random(1, 200000)
	INSERT INTO kept SELECT CASE WHEN g % 8 > 0 THEN abs(hashint4(g)) % 200000 ELSE 7 END, g::text FROM generate_series(:n, :n + 1500) g;};
my $delete = q{\set k random(0, 9)
	DELETE FROM fed WHERE k % 10 = :k;
	DELETE FROM kept WHERE k % 10 = :k OR k = 7;};
my $vacuum = q{VACUUM (INDEX_CLEANUP on) fed;
	VACUUM (INDEX_CLEANUP on) kept;
	CHECKPOINT;
	\sleep 50 ms};
my $reads = q{\set lo random(0, 190000)
	SELECT compare('fed', :lo, :lo + 5000), compare('kept', :lo, :lo + 5000);};
my $conflict = qr/conflict with recovery|backend died|transaction status/;

sub start_load
{
	my ($node, $for) = @_;
	return ([ 'changes', start_pgbench($node, $for, 2, $load => 3, $insert => 3, $delete => 2) ], [ 'VACUUM', start_pgbench($node, $for, 1, $vacuum => 1) ]);
}
sub finish_load { my ($what, @runs) = @_; finish_pgbench($_->[1], "$what: $_->[0]", 1) foreach @runs; return; }

my @runs = start_load($primary, $seconds);
my $reader = start_pgbench($middle, $seconds, 1, $reads => 1);
my @jobs;
foreach my $n (1 .. $crashes)
{
	# Some of it is replayed, a restartpoint lies behind, or not, when it goes down in the middle of the rest.
	my $lsn = $primary->lsn('insert');
	push @jobs, start_psql($primary, 'postgres', insert('fed', 200000 * $n, 4000), insert('kept', 200000 * $n, 4000), 'VACUUM (INDEX_CLEANUP on) fed');
	$last->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() > '$lsn'::pg_lsn + 300000") or die 'nothing is replayed';
	$last->safe_psql('postgres', 'CHECKPOINT') if $n % 2;
	if ($n % 3 == 2) { MtpJudgeDisturb::kill_server($last); }
	else { $last->stop('immediate'); }
	$last->start;
}
is(finish($_), '', 'a load beside crashes') foreach @jobs;
finish_pgbench($reader, 'queries on the standby', 1, $conflict);
finish_load('beside crashes', @runs);
same_servers('after crashes of the last one', $primary, $middle, $last);

# ---------- promotion of the middle one ----------

# At the beginning of a large segment any load meets the place below, however fast or slow it is.
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
@runs = start_load($primary, $seconds);
my $lsn = $primary->lsn('insert');
# Not near the end of a segment.  If the last record that the middle one has received is incomplete there, the last one looks for its rest in the next segment of
# the new timeline, where it is not, and gives up: PostgreSQL's own limit.  A load writes some MB before the promotion has begun.
$middle->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() > '$lsn'::pg_lsn + 500000 AND (pg_last_wal_receive_lsn() - '0/0') % (64 * 1024 * 1024) BETWEEN 1000000 AND 40000000") or die 'no load';
$middle->promote;
$middle->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no promotion';
finish_load('on the old primary', @runs);
is_clean($middle, 'promoted');
@runs = start_load($middle, 2);
my $timeline = 'SELECT received_tli FROM pg_stat_wal_receiver';
$last->poll_query_until('postgres', $timeline, 2) or die 'the last one does not follow';
finish_load('on the promoted one', @runs);
is_clean($primary, 'the old primary');
log_is_clean($primary);
$primary->stop;

# The old primary comes back behind it.
my $rebuilt = standby_of($middle, 'rebuilt');
@runs = start_load($middle, 2);
finish_load('on the promoted one, with the old one back', @runs);
my ($tables, $indexes) = same_servers('promoted', $middle, $last, $rebuilt);
is($indexes, 6, 'all indexes were compared');

# ---------- a standby without the library ----------

# A restartpoint, so that it has no record of ours to begin with
$middle->safe_psql('postgres', 'CHECKPOINT');
catch_up($middle, $last);
$last->append_conf('postgresql.conf', "shared_preload_libraries = ''\nwal_consistency_checking = 'all'\n");
$last->restart;
my $from = -s $last->logfile;
$middle->safe_psql('postgres', insert('fed', 9000, 10));
ok(wait_for_log_line($last, qr/FATAL:  resource manager with ID 155 not registered.*HINT:  [^\n]*"?shared_preload_libraries/s, $from), 'a standby without the library says what it needs');
ok(wait_for_log_line($last, qr/database system is shut down/, $from), 'and goes down');
for (my $tries = 0; $tries < 600 && -e $last->data_dir . '/postmaster.pid'; $tries++) { select(undef, undef, undef, 0.1); }
$last->{_pid} = undef;				# as after kill9()
$last->append_conf('postgresql.conf', "shared_preload_libraries = 'mtpower'\nwal_consistency_checking = 'all, mtpower'\n");
$last->start;
$middle->safe_psql('postgres', insert('kept', 9000, 2000));
same_servers('with the library again', $middle, $last, $rebuilt);

foreach my $node ($middle, $rebuilt, $last)
{
	my $log = slurp_file($node->logfile);
	unlike($log, qr/inconsistent page|TRAP|PANIC/, 'the log is clean: ' . $node->name);
	$node->stop;
}
done_testing();
