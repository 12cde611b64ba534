# test/core/plans.pl DIFFS DIR: takes directory scans out of what differs in a run of core's tests.
#
# DIFFS is pg_regress's file of differences.  Of each test in it that has plans with directory scans a copy of its output goes to DIR, in which they are what core has:
# a directory scan reads as a sequential one, without the lines that it has more.  A plan that still is another one (where pages have directories the scan costs less, and
# no row is removed by its filter that a directory has not named) reads as core's, if as many plans are there.  What tests say of their own plans goes as well.  Prints the
# differences that are left, as DIFFS has them; the last line, on standard error, says how many plans there were.
use strict;
use warnings;

die "usage: plans.pl DIFFS DIR\n" unless @ARGV == 2;
my ($diffs, $dir) = @ARGV;
my ($same, $other) = (0, 0);

sub lines
{
	my ($file) = @_;
	open(my $in, '<', $file) or die "cannot read $file: $!\n";
	my @lines = <$in>;
	chomp @lines;
	return @lines;
}

# The output in parts: lines, and results of one column, which plans are among: {heading, rows}.
sub parts
{
	my (@lines) = @_;
	my @parts;
	for (my $i = 0; $i < @lines; $i++)
	{
		my $end = $i + 2;
		if ($i + 1 < @lines && $lines[ $i + 1 ] =~ /^-+$/)
		{
			$end++ while $end < @lines && $lines[$end] !~ /^\(\d+ rows?\)$/;
			if ($end < @lines)
			{
				push @parts, { heading => $lines[$i] =~ s/^\s+|\s+$//gr, rows => [ @lines[ $i + 2 .. $end - 1 ] ], lines => [ @lines[ $i .. $end ] ] };
				$i = $end;
				next;
			}
		}
		push @parts, $lines[$i];
	}
	return @parts;
}

sub is_plan { my ($part) = @_; return ref $part && grep { /^\s*(?:->  )?(?:\S+ on |.*\bScan\b|Result\b|Aggregate\b|Limit\b|Sort\b|Gather\b|.*\bJoin\b|Nested Loop\b|Append\b|Hash\b)/ } @{ $part->{rows} }; }

# A plan's lines with sequential scans in the place of directory scans
sub as_sequential
{
	my (@rows) = @_;
	return map { s/Custom Scan \(directory scan\)/Seq Scan/gr } grep { !/^\s*(?:Directory: \S|Pages: \d+ by directory, \d+ skipped, \d+ scanned$)/ } @rows;
}

# A test's output, as it would be without directory scans; undef if it has none.
sub without
{
	my ($expected, $result) = @_;
	my @core = grep { is_plan($_) } parts(lines($expected));
	my @parts = parts(lines($result));
	my @plans = grep { is_plan($_) } @parts;
	my @out;
	my $any = 0;

	foreach my $part (@parts)
	{
		if (!ref $part)
		{
			# The tests of BRIN look for "Seq Scan" in plans.
			my $told = $part =~ /^WARNING:  did not get seqscan plan for /;
			$any ||= $told;
			push @out, $part unless $told;
			next;
		}
		my $core = is_plan($part) ? shift @core : undef;
		if (!grep { /\(directory scan\)/ } @{ $part->{rows} }) { push @out, @{ $part->{lines} }; next; }
		$any = 1;
		my $as_core = defined $core && $core->{heading} eq $part->{heading};
		my $equal = $as_core && join("\n", as_sequential(@{ $part->{rows} })) eq join("\n", @{ $core->{rows} });
		$equal ? $same++ : $other++;
		push @out, $as_core && ($equal || @plans == grep { is_plan($_) } parts(lines($expected))) ? @{ $core->{lines} } : @{ $part->{lines} };
	}
	return $any ? \@out : undef;
}

my ($copy, @kept);
if (open(my $in, '<', $diffs))
{
	while (my $line = <$in>)
	{
		if ($line =~ m{^diff .* (/\S+) (/\S*?([^/\s]+)\.out)$})
		{
			my ($expected, $result, $test) = ($1, $2, $3);
			my $out = without($expected, $result);
			$copy = undef;
			if ($out)
			{
				$copy = "$dir/$test.out";
				open(my $to, '>', $copy) or die "cannot write $copy: $!\n";
				print $to map { "$_\n" } @$out;
				close($to);
				my $left = `diff -w -U0 $expected $copy`;
				push @kept, "diff -w -U0 $expected $copy\n", $left if $left ne '';
				next;
			}
		}
		push @kept, $line unless defined $copy;
	}
}
print @kept;
print STDERR "$same plans have directory scans for sequential ones, $other are others with directory scans\n";
