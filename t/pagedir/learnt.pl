# Scans teach which column page directories are made of: the one with the largest count, from the
# second scan on, until another one has twice its count. Counts are compared with a model, step by
# step, while columns, partitions and tables come and go.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

my $seed = $ENV{SEED} // 15;
my $dir = MtpFaults::compile('demand');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$dir:\$libdir'
shared_preload_libraries = 'mtpower'
autovacuum = off
fsync = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE FUNCTION demand_count(regclass, VARIADIC int2[]) RETURNS void LANGUAGE c STRICT AS 'demand';
CREATE TABLE t (a int, b int, c int, d int, e int, f int, g int, h int, i int, j int, k json) USING mtpower;
});

sub scan { my ($table, @columns) = @_; return "SELECT demand_count('$table', " . join(', ', map { "${_}::int2" } @columns) . ');'; }
sub shown { my ($table) = @_; return "SELECT choice || ' ' || coalesce(columns::text, '') FROM mtpower.directory('$table');"; }
sub learnt { my ($table) = @_; return $node->safe_psql('postgres', shown($table)); }

# ---------- when, and which ----------

is(learnt('t'), 'learnt ', 'nothing is learnt of a table that nobody has scanned');
$node->safe_psql('postgres', scan('t', 2));
is(learnt('t'), 'learnt ', 'nor by a single scan');
$node->safe_psql('postgres', scan('t', 2));
is(learnt('t'), 'learnt {b}', 'but by the second one');
$node->safe_psql('postgres', scan('t', 2, 3) . scan('t', 3) . scan('t', 3));
is(learnt('t'), 'learnt {b}', 'a column with a few scans more does not take its place');
$node->safe_psql('postgres', scan('t', 3) x 5);
is(learnt('t'), 'learnt {c}', 'one with twice as many does');

# ---------- what leaves most of the rows ----------

# Of BETWEEN, both halves together
$node->safe_psql('postgres', q{CREATE TABLE wide (a int, b int, c int, d int) USING mtpower; INSERT INTO wide SELECT g, g, g % 2, nullif(g % 100, 0) FROM generate_series(1, 20000) g; VACUUM ANALYZE wide});
$node->safe_psql('postgres', q{SELECT count(*) FROM wide WHERE a > 100 AND c = 1 AND d IS NOT NULL}) for 1 .. 5;
is(learnt('wide'), 'learnt ', 'nothing is learnt from scans that read most rows');
$node->safe_psql('postgres', q{SELECT count(*) FROM wide WHERE a > 100 AND b BETWEEN 9900 AND 10000 AND c = 1}) for 1 .. 2;
is(learnt('wide'), 'learnt {b}', 'two scans that read few are enough after that');
$node->safe_psql('postgres', q{SET plan_cache_mode = force_generic_plan; PREPARE q(int) AS SELECT count(*) FROM wide WHERE a > $1; } . 'EXECUTE q(19990);' x 5);
is(learnt('wide'), 'learnt {a}', 'where nothing is known of a value it counts');

# ---------- scans by an index ----------

# Half of the table by an index on a, in any order; of b it wants one row.
my @way = ('SET random_page_cost = 1', 'SET max_parallel_workers_per_gather = 0');
my $way = 'SELECT * FROM way WHERE a < 7000 AND b = 77';
sub way { return $node->safe_psql('postgres', join(';', @way, @_)); }
sub way_plan { my (@before) = @_; return way(@before, "EXPLAIN (COSTS OFF) $way") =~ /^[ >-]*(.*?) on way/m ? $1 : ''; }
$node->safe_psql('postgres', q{CREATE TABLE way (a int, b int, c int, v text) USING mtpower; INSERT INTO way SELECT g * 7919 % 20000, g, g % 10, repeat('v', 100) FROM generate_series(1, 20000) g;
	CREATE INDEX way_a ON way USING btree (a); VACUUM ANALYZE way});
my @kinds = (['SET enable_indexscan = off', 'Bitmap Heap Scan', 'mtpower_blink'], ['SET enable_bitmapscan = off', 'Index Scan using way_a', 'mtpower_blink'],
	['SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET enable_indexscan = off', 'Parallel Bitmap Heap Scan', 'btree']);
