# Citus distributes a table of mtpower with B-link, hash and zone indexes: loads by the coordinator
# go into the shards' indexes in batches, and shards that are moved, rebalanced and split into other
# numbers keep their access methods. A worker that is killed in the middle of a load fails it as a
# whole. Rows and indexes are right each time.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpDocs;
use MtpReplica;
use MtpSessions;

chomp(my $libraries = qx(pg_config --pkglibdir));
plan skip_all => 'Citus is not installed' if !-e "$libraries/citus.so";

my %node;
foreach my $name (qw(coordinator worker1 worker2))
{
	my $node = $node{$name} = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical');
	my $host = $node->host;
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'citus,mtpower'
citus.local_hostname = '$host'
max_worker_processes = 20
max_prepared_transactions = 50
citus.shard_count = 8
citus.enable_statistics_collection = off
citus.show_shards_for_app_name_prefixes = '*'
autovacuum = off
});
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION citus; CREATE EXTENSION mtpower');
}
my ($coordinator, @workers) = @node{qw(coordinator worker1 worker2)};

sub citus { my ($sql) = @_; return $coordinator->safe_psql('postgres', $sql); }
sub address { my ($node) = @_; return "'" . $node->host . "', " . $node->port; }

sub rows { my ($load) = @_; return "SELECT g AS id, g * $load % 517 AS device, 'kind ' || g % 7 AS kind, repeat(md5(g::text), " . ($load == 5 ? 100 : 1) . ") AS note, $load AS load FROM generate_series(1, 20000) g"; }

# Shards and their indexes by access method, on all workers
sub access_methods
{
	my %count;
	foreach my $worker (@workers)
	{
		$count{$_}++ foreach split /\n/, $worker->safe_psql('postgres', qq{
			SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_index i ON i.indexrelid = c.oid
			WHERE coalesce(i.indrelid, c.oid)::regclass::text ~ '^events_\\d+\$'});
	}
	return \%count;
}

my @loads;
sub holds
{
	my ($what, $shards) = @_;
	citus('CALL citus_cleanup_orphaned_resources()');
	my $digest = 'SELECT count(*), sum(hashtextextended(x::text, 0)) FROM';
	is(citus("$digest (SELECT id, device, kind, note, load FROM events OFFSET 0) x"), citus("$digest (" . join(' UNION ALL ', map { rows($_) } @loads) . ') x'), "$what: rows");
	is_deeply(access_methods(), { mtpower => $shards, btree => $shards, mtpower_blink => 2 * $shards, mtpower_hash => $shards, mtpower_zone => $shards },
		"$what: access methods of $shards shards");
	foreach my $worker (@workers)
	{
		my ($complaints) = indexes_verify($worker, 'postgres');
		is($complaints, '', "$what: indexes of " . $worker->name);
	}
	return;
}

sub load
{
	my ($load) = @_;
	my $file = $coordinator->basedir . '/rows';
	citus('COPY (' . rows($load) . ") TO '$file'");
	citus("COPY events FROM '$file'");
	push @loads, $load;
	return;
}

sub shards_of { my ($worker) = @_; return citus('SELECT count(*) FROM citus_shards WHERE nodeport = ' . $worker->port); }

# ---------- one worker ----------

citus("SELECT citus_set_coordinator_host(" . address($coordinator) . '); SELECT citus_add_node(' . address($workers[0]) . ')');
citus(block_behind(document('docs/machines.md'), '## Citus', 1));
is_deeply(access_methods(), { map { $_ => 8 } qw(mtpower btree mtpower_blink mtpower_hash) },
	'docs/machines.md: its statements make shards with these access methods');
citus('DROP TABLE events');
citus(q{
	CREATE TABLE events (id int, device int, kind text, note text, load int, PRIMARY KEY (device, id, load)) USING mtpower;
	CREATE INDEX ON events USING mtpower_blink (device);
	CREATE INDEX ON events USING mtpower_hash (note);
	CREATE INDEX ON events USING mtpower_zone (id);
	SELECT create_distributed_table('events', 'device');
	CREATE INDEX ON events USING mtpower_blink (kind, id)});
load(1);
holds('COPY', 8);
my ($entries, $by) = split /\|/, $workers[0]->safe_psql('postgres', 'SELECT sum(entries), count(*) FROM mtpower.stat_batches WHERE entries > 0');
cmp_ok($entries, '>', 50000, "COPY goes in by batches: $entries entries");

# ---------- two workers ----------

citus('SELECT citus_add_node(' . address($workers[1]) . ')');
is(shards_of($workers[1]), 0, 'the second worker is empty');
my @shards = split /\n/, citus('SELECT shardid FROM pg_dist_shard ORDER BY 1');
citus("SELECT citus_move_shard_placement($shards[0], " . address($workers[0]) . ', ' . address($workers[1]) . ", shard_transfer_mode => 'force_logical')");
citus("SELECT citus_move_shard_placement($shards[1], " . address($workers[0]) . ', ' . address($workers[1]) . ", shard_transfer_mode => 'block_writes')");
is(shards_of($workers[1]), 2, 'two shards have moved');
holds('citus_move_shard_placement', 8);
load(2);
holds('COPY to two workers', 8);
citus(q{SELECT rebalance_table_shards('events', shard_transfer_mode => 'force_logical')});
is(shards_of($workers[1]), 4, 'half of the shards are on each worker');
holds('rebalance_table_shards', 8);
citus(q{SELECT alter_distributed_table('events', shard_count => 4)});
holds('alter_distributed_table', 4);
load(3);
holds('COPY into fewer shards', 4);
citus("INSERT INTO events SELECT id, device, kind, note, 4 FROM (" . rows(4) . ') x');
push @loads, 4;
holds('INSERT ... SELECT', 4);

# ---------- a worker that is killed in the middle of a load ----------

# A worker gets rows by some megabytes, so these are wide.
my $victim = $workers[1];
my $file = $coordinator->basedir . '/rows';
citus('COPY (' . rows(5) . ") TO '$file'");
my $job = start_psql($coordinator, 'postgres', "COPY events FROM PROGRAM 'head -n 18000 $file; until [ -e $file.go ]; do sleep 0.1; done; tail -n 2000 $file'");
$victim->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'COPY public.events_%' AND backend_xid IS NOT NULL})
  or die 'no row comes to the worker';
kill_server($victim);
append_to_file("$file.go", '');
like(finish($job), qr/ERROR/, 'a worker is killed: the COPY fails');
$victim->start;
is(citus('SELECT count(*) FROM events WHERE load = 5'), 0, 'a worker is killed: no row of the COPY is there');
holds('a worker is killed', 4);
load(5);
holds('the COPY once more', 4);

# ---------- the way back ----------

citus(q{SELECT undistribute_table('events')});
is(citus(q{SELECT string_agg(amname, ' ' ORDER BY amname) FROM pg_class c JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_index i ON i.indexrelid = c.oid
	WHERE 'events'::regclass IN (c.oid, i.indrelid)}), 'btree mtpower mtpower_blink mtpower_blink mtpower_hash mtpower_zone', 'undistribute_table: access methods');
my ($complaints, $n) = indexes_verify($coordinator, 'postgres');
is("$complaints$n", 3, 'undistribute_table: indexes');

$_->stop foreach $coordinator, @workers;
unlike(slurp_file($_->logfile), qr/TRAP|PANIC/, 'the log is clean: ' . $_->name) foreach values %node;
done_testing();
