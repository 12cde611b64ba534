# verify_all checks every index of mtpower's, and btree indexes of its tables with amcheck, reports on
# each whatever is wrong with others, and skips what it cannot check; alone or with other processes;
# on a standby too.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpDamage;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
shared_buffers = 64MB
mtpower.buffer_size = 0
max_worker_processes = 8
autovacuum = off
fsync = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE ROLE owner;
CREATE ROLE stranger LOGIN;
CREATE SCHEMA other;
CREATE TABLE t (a int PRIMARY KEY, b text, c int) USING mtpower;
INSERT INTO t SELECT g, md5(g::text), g % 10 FROM generate_series(1, 20000) g;
CREATE INDEX t_b ON t USING mtpower_blink (b);
CREATE INDEX t_c ON t USING mtpower_blink (c);
CREATE INDEX t_h ON t USING mtpower_hash (b);
CREATE INDEX t_z ON t USING mtpower_zone (a);
CREATE TABLE plain (a int PRIMARY KEY) USING heap;
CREATE TABLE other.o (a int) USING mtpower;
INSERT INTO other.o SELECT generate_series(1, 1000);
CREATE INDEX o_a ON other.o USING mtpower_blink (a);
CREATE UNLOGGED TABLE u (a int) USING mtpower;
CREATE INDEX u_a ON u USING mtpower_blink (a);
CREATE TABLE p (a int) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (10) USING mtpower;
CREATE INDEX p_a ON p USING mtpower_blink (a);
CREATE FUNCTION who(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
	IF current_user <> 'owner' THEN RAISE 'as %', current_user; END IF; RETURN $1; END $$;
CREATE TABLE e (a int) USING mtpower;
ALTER TABLE e OWNER TO owner;
GRANT CREATE ON SCHEMA public TO owner;
SET ROLE owner;
INSERT INTO e VALUES (1), (2);
CREATE INDEX e_who ON e USING mtpower_blink (who(a));
});
$node->safe_psql('postgres', q{
CREATE FUNCTION boom(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN 1 / $1; END $$;
CREATE TABLE i (a int) USING mtpower; INSERT INTO i VALUES (0)});
$node->psql('postgres', 'CREATE INDEX CONCURRENTLY i_boom ON i USING mtpower_blink (boom(a))');

# index|result|sqlstate|message|detail, by index
sub report
{
	my ($arguments, $on) = (@_, $node)[ 0, 1 ];
	return join("\n", sort split /\n/, $on->safe_psql('postgres', "SELECT * FROM mtpower.verify_all($arguments)"));
}
my $sound = join("\n", sort map { "$_|ok|||" } qw(e_who p1_a_idx t_b t_c t_h t_z u_a other.o_a));
my $invalid = 'i_boom|skipped||it is not valid|';
my $without = "t_pkey|skipped||it is of access method btree: that takes amcheck|";
my $all = join("\n", sort split(/\n/, $sound), $invalid, $without);
is(report(''), $all, 'alone');
is(report('heapallindexed => true'), $all, 'with the rows');
is(report('parallel => 3, heapallindexed => true'), $all, 'with three processes');
is(report(q{'other', parallel => 2}), 'other.o_a|ok|||', 'a schema');
is(report(q{'pg_catalog', parallel => 2}), '', 'a schema without any');
$node->safe_psql('postgres', 'CREATE SCHEMA checks; CREATE EXTENSION amcheck SCHEMA checks');
$all =~ s/t_pkey.*/t_pkey|ok|||/;
is(report('heapallindexed => true, parallel => 2'), $all, 'with amcheck');

# Who may
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT mtpower.verify_all()', extra_params => [ '-U', 'stranger' ]);
like($err, qr/ERROR:  permission denied for function verify_all/, 'not everybody may');
$node->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION mtpower.verify_all TO stranger');
is($node->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE result = \'ok\') FROM mtpower.verify_all(parallel => 2)', extra_params => [ '-U', 'stranger' ]),
	$node->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE result = 'ok') FROM mtpower.verify_all()}), 'who may, may also with processes');

