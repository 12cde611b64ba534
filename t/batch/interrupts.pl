# A load is cancelled, times out, is terminated, or loses its client, in every phase. It is over
# within two seconds, nothing of it is visible, and it holds nothing.
#
# Variants: blink hash btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use MtpFaults;
use MtpVariant;

my $am = access_method();
my $hash = $am eq 'mtpower_hash';
my $btree = $am eq 'btree';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_memory = 64MB
mtpower.batch_size = 64kB
mtpower.batch_min_rows = 1
client_connection_check_interval = 100ms
autovacuum = off
});
$node->start;
my $faults = MtpFaults->new($node, 't');
my $stops = $faults->has_stops;
my $csv = $node->basedir . '/rows.csv';
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE TABLE t (a int, b text COLLATE "C", c numeric) USING mtpower;
CREATE INDEX t_a ON t USING $am (a);
CREATE INDEX t_b ON t USING $am (b);
CREATE INDEX t_c ON t USING $am (c, a);
CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
	IF NEW.a = 7 THEN PERFORM pg_advisory_xact_lock_shared(155); END IF; RETURN NEW; END \$\$;
COPY (SELECT i, 'https://' || md5(i::text), i / 7.0 FROM generate_series(1, 5000) i) TO '$csv' (FORMAT csv);
});
my $rows = 0;

# What ends a load, and how its psql sees that: in the server, and by the load's own settings
my @ends = (
	[ 'cancel', '57014', 'SELECT pg_cancel_backend(%d)' ],
	[ 'terminate', '57P01|connection', 'SELECT pg_terminate_backend(%d)' ],
	[ 'client gone', '' ],
	[ 'statement_timeout', '57014', undef, "SET statement_timeout = '1s'" ],
	[ 'lock_timeout', '55P03', undef, "SET lock_timeout = '200ms'" ]);

