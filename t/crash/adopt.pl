# The server stops at once after adopt and release. What was committed stays, including rows that
# skipped WAL.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
max_prepared_transactions = 5
});

my @ams = ('heap', 'mtpower');
foreach my $wal ('minimal', 'replica')
{
	$node->append_conf('postgresql.conf', "wal_level = $wal\nmax_wal_senders = 0\n");
	$node->start;
	$node->safe_psql('postgres', "DROP DATABASE IF EXISTS work");
	$node->safe_psql('postgres', "CREATE DATABASE work");
	$node->safe_psql('work', q{
		CREATE EXTENSION mtpower;
		CREATE TABLE old (a int);
		INSERT INTO old SELECT generate_series(1, 1000);
		CREATE TABLE undone (a int);
		CREATE TABLE prepared (a int);
		CREATE TABLE refilled (a int PRIMARY KEY);
		INSERT INTO refilled VALUES (1);
		CHECKPOINT;
		SELECT mtpower.adopt('old');
		BEGIN;
		CREATE TABLE fresh (a int, b text);
		CREATE INDEX ON fresh (a);
		SELECT mtpower.adopt('fresh');
		COPY fresh FROM PROGRAM 'seq -f "%g	row" 1 5000';
		COMMIT;
		BEGIN;
		CREATE TABLE freed (a int) USING mtpower;
		COPY freed FROM PROGRAM 'seq 1 3000';
		SAVEPOINT s;
		SELECT mtpower.release('freed');
		ROLLBACK TO s;
		COPY freed FROM PROGRAM 'seq 1 2000';
		SELECT mtpower.release('freed');
		COPY freed FROM PROGRAM 'seq 1 1000';
		COMMIT;
		BEGIN;
		TRUNCATE refilled;
		SELECT mtpower.adopt('refilled');
		COPY refilled FROM PROGRAM 'seq 1 4000' (FREEZE);
		COMMIT;
		BEGIN;
		SELECT mtpower.adopt('prepared');
		INSERT INTO prepared VALUES (1);
		PREPARE TRANSACTION 'prepared';
	});
	my $open = $node->background_psql('work');
	$open->query(q{BEGIN; SELECT mtpower.adopt('undone'); INSERT INTO undone SELECT generate_series(1, 1000); CHECKPOINT});
	$node->stop('immediate');
	eval { $open->quit };
	$node->start;
	$node->safe_psql('work', q{COMMIT PREPARED 'prepared'});

	is($node->safe_psql('work', q{
		SELECT c.relname, amname, (SELECT count(*) FROM pg_depend d WHERE d.objid = c.oid AND d.refclassid = 'pg_am'::regclass)
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 1}),
		"freed|heap|0\nfresh|mtpower|1\nold|mtpower|1\nprepared|mtpower|1\nrefilled|mtpower|1\nundone|heap|0",
		"wal_level $wal: access methods after a crash");
	is($node->safe_psql('work', q{
		SET enable_seqscan = off;
		SELECT (SELECT count(*) FROM freed), (SELECT count(*) FROM fresh WHERE a > 0), (SELECT count(*) FROM old),
			(SELECT count(*) FROM prepared), (SELECT count(*) FROM refilled WHERE a > 0), (SELECT count(*) FROM undone)}),
		'6000|5000|1000|1|4000|0', "wal_level $wal: rows after a crash");
	$node->stop;
}

done_testing();
