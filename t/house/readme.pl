# What README.md and docs/ say of commands, functions, views and settings is true: it is read here,
# and each SQL block is run as it is.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Encode qw(decode);
use MtpDocs;

my $top = "$FindBin::Bin/../..";
my %text = map { $_ => slurp_file("$top/$_") } qw(README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md),
	map { s!^\Q$top\E/!!r } glob("$top/docs/*.md");
my @docs = grep { m!^docs/! } sort keys %text;
my $reference = $text{'docs/reference.md'};
my $operations = $text{'docs/operations.md'};

# The rows of the first table behind a line, as lists of cells; heading and rule are left out.
sub table_behind
{
	my ($line) = @_;
	$reference =~ /^\Q$line\E\n\n(?:[^|#\n].*\n|\n)*((?:\|.*\n)+)/m
		or die "docs/reference.md: no table behind \"$line\"";
	my @rows = map { my @cells = split(/\s*\|\s*/); shift @cells; \@cells } split(/\n/, $1);
	return @rows[2 .. $#rows];
}

# An anchor as GitHub makes it of a heading.
sub anchor
{
	my $anchor = lc $_[0];
	$anchor =~ s/[^\w\- ]//g;
	return $anchor =~ tr/ /-/r;
}

# How documents are written.
my $statement = qr/^\s*(?:SELECT|INSERT INTO|UPDATE \S+ SET|DELETE FROM|COPY .* (?:FROM|TO)|CREATE [A-Z]|ALTER [A-Z]|DROP [A-Z]|VACUUM)\b/m;
cmp_ok($text{'README.md'} =~ tr/\n//, '<=', 150, 'README.md has a page or two');
foreach my $name (sort keys %text)
{
	my $prose = $text{$name} =~ s/^```.*?^```$//msgr;
	is(join(' ', map { $_->[0] } grep { $_->[0] !~ /^(?:sql|sh|ini|text)$/ } blocks($text{$name})), '',
		"$name: blocks have a language that says whether they are run");
	unlike(join('', map { $_->[1] } grep { $_->[0] eq 'text' } blocks($text{$name})), $statement,
		"$name: SQL is run");
	unlike($prose, qr/\n\n {4,}\S/, "$name: all blocks are fenced");
	unlike($prose, qr/\b(?:shall|he|his|him)\b/i, "$name: plain English");
	is(join("\n", grep { length(decode('UTF-8', $_)) > 100 && !/^\|/ } split(/\n/, $prose)), '',
		"$name: lines of 100 columns");
	my @broken;
	while ($prose =~ /\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)
	{
		my ($path, $heading) = ($1, $2);
		my $file = $path eq '' ? $name : $name =~ m!^docs/! ? "docs/$path" : $path;
		push @broken, $file if !-e "$top/$file";
		push @broken, "$file#$heading" if defined $heading && -f "$top/$file" &&
			!grep { anchor($_) eq $heading } slurp_file("$top/$file") =~ /^#+ (.*)$/mg;
	}
	is(join(' ', @broken), '', "$name: its links lead somewhere");
}
# The glossary has each word once, in order.
foreach my $table ($text{'docs/glossary.md'} =~ /((?:^\|.*\n)+)/mg)
{
	my @words = map { lc((split(/ *\| */))[1]) } (split(/\n/, $table))[ 2 .. $table =~ tr/\n// - 1 ];
	is(join(' | ', @words), join(' | ', sort @words), 'glossary in order');
}
my %seen;
is(join(' ', grep { $seen{$_}++ && $_ ne 'word' } $text{'docs/glossary.md'} =~ /^\| (.*?) \|/mg), '', 'each word of the glossary once');

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ], allows_streaming => 'logical');
$node->adjust_conf('postgresql.conf', 'mtpower.hot_list', undef);	# tests' servers do without
$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->start;

# Minor releases before 15.19 do not have it.
my $output_plugins = $node->safe_psql('postgres', "SELECT current_setting('output_plugin_libraries', true)");

# Runs a document's SQL, block by block, but not that behind headings for which other servers are
# needed: t/shards/citus.pl and the subscriber below run it.
my %elsewhere = map { $_ => 1 } 'Citus', 'Logical replication';
my $feed = $node->basedir . '/feed.csv';
append_to_file($feed, join('', map { "$_,2013-01-01 00:00:$_+00,$_,kind $_,\"{}\"\n" } 10 .. 59));

sub run_document
{
	my ($name, $database) = @_;
	my $number = 0;
	foreach my $block (map { $_->[1] } grep { $_->[0] eq 'sql' && !$elsewhere{ $_->[2] } } blocks($text{$name}))
	{
		$number++;
		next if $block =~ /output_plugin_libraries/ && !$output_plugins;
		$block =~ s/ mydb / $database /;
		$block =~ s!/srv/feed\.csv!$feed!;
		$block =~ s!/srv/samples\.csv!/dev/null!;
		my ($rc, $out, $err) = $node->psql($database, $block, on_error_stop => 1);
		# adopt says what is batched.
		$err =~ s/^psql:\S* NOTICE:  bulk loads of table .*\n(?:(?:DETAIL|HINT):.*(?:\n|\z))*//mg;
		is("$rc $err", '0 ', "$name: SQL block $number runs");
	}
	return;
}

$node->safe_psql('postgres', 'CREATE TABLE readings (sensor int, value float8, at timestamptz);
	CREATE INDEX ON readings (at);
	INSERT INTO readings SELECT i, i / 10.0, now() FROM generate_series(1, 1000) i');
run_document('README.md', 'postgres');
is($node->safe_psql('postgres', q{
	SELECT count(*) FROM events; SET enable_seqscan = off; SELECT id FROM events WHERE device = 33}),
	"50\n33", 'README.md: the rows are there');
is($node->safe_psql('postgres', q{
	SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE c.relname IN ('events', 'readings', 'readings_at_idx') ORDER BY 1}),
	"events|mtpower\nreadings|mtpower\nreadings_at_idx|mtpower_blink",
	'README.md: access methods are as it says');
foreach my $name (@docs)
{
	next if !grep { $_->[0] eq 'sql' } blocks($text{$name});
	my ($database) = $name =~ /(\w+)\.md$/;
	$node->safe_psql('template1', "CREATE DATABASE $database TEMPLATE postgres");
	run_document($name, $database);
	$node->safe_psql('template1', "DROP DATABASE $database");
}
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');

# A subscriber with mtpower, as docs/machines.md has it.
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$subscriber->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$subscriber->start;
$subscriber->safe_psql('postgres', 'CREATE EXTENSION mtpower');
my ($publish, $subscribe) = map { block_behind($text{'docs/machines.md'}, '## Logical replication', $_) } 0, 1;
my $publisher = $node->connstr('postgres');
$subscribe =~ s/'host=publisher[^']*'/'@{[ $publisher =~ s!'!''!gr ]}'/ or die 'docs/machines.md connects to another server';
is(join(' ', $node->psql('postgres', $publish, on_error_stop => 1)), '0  ', 'docs/machines.md: what a publisher runs');
like(join(' ', $subscriber->psql('postgres', $subscribe, on_error_stop => 1)), qr/^0  \S* NOTICE:  created replication slot [^\n]*$/, 'docs/machines.md: what a subscriber runs');
$subscriber->wait_for_subscription_sync($node, 'readings');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM readings'), 1000, 'docs/machines.md: rows arrive');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION readings');
$subscriber->stop;
$node->safe_psql('postgres', 'DROP PUBLICATION readings');

# Functions: their arguments, and who may call them.
my %callable = ('granted' => 'f', 'superuser' => 'f');
my %functions;
foreach my $row (table_behind('## Functions'))
{
	my ($call, $who) = @$row;
	$call =~ /^`mtpower\.(\w+)\((.*)\)`$/ or die "docs/reference.md: \"$call\" is no function";
	my ($name, @args) = ($1, split(/, /, $2));
	s/^\w+ (?=\w)//, s/ DEFAULT .*// foreach @args;
	s/\bbool\b/boolean/ foreach @args;
	$functions{$name} = join(', ', @args) . '|' . ($callable{$who} // 't');
}
my $public = q{has_function_privilege('nobody', p.oid, 'EXECUTE')};
$node->safe_psql('postgres', 'CREATE ROLE nobody');
my %catalog = map { /^(\w+)\|(.*)$/; ($1 => $2) } split(/\n/, $node->safe_psql('postgres', qq{
	SELECT proname, (SELECT coalesce(string_agg(format_type(t, NULL), ', ' ORDER BY n), '') FROM unnest(p.proargtypes) WITH ORDINALITY a(t, n)), $public
	FROM pg_proc p WHERE pronamespace = 'mtpower'::regnamespace AND proname !~ 'handler|check_preload|stat_get_'}));
is_deeply(\%functions, \%catalog, 'functions, their arguments and who may call them');

# Views: their columns.
foreach my $view (map { $_->[0] =~ /mtpower\.(\w+)/; $1 } table_behind('## Views'))
{
	my @told = map { $_->[0] =~ /`(\w+)`/g } table_behind("`$view`");
	is(join(' ', @told), $node->safe_psql('postgres', qq{
		SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'mtpower.$view'::regclass AND attnum > 0}),
		"columns of $view");
}
is(join(' ', map { $_->[0] =~ /`(\w+)`/g } table_behind('### page_info')), $node->safe_psql('postgres', q{
	SELECT string_agg(n, ' ' ORDER BY i) FROM pg_proc, unnest(proargnames, proargmodes::text[]) WITH ORDINALITY a(n, m, i)
	WHERE proname = 'page_info' AND m = 'o'}), 'columns of page_info');
is(join(' ', sort map { $_->[0] =~ /`(\w+)`/ } table_behind('## Access methods')), $node->safe_psql('postgres', q{
	SELECT string_agg(amname, ' ' ORDER BY amname) FROM pg_am WHERE amname LIKE 'mtpower%'}), 'access methods');

# Settings: defaults, ranges, when they take effect.
my %context = ('postmaster' => 'restart', 'sighup' => 'reload', 'user' => 'at once, in the session');
my %settings = map { /^([\w.]+)\|(.*)$/; ($1 => $2) } split(/\n/, $node->safe_psql('postgres', q{
	SELECT name, context, vartype, current_setting(name), unit, min_val, max_val FROM pg_settings WHERE name LIKE 'mtpower.%' AND name !~ 'debug'}));
foreach my $row (table_behind('## Settings'))
{
	my ($name, $default, $range, $effect) = @$row;
	$name =~ s/`//g;
	my ($context, $type, $value, $unit, $min, $max) = split(/\|/, delete $settings{$name} // '');
	like($effect, qr/^$context{$context}/, "$name takes effect");
	is($value, $default eq 'empty' ? '' : $default, "default of $name") if $name ne 'mtpower.workers';
	next if $type eq 'bool' || $type eq 'string';
	if ($type eq 'enum')
	{
		is($range, $node->safe_psql('postgres', "SELECT array_to_string(enumvals, ', ') FROM pg_settings WHERE name = '$name'"), "values of $name");
		next;
	}
	my ($from, $to) = $range =~ /^(\S+) … (\S+)$/ or die "docs/reference.md: \"$range\" is no range";
	if ($unit eq 'ms' || $unit eq 's')
	{
		($from, $to) = split(/\|/, $node->safe_psql('postgres', join(' ', 'SELECT', join(', ', map { "round(extract(epoch FROM interval '$_') / extract(epoch FROM interval '1$unit'))" } $from, $to))));
		$unit = '';
	}
	($from, $to) = split(/\|/, $node->safe_psql('postgres', "SELECT pg_size_bytes('$from') / pg_size_bytes('1$unit'), pg_size_bytes('$to') / pg_size_bytes('1$unit')")) if $unit;
	is("$from $to", "$min $max", "range of $name");
}
is(join(' ', keys %settings), '', 'all settings are told');

# Storage parameters: a value outside the range is refused, with the range.
foreach my $row (table_behind('## Storage parameters'))
{
	my ($am, $parameter, $default, $range) = map { tr/`//dr } @$row;
	my $boolean = $range eq 'on, off';
	my ($from, $to) = split(/ … /, $range);
	my ($rc, undef, $err) = $node->psql('postgres',
		"CREATE INDEX ON readings USING $am (sensor) WITH ($parameter = @{[ $boolean ? 'much' : $from - 1 ]})");
	like($err, $boolean ? qr/invalid value for boolean option/ : qr/Valid values are between "$from" and "$to"/, "range of $parameter of $am");
}

# Everything that an index can have, and everything that leaves.
$node->safe_psql('postgres', block_behind($text{'docs/usage.md'}, '## Types of other extensions'));
$node->safe_psql('postgres', q{
	CREATE TABLE t (a int PRIMARY KEY, b text, c citext, d timestamptz) USING mtpower;
	INSERT INTO t SELECT i, 'text ' || i, 'Word' || i, '2013-01-01'::timestamptz + i * interval '1 hour' FROM generate_series(1, 2000) i;
	CREATE INDEX t_1 ON t USING mtpower_blink (b COLLATE "C" text_pattern_ops DESC, a NULLS FIRST) WITH (fillfactor = 70);
	CREATE INDEX t_2 ON t USING mtpower_blink (lower(b), (a + 1)) INCLUDE (d) WHERE b <> 'made USING mtpower_blink ' AND a > 5;
	CREATE INDEX t_3 ON t USING mtpower_blink (c, d DESC NULLS LAST);
	CREATE INDEX "t mtpower_blink" ON t USING mtpower_blink (c citext_pattern_ops);
	COMMENT ON INDEX t_3 IS 'CREATE INDEX t_3 ON t USING mtpower_blink (c)';
	ALTER TABLE t CLUSTER ON t_3;
	ALTER INDEX t_2 ALTER COLUMN 1 SET STATISTICS 77;
	CREATE UNLOGGED TABLE u (a int) USING mtpower;
	CREATE INDEX ON u USING mtpower_blink (a);
	CREATE MATERIALIZED VIEW mv USING mtpower AS SELECT a, b FROM t;
	CREATE INDEX ON mv USING mtpower_blink (b);
	CREATE TABLE h (a int, b text);
	CREATE INDEX ON h USING mtpower_blink (b);
	CREATE INDEX t_h1 ON t USING mtpower_hash (b) WITH (initial_buckets = 7);
	CREATE INDEX t_h2 ON t USING mtpower_hash (a, lower(b)) WITH (fillfactor = 60, initial_buckets = 7) WHERE a > 5;
	CREATE INDEX t_h3 ON t USING mtpower_hash (upper(b)) WITH (initial_buckets = 3, fillfactor = 70) WHERE b <> 'made USING mtpower_hash ' AND a > 5;
	CREATE INDEX t_h4 ON t USING mtpower_hash (c);
	CREATE INDEX "t mtpower_hash" ON t USING mtpower_hash (c citext_ops, d);
	COMMENT ON INDEX t_h4 IS 'CREATE INDEX t_h4 ON t USING mtpower_hash (c)';
	CREATE TABLE x (a int, EXCLUDE USING mtpower_blink (a WITH =), EXCLUDE USING mtpower_hash (a WITH =)) USING mtpower;
	INSERT INTO x VALUES (1), (2);
	CREATE TABLE parted (a int) PARTITION BY RANGE (a);
	CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10) USING mtpower;
	CREATE INDEX ON parted USING mtpower_blink (a)});
my $indexes = q{SELECT pg_get_indexdef(indexrelid), indisclustered, obj_description(indexrelid, 'pg_class') FROM pg_index i
	JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace = 'public'::regnamespace ORDER BY relname COLLATE "C"};
my $rows = q{SELECT (SELECT md5(string_agg(t::text, '' ORDER BY a)) FROM t), (SELECT count(*) FROM mv), (SELECT sum(a) FROM x), (SELECT count(*) FROM events)};
my $content = $node->safe_psql('postgres', $rows);
my $wanted = $node->safe_psql('postgres', $indexes);
is(scalar(() = $wanted =~ /^CREATE INDEX .*? USING mtpower_(blink|hash) \(/mg), 22, 'indexes of all kinds');

# What it must become: of the hash indexes, those of one column core's hash.
my $single = qr/(?:t_h[134]|x_a_excl1|events_payload_idx)/;
$wanted =~ s/^(CREATE INDEX $single [^|]*?) USING mtpower_hash \(/$1 USING hash (/mg;
$wanted =~ s/^(CREATE INDEX [^|]*?) USING mtpower_(blink|hash|zone) \(/$1 USING btree (/mg;
$wanted =~ s/initial_buckets='\d+', |, initial_buckets='\d+'| WITH \(initial_buckets='\d+'\)//g;

# A dump, restored where mtpower is not.
my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$plain->start;
my $restore = block_behind($operations, '## Restoring to a server without mtpower');
$restore =~ s/ mydb / -d '@{[ $node->connstr('postgres') ]}' / or die 'docs/operations.md dumps another database';
$restore =~ s/psql newdb/psql -Xq -d '@{[ $plain->connstr('postgres') ]}'/ or die 'docs/operations.md restores another database';
my ($out, $err) = run_command([ 'bash', '-o', 'pipefail', '-c', $restore ]);
my %errors = map { $_ => 1 } $err =~ /ERROR:  (.*)/g;
is(join("\n", sort keys %errors), join("\n", 'access method "mtpower_blink" does not exist', 'access method "mtpower_hash" does not exist', 'access method "mtpower_zone" does not exist', 'extension "mtpower" does not exist',
	'mtpower must be loaded via "shared_preload_libraries"'), 'a dump restored: what fails');
is($plain->safe_psql('postgres', $indexes), $wanted, 'a dump restored: indexes');
is($plain->safe_psql('postgres', $rows), $content, 'a dump restored: rows');
is($plain->safe_psql('postgres', q{SELECT attstattarget FROM pg_attribute WHERE attrelid = 't_2'::regclass AND attnum = 1}), '77', 'and what hangs on indexes');
$plain->stop;

# Going back: what has to be made by hand first, then the commands.
my ($rc, undef, $refused) = $node->psql('postgres', 'DROP EXTENSION mtpower');
like($refused, qr/table t depends on access method mtpower\n/, 'DROP EXTENSION lists what it would take along');
$node->safe_psql('postgres', q{
	ALTER TABLE x DROP CONSTRAINT x_a_excl, ADD CONSTRAINT x_a_excl EXCLUDE USING btree (a WITH =),
		DROP CONSTRAINT x_a_excl1, ADD CONSTRAINT x_a_excl1 EXCLUDE USING hash (a WITH =);
	DROP INDEX parted_a_idx;
	CREATE INDEX ON parted USING btree (a)});
is($node->safe_psql('postgres', block_behind($operations, '## Going back')),
	"readings\nevents\nt\nu\nmv\nx\npart", 'going back lists the tables');
# A fillfactor of a hash index is not a tree's.
$wanted =~ s/^(CREATE INDEX t_h2 .*?) WITH \(fillfactor='60'\)/$1/m or die 'no fillfactor';
is($node->safe_psql('postgres', $indexes), $wanted, 'and takes the indexes back');
is($node->safe_psql('postgres', $rows), $content, 'with all rows');
$node->stop;
$node->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
$node->start;
is($node->safe_psql('postgres', "SET enable_seqscan = off; $rows"), $content, 'without the preload, too');
$node->stop;
done_testing();