foreach my $kind (@kinds)
{
	my ($set, $scan, $am) = @$kind;
	$node->safe_psql('postgres', "ALTER TABLE way RENAME TO gone; CREATE TABLE way (LIKE gone) USING mtpower; INSERT INTO way TABLE gone; DROP TABLE gone; CREATE INDEX way_a ON way USING $am (a); VACUUM ANALYZE way");
	is(way_plan($set), $scan, "$scan: an index is taken");
	way($set, "EXPLAIN $way") for 1 .. 3;
	way($set, 'SELECT * FROM way WHERE a < 100 AND b = 77', "$way LIMIT 1") for 1 .. 3;
	way($set, 'SET enable_seqscan = off', $way) for 1 .. 3;
	is(learnt('way'), 'learnt ', 'plans that are not executed teach nothing, nor do scans of a small part of the table, of the first rows, or where the user wants no directory scans');
	way($set, $way);
	is(learnt('way'), 'learnt ', 'nor does one scan that reads most of it');
	way($set, $way);
	is(learnt('way'), 'learnt {b}', 'the second one does, and what leaves most of the rows does not count');
	ok($node->poll_query_until('postgres', q{SELECT queued = 0 AND built > 0 AND NOT EXISTS (SELECT FROM mtpower.stat_workers WHERE phase = 'directories') FROM mtpower.stat_directories}), 'it asks for directories');
	is(way_plan($set) =~ s/Parallel //r, 'Custom Scan (directory scan)', 'and gets a directory scan');
	$node->safe_psql('postgres', 'SELECT mtpower.stat_reset()');
}
$node->safe_psql('postgres', q{CREATE TABLE asked (LIKE way) USING mtpower; INSERT INTO asked TABLE way; CREATE INDEX ON asked USING btree (a); VACUUM ANALYZE asked});
way('SET plan_cache_mode = force_generic_plan', 'PREPARE q AS SELECT * FROM asked WHERE a < 7000 AND b = 77', 'EXECUTE q', 'EXPLAIN EXECUTE q', 'EXPLAIN EXECUTE q');
is(learnt('asked'), 'learnt ', 'a kept plan counts when it is executed');
way('SET plan_cache_mode = force_generic_plan', 'PREPARE q AS SELECT * FROM asked WHERE a < 7000 AND b = 77', 'EXECUTE q');
is(learnt('asked'), 'learnt {b}', 'each time');

# What a policy hides is not told by what others ask.
$node->safe_psql('postgres', q{CREATE TABLE hidden (LIKE way) USING mtpower; INSERT INTO hidden TABLE way; CREATE INDEX ON hidden USING btree (a); VACUUM ANALYZE hidden;
	CREATE ROLE asker; GRANT SELECT ON hidden TO asker; ALTER TABLE hidden ENABLE ROW LEVEL SECURITY; CREATE POLICY seen ON hidden USING (c > 3)});
like(way('SET ROLE asker', 'EXPLAIN SELECT * FROM hidden WHERE a < 7000 AND b = 77'), qr/(Index|Bitmap Heap) Scan.* on hidden/, 'behind a policy an index is taken');
way('SET ROLE asker', ('SELECT * FROM hidden WHERE a < 7000 AND b = 77') x 3);
is(learnt('hidden'), 'learnt ', 'clauses behind a policy teach nothing');

# ---------- the model ----------

# Ten columns, of which eight have counts at a time.
srand($seed);
note("SEED=$seed");
$node->safe_psql('postgres', 'DROP TABLE t; CREATE TABLE t (a int, b int, c int, d int, e int, f int, g int, h int, i int, j int, k json) USING mtpower');
my (@column, @count);
my ($scans, $learnt, $changes) = (0, 0, 0);
@column = (0) x 8;
@count = (0) x 8;
my ($sql, @want) = ('');
foreach my $step (1 .. 1500)
{
	my $favourite = 1 + int($step / 150) % 10;
	my %used = map { $_ => 1 } rand() < 0.6 ? $favourite : 1 + int(rand(10)), rand() < 0.2 ? 1 + int(rand(10)) : ();
	my @used = sort { $a <=> $b } keys %used;
	$sql .= scan('t', @used) . shown('t');
	$_ *= 2**(-1 / 32) foreach @count;
	foreach my $used (@used)
	{
		my ($at) = grep { $column[$_] == $used } 0 .. 7;
		if (!defined $at)
		{
			$at = 0;
			foreach (1 .. 7) { $at = $_ if $count[$_] < $count[$at] }
			next if $count[$at] >= 1;
			($column[$at], $count[$at]) = ($used, 0);
		}
		$count[$at]++;
	}
	$scans++;
	my ($most) = sort { $count[$b] <=> $count[$a] } 0 .. 7;
	my ($own) = grep { $column[$_] == $learnt } 0 .. 7;
	if ($scans >= 2 && $count[$most] >= 2 * ($learnt && defined $own ? $count[$own] : 0) && $learnt != $column[$most])
	{
		$learnt = $column[$most];
		$changes++;
	}
	push @want, 'learnt ' . ($learnt ? '{' . chr(ord('a') + $learnt - 1) . '}' : '');
}
my @got = split(/\n/, $node->safe_psql('postgres', "\\pset tuples_only on\n" . $sql =~ s/;/;\n/gr));
@got = grep { /learnt/ } @got;
my ($differs) = grep { $got[$_] ne $want[$_] } 0 .. $#want;
ok(@got == @want && !defined $differs, "1500 scans: the column is the model's after each") or diag(@got . ' rows; step ' . ($differs // '-') . ": $got[$differs // 0] instead of $want[$differs // 0]");
cmp_ok($changes, '>', 5, "it changed $changes times");
cmp_ok($changes, '<', 1500 / 32, 'but not in each half-life');

# ---------- the owner's choice ----------

my $before = learnt('t');
$node->safe_psql('postgres', "SELECT mtpower.set_directory('t', 'j', 'a')");
is(learnt('t'), 'fixed {j,a}', 'what the owner fixes goes before it');
$node->safe_psql('postgres', scan('t', 1) x 200);
$node->safe_psql('postgres', "SELECT mtpower.set_directory('t', NULL)");
is(learnt('t'), 'off ', 'and so does the choice of none');
$node->safe_psql('postgres', scan('t', 1) x 200);
$node->safe_psql('postgres', "SELECT mtpower.set_directory('t')");
is(learnt('t'), $before, 'scans are not counted meanwhile, and nothing is forgotten');

# ---------- sessions beside each other ----------

my $other = $node->background_psql('postgres');
is($other->query_safe(shown('t')), $before, 'a session sees what is learnt');
$node->safe_psql('postgres', scan('t', 10) x 200);
is($other->query_safe(shown('t')), 'learnt {j}', 'and that others have taught another column');
$other->quit;

# ---------- columns that go ----------

$node->safe_psql('postgres', scan('t', 2) x 200 . scan('t', 3) x 10);
is(learnt('t'), 'learnt {b}', 'one column is learnt, another one asked for, too');
$node->safe_psql('postgres', 'ALTER TABLE t RENAME b TO bb');
is(learnt('t'), 'learnt {bb}', 'it may be renamed');
$node->safe_psql('postgres', 'ALTER TABLE t DROP bb');
is(learnt('t'), 'learnt ', 'a dropped column is none');
$node->safe_psql('postgres', scan('t', 3));
is(learnt('t'), 'learnt {c}', 'the next one is learnt with the next scan');
$node->safe_psql('postgres', 'ALTER TABLE t ALTER c TYPE json USING to_json(c)');
is(learnt('t'), 'learnt ', 'a column whose type has lost its order is none');
$node->safe_psql('postgres', scan('t', 4));
is(learnt('t'), 'learnt {d}', 'nor is it waited for that it is outnumbered');

# What a table leaves behind that had this one's number: columns that this one does not have, or without an order.
$node->safe_psql('postgres', 'CREATE TABLE reused (a int, k json) USING mtpower;' . scan('reused', 30) x 50 . scan('reused', 2));
is(learnt('reused'), 'learnt ', 'numbers that are no column are not taken for one');
$node->safe_psql('postgres', scan('reused', 1));
is(learnt('reused'), 'learnt {a}', 'nor do they stand in the way of one');

# ---------- partition trees ----------

# Partitions whose columns have other numbers, and one that has come since the last scan.
my $counted = sub { my ($n, $of, $column) = @_; return qq{
SELECT demand_count(a.attrelid::regclass, VARIADIC ARRAY[a.attnum]), count(*) FROM generate_series(1, $n) i JOIN pg_attribute a ON a.attrelid = format($of, i)::regclass AND a.attname = '$column' GROUP BY i, a.attrelid, a.attnum ORDER BY i;}; };
$node->safe_psql('postgres', q{
CREATE TABLE parted (a int, gone int, b int, c int) PARTITION BY RANGE (a);
ALTER TABLE parted DROP gone;
SELECT format('CREATE TABLE p%s (c int, a int, b int) USING mtpower; ALTER TABLE parted ATTACH PARTITION p%1$s FOR VALUES FROM (%1$s) TO (%s)', i, i + 1) FROM generate_series(1, 550) i \gexec
CREATE TABLE half PARTITION OF parted FOR VALUES FROM (551) TO (1101) PARTITION BY RANGE (a);
SELECT format('CREATE TABLE p%s PARTITION OF half FOR VALUES FROM (%1$s) TO (%s) USING mtpower', i, i + 1) FROM generate_series(551, 1100) i \gexec
} . $counted->(1100, "'p%s'", 'b'));
is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT d.columns::text, ' '), count(d.columns) FROM generate_series(1, 1100) i, mtpower.directory(format('p%s', i)::regclass) d}),
	'{b}|1100', 'a partition tree learns as one table, under whatever numbers its columns have');