# Mistakes
($rc, $out, $err) = $node->psql('postgres', 'SELECT mtpower.verify_all(parallel => -1)');
like($err, qr/ERROR:  number of parallel processes -1 is out of range/, 'too few processes');
($rc, $out, $err) = $node->psql('postgres', 'SELECT mtpower.verify_all(parallel => 1000)');
like($err, qr/ERROR:  number of parallel processes 1000 is out of range\nDETAIL:  It must be between 0 and 64\./, 'too many');
($rc, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM mtpower.verify_all(parallel => 60)');
is($rc, 0, 'more than there are');
like($err, qr/NOTICE:  [1-9] of \d+ processes take part\nHINT:  You might need to increase max_worker_processes\./, 'which it tells of');

# An index that this transaction has locked, or made, is left to the session.
is($node->safe_psql('postgres', q{
	BEGIN;
	LOCK TABLE other.o IN ACCESS EXCLUSIVE MODE;
	CREATE INDEX o_new ON other.o USING mtpower_blink (a);
	SELECT string_agg(index || ' ' || result, ',' ORDER BY index::text) FROM mtpower.verify_all('other', parallel => 2);
	COMMIT}), 'other.o_a ok,other.o_new ok', 'locked by the session itself');

# The standby skips what is unlogged.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
my $there = report('heapallindexed => true, parallel => 2');
$there =~ s/u_a.*/u_a|skipped||it is unlogged, and empty during recovery|/;
is(report('heapallindexed => true, parallel => 2', $standby), $there, 'on a standby');
$standby->stop;

# Two damaged indexes: both are reported, and the others are as they were.
my %file = map { $_ => $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_')") } qw(t_b t_h);
$node->stop;
foreach my $name (sort keys %file)
{
	open(my $fh, '+<:raw', $file{$name}) or die;
	seek($fh, 8192 * 3, 0);
	print $fh "\x77" x 4096;
	close $fh;
}
$node->start;
foreach my $parallel (0, 3)
{
	my $found = report("heapallindexed => true, parallel => $parallel");
	like($found, qr/^t_b\|failed\|XX00[12]\|\S.*$/m, "$parallel processes: one damaged index");
	like($found, qr/^t_h\|failed\|XX00[12]\|\S.*$/m, 'the other one');
	is(join("\n", grep { !/^t_[bh]\|/ } split /\n/, $found), join("\n", grep { !/^t_[bh]\|/ } split /\n/, $there =~ s/u_a.*/u_a|ok|||/r), 'the rest');
}

# Who cancels it ends all of it, and the session goes on.
$node->safe_psql('postgres', q{
CREATE FUNCTION slow(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
	IF current_setting('slow.now', true) = 'yes' THEN PERFORM pg_sleep(1000); END IF; RETURN $1; END $$;
CREATE SCHEMA s;
CREATE TABLE s.t (a int) USING mtpower; INSERT INTO s.t VALUES (1);
CREATE INDEX t_slow ON s.t USING mtpower_blink (slow(a));
CREATE INDEX t_slow2 ON s.t USING mtpower_blink (slow(a))});
$node->append_conf('postgresql.conf', "slow.now = 'yes'");
$node->reload;
my $alone = q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'mtpower verifier'};
foreach my $parallel (0, 1)
{
	($rc, $out, $err) = $node->psql('postgres', qq{
		SET statement_timeout = '2s';
		SELECT mtpower.verify_all('s', true, $parallel);
		DO \$\$ BEGIN PERFORM mtpower.verify_all('s', true, $parallel); EXCEPTION WHEN query_canceled THEN RAISE NOTICE 'caught'; END \$\$;
		BEGIN; SAVEPOINT a;
		SELECT mtpower.verify_all('s', true, $parallel);
		ROLLBACK TO a; CREATE TABLE after_$parallel (a int); COMMIT;
		SELECT count(*), current_setting('search_path') FROM after_$parallel}, on_error_stop => 0);
	is(scalar(() = $err =~ /ERROR:  canceling statement due to statement timeout/g), 2, "$parallel processes: it can be cancelled");
	like($err, qr/NOTICE:  caught/, 'its error can be caught');
	is($out, '0|"$user", public', 'the session goes on');
	ok($node->poll_query_until('postgres', $alone), 'and its processes end');
}

# A session that is terminated takes its processes along.
my ($in, $txt) = ("SELECT mtpower.verify_all('s', true, 1);\n", '');
my $session = IPC::Run::start([ 'psql', '-XAtq', '-h', $node->host, '-p', $node->port, 'postgres' ], '<', \$in, '>', \$txt, '2>', \$err);
$session->pump_nb;
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'mtpower verifier'}), 'a process takes part');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^SELECT mtpower.verify_all'});
ok($node->poll_query_until('postgres', $alone), 'which ends with its session');
eval { $session->finish };
$node->append_conf('postgresql.conf', "slow.now = 'no'");
$node->reload;

# What the session alone can read, has locked, or waits for: nobody waits for ever.
is($node->safe_psql('postgres', q{
	CREATE TEMP TABLE tt (a int) USING mtpower;
	CREATE INDEX tt_1 ON tt USING mtpower_blink (a); CREATE INDEX tt_2 ON tt USING mtpower_blink (a); CREATE INDEX tt_3 ON tt USING mtpower_hash (a);
	INSERT INTO tt SELECT generate_series(1, 3000);
	SELECT string_agg(result, ' ') FROM mtpower.verify_all((SELECT relnamespace::regnamespace FROM pg_class WHERE oid = 'tt'::regclass), true, 2)}), 'ok ok ok', 'its own temporary indexes');
