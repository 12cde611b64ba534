# A batch splits leaves of core's btree that VACUUM has yet to visit, while VACUUM has passed the
# free pages that the split takes. VACUUM misses no dead entry that went there, so none leads to a
# stranger's row later (invariant N3 in src/btree/README.md).
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
mtpower.workers = 0
wal_consistency_checking = 'mtpower, btree'
autovacuum = off
bgwriter_lru_maxpages = 0
enable_indexscan = off
enable_indexonlyscan = off
enable_bitmapscan = off
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
# entries(index): all that leads to rows; the first item is the high key, where there is one. 
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE EXTENSION amcheck;
CREATE EXTENSION pageinspect;
CREATE FUNCTION leaves(i regclass, OUT blk bigint, OUT deleted bool, OUT next bigint) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT blkno, btpo_flags & 4 <> 0, btpo_next FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, bt_page_stats(i::text, b) WHERE btpo_level = 0 $$;
CREATE FUNCTION entries(i regclass, OUT blk bigint, OUT tid tid) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT l.blk, unnest(coalesce(p.tids, ARRAY[p.htid])) FROM leaves(i) l, bt_page_items(i::text, l.blk) p WHERE NOT l.deleted AND (p.itemoffset > 1 OR l.next = 0) $$;
});

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The lower pages of the index are free, and half of the entries above are dead; nothing has marked them.
sub make_table
{
	my ($what) = @_;
	sql(q{DROP TABLE IF EXISTS m;
		CREATE TABLE m (a int, b int DEFAULT 0) USING mtpower WITH (vacuum_truncate = off);
		CREATE INDEX m_a ON m (a);
		INSERT INTO m SELECT g * 10 FROM generate_series(1, 60000) g;
		DELETE FROM m WHERE a <= 400000;});
	sql('VACUUM (INDEX_CLEANUP on) m');
	sql('SELECT txid_current()');
	sql(q{DELETE FROM m WHERE a % 50 = 0});
	sql('VACUUM (INDEX_CLEANUP on) m');
	sql(q{DELETE FROM m WHERE a % 20 = 0});
	cmp_ok(sql(q{SELECT count(*) FROM leaves('m_a') WHERE deleted AND blk < (SELECT min(blk) FROM leaves('m_a') WHERE NOT deleted)}), '>', 80, "$what: there are free pages below all leaves");
	return;
}

# A load stands at the point when VACUUM begins.  VACUUM has come to the load's leaf, or to a new page, when the rest is done; then the load goes on.
sub race
{
	my ($what, $point, $load, @meanwhile) = @_;
	make_table($what);
	my $size = sql(q{SELECT pg_relation_size('m_a')});
	my $dead = sql(q{SELECT count(*) FROM entries('m_a') WHERE tid NOT IN (SELECT ctid FROM m)});
	cmp_ok($dead, '>', 5000, "$what: so many entries are dead");
	hold($node, 155);
	my $loader = start_psql($node, 'postgres', 'SET mtpower.batch_min_rows = 0', "SET mtpower.debug_injection = '$point=wait'", "/* load */ $load");
	$node->poll_query_until('postgres', waits_sql(q{query LIKE '/* load */%'})) or die "no load comes to $point";
	my $vacuum = start_psql($node, 'postgres', 'VACUUM (INDEX_CLEANUP on) m');
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'VACUUM%' AND wait_event = 'BufferContent'})
		or die 'VACUUM does not come to a page of the load';
	$node->safe_psql('postgres', "SET mtpower.batch_min_rows = 0; $_") foreach @meanwhile;
	release(155);
	is(finish($loader), '', "$what: the load goes on");
	is(finish($vacuum), '', "$what: VACUUM ends");

	my $lowest = q{(SELECT count(*) FROM leaves('m_a') WHERE NOT deleted AND blk < 80)};
	cmp_ok(sql("SELECT $lowest"), '>', 0, "$what: the splits took free pages");
	is(sql(q{SELECT pg_relation_size('m_a')}), $size, "$what: and free pages alone");
	is(sql(q{SELECT count(*) FROM entries('m_a') WHERE tid NOT IN (SELECT ctid FROM m)}), 0, "$what: no dead entry is left");
	is(sql(q{SELECT bt_index_parent_check('m_a', true, true)}), '', "$what: amcheck finds nothing");

	# New rows on the line pointers of the dead
	my $blocks = sql(q{SELECT max(split_part(btrim(ctid::text, '('), ',', 1)::int) FROM m});
	sql('INSERT INTO m SELECT -g FROM generate_series(1, 20000) g');
	cmp_ok(sql("SELECT count(*) FROM m WHERE a < 0 AND ctid < '($blocks, 0)'"), '>', 5000, "$what: new rows take the places of the dead ones");
	is(sql(q{SELECT bt_index_parent_check('m_a', true, true)}), '', "$what: amcheck finds nothing then");
	is(sql(q{SET enable_seqscan = off; SET enable_indexscan = on; SELECT count(*), count(*) FILTER (WHERE a + b < 0) FROM m WHERE a > 0}),
		sql(q{SELECT count(*) FROM m WHERE a > 0}) . '|0', "$what: no stranger's row comes");
	return;
}

# One leaf, with dead entries, becomes many pages; VACUUM stands before it.
my $load = 'INSERT INTO m SELECT 500001 + g % 997 FROM generate_series(1, 3000) g';
race('new pages come', 'btree_allocates', $load);

# VACUUM begins when the new pages are there, which it comes to.
race('new pages are locked', 'btree_locked', $load);

# VACUUM stands before the first leaf, while others are split again and again, by batches from right to left: so left halves are split anew, and what
# lies on their right was made while VACUUM ran.  In the end core splits some.
my $first = 'INSERT INTO m SELECT 401001 + g % 97 FROM generate_series(1, 1000) g';
race('splits of splits', 'btree_allocates', $first, map { "INSERT INTO m SELECT 500001 + $_ * 250 + g % 249 FROM generate_series(1, 500) g" } reverse(0 .. 16));
race('splits of splits by core', 'btree_allocates', $first, 'INSERT INTO m SELECT 500001 + g % 3999 FROM generate_series(1, 4000) g',
	q{SET mtpower.batching = off; DO $$ BEGIN FOR g IN REVERSE 2000 .. 1 LOOP INSERT INTO m VALUES (500001 + g * 2); END LOOP; END $$});
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|re-find|could not find/, 'the log is clean');
done_testing();
