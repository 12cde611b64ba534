# Another load has taken a batch of a unique index from a silent one. Workers have left a key to its
# owner, whose function brings the conflict to light and swallows the error. The batch is gone then,
# and its queue knows: the load goes on for thousands of rows, fails by that error, and touches no
# memory that is another load's by then.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpFaults;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_memory = 1MB
mtpower.batch_min_rows = 0
mtpower.batch_size = 1MB
autovacuum = off
restart_after_crash = on
fsync = off
statement_timeout = 40s
});
$node->start;
my $faults = MtpFaults->new($node, 't');
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE EXTENSION amcheck;
CREATE TABLE t (id int PRIMARY KEY, a int) USING mtpower;
CREATE INDEX t_a ON t (a);
CREATE TABLE u (a int) USING mtpower;
CREATE INDEX u_a ON u (a);
} . MtpFaults::gate_sql() . q{
-- At row 3000 of a statement the session falls silent, then meets the conflict of row 1000, and goes on; at row 3500 it waits again.
CREATE FUNCTION meddle(i int, how text) RETURNS int LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
	IF i = 3000 THEN
		PERFORM gate(1);
		BEGIN
			IF how = 'scans' THEN
				PERFORM count(*) FROM t WHERE id < 10;
			ELSE
				INSERT INTO t VALUES (-1, -1);
			END IF;
		EXCEPTION WHEN unique_violation THEN
			RAISE WARNING 'swallowed';
		END;
	ELSIF i = 3500 THEN
		PERFORM gate(2);
	END IF;
	RETURN i;
END $$;
});

# Another load, of keys in no order, whose entries no worker touches: its own memory is what it has to make do with.
sub other { return ('BEGIN', 'TRUNCATE u', 'INSERT INTO u ' . join(' UNION ALL ', @_), 'COMMIT'); }

sub keys_of { return "SELECT g * 7919 % 1000003 FROM generate_series($_[0], $_[1]) g"; }

foreach my $how (qw(scans inserts))
{
	$node->safe_psql('postgres', 'TRUNCATE t; INSERT INTO t VALUES (1000, -1)');
	$faults->hold($_) foreach 1 .. 3;
	my $silent = $faults->start("INSERT INTO t SELECT meddle(i, '$how'), i FROM generate_series(1, 20000) i");
	$faults->wait_for(MtpFaults::stands(1), "$how: the silent load");
	sleep(1.2);
	$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches')});
	is($faults->finish($faults->start(other(keys_of(1, 80000)))), '', "$how: a load beside a silent one");

	# The owner has submitted nothing, so what workers have put in was taken.
	$faults->wait_for(q{SELECT entries_workers > 0 FROM mtpower.stat_batches WHERE index = 't_pkey'::regclass}, "$how: workers apply what was taken");
	$faults->wait_for(q{SELECT count(*) = 0 FROM mtpower.stat_workers WHERE loader_pid IS NOT NULL}, "$how: workers leave");
	is($node->safe_psql('postgres', q{SELECT entries_workers < 1000, entries_backends FROM mtpower.stat_batches WHERE index = 't_pkey'::regclass}), 't|0', "$how: the conflict is the owner's");

	$faults->release(1);
	$faults->wait_for(MtpFaults::stands(2), "$how: the silent load goes on");

	# What memory the batch had is another load's now.
	my $other = $faults->start(other(keys_of(1, 45000), 'SELECT gate(3)', keys_of(45001, 60000)));
	$faults->wait_for(MtpFaults::stands(3), "$how: another load");
	$faults->release(2);
	is($faults->finish($silent), "WARNING:  01000\nERROR:  23505\n", "$how: the silent load fails by that error");
	$faults->release(3);
	is($faults->finish($other), '', "$how: the other load ends");

	is($node->safe_psql('postgres', q{SELECT count(*), bt_index_parent_check('u_a', true, true) FROM u}), '60001|', "$how: its rows are there, and its index has them");
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), count(*) FILTER (WHERE x.a <> u.a + 0) FROM (' . keys_of(1, 60000) . ') x (a), LATERAL (SELECT u.a FROM u WHERE u.a = x.a OFFSET 0) u'), '60000|0', "$how: each key leads to its row");
	is($node->safe_psql('postgres', q{SELECT count(*), min(id), min(a), bt_index_parent_check('t_pkey', true, true), bt_index_parent_check('t_a', true, true) FROM t}), '1|1000|-1||', "$how: the table is as it was");
	$faults->nothing_held($how);
}

# The next load of the same table
$node->safe_psql('postgres', 'DELETE FROM t; INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i');
is($node->safe_psql('postgres', q{SELECT count(*), bt_index_parent_check('t_pkey', true, true), bt_index_parent_check('t_a', true, true) FROM t}), '20000||', 'the next load');
$faults->nothing_held('the next load');
$node->stop;
$faults->log_is_clean;
done_testing();
