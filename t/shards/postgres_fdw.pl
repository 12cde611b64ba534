# A table whose partitions are mtpower tables of three other servers, by postgres_fdw; the
# coordinator has no mtpower. A server that is killed in the middle of a COPY or an INSERT fails the
# statement as a whole: no server keeps a row of it, and the statement succeeds when it is repeated.
# Servers commit one after the other, so one that is killed between two commits leaves a part; its
# rows are taken out and loaded again. Rows, and all indexes, are right each time.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpReplica;
use MtpSessions;

my $indexes = 4;	# of mtpower, on each shard
my $coordinator = PostgreSQL::Test::Cluster->new('coordinator');
$coordinator->init;
$coordinator->adjust_conf('postgresql.conf', 'mtpower.hot_list', undef);
$coordinator->append_conf('postgresql.conf', 'autovacuum = off');
$coordinator->start;
# stop: waits in the middle of a load, while a session holds the lock.  COPY would take row by row
# if it did not pass for immutable.
$coordinator->safe_psql('postgres', q{
	CREATE EXTENSION postgres_fdw;
	CREATE TABLE events (id int, load int, device int, kind text, note text) PARTITION BY HASH (id);
	CREATE FUNCTION stop(id int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN
		IF id = 6000 THEN PERFORM pg_advisory_xact_lock_shared(155); END IF;
		RETURN true;
	END $$;
	CREATE FUNCTION rows(load int) RETURNS TABLE (LIKE events) LANGUAGE sql AS
		$$ SELECT g, load, g * load % 517, 'kind ' || g % 7, md5(g::text) FROM generate_series(1, 9000) g $$});
my @shards;
foreach my $i (0 .. 2)
{
	my $shard = PostgreSQL::Test::Cluster->new("shard$i");
	$shard->init;
	$shard->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
});
	$shard->start;
	$shard->safe_psql('postgres', q{
		CREATE EXTENSION mtpower;
		CREATE EXTENSION amcheck;
		CREATE TABLE events (id int, load int, device int, kind text, note text, PRIMARY KEY (id, load)) USING mtpower;
		CREATE INDEX ON events USING mtpower_blink (device);
		CREATE INDEX ON events USING mtpower_blink (kind, id);
		CREATE INDEX ON events USING mtpower_hash (note);
		CREATE INDEX ON events USING mtpower_hash (device, load)});
	my ($host, $port) = ($shard->host, $shard->port);
	$coordinator->safe_psql('postgres', qq{
		CREATE SERVER shard$i FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$host', port '$port', dbname 'postgres', batch_size '1000');
		CREATE USER MAPPING FOR CURRENT_USER SERVER shard$i;
		CREATE FOREIGN TABLE events_$i PARTITION OF events FOR VALUES WITH (MODULUS 3, REMAINDER $i)
			SERVER shard$i OPTIONS (table_name 'events')});
	push @shards, $shard;
}

sub count_of { my ($node, $load) = @_; return $node->safe_psql('postgres', "SELECT count(*) FROM events WHERE load = $load"); }

# The coordinator finds these loads, and nothing else; all indexes agree with their tables.
sub holds
{
	my ($what, @loads) = @_;
	my $digest = 'SELECT count(*), sum(hashtextextended(x::text, 0)) FROM';
	is($coordinator->safe_psql('postgres', "$digest events x"),
		$coordinator->safe_psql('postgres', "$digest unnest('{" . join(',', @loads) . "}'::int[]) l, LATERAL rows(l) x"), "$what: rows");
	foreach my $shard (@shards)
	{
		is_deeply([ indexes_verify($shard, 'postgres') ], [ '', $indexes ], "$what: indexes of " . $shard->name);
		$shard->safe_psql('postgres', q{SELECT bt_index_parent_check('events_pkey', true, true)});
	}
	return;
}

sub waits_for_lock { my ($node) = @_; return $node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}); }

my $file = $coordinator->basedir . '/rows';
my %load = (
	'INSERT' => 'INSERT INTO events SELECT * FROM rows(%d) WHERE stop(id)',
	'COPY' => "COPY events FROM '$file' WHERE stop(id)");

sub statement
{
	my ($how, $load) = @_;
	$coordinator->safe_psql('postgres', "COPY (SELECT * FROM rows($load)) TO '$file'");
	return sprintf($load{$how}, $load);
}