# The session is busy with the largest index until a process waits for it.
is($node->safe_psql('postgres', q{
	CREATE SCHEMA r; CREATE TYPE r.pair AS (a int, b int);
	CREATE FUNCTION until_one_waits(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
		WHILE $1 = 1 AND current_setting('r.now', true) = 'yes' LOOP
			PERFORM pg_stat_clear_snapshot(), pg_sleep(0.02);
			EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'mtpower verifier' AND wait_event_type = 'Lock');
		END LOOP;
		RETURN $1; END $$;
	CREATE TABLE r.large (a int) USING mtpower; INSERT INTO r.large SELECT generate_series(1, 20000);
	CREATE INDEX ON r.large USING mtpower_blink (until_one_waits(a));
	CREATE TABLE r.t (p r.pair) USING mtpower; INSERT INTO r.t SELECT row(g, g)::r.pair FROM generate_series(1, 3000) g;
	CREATE INDEX t_1 ON r.t USING mtpower_blink (p); CREATE INDEX t_2 ON r.t USING mtpower_blink (p); CREATE INDEX t_3 ON r.t USING mtpower_blink (p);
	SET statement_timeout = '60s'; SET r.now = 'yes';
	BEGIN; ALTER TYPE r.pair ADD ATTRIBUTE c int;
	SELECT string_agg(result, ' ') FROM mtpower.verify_all('r', true, 2); ROLLBACK}), 'ok ok ok ok', 'a type that it has changed');
is($node->safe_psql('postgres', q{
	SET statement_timeout = '60s';
	BEGIN; LOCK TABLE pg_database;
	SELECT string_agg(result, ' ') FROM mtpower.verify_all('r', false, 2); ROLLBACK}), 'ok ok ok ok', 'what processes need to begin');

# What goes, or becomes invalid, while larger indexes are checked is not damaged.
foreach my $parallel (0, 1)
{
	$node->safe_psql('postgres', q{
		DROP SCHEMA IF EXISTS d CASCADE; CREATE SCHEMA d;
		CREATE FUNCTION d.hold(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
			WHILE $1 = 1 AND NOT pg_try_advisory_xact_lock_shared(1) LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN $1; END $$;
		CREATE TABLE d.large (a int) USING mtpower; INSERT INTO d.large SELECT generate_series(1, 20000);
		CREATE INDEX l_1 ON d.large USING mtpower_blink (d.hold(a)); CREATE INDEX l_2 ON d.large USING mtpower_blink (d.hold(a));
		CREATE TABLE d.small (a int) USING mtpower; INSERT INTO d.small VALUES (1);
		CREATE INDEX s_1 ON d.small (a); CREATE INDEX s_2 ON d.small USING mtpower_hash (a); CREATE INDEX s_3 ON d.small USING mtpower_blink (a);
		CREATE INDEX s_4 ON d.small (a)});
	my ($hold, $check) = ([ '', '' ], [ '', '' ]);
	my @psql = ('psql', '-XAtq', '-h', $node->host, '-p', $node->port, 'postgres');
	my $holder = IPC::Run::start(\@psql, '<', \$hold->[0], '>', \$hold->[1]);
	$hold->[0] = "SELECT pg_advisory_lock(1), 'held';\n";
	$holder->pump until $hold->[1] =~ /held/;
	my $checker = IPC::Run::start([ @psql, '-c', "SELECT result, sqlstate, message FROM mtpower.verify_all('d', true, $parallel)" ], '<', \'', '>', \$check->[0], '2>', \$check->[1]);
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 + $parallel FROM pg_stat_activity WHERE wait_event = 'PgSleep'"), 'large indexes are checked');
	$node->safe_psql('postgres', q{DROP INDEX d.s_1, d.s_2; UPDATE pg_index SET indisvalid = false WHERE indexrelid IN ('d.s_3'::regclass, 'd.s_4'::regclass)});
	$hold->[0] .= "\\q\n";
	$holder->finish;
	$checker->finish;
	is(join("\n", @$check), join("\n", 'ok||', 'ok||', ('skipped||it was dropped meanwhile') x 2, ('skipped||it is not valid') x 2, '', ''), "$parallel processes: what others took");
}

# Long texts are cut between characters.
$node->safe_psql('postgres', q{
CREATE FUNCTION loud(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
	IF current_setting('loud.now', true) = 'yes' THEN RAISE '%', 'x' || repeat('é', 300) USING DETAIL = repeat('é', 300); END IF; RETURN $1; END $$;
CREATE SCHEMA l;
CREATE TABLE l.t (a int) USING mtpower; INSERT INTO l.t VALUES (1);
CREATE INDEX t_loud ON l.t USING mtpower_blink (loud(a))});
is($node->safe_psql('postgres', q{SET loud.now = 'yes'; SELECT result, length(message), length(detail) FROM mtpower.verify_all('l', true)}), 'failed|256|255', 'long texts');
$node->stop;
done_testing();
