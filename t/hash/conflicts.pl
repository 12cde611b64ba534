# Sessions meet at rows that hash indexes find. An exclusion constraint waits for the other
# transaction; UPDATE, DELETE and SELECT FOR UPDATE look at the new version of a row that the
# other has changed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batch_min_rows = 0
autovacuum = off
fsync = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE TABLE e (a int, b int, EXCLUDE USING mtpower_hash (a WITH =)) USING mtpower;
CREATE INDEX e_b ON e USING mtpower_hash (b);
CREATE TABLE d (a int, b int, EXCLUDE USING mtpower_hash (a WITH =) DEFERRABLE INITIALLY DEFERRED) USING mtpower;
CREATE TABLE q (k int, v int, w int) USING mtpower;
CREATE INDEX q_k ON q USING mtpower_hash (k);
CREATE INDEX q_kv ON q USING mtpower_hash (k, v);
});
my $first = $node->background_psql('postgres');

# One session does something and stays in its transaction; the other waits for it, until it ends.  Returns the other one's output and error.
sub beside
{
	my ($what, $does, $end, @other) = @_;
	my ($out, $err) = ('', '');
	$first->query_safe($_) foreach 'BEGIN', $does;
	my $job = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr('postgres'), map { ('-c', $_) } @other ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted}), "$what: waits");
	$first->query_safe($end);
	$job->finish;
	chomp($out, $err);
	return ($out, $err);
}

sub sound
{
	my ($what, $table) = @_;
	my $err;
	is($node->psql('postgres', "SELECT mtpower.verify_index(indexrelid, true) FROM pg_index WHERE indrelid = '$table'::regclass", stderr => \$err), 0, "$what: verifies") or diag($err);
	return;
}

foreach my $table ('e', 'd')
{
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		foreach my $other ('INSERT INTO TAB VALUES (1, 2)', 'INSERT INTO TAB VALUES (1, 2) ON CONFLICT DO NOTHING', 'UPDATE TAB SET a = 1 WHERE a = 5', 'INSERT INTO TAB SELECT g, g FROM generate_series(-2000, 1) g')
		{
			next if $table eq 'd' && $other =~ /CONFLICT/;
			my $what = "$end, " . $other =~ s/TAB/$table/r;
			$node->safe_psql('postgres', "TRUNCATE $table; INSERT INTO $table VALUES (5, 5)");
			my (undef, $err) = beside($what, "INSERT INTO $table VALUES (1, 1)", $end, $other =~ s/TAB/$table/r);
			is($err, $end eq 'COMMIT' && $other !~ /CONFLICT/ ? 'ERROR:  23P01' : '', "$what: its error");
			is($node->safe_psql('postgres', "SELECT count(*), min(b) FROM $table WHERE a = 1"), '1|' . ($end eq 'COMMIT' ? 1 : $other =~ /VALUES/ ? 2 : $other =~ /UPDATE/ ? 5 : 1), "$what: one row");
			sound($what, $table);
		}
	}
}

my @settings = ('SET enable_seqscan = off', 'SET jit = off');
foreach my $case (
	[ 'UPDATE q SET k = 50 WHERE k = 5 AND v = 5', 'UPDATE q SET w = w + 1 WHERE k = 5', 'w = 1', 99 ],
	[ 'UPDATE q SET w = 100 WHERE v = 6', 'UPDATE q SET w = w + 1 WHERE k = 6', 'w = 101', 1 ],
	[ 'UPDATE q SET k = 7, v = -8 WHERE v = 8', 'DELETE FROM q WHERE k = 8', 'v = -8', 1 ],
	[ 'UPDATE q SET v = v + 5000 WHERE k = 9', 'UPDATE q SET w = -1 FROM (VALUES (9, 9)) x(k, v) WHERE q.k = x.k AND q.v = x.v', 'w = -1', 0 ],
	[ 'DELETE FROM q WHERE v = 1', 'SELECT v FROM q WHERE k = 1 FOR UPDATE', 'k = 1', 99 ])
{
	my ($does, $other, $where, $want) = @$case;
	foreach my $kind ('enable_bitmapscan', 'enable_indexscan')
	{
		my $what = "$does; $other, $kind off";
		$node->safe_psql('postgres', 'TRUNCATE q; INSERT INTO q SELECT g % 10, g, 0 FROM generate_series(1, 1000) g');
		my ($out, $err) = beside($what, $does, 'COMMIT', @settings, "SET $kind = off", $other);
		is($err, '', "$what: no error");
		is(scalar(my @rows = split /\n/, $out), 99, "$what: rows") if $other =~ /^SELECT/;
		is($node->safe_psql('postgres', "SELECT count(*) FROM q WHERE $where"), $want, "$what: what it did");
		sound($what, 'q');
	}
}
$first->quit;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|WARNING/, 'the log is clean');
$node->stop;
done_testing();
