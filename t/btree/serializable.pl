# A batch splits a leaf of core's btree that serializable transactions have read. What they have
# read stays locked on the pages where it goes: of a write skew one transaction fails, as with heap.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpSessions qw(start_psql finish hold release waits_sql);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
autovacuum = off
fsync = off
enable_seqscan = off
enable_bitmapscan = off
});
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION mtpower; CREATE EXTENSION pageinspect;
-- The leaf that has the entry of a row
CREATE FUNCTION leaf_of(i regclass, t tid) RETURNS bigint LANGUAGE sql AS $$
	SELECT b FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, bt_page_stats(i::text, b) s, bt_page_items(i::text, b) p
	WHERE s.btpo_level = 0 AND (p.itemoffset > 1 OR s.btpo_next = 0) AND t = ANY (coalesce(p.tids, ARRAY[p.htid])) $$;
});

# Each transaction reads a range of the one table and inserts there into the other's; how many of the two rows are there in the end; the leaves
# of the ranges before and after the batch.
sub skew
{
	my ($am, $at, $batch) = @_;
	$node->safe_psql('postgres', qq{
		DROP TABLE IF EXISTS x, y;
		CREATE TABLE x (k int) USING $am; CREATE INDEX x_k ON x (k);
		CREATE TABLE y (k int) USING $am; CREATE INDEX y_k ON y (k);
		INSERT INTO x SELECT g * 1000 FROM generate_series(1, 3000) g;
		INSERT INTO y SELECT g * 1000 FROM generate_series(1, 3000) g});
	my $leaves = 'SELECT ' . join(', ', map { "leaf_of('${_}_k', (SELECT ctid FROM $_ WHERE k <= $at ORDER BY k DESC LIMIT 1))" } 'x', 'y');
	my $before = $node->safe_psql('postgres', $leaves);
	my $read = 'SELECT count(*) FROM %s WHERE k BETWEEN ' . ($at - 5) . ' AND ' . ($at + 5);
	my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1, 2;
	$_->query_safe('BEGIN ISOLATION LEVEL SERIALIZABLE') foreach @sessions;
	$sessions[0]->query_safe(sprintf($read, 'x'));
	$sessions[1]->query_safe(sprintf($read, 'y'));
	$node->safe_psql('postgres', "SET mtpower.batch_min_rows = 0; INSERT INTO $_ SELECT $batch") foreach 'x', 'y';
	my $after = $node->safe_psql('postgres', $leaves);
	$sessions[0]->query("INSERT INTO y VALUES ($at)");
	$sessions[1]->query("INSERT INTO x VALUES ($at)");
	$_->query('COMMIT') foreach @sessions;
	$_->quit foreach @sessions;
	my $inserted = $node->safe_psql('postgres', "SELECT (SELECT count(*) FROM x WHERE k = $at) + (SELECT count(*) FROM y WHERE k = $at)");
	return ($inserted, $before, $after);
}

# What was read goes to the leaf itself, to a page in the middle, and to the last one.
foreach my $case ([ 'first page', 70500, '100001 + g % 997 FROM generate_series(1, 4000) g' ], [ 'page in the middle', 100500, '100001 + g FROM generate_series(1, 998) g WHERE g NOT BETWEEN 490 AND 510' ],
	[ 'last page', 200500, '100001 + g % 997 FROM generate_series(1, 4000) g' ])
{
	my ($what, @case) = @$case;
	my ($inserted, $before, $after) = skew('mtpower', @case);
	is((skew('heap', @case))[0], 1, "$what: one of two transactions fails with heap");
	is($inserted, 1, "$what: and with mtpower");
	cmp_ok($after, $what eq 'first page' ? 'eq' : 'ne', $before, "$what: where it goes");
}
$node->stop;
done_testing();
