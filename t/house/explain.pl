# EXPLAIN (ANALYZE, MTPOWER): PostgreSQL 18 shows what frames and batches were to a statement, by the
# counters that the views have, and in each format; 15 and 17 refuse the option.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use JSON::PP;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batching = on
mtpower.batch_min_rows = 100
mtpower.batch_size = '64kB'
mtpower.buffer_size = 32MB
mtpower.workers = 2
max_parallel_workers_per_gather = 0
jit = off
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION mtpower; CREATE TABLE t (a int, b text) USING mtpower; CREATE INDEX t_a ON t USING mtpower_blink (a); CREATE INDEX t_b ON t USING mtpower_hash (b)});
my ($release) = $node->safe_psql('postgres', 'SHOW server_version_num') =~ /^(\d\d)/;
my $insert = q{INSERT INTO t SELECT g, 'x' || g FROM generate_series(1, 20000) g};

if ($release < 18)
{
	my ($status, undef, $error) = $node->psql('postgres', "EXPLAIN (ANALYZE, MTPOWER) $insert");
	is($status, 3, 'the option is refused');
	like($error, qr/unrecognized EXPLAIN option "mtpower"/, 'as one that there is not');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 0, 'nothing was executed');
	$node->stop;
	done_testing();
	exit;
}

