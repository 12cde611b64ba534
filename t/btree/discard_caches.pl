# Backends and workers rebuild their cache entries at every chance (debug_discard_caches, which needs
# a server with assertions). The indexes of a statement stay redirected, workers merge with routines
# that they loaded before (E4), statements find their conflicts, and a heap table agrees.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_size = '64kB'
mtpower.batch_min_rows = 8
autovacuum = off
fsync = off
});
$node->start;
plan skip_all => 'the server has no assertions' if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';

$node->safe_psql('postgres', 'CREATE EXTENSION mtpower; CREATE EXTENSION amcheck');
foreach my $am (qw(mtpower heap))
{
	$node->safe_psql('postgres', qq{
CREATE SCHEMA s_$am;
SET search_path = s_$am;
CREATE TABLE t (id int PRIMARY KEY, a int, b text, c numeric) USING $am;
CREATE INDEX t_a ON t (a);
CREATE INDEX t_b ON t (b COLLATE "C", a);
CREATE INDEX t_c ON t (c) WHERE a > 3;
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES t (id)) USING $am;
});
}

# Both tables answer alike. Which one of several conflicts the detail shows is open.
sub on_both
{
	my ($name, $sql) = @_;
	my @says;
	foreach my $am (qw(mtpower heap))
	{
		my ($out, $err);
		$node->psql('postgres', "SET search_path = s_$am, public; $sql", stdout => \$out, stderr => \$err);
		$err =~ s/\nDETAIL.*//s;
		$err =~ s/^psql:[^ ]* //;
		push @says, "$out$err";
	}
	is($says[0], $says[1], "$name: " . ($says[1] || 'no error'));
}

my $row = 'hashint4(i) % 50, md5(i::text), i / 7.0';
$node->safe_psql('postgres', 'ALTER SYSTEM SET debug_discard_caches = 1');
$node->restart;
on_both('rows into empty indexes', "INSERT INTO t SELECT i, $row FROM generate_series(1, 1500) i");
on_both('more, below them', "INSERT INTO t SELECT -i, $row FROM generate_series(1, 700) i");
on_both('a key that is there', "INSERT INTO t SELECT 2100 - i, $row FROM generate_series(1, 900) i");
on_both('a key that comes twice', "INSERT INTO t SELECT 5000 + i % 600, $row FROM generate_series(1, 601) i");
on_both('COPY', q{COPY t (id, a) FROM PROGRAM 'seq -f "%.0f	7" 3000 3300'});
on_both('UPDATE of keys', q{UPDATE t SET a = a + 1, b = b || 'x' WHERE id < 500});
on_both('upserts', "INSERT INTO t SELECT i, $row FROM generate_series(1400, 1700) i ON CONFLICT (id) DO UPDATE SET a = -1");
on_both('a foreign key', 'INSERT INTO child SELECT i, i FROM generate_series(1, 100) i');
on_both('a foreign key that leads nowhere', 'INSERT INTO child SELECT i, 100000 + i FROM generate_series(200, 300) i');
on_both('an error that a block swallows', q{DO $$ BEGIN INSERT INTO t SELECT i, i FROM generate_series(6000, 6100) i; INSERT INTO t SELECT i, i FROM generate_series(6100, 6000, -1) i; EXCEPTION WHEN unique_violation THEN INSERT INTO t SELECT i, i FROM generate_series(7000, 7100) i; END $$});
my $merged = $node->safe_psql('postgres', q{SELECT sum(entries) > 5000 AND sum(leaves) > 0 FROM mtpower.stat_batches WHERE database = current_database()});
is($merged, 't', 'leaves took entries');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET debug_discard_caches');
$node->restart;
on_both('the rows', 'SELECT count(*), sum(hashtextextended(t::text, 0)) FROM t');
on_both('the rows by an index', 'SET enable_seqscan = off; SELECT count(*), sum(a), sum(id) FROM t WHERE id > -10000');
is($node->safe_psql('postgres', q{SELECT count(bt_index_parent_check(indexrelid, true, true)) FROM pg_index i JOIN pg_class c ON c.oid = indrelid WHERE relnamespace = 's_mtpower'::regnamespace}), 5, 'amcheck finds nothing');

$node->stop;
done_testing();
