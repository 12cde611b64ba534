# Settings of the database, locks on a row type, memory that others hold, and rows that others
# lock could make a load and its workers wait for each other without end. They do not.
#
# Variants: blink btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpVariant;

my $am = access_method();
my $btree = $am eq 'btree';
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 2
mtpower.batch_memory = 1MB
mtpower.batch_min_rows = 0
mtpower.batch_size = 64kB
autovacuum = off
fsync = off
deadlock_timeout = 200ms
statement_timeout = 60s
});
$node->start;

# Waits until workers have put entries into the index.  The load that calls it has given them some.
my $schema = qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE FUNCTION served(i text) RETURNS bool LANGUAGE plpgsql AS \$\$
BEGIN
	FOR n IN 1 .. 2000 LOOP
		IF (SELECT sum(entries_workers) > 0 FROM mtpower.stat_batches WHERE index = i::regclass) THEN RETURN true; END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN false;
END \$\$;
CREATE FUNCTION gate() RETURNS bool LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM pg_advisory_lock_shared(8), pg_advisory_unlock_shared(8);
	RETURN true;
END \$\$;
CREATE TABLE t (a int) USING mtpower;
CREATE INDEX t_a ON t USING $am (a);
};

sub start_psql
{
	my ($db, @sql) = @_;
	my $job = { out => '', err => '' };
	$job->{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr($db), map { ('-c', $_) } @sql ],
		'<', '/dev/null', '>', \$job->{out}, '2>', \$job->{err});
	return $job;
}

sub finish { my ($job) = @_; $job->{run}->finish; return $job->{err} }

# The workers' share of an index's entries, the sessions' share, and what failed.
sub shares
{
	my ($index) = @_;
	return $node->safe_psql('postgres', qq{SELECT entries_workers > 0, entries_backends > 0, failed_error + failed_lock + failed_file FROM mtpower.stat_batches WHERE index = '$index'::regclass});
}

# Waits until so many sessions stand at the gate.
sub wait_at_gate
{
	my ($n) = @_;
	$node->poll_query_until('postgres', "SELECT count(*) = $n FROM pg_locks WHERE locktype = 'advisory' AND objid = 8 AND NOT granted")
		or die "no $n sessions at the gate";
	return;
}

# Settings that reach every session of a database: a worker with all three would wait until its owner's transaction is over.
my @settings = ('default_transaction_isolation = serializable', 'default_transaction_read_only = on', 'default_transaction_deferrable = on');
$node->safe_psql('template1', $schema);
foreach my $case ([ database => @settings ], [ role => @settings ], [ file => @settings ], map { [ database => $_ ] } @settings)
{
	my ($where, @set) = @$case;
	my $what = "$where: " . join(', ', @set);
	$node->safe_psql('template1', 'CREATE DATABASE d');
	if ($where eq 'file')
	{
		$node->append_conf('more.conf', join("\n", @set));
		$node->append_conf('postgresql.conf', "include 'more.conf'");
		$node->restart;
	}
	else
	{
		$node->safe_psql('template1', "ALTER $where " . ($where eq 'role' ? 'CURRENT_USER IN DATABASE d' : 'd') . " SET $_") foreach @set;
	}
	# Into a btree workers put nothing for a load that is SERIALIZABLE itself.
	my $load = start_psql('d', 'BEGIN ISOLATION LEVEL ' . ($btree ? 'REPEATABLE READ' : 'SERIALIZABLE') . ' READ WRITE NOT DEFERRABLE',
		q{INSERT INTO t SELECT hashint4(g) FROM generate_series(1, 20000) g UNION ALL SELECT 0 WHERE served('t_a')}, 'COMMIT');
	is(finish($load), '', "$what: a load");
	is($node->safe_psql('d', q{BEGIN READ ONLY NOT DEFERRABLE; SELECT count(*), verify_one('t_a') FROM t}), '20001|', "$what: workers took part in it");
	if ($where eq 'file')
	{
		unlink($node->data_dir . '/more.conf');
		$node->append_conf('more.conf', '');
		$node->restart;
	}
	$node->safe_psql('template1', 'DROP DATABASE d');
}

# The comparison of composites may take a lock on the row type's table: a worker must not wait for it.
$node->safe_psql('postgres', $schema . qq{
CREATE TABLE x (i int, s text);
CREATE TABLE c (r x, a int CHECK (a > 0 OR served('c_a')), b int CHECK (b > 0 OR gate())) USING mtpower;
CREATE INDEX c_r ON c USING $am (r);
CREATE INDEX c_rs ON c USING $am ((ARRAY[r]));
CREATE INDEX c_a ON c USING $am (a);
CREATE INDEX c_h ON c USING mtpower_hash (r);
CREATE INDEX c_ha ON c USING mtpower_hash (a, r);
});
my $copy = q{COPY c FROM PROGRAM $$awk 'BEGIN { for (i = 1; i <= 5000; i++) print "(" (i * 7919) %% 5000 ",x" i ")\t" i "\t1"; print "(0,last)\t%d\t%d" }'$$};

