# test/core/compare.pl ACCEPTED DIFFS [TEST...]: compares what differs in a run of core's tests with what may.
#
# DIFFS is pg_regress's file of differences, without context (diff -U0).  ACCEPTED has the hunks that may be there, test by
# test and in their order, each with its reason:
#
#	test NAME
#	reason WHY
#	-what core's btree, hash or heap prints
#	+what is printed here
#
# Prints a line for each reason, each hunk that is not in ACCEPTED, each that is and did not come, and each whose reason does not
# hold: what a reason says is checked as far as text can tell.  Of the tests named, which the server's version runs in another way,
# not all of it need come.  The last line is "N tests differ, M not as accepted", and the
# exit status 0 if that is none.  With --propose, prints what ACCEPTED could be, reasons guessed, to be read by somebody.
use strict;
use warnings;

my %reasons = (
	names => 'names of access methods, and lists of what there is of each',
	plan => 'other plans where PostgreSQL 15 asks for btree by name',
	order => 'rows in another order, where none is asked for',
	serialization => 'more serialization failures, since a whole index is locked for reading',
	supported => 'an error of core for what mtpower can do',
	ties => 'other ones of the rows with equal keys, where PostgreSQL 15 sorts for CLUSTER if there is a btree',
	length => 'an index entry over 2,640 bytes (README, Limits)',
	types => 'the stored type of a name column',
	duplicates => 'plans and sizes: equal keys are not stored together (README, Limits)');
my $plan_words = join('|', qw(Scan Join Loop Sort Key: Cond: Filter: Aggregate Gather Workers Append Result Limit Hash Merge Materialize
	Unique ProjectSet Output: Memoize QUERY Update Delete Insert LockRows SetOp WindowAgg InitPlan SubPlan), 'rows\)', '-{5,}');

# A line without what is another number whenever the extension has one object more: OIDs.
sub fixed
{
	my ($test, $line) = @_;
	$line =~ s/^([-+] *)\d{5,}(?= \|)/$1OID/ if $test eq 'opr_sanity';
	return $line;
}

# name -> list of hunks, each {test, text => [lines], reason}
sub read_diffs
{
	my ($file) = @_;
	my (%of, $test, $hunk, @order);
	open(my $in, '<', $file) or return ({}, []);
	while (my $line = <$in>)
	{
		chomp $line;
		if ($line =~ m{^diff .*/(\S+?)\.out$}) { $test = $1; push @order, $test; $hunk = undef; }
		elsif ($line =~ /^@@ /) { $hunk = { test => $test, text => [] }; push @{ $of{$test} }, $hunk; }
		elsif ($hunk && $line =~ /^[-+\\]/) { push @{ $hunk->{text} }, fixed($test, $line); }
	}
	return (\%of, \@order);
}