is(learnt('parted') . ' ' . learnt('half'), 'learnt {b} learnt {b}', 'and so it is shown');
is(learnt('reused') . ' ' . learnt('wide'), 'learnt {a} learnt {a}', 'what other tables have taught is left');
$node->safe_psql('postgres', q{CREATE TABLE late PARTITION OF parted FOR VALUES FROM (2000) TO (2001) USING mtpower});
is(learnt('late'), 'learnt {b}', 'a new partition is born with it');
$node->safe_psql('postgres', q{ALTER TABLE parted DETACH PARTITION late; ALTER TABLE parted DETACH PARTITION half});
is(learnt('late') . learnt('p1100') . learnt('half') . learnt('p550'), 'learnt learnt learnt learnt {b}', 'what is detached knows nothing');
$node->safe_psql('postgres', scan('p600', 3) x 5);
is(learnt('p1100') . learnt('p550'), 'learnt {c}learnt {b}', 'and learns for itself');
$node->safe_psql('postgres', q{ALTER TABLE parted ATTACH PARTITION half FOR VALUES FROM (551) TO (1101)});
is(learnt('p1100'), 'learnt {b}', 'until it is attached');
$node->safe_psql('postgres', q{ALTER TABLE parted RENAME b TO bb});
is(learnt('p1') . learnt('p1100'), 'learnt {bb}learnt {bb}', 'a column may be renamed');
$node->safe_psql('postgres', q{ALTER TABLE parted DROP bb});
is(learnt('p1') . learnt('p1100'), 'learnt learnt ', 'or dropped');
$node->safe_psql('postgres', q{CREATE TABLE parent (a int, b int) USING mtpower; CREATE TABLE child () INHERITS (parent) USING mtpower; } . scan('parent', 2) x 3);
is(learnt('parent') . learnt('child'), 'learnt {b}learnt ', 'inheritance that is no partitioning gives nothing on');

