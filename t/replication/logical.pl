# Logical replication in both directions at once: from heap tables with core's indexes to mtpower
# tables with ours, and back. Initial copies, COPY, transactions that are streamed while they run,
# prepared transactions, TRUNCATE, each replica identity; apply workers and servers are killed in
# the middle of a transaction. Each time both sides have the same rows, and their indexes verify.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpReplica;

my %node;
foreach my $name (qw(core ours))
{
	my $node = $node{$name} = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical');
	$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batch_min_rows = 100
mtpower.workers = 2
max_worker_processes = 20
max_connections = 20
max_prepared_transactions = 10
logical_decoding_work_mem = 64kB
wal_retrieve_retry_interval = 100ms
wal_consistency_checking = 'all, mtpower'
max_wal_size = 1GB
shared_buffers = 16MB
restart_after_crash = on
autovacuum = off
log_statement = none
});
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION mtpower');
}

# What is published by one is the other's by the same name: "there" goes from core's to ours, "back" from ours to core's.
my %way = (there => [ 'core', 'ours' ], back => [ 'ours', 'core' ]);
my @tables = qw(pk full_rows by_index parts);

sub tables_sql
{
	my ($way, $name) = @_;
	my ($am, $ordered, $hash) = $name eq 'core' ? qw(heap btree hash) : qw(mtpower mtpower_blink mtpower_hash);
	my $sql = "SET default_table_access_method = $am;";
	$sql .= "CREATE TABLE ${way}_pk (a int PRIMARY KEY, b text, c int); CREATE TABLE ${way}_full_rows (a int, b text, c int); ALTER TABLE ${way}_full_rows REPLICA IDENTITY FULL;
		CREATE TABLE ${way}_by_index (a int NOT NULL, b text, c int); CREATE UNIQUE INDEX ${way}_ident ON ${way}_by_index (a); ALTER TABLE ${way}_by_index REPLICA IDENTITY USING INDEX ${way}_ident;
		CREATE TABLE ${way}_parts (a int, b text, c int, PRIMARY KEY (a, c)) PARTITION BY LIST (c); CREATE TABLE ${way}_parts_0 PARTITION OF ${way}_parts FOR VALUES IN (0, 1, 2); CREATE TABLE ${way}_parts_1 PARTITION OF ${way}_parts DEFAULT;";
	foreach my $table (map { "${way}_$_" } @tables)
	{
		$sql .= "CREATE INDEX ON $table USING $ordered (a); CREATE INDEX ON $table USING $ordered (b, c); CREATE INDEX ON $table USING $ordered (c DESC) INCLUDE (a) WHERE c > 2;
			CREATE INDEX ON $table USING $hash (b); CREATE INDEX ON $table USING $hash (c);";
	}
	return $sql;
}

# SQL for all tables of one direction
sub each_table { my ($way, $sql) = @_; return join('', map { ($sql =~ s/TABLE_NAME/${way}_$_/gr) . ";\n" } @tables); }

