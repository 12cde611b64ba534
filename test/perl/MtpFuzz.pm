# MtpFuzz: indexes damaged in every way, one at a time, and what queries, changes, VACUUM and verify_index make of it.
#
# The judgement of a case: each answer is right, or an error that names the index (or the table's file) and a block; or verify_index finds the
# damage.  Nothing crashes or hangs.  test/modules/damage.c changes pages in the buffers and puts them back, so a case takes some milliseconds.
package MtpFuzz;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

our @EXPORT = qw(fuzz_kind fuzz_kinds field leaf_of inner_of primary_of first_body block_size);

# Indexes whose pages may come in place of an index's own, of each kind
my @FOREIGN = qw(others_a others_b);
my ($node, $bs, $dir);
my $servers = 0;

sub start_server
{
	$dir //= MtpFaults::compile('damage');
	$node = PostgreSQL::Test::Cluster->new('main' . ($servers++ || ''));
	$node->init(no_data_checksums => 1);
	$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
fsync = off
mtpower.workers = 0
restart_after_crash = off
max_wal_size = 4GB
checkpoint_timeout = 1h
jit = off
});
	$node->start;
	$bs = $node->safe_psql('postgres', 'SHOW block_size');
	$node->safe_psql('postgres', "CREATE EXTENSION mtpower;
		CREATE FUNCTION damage_save(regclass) RETURNS bytea LANGUAGE c STRICT AS '$dir/damage';
		CREATE FUNCTION damage_restore(regclass) RETURNS void LANGUAGE c STRICT AS '$dir/damage';
		CREATE FUNCTION damage_bytes(regclass, bigint, bytea) RETURNS void LANGUAGE c STRICT AS '$dir/damage';
		CREATE FUNCTION damage_page(regclass, bigint, regclass, bigint) RETURNS void LANGUAGE c STRICT AS '$dir/damage';
		CREATE FUNCTION damage_truncate(regclass, bigint) RETURNS void LANGUAGE c STRICT AS '$dir/damage'");
	$node->safe_psql('postgres', q{
		CREATE TABLE others (a int, b text COLLATE "C", c int);
		INSERT INTO others SELECT g, md5(g::text), g FROM generate_series(1, 3000) g;
		CREATE INDEX others_a ON others USING mtpower_blink (a);
		CREATE INDEX others_b ON others USING mtpower_hash (b)});
	return;
}

# ---------- damage ----------

# Bytes of a number, low byte first as on the machines that tests run on.
sub number { my ($value, $size) = @_; return unpack('H*', pack($size == 1 ? 'C' : $size == 2 ? 'v' : 'V', $value & 0xFFFFFFFF)); }

sub pick { return $_[ int(rand(@_)) ]; }

# A place that matters more than most: in the header, in the directory (fingerprints), in a body (entry), anywhere.
sub place
{
	my ($bytes, $block) = @_;
	my ($lower, $upper) = unpack('vv', substr($bytes, $block * $bs + 12, 4));
	my $what = rand;
	($lower, $upper) = (64, 64) if $lower < 64 || $lower > $upper || $upper > $bs;
	return int(rand(64)) if $what < 0.45;
	return 64 + int(rand(96)) if $what < 0.6;
	return 64 + int(rand($lower - 64)) if $what < 0.75 && $lower > 64;
	return $upper + int(rand($bs - $upper)) if $what < 0.95 && $upper < $bs;
	return int(rand($bs));
}

# Blocks of the index by type and level, so that the few kinds of pages are met as often as the many.
sub by_kind
{
	my ($bytes) = @_;
	my %kind;
	foreach my $block (0 .. length($bytes) / $bs - 1)
	{
		my ($type) = unpack('C', substr($bytes, $block * $bs + 24, 1));
		my ($level) = $type == 3 ? unpack('v', substr($bytes, $block * $bs + 36, 2)) : 0;
		push @{ $kind{"$type.$level"} }, $block;
	}
	return map { $kind{$_} } sort keys %kind;
}

sub block_size { return $bs; }

# A number on a page: block, offset, size.
sub field { my ($bytes, $block, $at, $size) = @_; return unpack($size == 1 ? 'C' : $size == 2 ? 'v' : 'V', substr($bytes, $block * $bs + $at, $size)); }

