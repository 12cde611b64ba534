# MtpReplica: standbys, and whether they are what their primary is: databases, relations and their sizes, every row of every table, every
# index of ours.
package MtpReplica;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(standby_of catch_up same_servers indexes_verify keep_still databases wait_for_log_line);

# A standby of a node, which may itself be one, from a backup of its own; $conf goes to its settings.
my $backups = 0;

sub standby_of
{
	my ($node, $name, $conf) = @_;
	my $backup = 'for_standby_' . ++$backups;
	$node->backup($backup, backup_options => [ '--checkpoint', 'fast' ]);
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($node, $backup, has_streaming => 1);
	$standby->append_conf('postgresql.conf', $conf) if defined $conf;
	$standby->start;
	return $standby;
}

# Each of the standbys has replayed all that the primary has written.  They may follow another standby.
sub catch_up
{
	my ($primary, @standbys) = @_;
	my $lsn = $primary->lsn('insert');
	foreach my $standby (@standbys)
	{
		$standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'")
		  or die $standby->name . " does not get to $lsn; its log ends with\n" . substr(slurp_file($standby->logfile), -2000);
	}
	return;
}

# No autovacuum from now on, so that what is compared does not change meanwhile.
sub keep_still
{
	my ($primary) = @_;
	$primary->safe_psql('postgres', 'ALTER SYSTEM SET autovacuum = off');
	$primary->reload;
	$primary->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%'}) or die 'autovacuum goes on';
	return;
}

sub databases { my ($node) = @_; return split /\n/, $node->safe_psql('postgres', 'SELECT datname FROM pg_database WHERE datallowconn ORDER BY 1'); }

# What psql answers, errors among it, line by line.
sub answers
{
	my ($node, $db, $sql) = @_;
	my ($out, $err) = ('', '');
	$node->psql($db, "SET max_parallel_workers_per_gather = 0; SET jit = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;\n$sql",
		on_error_stop => 0, stdout => \$out, stderr => \$err);
	return ([ split /\n/, $out ], $err);
}

# Relations of a database whose content is in the WAL.  Sequences are not read: what they hold in advance differs.
my $permanent = q{FROM pg_class c WHERE relpersistence = 'p' AND relkind};

# Of catalogs, which are many, only where their rows lie and who made them.
my $rows_sql = qq{SELECT format('SELECT %L, count(*), sum(hashtextextended(concat_ws('' '', relation_.ctid, relation_.xmin%s), 0)::numeric) FROM ONLY %s relation_',
	c.oid::regclass, CASE WHEN c.oid >= 16384 THEN ', relation_' END, c.oid::regclass) $permanent IN ('r', 'm', 't') ORDER BY c.oid \\gexec\n};

my $sizes_sql = qq{SELECT c.oid, c.oid::regclass, pg_relation_filenode(c.oid), pg_relation_size(c.oid) $permanent IN ('r', 'm', 't', 'i', 'S') ORDER BY c.oid};

# A line for each table: its name, rows, and a digest of them, with where they lie.
sub rows_of { my ($node, $db) = @_; return answers($node, $db, $rows_sql); }

# Sizes must be the same, but for blocks that the primary has added and never used: those are zero, and in no record.
sub sizes_differ
{
	my ($primary, $standby, $db) = @_;
	my ($want) = answers($primary, $db, $sizes_sql);
	my ($got) = answers($standby, $db, $sizes_sql);
	return "another list of relations" if @$want != @$got;
	my @differ;
	foreach my $i (0 .. $#$want)
	{
		next if $want->[$i] eq $got->[$i];
		my ($oid, $name, $node, $size) = split /\|/, $want->[$i];
		my ($standby_oid, undef, $standby_node, $less) = split /\|/, $got->[$i];
		my $rest = $size - $less;
		push @differ, "$want->[$i] is $got->[$i]"
		  if $oid ne $standby_oid || $node ne $standby_node || $rest < 0
		  || $primary->safe_psql($db, "SELECT length(btrim(pg_read_binary_file(pg_relation_filepath($oid), $less, $rest), '\\x00'))") ne '0';
	}
	return @differ;
}

# indexes_verify(node, database): what mtpower.verify_index complains of, and the number of indexes
sub indexes_verify
{
	my ($node, $db) = @_;
	my ($out, $err) = answers($node, $db, q{
		SELECT to_regprocedure('mtpower.verify_index(regclass, boolean)') IS NOT NULL AS here \gset
		\if :here
		SELECT format('SELECT %1$s, mtpower.verify_index(%1$s, true)', c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid
		WHERE a.amname IN ('mtpower_blink', 'mtpower_hash') AND c.relkind = 'i' AND c.relpersistence = 'p' AND i.indisvalid ORDER BY c.oid \gexec
		\endif});
	return ($err, scalar @$out);
}

# same_servers(what, primary, standbys): all that is compared, in all databases; the primary must be at rest.  Returns how many tables and how many
# indexes of ours there are, so that a test can ask for some.
sub same_servers
{
	my ($what, $primary, @standbys) = @_;
	my ($tables, $indexes) = (0, 0);
	$primary->safe_psql('postgres', 'CHECKPOINT');
	catch_up($primary, @standbys);
	my @databases = databases($primary);
	my (@wrong, %rows, %errors);
	foreach my $db (@databases)
	{
		($rows{$db}, $errors{$db}) = rows_of($primary, $db);
		$tables += @{ $rows{$db} };
		my ($complaints, $n) = indexes_verify($primary, $db);
		push @wrong, $primary->name . ", $db: $complaints" if $complaints ne '';
		$indexes += $n;
	}
	foreach my $standby (@standbys)
	{
		my $name = $standby->name;
		push @wrong, "$name has other databases" if join("\n", databases($standby)) ne join("\n", @databases);
		foreach my $db (@databases)
		{
			my ($rows, $errors) = rows_of($standby, $db);
			push @wrong, map { "$name, $db: $rows{$db}[$_] on the primary, " . ($rows->[$_] // 'nothing') } grep { $rows{$db}[$_] ne ($rows->[$_] // '') } 0 .. $#{ $rows{$db} };
			push @wrong, "$name, $db: other errors: $errors, not $errors{$db}" if $errors ne $errors{$db};
			push @wrong, map { "$name, $db: $_" } sizes_differ($primary, $standby, $db);
			my ($complaints) = indexes_verify($standby, $db);
			push @wrong, "$name, $db: $complaints" if $complaints ne '';
		}
	}
	is(join("\n", splice(@wrong, 0, 20)), '', "$what: the same tables, and all indexes verify");
	note("$what: " . @databases . " databases, $tables tables, $indexes indexes of mtpower");
	return ($tables, $indexes);
}

# Waits until a server's log has this behind an offset.
sub wait_for_log_line
{
	my ($node, $pattern, $from) = @_;
	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if slurp_file($node->logfile, $from) =~ $pattern;
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

1;