sub start_copy
{
	my ($a, $b, @before) = @_;
	$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches')});
	return start_psql('postgres', 'BEGIN', @before, sprintf($copy, $a, $b), 'COMMIT');
}

sub check_composite
{
	my ($what, $load, $rows) = @_;
	is(finish($load), '', "$what: the load ends");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM c}), $rows, "$what: all rows are there");
	like(shares('c_a'), qr/^t\|.*\|0$/, "$what: there were workers");
	is(shares($_), 'f|t|0', "$what: which left $_ alone") foreach 'c_r', 'c_rs';
	return;
}
check_composite('LOCK TABLE in the same transaction', start_copy(0, 1, 'LOCK TABLE x'), 5001);
check_composite('ALTER TABLE in the same transaction', start_copy(0, 1, 'ALTER TABLE x ADD more int', 'ALTER TABLE x DROP more'), 10002);
{
	my $other = $node->background_psql('postgres');
	$other->query_safe('SELECT pg_advisory_lock(8)');
	my $load = start_copy(0, 0);
	wait_at_gate(1);
	$other->query_safe('BEGIN');
	$other->query_safe('LOCK TABLE x');
	$other->query_safe('SELECT pg_advisory_unlock(8)');
	check_composite('LOCK TABLE in another session, meanwhile', $load, 15003);
	ok(defined $other->query_safe('LOCK TABLE c NOWAIT'), 'no worker keeps the table');
	$load = start_copy(0, 1);
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted}) or die;
	$other->query_safe('COMMIT');
	check_composite('LOCK TABLE in another session, before', $load, 20004);
	$other->quit;
}
$node->safe_psql('postgres', "SELECT verify_one('$_')") foreach 'c_r', 'c_rs', 'c_a', 'c_h', 'c_ha';

# Eight loads in memory for four.  Four take what there is and stand; the others go on with next to none.  Then two of the four lock each other's
# rows, with their batches under way.
$node->safe_psql('postgres', qq{
CREATE TABLE m (a int, b int, c int, d int, e int, f int, g int, h int) USING mtpower;
CREATE INDEX ON m USING $am (a); CREATE INDEX ON m USING mtpower_hash (b);
CREATE INDEX ON m USING $am (c); CREATE INDEX ON m USING mtpower_hash (d);
CREATE INDEX ON m USING $am (e DESC); CREATE INDEX ON m USING mtpower_hash (f);
CREATE INDEX ON m USING $am (g); CREATE INDEX ON m USING $am (h DESC);
CREATE TABLE r (id int); INSERT INTO r VALUES (1), (2);
CREATE FUNCTION act(what text) RETURNS int LANGUAGE plpgsql AS \$\$
BEGIN
	IF what = 'gate' THEN PERFORM gate(); ELSE UPDATE r SET id = id WHERE id = what::int; END IF;
	RETURN 0;
END \$\$;
});

# A load of $n rows, what happens, and so on.
sub load
{
	my @parts = map { /^\d{2,}$/ ? "SELECT hashint4(i) AS v FROM generate_series(1, $_) i" : "SELECT act('$_')" } @_;
	return 'INSERT INTO m SELECT v, v, v, v, v, v, v, v FROM (' . join(' UNION ALL ', @parts) . ') s';
}
my $gate = $node->background_psql('postgres');
$gate->query_safe('SELECT pg_advisory_lock(8)');
my @large = map { start_psql('postgres', load(@$_)) } [ 1000, 1, 'gate', 6000, 2, 1000 ], [ 1000, 2, 'gate', 6000, 1, 1000 ], ([ 1000, 'gate', 6000 ]) x 2;
wait_at_gate(4);
cmp_ok($node->safe_psql('postgres', 'SELECT total_bytes - held_bytes FROM mtpower.stat_memory'), '<', 262144, 'memory is short');
my @small = map { start_psql('postgres', load(3000)) } 1 .. 4;
is(finish($_), '', 'a load without memory ends') foreach @small;
wait_at_gate(4);
$gate->quit;
my @errors = map { finish($_) } @large;
is(join('', sort @errors), "ERROR:  40P01\n", 'one of two loads that lock each other out gets the deadlock error, no other fails');
is($node->safe_psql('postgres', 'SELECT count(*) FROM m'), 4 * 3000 + 8003 + 2 * 7001, 'all rows of the others are there');
is($node->safe_psql('postgres', q{SELECT count(verify_one(indexrelid)::text) FROM pg_index WHERE indrelid = 'm'::regclass}), 8, 'the indexes verify');
is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, 'no memory is held');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'nothing crashed');
done_testing();
