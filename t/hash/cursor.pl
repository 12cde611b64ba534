# The loading session's own cursor stands on the bucket that is to be split. The load ends, its
# entries go where there is room, and later batches split what is due. Cursors of other sessions
# delay nobody for longer than they stand there.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpHash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_min_rows = 0
autovacuum = off
fsync = off
statement_timeout = 60s
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql());
my $settings = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;';

sub check
{
	my ($what, $rows) = @_;
	my $err;
	is(differences($node, 'k_a', 'SELECT spread(hashint4(a)) FROM k'), '', "$what: every bucket is as the model has it");
	is($node->psql('postgres', "SELECT mtpower.verify_index('k_a', true)", stderr => \$err), 0, "$what: verifies") or diag($err);
	is($node->safe_psql('postgres', 'SELECT count(*) FROM k'), $rows, "$what: rows");
	# hashint4() gives some numbers the same value.
	is($node->safe_psql('postgres', "$settings SELECT count(*) FROM (SELECT DISTINCT hashint4(g) FROM generate_series(1, 60000) g) x(a) JOIN k USING (a)"), $rows, "$what: all rows are found");
	return space_of($node, 'k_a');
}

# In one transaction: a row, a cursor on it, a load of each kind; the cursor goes on; the end, or back to a savepoint
foreach my $case ([ 'one batch', '16MB', 1 ], [ 'many batches', '64kB', 1 ], [ 'without workers', '64kB', 0 ])
{
	my ($what, $size, $workers) = @$case;
	my ($out, $err);
	$node->append_conf('postgresql.conf', "mtpower.workers = $workers");
	$node->reload;
	$node->safe_psql('postgres', 'CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1); INSERT INTO k VALUES (hashint4(1)), (hashint4(1))');
	is($node->psql('postgres', qq{$settings SET mtpower.batch_size = '$size';
		BEGIN;
		DECLARE c CURSOR FOR SELECT a FROM k WHERE a = hashint4(1);
		FETCH 1 FROM c;
		INSERT INTO k SELECT hashint4(g) FROM generate_series(2, 20000) g;
		SELECT count(*) FROM k WHERE a = hashint4(20000);
		FETCH 1 FROM c;
		FETCH 1 FROM c;
		COMMIT}, stdout => \$out, stderr => \$err), 0, "$what: the load ends") or diag($err);
	is($out, "-1905060026\n1\n-1905060026", "$what: the cursor sees its rows, the next statement the load's");
	my $debt = check($what, 20001);
	is($debt->{b}, 1, "$what: the bucket was not to be had");

	# Where the next load is small, it pays what it finds due all the same.
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(20001, 20300) g');
	my $paid = check("$what, a small load afterwards", 20301);
	cmp_ok($paid->{b}, '>', 1, "$what: later batches pay the debt");
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(20301, 40000) g');
	$paid = check("$what, a large load afterwards", 40001);
	cmp_ok(abs($paid->{b} - 40001 / $paid->{per_bucket}), '<=', 2, "$what: all of it is paid");
	$node->safe_psql('postgres', 'DROP TABLE k');
}

# The cursor goes with a rollback to a savepoint; the load that follows in the same transaction grows.
$node->safe_psql('postgres', 'CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1); INSERT INTO k VALUES (hashint4(1))');
$node->safe_psql('postgres', qq{$settings
	BEGIN;
	SAVEPOINT a;
	DECLARE c CURSOR FOR SELECT a FROM k WHERE a = hashint4(1);
	FETCH 1 FROM c;
	INSERT INTO k SELECT hashint4(g) FROM generate_series(50001, 60000) g;
	ROLLBACK TO a;
	INSERT INTO k SELECT hashint4(g) FROM generate_series(2, 10000) g;
	COMMIT;
	VACUUM k});
cmp_ok(check('savepoint', 10000)->{b}, '>', 10, 'savepoint: it grows once the cursor is gone');