# A statement that reads many partitions is one scan of the tree.
$node->safe_psql('postgres', q{
CREATE TABLE tree (k int, a int, b int, pad char(700)) PARTITION BY LIST (k);
SELECT format('CREATE TABLE tree%s PARTITION OF tree FOR VALUES IN (%1$s) USING mtpower WITH (fillfactor = 10)', i) FROM generate_series(1, 40) i \gexec
INSERT INTO tree SELECT k, i, i, '' FROM generate_series(1, 40) k, generate_series(1, 40) i;
ANALYZE tree});
my $by = sub { return "SELECT count(*) FROM tree WHERE $_[0] = 3;" };
like($node->safe_psql('postgres', 'EXPLAIN ' . $by->('a')), qr/directory scan/, 'partitions get directory scans');
$node->safe_psql('postgres', $by->('a'));
is(learnt('tree'), 'learnt ', 'a statement counts once, however many partitions it reads');
$node->safe_psql('postgres', $by->('a') x 3 . $by->('b') x 3);
is(learnt('tree'), 'learnt {a}', 'and three that ask for another column do not outvote four');
$node->safe_psql('postgres', q{DO $$ BEGIN FOR i IN 1 .. 20 LOOP PERFORM count(*) FROM tree WHERE b = i; END LOOP; END $$});
is(learnt('tree'), 'learnt {b}', 'statements in a function count one by one');

# ---------- more tables than there is room for ----------

# Whose place is taken is left to chance, so is what is learnt; that less than half of it is left is as good as impossible.
my $of = sub { return $node->safe_psql('postgres', qq{SELECT count(d.columns) FROM generate_series(1, $_[1]) i, mtpower.directory(format('$_[0]%s', i)::regclass) d}); };
$node->safe_psql('postgres', q{SELECT format('CREATE TABLE o%s (a int, b int) USING mtpower', i) FROM generate_series(1, 100) i \gexec
} . $counted->(100, "'o%s'", 'b') x 2);
is($of->('o', 100), 100, 'while there is room, all learn');
$node->safe_psql('postgres', q{SELECT format('CREATE TABLE m%s (a int, b int) USING mtpower', i) FROM generate_series(1, 1500) i \gexec
} . $counted->(1500, "'m%s'", 'b') x 5);
cmp_ok($of->('m', 1500), '>', 512, 'scans that go round through more tables than there is room for leave what they have taught themselves');
cmp_ok($of->('o', 100), '>', 50, 'and what others have taught before');
$node->safe_psql('postgres', q{CREATE TABLE newcomer (a int) USING mtpower; } . scan('newcomer', 1) x 1000);
is(learnt('newcomer'), 'learnt {a}', 'a table that comes then gets a place when it is scanned often');

# ---------- without a buffer ----------

$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 0');
$node->restart;
$node->safe_psql('postgres', scan('p1', 2) x 3);
is(learnt('p1'), 'learnt ', 'without a buffer nothing is learnt');

done_testing();
