# mtpower.stat_progress: a row for each statement that queues and one for each of its indexes, from
# its first entries until the last are in; for those who may see it; gone with its statement,
# however that ends.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
shared_buffers = 128MB
mtpower.batch_size = 4MB
mtpower.workers = 0
autovacuum = off
fsync = off
});
$node->start;
my $rows = 300_000;
my $file = $node->basedir . '/rows.csv';
open(my $out, '>', $file) or die "$file: $!";
printf $out "%d,%d\n", $_, $_ * 7919 % 1_000_003 foreach 1 .. $rows;
close $out;
chmod 0755, $node->basedir;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE ROLE loader LOGIN;
CREATE ROLE stranger LOGIN;
CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
GRANT pg_read_server_files TO loader;
GRANT ALL ON SCHEMA public TO PUBLIC;
SET ROLE loader;
CREATE TABLE t (a int PRIMARY KEY, b int) USING mtpower;
CREATE INDEX t_b ON t USING mtpower_blink (b);
CREATE INDEX t_h ON t USING mtpower_hash (b);
});
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION mtpower');

# What a user sees: lines of relation|index|phase|rows|queued|applied|percent
sub seen
{
	my ($user, $db) = (@_, 'postgres')[ 0, 1 ];
	return $node->safe_psql($db, q{SELECT relation, index, phase, rows, entries_queued, entries_applied, percent
		FROM mtpower.stat_progress ORDER BY index IS NOT NULL, index::text}, extra_params => [ '-U', $user ]);
}

# A COPY from a file, watched until it is over
my ($copied, $complaint) = ('', '');
my $load = IPC::Run::start([ 'psql', '-XAtq', '-U', 'loader', '-h', $node->host, '-p', $node->port, '-c', "COPY t FROM '$file' WITH (FORMAT csv)", 'postgres' ],
	'<', '/dev/null', '>', \$copied, '2>', \$complaint);
my (%phases, @percent, %indexes, $wrong, $most);
while ($load->pumpable)
{
	my @lines = split /\n/, seen('watcher');
	foreach (@lines)
	{
		my ($relation, $index, $phase, $n, $queued, $applied, $percent) = split /\|/, $_, -1;
		$phases{$phase}++;
		$wrong = $_ if $relation ne 't' || $applied > $queued || $queued > 3 * $rows || ($n && $n > $rows);
		$indexes{$index}++ if $index;
		push @percent, $percent if !$index && $percent ne '';
		$most = $n if !$index && $phase ne 'loading';
	}
	$load->pump_nb;
	sleep 0.02;
}
$load->finish;
is($complaint, '', 'no error');
is($wrong, undef, 'what is shown is in its ranges');
is(join(' ', sort keys %phases), 'applying last entries loading', 'both phases are seen');
is(join(' ', sort keys %indexes), 't_b t_h t_pkey', 'each index has a row');
is($most, $rows, 'in the last phase all rows have come');
cmp_ok(scalar @percent, '>', 2, 'there are per cents');
is(scalar(grep { $_ < 0 || $_ > 100 } @percent), 0, 'from 0 to 100');
cmp_ok($percent[-1], '>', $percent[0], 'that rise');
is(seen('watcher'), '', 'nothing is left of it');

# The session goes on: behind a statement, one that fails, and one whose savepoint is rolled back
my $left = 'SELECT count(*) FROM mtpower.stat_progress;';
my (undef, $stays) = $node->psql('postgres', qq{
CREATE TABLE s (a int) USING mtpower; CREATE INDEX s_a ON s USING mtpower_blink (a);
INSERT INTO s SELECT generate_series(1, 20000); $left
INSERT INTO s SELECT 1 / (15000 - g) FROM generate_series(1, 20000) g; $left
BEGIN; SAVEPOINT a; INSERT INTO s SELECT generate_series(1, 20000); ROLLBACK TO a; $left COMMIT}, on_error_stop => 0);
is($stays, "0\n0\n0", 'nor in a session that goes on');

