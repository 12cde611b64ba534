# MtpDamage: pages of indexes edited while the server is down, and whether verify_index finds what is wrong with them.
package MtpDamage;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(page_fields peek poke get put damage_node edit_index finds_damage damage_at_random);

# ---------- pages: references to their bytes ----------

my %size = (C => 1, S => 2, L => 4, l => 4, Q => 8);
my %field;

# Names of fields, [offset, kind as pack() has it] each.
sub page_fields { %field = @_; return; }

sub peek { my ($page, $at, $kind) = @_; return unpack($kind, substr($$page, $at, $size{$kind})); }
sub poke { my ($page, $at, $kind, $value) = @_; substr($$page, $at, $size{$kind}) = pack($kind, $value); return; }
sub get { my ($page, $name) = @_; return peek($page, @{ $field{$name} }); }
sub put { my ($page, $name, $value) = @_; return poke($page, @{ $field{$name} }, $value); }

# ---------- indexes ----------

my ($node, $bs);

# The server, and its size of blocks.
sub damage_node
{
	$node = PostgreSQL::Test::Cluster->new('main');
	$node->init(no_data_checksums => 1);
	$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
fsync = off
});
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION mtpower');
	$bs = $node->safe_psql('postgres', 'SHOW block_size');
	return ($node, $bs);
}

sub path_of { my ($index) = @_; return $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$index')"); }

# Edits the indexes of all cases, named after their ids, with the server down.  edit gets the case and a function that reads a block; it returns
# { block => page, … }, or the file's new length, or nothing if it is to lose its last block.
sub edit_index
{
	my ($edit, @cases) = @_;
	my %path = map { $_->{id} => path_of("$_->{id}_a") } @cases;
	$node->stop;
	foreach my $c (@cases)
	{
		my $path = $path{ $c->{id} };
		open(my $file, '+<:raw', $path) or die "$path: $!";
		my $read = sub {
			my ($block) = @_;
			my $page;
			seek($file, $block * $bs, 0);
			read($file, $page, $bs) == $bs or die "block $block of $path";
			return \$page;
		};
		my $pages = $edit->($c, $read);
		if (!ref $pages)
		{
			truncate($file, $pages // (-s $file) - $bs);
			next;
		}
		foreach my $block (keys %$pages)
		{
			seek($file, $block * $bs, 0);
			print $file ${ $pages->{$block} };
		}
		close($file);
	}
	$node->start;
	return;
}

# Does verify_index find what is wrong?  By itself, or only with the rows (deep); in this block, at this offset, where they are defined, with these words
# (detail); or nothing, if there is no detail: then false.
sub finds_damage
{
	my ($c) = @_;
	my ($rc, $out, $err);
	if ($c->{deep})
	{
		($rc, $out, $err) = $node->psql('postgres', "SELECT mtpower.verify_index('$c->{id}_a')");
		is("$rc $err", '0 ', "$c->{name}: the index by itself is sound");
	}
	($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT mtpower.verify_index('$c->{id}_a', true)");
	if (!defined $c->{detail})
	{
		is("$rc $err", '0 ', "$c->{name}: nothing found");
		return 0;
	}
	my $block = $c->{block} // '\d+';
	my $offset = $c->{offset} // '\d+';
	like($err, qr/ERROR:  XX002: index "$c->{id}_a" is corrupted at block $block, offset $offset\b/, "$c->{name}: found where it is");
	like($err, $c->{detail}, "$c->{name}: called by its name");
	unlike($err, qr/server closed the connection/, "$c->{name}: the server lives");
	return 1;
}

# Other bytes of indexes, at random: whatever is reported, nothing crashes.  pick says where the n-th byte of a file of some length is; queries: what is
# done with each index besides.
sub damage_at_random
{
	my ($pick, %queries) = @_;
	my ($found, $lived, $asked) = (0, 0, 0);
	my $seed = $ENV{SEED} || 1;
	note "seed $seed";
	srand($seed);
	my %path = map { $_ => path_of($_) } keys %queries;
	$node->stop;
	my %original = map { $_ => slurp_file($path{$_}) } keys %path;
	foreach my $round (1 .. ($ENV{ROUNDS} || 6))
	{
		foreach my $index (sort keys %path)
		{
			my $bytes = $original{$index};
			substr($bytes, $pick->(length($bytes), $_), 1) = chr(int(rand(256))) foreach 1 .. 20;
			open(my $file, '>:raw', $path{$index}) or die;
			print $file $bytes;
			close($file);
		}
		$node->start;
		foreach my $index (sort keys %path)
		{
			my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSET statement_timeout = '30s'; SELECT mtpower.verify_index('$index', true)");
			$found++ if $err =~ /ERROR:  XX00[12]/;
			note $err if $err !~ /^(psql:.*ERROR:  XX00[12]|$)/;
			$node->psql('postgres', "SET statement_timeout = '30s'; SELECT i FROM pg_relation_size('$index') s, generate_series(0, s / $bs - 1) i, mtpower.page_info('$index', i)");
			$node->psql('postgres', "SET statement_timeout = '10s'; SET enable_seqscan = off; $queries{$index}");
			$asked++;
			$lived++ if $err !~ /server closed|connection/ && $node->safe_psql('postgres', 'SELECT 1') eq '1';
		}
		$node->stop;
	}
	is($lived, $asked, 'random bytes crash nothing');
	cmp_ok($found, '>', $asked / 2, 'and are mostly found');
	return;
}

1;
