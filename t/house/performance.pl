# Each figure in README.md, docs/performance.md and docs/machines.md is one of bench/RESULTS.md, or of
# the like of bench/RESULTS_18.md: its key stands behind it, with the release before it where it is
# not 15.
#
#     3.1 × <!-- copy.4_indexes.heap_btree_live.ratio -->
#     3.1 × <!-- 18.copy.4_indexes.heap_btree_live.ratio -->
#
# A figure is a number outside of code that has a unit, decimals or a key. It is the value of the
# file with as many decimals as the document gives, and in its unit. @conditions has what looks like
# a figure and is a condition of a measurement.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my @conditions = ();
my $most_conditions = 5;

my $unit = qr/×|%|s|ms|us|µs|ns|MB|B|M/;

# The value and unit of each key in a file like RESULTS.md; $prefix is what the documents put before
# a key.
sub results_of
{
	my ($text, $prefix) = @_;
	my %results;
	while ($text =~ /^\| ([\w.]+) +\| +(-?[\d.]+) \| ([^ |]*) /mg)
	{
		my $key = ($prefix // '') . $1;
		die "two figures have the key $key\n" if $results{$key};
		$results{$key} = { value => $2, unit => $3 };
	}
	return \%results;
}

# The number of a document's figures that are right, and what is wrong with the others.
sub compare
{
	my ($text, $results) = @_;
	my ($right, @wrong) = (0);
	$text =~ s/^```.*?^```$//msg;
	$text =~ s/^(?: {4}|\t).*$//mg;
	$text =~ s/`[^`\n]*`//g;
	$text =~ s/\Q$_\E//g foreach @conditions;
	my $check = sub {
		my ($figure, $of, $key) = @_;
		return if $of eq '' && !$key && $figure !~ /\./;
		my $decimals = $figure =~ /\.(\d+)/ ? length($1) : 0;
		my $is = $key && $results->{$key};
		my $value = $is && sprintf("%.${decimals}f", $is->{value});
		if (!$key) { push @wrong, "$figure $of has no key" }
		elsif (!$is) { push @wrong, "$figure $of: nobody measured $key" }
		elsif ($figure =~ s/,//gr ne $value) { push @wrong, "$figure $of: $key is $value" }
		elsif ($of ne $is->{unit}) { push @wrong, "$figure $of: $key is in $is->{unit}" }
		else { $right++ }
	};
	my $number = qr/(?<![\w.,-])(\d[\d,]*(?:\.\d+)?)\b/;
	$text =~ s{$number ?((?:$unit)(?![\w-]))?\s*(?:<!-- ([\w.]+) -->)?}
		{$check->($1, $2 // '', $3); ''}ge;
	push @wrong, "$1 is behind no figure" while $text =~ /<!-- ([\w.]+) -->/g;
	return ($right, join("\n", @wrong));
}

# compare finds what is wrong with each of these but the first.
my $sample = results_of("| key | figure | unit |\n| a.b | 3.096 | × |\n| a.wal | 41234 | B |\n");
my @samples = (
	[ '3.1 × <!-- a.b --> as fast, `12 MB`, 41,234 B <!-- a.wal -->', '' ],
	[ '3.2 × <!-- a.b -->', '3.2 ×: a.b is 3.1' ],
	[ '3.1 × <!-- a.c -->', '3.1 ×: nobody measured a.c' ],
	[ '3.1 s <!-- a.b -->', '3.1 s: a.b is in ×' ],
	[ 'it takes 3.1 × less', '3.1 × has no key' ],
	[ 'three times <!-- a.b -->', 'a.b is behind no figure' ],
	[ '3.1 <!-- a.b -->', '3.1 : a.b is in ×' ],
	[ 'on average 2.7 rows', '2.7  has no key' ]);
foreach (@samples)
{
	my ($text, $wrong) = @$_;
	is((compare($text, $sample))[1], $wrong, $wrong eq '' ? 'right figures pass' : "found: $wrong");
}
cmp_ok(scalar(@conditions), '<=', $most_conditions, 'few conditions look like figures');

my $top = "$FindBin::Bin/../..";
my $results = results_of(slurp_file("$top/bench/RESULTS.md"));
foreach my $file (glob "$top/bench/RESULTS_*.md")
{
	my ($release) = $file =~ /_(\d+)\.md$/;
	$results = { %$results, %{ results_of(slurp_file($file), "$release.") } };
}
foreach my $document ('README.md', 'docs/performance.md', 'docs/machines.md')
{
	my ($right, $wrong) = compare(slurp_file("$top/$document"), $results);
	is($wrong, '', "$document: each figure was measured");
	cmp_ok($right, '>', 0, "$document: $right figures");
}

# The first page and its plot have figures that stand in the document.
my $document = slurp_file("$top/docs/performance.md");
foreach my $file ('README.md', 'bench/figures/loads.svg')
{
	my @unknown = grep { $document !~ /\| \Q$_\E ×( <!--| \|)/ }
		slurp_file("$top/$file") =~ /([\d.]+) ×/g;
	is(join(' ', @unknown), '', "$file: its figures are those of docs/performance.md");
}

done_testing();
