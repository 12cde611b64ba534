# Write skew under SERIALIZABLE: one of two transactions fails in the same interleavings as with
# heap and btree, or with heap and hash.
#
# Each case is a spec for the isolation tester, which runs with core's access methods and with
# ours. The tables are so small that core's predicate locks, which are on pages, and ours, which
# are on the index, exclude the same.
use strict;
use warnings;
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tester = dirname($ENV{PG_REGRESS}) . '/../isolation/isolationtester';
plan skip_all => 'there is no isolation tester' if !-x $tester;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
fsync = off
mtpower.batch_min_rows = 0
mtpower.batch_size = '64kB'
});
$node->start;
my $stops = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE FUNCTION gate() RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_lock_shared(155), pg_advisory_unlock_shared(155);
	RETURN false;
END $$;
CREATE FUNCTION gate_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM gate(); RETURN NULL; END';
CREATE TABLE other (k int);
CREATE FUNCTION insert_x() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO x SELECT k, 'new' FROM generate_series(1001, 1040) k;
	RETURN NULL;
END $$;
CREATE TRIGGER insert_x AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION insert_x();
});

my %plans = (
	'Index Scan' => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off',
	'Index Only Scan' => 'SET enable_seqscan = off; SET enable_bitmapscan = off',
	'Bitmap Index Scan' => 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off',
	'Seq Scan' => 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off');
my $none = 'SELECT count(k) FROM %s WHERE k BETWEEN 1001 AND 30000';
my $insert = q{INSERT INTO %s SELECT k, 'new' FROM generate_series(1001, 1040) k};
# These wait for the gate behind their last row: core looks for readers with each row, and would find them by a later one.
my $gated = q{INSERT INTO %s SELECT k, 'new' FROM generate_series(1001, %d) k UNION ALL SELECT 0, '' WHERE gate()};
my $few = sprintf($gated, '%s', 1040);
my $many = sprintf($gated, '%s', 11000);

# What core's hash and ours can be asked
my $one = 'SELECT count(k) FROM %s WHERE k = 1001';
my $any = 'SELECT count(k) FROM %s WHERE k = ANY (ARRAY(SELECT generate_series(1001, 1100)))';

my @tables = ('heap', 'mtpower');
my %ams = (tree => { heap => 'btree', mtpower => 'mtpower_blink' }, hash => { heap => 'hash', mtpower => 'mtpower_hash' });

sub spec
{
	my ($table, $case, @permutations) = @_;
	my $am = $ams{ $case->{kind} // 'tree' }{$table};
	my %sql = (
		s1r => sprintf($case->{read}, 'y'), s1w => sprintf($case->{write}, 'x'),
		s2r => sprintf($case->{read}, 'x'), s2w => sprintf($insert, 'y'));
	my $rows = $case->{empty} ? '' : 'INSERT INTO x SELECT k FROM generate_series(1, 20) k; INSERT INTO y SELECT k FROM generate_series(1, 20) k;';
	my $trigger = $case->{trigger} ? 'CREATE TRIGGER gate AFTER INSERT ON x EXECUTE FUNCTION gate_trigger();' : '';
	my $set = $case->{set} ? "SET $case->{set};" : '';
	return qq{
setup
{
	CREATE TABLE x (k int, v text) USING $table;
	CREATE INDEX ON x USING $am (k);
	CREATE TABLE y (k int, v text) USING $table;
	CREATE INDEX ON y USING $am (k);
	$rows
	$trigger
}
teardown { DROP TABLE x, y; }
session locks
step lock	{ SELECT pg_advisory_lock(155); }
step unlock	{ SELECT pg_advisory_unlock(155); }
session s1
setup		{ $plans{$case->{plan}}; $set BEGIN ISOLATION LEVEL SERIALIZABLE; }
step s1r	{ $sql{s1r}; }
step s1w	{ $sql{s1w}; }
step s1c	{ COMMIT; }
session s2
setup		{ $plans{$case->{other} // $case->{plan}}; BEGIN ISOLATION LEVEL SERIALIZABLE; }
step s2r	{ $sql{s2r}; }
step s2w	{ $sql{s2w}; }
step s2c	{ COMMIT; }
} . join('', map { "permutation $_\n" } @permutations);
}

# All ways to merge two lists.
sub merges
{
	my ($l, $r) = @_;
	return join(' ', @$l, @$r) if !@$l || !@$r;
	my ($lh, @lt) = @$l;
	my ($rh, @rt) = @$r;
	return ((map { "$lh $_" } merges(\@lt, $r)), (map { "$rh $_" } merges($l, \@rt)));
}

# For each permutation who failed, and how.
sub run_spec
{
	my ($what, $table, $spec) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ $tester, $node->connstr('postgres') ], '<', \$spec, '>', \$out, '2>', \$err) or diag($err);
	my (undef, %parts) = split(/^starting permutation: (.*)$/m, $out);
	foreach my $part (values %parts)
	{
		my @errors = $part =~ /^(?:step \w+: )?ERROR:  (.*)$/mg;
		$part = join(', ', map { s/^could not serialize access.*/40001/r } grep { !/^current transaction is aborted/ } @errors) || 'none';
	}
	return \%parts;
}

sub compare
{
	my ($what, $case, @permutations) = @_;
	my %results = map { $_ => run_spec($what, $_, spec($_, $case, @permutations)) } @tables;
	my $failing = grep { $_ ne 'none' } values %{ $results{heap} };
	is(scalar(keys %{ $results{heap} }), scalar(@permutations), "$what: all permutations ran");
	cmp_ok($failing, '>', 0, "$what: in some of them one fails");
	is_deeply([ grep { !/^(none|40001)$/ } map { values %$_ } values %results ], [], "$what: one alone, with a serialization failure");
	is_deeply($results{mtpower}, $results{heap}, "$what: in the same ones as with heap and core's index");
}

foreach my $plan (sort keys %plans)
{
	$node->safe_psql('postgres', "CREATE TABLE x (k int, v text) USING mtpower; CREATE INDEX ON x USING mtpower_blink (k)");
	like($node->safe_psql('postgres', "$plans{$plan}; EXPLAIN " . sprintf($none, 'x')), qr/$plan/, $plan);
	$node->safe_psql('postgres', 'DROP TABLE x');
}
foreach my $plan ([ 'Index Scan', $one ], [ 'Bitmap Index Scan', $any ])
{
	$node->safe_psql('postgres', 'CREATE TABLE x (k int, v text) USING mtpower; CREATE INDEX ON x USING mtpower_hash (k)');
	like($node->safe_psql('postgres', "$plans{$plan->[0]}; EXPLAIN " . sprintf($plan->[1], 'x')), qr/$plan->[0]/, "hash, $plan->[0]");
	$node->safe_psql('postgres', 'DROP TABLE x');
}

# Statement by statement: all interleavings, and those where both read first.
my @all = merges([qw(s1r s1w s1c)], [qw(s2r s2w s2c)]);
my @skew = grep { /^s[12]r s[12]r/ } @all;
compare('INSERT … SELECT', { plan => 'Index Scan', read => $none, write => $insert }, @all);
compare('COPY', { plan => 'Bitmap Index Scan', empty => 1, read => $none, write => q{COPY %s (k) FROM PROGRAM 'seq 1001 1040'} }, @all);
compare('CTE', { plan => 'Index Only Scan', read => $none, write => "WITH w AS ($insert) SELECT 1" }, @skew);
compare('UPDATE', { plan => 'Index Scan', read => 'SELECT max(k) FROM %s', write => 'UPDATE %s SET k = k + 1000' }, @skew);
compare('trigger', { plan => 'Index Only Scan', read => $none, write => 'INSERT INTO other VALUES (1)' }, @skew);
compare('one by index, one by table', { plan => 'Seq Scan', other => 'Index Scan', read => $none, write => $insert }, @all);
compare('by table', { plan => 'Seq Scan', read => $none, write => $insert }, @skew);
compare('at once', { plan => 'Index Scan', read => $none, write => $insert, set => 'mtpower.batch_min_rows = 100000' }, @skew);

compare('hash, INSERT … SELECT', { kind => 'hash', plan => 'Index Scan', read => $one, write => $insert }, @all);
compare('hash, COPY', { kind => 'hash', plan => 'Bitmap Index Scan', empty => 1, read => $any, write => q{COPY %s (k) FROM PROGRAM 'seq 1001 1040'} }, @all);
compare('hash, CTE', { kind => 'hash', plan => 'Index Scan', read => $one, write => "WITH w AS ($insert) SELECT 1" }, @skew);
compare('hash, trigger', { kind => 'hash', plan => 'Bitmap Index Scan', read => $any, write => 'INSERT INTO other VALUES (1)' }, @skew);
compare('hash, at once', { kind => 'hash', plan => 'Index Scan', read => $one, write => $insert, set => 'mtpower.batch_min_rows = 100000' }, @skew);

# The reader comes while s1's statement is under way.
my @within = map { "lock $_" } grep { /s1w.* s2r.* unlock/ } merges([qw(s1r s1w unlock s1c)], [qw(s2r s2w s2c)]);
compare('within INSERT … SELECT', { plan => 'Index Scan', read => $none, write => $few }, @within);
compare('within INSERT … SELECT, empty tables', { plan => 'Index Only Scan', empty => 1, read => $none, write => $few }, @within);
compare('within several batches', { plan => 'Bitmap Index Scan', read => $none, write => $many }, @within);
compare('within several batches, one by index, one by table', { plan => 'Index Scan', other => 'Seq Scan', read => $none, write => $many }, @within);
compare('within COPY', { plan => 'Index Only Scan', read => $none, trigger => 1,
	write => q{COPY %s (k) FROM PROGRAM 'seq 1001 3000'} }, @within);
compare('within a CTE', { plan => 'Index Scan', read => $none, write => "WITH w AS ($few) SELECT 1" }, @within);
compare('within a subtransaction', { plan => 'Index Scan', read => $none,
	write => "DO \$\$ BEGIN BEGIN $few; EXCEPTION WHEN division_by_zero THEN END; END \$\$" }, @within);

compare('hash, within INSERT … SELECT', { kind => 'hash', plan => 'Index Scan', read => $one, write => $few }, @within);
compare('hash, within several batches', { kind => 'hash', plan => 'Bitmap Index Scan', empty => 1, read => $any, write => $many }, @within);
compare('hash, within COPY', { kind => 'hash', plan => 'Index Scan', read => $one, trigger => 1,
	write => q{COPY %s (k) FROM PROGRAM 'seq 1001 3000'} }, @within);
compare('hash, within a subtransaction', { kind => 'hash', plan => 'Index Scan', read => $one,
	write => "DO \$\$ BEGIN BEGIN $few; EXCEPTION WHEN division_by_zero THEN END; END \$\$" }, @within);

# A single entry goes in when core has already looked for readers.
SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if !$stops;
	# All rows are in, and their entries go in: before the first step, before and after the owner's own one, and when all are in.
	foreach my $point ('drain', 'step_checked', 'step_applied', 'detach')
	{
		compare("at $point", { plan => 'Index Scan', read => $none, set => "mtpower.debug_injection = '$point=wait'", write => $insert }, @within);
		compare("hash, at $point", { kind => 'hash', plan => 'Bitmap Index Scan', read => $any, set => "mtpower.debug_injection = '$point=wait'", write => $insert }, @within);
	}
	compare('hash, within a single INSERT', { kind => 'hash', plan => 'Index Scan', read => $one, set => q{mtpower.batch_min_rows = 1; SET mtpower.debug_injection = 'insert_begins=wait'},
		write => q{INSERT INTO %s VALUES (1001, 'new')} }, @within);
	compare('within a single INSERT', { plan => 'Index Scan', read => $none, set => q{mtpower.batch_min_rows = 1; SET mtpower.debug_injection = 'insert_begins=wait'},
		write => q{INSERT INTO %s VALUES (1001, 'new')} }, @within);
}
is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, 'no memory is held');
$node->stop;
done_testing();