sub read_accepted
{
	my ($file) = @_;
	my (%of, $test, $hunk);
	open(my $in, '<', $file) or die "cannot read $file: $!\n";
	while (my $line = <$in>)
	{
		chomp $line;
		if ($line =~ /^test (\S+)$/) { $test = $1; $hunk = undef; }
		elsif ($line =~ /^reason (\S+)( sometimes)?$/)
		{
			die "$file:$.: there is no reason \"$1\"\n" unless $reasons{$1};
			$hunk = { test => $test, text => [], reason => $1, sometimes => !!$2 };
			push @{ $of{$test} }, $hunk;
		}
		elsif ($line =~ /^[-+\\]/ && $hunk) { push @{ $hunk->{text} }, $line; }
		elsif ($line ne '' && $line !~ /^#/) { die "$file:$.: what is \"$line\"?\n"; }
	}
	return \%of;
}

# A line as it would be with core's access methods, or '' if it is only ruling or a count of rows.
sub with_core_names
{
	my ($line) = @_;
	$line =~ s/\bmtpower_blink\b/btree/g;
	$line =~ s/\bmtpower_hash\b/hash/g;
	return '' if $line =~ /^[-+ |]*$/ || $line =~ /^ *\(\d+ rows?\)$/;
	$line =~ s/\s+/ /g;
	$line =~ s/ $//;
	return $line;
}

sub sides
{
	my (@hunks) = @_;
	my (@minus, @plus);
	foreach (map { @{ $_->{text} } } @hunks)
	{
		push @minus, $1 if /^-(.*)/;
		push @plus, $1 if /^\+(.*)/;
	}
	return (\@minus, \@plus);
}

# Every line of core's is there under other names; what is more speaks of mtpower.
sub holds_names
{
	my ($minus, $plus) = sides(@_);
	my %more;
	foreach (@$plus)
	{
		my $line = with_core_names($_);
		push @{ $more{$line} }, $_ if $line ne '';
	}
	foreach (grep { $_ ne '' } map { with_core_names($_) } @$minus)
	{
		return 0 unless $more{$_} && shift @{ $more{$_} };
	}
	return !grep { !/mtpower/ && !/^ *OID \| +\d \| \S+$/ } map { @$_ } values %more;
}

sub holds
{
	my ($reason, @hunks) = @_;
	my ($minus, $plus) = sides(@hunks);
	return holds_names(@hunks) if $reason eq 'names';
	return join("\n", sort @$minus) eq join("\n", sort @$plus) if $reason eq 'order';
	return !grep { !/$plan_words/ } @$minus, @$plus if $reason eq 'plan';
	return !@$minus && !grep { !/^ERROR:  could not serialize access/ } @$plus if $reason eq 'serialization';
	return scalar grep { /^ERROR: / } @$minus if $reason eq 'supported';
	return scalar grep { /^ERROR:  index row size \d+ exceeds mtpower_blink maximum/ } @$plus if $reason eq 'length';
	return 1;
}

sub text { return join('', map { "$_\n" } @{ $_[0]->{text} }) }

sub propose
{
	my ($of, $order) = @_;
	foreach my $test (@$order)
	{
		print "test $test\n";
		foreach my $hunk (@{ $of->{$test} })
		{
			my ($guess) = grep { holds($_, $hunk) } qw(names serialization plan);
			print 'reason ', $guess // 'order', "\n", text($hunk);
		}
	}
}

# The hunks of one test beside those accepted: the lists must be equal but for those that come sometimes only.
sub compare
{
	my ($found, $accepted) = @_;
	my (@wrong, @right);
	my @left = @$accepted;
	foreach my $hunk (@$found)
	{
		shift @left while @left && $left[0]{sometimes} && text($left[0]) ne text($hunk);
		if (@left && text($left[0]) eq text($hunk)) { push @right, shift @left; }
		else
		{
			my ($skip) = grep { text($left[$_]) eq text($hunk) } 0 .. $#left;
			push @wrong, 'not accepted', $hunk unless defined $skip;
			next unless defined $skip;
			push @wrong, map { ('did not come', $_) } grep { !$_->{sometimes} } splice(@left, 0, $skip);
			push @right, shift @left;
		}
	}
	push @wrong, map { ('did not come', $_) } grep { !$_->{sometimes} } @left;
	return (\@wrong, \@right);
}

my $propose = @ARGV && $ARGV[0] eq '--propose' && shift @ARGV;
die "usage: compare.pl [--propose] ACCEPTED DIFFS [TEST...]\n" unless @ARGV >= 2;
my ($accepted_file, $diffs, @other) = @ARGV;
my ($of, $order) = read_diffs($diffs);
if ($propose) { propose($of, $order); exit 0; }

my $accepted = read_accepted($accepted_file);
foreach my $test (@other) { $_->{sometimes} = 1 foreach @{ $accepted->{$test} // [] }; }
my (%count, %bad);
foreach my $test (sort keys %{ { %$of, %$accepted } })
{
	my ($wrong, $right) = compare($of->{$test} // [], $accepted->{$test} // []);
	while (my ($what, $hunk) = splice(@$wrong, 0, 2))
	{
		$bad{$test} = 1;
		print "$test: $what:\n", text($hunk);
	}
	$count{ $_->{reason} }++ foreach @$right;
	foreach my $reason (keys %{ { map { $_->{reason} => 1 } @$right } })
	{
		my @of_reason = grep { $_->{reason} eq $reason } @$right;
		foreach my $group ($reason eq 'order' ? [@of_reason] : map { [$_] } @of_reason)
		{
			next if holds($reason, @$group);
			$bad{$test} = 1;
			print "$test: not for that reason ($reason):\n", map { text($_) } @$group;
		}
	}
}
printf "%4d hunks: %s\n", $count{$_}, $reasons{$_} foreach sort keys %count;
printf "%d tests differ, %d not as accepted\n", scalar(keys %$of), scalar(keys %bad);
exit(%bad ? 1 : 0);
