# VACUUM beside cursors that stand on a leaf of a B-link index.
#
# A cursor has read all TIDs of its leaf. If it reads the index alone, VACUUM must wait; otherwise
# the visibility map would answer for rows that have since got the dead rows' line pointers. (The
# isolation tester does not see that a process waits for a pin.)  What keeps VACUUM waiting is a
# hazard pointer where the cursor has read a frame, and a pin where there are none.
#
# Variants: frames pages
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
bgwriter_lru_maxpages = 0
});
$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 0')
	if ($ENV{MTP_VARIANT} // 'frames') eq 'pages';
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower');
my $index_scans = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;';

# Since PostgreSQL 17 extensions' wait events have names.
my $hazard = $node->pg_version >= 17 ? 'MtpowerHazard' : 'Extension';

# What VACUUM of the table is doing, as soon as it waits for a pin or a hazard pointer, or has ended.
# (Its session is still there.)  It looks at hazard pointers again and again: so that it goes on shows
# when it has ended.
sub vacuum_state
{
	my ($name, $expected) = @_;
	my $session = "FROM pg_stat_activity WHERE query LIKE 'VACUUM $name%'";
	my $waits = $expected eq 'waits' ? "wait_event IN ('BufferPin', '$hazard') OR" : '';

	$node->poll_query_until('postgres', "SELECT $waits state <> 'active' $session");
	return $node->safe_psql('postgres', "SELECT CASE state WHEN 'active' THEN 'waits' ELSE 'over' END $session");
}

# Rows 1 .. 200 lie on one leaf and on many pages of the table.  Rows 50 .. 150 die, the cursor opens and fetches its
# first row, other sessions do $meanwhile, after which the
# index has so many blocks, VACUUM runs, and the cursor fetches the rest.
sub cursor_and_vacuum
{
	my ($name, $columns, $order, $meanwhile, $blocks, $expected) = @_;

	$node->safe_psql('postgres', qq{
		CREATE TABLE $name (a int, filler text) WITH (autovacuum_enabled = off);
		ALTER TABLE $name ALTER filler SET STORAGE plain;
		CREATE INDEX ${name}_a ON $name USING mtpower_blink (a);
		INSERT INTO $name SELECT g, repeat('x', 400) FROM generate_series(1, 200) g;});
	$node->safe_psql('postgres', "VACUUM $name");
	$node->safe_psql('postgres', "DELETE FROM $name WHERE a BETWEEN 50 AND 150");

	my $cursor = $node->background_psql('postgres');
	$cursor->query_safe("$index_scans BEGIN;");
	$cursor->query_safe("DECLARE c SCROLL CURSOR FOR SELECT $columns FROM $name WHERE a > 0 ORDER BY a $order");
	is($cursor->query_safe('FETCH 1 FROM c'), $order eq 'DESC' ? '200' : '1', "$name: the cursor stands on the leaf");
	$node->safe_psql('postgres', $_) foreach @$meanwhile;
	is($node->safe_psql('postgres', "SELECT pg_relation_size('${name}_a') / current_setting('block_size')::int"),
		$blocks, "$name: so many blocks");

	my $vacuum = $node->background_psql('postgres');
	$vacuum->query_until(qr/start/, "\\echo start\nVACUUM $name;\n");
	is(vacuum_state($name, $expected), $expected, "$name: VACUUM " . ($expected eq 'over' ? 'goes on' : 'waits'));

	# If VACUUM is through, new rows get the line pointers of the dead.  If it should wait and does not, nothing but the
	# visibility map answers for these.
	my $insert = "INSERT INTO $name SELECT 1000 + g, repeat('y', 400) FROM generate_series(1, 150) g";
	$node->safe_psql('postgres', $insert) if $expected eq 'over';
	my $rows = $cursor->query_safe('FETCH ALL FROM c');
	my @live = (2 .. 49, 151 .. 200);
	@live = reverse(1 .. 49, 151 .. 199) if $order eq 'DESC';
	is(join(' ', split(/\n/, $rows)), join(' ', @live), "$name: the cursor returns the live rows");
	$node->safe_psql('postgres', $insert) if $expected ne 'over';
	is(vacuum_state($name, 'over'), 'over', "$name: VACUUM goes on when the cursor has left the leaf") if $order ne 'DESC';
	is(join(' ', split(/\n/, $cursor->query_safe('MOVE ABSOLUTE 0 IN c; FETCH 3 FROM c'))),
		$order eq 'DESC' ? '200 199 198' : '1 2 3', "$name: and again from the start");
	$cursor->query_safe('COMMIT');
	$cursor->quit;
	is(vacuum_state($name, 'over'), 'over', "$name: VACUUM ends");
	$vacuum->quit;

	# Now the line pointers are used again.
	$node->safe_psql('postgres', "INSERT INTO $name SELECT 2000 + g, repeat('z', 400) FROM generate_series(1, 150) g");
	is($node->safe_psql('postgres', "$index_scans SELECT count(*), min(a), max(a), count(*) FILTER (WHERE a BETWEEN 50 AND 150)
		FROM $name WHERE a BETWEEN 1 AND 400 OR a > 1000"), '399|1|2150|0', "$name: the index afterwards");
	$node->safe_psql('postgres', "SELECT mtpower.verify_index('${name}_a', true)");
}

cursor_and_vacuum('forward', 'a', '', [], 2, 'waits');
cursor_and_vacuum('backward', 'a', 'DESC', [], 2, 'waits');

# The dead entries leave the leaf meanwhile, by a split, or because an inserter needs their room.
cursor_and_vacuum('split', 'a', '', ['INSERT INTO split SELECT -g FROM generate_series(1, 400) g'], 4, 'waits');
my @reclaim = ("$index_scans SELECT count(filler) FROM reclaim WHERE a BETWEEN 50 AND 150",
	'INSERT INTO reclaim SELECT -g FROM generate_series(1, 450) g');
cursor_and_vacuum('reclaim', 'a', '', \@reclaim, 2, 'waits');

# A cursor under an MVCC snapshot that looks at the rows keeps no pin.
cursor_and_vacuum('plain', 'CASE WHEN filler IS NOT NULL THEN a END', '', [], 2, 'over');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'nothing bad in the log');
done_testing();
