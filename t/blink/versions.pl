# An inserter asks the table which entries of a full leaf are old versions of rows only where
# there may be some: not for an INSERT of keys that others have, but for an UPDATE that leaves the
# key alone, and for one that sets it where many keys have a few entries each.
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
fsync = off
});
$node->start;

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub entries
{
	return sql(q{SELECT sum(p.tids) FROM generate_series(1, pg_relation_size('v_a') / current_setting('block_size')::int - 1) b,
		mtpower.page_info('v_a', b) p WHERE p.type = 'leaf'});
}

sql('CREATE EXTENSION mtpower');
foreach my $how ('one by one', 'in batches')
{
	my $batching = 'SET mtpower.batching = ' . ($how eq 'in batches' ? 'on; SET mtpower.batch_min_rows = 0' : 'off');

	# An index on b keeps the UPDATEs from being HOT.  How full the leaves are that a batch comes to, and so what four UPDATEs
	# take away, depends on who merges which part of it first; of twelve, some always do.
	foreach my $c ([ 4, 'b = b + 1', 1 ], [ 50, 'b = b + 1', 1 ], [ 3, 'a = a, b = b + 1', 1 ], [ 50, 'a = a, b = b + 1', 0 ], [ 1, 'a = a + 10000', 0 ])
	{
		my ($rows, $set, $fewer) = @$c;
		my $insert = "INSERT INTO v SELECT g % (2000 / $rows), 0 FROM generate_series(1, 2000) g";

		sql('DROP TABLE IF EXISTS v; CREATE TABLE v (a int, b int); CREATE INDEX v_a ON v USING mtpower_blink (a) WITH (deduplicate_items = off); CREATE INDEX ON v (b)');
		sql($insert);
		sql('DELETE FROM v');
		sql("$batching; $insert");
		is(entries(), 4000, "$how, $rows rows a key: INSERTs take nothing away");
		sql('VACUUM v');
		sql("$batching; UPDATE v SET $set") foreach 1 .. 12;
		cmp_ok(entries(), $fewer ? '<' : '==', 26000, "$how, $rows rows a key: UPDATEs that set $set take " . ($fewer ? 'old versions away' : 'nothing away'));
		sql("SELECT mtpower.verify_index('v_a', true)");
	}
}
done_testing();
