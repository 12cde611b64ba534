# What stands in README.md and docs/: tests run their blocks as they are.
package MtpDocs;
use strict;
use warnings;
use Exporter 'import';
use FindBin;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(document blocks block_behind);

# The text of a document: its path below the top
sub document { return slurp_file("$FindBin::Bin/../../$_[0]"); }

# A document's fenced blocks, as [language, text, heading above it]
sub blocks
{
	my ($text) = @_;
	my @blocks;
	my $heading = '';
	while ($text =~ /^(?:#+ ([^\n]*)|```(\w*)\n(.*?)^```)$/msg)
	{
		if (defined $1) { $heading = $1; }
		else { push @blocks, [ $2, $3, $heading ]; }
	}
	return @blocks;
}

# The first block behind a heading, or the one of that number
sub block_behind
{
	my ($text, $heading, $number) = @_;
	$text =~ /^\Q$heading\E\n(.*)/ms or die "no heading \"$heading\"";
	return (blocks($1))[ $number // 0 ][1];
}

1;