# A block of a type for which something holds.
sub find_block
{
	my ($bytes, $type, $holds) = @_;
	foreach my $block (1 .. length($bytes) / $bs - 1)
	{
		return $block if field($bytes, $block, 24, 1) == $type && $holds->($block);
	}
	die "no page of type $type";
}

# A leaf with neighbours and items, an inner page, a bucket's primary page with many entries.
sub leaf_of { my ($bytes) = @_; return find_block($bytes, 2, sub { field($bytes, $_[0], 28, 4) != 0xFFFFFFFF && field($bytes, $_[0], 32, 4) != 0xFFFFFFFF && field($bytes, $_[0], 50, 2) > 20 }); }
sub inner_of { my ($bytes) = @_; return find_block($bytes, 3, sub { 1 }); }
sub primary_of { my ($bytes) = @_; return find_block($bytes, 17, sub { field($bytes, $_[0], 48, 2) > 200 }); }

# Of a tree's page: where the offset of item number n (of the first node) is kept, and the body.
sub first_body
{
	my ($bytes, $block, $n) = @_;
	my $at = 64 + 5 * field($bytes, $block, 54, 2) + 64 + 2 * $n;
	return ($at, field($bytes, $block, $at, 2) & ~3);
}

# One case of damage: [what it is, the statements that do it].
sub one_damage
{
	my ($index, $bytes, $older, $foreign) = @_;
	my $n = length($bytes) / $bs;
	my $block = pick(@{ pick(by_kind($bytes)) });
	my $kind = rand;
	if ($kind < 0.35)
	{
		my $at = place($bytes, $block);
		my $bit = int(rand(8));
		return [ "bit $bit of byte $at of block $block", change($index, $block, $at, sprintf('%02x', ord(substr($bytes, $block * $bs + $at, 1)) ^ 1 << $bit)) ];
	}
	if ($kind < 0.45)
	{
		my ($at, $byte) = (place($bytes, $block), int(rand(256)));
		return [ "byte $at of block $block is $byte", change($index, $block, $at, sprintf('%02x', $byte)) ];
	}
	if ($kind < 0.85)
	{
		my $size = pick(2, 4, 4);
		my $at = place($bytes, $block) & ~($size - 1);
		my $value = pick(0, 1, 2, 0xFFFFFFFF, 0x7FFFFFFF, 0xFFFF, $block, $n, $n + 1, $bs, int(rand($n)), int(rand($n)), int(rand($n)), int(rand(65536)));
		return [ "$size bytes at $at of block $block are $value", change($index, $block, $at, number($value, $size)) ];
	}
	my $other = pick(@{ pick(by_kind($bytes)) });
	return [ "block $block is zero", "SELECT damage_bytes('$index', $block * $bs, decode(repeat('00', $bs), 'hex'));" ] if $kind < 0.87;
	if ($kind < 0.89)
	{
		my $at = pick(0, 24, 512, $bs / 2);
		return [ "block $block is zero from $at on", "SELECT damage_bytes('$index', $block * $bs + $at, decode(repeat('00', $bs - $at), 'hex'));" ];
	}
	return [ "block $block is block $other", "SELECT damage_page('$index', $block, '$index', $other);" ] if $kind < 0.92;
	return [ "blocks $block and $other are exchanged", "SELECT damage_page('$index', $block, '$index', $other), damage_page('$index', $other, '$index', $block);" ] if $kind < 0.95;
	return [ "block $block is one of another index", "SELECT damage_page('$index', $block, '" . pick(@$foreign) . "', $other);" ] if $kind < 0.96;
	return [ "block $block is what it was once", "SELECT damage_page('$index', $block, '$older', $block);" ] if $kind < 0.98;
	my $left = int(rand($n));
	return [ "file ends at block $left", "SELECT damage_truncate('$index', $left);" ] if $kind < 0.99;
	return [ "garbage at the end", "SELECT damage_bytes('$index', " . ($n + int(rand(3))) . " * $bs, decode(repeat('" . sprintf('%02x', int(rand(256))) . "', $bs), 'hex'));" ];
}

sub change { my ($index, $block, $at, $hex) = @_; return "SELECT damage_bytes('$index', $block * $bs + $at, '\\x$hex');"; }

