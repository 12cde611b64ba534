# What README.md says of commands, functions, views and settings is true: it is read here, and its commands are run as they are.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $readme = slurp_file("$FindBin::Bin/../../README.md");

# The first indented block behind a sentence.
sub block_behind
{
	my ($sentence) = @_;
	$readme =~ /\Q$sentence\E.*?\n\n((?:    [^\n]*\n|\n)+)/s or die "README.md: no block behind \"$sentence\"";
	my $block = $1;
	$block =~ s/^    //mg;
	return $block;
}

# The rows of the table behind a line, as lists of cells; heading and rule are left out.
sub table_behind
{
	my ($line) = @_;
	$readme =~ /^\Q$line\E\n\n((?:\|.*\n)+)/m or die "README.md: no table behind \"$line\"";
	my @rows = map { my @cells = split(/\s*\|\s*/); shift @cells; \@cells } split(/\n/, $1);
	return @rows[2 .. $#rows];
}

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->adjust_conf('postgresql.conf', 'mtpower.hot_list', undef);	# tests' servers do without
$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower; CREATE EXTENSION citext');

# Functions: their arguments, and who may call them.
my %callable = ('granted' => 'f', 'superuser' => 'f');
my %functions;
foreach my $row (table_behind('### Functions'))
{
	my ($call, $who) = @$row;
	$call =~ /^`mtpower\.(\w+)\((.*)\)`$/ or die "README.md: \"$call\" is no function";
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
foreach my $view (map { $_->[0] =~ /mtpower\.(\w+)/; $1 } table_behind('### Views'))
{
	my @told = map { $_->[0] =~ /`(\w+)`/g } table_behind("`$view`");
	is(join(' ', @told), $node->safe_psql('postgres', qq{
		SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'mtpower.$view'::regclass AND attnum > 0}),
		"columns of $view");
}
like($readme, qr/`mtpower\.page_info\(.*?`type`.*?`lsn`/, 'columns of page_info are told');
my ($told) = $readme =~ /what is on one block of an index: (.*?) \|\n/;
$told =~ s/\(.*?\)//g;
is(join(' ', $told =~ /`(\w+)`/g), $node->safe_psql('postgres', q{
	SELECT string_agg(n, ' ' ORDER BY i) FROM pg_proc, unnest(proargnames, proargmodes::text[]) WITH ORDINALITY a(n, m, i)
	WHERE proname = 'page_info' AND m = 'o'}), 'columns of page_info');

# Settings: defaults, ranges, when they take effect.
my %context = ('postmaster' => 'restart', 'sighup' => 'reload', 'user' => 'at once, in the session');
my %settings = map { /^([\w.]+)\|(.*)$/; ($1 => $2) } split(/\n/, $node->safe_psql('postgres', q{
	SELECT name, context, vartype, current_setting(name), unit, min_val, max_val FROM pg_settings WHERE name LIKE 'mtpower.%' AND name <> 'mtpower.debug_stop'}));
foreach my $row (table_behind('### Settings'))
{
	my ($name, $default, $range, $effect) = @$row;
	$name =~ s/`//g;
	my ($context, $type, $value, $unit, $min, $max) = split(/\|/, delete $settings{$name} // '');
	like($effect, qr/^$context{$context}/, "$name takes effect");
	is($value, $default eq 'empty' ? '' : $default, "default of $name") if $name ne 'mtpower.workers';
	next if $type eq 'bool' || $type eq 'string';
	my ($from, $to) = $range =~ /^(\S+) … (\S+)$/ or die "README.md: \"$range\" is no range";
	if ($unit eq 'ms' || $unit eq 's')
	{
		($from, $to) = split(/\|/, $node->safe_psql('postgres', join(' ', 'SELECT', join(', ', map { "round(extract(epoch FROM interval '$_') / extract(epoch FROM interval '1$unit'))" } $from, $to))));
		$unit = '';
	}
	($from, $to) = split(/\|/, $node->safe_psql('postgres', "SELECT pg_size_bytes('$from') / pg_size_bytes('1$unit'), pg_size_bytes('$to') / pg_size_bytes('1$unit')")) if $unit;
	is("$from $to", "$min $max", "range of $name");
}
is(join(' ', keys %settings), '', 'all settings are told');

# Using it.
my $feed = $node->basedir . '/feed.csv';
append_to_file($feed, join('', map { "$_,2013-01-01 00:00:$_+00,$_,kind $_,\"{}\"\n" } 10 .. 59));
my $using = block_behind('## Using it');
$using =~ s!/srv/feed\.csv!$feed! or die 'README.md copies from another file';
$node->safe_psql('postgres', $using);
is($node->safe_psql('postgres', q{SELECT count(*) FROM events; SET enable_seqscan = off; SELECT id FROM events WHERE device = 33}), "50\n33", 'using it');
$node->safe_psql('postgres', q{
	SELECT mtpower.release('events');
	DROP INDEX events_at_idx;
	CREATE INDEX ON events (at)});
my $commands = $node->safe_psql('postgres', block_behind('its indexes are replaced one by one'));
is($commands =~ tr/\n//, 3, 'adopt, then index_ddl: three commands');
$node->safe_psql('postgres', $_) foreach grep { $_ } split(/\n/, $commands);
is($node->safe_psql('postgres', q{
	SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname IN ('events', 'events_at_idx') ORDER BY 1}),
	"mtpower\nmtpower_blink", 'which do what they say');

# Everything that an index can have, and everything that leaves.
$node->safe_psql('postgres', block_behind('### Types of other extensions'));
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
is(scalar(() = $wanted =~ /^CREATE INDEX .*? USING mtpower_(blink|hash) \(/mg), 21, 'indexes of all kinds');

# What it shall become: of the hash indexes, those of one column core's hash.
my $single = qr/(?:t_h[134]|x_a_excl1|events_payload_idx)/;
$wanted =~ s/^(CREATE INDEX $single [^|]*?) USING mtpower_hash \(/$1 USING hash (/mg;
$wanted =~ s/^(CREATE INDEX [^|]*?) USING mtpower_(blink|hash) \(/$1 USING btree (/mg;
$wanted =~ s/initial_buckets='\d+', |, initial_buckets='\d+'| WITH \(initial_buckets='\d+'\)//g;

# A dump, restored where mtpower is not.
my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$plain->start;
my $restore = block_behind('A dump can be restored where mtpower is not.');
$restore =~ s/ mydb / -d '@{[ $node->connstr('postgres') ]}' / or die 'README.md dumps another database';
$restore =~ s/psql newdb/psql -Xq -d '@{[ $plain->connstr('postgres') ]}'/ or die 'README.md restores another database';
my ($out, $err) = run_command([ 'bash', '-o', 'pipefail', '-c', $restore ]);
my %errors = map { $_ => 1 } $err =~ /ERROR:  (.*)/g;
is(join("\n", sort keys %errors), join("\n", 'access method "mtpower_blink" does not exist', 'access method "mtpower_hash" does not exist', 'extension "mtpower" does not exist',
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
my $back = block_behind('Nobody is locked in.');
$back =~ s/;(\s*)DROP EXTENSION/ \\gexec$1DROP EXTENSION/ or die 'README.md does not drop the extension';
is($node->safe_psql('postgres', $back), "events\nt\nu\nmv\nx\npart", 'going back lists the tables');
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
