# MtpJudgeClient: what the judge's clients do: transactions at random, and a journal of what was acknowledged.
#
# A client is a process with a random generator of its own.  Its journal has a line before and after each step, the last one about a transaction
# telling what is known of it:
#
#   TRY txn     it was begun: nobody knows
#   ACK txn     its commit was acknowledged, or seen in the database
#   NO txn      it failed or was rolled back, or the database does not have it
#   PREP txn    its PREPARE TRANSACTION was acknowledged
#   END txn     that it be committed or rolled back was begun
#
# and ERR text for an error that should not have been, CODE sqlstate for one that may, DID job for what maintenance has done.
package MtpJudgeClient;

use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep);
use MtpJudgeModel;

# Errors that others may cause: canceled (timeouts as well), terminated, lock timeout, deadlock, serialization failure.
my %expected = map { $_ => 1 } qw(57014 57P01 55P03 40P01 40001);

# { name, seed, dir, connstr, first => the first transaction's number less one, own => { table => { op => rows } } }
sub new
{
	my ($class, %arg) = @_;
	my $self = bless {%arg}, $class;
	$self->{txn} = $arg{first};
	srand($arg{seed});
	open($self->{journal}, '>>', "$arg{dir}/journal.$arg{name}") or die "journal: $!";
	$self->{journal}->autoflush(1);
	return $self;
}

sub write_down { my ($self, $line) = @_; my $journal = $self->{journal}; print $journal "$line\n"; return; }

sub is_over { my ($self) = @_; return -e "$self->{dir}/stop"; }

# How long a statement may take, in seconds: none of them has work for a tenth of it.
our $LIMIT = 60;

# Where a statement's client falls silent for a while
my $PAUSE = "\0";

# Runs SQL in a psql of its own: 'ok', 'lost' when the connection was, or the error's SQLSTATE; and the output.
sub run_sql
{
	my ($self, $sql) = @_;
	my $out = "$self->{dir}/out.$self->{name}";
	local $SIG{PIPE} = 'IGNORE';
	open(my $psql, '|-', "psql -X -q -A -t -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -d '$self->{connstr}' >$out 2>&1") or die "psql: $!";
	foreach my $part (split /$PAUSE/, $sql)
	{
		print $psql $part;
		$psql->flush;
		sleep(rand(3)) if length($part) < length($sql);
	}
	close($psql);
	my $status = $? >> 8;
	my $text = slurp_file($out);
	$self->{local} = $text =~ /wait for synchronous replication/;
	return ('ok', $text) if $? == 0;
	return ('lost', $text) if $status != 3 || $text =~ /server closed the connection/;
	return ($text =~ /ERROR:  (\w{5}):/ ? $1 : 'unknown', $text);
}

