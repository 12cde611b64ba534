# Random operations on two tables, one with mtpower's hash indexes and one with core's, give equal
# results by index scans, bitmaps and sequential scans. Then fewer of them run beside a standby
# that compares every page. OPERATIONS (100000), SEED.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $operations = $ENV{OPERATIONS} || 100_000;
my $seed = $ENV{SEED} || time;
srand($seed);
note "seed $seed";

my $schema = q{
CREATE EXTENSION mtpower;
CREATE TABLE m (id int, k int, t text COLLATE "C") USING mtpower;
CREATE TABLE c (id int, k int, t text COLLATE "C") USING heap;
CREATE INDEX m_k ON m USING mtpower_hash (k) WITH (initial_buckets = 1, fillfactor = 30);
CREATE INDEX m_t ON m USING mtpower_hash (t);
CREATE INDEX m_id ON m USING mtpower_hash (id);
CREATE INDEX m_tk ON m USING mtpower_hash (t, k) WHERE id % 4 < 3;
CREATE INDEX c_k ON c USING hash (k);
CREATE INDEX c_t ON c USING hash (t);
CREATE INDEX c_id ON c USING hash (id);

-- Rows that a scan of some kind finds with these conditions
CREATE FUNCTION found(tab text, what text, seq bool, plain bool, bitmap bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	r text;
	kind text;
BEGIN
	PERFORM set_config('enable_seqscan', seq::text, true), set_config('enable_indexscan', plain::text, true), set_config('enable_bitmapscan', bitmap::text, true);
	FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT * FROM %I WHERE %s', tab, what) LOOP
		kind := coalesce(kind, substring(line FROM 'Seq Scan|Bitmap Index Scan|Index Scan'));
	END LOOP;
	IF kind <> (CASE WHEN seq THEN 'Seq Scan' WHEN plain THEN 'Index Scan' ELSE 'Bitmap Index Scan' END) THEN RAISE 'a % of % WHERE %', kind, tab, what; END IF;
	EXECUTE format('SELECT count(*) || '' '' || coalesce(sum(hash_record_extended(x, 0)), 0) FROM %I x WHERE %s', tab, what) INTO r;
	RETURN r;
END $$;
-- Raises an error where the two tables, or ways to read them, differ.
CREATE FUNCTION agree(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	what text;
	want text;
BEGIN
	what := 'true';
	IF found('m', what, true, false, false) <> found('c', what, true, false, false) THEN RAISE 'the tables differ'; END IF;
	FOR i IN 1 .. n LOOP
		what := CASE i % 5 WHEN 0 THEN format('k = %s', (random() * random() * 2100)::int - 20)
			WHEN 1 THEN format('t = %L', 'key ' || (random() * 400)::int)
			WHEN 2 THEN format('t = %L AND k = %s AND id %% 4 < 3', 'key ' || (random() * 40)::int, (random() * 20)::int)
			WHEN 3 THEN CASE WHEN i = 3 THEN 'k = 7' ELSE format('k = %s', (random() * 2000)::int) END
			ELSE format('id = %s', (random() * 300000)::int) END;
		want := found('c', what, true, false, false);
		IF found('m', what, false, true, false) <> want OR found('m', what, false, false, true) <> want
			OR found('c', what, false, true, false) <> want THEN RAISE 'results of % differ', what; END IF;
	END LOOP;
	RETURN (SELECT count(*) FROM m);
END $$;
};

# Values of a row, as expressions of its number g: keys are few, one of them frequent, or NULL now and then.
sub values_of
{
	my $salt = int(rand(1_000_000));
	return "SELECT g, CASE WHEN abs(hashint4(g + $salt)) % 10 < 3 THEN 7 WHEN abs(hashint4(g + $salt)) % 37 <> 1 THEN abs(hashint4(g * 3 + $salt)) % 2000 END,"
	  . " CASE WHEN g % 19 > 0 THEN 'key ' || abs(hashint4(g * 5 + $salt)) % 400 END";
}

my $next = 1;

sub one_row { my $g = $next++; return sprintf("(%d, %s, %s)", $g, rand(20) < 1 ? 'NULL' : rand(4) < 1 ? 7 : int(rand(2000)), rand(20) < 1 ? 'NULL' : "'key " . int(rand(400)) . "'"); }

# The same statement for both tables
sub twice { my ($sql) = @_; return join('', map { $sql =~ s/\bTAB\b/$_/gr . ";\n" } 'm', 'c'); }

# The rows of a COPY follow in the script, as psql has it.
sub copy
{
	my ($from, $to) = @_;
	my $salt = int(rand(2000));
	my $rows = join('', map { sprintf("%d\t%d\tkey %d\n", $_, $_ % 7 ? ($_ * 7919 + $salt) % 2000 : 7, $_ % 400) } $from .. $to);
	return join('', map { "COPY $_ FROM STDIN;\n$rows\\.\n" } 'm', 'c');
}

sub change
{
	my $dice = rand(1000);
	my $some = sub { return int(rand($next)) + 1 };
	return twice('INSERT INTO TAB VALUES ' . one_row()) if $dice < 460;
	return twice('UPDATE TAB SET k = ' . int(rand(2000)) . ' WHERE id = ' . $some->()) if $dice < 640;
	return twice("UPDATE TAB SET t = 'key " . int(rand(400)) . "', k = 7 WHERE id = " . $some->()) if $dice < 720;
	return twice('DELETE FROM TAB WHERE id = ' . $some->()) if $dice < 940;
	return twice('UPDATE TAB SET id = -id WHERE k = ' . int(rand(2000))) if $dice < 950;
	return twice('DELETE FROM TAB WHERE k = ' . int(rand(2000))) if $dice < 970;
	return twice("DELETE FROM TAB WHERE t = 'key " . int(rand(400)) . "'") if $dice < 980;
	my $n = int(10 ** rand(3.7)) + 1;
	my $from = $next;
	$next += $n;
	return twice("INSERT INTO TAB " . values_of() . " FROM generate_series($from, " . ($next - 1) . ') g') if $dice < 985;
	return copy($from, $next - 1) if $dice < 998;
	return twice('DELETE FROM TAB WHERE id % 3 > 0');
}

# A script of so many operations; returns it and how often what was done.
sub script
{
	my ($n) = @_;
	my $sql = "SET mtpower.batch_min_rows = 20;\nSET mtpower.batch_size = '64kB';\nSET synchronous_commit = off;\nSET client_min_messages = warning;\n";
	my %done = map { $_ => 0 } qw(change commit rollback savepoint rollback_to vacuum reindex compare verify);
	my $i = 0;
	my $checked = 0;
	while ($i < $n)
	{
		my $dice = rand(100);
		if ($dice < 60)
		{
			$sql .= change();
			$i++;
		}
		elsif ($dice < 98)
		{
			# A transaction, some of whose savepoints are rolled back
			my ($depth, $length) = (0, 1 + int(rand(30)));
			$sql .= "BEGIN;\n";
			foreach (1 .. $length)
			{
				my $what = rand(10);
				if ($what < 1 && $depth < 5) { $sql .= 'SAVEPOINT s' . ++$depth . ";\n"; $done{savepoint}++; $i++; }
				elsif ($what < 2 && $depth) { $sql .= "ROLLBACK TO s$depth;\n"; $done{rollback_to}++; $i++; }
				elsif ($what < 2.5 && $depth) { $sql .= 'RELEASE s' . $depth-- . ";\n"; }
				else { $sql .= change(); $i++; }
			}
			my $end = rand(4) < 1 ? 'rollback' : 'commit';
			$done{$end}++;
			$sql .= "\U$end\E;\n";
		}
		elsif ($dice < 99) { $sql .= "VACUUM m;\nVACUUM c;\n"; $done{vacuum}++; $i++; }
		elsif (rand(2) < 1) { $sql .= 'REINDEX INDEX ' . (rand(3) < 1 ? 'CONCURRENTLY ' : '') . (qw(m_k m_t m_id m_tk))[ rand(4) ] . ";\n"; $done{reindex}++; $i++; }
		if ($i >= $checked + 1500)
		{
			$checked = $i;
			# Not more rows than can be compared soon
			$sql .= "BEGIN;\nSELECT agree(25);\nCOMMIT;\n";
			$sql .= "SELECT count(mtpower.verify_index(i, true)::text) FROM unnest('{m_k,m_t,m_id,m_tk}'::regclass[]) i;\n";
			$done{compare}++;
			$sql .= twice('DELETE FROM TAB WHERE id % 2 = 0 OR id < ' . ($next - 8000)) if $done{compare} % 4 == 0;
			$sql .= twice('TRUNCATE TAB') if $done{compare} % 30 == 0;
		}
	}
	note join(', ', "$i operations", map { "$_ $done{$_}" } sort keys %done);
	return $sql . "SELECT agree(200);\nSELECT count(mtpower.verify_index(i, true)::text) FROM unnest('{m_k,m_t,m_id,m_tk}'::regclass[]) i;\n";
}

sub run
{
	my ($node, $what, $n) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/hash_random_$n.sql";
	open(my $out, '>', $file) or die "$file: $!";
	print $out script($n);
	close($out);
	# psql reads the file by itself: its input is too long for a pipe's timeout.
	my ($stdout, $stderr) = run_command([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', $file ]);
	is($stderr, '', "$what: equal results, sound indexes (seed $seed)");
	my @sizes = split /\n/, $stdout;
	is($sizes[-1], 4, "$what: to the end");
	unlink $file if $stderr eq '';
	return;
}

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.enable_directoryscan = off
mtpower.workers = 1
autovacuum = off
fsync = off
jit = off
max_wal_size = 4GB
});
$node->start;
$node->safe_psql('postgres', $schema);
run($node, 'one server', $operations);
like($node->safe_psql('postgres', 'SELECT count(*) FROM m'), qr/^\d+$/, 'the server is there');
is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, 'no memory is held');
cmp_ok($node->safe_psql('postgres', "SELECT sum(batches) FROM mtpower.stat_batches"), '>', 10, 'there were batches');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|WARNING/, 'its log is clean');
$node->stop;

