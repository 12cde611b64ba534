# A reader stops at each step between finding a frame and its last look at the sequence lock,
# while others change the page, delete it, or give the frame to another page. The reader gets what
# its snapshot says, then and in the next read.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpFrames;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 1MB
mtpower.batch_min_rows = 0
mtpower.workers = 0
autovacuum = off
fsync = off
jit = off
});
$node->start;
my $faults = MtpFaults->new($node, 'r');
plan skip_all => 'the server was built without assertions, so without injection points' if !$faults->has_stops;
sub sql { return $node->safe_psql('postgres', $_[0]); }

# Tables f1 … f160 have one leaf each, and more leaves than there are frames.  Their keys are those of r; their TIDs are other rows' in r.
sql('CREATE EXTENSION mtpower;' . frames_sql() . q{
DO $$ BEGIN FOR i IN 1 .. 160 LOOP
	EXECUTE format('CREATE TABLE f%1$s (a int, v int); INSERT INTO f%1$s SELECT g * 37 %% 101, g FROM generate_series(1, 100) g;
		CREATE INDEX ON f%1$s USING mtpower_blink (a)', i);
END LOOP; END $$;

-- Reads all of them until index has no frame any more, or another number of times.
CREATE FUNCTION flood(index text, most int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int; rounds int := 0;
BEGIN
	PERFORM scans('frames');
	LOOP
		FOR i IN 1 .. 160 LOOP EXECUTE format('SELECT count(v) FROM f%s WHERE a BETWEEN 1 AND 5', i) INTO n; END LOOP;
		rounds := rounds + 1;
		IF rounds >= most OR frames_of(index) = 0 THEN RETURN frames_of(index); END IF;
	END LOOP;
END $$;

-- Reads until the index's pages are in frames: what is there has to cool down first.
CREATE FUNCTION heat(query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE n int; before bigint;
BEGIN
	PERFORM scans('frames');
	FOR i IN 1 .. 5000 LOOP
		before := stat('misses');
		EXECUTE format('SELECT count(*) FROM (%s) q', query) INTO n;
		EXIT WHEN i > 40 AND stat('misses') = before;
	END LOOP;
END $$;

-- r: rows lie in the order of falling keys.  Rows from 10000 on are dead, and not vacuumed yet.
CREATE FUNCTION make(rows int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS r;
	CREATE TABLE r (a int, v int);
	CREATE INDEX r_a ON r USING mtpower_blink (a);
	INSERT INTO r SELECT g, g * 2 FROM generate_series(rows, 1, -1) g;
END $$;});
sql('SELECT flood($$f1_a_idx$$, 5)');
is(sql('SELECT frames FROM mtpower.stat_buffer WHERE kind = $$index$$'), '128', 'a buffer of 128 frames');

my $evict = q{SELECT flood('r_a', 300)};
my @evicted = ('evicted', $evict);
my @inserted = ('an insertion', 'INSERT INTO r VALUES (25, -1), (27, -2)');
my @split = ('a split', 'INSERT INTO r SELECT g % 101, -g FROM generate_series(1, 3000) g');
my @split_evicted = ('a split, and evicted', 'INSERT INTO r SELECT g % 101, -g FROM generate_series(1, 3000) g', $evict);
my @deleted = ('deletion and VACUUM', 'DELETE FROM r WHERE a BETWEEN 21 AND 29', 'VACUUM r', $evict);

# What is asked for; an index-only scan has all of it in the index.
our $columns = 'a, v';

# How many rows r has, where the reader stops, what it asks, what the others do; 1 if its
# frame must have been torn
sub case
{
	my ($rows, $stop, $cond, $torn, $what, @do) = @_;
	my $name = "$stop, $what, $cond" . ($rows > 100 ? ', more levels' : '');
	my $query = "SELECT $columns FROM r WHERE $cond";
	my $only = $columns eq 'a, v' ? 'off' : 'on';
	my $digest = "SELECT count(*), sum(a), sum(v), count(*) FILTER (WHERE NOT ($cond)) FROM ($query OFFSET 0) q";

	sql("SELECT make($rows)");
	sql(q{DELETE FROM r WHERE a BETWEEN 3000 AND 9000}) if $rows > 100;
	sql('VACUUM r');
	sql(q{DELETE FROM r WHERE a BETWEEN 10000 AND 13000}) if $rows > 100;
	my $want = sql("SELECT answer('seq', \$q\$$digest\$q\$)");
	my $digested = sql($digest);
	my $before = sql(q{SELECT stat('torn')});
	$faults->hold;
	# One statement, so one snapshot; the session has read the index before.
	my $reader = $faults->start("SELECT heat(\$q\$$query\$q\$)", q{SELECT 'frames ' || frames_of('r_a')}, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off', "SET enable_indexonlyscan = $only",
		"SET mtpower.debug_injection = '$stop=wait'", $digest, q{SET mtpower.debug_injection = ''}, q{SELECT 'wrong ' || disagree('SELECT a, v FROM r WHERE a > 10')});
	$faults->stopped("application_name = '$reader->{name}'");
	sql($_) foreach @do;
	is(sql(q{SELECT frames_of('r_a')}), '0', "$name: the frames are gone") if $do[-1] eq $evict;
	$faults->release;
	is($faults->finish($reader), '', "$name: no error");
	like($reader->{out}, qr/^frames [1-9]/m, "$name: there were frames");
	like($reader->{out}, qr/^\Q$digested\E$/m, "$name: the snapshot's rows") or diag($reader->{out});
	like($reader->{out}, qr/^wrong $/m, "$name: what is read next") or diag($reader->{out});
	cmp_ok(sql(q{SELECT stat('torn')}) - $before, '>', 0, "$name: the frame was found changed") if $torn;
	return;
}

# A tree of one leaf, which is found as its root
case(100, $_, 'a BETWEEN 20 AND 30', /^frame_found|^leaf/ ? 1 : 0, @evicted) foreach qw(frame_word_read frame_version_read frame_found leaf_frame_opened leaf_frame_read);
case(100, 'frame_tid_read', 'a >= 20', 1, @$_) foreach \@evicted, \@split_evicted, \@deleted;
foreach my $do (\@inserted, \@split, \@split_evicted, \@deleted)
{
	case(100, $_, 'a BETWEEN 20 AND 30', 0, @$do) foreach qw(frame_word_read frame_found leaf_frame_opened leaf_frame_read);
}

# Inner pages and leaves; VACUUM deletes leaves that the reader has to pass, and where it stands.
my @pages = ('page deletion', 'VACUUM r', 'INSERT INTO r SELECT g, -g FROM generate_series(9000, 14000, 3) g', $evict);
my @splits = ('splits everywhere', 'INSERT INTO r SELECT g, -g FROM generate_series(1, 20000) g', $evict);
foreach my $do (\@evicted, \@pages, \@splits)
{
	case(20000, $_, 'a BETWEEN 9900 AND 13100', 0, @$do) foreach qw(frame_word_read inner_frame_opened inner_frame_read leaf_frame_opened leaf_frame_read);
	case(20000, $_, 'a = 13001', 0, @$do) foreach qw(inner_frame_opened leaf_frame_opened leaf_frame_read);
	case(20000, 'frame_tid_read', 'a >= 9990', 0, @$do);
}
# Arrays; since PostgreSQL 17 they are advanced as the frame is read, and put back if it is torn.
my @many = (100, 'a = ANY (ARRAY[20, 22, 25, 28, 28, NULL, 999])');
my @search = (100, 'a = ANY (ARRAY[20, 60, 61])');	# from 20 the leaf is searched for 60
my @far = (20000, 'a = ANY (ARRAY[2500, 2999, 9500, 9990, 12000, 13001, 13002, 13500, 14999])');
foreach my $of (\@many, \@search, \@far)
{
	my ($rows, $cond) = @$of;
	foreach my $do ($rows == 100 ? (\@evicted, \@inserted, \@split, \@split_evicted, \@deleted) : (\@evicted, \@pages, \@splits))
	{
		case($rows, $_, $cond, 0, @$do) foreach qw(leaf_frame_opened leaf_frame_read);
		case($rows, 'frame_array_advanced', $cond, $rows == 100, @$do) if $node->pg_version >= 17;
	}
}
# Index-only scans copy whole items, and look at the version in the end.  (VACUUM would wait for them.)
{
	local $columns = 'a, a AS v';
	case(100, 'frame_item_copied', 'a >= 20', 1, @$_) foreach \@evicted, \@inserted, \@split, \@split_evicted;
	case(20000, 'frame_item_copied', 'a >= 9990', 1, @splits);
}

# Buckets of hash indexes; the row's TID is used anew by another one, or the bucket is split.
sub case_hash
{
	my ($stop, $what, @do) = @_;
	my $name = "$stop, hash, $what";
	my $query = 'SELECT count(*), sum(v) FROM r WHERE a = 25';

	sql(q{SELECT make(100); DROP INDEX r_a; CREATE INDEX r_a ON r USING mtpower_hash (a); DELETE FROM r WHERE a BETWEEN 60 AND 90});
	my $before = sql(q{SELECT stat('torn')});
	$faults->hold;
	my $reader = $faults->start("SELECT heat('SELECT a, v FROM r WHERE a = 25')", q{SELECT 'frames ' || frames_of('r_a')}, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off',
		"SET mtpower.debug_injection = '$stop=wait'", $query, q{SET mtpower.debug_injection = ''});
	$faults->stopped("application_name = '$reader->{name}'");
	sql($_) foreach @do;
	$faults->release;
	is($faults->finish($reader), '', "$name: no error");
	like($reader->{out}, qr/^frames [1-9]/m, "$name: there were frames");
	like($reader->{out}, qr/^1\|50$/m, "$name: the snapshot's rows") or diag($reader->{out});
	# Before that the frame is merely not found.
	cmp_ok(sql(q{SELECT stat('torn')}) - $before, '>', 0, "$name: the frame was found changed") if $stop ne 'frame_version_read';
}

foreach my $stop (qw(frame_version_read frame_found bucket_frame_read))
{
	case_hash($stop, @evicted);
	case_hash($stop, 'insertions', 'INSERT INTO r SELECT 25, -g FROM generate_series(1, 5) g');
	case_hash($stop, 'VACUUM, and TIDs used anew', 'VACUUM r', 'INSERT INTO r SELECT 25, -g FROM generate_series(1, 40) g', 'DELETE FROM r WHERE a BETWEEN 20 AND 30');
	case_hash($stop, 'splits', 'INSERT INTO r SELECT g, -g FROM generate_series(101, 20000) g');
}
cmp_ok(sql(q{SELECT stat('evicted')}), '>', 128, 'frames were given to other pages');
$faults->log_is_clean;
$node->stop;
done_testing();