# Every bit of headers and directories, and each byte of bodies turned round: the long form.
sub every_damage
{
	my ($index, $bytes) = @_;
	my @damage;
	foreach my $block (map { $_->[ @$_ / 2 ] } by_kind($bytes))
	{
		my ($lower, $upper) = unpack('vv', substr($bytes, $block * $bs + 12, 4));
		foreach my $at (0 .. $bs - 1)
		{
			next if $at >= $lower && $at < $upper;
			my $was = ord(substr($bytes, $block * $bs + $at, 1));
			push @damage, [ "block $block, byte $at, by $_", change($index, $block, $at, sprintf('%02x', $was ^ $_)) ]
			  foreach $at < $lower ? map { 1 << $_ } 0 .. 7 : 255;
		}
	}
	return @damage;
}

# ---------- a case ----------

my %way = (
	index => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = off; SET enable_hashjoin = off;',
	only => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = on; SET enable_hashjoin = off;',
	bitmap => 'SET enable_seqscan = off; SET enable_bitmapscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_hashjoin = off;',
	table => 'SET enable_seqscan = on; SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_hashjoin = on;');

# The statements of a case, with marks between them: what is asked, in which way, and done.
sub script
{
	my ($case, $k, $damage) = @_;
	my $index = $k->{index};
	my $sql = "\\echo CASE $case\n$damage\n";
	$sql .= "$way{$_->[1]}\n\\echo ASK $_->[0]\n$_->[2];\n" foreach @{ $k->{asked} };
	$sql .= "\\echo VERIFY\nSELECT mtpower.verify_index('$index', true);\n\\echo INFO\n"
	  . "SELECT count(*) FROM pg_relation_size('$index') s, generate_series(0, s / $bs - 1) i, mtpower.page_info('$index', i);\n";
	$sql .= "$way{index}\n";
	$sql .= "\\echo DO $_->[0]\n$_->[1];\n" foreach @{ $k->{done} };
	foreach my $q (@{ $k->{asked} }[0, 1])
	{
		$sql .= "$way{$q->[1]}\n\\echo AGAIN $q->[0]\n$q->[2];\n$way{table}\n\\echo TABLE $q->[0]\n$q->[2];\n";
	}
	$sql .= "\\echo VERIFY\nSELECT mtpower.verify_index('$index', true);\n\\echo REST\nSELECT damage_restore('$index'), damage_restore('$k->{table}');\n\\echo END\n";
	return $sql;
}

# Splits what a session said into cases: { case => [ [mark, text], … ] }.
sub parse
{
	my ($out) = @_;
	my (%said, $case);
	foreach my $line (split /\n/, $out)
	{
		if ($line =~ /^CASE (\d+)$/) { $said{ $case = $1 } = [ [ 'DAMAGE', '' ] ]; }
		elsif (!defined $case) { next; }
		elsif ($line =~ /^(ASK .*|AGAIN .*|TABLE .*|DO .*|VERIFY|INFO|REST|END)$/) { push @{ $said{$case} }, [ $1, '' ]; }
		else { $said{$case}[-1][1] .= "$line\n"; }
	}
	return \%said;
}

# Errors that name the index and a block, or the file and the block.
sub names_block
{
	my ($text, $index) = @_;
	return $text =~ /ERROR:  XX00[12]: .*\b(index|of) "$index".*\bblock \d+/s || $text =~ /ERROR:  XX00[12]: .*\bblock \d+ .*index "$index"/s
	  || $text =~ /ERROR:  XX001: (could not read block \d+ in file|invalid page in block \d+ of relation)/
	  || $text =~ /ERROR:  XX002: .*\bat block \d+/s
	  || $text =~ /ERROR:  XX002: heap tid from index tuple .* index page \(\d+,\d+\) of index "$index"/;
}

