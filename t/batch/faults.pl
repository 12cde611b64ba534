# Loads are cancelled, terminated, and run without memory or workers, and their workers die. A
# load is there as a whole or not at all, and indexes are sound.
#
# Variants: blink hash btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpVariant;
use Time::HiRes qw(sleep time);

my $am = access_method();

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 2
autovacuum = off
restart_after_crash = on
});
$node->start;
my $csv = $node->basedir . '/rows.csv';
my $small = $node->basedir . '/few.csv';
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE TABLE t (id int, a int, b text COLLATE "C", c numeric) USING mtpower;
CREATE INDEX ta ON t USING $am (a);
CREATE INDEX tb ON t USING $am (b);
CREATE INDEX tc ON t USING $am (c, a);
COPY (SELECT i, hashint4(i), md5(i::text), (hashint4(i) % 1000) / 7.0 FROM generate_series(1, 60000) i) TO '$csv' (FORMAT csv);
COPY (SELECT i, hashint4(i), md5(i::text), i / 7.0 FROM generate_series(1, 1500) i) TO '$small' (FORMAT csv);
});

# Rows, and whether all indexes agree with the table and no batch memory is held.
sub state_of
{
	my ($server, $what) = @_;
	is($server->safe_psql('postgres', "SELECT count(*) FROM (SELECT verify_one(indexrelid) FROM pg_index WHERE indrelid = 't'::regclass) x"),
		3, "$what: indexes verify");
	return $server->safe_psql('postgres', 'SELECT count(*) FROM t');
}

# psql in the background, each statement of its own; returns what finish() needs.
sub start_psql
{
	my ($server, @sql) = @_;
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'psql', '-XAt', '-v', 'ON_ERROR_STOP=1', '-d', $server->connstr('postgres'), map { ('-c', $_) } @sql ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	return { run => $run, out => \$out, err => \$err };
}

sub finish
{
	my ($job) = @_;
	$job->{run}->finish;
	return $job->{run}->result(0);
}

my $start = time;
is($node->psql('postgres', "COPY t FROM '$csv' (FORMAT csv)"), 0, 'a load without trouble');
my $whole = time - $start;
is(state_of($node, 'plain load'), 60000, 'all rows are there');

# statement_timeout at every phase
foreach my $part (1 .. 8)
{
	my $ms = int(1000 * $whole * $part / 8) || 1;
	my ($out, $err);
	$start = time;
	my $rc = $node->psql('postgres', "BEGIN; SET LOCAL statement_timeout = $ms; COPY t FROM '$csv' (FORMAT csv); ROLLBACK",
		stdout => \$out, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	cmp_ok(time - $start, '<', $ms / 1000 + 4, "timeout of part $part of 8: over soon");
	ok($rc == 0 || $err =~ /57014/, "timeout of part $part of 8: clean error, if any");
}
is(state_of($node, 'timeouts'), 60000, 'nothing of the cancelled loads is visible');

# The backend is terminated, or its client goes away
foreach my $part (1 .. 4)
{
	my $job = start_psql($node, "COPY t FROM '$csv' (FORMAT csv)");
	sleep($whole * $part / 5);
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query LIKE 'COPY t%'});
	finish($job);
}
my $rows = state_of($node, 'terminated backends');
is($rows % 60000, 0, 'loads of terminated backends are there whole or not at all');

# Workers are terminated again and again while loads go on
foreach my $round (1 .. 4)
{
	my $job = start_psql($node, "COPY t FROM '$csv' (FORMAT csv)");
	foreach (1 .. 10)
	{
		sleep($whole / 10);
		$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'mtpower worker'});
	}
	ok(finish($job) == 0, "load $round goes on without its workers") or diag(${ $job->{err} });
	$rows += 60000;
}
is(state_of($node, 'terminated workers'), $rows, 'all of their rows are there');
is($node->psql('postgres', 'VACUUM t'), 0, 'VACUUM does not hang afterwards');

# Another session's LOCK TABLE … NOWAIT right behind each load, some of whose entries workers put in
SKIP:
{
	skip 'dblink is not installed', 1 if $node->psql('postgres', 'CREATE EXTENSION dblink') != 0;
	my ($out, $err);
	my $by_workers = q{SELECT sum(tasks_workers) FROM mtpower.stat_batches};
	my $before = $node->safe_psql('postgres', $by_workers);
	my $rc = $node->psql('postgres', qq{
TRUNCATE t;
SELECT dblink_connect('load', \$c\$} . $node->connstr('postgres') . qq{\$c\$);
SELECT dblink_exec('load', 'SET mtpower.batch_size = ''64kB''');
DO \$\$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		PERFORM dblink_exec('load', 'COPY t FROM ''$small'' (FORMAT csv)');
		BEGIN
			LOCK TABLE t NOWAIT;
			IF i % 50 = 0 AND i < 1000 THEN
				TRUNCATE t;
			ELSE
				RAISE EXCEPTION USING ERRCODE = 'MT000';
			END IF;
		EXCEPTION WHEN SQLSTATE 'MT000' THEN
		END;
		COMMIT;
	END LOOP;
END \$\$}, stderr => \$err);
	is($rc, 0, 'LOCK TABLE … NOWAIT behind each of 1000 loads') or diag($err);
	is(state_of($node, 'small loads'), 50 * 1500, 'all their rows are there');
	my $tasks = $node->safe_psql('postgres', $by_workers) - $before;
	# Of btree's they only sort.
	cmp_ok($tasks, '>=', 100, 'workers took part in them') if $am ne 'btree';
	note("$tasks tasks were workers'");
}

# kill -9 of a worker is a crash, as any backend's
{
	# Places of workers that were terminated before they came up are free again after some seconds.
	my $job = start_psql($node, ("COPY t FROM '$csv' (FORMAT csv)") x 10);
	my $pid;
	foreach (1 .. 300)
	{
		sleep(0.05);
		$pid = $node->safe_psql('postgres', q{SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'mtpower worker'});
		last if $pid;
	}
	ok($pid, 'a worker came up');
	kill 'KILL', $pid if $pid;
	finish($job);
	my $back = 0;
	for (my $until = time + 60; !$back && time < $until; sleep(0.1))
	{
		$back = finish(start_psql($node, 'SELECT 1')) == 0;
	}
	ok($back, 'the server is back');
	state_of($node, 'killed worker');
	is($node->psql('postgres', "COPY t FROM '$csv' (FORMAT csv)"), 0, 'the next load works');
}
$node->stop;

# Eight loads with hardly any memory, and no worker to be had
my $poor = PostgreSQL::Test::Cluster->new('poor');
$poor->init;
$poor->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batch_memory = 1MB
max_worker_processes = 2
autovacuum = off
});
$poor->start;
$poor->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE TABLE t (id int, a int, b text COLLATE "C", c numeric) USING mtpower;
CREATE INDEX ta ON t USING $am (a);
CREATE INDEX tb ON t USING $am (b);
CREATE INDEX tc ON t USING $am (c, a);
});
my @jobs = map { start_psql($poor, "COPY t FROM '$csv' (FORMAT csv)") } 1 .. 8;
is(scalar(grep { finish($_) == 0 } @jobs), 8, 'eight loads end well');
is(state_of($poor, 'little memory'), 8 * 60000, 'all rows are there');
like(slurp_file($poor->logfile), qr/mtpower could not start a batch worker/, 'the log says that there are no workers');
$poor->stop;

done_testing();
