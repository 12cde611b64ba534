# The reader of a directory scan stops at each step between finding a page directory and fetching
# the rows that it names, while others change the pair's pages, prune and vacuum them, use their
# line pointers again, and give the frame to another table. The reader gets what a sequential scan
# gets under the same snapshot, in order; also in cursors that turn, and for WHERE CURRENT OF.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 1MB
mtpower.workers = 0
autovacuum = off
fsync = off
jit = off
# Nobody pins a page that VACUUM wants.
bgwriter_lru_maxpages = 0
});
$node->start;
my $faults = MtpFaults->new($node, 't');
plan skip_all => 'the server was built without assertions, so without injection points' if !$faults->has_stops;
my $dir = MtpFaults::compile('pairs');
$node->append_conf('postgresql.conf', "dynamic_library_path = '$dir:\$libdir'");
$node->restart;
sub sql { return $node->safe_psql('postgres', $_[0]); }

# One slab, all of whose 256 frames are directories' once there is one.
sql(q{
CREATE EXTENSION mtpower;
CREATE FUNCTION pairs_build(regclass, int, int, name[]) RETURNS bigint LANGUAGE c AS 'pairs';
CREATE FUNCTION pairs_have(regclass) RETURNS bigint LANGUAGE c AS 'pairs';
CREATE FUNCTION torn() RETURNS bigint LANGUAGE sql AS $$ SELECT torn FROM mtpower.stat_buffer WHERE kind = 'directory' $$;

-- u has more pairs than there are frames, and none of t's keys, but columns alike.
CREATE TABLE u (id int, k int, v int, w text) USING mtpower;
INSERT INTO u SELECT g, -5, 0, repeat('u', 400) FROM generate_series(1, 12000) g;

-- Gives each frame to a pair of u, but for those of t that are there.
CREATE FUNCTION flood() RETURNS text LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
	FOR i IN 1 .. 200 LOOP
		PERFORM pairs_build('u', 0, 1000000, '{k}');
		SELECT count(*) INTO n FROM mtpower.stat_get_content() WHERE kind = 'directory';
		IF n = 256 THEN RETURN 'full'; END IF;
	END LOOP;
	RETURN n || ' frames';
END $$;

CREATE FUNCTION make() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS t;
	PERFORM mtpower.release('u'), mtpower.adopt('u');		-- its frames are free
	CREATE TABLE t (id int, k int, v int, w text) USING mtpower WITH (fillfactor = 70);
	INSERT INTO t SELECT g, g % 40, g % 5, repeat('x', 60) FROM generate_series(1, 5000) g;
	PERFORM mtpower.set_directory('t', 'k');
END $$;
});

# The rows of a query in their order
sub rows { my ($query) = @_; return "SELECT 'rows ' || count(*) || coalesce(': ' || string_agg(q::text, ','), '') FROM ($query OFFSET 0) q"; }

my $ready = q{SELECT pairs_build('t', 0, 1000000, '{k}'); SELECT pairs_have('t') >= pg_relation_size('t') / 16384};
my $query = 'SELECT ctid, id, k, v FROM t WHERE k BETWEEN 20 AND 22';