# A statement with two thirds of its rows sent; a session that it waits for.
sub begin_load
{
	my ($how, $load) = @_;
	my $holder = $coordinator->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(155)');
	my $job = start_psql($coordinator, 'postgres', statement($how, $load));
	waits_for_lock($coordinator) or die 'the load does not come to its middle';
	return ($holder, $job);
}

$coordinator->safe_psql('postgres', statement('INSERT', 1));
holds('a load', 1);
foreach my $shard (@shards)
{
	cmp_ok(count_of($shard, 1), '>', 2500, $shard->name . ' has its share');
	is($shard->safe_psql('postgres', 'SELECT sum(entries) > 0 FROM mtpower.stat_batches'), 't', $shard->name . ' has put it in by batches');
}

# ---------- killed in the middle of a statement ----------

my $number = 1;
my @there = (1);
foreach my $how (sort keys %load)
{
	foreach my $victim ($shards[1], $coordinator)
	{
		my $what = "$how, " . $victim->name . ' killed';
		$number++;
		$_->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches')}) foreach @shards;
		my ($holder, $job) = begin_load($how, $number);
		# COPY of 15 brings single rows, which are not queued.
		if ($how eq 'INSERT' || $coordinator->pg_version >= 16)
		{
			is($_->safe_psql('postgres', 'SELECT sum(entries) > 0 FROM mtpower.stat_batches'), 't', "$what: a part of the rows is in " . $_->name) foreach @shards;
		}
		kill_server($victim);
		eval { $holder->quit };
		like(finish($job), $victim == $coordinator ? qr/connection .*lost|closed the connection/ : qr/ERROR:  08/, "$what: the statement fails");
		$victim->start;
		foreach my $shard (@shards)
		{
			$shard->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'postgres_fdw'}) or die 'a session of the coordinator stays';
			is(count_of($shard, $number), 0, "$what: " . $shard->name . ' keeps no row');
		}
		$coordinator->safe_psql('postgres', statement($how, $number));
		holds("$what, repeated", @there, $number);
		push @there, $number;
	}
}

# ---------- killed between two commits ----------

$number++;
my %holder;
foreach my $shard (@shards)
{
	$shard->safe_psql('postgres', q{
		CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(155); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER stop AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.id % 1000 < 5) EXECUTE FUNCTION stop()});
	$holder{ $shard->name } = $shard->background_psql('postgres');
	$holder{ $shard->name }->query_safe('SELECT pg_advisory_lock(155)');
}
my $job = start_psql($coordinator, 'postgres', statement('INSERT', $number));
# The shard that is about to commit, of those that have not: its name
my $committing = sub {
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		foreach my $shard (@shards)
		{
			return $shard if $holder{ $shard->name } && $shard->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) > 0;
		}
		select(undef, undef, undef, 0.1);
	}
	die 'no shard is about to commit';
};
my $first = $committing->();
delete($holder{ $first->name })->quit;
my $second = $committing->();
kill_server($second);
eval { $_->quit } foreach values %holder;
like(finish($job), qr/ERROR:  08/, 'killed between two commits: the statement fails');
$second->start;
foreach my $shard (@shards)
{
	my $n = count_of($shard, $number);
	$shard == $first ? cmp_ok($n, '>', 2500, 'the shard that has committed keeps its rows') : is($n, 0, 'the others keep none: ' . $shard->name);
	$shard->safe_psql('postgres', 'DROP TRIGGER stop ON events');
}
$coordinator->safe_psql('postgres', $_) foreach "DELETE FROM events WHERE load = $number", statement('INSERT', $number);
holds('the part taken out, and loaded again', @there, $number);

# ---------- a shard without the library ----------

$shards[2]->stop;
$shards[2]->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
$shards[2]->start;
my ($rc, undef, $err) = $coordinator->psql('postgres', statement('INSERT', $number + 1));
like($err, qr/ERROR:  .*mtpower.*\n(.*\n)*CONTEXT:  remote SQL command/, 'a shard without the preload is refused by name');
is(count_of($_, $number + 1), 0, 'nothing of it is in ' . $_->name) foreach @shards[0, 1];

$_->stop foreach $coordinator, @shards;
# Not the coordinator's, which has no mtpower: with assertions, postgres_fdw fails one of core's when
# it aborts a transaction behind its postmaster's end.
unlike(slurp_file($_->logfile), qr/TRAP|PANIC/, 'the log is clean: ' . $_->name) foreach @shards;
done_testing();
