# A subscriber finds the rows of REPLICA IDENTITY FULL. PostgreSQL 18 takes any index that knows
# equality, 17 btree and hash alone, 15 none: where it takes ours, the apply worker looks each row up
# there with a dirty snapshot. Among the rows are NULLs, equal rows, keys that a collation holds to be
# equal, rows that batches of the apply worker and of other sessions have brought, and rows that
# another transaction has locked. Each time both sides have the same, and the indexes verify.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpReplica;

my %node;
foreach my $name (qw(publisher subscriber))
{
	my $node = $node{$name} = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical');
	$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batching = on
mtpower.batch_min_rows = 100
mtpower.workers = 2
max_worker_processes = 20
wal_retrieve_retry_interval = 100ms
shared_buffers = 16MB
autovacuum = off
log_statement = none
});
	$node->start;
}
my ($publisher, $subscriber) = @node{qw(publisher subscriber)};
$subscriber->safe_psql('postgres', 'CREATE EXTENSION mtpower');
my ($release) = $subscriber->safe_psql('postgres', 'SHOW server_version_num') =~ /^(\d\d)/;

# The only index of each table on the subscriber, and the release that takes it first. An index on an
# expression alone, a partial one, and those of other access methods are never taken.
my %table = (
	blink => [ 18, 'mtpower_blink (a)' ],
	blink_desc => [ 18, 'mtpower_blink (b DESC NULLS FIRST) INCLUDE (c)' ],
	blink_gap => [ 18, 'mtpower_blink (a NULLS FIRST, (c + 1), b)' ],
	blink_text => [ 18, 'mtpower_blink (t)' ],
	hash => [ 18, 'mtpower_hash (a)' ],
	hash_gap => [ 18, 'mtpower_hash (a, (c + 1), b)' ],
	hash_text => [ 18, 'mtpower_hash (t)' ],
	hash_wide => [ 18, 'mtpower_hash (a, b)' ],
	on_heap => [ 18, 'mtpower_blink (a)' ],
	partial => [ 99, 'mtpower_blink (a) WHERE c >= 0' ],
	computed => [ 99, 'mtpower_hash ((a + 0))' ],
	core => [ 17, 'btree (a)' ],
);
my @names = sort keys %table;

# Different strings may be equal, if there is ICU.
my $collation = $subscriber->safe_psql('postgres', q{SELECT count(*) > 0 FROM pg_collation WHERE collprovider = 'i'}) eq 't' ? 'any_case' : '"C"';
foreach my $node (values %node)
{
	$node->safe_psql('postgres', q{CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)}) if $collation eq 'any_case';
	foreach my $name (@names)
	{
		my $am = $node == $publisher || $name =~ /heap|core/ ? 'heap' : 'mtpower';
		$node->safe_psql('postgres', "CREATE TABLE $name (a int, b text, c int, t text COLLATE $collation) USING $am; ALTER TABLE $name REPLICA IDENTITY FULL");
		$node->safe_psql('postgres', "CREATE INDEX ${name}_index ON $name USING $table{$name}[1]") if $node == $subscriber;
	}
}

# SQL for all tables
sub each_table { my ($sql) = @_; return join('', map { ($sql =~ s/TABLE_NAME/$_/gr) . ";\n" } @names); }

sub change { my ($sql) = @_; $publisher->safe_psql('postgres', "BEGIN;\n" . each_table($sql) . 'COMMIT'); return; }

