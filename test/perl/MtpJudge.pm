# MtpJudge: clients that change tables at random and note what was acknowledged, and the judge who, after the server
# was killed, reads everything back.
#
# Each client is a process with a journal of its own.  It writes down what it is about to do, does it in one transaction, and writes
# down that this was acknowledged.  So when the server dies, each client has at most one operation of which nobody knows
# whether it happened; but it must have happened as a whole or not at all, and everything else must be as acknowledged.
#
# An operation's rows have its number in "op" and 1 .. n in "seq"; "ver" counts its updates.
package MtpJudge;

use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

# Tables and their indexes, B-link and hash.  Operations with even numbers go to the first, with odd numbers to the second; what
# an operation does to the other table as well has its negative number.
my @tables = ('fed', 'kept');

sub table_of { my ($op) = @_; return $tables[ $op > 0 ? $op % 2 : 1 - $op % 2 ]; }

sub new
{
	my ($class, %arg) = @_;
	my $self = bless { dir => PostgreSQL::Test::Utils::tempdir, clients => $arg{clients} || 4, journal => {}, pids => [] }, $class;
	return $self;
}

sub schema
{
	my $sql = 'CREATE EXTENSION mtpower;';
	foreach my $table (@tables)
	{
		my $using = $table eq 'fed' ? 'USING mtpower' : 'USING heap';
		$sql .= qq{
			CREATE TABLE $table (op bigint, seq int, ver int, k int, txt text, ts timestamptz, note text) $using;
			CREATE INDEX ${table}_op ON $table USING mtpower_blink (op, seq);
			CREATE INDEX ${table}_k ON $table USING mtpower_blink (k);
			CREATE INDEX ${table}_txt ON $table USING mtpower_blink (txt COLLATE "C" DESC) INCLUDE (ver);
			CREATE INDEX ${table}_hk ON $table USING mtpower_hash (k) WITH (initial_buckets = 1, fillfactor = 20);
			CREATE INDEX ${table}_htxt ON $table USING mtpower_hash (txt, op);
			CREATE INDEX ${table}_ts ON $table USING mtpower_blink (ts, lower(note)) WHERE k % 4 > 0;
		};
	}
	return $sql . 'CREATE INDEX kept_btree ON kept (k);';
}

# The node that clients connect to from now on.
sub on { my ($self, $node) = @_; $self->{node} = $node; return; }

# ---------- journals ----------

# A journal's lines: TRY op what n | ACK op | ERR text | IS op state, where a state is "-" or "n:ver".
sub journal_file { my ($self, $client) = @_; return "$self->{dir}/journal.$client"; }

# What is known of a client's operations: { acked => { op => state }, maybe => { op => state }, ops => last number }
sub read_journal
{
	my ($self, $client) = @_;
	my $know = { acked => {}, maybe => {}, errors => [], count => 0 };
	return $know if !-e $self->journal_file($client);
	my @try;
	foreach my $line (split /\n/, slurp_file($self->journal_file($client)))
	{
		my ($word, $op, $state) = split / /, $line, 3;
		if ($word eq 'TRY') { push @try, [ $op, $state ]; }
		elsif ($word eq 'ACK') { $know->{acked}{ $_->[0] } = $_->[1] foreach @try; @try = (); }
		elsif ($word eq 'IS') { $know->{acked}{$op} = $state; @try = (); }
		elsif ($word eq 'ERR') { push @{ $know->{errors} }, $line; @try = (); }
		$know->{count} = $op if $word ne 'ACK' && $word ne 'ERR' && $op > $know->{count};
	}
	$know->{maybe}{ $_->[0] } = $_->[1] foreach @try;
	return $know;
}

# ---------- clients ----------

# Runs SQL in a psql of its own.  True if acknowledged, undef if the server went away; else the error.
sub run_sql
{
	my ($self, $client, $sql) = @_;
	my $out = "$self->{dir}/out.$client";
	open(my $psql, '|-', "psql -X -q -A -t -v ON_ERROR_STOP=1 -d '" . $self->{node}->connstr('postgres') . "' >$out 2>&1") or die "psql: $!";
	local $SIG{PIPE} = 'IGNORE';
	print $psql $sql;
	close($psql);
	return 1 if $? == 0;
	my $text = slurp_file($out);
	return undef
	  if $text =~ /server closed|terminating connection|connection to server|the database system is|could not (send|receive)|could not connect|connection not open/;
	$text =~ s/\s*\n\s*/ | /g;
	return "error: $text";
}

sub rows
{
	my ($op, $n, $ver) = @_;
	my $ascending = int(rand(3));
	return join('', map {
		my $k = $ascending ? $op % 1000 * 1000 + $_ : int(rand(2**31));
		join("\t", $op, $_, $ver, $k, sprintf('%08x', rand(2**32)) x (1 + $_ % 3), '2020-01-01 00:00:' . $_ % 60, $_ % 5 ? "Note $_" : '\N') . "\n"
	} 1 .. $n);
}