sub both_ways
{
	my ($sql, $before, $after) = @_;
	$node{ $way{$_}[0] }->safe_psql('postgres', ($before // '') . ';' . each_table($_, $sql) . ($after // '')) foreach sort keys %way;
	return;
}

sub rows { my ($from, $n) = @_; return "INSERT INTO TABLE_NAME SELECT g, md5(g::text), g % 10 FROM generate_series($from, $from + $n - 1) g"; }

my $digest = 'SELECT count(*), sum(hashtextextended(x::text, 0)::numeric) FROM %s x';

# Both sides have the same, by the table and by its indexes.
sub same
{
	my ($what) = @_;
	my @wrong;
	$node{ $way{$_}[0] }->wait_for_catchup($_) foreach sort keys %way;
	foreach my $way (sort keys %way)
	{
		my ($from, $to) = map { $node{$_} } @{ $way{$way} };
		foreach my $table (map { "${way}_$_" } @tables)
		{
			my $want = $from->safe_psql('postgres', sprintf($digest, $table));
			my $got = $to->safe_psql('postgres', sprintf($digest, $table));
			push @wrong, "$table: $got, not $want" if $got ne $want;
			my ($n) = split /\|/, $want;
			my $read = $to->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(c), (SELECT count(*) FROM $table WHERE b > '') FROM $table WHERE a > -1; SET enable_indexscan = off; SET enable_bitmapscan = on; SELECT sum(n) FROM generate_series(0, 9) g, LATERAL (SELECT count(*) AS n FROM $table WHERE c = g OFFSET 0) x");
			push @wrong, "$table, by indexes: $read, not $n" if $read ne "$n|$n\n$n";
		}
	}
	foreach my $node (values %node)
	{
		my ($complaints, $n) = indexes_verify($node, 'postgres');
		push @wrong, $node->name . ": $complaints" if $complaints ne '';
		push @wrong, $node->name . ": $n indexes verified" if $node->name eq 'ours' && $n != 2 * 25;
		my $held = $node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory');
		push @wrong, $node->name . ": $held bytes are held" if $held != 0;
	}
	is(join("\n", @wrong), '', "$what: the same on both sides");
	return;
}

# ---------- initial copies ----------

foreach my $way (sort keys %way)
{
	$_->safe_psql('postgres', tables_sql($way, $_->name)) foreach values %node;
	my $from = $node{ $way{$way}[0] };
	$from->safe_psql('postgres', each_table($way, rows(1, 1500)) . "CREATE PUBLICATION $way FOR TABLE " . join(', ', map { "${way}_$_" } @tables) . " WITH (publish_via_partition_root = on)");
}
foreach my $way (sort keys %way)
{
	my ($from, $to) = map { $node{$_} } @{ $way{$way} };
	$to->safe_psql('postgres', "CREATE SUBSCRIPTION $way CONNECTION '" . $from->connstr . " dbname=postgres application_name=$way' PUBLICATION $way WITH (streaming = on, two_phase = on)");
	$to->wait_for_subscription_sync($from, $way);
}
same('initial copies');
# Two-phase commit is on only when all initial copies are done.
$node{ $way{$_}[1] }->poll_query_until('postgres', "SELECT subtwophasestate = 'e' FROM pg_subscription WHERE subname = '$_'") or die 'no two-phase commit' foreach sort keys %way;

# ---------- changes ----------

my $changes = "UPDATE TABLE_NAME SET b = b || 'x', c = (c + 1) % 10 WHERE a % 50 = 0; UPDATE TABLE_NAME SET a = a + 1000000 WHERE a % 100 = 7; DELETE FROM TABLE_NAME WHERE a % 60 = 3";
both_ways($changes);
same('UPDATE and DELETE');
foreach my $way (sort keys %way)
{
	my $from = $node{ $way{$way}[0] };
	$from->safe_psql('postgres', "COPY (SELECT g, md5(g::text), g % 10 FROM generate_series(4001, 5500) g) TO PROGRAM 'cat > rows.copy'");
	$from->safe_psql('postgres', each_table($way, "COPY TABLE_NAME FROM 'rows.copy'"));
}
same('COPY');
both_ways(rows(10001, 2000) . '; SAVEPOINT a;' . rows(20001, 1000) . "; $changes; ROLLBACK TO a;" . rows(30001, 800) . ';' . "UPDATE TABLE_NAME SET c = 9 - c WHERE a BETWEEN 30001 AND 30200", 'BEGIN', 'COMMIT');
both_ways(rows(20001, 2000) . '; DELETE FROM TABLE_NAME WHERE a < 1000', 'BEGIN', 'ROLLBACK');
same('large transactions');
foreach my $way (sort keys %way)
{
	my $streamed = $node{ $way{$way}[0] }->safe_psql('postgres', "SELECT pg_stat_force_next_flush(); SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = '$way'");
	is($streamed =~ s/^\n//r, 't', "$way: they were streamed");
}

# ---------- prepared transactions ----------

# How many of the publisher's are prepared on the subscriber, where their names have the publisher's transaction ids.  (What one prepares for the other
# comes back to it, as an empty transaction.)
sub prepared
{
	my ($way) = @_;
	my ($from, $to) = map { $node{$_} } @{ $way{$way} };
	$from->wait_for_catchup($way);
	my $xids = $from->safe_psql('postgres', q{SELECT string_agg(transaction::text, '|') FROM pg_prepared_xacts WHERE gid NOT LIKE 'pg_gid%'});
	return $to->safe_psql('postgres', "SELECT count(*) FROM pg_prepared_xacts p JOIN pg_subscription s ON p.gid ~ ('^pg_gid_' || s.oid || '_($xids)\$') AND s.subname = '$way'");
}
both_ways(rows(40001, 1500) . '; DELETE FROM TABLE_NAME WHERE a BETWEEN 4001 AND 4100', 'BEGIN', "PREPARE TRANSACTION 'large'");
both_ways(rows(50001, 20), 'BEGIN', "PREPARE TRANSACTION 'small'");
both_ways(rows(60001, 1000) . "; UPDATE TABLE_NAME SET c = 0 WHERE a BETWEEN 4101 AND 4200", 'BEGIN', "PREPARE TRANSACTION 'lost'");
is(prepared($_), 3, "$_: they are prepared on the subscriber") foreach sort keys %way;
same('prepared');
foreach my $name (qw(ours core))
{
	$node{$name}->stop('immediate');
	$node{$name}->start;
}
is(prepared($_), 3, "$_: and after a crash of both") foreach sort keys %way;
same('prepared, after a crash');
foreach my $way (sort keys %way)
{
	my $from = $node{ $way{$way}[0] };
	$from->safe_psql('postgres', $_) foreach "COMMIT PREPARED 'large'", "COMMIT PREPARED 'small'", "ROLLBACK PREPARED 'lost'";
}
same('after COMMIT PREPARED and ROLLBACK PREPARED');
ok($node{ $way{$_}[1] }->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_prepared_xacts'), "$_: they are no more") foreach sort keys %way;
is($node{ours}->safe_psql('postgres', 'SELECT count(*) FROM there_pk WHERE a BETWEEN 40001 AND 69999'), 1520, 'what was committed is there');

# ---------- TRUNCATE ----------

both_ways(rows(70001, 600) . '; TRUNCATE TABLE_NAME; ' . rows(80001, 600), 'BEGIN', 'COMMIT');
same('TRUNCATE between INSERTs');
is($node{ours}->safe_psql('postgres', 'SELECT count(*) FROM there_full_rows'), 600, 'nothing else is left');

# ---------- workers that end in the middle of a transaction ----------

# A row of somebody else's holds the apply worker up.
my $blocked = "SELECT min(pid) FROM pg_stat_subscription s JOIN pg_locks l USING (pid) WHERE s.subname = 'there' AND l.locktype = 'transactionid' AND NOT l.granted";
foreach my $how ('terminated', 'killed')
{
	my $to = $node{ours};
	my $at = $how eq 'killed' ? 100000 : 90000;
	my $holder = $to->background_psql('postgres');
	$holder->query_safe("BEGIN; INSERT INTO there_pk VALUES ($at + 2000)");
	$node{core}->safe_psql('postgres', 'BEGIN;' . join(';', map { rows($at, 2200) =~ s/TABLE_NAME/there_$_/r } reverse @tables) . '; DELETE FROM there_full_rows WHERE a % 500 = 1; COMMIT');
	$to->poll_query_until('postgres', "SELECT ($blocked) > 0") or die 'the worker does not come';
	my $pid = $to->safe_psql('postgres', $blocked);
	if ($how eq 'terminated')
	{
		$to->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		$to->poll_query_until('postgres', "SELECT ($blocked) <> $pid") or die 'it does not come again';
		is($to->safe_psql('postgres', "SELECT count(*) FROM there_by_index WHERE a >= $at"), 0, "$how: nothing of it is visible");
		$holder->query_safe('ROLLBACK');
		$holder->quit;
	}
	else
	{
		my $from = -s $to->logfile;
		kill 'KILL', $pid;
		ok(wait_for_log_line($to, qr/terminated by signal 9.*database system is ready to accept connections/s, $from), "$how: the server starts again");
		eval { $holder->quit };
		$to->poll_query_until('postgres', 'SELECT true');
	}
	same("a worker that is $how");
}

foreach my $node (values %node)
{
	unlike(slurp_file($node->logfile), qr/inconsistent page|TRAP|PANIC/, 'the log is clean: ' . $node->name);
	$node->stop;
}
done_testing();