# Both sides have the same rows, read without indexes.
sub same
{
	my ($what) = @_;
	my @wrong;
	$publisher->wait_for_catchup('sub');
	foreach my $name (@names)
	{
		my ($want, $got) = map { $_->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(hashtextextended(concat_ws('|', a, b, c, lower(t), a IS NULL, b IS NULL), 0)::numeric) FROM $name") } $publisher, $subscriber;
		push @wrong, "$name: $got, not $want" if $got ne $want;
	}
	my ($complaints) = indexes_verify($subscriber, 'postgres');
	push @wrong, $complaints if $complaints ne '';
	is(join("\n", @wrong), '', "$what: the same on both sides");
	return;
}

# Scans of a table and of its index that the subscriber has counted, as an SQL expression
sub scans { my ($name, $what) = @_; return "(SELECT $what FROM pg_stat_user_tables t JOIN pg_stat_user_indexes i USING (relid) WHERE t.relname = '$name')"; }

my %before;
sub remember_scans { $before{$_} = $subscriber->safe_psql('postgres', 'SELECT ' . scans($_, 'i.idx_scan')) foreach @names; return; }

# The rows that the publisher has changed are looked up in the index or in the table. The test's own scans of the index are few.
sub are_looked_up
{
	my ($name, $where) = @_;
	my ($n) = $publisher->safe_psql('postgres', "SELECT n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = '$name'");
	cmp_ok($n, '>', 400, "$name: many rows");
	my $idx = scans($name, 'i.idx_scan') . " - $before{$name}";
	my $seq = scans($name, 't.seq_scan');
	ok($subscriber->poll_query_until('postgres', $where eq 'index' ? "SELECT $idx >= $n" : "SELECT $seq >= $n AND $idx < 100"), "$name: they are looked up in the $where");
	return;
}

# Each row twice
$publisher->safe_psql('postgres', each_table(q{INSERT INTO TABLE_NAME SELECT nullif(g % 200, 7), nullif('b' || g % 3, 'b2'), g % 10, 'Key ' || g % 100 FROM generate_series(1, 600) g, generate_series(1, 2)}));
$publisher->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE ' . join(', ', @names));
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '" . $publisher->connstr . " dbname=postgres' PUBLICATION pub");
$subscriber->wait_for_subscription_sync($publisher, 'sub');
$subscriber->safe_psql('postgres', each_table('UPDATE TABLE_NAME SET t = upper(t)')) if $collation eq 'any_case';
same('the initial copy');

# ---------- many rows, and which way they are found ----------

remember_scans();
change($_)
  foreach 'UPDATE TABLE_NAME SET c = c + 100 WHERE a % 10 = 3',
  q{UPDATE TABLE_NAME SET a = a + 1000, b = 'moved', t = t || 'x' WHERE a % 10 = 4},
  'UPDATE TABLE_NAME SET a = NULL, b = NULL WHERE a % 10 = 5',
  'UPDATE TABLE_NAME SET a = 2000 + c WHERE a IS NULL AND c < 3',
  'DELETE FROM TABLE_NAME WHERE a % 10 = 6',
  'DELETE FROM TABLE_NAME WHERE a IS NULL AND c > 5',
  # one of two equal rows
  'DELETE FROM TABLE_NAME WHERE ctid IN (SELECT min(ctid) FROM TABLE_NAME WHERE a % 3 = 0 OR a IS NULL GROUP BY a, b, c, t HAVING count(*) > 1)',
  # versions of one transaction
  q{UPDATE TABLE_NAME SET b = 'y' WHERE c = 7; UPDATE TABLE_NAME SET b = b || 'y', a = a + 1 WHERE c = 7; UPDATE TABLE_NAME SET b = NULL WHERE c = 7; DELETE FROM TABLE_NAME WHERE c = 7 AND a > 100};
$publisher->wait_for_catchup('sub');
are_looked_up($_, $release >= $table{$_}[0] ? 'index' : 'table') foreach @names;
same('UPDATE and DELETE');

# ---------- rows that batches have brought ----------

# The rows of "fed" are not published, but come on the subscriber from a trigger's INSERT, one for each access method: batches of the apply worker, in
# the transaction that goes on to change them.
my %fed = (fed_blink => 'mtpower_blink', fed_hash => 'mtpower_hash');
my $fill = 'INSERT INTO TABLE_NAME SELECT nullif(g % 900, 8), g FROM generate_series(1, 3000) g';
@names = sort keys %fed;
foreach my $node (values %node)
{
	$node->safe_psql('postgres', 'CREATE TABLE feed (n int)');
	$node->safe_psql('postgres', each_table('CREATE TABLE TABLE_NAME (a int, c int, b text, t text); ALTER TABLE TABLE_NAME REPLICA IDENTITY FULL'));
}
$subscriber->safe_psql('postgres', "ALTER TABLE $_ SET ACCESS METHOD mtpower; CREATE INDEX ${_}_index ON $_ USING $fed{$_} (a)") foreach @names;
$subscriber->safe_psql('postgres', 'CREATE FUNCTION feed() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$BEGIN ' . each_table($fill) . q{RETURN NULL; END$$;
CREATE TRIGGER feed AFTER INSERT ON feed FOR EACH ROW EXECUTE FUNCTION feed(); ALTER TABLE feed ENABLE ALWAYS TRIGGER feed});
$publisher->safe_psql('postgres', 'CREATE PUBLICATION feed FOR TABLE feed; CREATE PUBLICATION fed FOR TABLE ' . join(', ', @names) . q{ WITH (publish = 'update, delete')});
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION sub ADD PUBLICATION feed, fed');
$subscriber->wait_for_subscription_sync($publisher, 'sub');
$subscriber->safe_psql('postgres', 'SELECT mtpower.stat_reset()');
remember_scans();
$publisher->safe_psql('postgres', 'BEGIN; INSERT INTO feed VALUES (1);' . each_table("$fill; UPDATE TABLE_NAME SET c = -c WHERE a % 20 = 3 OR a IS NULL; UPDATE TABLE_NAME SET a = a + 5000 WHERE a % 20 = 3; DELETE FROM TABLE_NAME WHERE a % 20 = 9 OR a IS NULL") . 'COMMIT');
same('rows that a trigger of the apply worker inserts');
is($subscriber->safe_psql('postgres', q{SELECT string_agg(index::text, ' ' ORDER BY index::text) FROM mtpower.stat_batches WHERE entries > 1000}), 'fed_blink_index fed_hash_index',
	'they came in batches');

# Another session has inserted rows, and neither committed nor rolled back: the worker waits for it.
my $waiting = q{SELECT count(*) > 0 FROM pg_stat_subscription s JOIN pg_locks l USING (pid) WHERE s.subname = 'sub' AND l.locktype = 'transactionid' AND NOT l.granted};
my $rows = q{INSERT INTO TABLE_NAME SELECT 10000 + g % 1500, g FROM generate_series(1, 3000) g};
foreach my $name (@names)
{
	my $holder = $subscriber->background_psql('postgres');
	$holder->query_safe('BEGIN;' . ($rows =~ s/TABLE_NAME/$name/r));
	$publisher->safe_psql('postgres', ($rows =~ s/TABLE_NAME/$name/r) . "; DELETE FROM $name WHERE c = 2345 AND a > 10000; UPDATE $name SET a = a + 1 WHERE a = 10077");
	ok($subscriber->poll_query_until('postgres', $waiting), "$name: the apply worker waits for rows that another session has inserted");
	$holder->query_safe('COMMIT');
	$holder->quit;
	# What has been changed and is rolled back is found as it was.
	$holder = $subscriber->background_psql('postgres');
	$publisher->wait_for_catchup('sub');
	$holder->query_safe("BEGIN; DELETE FROM $name WHERE a = 10033; UPDATE $name SET a = a + 1 WHERE a = 10034; UPDATE $name SET c = c + 1 WHERE a IN (10036, 10037)");
	$publisher->safe_psql('postgres', "DELETE FROM $name WHERE a IN (10033, 10036); UPDATE $name SET a = -a WHERE a IN (10034, 10037)");
	ok($subscriber->poll_query_until('postgres', $waiting), "$name: and for rows that it has changed");
	$holder->query_safe('ROLLBACK');
	$holder->quit;
}
same('rows of another session');
are_looked_up($_, $release >= 18 ? 'index' : 'table') foreach @names;

$publisher->stop;
foreach my $node (values %node)
{
	unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal/, 'the log is clean: ' . $node->name);
}
$subscriber->stop;
done_testing();