sub copy { my ($table, $op, $n) = @_; return "COPY $table FROM STDIN;\n" . rows($op, $n, 0) . "\\.\n"; }

sub insert
{
	my ($table, $op, $n) = @_;
	return "INSERT INTO $table SELECT $op, g, 0, (random() * 2e9)::int, md5(g::text || $op), now(), 'Note ' || g FROM generate_series(1, $n) g;\n";
}

# One operation: its SQL, and what it makes of which operations' rows.
sub operation
{
	my ($know, $op) = @_;
	my $table = table_of($op);
	my $n = 1 + int(rand(4) < 1 ? rand(20) : rand(3000));
	my @own = grep { $know->{acked}{$_} ne '-' && table_of($_) eq $table } keys %{ $know->{acked} };
	my $dice = rand(100);

	return (copy($table, $op, $n), [ $op, "$n:0" ]) if $dice < 35 || !@own;
	return (insert($table, $op, $n), [ $op, "$n:0" ]) if $dice < 46;
	# Large enough for several tasks, and workers.
	return (insert($table, $op, 30 * $n), [ $op, 30 * $n . ':0' ]) if $dice < 50;
	my $old = $own[ rand(@own) ];
	my ($rows, $ver) = split /:/, $know->{acked}{$old};
	return ("DELETE FROM $table WHERE op = $old;\n", [ $old, '-' ]) if $dice < 62;
	return ("UPDATE $table SET ver = ver + 1, k = k / 2 WHERE op = $old;\n", [ $old, "$rows:" . ($ver + 1) ]) if $dice < 72;
	return ("UPDATE $table SET ver = ver + 1 WHERE op = $old;\n", [ $old, "$rows:" . ($ver + 1) ]) if $dice < 77;
	return ("BEGIN;\n" . insert($table, $op, $n) . copy($table, $op, 500) . "ROLLBACK;\n", [ $op, '-' ]) if $dice < 84;

	# Savepoints: what was rolled back never shows, what was before and after it does.
	return ("BEGIN;\nDELETE FROM $table WHERE op = $old;\nSAVEPOINT a;\n" . copy($table, $op, 700) . "UPDATE $table SET ver = 9 WHERE op = $op;\n"
		  . "ROLLBACK TO a;\n" . copy($table, $op, $n) . "COMMIT;\n", [ $old, '-' ], [ $op, "$n:0" ]) if $dice < 92;
	# Both tables in one transaction.
	my $other = table_of(-$op);
	return ("BEGIN;\n" . copy($table, $op, $n) . "SAVEPOINT b;\n" . insert($other, -$op, $n) . "RELEASE b;\nCOMMIT;\n", [ $op, "$n:0" ], [ -$op, "$n:0" ]);
}

sub client
{
	my ($self, $client) = @_;
	my $know = $self->read_journal($client);
	my $op = $know->{count} || $client * 1000000;
	open(my $journal, '>>', $self->journal_file($client)) or die "journal: $!";
	$journal->autoflush(1);
	while (1)
	{
		my ($sql, @does) = operation($know, ++$op);
		print $journal "TRY $op -\n" if !grep { $_->[0] == $op } @does;
		print $journal "TRY $_->[0] $_->[1]\n" foreach @does;
		my $answer = $self->run_sql($client, $sql);
		return if !defined $answer;
		if ($answer ne '1')
		{
			print $journal "ERR $answer\n";
			return;
		}
		print $journal "ACK\n";
		$know->{acked}{ $_->[0] } = $_->[1] foreach @does;
	}
	return;
}

sub maintenance
{
	my ($self) = @_;
	my @jobs = ('VACUUM fed;', 'VACUUM kept;', 'VACUUM (INDEX_CLEANUP on) fed;', 'CHECKPOINT;', 'CHECKPOINT;', 'ANALYZE fed;',
		'VACUUM (TRUNCATE off, INDEX_CLEANUP on) kept;', 'REINDEX INDEX fed_k;', 'REINDEX INDEX CONCURRENTLY kept_txt;', 'REINDEX INDEX kept_hk;', 'REINDEX INDEX CONCURRENTLY fed_htxt;',
		'SELECT count(mtpower.verify_index(i::regclass)) FROM unnest(ARRAY[\'fed_op\', \'fed_txt\', \'kept_k\', \'kept_ts\', \'fed_hk\', \'kept_htxt\']) i;');
	while (1)
	{
		my $answer = $self->run_sql('maintenance', $jobs[ rand(@jobs) ]);
		return if !defined $answer;
		if ($answer ne '1')
		{
			append_to_file($self->journal_file('maintenance'), "ERR $answer\n");
			return;
		}
		sleep(rand(0.3));
	}
	return;
}

