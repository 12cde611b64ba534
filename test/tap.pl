# test/tap.pl RESULT JOBS FILE...: runs TAP tests and writes "passed failed skipped" to the file RESULT.
#
# A file that ends early, with a wrong plan or with an error, counts as one failure more than its failed tests when
# those do not explain it.  Exit status 0 only if everything passed or was skipped.
use strict;
use warnings;
use TAP::Harness;

my ($result, $jobs, @files) = @ARGV;
my @reasons;

my $harness = TAP::Harness->new({ jobs => $jobs, timer => 1 });
$harness->callback(
	made_parser => sub {
		my ($parser, $job) = @_;
		my $file = $job->[1];
		$parser->callback(
			test => sub {
				push @reasons, "$file: " . $_[0]->explanation if $_[0]->has_skip;
			});
	});
my $sum = $harness->runtests(@files);

my ($failed, $skipped) = (0, scalar @reasons);
my $passed = $sum->passed - $skipped;
foreach my $parser ($sum->parsers)
{
	my $bad = $parser->failed;
	$bad = 1 if !$bad && ($parser->has_problems || (!$parser->tests_run && !$parser->skip_all));
	$failed += $bad;
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
print $out "$passed $failed $skipped\n";
close($out);
exit($failed ? 1 : 0);
