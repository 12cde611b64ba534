# Commands swap an index's file, want a table for themselves, or drop the extension, while workers
# stand in the middle of their work. No process writes to the wrong file, none fails, and none
# waits longer than the load, or the worker's unit, lasts.
#
# Variants: blink hash btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpSessions;
use MtpVariant;

my $am = access_method();
my $desc = $am eq 'mtpower_hash' ? '' : 'DESC';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_min_rows = 0
autovacuum = off
fsync = off
allow_in_place_tablespaces = on
});
$node->start;
my $stops = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
my $worker = q{backend_type = 'mtpower worker'};
my $schema = qq{
CREATE EXTENSION IF NOT EXISTS mtpower;
@{[ verifying() ]}
CREATE TABLE t (a int, b text COLLATE "C") USING mtpower;
CREATE INDEX t_a ON t USING $am (a);
CREATE INDEX t_b ON t USING $am (b);
CREATE INDEX t_c ON t USING $am (b $desc, a);
INSERT INTO t SELECT g, 'old' FROM generate_series(1, 1000) g;
};
$node->safe_psql('postgres', "CREATE TABLESPACE ts LOCATION ''");
$node->safe_psql('postgres', $schema);

sub verify
{
	my ($what, $rows) = @_;
	my $err;
	is($node->psql('postgres', 'SELECT verify_one(indexrelid) FROM pg_index WHERE indrelid = \'t\'::regclass', stderr => \$err), 0, "$what: indexes verify") or diag($err);
	is($node->safe_psql('postgres', "SELECT string_agg(b || ' ' || n, ', ' ORDER BY b) FROM (SELECT b, count(*) AS n FROM t GROUP BY b) x"), $rows, "$what: rows");
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, "$what: no memory is held");
}

sub anew { $node->safe_psql('postgres', "DROP TABLE IF EXISTS t; $schema") }

# A load is cancelled while a worker stands in the middle of a step, and rolled back to a savepoint; a statement of the same
# transaction, or of another session, wants the table or its indexes.  It waits for the step, and for no more.
sub behind_cancelled_load
{
	my ($own, $other, $rows) = @_;
	my $what = $own || $other;
	anew();
	my $oid = $node->safe_psql('postgres', q{SELECT 't'::regclass::oid});
	hold($node, 155);
	hold($node, 9) if $other;
	set_stop($node, 'step_checked=wait');
	my $load = start_psql($node, 'postgres', "SET mtpower.debug_injection = ''", "SET mtpower.batch_size = '64kB'", 'BEGIN', 'SAVEPOINT s',
		q{/* load */ INSERT INTO t SELECT -g, 'dead' FROM generate_series(1, 12000) g UNION ALL SELECT 0, 'dead' FROM pg_sleep(60)}, 'ROLLBACK TO s',
		$own ? "/* own */ $own" : '/* open */ SELECT FROM pg_advisory_lock_shared(9)',
		q{COPY t FROM PROGRAM 'seq -f "%.0f	after" 1 9000'}, 'COMMIT');
	$node->poll_query_until('postgres', waits_sql($worker)) or die 'no worker came';
	set_stop($node, '');
	$node->poll_query_until('postgres', q{SELECT count(pg_cancel_backend(pid)) = 0 FROM pg_stat_activity
		WHERE query LIKE '%/* load */%' AND backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()}) or die;
	my $job;
	if ($other)
	{
		$node->poll_query_until('postgres', waits_sql(q{query LIKE '/* open */%'})) or die 'no rollback';
		# It would wait for the load's own snapshot as well.
		if ($other =~ /CONCURRENTLY/)
		{
			release(9);
			$load->{run}->finish;
		}
		$job = start_psql($node, 'postgres', "/* other */ $other");
	}
	ok($node->poll_query_until('postgres', qq{SELECT count(*) > 0 FROM pg_locks JOIN pg_stat_activity a USING (pid), pg_stat_activity w
		WHERE NOT granted AND a.query ~ '/. (own|other) ./' AND w.$worker AND w.pid = ANY (pg_blocking_pids(a.pid))}), "$what: waits for the worker's step");
	release(155);
	is(finish($job), '', "$what: ends") if $other;
	release(9) if $other && $other !~ /CONCURRENTLY/;
	is(finish($load), $other =~ /DROP TABLE/ ? "ERROR:  57014\nERROR:  42P01\n" : "ERROR:  57014\n", "$what: no other error than the cancellation");
	verify($what, $rows) if $rows;
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE relation = $oid"), 0, "$what: no lock is left");
}

