# test/tap.pl RESULT JOBS TEST...: runs TAP tests, JOBS at a time, and writes "passed failed
# skipped" to the file RESULT, and below it what failed, and what was said of it.
#
# A TEST is a file, or FILE:VARIANT, whose MTP_VARIANT is that variant.  t/batch/faults.pl:hash
# is called batch/faults:hash, and has its servers and logs in TESTDIR/batch/faults-hash.
#
# A file that ends early, with a wrong plan or with an error, counts as one failure more than its
# failed tests when those do not explain it.  The exit status is 0 if all passed or was skipped.
use strict;
use warnings;
use File::Path qw(make_path);
use TAP::Harness;

my $LINES = 15;		# as many of what was said of a failure go to RESULT

my ($result, $jobs, @tests) = @ARGV;
my $base = $ENV{TESTDIR} // '.';
my @reasons;
my %bad;		# by name, the numbers and descriptions of the tests that failed

sub name_of { return $_[0] =~ s{^(?:.*/)?t/|\.pl\b}{}gr; }
sub dir_of { return "$base/" . name_of($_[0]) =~ s{^/}{}r =~ s{:}{-}r; }

# The command that runs a test
sub command
{
	my (undef, $test) = @_;
	my ($file, $variant) = split(/:/, $test);
	my $dir = dir_of($test);
	make_path($dir);
	my $data = "$dir/tmp_check";	# where PostgreSQL::Test has it since version 16, if told so
	return [ 'env', "TESTDIR=$dir", "TESTDATADIR=$data", "TESTLOGDIR=$data/log", $variant ? "MTP_VARIANT=$variant" : (), $^X, $file ];
}

my $harness = TAP::Harness->new({ jobs => $jobs, timer => 1, exec => \&command });
$harness->callback(
	made_parser => sub {
		my ($parser, $job) = @_;
		my $name = $job->[1];
		$parser->callback(
			test => sub {
				push @reasons, "$name: " . $_[0]->explanation if $_[0]->has_skip;
				push @{ $bad{$name} }, [ $_[0]->number, $_[0]->description ] unless $_[0]->is_ok;
			});
	});
my $sum = $harness->runtests(map { [ $_, name_of($_) ] } @tests);

# What a test said, as PostgreSQL::Test keeps it, without times; nothing of one that has no log.
sub log_of
{
	my ($test) = @_;
	my ($log) = glob(dir_of($test) . '/tmp_check/log/regress_log_*');
	open(my $in, '<', $log // '') or return;
	chomp(my @lines = <$in>);
	return grep { $_ ne '' } map { s/^\[[\d:.]+\]\([\d.]+s\) //r } @lines;
}

# The comments behind a failed assertion
sub said_of
{
	my ($test, $number) = @_;
	my @lines = log_of($test);
	while (@lines && shift(@lines) !~ /^not ok $number\b/) { }
	my @said;
	while (@lines && $lines[0] =~ /^# / && $lines[0] !~ /^# Running: / && @said < $LINES)
	{
		push @said, shift @lines;
	}
	return @said;
}

sub last_words
{
	my ($test) = @_;
	my @lines = grep { !/^(ok|#) / } log_of($test);
	return map { "# $_" } splice(@lines, @lines > $LINES ? -$LINES : 0);
}

my ($failed, $skipped) = (0, scalar @reasons);
my $passed = $sum->passed - $skipped;
my @what;
foreach my $test (@tests)
{
	my $name = name_of($test);
	my ($parser) = $sum->parsers($name);
	my @failures = @{ $bad{$name} // [] };
	$failed += @failures;
	push @what, map { ("$name: $_->[0] $_->[1]", said_of($test, $_->[0])) } @failures;
	if ($parser->skip_all && !$parser->has_problems)
	{
		push @reasons, "$name: " . $parser->skip_all;
		$skipped++;
	}
	elsif (!@failures && ($parser->has_problems || !$parser->tests_run))
	{
		$failed++;
		push @what, "$name: " . join(', ', 'ended early', $parser->parse_errors), last_words($test);
	}
}
print "skipped: $_\n" foreach @reasons;

open(my $out, '>', $result) or die "cannot write $result: $!";
print $out map { "$_\n" } "$passed $failed $skipped", @what;
close($out);
exit($failed ? 1 : 0);