# Beside a standby, whose redo has to make the very pages of the primary
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.enable_directoryscan = off
mtpower.workers = 1
wal_consistency_checking = 'all, mtpower'
autovacuum = off
fsync = off
jit = off
max_wal_size = 4GB
});
$primary->start;
$primary->safe_psql('postgres', $schema);
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby', true)});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "primary_slot_name = 'standby'");
$standby->start;
$next = 1;
run($primary, 'with a standby', int($operations / 10) || 1);
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
my $err;
is($standby->psql('postgres', "SELECT mtpower.verify_index(i, true) FROM unnest('{m_k,m_t,m_id,m_tk}'::regclass[]) i", stderr => \$err), 0, 'the standby\'s indexes verify') or diag($err);
is($standby->safe_psql('postgres', 'SELECT agree(200)'), $primary->safe_psql('postgres', 'SELECT count(*) FROM m'), 'the standby gives equal results');
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC|TRAP|FATAL:  (?!the database system is starting up)/, 'redo agrees with every page');
$standby->promote;
is($standby->psql('postgres', q{INSERT INTO m SELECT g, g, 'promoted' FROM generate_series(1, 30000) g; INSERT INTO c SELECT g, g, 'promoted' FROM generate_series(1, 30000) g;
	SELECT agree(100); SELECT mtpower.verify_index(i, true) FROM unnest('{m_k,m_t,m_id,m_tk}'::regclass[]) i}, stderr => \$err), 0, 'promoted, it goes on') or diag($err);
$standby->stop;
$primary->stop;
done_testing();
