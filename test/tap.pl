# test/tap.pl RESULT JOBS FILE...: runs TAP tests and writes "passed failed skipped" to the file RESULT, and below it what failed, a line each.
#
# A file that ends early, with a wrong plan or with an error, counts as one failure more than its failed tests when
# those do not explain it.  Exit status 0 only if everything passed or was skipped.
use strict;
use warnings;
use TAP::Harness;

my ($result, $jobs, @files) = @ARGV;
my @reasons;
my %bad;		# by file, the tests that failed

my $harness = TAP::Harness->new({ jobs => $jobs, timer => 1 });
$harness->callback(
	made_parser => sub {
		my ($parser, $job) = @_;
		my $file = $job->[1];
		$parser->callback(
			test => sub {
				push @reasons, "$file: " . $_[0]->explanation if $_[0]->has_skip;
				push @{ $bad{$file} }, $_[0]->number . ' ' . $_[0]->description unless $_[0]->is_ok;
			});
	});
my $sum = $harness->runtests(@files);

my ($failed, $skipped) = (0, scalar @reasons);
my $passed = $sum->passed - $skipped;
my @what;
foreach my $file (@files)
{
	my ($parser) = $sum->parsers($file);
	my @failures = @{ $bad{$file} // [] };
	push @failures, join(', ', 'ended early', $parser->parse_errors) if !@failures && ($parser->has_problems || (!$parser->tests_run && !$parser->skip_all));
	$failed += @failures;
	push @what, map { "$file: $_" } @failures;
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
