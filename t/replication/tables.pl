# Logical decoding and replication work out of mtpower tables and into them, as with heap tables.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
$publisher->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$publisher->start;
$publisher->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE TABLE h (a int PRIMARY KEY, b text);
	CREATE TABLE m (a int PRIMARY KEY, b text) USING mtpower;
	SELECT pg_create_logical_replication_slot('slot', 'test_decoding');
});

# What is done to both tables decodes to the same changes, also when m changes hands in between.
sub both
{
	my ($sql) = @_;
	foreach my $table ('h', 'm')
	{
		$publisher->safe_psql('postgres', $sql =~ s/TABLE_NAME/$table/gr);
	}
}
both(q{INSERT INTO TABLE_NAME SELECT g, 'row ' || g FROM generate_series(1, 5) g});
both(q{INSERT INTO TABLE_NAME SELECT 10, string_agg(md5(g::text), '') FROM generate_series(1, 2000) g});
both(q{UPDATE TABLE_NAME SET b = 'updated' WHERE a = 1; UPDATE TABLE_NAME SET a = 20 WHERE a = 2});
both(q{UPDATE TABLE_NAME SET a = 11 WHERE a = 10});
$publisher->safe_psql('postgres', q{SELECT mtpower.release('m')});
both(q{DELETE FROM TABLE_NAME WHERE a = 3});
$publisher->safe_psql('postgres', q{SELECT mtpower.adopt('m')});
both(qq{COPY TABLE_NAME FROM stdin;\n100\tcopied\n101\tcopied\n\\.\n});
both(q{BEGIN; INSERT INTO TABLE_NAME VALUES (200, 'one'); SAVEPOINT s; INSERT INTO TABLE_NAME VALUES (201, 'lost');
	ROLLBACK TO s; INSERT INTO TABLE_NAME VALUES (202, 'two'); COMMIT});
both(q{BEGIN; INSERT INTO TABLE_NAME VALUES (300, 'before'); TRUNCATE TABLE_NAME; INSERT INTO TABLE_NAME VALUES (301, 'after'); COMMIT});
my $changes = q{SELECT replace(data, 'table public.TABLE_NAME:', '')
	FROM pg_logical_slot_peek_changes('slot', NULL, NULL, 'include-xids', '0')
	WHERE data LIKE 'table public.TABLE_NAME:%'};
my $heap = $publisher->safe_psql('postgres', $changes =~ s/TABLE_NAME/h/gr);
my $ours = $publisher->safe_psql('postgres', $changes =~ s/TABLE_NAME/m/gr);
cmp_ok(length($heap), '>', 64000, 'the changes were decoded, the toasted value included');
is($ours, $heap, 'an mtpower table decodes as a heap table');
$publisher->safe_psql('postgres', q{SELECT pg_drop_replication_slot('slot')});

# From mtpower to heap and from heap to mtpower.
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$subscriber->start;
$subscriber->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE TABLE h (a int PRIMARY KEY, b text) USING mtpower;
	CREATE TABLE m (a int PRIMARY KEY, b text);
	CREATE INDEX ON h (b);
});
both(q{INSERT INTO TABLE_NAME SELECT g, 'initial ' || g FROM generate_series(1000, 1500) g});
$publisher->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE h, m');
$subscriber->safe_psql('postgres', 'CREATE SUBSCRIPTION s CONNECTION ' . "'" . $publisher->connstr
	. " dbname=postgres application_name=s' PUBLICATION p");
$subscriber->wait_for_subscription_sync($publisher, 's');
my $sum = 'SELECT count(*), sum(a), sum(hashtext(b)) FROM ';
sub same
{
	my ($what) = @_;
	$publisher->wait_for_catchup('s');
	foreach my $table ('h', 'm')
	{
		is($subscriber->safe_psql('postgres', $sum . $table), $publisher->safe_psql('postgres', $sum . $table),
			"$what, table $table");
	}
}
same('initial copy');
both(q{UPDATE TABLE_NAME SET b = 'changed ' || a WHERE a < 1100; DELETE FROM TABLE_NAME WHERE a BETWEEN 1100 AND 1199;
	INSERT INTO TABLE_NAME SELECT g, 'more' FROM generate_series(2000, 2500) g});
same('changes');
both(q{BEGIN; INSERT INTO TABLE_NAME VALUES (1, 'before'); TRUNCATE TABLE_NAME; INSERT INTO TABLE_NAME VALUES (2, 'after'); COMMIT});
same('INSERT, TRUNCATE, INSERT');
is($subscriber->safe_psql('postgres', 'SET enable_seqscan = off; SELECT a FROM h WHERE b = ' . "'after'"), '2',
	'the index of the mtpower table has the row');

$subscriber->stop;
$publisher->stop;
done_testing();