# A loop over a cursor whose body loads.  A DO block fetches row by row, so it stands on the bucket until its end; what is due is paid then.
# A function fetches up to 50 rows at once, and has left the bucket when it comes to the last ones.
my $loop = q{
	DECLARE r record;
	BEGIN
		FOR r IN SELECT row_number() OVER () AS n, a FROM k WHERE a = hashint4(1) LOOP
			INSERT INTO k SELECT hashint4(g) FROM generate_series((r.n * 100)::int, (r.n * 100 + 99)::int) g;
		END LOOP;
	END};
foreach my $how ("DO \$\$$loop\$\$", "CREATE FUNCTION loads() RETURNS void LANGUAGE plpgsql AS \$\$$loop\$\$; SELECT loads()")
{
	my ($kind) = $how =~ /^(\w+)/;
	$node->safe_psql('postgres', "$settings TRUNCATE k; INSERT INTO k SELECT hashint4(1) FROM generate_series(1, 300); $how");
	my $loaded = check("loop, $kind", 30300);
	is($loaded->{b}, 1, "loop, $kind: the bucket is not to be had") if $kind eq 'DO';
	cmp_ok($loaded->{b}, '>', 30, "loop, $kind: it grows once the cursor is at its end") if $kind eq 'CREATE';
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(40001, 40100) g');
	cmp_ok(check("after the loop, $kind", 30400)->{b}, '>', 50, "after the loop, $kind: all is paid");
}

# Cursors of other sessions, which stand while loads go on: the bucket is not split, nor are the entries of an index that has chosen no number of
# buckets yet dealt out
foreach my $case ([ 'beside another session' ], [ 'before the first number of buckets', 'ALTER INDEX k_a RESET (initial_buckets);' ])
{
	my ($what, $before) = @$case;
	$node->safe_psql('postgres', ($before // '') . 'TRUNCATE k; INSERT INTO k VALUES (hashint4(1)), (hashint4(1))');
	my $other = $node->background_psql('postgres');
	$other->query_safe($_) foreach 'SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'BEGIN', 'DECLARE c CURSOR FOR SELECT a FROM k WHERE a = hashint4(1)';
	is($other->query_safe('FETCH 1 FROM c'), '-1905060026', "$what: a cursor stands on the bucket");
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(2, 20000) g');
	is(check($what, 20001)->{b}, 1, "$what: the bucket is not to be had");
	$node->safe_psql('postgres', 'SET mtpower.batching = off; INSERT INTO k SELECT hashint4(g) FROM generate_series(20001, 21000) g');
	check("$what, single rows", 21001);
	is($other->query_safe('FETCH 1 FROM c'), '-1905060026', "$what: it reads on");
	$other->query_safe('COMMIT');
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(21001, 30000) g');
	cmp_ok(check("$what, the other session is gone", 30001)->{b}, '>', 40, "$what: the debt is paid when it is gone");
	$other->quit;
}

# A scan that stood in a bucket when it was split sees each of its rows once: it pins the bucket, so it can't be.  A scan that
# begins beside splits does as well.
$node->safe_psql('postgres', 'DROP TABLE k; CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1, fillfactor = 10); INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 500) g');
my ($stdout, $stderr) = ('', '');
my $load = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), map { my $from = 500 + $_ * 1000; ('-c', "INSERT INTO k SELECT hashint4(g) FROM generate_series($from + 1, $from + 1000) g") } 0 .. 39 ],
	'<', '/dev/null', '>', \$stdout, '2>', \$stderr);
my @wrong;
my $scans = 0;
while ($load->pumpable && $scans < 5000)
{
	my $n = $node->safe_psql('postgres', "$settings SET mtpower.batching = off; SELECT count(*) FROM generate_series(1, 500) g JOIN k ON k.a = hashint4(g)");
	push @wrong, $n if $n != 500;
	$scans++;
	$load->pump_nb;
}
$load->finish;
is($stderr, '', 'loads beside scans');
is(join(' ', @wrong), '', "$scans scans beside splits see every row once");
check('scans beside splits', 40500);
is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, 'no memory is held');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|WARNING/, 'the log is clean');
done_testing();