# A COPY's last entries are applied when the executor has let go of the indexes: they stay where they are until the statement is
# over, and move as soon as it is, though its transaction goes on.
sub moved_beside_drain
{
	anew();
	hold($node, 155);
	hold($node, 7);
	hold($node, 9);
	set_stop($node, 'worker_claimed=wait');
	my $copy = q{COPY t FROM PROGRAM 'seq -f "%.0f	after" 1 9000'};
	my $load = start_psql($node, 'postgres', "SET mtpower.debug_injection = 'step_checked=wait7'", 'BEGIN', "/* load */ $copy", "SET mtpower.debug_injection = ''",
		'/* open */ SELECT FROM pg_advisory_lock_shared(9)', $copy, 'COMMIT');
	$node->poll_query_until('postgres', waits_sql($worker)) or die 'no worker came';
	$node->poll_query_until('postgres', waits_sql(q{query LIKE '/* load */%'})) or die 'the load does not come to its drain';
	set_stop($node, '');
	my @moves = map { start_psql($node, 'postgres', "/* move */ ALTER INDEX t_$_ SET TABLESPACE ts") } 'a', 'b', 'c';
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 3 FROM pg_stat_activity WHERE query LIKE '/* move */%' AND wait_event_type = 'Lock'}),
		'no index moves while a COPY applies its last entries');
	release(155);
	release(7);
	is(finish($_), '', 'it moves then') foreach @moves;
	ok($node->poll_query_until('postgres', waits_sql(q{query LIKE '/* open */%'})), 'while the transaction is open');
	release(9);
	is(finish($load), '', 'and the load goes on with the new file');
	verify('indexes moved beside the drain', 'after 18000, old 1000');
}

# A trigger of the load wants the table for itself, and at once, while a worker has done its part and has yet to let go.
sub locked_from_within
{
	anew();
	$node->safe_psql('postgres', qq{CREATE FUNCTION lock_t() RETURNS trigger LANGUAGE plpgsql AS \$\$
		BEGIN
			WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE $worker AND wait_event = 'advisory') LOOP
				PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
			END LOOP;
			LOCK TABLE t IN ACCESS EXCLUSIVE MODE NOWAIT;
			RETURN NEW;
		END \$\$;
		CREATE TRIGGER lock_t BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.a = 12000) EXECUTE FUNCTION lock_t()});
	hold($node, 155);
	set_stop($node, 'worker_leaves=wait');
	my $load = start_psql($node, 'postgres', "SET mtpower.debug_injection = ''", "SET mtpower.batch_size = '64kB'",
		q{/* load */ INSERT INTO t SELECT g, 'locked' FROM generate_series(1, 13000) g});
	$node->poll_query_until('postgres', waits_sql($worker)) or die 'no worker came';
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE '/* load */%' AND state = 'active'
		AND wait_event IS DISTINCT FROM 'MtpowerBatchDetach' AND wait_event IS DISTINCT FROM 'Extension'}) or die;
	set_stop($node, '');
	release(155);
	is(finish($load), '', 'a trigger locks the table that is being loaded');
	verify('locked from within', 'locked 13000, old 1000');
	$node->safe_psql('postgres', 'DROP FUNCTION lock_t CASCADE');
}

SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if !$stops;
	moved_beside_drain();
	locked_from_within();
	behind_cancelled_load('TRUNCATE t', '', 'after 9000');
	behind_cancelled_load('REINDEX TABLE t', '', 'after 9000, old 1000');
	behind_cancelled_load('ALTER TABLE t SET ACCESS METHOD heap', '', 'after 9000, old 1000');
	behind_cancelled_load('', $_, 'after 9000, old 1000')
		foreach 'VACUUM FULL t', 'REINDEX TABLE CONCURRENTLY t', 'ALTER TABLE t SET TABLESPACE ts', 'BEGIN; DROP INDEX t_a, t_b, t_c; ROLLBACK';
	behind_cancelled_load('', 'TRUNCATE t', 'after 9000');
	behind_cancelled_load('', 'DROP TABLE t', '');
}
$node->stop;
done_testing();
