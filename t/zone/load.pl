# C code that stores rows in batches and asks for their index entries in another order than COPY does, or stores rows one by one
# between batches, without statements, and at commit: each row is within its entries.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

my $dir = MtpFaults::compile('c_inserts');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$dir:\$libdir'
shared_preload_libraries = 'c_inserts,mtpower'
autovacuum = off
max_parallel_workers_per_gather = 0
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE TABLE t (a int, b text COLLATE "C") USING mtpower;
CREATE INDEX t_a ON t USING mtpower_zone (a);
CREATE INDEX t_b ON t USING mtpower_zone (b, a);
CREATE INDEX t_c ON t USING btree (a);
CREATE FUNCTION c_insert_turns(regclass, int, int, text) RETURNS int LANGUAGE c AS 'c_inserts';
CREATE FUNCTION c_insert_late(regclass, int, int, text) RETURNS int LANGUAGE c AS 'c_inserts';
CREATE FUNCTION c_insert_rows(regclass, int, int, text, int) RETURNS SETOF int LANGUAGE c AS 'c_inserts';
CREATE FUNCTION c_insert_truncated(regclass, int, text) RETURNS int LANGUAGE c AS 'c_inserts';
CREATE FUNCTION c_insert_multi(regclass, int, int, text) RETURNS int LANGUAGE c AS 'c_inserts';
});

my $sound = q{SELECT count(mtpower.verify_index(i, true)) FROM unnest('{t_a,t_b}'::regclass[]) i};
foreach my $way (
	[ 'in turns', q{SELECT c_insert_turns('t', 1, 700, 'a')} ],
	[ 'batches of more rows than COPY makes', q{SELECT c_insert_turns('t', 10001, 2500, 'b')} ],
	[ 'of one row', q{SELECT c_insert_turns('t', 100000 + i, 1, 'c') FROM generate_series(1, 500) i} ],
	[ 'within another statement on the table', q{INSERT INTO t SELECT c_insert_turns('t', 200000 + 4000 * i, 900, 'd'), 'e' FROM generate_series(1, 5) i} ],
	[ 'a batch whose entries come last', q{SELECT c_insert_late('t', 250000, 400, 'j')} ],
	[ 'with FETCHes between batches', q{BEGIN; DECLARE c CURSOR FOR SELECT c_insert_rows('t', 260000, 500, 'k', 9); FETCH 2 c; FETCH 1 c; FETCH 5 c; COMMIT} ],
	[ 'and the table is empty meanwhile', q{SELECT c_insert_truncated('t', 1000000, 'l')} ],
	[ 'at commit', q{SET c_inserts.directly_at_commit = 't'; BEGIN; SELECT 1; COMMIT} ],
	[ 'and many statements in a transaction', q{BEGIN; SELECT c_insert_multi('t', 300000, 500, 'f'); INSERT INTO t SELECT g, 'g' FROM generate_series(400000, 401000) g;
		UPDATE t SET a = -a WHERE a > 400900; SAVEPOINT s; SELECT c_insert_turns('t', 500000, 300, 'h'); ROLLBACK TO s; SELECT c_insert_turns('t', 600000, 300, 'i'); COMMIT} ])
{
	my ($what, $sql) = @$way;
	my $before = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
	$node->safe_psql('postgres', $sql);
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '>', $before, "$what: rows come");
	is($node->safe_psql('postgres', $sound), 2, "$what: both indexes have them");
}
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SET enable_indexscan = off; SELECT count(*) FROM t WHERE a BETWEEN 10001 AND 20000}),
	$node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE a + 0 BETWEEN 10001 AND 20000'), 'and finds them');
$node->stop;
done_testing();
