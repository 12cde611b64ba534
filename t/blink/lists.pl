# Several sessions load few keys at once, so that the TIDs of one key come from blocks of all of
# them, while others insert, update, delete and vacuum. Each scan sees each row of its snapshot
# once, with frames and without.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpLists;
use MtpLoad;
use MtpSessions;

my $seconds = $ENV{MTP_RACE_SECONDS} || 12;
my $file = rows_file(1500);
my ($changes, $questions) = lists_scripts($file);

# Of fifteen entries of a key one is marked dead: the next ones don't make a list with it, which would hide that from inserters.
sub joins_no_dead
{
	my ($node, $what) = @_;

	$node->safe_psql('postgres', q{
		CREATE TABLE marked (k int, id int) WITH (autovacuum_enabled = off);
		CREATE INDEX marked_k ON marked USING mtpower_blink (k);
		CREATE TABLE joined (LIKE marked);
		CREATE INDEX joined_k ON joined USING mtpower_blink (k);
		SET mtpower.batching = off});
	$node->safe_psql('postgres', "SET mtpower.batching = off; DO \$\$ BEGIN FOR i IN 1 .. 15 LOOP INSERT INTO $_ VALUES (1, i); END LOOP; END \$\$; DELETE FROM $_ WHERE id = 8")
	  foreach qw(marked joined);
	$node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT id FROM marked WHERE k = 1');
	$node->safe_psql('postgres', "INSERT INTO $_ VALUES (1, 16)") foreach qw(marked joined);
	my ($marked, $joined) = map { $node->safe_psql('postgres', "SELECT lists FROM lists('${_}_k')") } qw(marked joined);
	# Where lists are full with two TIDs, the first entries have joined before.
	is($joined == 1 ? $marked : 0, 0, "$what: what is marked dead joins no list");
	return;
}

foreach my $frames ('64MB', '0')
{
	my $what = $frames eq '0' ? 'without frames' : 'with frames';
	my $node = PostgreSQL::Test::Cluster->new($frames eq '0' ? 'plain' : 'frames');
	$node->init;
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = $frames
mtpower.batch_min_rows = 10
mtpower.batch_size = 64kB
autovacuum = off
fsync = off
jit = off
});
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . lists_sql($frames eq '0' ? 'heap' : 'mtpower'));

	# Three sessions take turns; each goes on in its own block.
	my @sessions = map { $node->background_psql('postgres') } 1 .. 3;
	$_->query_safe('BEGIN') foreach @sessions;
	foreach my $turn (1 .. 8)
	{
		$sessions[$_]->query_safe("INSERT INTO l (k, g, t, n) SELECT *, $_ FROM some_rows(400, $turn * 1000 + $_)") foreach 0 .. 2;
	}
	$_->query_safe('COMMIT') foreach @sessions;
	$_->quit foreach @sessions;
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT n, min(ctid) AS low, max(ctid) AS high FROM l WHERE k = 3 GROUP BY n) a
		JOIN (SELECT n, min(ctid) AS low, max(ctid) AS high FROM l WHERE k = 3 GROUP BY n) b ON a.n <> b.n AND a.low < b.high AND b.low < a.high'), '>=', 4,
		"$what: TIDs of sessions lie among each other's");
	lists_sound($node, "$what, in turns", 1);

	# And at once.
	my @jobs = map { start_psql($node, 'postgres', ("COPY l (k, g, t) FROM '$file'") x 4) } 1 .. 3;
	is(join('', map { finish($_) } @jobs), '', "$what: three loaders");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM l'), 3 * (8 * 400 + 4 * 1500), "$what: all rows came");
	lists_sound($node, "$what, three loaders", 1);

	my $run = start_pgbench($node, $seconds, 6, %$changes, %$questions, q{SELECT mtpower.verify_index(i, true) FROM unnest('{l_k,l_g,l_t,l_n}'::regclass[]) i;} => 1);
	finish_pgbench($run, $what, 50);
	lists_sound($node, "$what, afterwards", 1);
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) l');
	lists_sound($node, "$what, vacuumed", 1);
	is($node->safe_psql('postgres', q{SELECT count(*) FROM (SELECT count(*) AS n FROM l) l, unnest('{l_k,l_g,l_t,l_n}'::regclass[]) i WHERE (lists(i)).tids <> l.n}), 0,
		"$what: as many TIDs as rows");
	is_clean($node, $what);
	log_is_clean($node);
	joins_no_dead($node, $what);
	$node->stop;
}
done_testing();