# What the last of some statements prints, as text and as a hash
my $off = 'COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF';
sub text { my ($sql, $before) = @_; return $node->safe_psql('postgres', ($before // '') . ";EXPLAIN (ANALYZE, MTPOWER, $off) $sql"); }

sub json
{
	my ($sql, $before) = @_;
	my $plans = decode_json($node->safe_psql('postgres', ($before // '') . ";EXPLAIN (ANALYZE, MTPOWER, $off, FORMAT json) $sql"));
	return map { $_->{Mtpower} } @$plans;
}
my @properties = ('Batch Entries', 'Batch Entries by Workers', 'Batch Waits', 'Batches Applied',
	map { ("$_ Frame Hits", "$_ Frame Misses", "$_ Frames Torn") } qw(Directory Index Table));

# ---------- batches ----------

my $views = q{SELECT sum(batches), sum(entries), sum(entries_workers) FROM mtpower.stat_batches};
my ($loaded) = json($insert, 'SELECT mtpower.stat_reset() \g /dev/null' . "\n");
is(join(', ', sort keys %$loaded), join(', ', sort @properties), 'JSON has all properties');
is("$loaded->{'Batches Applied'}|$loaded->{'Batch Entries'}|$loaded->{'Batch Entries by Workers'}", $node->safe_psql('postgres', $views), 'batches and entries as the view has them');
cmp_ok($loaded->{'Batch Entries'}, '==', 2 * (20000 - 100), 'all but the first rows were queued');
cmp_ok($loaded->{'Batches Applied'}, '>', 5, 'in some batches');

$node->safe_psql('postgres', 'ALTER SYSTEM SET mtpower.workers = 0; SELECT pg_reload_conf()');
$node->poll_query_until('postgres', q{SELECT current_setting('mtpower.workers') = '0' AND count(*) = 0 FROM mtpower.stat_workers}) or die 'workers stay';
like(text($insert), qr/^Mtpower:\n(?:  Index Frames:[^\n]*\n)?  Batches: applied=\d+ entries=39800$/m, 'without workers; text leaves out what is zero');
like(text($insert, 'SET mtpower.batching = off'), qr/^(?!.*Batches)/s, 'nothing is queued');
like(text('SELECT 1'), qr/^Result[^\n]*$/, 'nothing to be said');
# What a trigger inserts is the statement's.
$node->safe_psql('postgres', "CREATE TABLE feed (n int); CREATE FUNCTION feed() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN $insert; RETURN NULL; END\$\$; CREATE TRIGGER feed AFTER INSERT ON feed FOR EACH ROW EXECUTE FUNCTION feed()");
is((json('INSERT INTO feed VALUES (1), (2)'))[0]{'Batch Entries'}, 2 * 39800, 'what triggers insert is in it');
$node->safe_psql('postgres', "CREATE RULE two AS ON UPDATE TO feed DO ALSO $insert");
is(join('|', map { $_->{'Batch Entries'} } json('UPDATE feed SET n = 3')), '39800|0', 'a rule makes two plans; each has its own');

# ---------- frames ----------

$node->safe_psql('postgres', 'VACUUM ANALYZE t');
my $probe = q{SELECT count(b) FROM generate_series(1, 200) g, LATERAL (SELECT b FROM t WHERE a = g OFFSET 0) x};
my $setup = 'SET enable_bitmapscan = off; SET enable_seqscan = off';
my $counts = q{SELECT sum(hits) FILTER (WHERE kind = 'index'), sum(hits) FILTER (WHERE kind = 'table'), sum(misses) FILTER (WHERE kind = 'index') FROM mtpower.stat_buffer};
$node->safe_psql('postgres', "$setup; $probe") foreach 1 .. 3;
$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('buffer')});
my ($read) = json($probe, $setup);
is("$read->{'Index Frame Hits'}|$read->{'Table Frame Hits'}|$read->{'Index Frame Misses'}", $node->safe_psql('postgres', $counts), 'hits and misses as the view has them');
cmp_ok($read->{'Index Frame Hits'}, '>', 200, 'most is read in frames');
like(text($probe, $setup), qr/^Mtpower:\n  Index Frames: hit=\d+[^\n]*\n  Table Frames: hit=\d+/m, 'as text');
like(text($probe, "$setup; SET mtpower.use_frames = off"), qr/^(?!.*Mtpower)/s, 'nothing is read in frames');

# The planner looks the greatest key up, and the plan reads nothing.
my ($planned) = json('SELECT b FROM t WHERE a > 999999 LIMIT 0', "$setup; SELECT mtpower.stat_reset('buffer') \\g /dev/null\n");
cmp_ok($node->safe_psql('postgres', q{SELECT sum(hits + misses) FROM mtpower.stat_buffer WHERE kind = 'index'}), '>', 0, 'planning reads frames');
is(join('|', map { $planned->{"Index Frame $_"} } qw(Hits Misses)), '0|0', '… which is not the statement\'s');

# Planning executes an immutable function, which reads frames.
$node->safe_psql('postgres', "CREATE FUNCTION folded() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS \$\$BEGIN RETURN (SELECT sum(n) FROM ($probe) x (n)); END\$\$");
my ($folded) = json('SELECT folded()', "$setup; SELECT mtpower.stat_reset('buffer') \\g /dev/null\n");
cmp_ok($node->safe_psql('postgres', q{SELECT sum(hits) FROM mtpower.stat_buffer WHERE kind = 'index'}), '>', 200, 'a function of the planner reads frames');
is($folded->{'Index Frame Hits'}, 0, '… which are not the statement\'s');

# ---------- within one another, and after errors ----------

$node->safe_psql('postgres', "CREATE FUNCTION inner_explain(out n bigint) LANGUAGE plpgsql AS \$\$DECLARE plan json; BEGIN EXECUTE 'EXPLAIN (ANALYZE, MTPOWER, FORMAT json) $probe' INTO plan; n := plan->0->'Mtpower'->'Index Frame Hits'; END\$\$;");
my ($both) = json('SELECT inner_explain(), inner_explain()', $setup);
cmp_ok($both->{'Index Frame Hits'}, '>=', 400, 'the outer one has what the inner ones read');
cmp_ok($both->{'Index Frame Hits'}, '<=', 2 * $read->{'Index Frame Hits'} + 50, '… and nothing that came before');
my ($status, $out, $error) = $node->psql('postgres', "$setup;\nEXPLAIN (ANALYZE, MTPOWER) SELECT 1 / (a - a) FROM t WHERE a = 1;\nEXPLAIN (ANALYZE, MTPOWER, $off) $probe;\nEXPLAIN (ANALYZE, MTPOWER off, $off) SELECT a FROM t WHERE a = 1", on_error_stop => 0);
like($error, qr/division by zero/, 'an error in between');
is(() = $out =~ /Mtpower:/g, 1, 'the next one is none the worse, and MTPOWER off is off');
foreach ([ 'MTPOWER', qr/EXPLAIN option MTPOWER requires ANALYZE/ ], [ 'ANALYZE, MTPOWER 3', qr/mtpower requires a Boolean value/ ])
{
	my ($options, $message) = @$_;
	my (undef, undef, $said) = $node->psql('postgres', "EXPLAIN ($options) SELECT 1");
	like($said, $message, "refused: $options");
}
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal/, 'the log is clean');
done_testing();
