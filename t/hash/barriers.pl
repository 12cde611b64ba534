# An error comes while a hash index grows for queued entries, at each flush before a scan. The
# statement fails cleanly, or goes on where it may. Afterwards all rows are found, and the index
# is no larger than its rows need.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpHash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_min_rows = 0
autovacuum = off
fsync = off
max_prepared_transactions = 2
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
my $faults = MtpFaults->new($node, 't');
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql() . q{
CREATE TABLE t (a int, b int, c int) USING mtpower;
CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 1, fillfactor = 20);
CREATE INDEX t_b ON t USING mtpower_hash (b);
-- By an index scan of each
CREATE FUNCTION found(column_name text) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM generate_series(1, 3000) g JOIN t ON t.%I = g', column_name) INTO n;
	RETURN n;
END $$;
-- Called for each row.  At one of them it has the rows so far applied, which fails.
CREATE FUNCTION barrier(i int, at int, what text, stop text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	state text := 'nothing';
BEGIN
	IF i <> at THEN
		RETURN i;
	END IF;
	BEGIN
		PERFORM set_config('enable_seqscan', 'off', true), set_config('mtpower.debug_injection', stop, true);
		IF what = 'a scan' THEN
			PERFORM FROM t WHERE a = 1;
			PERFORM FROM t WHERE b = 1;
		ELSIF what = 'a bitmap' THEN
			PERFORM FROM t WHERE a = ANY ('{1,2}');
			PERFORM FROM t WHERE b = ANY ('{1,2}');
		ELSIF what = 'a parallel query' THEN
			PERFORM set_config(name, 'on', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
			PERFORM count(*) FROM pg_class;
		ELSIF what = 'another load' THEN
			INSERT INTO t SELECT -j, -j, j FROM generate_series(1, 1000) j;
		ELSE
			CREATE TEMP TABLE nothing (x int);
		END IF;
	EXCEPTION WHEN disk_full OR internal_error THEN
		state := SQLSTATE;
	END;
	PERFORM set_config('batch.state', state, false), set_config('mtpower.debug_injection', '', false);
	-- They go in now.
	PERFORM set_config('batch.found', found('a') || ' ' || found('b'), false);
	RETURN i;
END $$;
CREATE FUNCTION after() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM barrier(NEW.a, NEW.a, TG_ARGV[0], TG_ARGV[1]); RETURN NULL; END';
});
my %code = (disk_full => '53100', error => 'XX000');
# Each of them comes when t is empty, or has rows.
my @points = (prepare => 0, hash_extended => 1, hash_initial => 1, hash_split => 0);

sub fresh
{
	$node->safe_psql('postgres', 'TRUNCATE t; INSERT INTO t SELECT -g, -g, 0 FROM generate_series(1, 100) g');
	return;
}

sub check
{
	my ($what, $rows) = @_;
	is($node->safe_psql('postgres', q{SELECT found('a'), found('b')}), "$rows|$rows", "$what: all rows are found");
	$faults->sound($what);
	return;
}

# In the middle of a statement, which goes on
while (my ($point, $empty) = splice(@points, 0, 2))
{
	foreach my $action (sort keys %code)
	{
		foreach my $barrier ('a scan', 'a bitmap', 'a parallel query', 'a utility command', 'another load')
		{
			my $what = "$point, $action, $barrier";
			my $trigger = $barrier =~ /parallel|utility/;
			$empty ? $node->safe_psql('postgres', 'TRUNCATE t') : fresh();
			is($node->safe_psql('postgres', qq{
				INSERT INTO t SELECT barrier(i, 2500, '$barrier', '$point=$action'), i, 0 FROM generate_series(1, 3000) i;
				SELECT current_setting('batch.state'), current_setting('batch.found')}),
				"$code{$action}|2499 2499", "$what: caught, and the rows so far are found");
			check($what, 3000);
			next if !$trigger;

			$empty ? $node->safe_psql('postgres', 'TRUNCATE t') : fresh();
			is($node->safe_psql('postgres', qq{
				CREATE TRIGGER after AFTER INSERT ON t FOR EACH ROW WHEN (NEW.a = 2500) EXECUTE FUNCTION after('$barrier', '$point=$action');
				COPY t FROM PROGRAM \$p\$awk 'BEGIN { for (i = 1; i <= 3000; i++) print i "\t" i "\t0" }'\$p\$;
				DROP TRIGGER after ON t;
				SELECT current_setting('batch.state'), current_setting('batch.found')}), "$code{$action}|3000 3000", "$what, in a trigger behind a COPY: caught");
			check("$what, in a trigger behind a COPY", 3000);
		}

		# At the end of a statement, of COPY, of a function's statement, and of deferred triggers' ones; and behind it
		my $load = 'INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 3000) i';
		foreach my $end (
			[ 'INSERT', "$load;" ],
			[ 'COPY', q{COPY t FROM PROGRAM $p$awk 'BEGIN { for (i = 1; i <= 3000; i++) print i "\t" i "\t0" }'$p$;} ],
			[ 'CTE', "WITH w AS ($load) SELECT 1 \\g /dev/null\n" ],
			[ 'a function', "DO \$\$ BEGIN $load; END \$\$;" ],
			[ 'a failing subtransaction', "DO \$\$ BEGIN BEGIN $load; RAISE 'not reached'; EXCEPTION WHEN disk_full OR internal_error THEN RAISE USING ERRCODE = SQLSTATE; END; END \$\$;" ],
			[ 'deferred triggers', "INSERT INTO d VALUES (1); SET CONSTRAINTS ALL IMMEDIATE;" ])
		{
			my ($name, $sql) = @$end;
			my $what = "$point, $action, at the end of $name";
			my ($out, $err);
			$empty ? $node->safe_psql('postgres', 'TRUNCATE t') : fresh();
			$node->safe_psql('postgres', qq{
				DROP TABLE IF EXISTS d;
				CREATE TABLE d (a int);
				CREATE OR REPLACE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN $load; RETURN NULL; END';
				CREATE CONSTRAINT TRIGGER late AFTER INSERT ON d DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()});
			$node->psql('postgres', qq{
				BEGIN;
				SAVEPOINT s;
				SET LOCAL mtpower.debug_injection = '$point=$action';
				$sql
				ROLLBACK TO s;
				SELECT found('a'), found('b');
				$load;
				SELECT found('a'), found('b');
				COMMIT}, stdout => \$out, stderr => \$err, on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
			like($err, qr/^(psql:<stdin>:\d+: )?ERROR:  $code{$action}\n?$/, "$what: clean error");
			is($out, "0|0\n3000|3000", "$what: rolled back, and done again");
			check($what, 3000);
		}
	}
}

# Prepared transactions, whose growth failed once: all is in before
fresh();
$node->psql('postgres', q{
	BEGIN;
	SAVEPOINT s;
	SET LOCAL mtpower.debug_injection = 'hash_split=disk_full';
	INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 3000) i;
	ROLLBACK TO s;
	INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 3000) i;
	PREPARE TRANSACTION 'p'}, on_error_stop => 0);