# Where the reader stops; what happens before directories are built and its snapshot is taken; what
# others do then; 1 if the reader must find its directory changed.
sub case
{
	my ($stop, $what, $before, $do, $torn, $question) = @_;
	my $name = "$stop, $what";
	my $rows = rows($question // $query);
	sql($_) foreach @$before;
	like(sql($ready), qr/^\d+\nt$/, "$name: directories");
	my $was = sql('SELECT torn()');
	$faults->hold;
	my $reader = $faults->start('BEGIN ISOLATION LEVEL REPEATABLE READ', "SET mtpower.debug_injection = '$stop=wait'", $rows, q{SET mtpower.debug_injection = ''; SET mtpower.enable_directoryscan = off}, $rows,
		'COMMIT', $rows, 'SET mtpower.enable_directoryscan = on', $rows);
	$faults->stopped("application_name = '$reader->{name}'");
	foreach (@$do) { ref $_ ? is(sql($_->[0]), $_->[1], "$name: $_->[0]") : sql($_); }
	$faults->release;
	is($faults->finish($reader), '', "$name: no error");
	my @got = $reader->{out} =~ /^(rows .*)$/mg;
	like($got[0], qr/^rows [1-9]/, "$name: there are rows");
	is($got[0], $got[1], "$name: the snapshot's rows");
	is($got[3], $got[2], "$name: the next snapshot's rows");
	cmp_ok(sql('SELECT torn()') - $was, '>', 0, "$name: the directory was found changed") if $torn;
	return;
}

my $make = 'SELECT make()';
# Chains on the column itself: of three versions one is seen, the others are named as well.
my @chains = ($make, 'UPDATE t SET k = 20 WHERE k = 21', 'UPDATE t SET k = 22 WHERE k = 20 AND id % 2 = 0', 'UPDATE t SET k = 21 WHERE k = 22 AND id % 3 = 0');
my @dead = ($make, 'DELETE FROM t WHERE k BETWEEN 20 AND 22 AND id % 3 = 0');
my $again = q{INSERT INTO t SELECT g, 20 + g % 3, 7, repeat('y', 60) FROM generate_series(10001, 11000) g};
my $flood = [ 'SELECT flood()', 'full' ];

foreach my $stop (qw(frame_word_read frame_version_read frame_found directory_searched directory_answered))
{
	# Those who stand before the directory is asked find that it has gone, or not even that.
	my $torn = $stop =~ /found|searched/;
	case($stop, 'the frame is another table\'s', [$make], [ 'UPDATE t SET v = 1 WHERE k = 39', $flood ], $torn);
	case($stop, 'chains are pruned', \@chains, ['VACUUM t'], 0);
	case($stop, 'chains are pruned, and their line pointers used again', \@chains, [ 'VACUUM t', $again, 'UPDATE t SET k = 21 WHERE k = 19', 'VACUUM t' ], $torn);
	case($stop, 'and the frame is another table\'s', \@chains, [ 'VACUUM t', $again, 'UPDATE t SET k = 21 WHERE k = 19', $flood ], $torn);
	case($stop, 'chains grow and are pruned', \@chains, [ 'UPDATE t SET k = 23 WHERE k = 20', 'UPDATE t SET k = 20 WHERE k = 23', 'UPDATE t SET k = 24 WHERE k IN (21, 22)', 'VACUUM t' ], $torn);
	case($stop, 'pruning by who reads', \@chains, [ 'UPDATE t SET w = w', 'SELECT count(*) FROM t', 'UPDATE t SET k = 22 WHERE k = 19', 'SELECT count(*) FROM t' ], $torn);
	case($stop, 'line pointers of deleted rows are used again', \@dead, [ 'VACUUM t', $again ], $torn);
	case($stop, 'its rows are deleted', [$make], [ 'DELETE FROM t WHERE k BETWEEN 20 AND 22 AND id % 2 = 0', 'VACUUM t' ], 0);
	case($stop, 'rows come and are rolled back', \@dead, [ "BEGIN; $again; UPDATE t SET k = 21 WHERE k = 19; ROLLBACK", 'VACUUM t' ], $torn);
	case($stop, 'it gets a new one', \@dead, [ 'UPDATE t SET k = 20 WHERE k = 30', q{SELECT pairs_build('t', 0, 1000000, '{k}')} ], $torn);
	case($stop, 'and that is of another column', \@dead, [ 'UPDATE t SET k = 20 WHERE k = 30', q{SELECT mtpower.set_directory('t', 'v'), pairs_build('t', 0, 1000000, '{v}')} ], $torn);
	case($stop, 'several values', \@chains, [ 'UPDATE t SET k = 22 WHERE k = 30', $flood ], $torn, 'SELECT ctid, * FROM t WHERE k IN (20, 22, 39)');
}

# Values without normalized keys: they are compared between the copy of a dictionary and the directory's last look.
sql(q{ALTER TABLE u ALTER k TYPE numeric});
my $numeric = q{SELECT make(); ALTER TABLE t ALTER k TYPE numeric};
foreach my $stop (qw(directory_copied directory_searched))
{
	case($stop, 'of numbers, the frame is another table\'s', [$numeric], [ 'UPDATE t SET v = 1 WHERE k = 39', $flood ], 1);
	case($stop, 'of numbers, it gets a new one', [$numeric], [ 'UPDATE t SET k = 20 WHERE k = 30', q{SELECT pairs_build('t', 0, 1000000, '{k}')} ], 1);
}
sql(q{ALTER TABLE u ALTER k TYPE int});

# Keys out of line are candidates always.  Those of dead rows lead nowhere: nobody looks at them.
my @toast = (q{DROP TABLE t; SELECT mtpower.release('u'), mtpower.adopt('u'); CREATE TABLE t (id int, k text COLLATE "C", v int) USING mtpower; ALTER TABLE t ALTER k SET STORAGE EXTERNAL; SELECT mtpower.set_directory('t', 'k')},
	q{INSERT INTO t SELECT g, repeat(md5(g::text), CASE WHEN g % 5 = 0 THEN 100 ELSE 1 END), 1 FROM generate_series(1, 5000) g},
	q{BEGIN; INSERT INTO t SELECT g, repeat(md5(g::text), 100), 1 FROM generate_series(5001, 5050) g; ROLLBACK}, 'DELETE FROM t WHERE id BETWEEN 5 AND 200');
my $toast = q{SELECT 'VACUUM ' || reltoastrelid::regclass FROM pg_class WHERE oid = 't'::regclass};
foreach my $stop (qw(frame_found directory_searched directory_answered))
{
	sql($_) foreach @toast;
	my $vacuum = sql($toast);
	case($stop, 'TOAST rows go', [], [ $vacuum, 'DELETE FROM t WHERE id BETWEEN 300 AND 400', $vacuum ], 0, q{SELECT ctid, id, md5(k) FROM t WHERE k > 'b'});
	sql($_) foreach @toast;
	$vacuum = sql($toast);
	case($stop, 'TOAST rows go, and their rows', [], [ $vacuum, 'VACUUM t', q{INSERT INTO t SELECT g, repeat(md5(g::text), 100), 2 FROM generate_series(5001, 5100) g}, $vacuum ], 0,
		q{SELECT ctid, id, md5(k) FROM t WHERE k > 'b'});
}
# Rows that are being inserted when the directory is built, and rolled back while the reader holds it
{
	sql($_) foreach @toast;
	my $vacuum = sql($toast);
	my $other = $node->background_psql('postgres');
	$other->query_safe(q{BEGIN; INSERT INTO t SELECT g, repeat(md5(g::text), 100), 2 FROM generate_series(5001, 5100) g; DELETE FROM t WHERE id BETWEEN 200 AND 300});
	is(sql($ready) =~ s/^\d+\n//r, 't', 'directories while rows are inserted');
	my $rows = rows(q{SELECT ctid, id, md5(k) FROM t WHERE k > 'b'});
	$faults->hold;
	my $reader = $faults->start('BEGIN ISOLATION LEVEL REPEATABLE READ', "SET mtpower.debug_injection = 'directory_answered=wait'", $rows, q{SET mtpower.debug_injection = ''; SET mtpower.enable_directoryscan = off}, $rows, 'COMMIT');
	$faults->stopped("application_name = '$reader->{name}'");
	$other->query_safe('ROLLBACK');
	sql($vacuum);
	$faults->release;
	is($faults->finish($reader), '', 'rows rolled back meanwhile, without their TOAST rows: no error');
	my @got = $reader->{out} =~ /^(rows .*)$/mg;
	is($got[0], $got[1], 'rows rolled back meanwhile: the snapshot\'s rows');
	$other->quit;
}

# ---------- cursors ----------

# The same cursor twice in a transaction: d by directories, which is held in each FETCH that begins with "held", while others do what comes next; s by a sequential scan.
sub cursor
{
	my ($stop, $what, @steps) = @_;
	my $name = "cursor, $stop, $what";
	sql($make);
	sql($ready);
	my $session = $node->background_psql('postgres');
	$session->query_safe(qq{BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE d SCROLL CURSOR FOR $query; SET LOCAL mtpower.enable_directoryscan = off; DECLARE s SCROLL CURSOR FOR $query});
	while (@steps)
	{
		my $fetch = shift @steps;
		my ($got, $want);
		if ($fetch =~ s/^held //)
		{
			$faults->hold;
			$session->query_until(qr/go/, qq{\\echo go\nSET mtpower.debug_injection = '$stop=wait';\n$fetch d;\n\\echo fetched\n});
			$faults->stopped(q{backend_type = 'client backend'});
			while (@steps && $steps[0] !~ /^(?:held )?(?:FETCH|MOVE)/) { sql(shift @steps); }
			$faults->release;
			$got = $session->query_until(qr/^fetched$/m, '') =~ s/\s*fetched\s*$//r;
			$session->query_safe(q{SET mtpower.debug_injection = ''});
		}
		elsif ($fetch =~ /^(?:FETCH|MOVE)/) { $got = $session->query_safe("$fetch d"); }
		else
		{
			sql($fetch);
			next;
		}
		$want = $session->query_safe("$fetch s");
		like($want, qr/\d/, "$name: $fetch: there are rows") if $fetch =~ /^FETCH/;
		is($got, $want, "$name: $fetch");
	}
	$session->query_safe('COMMIT');
	$session->quit;
	return;
}

my $stale = 'UPDATE t SET k = 21, v = v + 1 WHERE k IN (19, 22)';
my @stale = ($stale, 'VACUUM t');
my @flooded = ($stale, 'SELECT flood()');
my $build = q{SELECT pairs_build('t', 0, 1000000, '{k}')};
foreach my $stop (qw(frame_found directory_searched directory_answered))
{
	# A pair has some 130 rows, ten of which are asked for.
	cursor($stop, 'forward', 'FETCH 4 FROM', 'held FETCH 60 FROM', @stale, 'FETCH 30 FROM', 'FETCH BACKWARD 94 FROM', 'FETCH ALL FROM');
	cursor($stop, 'backward', 'FETCH 60 FROM', 'held FETCH BACKWARD 40 FROM', @stale, 'FETCH BACKWARD 30 FROM', 'FETCH ALL FROM', 'FETCH BACKWARD ALL FROM');
	cursor($stop, 'forward and backward, the frame is another table\'s', 'held FETCH 40 FROM', @flooded, q{SELECT mtpower.release('u'), mtpower.adopt('u')}, $build, 'held FETCH BACKWARD 25 FROM', @flooded, 'FETCH 30 FROM', 'FETCH BACKWARD ALL FROM');
	cursor($stop, 'forward and backward, and new directories', 'FETCH 60 FROM', 'held FETCH 30 FROM', @stale, $build, 'held FETCH BACKWARD 60 FROM', @stale, $build, 'held FETCH 100 FROM', 'DELETE FROM t WHERE k BETWEEN 20 AND 22', 'VACUUM t', $build,
		'FETCH BACKWARD ALL FROM');
	cursor($stop, 'round and round in a pair', 'FETCH 15 FROM', 'held FETCH BACKWARD 9 FROM', @stale, 'FETCH 9 FROM', 'FETCH BACKWARD 9 FROM', 'held FETCH ALL FROM', $stale, $build, 'held FETCH BACKWARD ALL FROM', $stale);
}

# ---------- WHERE CURRENT OF ----------

# What a session says that changes the row of its cursor, while another one changes, deletes or prunes it when the cursor's page has been answered: as with a sequential scan.
sub current_of
{
	my ($stop, $what, $cursor, $meanwhile, $change) = @_;
	my @said;
	foreach my $scan ('on', 'off')
	{
		my ($name, $session) = ("CURRENT OF, $stop, $what, $scan", $node->background_psql('postgres', on_error_stop => 0));
		sql($make);
		sql($ready);
		$session->query_safe("SET mtpower.enable_directoryscan = $scan; BEGIN; DECLARE c CURSOR FOR $cursor; FETCH 12 FROM c");
		if ($scan eq 'on')
		{
			$faults->hold;
			$session->query_until(qr/go/, qq{\\echo go\nSET mtpower.debug_injection = '$stop=wait';\nFETCH 30 FROM c;\n\\echo fetched\n});
			$faults->stopped(q{backend_type = 'client backend'});
			sql($_) foreach @$meanwhile;
			$faults->release;
			push @said, $session->query_until(qr/^fetched$/m, '') =~ s/\s*fetched\s*$//r;
			$session->query_safe(q{SET mtpower.debug_injection = ''});
		}
		else
		{
			# Of rows that are locked, what is read next is what has become of them.
			sql($_) foreach @$meanwhile;
			push @said, $session->query_safe('FETCH 30 FROM c');
		}
		my ($out) = $session->query($change);
		$said[-1] .= "\nthen: $out";
		$session->query('COMMIT');
		$session->quit;
		$said[-1] .= "\n" . sql('SELECT id, k, v FROM t WHERE v > 5 ORDER BY id, k, v');
		like($said[-1], qr/then: \d/, "$name: a row is changed") unless $what =~ /deleted/;
	}
	is($said[0], $said[1], "CURRENT OF, $stop, $what");
	return;
}
my $update = 'UPDATE t SET v = v + 100 WHERE CURRENT OF c RETURNING id, k, v';
foreach my $stop (qw(frame_found directory_searched directory_answered))
{
	foreach my $cursor ('SELECT id, k, v FROM t WHERE k BETWEEN 20 AND 22', 'SELECT id, k, v FROM t WHERE k BETWEEN 20 AND 22 FOR UPDATE')
	{
		my $of = $cursor =~ /UPDATE/ ? ', rows locked' : '';
		# Rows that the cursor has passed and locked are left alone.
		current_of($stop, "the row is updated$of", $cursor, [ 'UPDATE t SET v = 50 WHERE k BETWEEN 20 AND 22 AND id > 700', 'VACUUM t' ], $update);
		current_of($stop, "the row leaves the condition$of", $cursor, [ 'UPDATE t SET k = 30 WHERE k = 21 AND id > 700', 'VACUUM t' ], $update);
		current_of($stop, "its page changes$of", $cursor, [ 'UPDATE t SET v = 50 WHERE k = 39', 'SELECT flood()' ], 'DELETE FROM t WHERE CURRENT OF c RETURNING id, k, v');
	}
	current_of($stop, 'the row is deleted', 'SELECT id, k, v FROM t WHERE k BETWEEN 20 AND 22', [ 'DELETE FROM t WHERE k BETWEEN 20 AND 22', 'VACUUM t' ], $update);
}

$node->stop;
$faults->log_is_clean;
done_testing();
