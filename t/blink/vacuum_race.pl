# VACUUM of a B-link tree stops half-way, while other sessions split, delete and reuse the pages
# that it is about to visit. It misses no entry that a split moved.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpSessions;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
wal_consistency_checking = 'mtpower'
autovacuum = off
bgwriter_lru_maxpages = 0
restart_after_crash = on
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE FUNCTION pages(idx regclass, kind text) RETURNS bigint LANGUAGE sql AS $$
		SELECT count(*) FROM generate_series(0, pg_relation_size(idx) / current_setting('block_size')::int - 1) b,
			mtpower.page_info(idx, b) p WHERE p.type = kind $$;
	CREATE FUNCTION k(i int) RETURNS text IMMUTABLE LANGUAGE sql AS
		$$SELECT lpad(i::text, 8, '0') || repeat(md5(i::text), current_setting('block_size')::int / 256)$$;});

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Runs VACUUM of the table; while it is stopped at the point, does the rest.
sub vacuum_stopped
{
	my ($table, $point, @meanwhile) = @_;

	hold($node, 155);
	my $vacuum = start_psql($node, 'postgres', "SET mtpower.debug_injection = '$point=wait'", "VACUUM $table");
	$node->poll_query_until('postgres', waits_sql("query LIKE 'VACUUM%'")) or die;
	sql($_) foreach @meanwhile;
	release(155);
	is(finish($vacuum), '', "VACUUM of $table ends well");
}

sub good
{
	my ($index, $what) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT mtpower.verify_index('$index', true)");

	is($rc, 0, "$what: the index verifies") or diag($err);
}

# Wide keys, six or so on a page: 200 rows make leaves, inner pages of level 1 and 2, and a root.  The rows of some
# neighbouring leaves die; VACUUM has found the first leaf, and is about to lock pages.
my @cases = (
	[ 'nothing', [] ],
	[ 'insert', ['INSERT INTO t SELECT 80000, k(80000)'] ],
	[ 'split of the leaf', ['INSERT INTO t SELECT g, k(g) FROM generate_series(80000, 80020) g'] ],
	[ 'split of the left sibling', ['INSERT INTO t SELECT g, k(g) FROM generate_series(78990, 78999) g'] ],
	[ 'many splits to the left', [ map { "INSERT INTO t SELECT g, k(g) FROM generate_series(${_}01, ${_}99, 7) g" } (780 .. 789) ] ],
	[ 'many splits to the right', [ map { "INSERT INTO t SELECT g, k(g) FROM generate_series(${_}01, ${_}99, 7) g" } (1205 .. 1215) ] ],
	[ 'splits everywhere', ['INSERT INTO t SELECT g, k(g) FROM generate_series(101, 200101, 300) g'] ],
	[ 'splits of a batch', ['INSERT INTO t SELECT g, k(g) FROM generate_series(50, 200050, 100) g'] ],
	[ 'everything else goes', ['DELETE FROM t'] ]);
foreach my $case (@cases)
{
	my ($name, $meanwhile) = @$case;

	sql(q{DROP TABLE IF EXISTS t;
		CREATE TABLE t (a int, b text);
		ALTER TABLE t ALTER b SET STORAGE plain;
		CREATE INDEX t_b ON t USING mtpower_blink (b);
		INSERT INTO t SELECT g, k(g) FROM generate_series(1000, 200000, 1000) g;
		DELETE FROM t WHERE a BETWEEN 79000 AND 120000;});
	vacuum_stopped('t', 'unlink_found', @$meanwhile);
	good('t_b', "$name");
	my $same = q{SET enable_seqscan = %s; SET enable_indexscan = %s; SET enable_bitmapscan = off;
		SELECT md5(string_agg(a::text, ' ' ORDER BY b %s)) FROM t WHERE b > ''};
	is(sql(sprintf($same, 'off', 'on', '')), sql(sprintf($same, 'on', 'off', '')), "$name: index and table agree");
	my $deleted = sql(q{SELECT pages('t_b', 'deleted')});
	cmp_ok($deleted, '>', $name eq 'splits of a batch' || $name eq 'splits everywhere' ? -1 : 0, "$name: $deleted pages went");
	sql('DELETE FROM t');
	sql('VACUUM t');
	is(sql(q{SELECT pages('t_b', 'leaf')}), '1', "$name: in the end one leaf is left");
	good('t_b', "$name, emptied");
}

# Inner pages of one child each.  The child is split, but its right half gets no downlink; then the left half is emptied.  It has to stay, and
# so the inner page: nothing else tells of the right one.
my $pages = q{generate_series(1, pg_relation_size('t_b') / current_setting('block_size')::int - 1) b, mtpower.page_info('t_b', b) p};
sql(q{DROP TABLE t;
	CREATE TABLE t (a int, b text);
	ALTER TABLE t ALTER b SET STORAGE plain;
	CREATE INDEX t_b ON t USING mtpower_blink (b);
	INSERT INTO t SELECT g, k(g) FROM generate_series(1000, 400000, 1000) g;});