sub start_clients
{
	my ($self) = @_;
	foreach my $client (1 .. $self->{clients}, 'maintenance')
	{
		my $seed = int(rand(2**31));
		my $pid = fork();
		die "fork: $!" if !defined $pid;
		if ($pid == 0)
		{
			srand($seed);
			eval { $client eq 'maintenance' ? $self->maintenance : $self->client($client); };
			append_to_file($self->journal_file($client), "ERR $@\n") if $@;
			require POSIX;
			POSIX::_exit(0);
		}
		push @{ $self->{pids} }, $pid;
	}
	return;
}

# They end by themselves when the server is gone.
sub wait_for_clients
{
	my ($self) = @_;
	waitpid($_, 0) foreach @{ $self->{pids} };
	$self->{pids} = [];
	return;
}

# ---------- killing ----------

# The processes of a server: those whose working directory is its data directory.
sub processes
{
	my ($node) = @_;
	my $dir = $node->data_dir;
	my @pids;
	foreach my $proc (glob('/proc/[0-9]*'))
	{
		my $cwd = readlink("$proc/cwd");
		push @pids, $proc =~ s{.*/}{}r if defined $cwd && $cwd eq $dir;
	}
	return @pids;
}

# kill -9 to the postmaster and all its children.  Returns how many there were.
sub kill_server
{
	my ($self, $node) = @_;
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my $killed = kill 'KILL', $postmaster, grep { $_ != $postmaster } processes($node);
	for (my $tries = 0; $tries < 600; $tries++)
	{
		my @pids = processes($node);
		last if !@pids;
		kill 'KILL', @pids;
		sleep(0.05);
	}
	die "processes are left" if processes($node);

	# Whoever inherited the postmaster has to take notice, too: its number stands in postmaster.pid.
	for (my $tries = 0; $tries < 600 && kill(0, $postmaster); $tries++) { sleep(0.05); }
	$node->{_pid} = undef;			# as kill9() does
	return $killed;
}

# ---------- judging ----------

# Reads everything back on a node.  $what names the round in the tests' names.
sub judge
{
	my ($self, $node, $what) = @_;
	my (%is, @wrong, %acked);
	my $unknown = 0;

	foreach my $table (@tables)
	{
		# By the table alone: no index may help here.
		my $rows = $node->safe_psql('postgres', qq{SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;
			SELECT op, count(*), min(ver), max(ver), min(seq), max(seq), count(DISTINCT seq) FROM $table GROUP BY op});
		foreach my $row (split /\n/, $rows)
		{
			my ($op, $n, $ver, $max, $first, $last, $distinct) = split /\|/, $row;
			push @wrong, "operation $op is there in part: $row" if $ver != $max || $first != 1 || $last != $n || $distinct != $n;
			push @wrong, "operation $op is in table $table" if table_of($op) ne $table;
			$is{$op} = "$n:$ver";
		}
	}
	foreach my $client (1 .. $self->{clients}, 'maintenance')
	{
		my $know = $self->read_journal($client);
		push @wrong, @{ $know->{errors} };
		next if $client eq 'maintenance';
		my $maybe = $know->{maybe};
		my %seen;
		$unknown++ if %$maybe;
		foreach my $op (keys %{ $know->{acked} }, keys %$maybe)
		{
			next if $seen{$op}++;
			my $want = exists $know->{acked}{$op} ? $know->{acked}{$op} : '-';
			my $got = exists $is{$op} ? delete $is{$op} : '-';
			my $other = exists $maybe->{$op} ? $maybe->{$op} : $want;
			push @wrong, "client $client: operation $op was acknowledged as $want, perhaps $other, and is $got" if $got ne $want && $got ne $other;
			$acked{$op} = $got;
		}
		# All that one transaction did, or none of it.
		my @changed = grep { $maybe->{$_} ne ($know->{acked}{$_} // '-') } keys %$maybe;
		my $done = grep { $acked{$_} eq $maybe->{$_} } @changed;
		push @wrong, "client $client: a transaction is there in part: @changed" if $done != 0 && $done != @changed;
		append_to_file($self->journal_file($client), "IS $_ $acked{$_}\n") foreach keys %$maybe;
	}
	push @wrong, "nobody wrote operation $_" foreach keys %is;
	is(join("\n", splice(@wrong, 0, 10)), '', "$what: everything acknowledged is there, and nothing in part");

	my $indexes = $node->safe_psql('postgres', q{SELECT string_agg(c.oid::regclass::text, ' ' ORDER BY c.relname)
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid
		WHERE a.amname IN ('mtpower_blink', 'mtpower_hash') AND i.indisvalid});
	my @bad;
	foreach my $index (split / /, $indexes)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "SELECT mtpower.verify_index('$index', true)");
		push @bad, "$index: $err" if $rc != 0 || $err ne '';
	}
	is(join("\n", @bad), '', "$what: every index is sound");
	note sprintf('%s: %d operations, %d under way when the server died', $what, scalar(keys %acked), $unknown);
	$self->{under_way} += $unknown;
	return;
}

1;
