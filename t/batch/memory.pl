# A thousand loads of all widths and ends leave no memory behind, neither shared memory nor a
# process's. Eight sessions load, fail and die with hardly any memory.
#
# Variants: blink hash btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpFaults;
use MtpVariant;

my $am = access_method();
my $hash = $am eq 'mtpower_hash';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_memory = 8MB
mtpower.batch_min_rows = 0
autovacuum = off
});
$node->start;
my $faults = MtpFaults->new($node, 't');
my $bad = $node->basedir . '/bad.csv';
append_to_file($bad, join('', map { "$_,bad $_,\\x" . 'ab' x ($_ % 300) . "\n" } 1 .. 250) . "one,two,three\n");
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE TABLE t (a int, b text COLLATE "C", c bytea) USING mtpower;
ALTER TABLE t ALTER c SET STORAGE plain;
CREATE INDEX t_a ON t USING $am (a);
CREATE INDEX t_b ON t USING $am (b);
CREATE INDEX t_c ON t USING $am (c, b)@{[ $hash ? '' : ' INCLUDE (a)' ]};
CREATE TABLE ends (what text, n int);
-- Cancels the calling statement.
CREATE FUNCTION stop_it() RETURNS int LANGUAGE plpgsql AS \$\$ BEGIN PERFORM pg_cancel_backend(pg_backend_pid()); PERFORM pg_sleep(10); RETURN 0; END \$\$;
CREATE PROCEDURE loads(n int) LANGUAGE plpgsql AS \$\$
DECLARE what text;
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			what := 'success';
			IF i % 7 = 5 THEN
				COPY t FROM '$bad' (FORMAT csv);
			END IF;
			INSERT INTO t SELECT CASE WHEN g < 260 THEN g * i WHEN i % 7 = 2 THEN 1 / (260 - g) WHEN i % 7 = 3 THEN stop_it() ELSE g END,
				left(md5(g::text || i), g % 33), decode(repeat('ab', g * i % (i % 2000 + 1)), 'hex') FROM generate_series(1, 280) g;
			IF i % 7 = 4 THEN
				RAISE 'enough';
			END IF;
		EXCEPTION WHEN OTHERS OR query_canceled THEN
			what := SQLSTATE;
		END;
		IF i % 10 = 0 THEN
			ROLLBACK;
			what := what || ' rolled back';
		END IF;
		INSERT INTO ends VALUES (what, 1);
		COMMIT;
	END LOOP;
END \$\$;
});

# Memory of its own of a process, in kB
sub private_memory
{
	my ($pid) = @_;
	return slurp_file("/proc/$pid/smaps_rollup") =~ /^Anonymous:\s+(\d+)/m ? $1 : die;
}

my $session = $node->background_psql('postgres');
my $pid = $session->query_safe('SELECT pg_backend_pid()');
my $contexts = 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts';
$session->query_safe('CALL loads(280)');
$session->query_safe($contexts);
my $worker = $node->safe_psql('postgres', 'SELECT min(pid) FROM mtpower.stat_workers');
my @before = ($session->query_safe($contexts), private_memory($pid));
my $worker_before = $worker && private_memory($worker);
$node->safe_psql('postgres', 'SELECT mtpower.stat_reset()');
$session->query_safe('CALL loads(1000)');
my @after = ($session->query_safe($contexts), private_memory($pid));
note "contexts, private kB: @before; afterwards: @after";
cmp_ok($after[0], '<', $before[0] + 100_000, 'a session\'s memory contexts do not grow over 1,000 loads');
cmp_ok($after[1], '<', $before[1] + 1000, 'nor does the process');
my %open;
$open{$_}++ foreach grep { m{^/} && !m{^/dev/null|/log/} } map { readlink($_) // '' } glob("/proc/$pid/fd/*");
is(join(' ', grep { $open{$_} > 1 || /pgsql_tmp|deleted/ } sort keys %open), '', 'it has no file open twice, no dropped one and no temporary one');
if ($worker && $node->safe_psql('postgres', "SELECT count(*) FROM mtpower.stat_workers WHERE pid = $worker"))
{
	my $worker_after = private_memory($worker);
	note "private memory of the worker: $worker_before kB, $worker_after kB";
	cmp_ok($worker_after, '<', $worker_before + 1000, 'nor the worker\'s');
}
$session->quit;
is($node->safe_psql('postgres', q{SELECT string_agg(what, ', ' ORDER BY what) FROM (SELECT DISTINCT replace(what, ' rolled back', '') AS what FROM ends) x}),
	'22012, 22P02, 57014, P0001, success', 'loads came to all ends');
cmp_ok($node->safe_psql('postgres', 'SELECT sum(entries_workers) FROM mtpower.stat_batches'), '>', 0, 'the worker did some of it');
$faults->sound('many loads');

# Hardly any memory for eight sessions, every other of which is cancelled, terminated, or left by its client
$node->append_conf('postgresql.conf', q{
mtpower.batch_memory = 1MB
mtpower.workers = 2
client_connection_check_interval = 100ms
});
$node->restart;
$node->safe_psql('postgres', 'TRUNCATE t');
# Entries of hash indexes are small whatever the keys.
my $n = $hash ? 12000 : 4000;
my ($rows, $unsure, $most, $samples) = (0, 0, 0, 0);
foreach my $round (1 .. 3)
{
	my @jobs = map { $faults->start(qq{INSERT INTO t SELECT hashint4(g), md5(g::text), decode(repeat('ab', g % 500), 'hex') FROM generate_series(1, $n) g}) } 1 .. 8;
	my @doomed = @jobs[ 0, 2, 4, 6 ];
	foreach my $i (0 .. 3)
	{
		foreach (1 .. 5)
		{
			my ($held, $total) = split /\|/, $node->safe_psql('postgres', 'SELECT held_bytes, total_bytes FROM mtpower.stat_memory');
			fail("$held bytes held of $total") if $held > $total || $held < 0;
			$most = $held / $total if $held > $most * $total;
			$samples++;
		}
		if ($i == 3) { $faults->kill_client($doomed[3]); }
		else { $node->safe_psql('postgres', ($i % 2 ? 'SELECT pg_cancel_backend' : 'SELECT pg_terminate_backend') . "(@{[ $faults->pid_of($doomed[$i]) ]})"); }
	}
	foreach my $i (0 .. 7)
	{
		if ($i == 6)			# its client is dead
		{
			$unsure += $n;
			next;
		}
		my $err = $faults->finish($jobs[$i]);
		like($err, $i % 2 ? qr/^$/ : qr/^$|57014|57P01/, "round $round, session $i: its end");
		$rows += $n if $err eq '';

		# A session may be terminated when its load has just been committed.
		$unsure += $n if $err =~ /57P01/;
	}
	$faults->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = @{[ $faults->pid_of($jobs[6]) ]}", 'the session without a client', 10);
}
cmp_ok($most, '>', 0.75, sprintf('memory was short: %d %% of it held, of %d samples the most', 100 * $most, $samples));
my $there = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
ok($there >= $rows && $there <= $rows + $unsure && $there % $n == 0, 'each load is there as a whole or not at all');
$faults->sound('eight sessions');
$faults->log_is_clean;
$node->stop;
done_testing();
