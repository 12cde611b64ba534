# MtpFaults: sessions in the background, injection points, and what faults must leave behind.
package MtpFaults;

use strict;
use warnings;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use Time::HiRes qw(sleep time);
use MtpVariant qw(verification);

sub new
{
	my ($class, $node, $table) = @_;
	return bless { node => $node, table => $table, held => {}, jobs => 0 }, $class;
}

# Compiles test/modules/NAME.c; returns the directory of the library.
sub compile
{
	my ($name) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my $cc = $ENV{CC} || 'gcc';
	my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
	chomp(my $include = `$pg_config --includedir-server`);
	command_ok(
		[
			$cc, qw(-g -O1 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
			  -Wno-cast-function-type -D_GNU_SOURCE -fno-strict-aliasing -fwrapv -fPIC -shared), "-I$include", '-I' . dirname(__FILE__) . '/../../src',
			dirname(__FILE__) . "/../modules/$name.c", '-o', "$dir/$name.so"
		],
		'the module compiles');
	return $dir;
}

# psql in the background, each statement of its own.  The session's application_name is the job's name.
sub start { my ($self, @sql) = @_; return $self->start_fed(undef, @sql); }

# The same, with input that does not end before finish().
sub start_fed
{
	my ($self, $input, @sql) = @_;
	my $job = { out => '', err => '', name => 'job ' . ++$self->{jobs}, began => time };
	my $stdin;
	if (defined $input) { pipe($stdin, $job->{feed}) or die "pipe: $!"; }
	local $ENV{PGAPPNAME} = $job->{name};
	$job->{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=sqlstate', '-d', $self->{node}->connstr('postgres'), map { ('-c', $_) } 'SELECT pg_backend_pid()', @sql ],
		'<', $stdin // '/dev/null', '>', \$job->{out}, '2>', \$job->{err}, IPC::Run::timeout(120));
	if (defined $input)
	{
		close($stdin);
		$self->feed($job, $input);
	}
	return $job;
}

# More input for such a session, which may end before it has read all of it.
sub feed
{
	my ($self, $job, $input) = @_;
	local $SIG{PIPE} = 'IGNORE';
	syswrite($job->{feed}, $input);
	return;
}

# Its end: what it said on stderr.  A session that hangs is a failed test, and the end of the server.
sub finish
{
	my ($self, $job) = @_;
	close($job->{feed}) if $job->{feed};
	if (!eval { $job->{run}->finish; 1 })
	{
		diag("a session hangs: $@");
		diag($self->{node}->safe_psql('postgres', 'SELECT pid, backend_type, application_name, state, wait_event, left(query, 60) FROM pg_stat_activity'));
		$self->{node}->stop('immediate');
		die 'a session hangs';
	}
	return $job->{err};
}

# The backend process of a job, once it is connected; its first output.
sub pid_of
{
	my ($self, $job) = @_;
	$job->{run}->pump while $job->{out} !~ /^\d+\n/ && $job->{run}->pumpable;
	return $job->{out} =~ /^(\d+)\n/ ? $1 : die "no connection: $job->{err}";
}

# The client is killed with kill -9; the backend is left alone.
sub kill_client
{
	my ($self, $job) = @_;
	$self->pid_of($job);
	$job->{run}->signal('KILL');
	eval { $job->{run}->finish };
	return;
}

# Waits until a query returns something; returns that.
sub wait_for
{
	my ($self, $sql, $what, $seconds) = @_;
	my $end = time + ($seconds // 60);
	while (1)
	{
		my $out = $self->{node}->safe_psql('postgres', $sql);
		return $out if $out ne '' && $out ne 'f';
		last if time > $end;
		sleep(0.02);
	}
	diag($self->{node}->safe_psql('postgres', 'SELECT pid, backend_type, application_name, state, wait_event, left(query, 60) FROM pg_stat_activity'));
	$self->{node}->stop('immediate');
	die "waited in vain for $what";
}

# ---------- injection points ----------

sub has_stops
{
	my ($self) = @_;
	return $self->{node}->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
}

# SQL: gate(n), where a session stands while lock n is held; and a query for whether one stands there
sub gate_sql
{
	return q{
CREATE FUNCTION gate(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_lock_shared(n), pg_advisory_unlock_shared(n);
	RETURN 0;
END $$;
};
}

sub stands { return "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = $_[0] AND NOT granted"; }

# Holds the advisory lock that stopped processes wait for.
sub hold
{
	my ($self, $lock) = @_;
	$lock //= 155;
	$self->{held}{$lock} = $self->{node}->background_psql('postgres');
	$self->{held}{$lock}->query_safe("SELECT pg_advisory_lock($lock)");
	return;
}

sub release
{
	my ($self, $lock) = @_;
	(delete $self->{held}{ $lock // 155 })->quit;
	return;
}

# For all processes, workers first of all; sessions that set the parameter keep their own.
sub stop_all
{
	my ($self, $stop) = @_;
	return $self->set_all('mtpower.debug_injection', $stop);
}

# A setting of the server, in force when this returns.
sub set_all
{
	my ($self, $name, $value) = @_;
	$self->{node}->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
	$self->{node}->safe_psql('postgres', 'SELECT pg_reload_conf()');
	$self->wait_for("SELECT current_setting('$name') = '$value'", 'the setting');
	return;
}

# Waits until so many processes of a kind stand at injection points; returns their pids.
sub stopped
{
	my ($self, $which, $n, $what) = @_;
	$n //= 1;
	return split /\n/, $self->wait_for(
		"SELECT pid FROM pg_stat_activity WHERE wait_event = 'advisory' AND $which AND $n <= (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND $which)",
		$what // "$n processes to stop");
}

our $WORKER = q{backend_type = 'mtpower worker'};

# ---------- what is left ----------

# Nothing is: no memory, no locks of others on the table and its indexes, no worker at work.
sub nothing_held
{
	my ($self, $what) = @_;
	my $left = q{SELECT concat_ws(', ', (SELECT held_bytes || ' bytes' FROM mtpower.stat_memory WHERE held_bytes > 0),
		(SELECT string_agg(l.mode || ' of ' || l.pid || ' on ' || l.relation::regclass, ', ') FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
			WHERE c.relname NOT LIKE 'pg_%' AND l.pid <> pg_backend_pid() AND c.relname LIKE '} . $self->{table} . q{%'),
		(SELECT string_agg(phase || ' worker ' || pid, ', ') FROM mtpower.stat_workers WHERE loader_pid IS NOT NULL))};
	my $now = '';
	for (my $end = time + 30; time < $end; sleep(0.02))
	{
		last if ($now = $self->{node}->safe_psql('postgres', $left)) eq '';
	}
	is($now, '', "$what: nothing is held");
	return;
}

# The table has so many rows, all indexes agree with it, and nothing is held.
sub sound
{
	my ($self, $what, $rows) = @_;
	my $node = $self->{node};
	my ($which, $verify) = verification();
	my $err;
	$self->nothing_held($what);
	is($node->safe_psql('postgres', "SELECT count(*) FROM $self->{table}"), $rows, "$what: rows") if defined $rows;
	is( $node->psql('postgres', qq{SELECT $verify FROM pg_index JOIN pg_class c ON c.oid = indexrelid
		JOIN pg_am a ON a.oid = c.relam WHERE $which AND indrelid = '$self->{table}'::regclass}, stderr => \$err),
		0, "$what: indexes verify") or diag($err);
	return;
}

# Core complains in the log about pins, locks, files and snapshots that a transaction left behind.
sub log_is_clean
{
	my ($self) = @_;
	unlike(slurp_file($self->{node}->logfile), qr/leak|TRAP|PANIC|still referenced|you don't own a lock|could not find parent/, 'the log tells of no leak');
	return;
}

1;