# Notes an error, which may be one of those that are expected, or of more.
sub failed
{
	my ($self, $code, $text, $sql, @more) = @_;
	my $hangs = $text =~ /statement timeout/ && $sql !~ /statement_timeout = \d+;/;
	return $self->write_down("CODE $code") if ($expected{$code} && !$hangs) || grep { $text =~ $_ } @more;
	$text =~ s/\s*\n\s*/ | /g;
	$sql =~ s/\s*\n\s*/ | /g;
	return $self->write_down("ERR $text BY " . substr($sql =~ s/$PAUSE//gr, 0, 600));
}

# ---------- transactions ----------

# What it is asked for a transaction: is it there, prepared, or not there?  undef if the server does not come back.
sub ask
{
	my ($self, $txn) = @_;
	while (1)
	{
		my ($how, $out) = $self->run_sql("SELECT CASE WHEN EXISTS (SELECT FROM judge.done WHERE txn = $txn) THEN 'ACK'
			WHEN EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = 'judge_$txn') THEN 'PREP' ELSE 'NO' END;");
		return $1 if $how eq 'ok' && $out =~ /^(\w+)$/m;
		return undef if $self->is_over;
		sleep(0.1);
	}
}

# What this client knows of its rows, once a transaction has happened.
sub apply
{
	my ($self, @effects) = @_;
	foreach (@effects)
	{
		my ($tab, $what, $op, $part, $n) = @$_;
		$self->{own}{$tab}{$op} = $n if $what eq 'add';
		delete $self->{own}{$tab}{$op} if $what eq 'delete' && !defined $part;
		$self->{own}{$tab} = {} if $what eq 'truncate';
	}
	return;
}

# Runs to an end what was begun.  $how is what the database said about it.
sub settle
{
	my ($self, $how, $txn, $effects) = @_;
	$how = $self->ask($txn) if $how eq 'lost';
	return if !defined $how;
	# What is only committed here may get lost with this server.
	$self->write_down("$how $txn") if !$self->{local};
	$self->apply(@$effects) if $how eq 'ACK';
	if ($how eq 'PREP') { $self->{pending} = [ $txn, $effects ]; }
	else { delete $self->{pending}; }
	return;
}

sub end_prepared
{
	my ($self) = @_;
	my ($txn, $effects) = @{ $self->{pending} };
	my $commit = rand(3) < 2;
	$self->write_down("END $txn");
	my $sql = ($commit ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'judge_$txn';\n";
	my ($how, $text) = $self->run_sql($sql);
	$self->failed($how, $text, $sql) if $how !~ /^(ok|lost)$/;
	return $self->settle($how ne 'ok' ? 'lost' : $commit ? 'ACK' : 'NO', $txn, $effects);
}

sub transaction
{
	my ($self) = @_;
	my $txn = ++$self->{txn};
	my ($body, @effects) = $self->operation($txn);
	my $rolled_back = !@effects;
	my $prepare = !$self->{pending} && !$rolled_back && rand(10) < 1;
	my $settings = $self->settings;
	my $sql = $settings . begin($settings) . $body . MtpJudgeModel::record($txn, @effects)
	  . ($rolled_back ? 'ROLLBACK' : $prepare ? "PREPARE TRANSACTION 'judge_$txn'" : 'COMMIT') . ";\n";
	$self->write_down("TRY $txn");
	my ($how, $text) = $self->run_sql($sql);
	if ($how !~ /^(ok|lost)$/)
	{
		$self->failed($how, $text, $sql);
		return $self->write_down("NO $txn");
	}
	return $self->settle($how eq 'lost' ? 'lost' : $rolled_back ? 'NO' : $prepare ? 'PREP' : 'ACK', $txn, \@effects) if !$self->{pending};
	# One that is prepared goes on waiting.
	my $pending = $self->{pending};
	$self->settle($how eq 'lost' ? 'lost' : $rolled_back ? 'NO' : 'ACK', $txn, \@effects);
	$self->{pending} = $pending;
	return;
}

# With injection points, now and then one that crashes the server: where one of two records is logged.
my @halfway = qw(inner_split leaf_split root_full unlink_found hash_split hash_piece hash_extended step_applied btree_split btree_unfinished btree_page_allocated);

sub settings
{
	my ($self) = @_;
	my $sql = "SET lock_timeout = '1s';\n";
	$sql .= rand(25) < 1 ? 'SET statement_timeout = ' . int(1 + rand(80)) . ";\n" : "SET statement_timeout = '${LIMIT}s';\n";
	$sql .= "SET enable_seqscan = off;\n" if rand(3) < 1;
	$sql .= 'SET mtpower.batch_min_rows = ' . (0, 20, 1000)[ rand(3) ] . ";\n" if rand(2) < 1;
	$sql .= "SET default_transaction_isolation = 'repeatable read';\n" if rand(10) < 1;
	$sql .= "SET mtpower.debug_injection = '$halfway[ rand(@halfway) ]=panic';\n" if $self->{stops} && rand(50) < 1;
	return $sql;
}

# A statement that waits for a lock has its snapshot already, and to a snapshot from before an ALTER TABLE that rewrites the table, the table is
# empty: what such a transaction changes would be nothing.  So where one snapshot is all that a transaction has, the locks come first.
sub begin
{
	my ($settings) = @_;
	return "BEGIN;\n" . ($settings =~ /repeatable read/ ? "LOCK TABLE fed, kept, parted, counted, scratch IN ACCESS SHARE MODE;\n" : '');
}

# ---------- operations ----------

sub copy
{
	my ($tab, $op, $n) = @_;
	my $rows = MtpJudgeModel::rows($op, $n);
	substr($rows, rindex($rows, "\n", length($rows) / 2) + 1, 0) = $PAUSE if rand(12) < 1;
	return "COPY $tab ($MtpJudgeModel::COLUMNS) FROM STDIN;\n" . $rows . "\\.\n";
}

sub insert { my ($tab, $op, $n) = @_; return "INSERT INTO $tab ($MtpJudgeModel::COLUMNS) SELECT " . MtpJudgeModel::new_row($op) . " FROM generate_series(1, $n) g;\n"; }

sub part_of { my ($part) = @_; return defined $part ? " AND seq % 2 = $part" : ''; }

sub upsert
{
	my ($id, $n) = @_;
	return "INSERT INTO counted SELECT g, 1, judge.k(g, 1, 1), judge.txt(g, 1, 1) FROM generate_series($id, $id + $n - 1) g
		ON CONFLICT (id) DO UPDATE SET hits = counted.hits + 1, k = judge.k(counted.id, 1, counted.hits + 1), txt = judge.txt(counted.id, 1, counted.hits + 1);\n";
}

# An operation: its SQL and its effects, of which there are none if it is to be rolled back.
sub operation
{
	my ($self, $op) = @_;
	my $tab = $MtpJudgeModel::TABLES[ rand(@MtpJudgeModel::TABLES) ];
	my $other = $tab eq 'fed' ? 'kept' : 'fed';
	my $n = 1 + int(rand(4) < 1 ? rand(20) : rand(1500));
	my $own = $self->{own}{$tab} //= {};
	my %touched = map { $_->[2] => 1 } $self->{pending} ? @{ $self->{pending}[1] } : ();
	my @ops = grep { !$touched{$_} } sort { $a <=> $b } keys %$own;
	my $old = @ops ? $ops[ rand(@ops) ] : 0;
	my $part = (undef, 0, 1)[ rand(3) ];
	my $id = 1 + int(rand(3000));
	my $rows = 0;
	$rows += $_ foreach values %$own;

	my $dice = rand(100);
	$dice = 48 if $rows > 6000 && $dice < 48;
	return (copy($tab, $op, $n), [ $tab, 'add', $op, undef, $n ]) if $dice < 27;
	return (insert($tab, $op, $n), [ $tab, 'add', $op, undef, $n ]) if $dice < 36;
	# Large enough for several tasks, and workers
	return (insert($tab, $op, 4 * $n), [ $tab, 'add', $op, undef, 4 * $n ]) if $dice < 40;
	return (upsert($id, $n % 300 + 1), [ 'counted', 'hit', $id, undef, $n % 300 + 1 ]) if $dice < 48;
	return ("DELETE FROM $tab WHERE op = $old;\n", [ $tab, 'delete', $old ]) if $dice < 54;
	return ("DELETE FROM $tab WHERE op = $old" . part_of($part) . ";\n", [ $tab, 'delete', $old, $part ]) if $dice < 60;
	if ($dice < 77)
	{
		my $what = (qw(gen gen ver cold))[ rand(4) ];
		return ("UPDATE $tab SET " . MtpJudgeModel::changed($what) . " WHERE op = $old" . part_of($part) . ";\n", [ $tab, $what, $old, $part ]);
	}
	return ("INSERT INTO scratch SELECT g, md5(g::text) FROM generate_series(1, $n) g;\n", [ 'scratch', 'nothing' ]) if $dice < 79;
	return truncation($tab, $op, $n) if $dice < 82;
	return (insert($tab, $op, $n) . copy($tab, $op + 1_000_000, 500)) if $dice < 85;

	# Savepoints: what was rolled back never shows, what was before and after it does.
	return ("DELETE FROM $tab WHERE op = $old;\nSAVEPOINT a;\n" . copy($tab, $op, 700) . 'UPDATE ' . $tab . ' SET ' . MtpJudgeModel::changed('gen') . " WHERE op = $op;\n"
		  . "ROLLBACK TO a;\n" . copy($tab, $op, $n) . 'UPDATE ' . $tab . " SET ver = ver + 1 WHERE op = $op;\n", [ $tab, 'delete', $old ], [ $tab, 'add', $op, undef, $n ], [ $tab, 'ver', $op ])
	  if $dice < 91;
	# Two tables in one transaction
	return (copy($tab, $op, $n) . "SAVEPOINT b;\n" . insert($other, $op, $n) . "RELEASE b;\n" . upsert(17, 40),
		[ $tab, 'add', $op, undef, $n ], [ $other, 'add', $op, undef, $n ], [ 'counted', 'hit', 17, undef, 40 ]) if $dice < 96;
	# A statement for each row
	return (join('', map { "INSERT INTO $tab ($MtpJudgeModel::COLUMNS) SELECT " . MtpJudgeModel::new_row($op) . " FROM generate_series($_, $_) g;\n" } 1 .. $n % 30 + 1),
		[ $tab, 'add', $op, undef, $n % 30 + 1 ]);
}

# TRUNCATE, and rows before and after it; or all that rolled back.
sub truncation
{
	my ($tab, $op, $n) = @_;
	my $dice = rand(6);
	return (insert($tab, $op, 300) . "TRUNCATE $tab;\n" . copy($tab, $op, $n), [ $tab, 'truncate' ], [ $tab, 'add', $op, undef, $n ]) if $dice < 1;
	return ("TRUNCATE counted;\n" . upsert(5, 30), [ 'counted', 'truncate' ], [ 'counted', 'hit', 5, undef, 30 ]) if $dice < 2;
	return ("TRUNCATE $tab, scratch;\n" . insert($tab, $op, $n)) if $dice < 4;
	return ("SAVEPOINT a;\nTRUNCATE $tab;\n" . copy($tab, $op, 300) . "ROLLBACK TO a;\n" . copy($tab, $op, $n), [ $tab, 'add', $op, undef, $n ]);
}

# ---------- clients ----------

sub work
{
	my ($self) = @_;
	while (!$self->is_over)
	{
		if ($self->{pending} && rand(2) < 1) { $self->end_prepared; }
		else { $self->transaction; }
	}
	return;
}

# Looks every second for a statement, and for a worker's work, that does not end: what cannot be cancelled shows here alone.
sub watch
{
	my ($self) = @_;
	while (!$self->is_over)
	{
		my ($how, $text) = $self->run_sql("SELECT pid, backend_type, wait_event_type, wait_event, left(query, 200) FROM pg_stat_activity
			WHERE state = 'active' AND backend_type IN ('client backend', 'parallel worker', 'mtpower worker', 'autovacuum worker') AND clock_timestamp() - query_start > '$LIMIT s';");
		# A server that ends may say so behind the answer.
		$self->write_down("ERR no end after $LIMIT s: $_") foreach $how eq 'ok' ? grep { /^\d+\|/ } split /\n/, $text : ();
		sleep(1);
	}
	return;
}

# Jobs at random out of a list of [ SQL, errors that it may meet besides ], each a text or a function.
sub jobs
{
	my ($self, $jobs, $pause) = @_;
	while (!$self->is_over)
	{
		my ($sql, @may) = @{ $jobs->() };
		my ($how, $text) = $self->run_sql("SET statement_timeout = '${LIMIT}s';\nSET lock_timeout = '300ms';\n$sql");
		if ($how eq 'ok') { $self->write_down('DID ' . substr($sql =~ s/\s+/ /gr, 0, 60)); }
		elsif ($how ne 'lost') { $self->failed($how, $text, $sql, @may); }
		$self->write_down("ERR $text BY $sql") if $how eq 'ok' && $text =~ /WRONG/;
		sleep(rand($pause));
	}
	return;
}

1;
