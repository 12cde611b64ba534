# Table pages change as often as they are read. The server hardly ever makes their images and page
# directories, and has them again when the changes end. Its counters say so.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpFrames;

my $rounds = 40;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 8MB
mtpower.workers = 1
autovacuum = off
bgwriter_lru_maxpages = 0
fsync = off
jit = off
});
$node->start;
sub sql { return $node->safe_psql('postgres', join(';', @_)); }
sub directories { my ($what) = @_; return sql("SELECT $what FROM mtpower.stat_directories"); }

# Nothing is queued, and no worker is at it.
my $faults = MtpFaults->new($node, 't');
sub settled
{
	$faults->wait_for(q{SELECT queued = 0 AND NOT EXISTS (SELECT FROM mtpower.stat_workers WHERE phase = 'directories') FROM mtpower.stat_directories}, 'all directories');
	return;
}

# Updated rows stay on their page.
sql('CREATE EXTENSION mtpower', frames_sql(),
	'CREATE TABLE t (a int, b int, v int) USING mtpower WITH (fillfactor = 60)',
	'INSERT INTO t SELECT g, g, 0 FROM generate_series(1, 10000) g',
	'CREATE INDEX t_a ON t USING mtpower_blink (a)', 'VACUUM ANALYZE t');
my $pairs = sql(q{SELECT (pg_relation_size('t') / 8192 + 1) / 2});

# ---------- images ----------

# A row of the first page of the first pair is read, and one of the second page is changed.
my ($read, $changed) = (1, sql(q{SELECT min(a) FROM t WHERE ctid >= '(1,1)'}));
my $reader = $node->background_psql('postgres');
$reader->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off; SET mtpower.enable_directoryscan = off');
sub read_row { return $reader->query_safe("SELECT v FROM t WHERE a = $read"); }

sql(q{SELECT mtpower.stat_reset('buffer')});
for (1 .. $rounds)
{
	read_row() for 1 .. 2;
	sql("UPDATE t SET v = v + 1 WHERE a = $changed");
}
$reader->query_safe('SELECT 1');
my $copied = sql(q{SELECT stat('published', 'table')});
cmp_ok($copied, '>', 0, 'a page that is read has an image');
# Mostly six times.  An image pays by chance, one in 16 for each read: ten or more in 1.3 % of the runs, at most 18 in 1,000,000 simulated ones.
cmp_ok($copied, '<', $rounds / 2, 'but not each time if the page beside it changes as often');
read_row() for 1 .. 150;
my $hits = sql(q{SELECT stat('hits', 'table')});
read_row() for 1 .. 100;
cmp_ok(sql(q{SELECT stat('hits', 'table')}) - $hits, '>', 30, 'when the changes have ended it has an image again');
$reader->quit;

# ---------- directories ----------

sub scan { sql('SET enable_indexscan = off', 'SET enable_bitmapscan = off', 'SELECT v FROM t WHERE b = 5000'); settled(); return; }
sub change { return sql('UPDATE t SET v = v + 1 WHERE a % 50 = 0', 'COMMIT; VACUUM t'); }

sql(q{SELECT mtpower.set_directory('t', 'b')});
scan() for 1 .. 2;
is(sql(q{SELECT count(*) FROM mtpower.buffer_content WHERE kind = 'directory'}), $pairs, 'each pair has a directory');
sql('SELECT mtpower.stat_reset()');
change();
scan();
cmp_ok(directories('built'), '>=', $pairs * 3 / 4, 'and another one after a change, but for some that share a rest');
scan() for 1 .. 4;
for (1 .. $rounds)
{
	change();
	scan();
}
note "$copied images and " . directories('built') . " directories of $pairs pairs in $rounds rounds";
cmp_ok(directories('built'), '<', $pairs * $rounds / 4, 'but not each time if the pairs change as often as they are read');
cmp_ok(directories('built'), '>', $pairs * 2, 'and yet now and then');
scan() for 1 .. 35;
is(sql(q{SELECT count(*) FROM mtpower.buffer_content WHERE kind = 'directory'}), $pairs, 'when the changes have ended each pair has one again');
my $found = sql(q{SELECT stat('hits', 'directory')});
scan();
is(sql(q{SELECT stat('hits', 'directory')}) - $found, $pairs, 'which is read');

$faults->log_is_clean;
done_testing();