is($node->safe_psql('postgres', q{INSERT INTO t SELECT i, i, 1 FROM generate_series(1, 3000) i; SELECT found('a'), found('b')}), '3000|3000', 'beside a prepared transaction');
$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
check('a prepared transaction', 6000);
$node->safe_psql('postgres', q{
	BEGIN;
	INSERT INTO t SELECT i, i, 2 FROM generate_series(1, 3000) i;
	PREPARE TRANSACTION 'p'});
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p'});
$node->safe_psql('postgres', q{VACUUM t; INSERT INTO t SELECT -i, -i, 3 FROM generate_series(101, 6000) i});
check('a prepared transaction that was rolled back', 6000);

# A cursor stands in the long stash of a bucket, which so can't be split; more of the statement's rows come, and growth fails.  The cursor
# goes on, and misses none of the rows that were there before it.
fresh();
is($node->safe_psql('postgres', q{
	CREATE FUNCTION stand(i int) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE c refcursor := 'standing';
	BEGIN
		IF i = 2000 THEN
			SET LOCAL enable_seqscan = off;
			SET LOCAL enable_bitmapscan = off;
			OPEN c FOR SELECT t.c FROM t WHERE b = 77777;
			MOVE c;
		END IF;
		RETURN i;
	END $$;
	BEGIN;
	INSERT INTO t SELECT barrier(stand(i), 3500, 'a scan', 'hash_split=disk_full'), CASE WHEN i > 3000 THEN -1000000 - i ELSE 77777 END, i FROM generate_series(1, 4000) i;
	DO $$
	DECLARE c refcursor := 'standing'; n int;
	BEGIN
		MOVE FORWARD ALL IN c;
		GET DIAGNOSTICS n = ROW_COUNT;
		PERFORM set_config('batch.moved', n::text, false);
	END $$;
	COMMIT;
	SELECT current_setting('batch.state'), count(*), current_setting('batch.moved')::int BETWEEN 1998 AND 2999 FROM t WHERE b = 77777}), '53100|3000|t',
	'growth fails where a cursor stands, and the statement goes on');
$faults->sound('a cursor');

# Growth that fails again and again asks for no more in the end.
foreach my $point ('prepare', 'hash_extended', 'hash_split')
{
	$node->safe_psql('postgres', 'TRUNCATE t; DROP INDEX IF EXISTS t_b; INSERT INTO t SELECT g, g, 0 FROM generate_series(1, 1000) g');
	my $failed = 0;
	$failed++ while $failed < 40 && $node->psql('postgres', "SET mtpower.debug_injection = '$point=disk_full'; INSERT INTO t SELECT g, g, 0 FROM generate_series(1001, 3000) g") != 0;
	cmp_ok($failed, '>=', $point eq 'hash_extended' ? 1 : 10, "$point: $failed loads failed");
	$node->safe_psql('postgres', 'INSERT INTO t SELECT g, g, 0 FROM generate_series(1001, 3000) g') if $point eq 'prepare';
	my $s = space_of($node, 't_a');
	is($s->{entries}, 3000, "$point: they do not count");
	cmp_ok(($s->{b} - 1) * $s->{per_bucket}, '<=', 3000, "$point: $s->{b} buckets of $s->{per_bucket} entries");
	$faults->sound("growth that failed at $point", 3000);
}
$faults->log_is_clean;
$node->stop;
done_testing();