# What is wrong with how a case went, or ''.
sub judge
{
	my ($index, $said, $right) = @_;
	my ($found, $again, @wrong) = (0, '');
	foreach my $s (@$said)
	{
		my ($mark, $text) = @$s;
		$text =~ s/^psql:[^:]*:\d+: //mg;
		$text =~ s/^(WARNING|HINT|DETAIL|CONTEXT|LOCATION|NOTICE|LOG):.*\n//mg if $text !~ /ERROR/;
		return "server crashed in $mark: $text" if $text =~ /server closed the connection|connection to server was lost|PANIC|FATAL/;
		return "hangs in $mark" if $text =~ /ERROR:  57014/;
		return "in $mark: $text" if $text =~ /ERROR:  (XX000|TRAP)/;
		$found = 1 if $mark eq 'VERIFY' && $text =~ /ERROR:  XX00[12]/;
		if ($text =~ /ERROR/)
		{
			return "in $mark: $text" if !names_block($text, $index);
			$again = undef if $mark =~ /^AGAIN/;
			next;
		}
		$again = $text if $mark =~ /^AGAIN/;
		push @wrong, $mark if $mark =~ /^TABLE/ && defined $again && $text ne $again || $mark =~ /^ASK (.*)/ && $text ne $right->{$1};
	}
	return "does not come to an end: $said->[-1][0]" if $said->[-1][0] ne 'END';
	return @wrong && !$found ? "wrong answers that verify_index does not find: @wrong" : '';
}

# One session with some cases; returns what it said.
sub run_cases
{
	my ($cases, $setup) = @_;
	my $file = $node->basedir . '/fuzz.sql';
	open(my $f, '>', $file) or die "$file: $!";
	print $f "\\set VERBOSITY verbose\n\\pset format unaligned\n\\pset tuples_only on\nSET statement_timeout = '20s';\nSET client_min_messages = error; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_sort = off; SET max_parallel_workers_per_gather = 0;\n$setup\n", @$cases;
	close($f);
	my $out = '';
	my $run = IPC::Run::start([ 'sh', '-c', 'exec psql -Xq -d "$0" -f "$1" 2>&1', $node->connstr('postgres'), $file ], '<', '/dev/null', '>', \$out, my $timer = IPC::Run::timeout(300));
	if (!eval { $run->finish; 1 } && $@ =~ /timeout/)
	{
		$node->stop('immediate', fail_ok => 1);
		$run->kill_kill;
		$out .= "\nERROR:  57014: the session hangs\n";
	}
	return $out;
}

