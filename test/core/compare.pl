# test/core/compare.pl ACCEPTED DIFFS [TEST...]: compares what differs in a run of core's tests with what may.
#
# DIFFS is pg_regress's file of differences, without context (diff -U0).  ACCEPTED has the hunks that may be there, test by
# test and in their order, each with its reason:
#
#	test NAME
#	reason WHY
#	permutation STEPS (of an isolation test)
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
	plan => 'other plans where PostgreSQL asks for btree by name',
	families => 'other plans where PostgreSQL 18 asks whether operators are in the same families: the test adds some to those of btree and hash alone',
	calls => 'fewer calls of a function: CLUSTER sorts by an expression if there is a btree, and so evaluates it',
	order => 'rows in another order, where none is asked for',
	serialization => 'more serialization failures, since a whole index is locked for reading',
	supported => 'an error of core for what mtpower can do',
	ties => 'rows with equal keys in another order, so that LIMIT takes others: PostgreSQL sorts for CLUSTER if there is a btree',
	types => 'the stored type of a name column',
	queued => 'fewer entries found by a scan: those of its own statement, which it cannot see, are not in the index yet',
	provider => 'another error where core has no provider of security labels');
my $plan_words = join('|', qw(Scan Join Loop Sort Key: Cond: Filter: Aggregate Gather Workers Append Result Limit Hash Merge Materialize
	Unique ProjectSet Output: Memoize QUERY Update Delete Insert LockRows SetOp WindowAgg InitPlan SubPlan), 'rows\)', '-{5,}');

my %outputs;					# test -> [what is expected, what came], as lines

# A line without what is another number whenever the extension has one object more: OIDs.
sub fixed
{
	my ($test, $line) = @_;
	$line =~ s/^([-+] *)\d{5,}(?= \|)/$1OID/ if $test eq 'opr_sanity';
	return $line;
}

# The lines of a test's output, the first one is number 1.
sub read_output
{
	my ($file) = @_;
	open(my $in, '<', $file) or die "cannot read $file: $!\n";
	my @lines = <$in>;
	chomp @lines;
	return ('', @lines);
}

# The permutation that a line of an isolation test's output belongs to; undef of another test's.
sub permutation
{
	my ($lines, $at) = @_;
	$at = $#$lines if $at > $#$lines;
	for (; $at > 0; $at--) { return $1 if $lines->[$at] =~ /^starting permutation: (.*)/; }
	return undef;
}