# The last row below each inner page but the last
my @last = split(/\n/, sql("SELECT substr(p.high_key, 2, 8)::int - 1000 FROM $pages WHERE p.level = 1 AND p.high_key IS NOT NULL ORDER BY 1"));
sql('DELETE FROM t WHERE a NOT IN (' . join(', ', @last) . ')');
sql('VACUUM t');
cmp_ok(sql("SELECT count(*) FROM $pages WHERE p.level = 1 AND p.items = 1"), '>', 3, 'inner pages with one child');
foreach my $last (@last)
{
	my ($row, $err) = ($last, '');
	until ($err) { $row--; $node->psql('postgres', "SET mtpower.debug_injection = 'leaf_split=error'; INSERT INTO t SELECT $row, k($row)", stderr => \$err); }
	sql("DELETE FROM t WHERE a BETWEEN $row AND " . int(($row + $last) / 2));
}
my $halves = "SELECT count(*), count(*) FILTER (WHERE p.items = 0) FROM $pages WHERE p.flags @> '{incomplete_split}'";
is(sql($halves), @last . '|0', 'halves of splits');
sql('VACUUM t');
is(sql($halves), @last . '|' . @last, 'VACUUM empties them, and leaves them');
good('t_b', 'empty halves of splits');
sql('INSERT INTO t SELECT g, k(g) FROM generate_series(500, 400500, 1000) g');
is(sql($halves), '0|0', 'others finish the splits');
good('t_b', 'finished');

# VACUUM has passed half of the blocks, among them free ones.  Then a batch splits leaves with dead entries that it
# would come to, and gets the free blocks for the new pages.  The entries must be gone all the same when it ends.
foreach my $one_by_one (0, 1)
{
	my $name = $one_by_one ? 'single inserts' : 'a batch';

	sql(q{DROP TABLE IF EXISTS m;
		CREATE TABLE m (a int);
		CREATE INDEX m_a ON m USING mtpower_blink (a);
		INSERT INTO m SELECT g * 10 FROM generate_series(1, 30000) g;
		DELETE FROM m WHERE a <= 140000;});
	sql('VACUUM m');
	sql('SELECT txid_current()');
	# Now the lower blocks are free.
	sql(q{DELETE FROM m WHERE a % 50 = 0 AND a > 140000});
	sql('VACUUM m');
	my $size = sql(q{SELECT pg_relation_size('m_a')});
	cmp_ok(sql(q{SELECT pages('m_a', 'deleted')}), '>', 20, "$name: there are free pages");
	sql(q{DELETE FROM m WHERE a % 20 = 0});
	# From right to left, so that left halves are split again: VACUUM has to follow both splits.
	my $insert = $one_by_one ? q{DO $$ BEGIN FOR g IN REVERSE 4000 .. 1 LOOP INSERT INTO m VALUES (270001 + g * 4); END LOOP; END $$} :
		'INSERT INTO m SELECT 240001 + g FROM generate_series(1, 10000) g WHERE g % 10 <> 9';
	vacuum_stopped('m', 'vacuum_middle', $insert);
	is(sql(q{SELECT pg_relation_size('m_a')}), $size, "$name: the splits used free blocks");
	good('m_a', "$name: after VACUUM");
	# New rows on the line pointers of the dead.
	sql('INSERT INTO m SELECT -g FROM generate_series(1, 20000) g');
	good('m_a', "$name: line pointers used again");
	is(sql(q{SET enable_seqscan = off; SELECT count(*) FROM m WHERE a > 0}),
		sql(q{SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT count(*) FROM m WHERE a > 0}),
		"$name: the same count");
}

# A crash when the index has been vacuumed and the table's line pointers have not.
sql('DELETE FROM m WHERE a % 3 = 0 OR a BETWEEN 150000 AND 200000');
my ($rc, $out, $err) = $node->psql('postgres', q{SET mtpower.debug_injection = 'vacuum_ends=panic'; VACUUM m;});
isnt($rc, 0, 'the server crashes at the end of ambulkdelete');
wait_for_restart($node);
good('m_a', 'after the crash');
cmp_ok(sql(q{SELECT pages('m_a', 'deleted')}), '>', 5, 'pages were deleted');
sql('VACUUM m');
sql('INSERT INTO m SELECT g FROM generate_series(150000, 200000) g');
good('m_a', 'after the crash, VACUUM and new rows');

# A VACUUM that fails half-way leaves a whole index, and the next one can have a cycle of its own.
sql('DELETE FROM m WHERE a % 7 = 0');
($rc, $out, $err) = $node->psql('postgres', q{SET mtpower.debug_injection = 'vacuum_middle=error'; VACUUM m;});
like($err, qr/error at injection point "vacuum_middle"/, 'VACUUM fails in the middle');
good('m_a', 'after the error');
sql('VACUUM m');
good('m_a', 'after the next VACUUM');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|FATAL:.*inconsistent page/, 'nothing bad in the log');
done_testing();