# fuzz({ index, table, create, known, asked, done, older, foreign }, n): so many cases; FLIPS=n or FLIPS=all: more.  older: an index of the same
# definition with other contents; foreign: others.  known: given the index's contents, cases that come first, and must be noticed: [what, [block, offset, size, value], …].  verified: verify_index itself
# must find them, in the block that is named first; what is on the metapage (0), in any.
sub fuzz
{
	my ($kind, $number) = @_;
	my ($index, $name) = ($kind->{index}, $kind->{index});
	$node->safe_psql('postgres', $kind->{create});
	my $save = "\\o /dev/null\nSELECT damage_save(i) FROM unnest('{" . join(',', $index, $kind->{table}, $kind->{older}, @FOREIGN) . "}'::regclass[]) i;\n\\o\n";

	# Undamaged first: what is right.
	my $said = parse(run_cases([ script(0, $kind, '') ], $save));
	my %right = map { $_->[0] =~ /^ASK (.*)/ ? ($1 => $_->[1]) : () } @{ $said->{0} };
	is(judge($index, $said->{0} // [ [ 'DAMAGE', '' ] ], \%right), '', "$name: undamaged");
	unlike(join('', map { $_->[1] } @{ $said->{0} }), qr/ERROR/, "$name: no error");
	foreach my $q (@{ $kind->{asked} })
	{
		is($right{ $q->[0] }, $node->safe_psql('postgres', "$way{table} $q->[2]") . "\n", "$name, $q->[0]: the index's answer");
		like($node->safe_psql('postgres', "$way{$q->[1]} EXPLAIN $q->[2]"), qr/ $index /, "$name, $q->[0]: by the index");
	}

	my $bytes = pack('H*', $node->safe_psql('postgres', "SELECT encode(damage_save('$index'), 'hex')"));
	my @known = map { my ($what, @at) = @$_; [ $what, join(' ', map { change($index, $_->[0], $_->[1], number($_->[3], $_->[2])) } @at), $at[0][0] ] } $kind->{known}->($bytes);
	my @damage = (@known, ($ENV{FLIPS} // '') eq 'all' ? every_damage($index, $bytes)
	  : map { one_damage($index, $bytes, $kind->{older}, \@FOREIGN) } 1 .. ($ENV{FLIPS} || $number));
	my ($next, $bad, $found) = (0, 0, 0);
	while ($next < @damage && $bad < 20)
	{
		my $last = $next + 99 < $#damage ? $next + 99 : $#damage;
		$said = parse(run_cases([ map { script($_, $kind, $damage[$_][1]) } $next .. $last ], $save));
		my $broken;
		foreach my $case ($next .. $last)
		{
			last if !$said->{$case};
			my $wrong = judge($index, $said->{$case}, \%right);
			$next = $case + 1;
			my $noticed = grep { $_->[1] =~ /XX00[12]/ } @{ $said->{$case} };
			my ($verify) = map { $_->[1] } grep { $_->[0] eq 'VERIFY' } @{ $said->{$case} };
			$found++ if $noticed;
			$wrong = 'not noticed' if $wrong eq '' && $case < @known && !$noticed;
			$wrong = "verify_index does not find it: $verify" if $wrong eq '' && $case < @known && $kind->{verified} && $verify !~ /XX002: .*\bblock @{[ $damage[$case][2] || '\d+' ]}\b/s;
			next if $wrong eq '';
			diag("$name, case $case: $damage[$case][0]: $wrong");
			$bad++;
			$broken = $wrong =~ /crashed|hangs|end:/;
			last if $broken;
		}
		if ($broken)
		{
			# What damage does is not logged, so the server would not recover.
			$node->stop('immediate', fail_ok => 1);
			start_server();
			$node->safe_psql('postgres', $kind->{create});
		}
	}
	is($bad, 0, "$name: $next cases of damage, $found of them noticed");
	return;
}

# An index, its table "name", and what is done with them.  Of "rows" rows a range is gone, and with it pages.  { am, name, key => what stands behind USING am,
# columns => those of the table beside k, values => of row g, k first, rows, changed => what an update sets, step => one of so many rows comes
# again in a load, asked => [ [ name, way, query ], ... ], known => function of the index's bytes that gives [ name, [ block, offset, size, value ], ... ], ... }
sub fuzz_kind
{
	my (%is) = @_;
	my ($name, $rows) = @is{qw(name rows)};
	my $fill = "INSERT INTO $name SELECT $is{values} FROM generate_series(1, $rows";
	return {
		index => "${name}_x", table => $name, older => "${name}_old_x", asked => $is{asked}, known => $is{known}, verified => $is{verified},
		create => "CREATE TABLE $name (k int, $is{columns}); CREATE INDEX ${name}_x ON $name USING $is{am} $is{key}; SET mtpower.batching = off; $fill) g;
			CREATE TABLE ${name}_old (LIKE $name); INSERT INTO ${name}_old SELECT * FROM $name WHERE k % 3 = 0;
			CREATE INDEX ${name}_old_x ON ${name}_old USING $is{am} $is{key};
			DELETE FROM $name WHERE k BETWEEN $rows / 3 AND $rows / 2; VACUUM $name; ANALYZE $name",
		done => [
			[ 'insert', "SET mtpower.batching = off; $fill, $rows / 60) g" ],
			[ 'load', "SET mtpower.batching = on; SET mtpower.batch_min_rows = 0; $fill, $is{step}) g" ],
			[ 'update', "UPDATE $name SET $is{changed} WHERE k % 40 = 0" ],
			[ 'delete', "DELETE FROM $name WHERE k BETWEEN $rows / 10 AND $rows / 4" ],
			[ 'vacuum', "VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) $name" ]
		]
	};
}

# Damages each kind a hundred times, or FLIPS times; KINDS are the names of some.
sub fuzz_kinds
{
	my @kinds = @_;
	my $seed = $ENV{SEED} || 1;
	note "seed $seed";
	srand($seed);
	start_server();
	foreach my $kind (@kinds)
	{
		fuzz($kind, 100) if !$ENV{KINDS} || grep { "fz_$_" eq $kind->{table} } split / /, $ENV{KINDS};
	}
	return;
}

1;
