# MtpLoad: what tests of loads beside other work share: reading a table by every kind of scan, pgbench in the background, and
# whether everything is sound afterwards.
package MtpLoad;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use MtpVariant qw(verification);

our @EXPORT = qw(scans_sql is_sound start_pgbench finish_pgbench is_clean log_is_clean);

# compare(table, lo, hi) reads the rows with column k in a range by an index-only scan, backwards, by an index scan, and by a
# bitmap, raises an error where one differs from the table itself, and returns a digest.  It takes one snapshot if REPEATABLE READ is the
# default, as start_pgbench() makes it.
sub scans_sql
{
	return q{
CREATE FUNCTION scans(seq bool, plain bool, index_only bool, bitmap bool) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', seq::text, true), set_config('enable_indexscan', plain::text, true),
		set_config('enable_indexonlyscan', index_only::text, true), set_config('enable_bitmapscan', bitmap::text, true) $$;
CREATE FUNCTION read_range(name text, what text, lo int, hi int, how text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE t text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(x::text, '' '' %s)), '''')
		FROM (SELECT %s AS x FROM %I WHERE k BETWEEN %s AND %s %s) q', CASE how WHEN '' THEN 'ORDER BY x' ELSE '' END, what, name, lo, hi, how) INTO t;
	RETURN t;
END $$;
CREATE FUNCTION compare(name text, lo int, hi int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE want text; want_desc text;
BEGIN
	PERFORM scans(true, false, false, false);
	SELECT read_range(name, 'k', lo, hi, ''), read_range(name, 'k', lo, hi, 'ORDER BY k + 0 DESC') INTO want, want_desc;
	PERFORM scans(false, true, true, false);
	IF read_range(name, 'k', lo, hi, 'ORDER BY k') <> want THEN RAISE 'index-only: % % %', name, lo, hi; END IF;
	IF read_range(name, 'k', lo, hi, 'ORDER BY k DESC') <> want_desc THEN RAISE 'backward: % % %', name, lo, hi; END IF;
	PERFORM scans(false, true, false, false);
	IF read_range(name, 'k + length(left(txt, 0))', lo, hi, 'ORDER BY k') <> want THEN RAISE 'index: % % %', name, lo, hi; END IF;
	PERFORM scans(false, false, false, true);
	IF read_range(name, 'k', lo, hi, '') <> want THEN RAISE 'bitmap: % % %', name, lo, hi; END IF;
	RETURN want;
END $$;
};
}

# Every index of ours in the database agrees with its table; in the variant btree every btree, too.
sub is_sound
{
	my ($node, $what) = @_;
	my ($which, $verify) = verification();
	my ($out, $err);
	my $rc = $node->psql('postgres', qq{SELECT $verify FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE $which AND c.relkind = 'i' AND (c.relpersistence = 'p' OR NOT pg_is_in_recovery())}, stdout => \$out, stderr => \$err);
	is("$rc $err", '0 ', "$what: indexes verify");
	return;
}

# Besides, the engine holds nothing: for when no load is under way.
sub is_clean
{
	my ($node, $what) = @_;
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, "$what: no memory is held");
	is_sound($node, $what);
	return;
}

# start_pgbench(node, seconds, clients, script => weight, …, or --option => value): scripts are tried again after serialization failures.
sub start_pgbench
{
	my ($node, $seconds, $clients, @scripts) = @_;
	my $run = { err => '', out => '' };
	my @args;
	while (my ($script, $weight) = splice(@scripts, 0, 2))
	{
		if ($script =~ /^--/)
		{
			push @args, "$script=$weight";
			next;
		}
		my $file = PostgreSQL::Test::Utils::tempdir_short . '/script';
		append_to_file($file, $script);
		push @args, '-f', "$file\@$weight";
	}
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=repeatable\\ read';
	$run->{h} = IPC::Run::start([ 'pgbench', '-n', '-T', $seconds, '--max-tries=0', '-c', $clients, '-h', $node->host, '-p', $node->port, @args, 'postgres' ],
		'<', \undef, '>', \$run->{out}, '2>', \$run->{err});
	return $run;
}

# finish_pgbench(run, what, least, allowed): at least so many transactions, and no errors but those that are allowed to end a client.
sub finish_pgbench
{
	my ($run, $what, $least, $allowed) = @_;
	my $ended = $run->{h}->finish;
	my @errors = grep { /ERROR|FATAL|PANIC/ && !($allowed && $_ =~ $allowed) } split /\n/, $run->{err};
	ok(!@errors && ($ended || ($allowed && $run->{err} =~ $allowed)), "$what: no errors") or diag($run->{err});
	my ($n) = $run->{out} =~ /transactions actually processed: (\d+)/;
	my ($again) = $run->{out} =~ /transactions retried: (\d+)/;
	cmp_ok($n // 0, '>=', $least, "$what: transactions") or diag($run->{out});
	note("$what: $n transactions, $again of them tried again");
	return;
}

sub log_is_clean
{
	my ($node) = @_;
	unlike(slurp_file($node->logfile), qr/TRAP|PANIC|inconsistent page|terminated by signal|WARNING:.*(leak|still)/, 'the log is clean: ' . $node->name);
	return;
}

1;