# name -> list of hunks, each {test, text => [lines], permutation, reason}; name -> [what is expected, what came], as lines
sub read_diffs
{
	my ($file) = @_;
	my (%of, $test, $hunk, @order);
	open(my $in, '<', $file) or return ({}, []);
	while (my $line = <$in>)
	{
		chomp $line;
		if ($line =~ m{^diff .* (/\S+) (/\S*?([^/\s]+)\.out)$})
		{
			$test = $3;
			$outputs{$test} = [ [ read_output($1) ], [ read_output($2) ] ];
			push @order, $test;
			$hunk = undef;
		}
		elsif ($line =~ /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/)
		{
			$hunk = { test => $test, text => [], permutation => permutation($outputs{$test}[1], $3), at => [ [ $1, $2 // 1 ], [ $3, $4 // 1 ] ] };
			push @{ $of{$test} }, $hunk;
		}
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
		elsif ($line =~ /^permutation (.*)$/ && $hunk) { $hunk->{permutation} = $1; }
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

# The results of queries, each as its heading and its rows.
sub results
{
	my ($lines) = @_;
	my (@results, $in);
	foreach my $i (1 .. $#$lines)
	{
		if ($lines->[$i] =~ /^-+(\+-+)*$/) { $in = 1; push @results, [ $lines->[ $i - 1 ] ]; }
		elsif ($lines->[$i] =~ /^\(\d+ rows?\)$/) { $in = 0; }
		elsif ($in) { push @{ $results[-1] }, $lines->[$i]; }
	}
	return @results;
}

# Each query's result is the same when sorted, but for plans, and for what $what takes from each row.
sub holds_order
{
	my ($test, $what) = @_;
	my @expected = results($outputs{$test}[0]);
	my @came = results($outputs{$test}[1]);
	return 0 if @expected != @came;
	foreach my $i (0 .. $#expected)
	{
		next if $expected[$i][0] =~ /^ +QUERY PLAN +$/ && $came[$i][0] =~ /^ +QUERY PLAN +$/;
		return 0 if join("\n", sort map { $what->($_) } @{ $expected[$i] }) ne join("\n", sort map { $what->($_) } @{ $came[$i] });
	}
	return 1;
}

# A hunk's lines are all in the output of EXPLAIN.
sub in_plans
{
	my ($hunk) = @_;
	foreach my $side (0, 1)
	{
		my ($first, $n) = @{ $hunk->{at}[$side] };
		my $lines = $outputs{ $hunk->{test} }[$side];
		for (my $i = $first; $i < $first + $n; $i++)
		{
			my $at = $i;
			$at-- while $at > 0 && $lines->[$at] !~ /QUERY PLAN/ && ($at == $i || $lines->[$at] !~ /^\(\d+ rows?\)$|;$/);
			return 0 if $lines->[$at] !~ /QUERY PLAN/;
		}
	}
	return 1;
}

# Serialization failures, by permutation
sub failures
{
	my ($lines) = @_;
	my ($permutation, %of) = ('');
	foreach (@$lines)
	{
		if (/^starting permutation: (.*)/) { $permutation = $1; $of{$permutation} = 0; }
		elsif (/^ERROR:  could not serialize access/) { $of{$permutation}++; }
	}
	return \%of;
}

# There are more of them: in each permutation at least as many as core's.
sub holds_serialization
{
	my ($minus, $plus, $test) = @_;
	return 0 if @$minus || grep { !/^ERROR:  could not serialize access/ } @$plus;
	my ($expected, $came) = map { failures($_) } @{ $outputs{$test} };
	return !grep { !defined $came->{$_} || $came->{$_} < $expected->{$_} } keys %$expected;
}

# The same rows, but for the first column, which numbers them and tells which one of those with equal keys it is.
sub without_number
{
	my ($line) = @_;
	$line =~ s/^ *\d+ \|//;
	return $line;
}

# With one word for another core's lines are ours.
sub same_but_for
{
	my ($minus, $plus, $theirs, $ours) = @_;
	my @theirs = map { s/\b$theirs\b/$ours/gr } @$minus;
	return join("\n", map { with_core_names($_) } @theirs) eq join("\n", map { with_core_names($_) } @$plus);
}

sub holds
{
	my ($reason, @hunks) = @_;
	my ($minus, $plus) = sides(@hunks);
	return holds_names(@hunks) if $reason eq 'names';
	return holds_order($hunks[0]{test}, sub { $_[0] }) if $reason eq 'order';
	return in_plans($hunks[0]) && !grep { !/$plan_words/ } @$minus, @$plus if $reason eq 'plan' || $reason eq 'families';
	return !@$plus && !grep { !/^NOTICE:  / } @$minus if $reason eq 'calls';
	return same_but_for($minus, $plus, 'cstring', 'name') if $reason eq 'types';
	return holds_serialization($minus, $plus, $hunks[0]{test}) if $reason eq 'serialization';
	return holds_order($hunks[0]{test}, \&without_number) if $reason eq 'ties';
	return scalar grep { /^ERROR: / } @$minus if $reason eq 'supported';
	return !grep { !/^ERROR:  no security label providers have been loaded$/ } @$minus if $reason eq 'provider' && grep { /^ERROR: / } @$plus;
	# Of a bitmap scan that finds nothing no blocks are shown.  (A function of the test's own prints the plan in 18.)
	return !grep { !/Bitmap Index Scan|Heap Blocks: |^\(\d+ rows\)$/ } @$minus, @$plus if $reason eq 'queued';
	return 1;
}

sub text
{
	my ($hunk) = @_;
	return join('', map { "$_\n" } (defined $hunk->{permutation} ? "permutation $hunk->{permutation}" : ()), @{ $hunk->{text} });
}

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
		if (@left && text($left[0]) eq text($hunk)) { push @right, { %$hunk, reason => (shift @left)->{reason} }; }
		else
		{
			my ($skip) = grep { text($left[$_]) eq text($hunk) } 0 .. $#left;
			push @wrong, 'not accepted', $hunk unless defined $skip;
			next unless defined $skip;
			push @wrong, map { ('did not come', $_) } grep { !$_->{sometimes} } splice(@left, 0, $skip);
			push @right, { %$hunk, reason => (shift @left)->{reason} };
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
		foreach my $group ($reason eq 'order' || $reason eq 'ties' ? [@of_reason] : map { [$_] } @of_reason)
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
