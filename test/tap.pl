# test/tap.pl RESULT JOBS FILE...: runs TAP tests and writes "passed failed skipped" to the file RESULT, and below it what failed, and what was said of it.
#
# A file that ends early, with a wrong plan or with an error, counts as one failure more than its failed tests when
# those do not explain it.  Exit status 0 only if everything passed or was skipped.
use strict;
use warnings;
use TAP::Harness;

my $LINES = 15;		# as many of what was said of a failure go to RESULT

my ($result, $jobs, @files) = @ARGV;
my @reasons;
my %bad;		# by file, the numbers and descriptions of the tests that failed

my $harness = TAP::Harness->new({ jobs => $jobs, timer => 1 });
$harness->callback(
	made_parser => sub {
		my ($parser, $job) = @_;
		my $file = $job->[1];
		$parser->callback(
			test => sub {
				push @reasons, "$file: " . $_[0]->explanation if $_[0]->has_skip;
				push @{ $bad{$file} }, [ $_[0]->number, $_[0]->description ] unless $_[0]->is_ok;
			});
	});
my $sum = $harness->runtests(@files);

# What a file said, as PostgreSQL::Test keeps it, without times; nothing of a file that does not use that.
sub log_of
{
	my ($file) = @_;
	my $log = ($ENV{TESTDIR} // '.') . '/tmp_check/log/regress_log_' . $file =~ s{.*/|\.pl$}{}gr;
	open(my $in, '<', $log) or return;
	chomp(my @lines = <$in>);
	return grep { $_ ne '' } map { s/^\[[\d:.]+\]\([\d.]+s\) //r } @lines;
}

# The comments behind a failed test
sub said_of
{
	my ($file, $number) = @_;
	my @lines = log_of($file);
	while (@lines && shift(@lines) !~ /^not ok $number\b/) { }
	my @said;
	while (@lines && $lines[0] =~ /^# / && $lines[0] !~ /^# Running: / && @said < $LINES) { push @said, shift @lines; }
	return @said;
}

sub last_words
{
	my ($file) = @_;
	my @lines = grep { !/^(ok|#) / } log_of($file);
	return map { "# $_" } splice(@lines, @lines > $LINES ? -$LINES : 0);
}

my ($failed, $skipped) = (0, scalar @reasons);
my $passed = $sum->passed - $skipped;
my @what;
foreach my $file (@files)
{
	my ($parser) = $sum->parsers($file);
	my @failures = @{ $bad{$file} // [] };
	$failed += @failures;
	push @what, map { ("$file: $_->[0] $_->[1]", said_of($file, $_->[0])) } @failures;
	next if @failures || !($parser->has_problems || (!$parser->tests_run && !$parser->skip_all));
	$failed++;
	push @what, "$file: " . join(', ', 'ended early', $parser->parse_errors), last_words($file);
}
foreach my $file (@files)
{
	my ($parser) = $sum->parsers($file);
	next unless $parser && $parser->skip_all;
	push @reasons, "$file: " . $parser->skip_all;
	$skipped++;
}
print "skipped: $_\n" foreach @reasons;

open(my $out, '>', $result) or die "cannot write $result: $!";
print $out map { "$_\n" } "$passed $failed $skipped", @what;
close($out);
exit($failed ? 1 : 0);