# A load that waits for its client: who sees it
$node->safe_psql('postgres', 'TRUNCATE t');
my ($in, $txt, $err) = ('', '', '');
my $session = IPC::Run::start([ 'psql', '-XAtq', '-U', 'loader', '-h', $node->host, '-p', $node->port, 'postgres' ], '<', \$in, '>', \$txt, '2>', \$err);
$in = "COPY t FROM STDIN WITH (FORMAT csv);\n" . join('', map { "$_,$_\n" } 1 .. 100_000);
my $there = q{SELECT count(*) = 4 AND min(rows) > 50000 FROM mtpower.stat_progress};
foreach (1 .. 600)
{
	$session->pump_nb;
	last if $node->safe_psql('postgres', $there) eq 't';
	sleep 0.05;
}
like(seen('watcher'), qr/^t\|\|loading\|\d{5,6}\|\d+\|\d+\|\nt\|t_b\|loading\|\|\d+\|\d+\|\n/, 'without a file there are no per cents while rows come');
is(seen('stranger'), '', 'a stranger sees nothing');
like(seen('loader'), qr/^t\|\|loading/, 'the loading role sees its own');
like(seen('watcher', 'other'), qr/^\|\|loading\|\d+\|\d+\|\d+\|$/m, 'another database does not name tables');
my $pid = $node->safe_psql('postgres', 'SELECT DISTINCT pid FROM mtpower.stat_progress');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 10000)");
eval { $session->finish };
is(seen('watcher'), '', 'what is terminated is gone');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '0', 'with its rows');

# A statement within another counts for that; what a subtransaction throws away does not.
$node->safe_psql('postgres', q{
CREATE TABLE o (a int) USING mtpower;
CREATE INDEX o_a ON o USING mtpower_blink (a);
CREATE TABLE i (a int) USING mtpower;
CREATE INDEX i_a ON i USING mtpower_blink (a);
CREATE TABLE saw (n int, what text);
CREATE FUNCTION look(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF n = 150000 THEN
		INSERT INTO i SELECT generate_series(1, 100000);
		INSERT INTO saw SELECT 1, string_agg(concat_ws(' ', relation, index, entries_queued > 99000, rows > 240000), ',' ORDER BY index::text NULLS FIRST)
			FROM mtpower.stat_progress;
	ELSIF n = 150001 THEN
		BEGIN
			INSERT INTO i SELECT g / (g - 90000) FROM generate_series(1, 100000) g;
		EXCEPTION WHEN division_by_zero THEN
		END;
		INSERT INTO saw SELECT 2, entries_queued BETWEEN 100000 AND 250000 FROM mtpower.stat_progress WHERE index IS NULL;
	END IF;
	RETURN n;
END $$;
INSERT INTO o SELECT look(g) FROM generate_series(1, 200000) g;
});
is($node->safe_psql('postgres', 'SELECT what FROM saw ORDER BY n'), "o t t,i i_a t,o o_a t\ntrue", 'statements within a statement');
is(seen('watcher'), '', 'nothing is left of them');

# Many indexes: the first ones have rows, and the session's has the sum.
$node->safe_psql('postgres', q{
CREATE TABLE p (a int, b int) PARTITION BY LIST (a);
SELECT format('CREATE TABLE p%s PARTITION OF p FOR VALUES IN (%s) USING mtpower', g, g) FROM generate_series(0, 49) g \gexec
CREATE INDEX ON p USING mtpower_blink (b);
CREATE FUNCTION look_at_many(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF n = 400000 THEN
		INSERT INTO saw SELECT 3, concat_ws(' ', count(index), sum(entries_queued) FILTER (WHERE index IS NULL) > sum(entries_queued) FILTER (WHERE index IS NOT NULL),
			sum(entries_queued) FILTER (WHERE index IS NULL) BETWEEN 150000 AND 400000) FROM mtpower.stat_progress;
	END IF;
	RETURN n;
END $$;
INSERT INTO p SELECT g % 50, look_at_many(g) FROM generate_series(1, 400000) g;
});
is($node->safe_psql('postgres', 'SELECT what FROM saw WHERE n = 3'), '32 t t', 'many indexes');
$node->stop;
done_testing();