# Ends loads, each in its way, and measures how long that takes from the moment when they stand where they should.
# Timeouts, $wait seconds long, come first; they are measured from the start of psql, and have a little more time.
sub end_loads
{
	my ($what, $where, $ends, $jobs, $wait) = @_;
	my %late;
	foreach my $end (grep { $_->[3] } @$ends)
	{
		my ($name, $code) = @$end;
		like($faults->finish($jobs->{$name}), qr/$code/, "$name, $what: its error");
		my $over = time - $jobs->{$name}{began} - ($wait // 1);
		$late{$name} = $over if $over > 4;
	}
	foreach my $end (grep { !$_->[3] } @$ends)
	{
		my ($name, $code, $how) = @$end;
		my $job = $jobs->{$name};
		my $pid = $faults->pid_of($job);
		$faults->wait_for("SELECT true FROM pg_stat_activity WHERE pid = $pid AND $where", "$name, $what") if $where;
		my $start = time;
		if ($how) { $node->safe_psql('postgres', sprintf($how, $pid)); }
		$faults->kill_client($job) if $code eq '';
		$faults->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid AND state <> 'idle' AND state NOT LIKE '%(aborted)'", "the end of $name, $what");
		$late{$name} = time - $start if time - $start > 2;
		like($faults->finish($job), qr/$code/, "$name, $what: its error") if $code ne '';
	}
	is(join(', ', map { "$_ after $late{$_} s" } sort keys %late), '', "$what: over soon");
	return;
}

# As many loads at a time as there are ends to come to.
sub phase
{
	my ($what, $where, $ends, $load, $settings, $left) = @_;
	my %jobs = map { $_->[0] => $faults->start(($_->[3] // 'SELECT'), $settings // 'SELECT', $load) } @$ends;
	end_loads($what, $where, $ends, \%jobs);
	$faults->sound($what, $left // $rows);
	return;
}

# A table whose hash index has one bucket with a long stash: a cursor kept it from being split.
sub make_long_stash
{
	$node->safe_psql('postgres', qq{
		DROP TABLE IF EXISTS p;
		CREATE TABLE p (a int) USING mtpower;
		CREATE INDEX p_a ON p USING $am (a) WITH (initial_buckets = 1);
		INSERT INTO p VALUES (0);
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		BEGIN;
		DECLARE c CURSOR FOR SELECT a FROM p WHERE a = 0;
		FETCH 1 FROM c;
		INSERT INTO p SELECT g FROM generate_series(1, 50000) g;
		COMMIT});
	return;
}

my @no_lock = grep { $_->[0] ne 'lock_timeout' } @ends;
my $copy = "COPY t FROM '$csv' (FORMAT csv)";
my $advisory = q{wait_event = 'advisory'};

# Waiting for input, with entries queued.  In the middle of the protocol core lets itself be terminated, but not cancelled:
# that comes with the next input.
{
	my $data = slurp_file($csv);
	my $reading = q{wait_event = 'ClientRead' AND (SELECT held_bytes > 100000 FROM mtpower.stat_memory)};
	my %jobs = map { $_->[0] => $faults->start_fed($data, ($_->[3] // 'SELECT'), 'COPY t FROM STDIN (FORMAT csv)') } @no_lock;
	my ($cancel, $terminate, $gone, $timeout) = @no_lock;
	end_loads('reading', $reading, [ $terminate, $gone ], \%jobs);
	$faults->wait_for('SELECT true FROM pg_stat_activity WHERE pid = ' . $faults->pid_of($jobs{cancel}) . " AND $reading", 'cancel, reading');
	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $faults->pid_of($jobs{cancel}) . ')');
	$faults->wait_for('SELECT true FROM pg_stat_activity WHERE pid = ' . $faults->pid_of($jobs{statement_timeout}) . q{ AND clock_timestamp() > query_start + interval '1.1 s'}, 'statement_timeout, reading');
	$faults->feed($jobs{$_}, $data) foreach 'cancel', 'statement_timeout';
	end_loads('reading', undef, [ [ 'cancel', '57014' ], $timeout ], \%jobs);
	$faults->sound('reading', $rows);
}

# Waiting for a lock with entries queued: in a trigger before a row, after the rows, and at the transaction's end
$faults->hold;
foreach my $trigger (
	[ 'in a row trigger', 'CREATE TRIGGER w BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION wait_here()', 'INSERT INTO t SELECT 5000 - g, md5(g::text), g FROM generate_series(1, 4999) g' ],
	[ 'after rows', 'CREATE TRIGGER w AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION wait_here()', $copy ],
	[ 'in deferred triggers', 'CREATE CONSTRAINT TRIGGER w AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_here()', $copy ])
{
	my ($what, $create, $load) = @$trigger;
	$node->safe_psql('postgres', $create);
	# Core has switched the statement's timeout off by then.
	phase($what, $advisory, [ grep { $_->[0] ne 'statement_timeout' || $what !~ /deferred/ } @ends ], $load);
	$node->safe_psql('postgres', 'DROP TRIGGER w ON t');
}

SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if !$stops;

	# At each point of the index work
	foreach my $point (qw(run_full drain sort cut step_checked step_applied step_gone detach), $hash ? qw(prepare hash_extended hash_split) : qw(sharpened compare))
	{
		phase("at $point", $advisory, \@ends, $copy, "SET mtpower.debug_injection = '$point=wait'");
	}
	# Only one load at a time comes to the first number of buckets, to a leaf that becomes many, and to the rest of a split: to its next
	# piece, after which each load ends.
	make_long_stash() if $hash;
	my $first = $hash ? 'hash_initial' : 'btree_unfinished';
	foreach my $end ($hash || $btree ? @ends : ())
	{
		$node->safe_psql('postgres', 'TRUNCATE t');
		$faults->{table} = 't';
		phase("at $first", $advisory, [$end], $copy, "SET mtpower.debug_injection = '$first=wait'");
		next if $btree;
		$faults->{table} = 'p';
		phase("at hash_piece", $advisory, [$end], 'INSERT INTO p SELECT g FROM generate_series(100001, 102000) g', "SET mtpower.debug_injection = 'hash_piece=wait'", 50001);
	}
	$faults->{table} = 't';
	$faults->release;

	# Waiting for a worker, which stands somewhere with work of the load: at the end, and in a function that looks for rows.
	# (Cancellation and timeouts there are in test/isolation/batch_held.spec, which can't lose its sessions.)
	$node->append_conf('postgresql.conf', 'mtpower.workers = 1');
	$node->safe_psql('postgres', q{
		CREATE FUNCTION look() RETURNS text LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(7), set_config('enable_seqscan', 'off', true);
			PERFORM FROM t WHERE a = 1;
			PERFORM FROM t WHERE b = '1';
			PERFORM FROM t WHERE c = 1 AND a = 1;
			RETURN 'not reached';
		END $$});
	my $lock7 = 'pg_advisory_xact_lock_shared(7)::text';
	foreach my $case ((map { [ 'worker_claimed', $_, $lock7 ] } @no_lock), (map { [ 'step_checked', $_, $lock7 ] } @no_lock),
		(map { [ 'step_checked', $_, 'look()' ] } grep { $_->[0] =~ /terminate|gone/ } @no_lock))
	{
		my ($point, $end, $last) = @$case;
		my $what = "waiting for a worker at $point" . ($last =~ /look/ ? ', in a scan' : '');
		$faults->hold;
		# Until the worker stands there it has all work to itself.
		$faults->hold(7);
		$faults->stop_all("$point=wait");
		my $job = $faults->start(($end->[3] // 'SELECT') =~ s/1s/3s/r, "SET mtpower.debug_injection = ''", 'SET client_min_messages = error',
			"INSERT INTO t SELECT i, md5(i::text), i / 7.0 FROM generate_series(1, 5000) i UNION ALL SELECT 0, $last, 0");
		$faults->stopped($MtpFaults::WORKER);
		$faults->release(7);
		end_loads($what, q{wait_event_type = 'Extension'}, [$end], { $end->[0] => $job }, 3);
		$faults->stop_all('');
		$faults->release;
		$faults->sound("$end->[0], $what", $rows);
	}
	$node->append_conf('postgresql.conf', "mtpower.workers = 0\nmtpower.batch_memory = 1MB");
	$node->restart;

	# Out of memory
	$faults->hold;
	phase('at memory_full', $advisory, [$_], 'INSERT INTO t SELECT i, md5(i::text), i / 7.0 FROM generate_series(1, 30000) i', "SET mtpower.debug_injection = 'memory_full=wait'") foreach @ends;
	$faults->release;
}

# Large batches, whose sorts and merges take long: text that differs behind its first 100 bytes, compared by ICU.
$node->append_conf('postgresql.conf', "mtpower.workers = 1\nmtpower.batch_memory = 128MB\nmtpower.batch_size = 56MB");
$node->restart;
my $collation = $node->safe_psql('postgres', q{SELECT coalesce((SELECT 'COLLATE "und-x-icu"' FROM pg_collation WHERE collname = 'und-x-icu'), 'COLLATE "C"')});
# Hashes are compared by no function, so less will do.
my $many = $hash ? 60_000 : 150_000;
my $slow = "INSERT INTO l SELECT repeat('slow ', 20) || md5(g::text) || repeat('x', 60), hashint4(g) FROM generate_series(1, $many) g";
$node->safe_psql('postgres', qq{
	CREATE TABLE l (b text $collation, a int) USING mtpower;
	CREATE INDEX l_b ON l USING $am (b);
	CREATE INDEX l_a ON l USING $am (a);});
$faults->{table} = 'l';
my $start = time;
is($faults->finish($faults->start($slow)), '', 'a load of large batches');
my $whole = time - $start;
note "it takes $whole s";
$node->safe_psql('postgres', 'TRUNCATE l');
my $parts = $hash ? 4 : 8;
foreach my $part (1 .. $parts)
{
	my $end = $ends[ $part % 3 ];
	my $after = $whole * (0.2 + 0.8 * $part / ($parts + 1));
	my $job = $faults->start($slow);
	$faults->pid_of($job);
	sleep($after);
	end_loads("large batch, after $after s", undef, [[ $end->[0], $end->[0] eq 'client gone' ? '' : '^', $end->[2] ]], { $end->[0] => $job });
	my $all = $node->safe_psql('postgres', 'SELECT count(*) FROM l');
	ok($all == 0 || $all == $many, "large batch, part $part: all or nothing");
	$faults->nothing_held("large batch, part $part");
	$node->safe_psql('postgres', 'TRUNCATE l') if $all;
}
$faults->sound('large batches');
is($faults->finish($faults->start($slow)), '', 'the next load works');
$faults->sound('the next load', $many);
$faults->log_is_clean;
$node->stop;
done_testing();
