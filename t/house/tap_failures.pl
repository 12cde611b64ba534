# What test/tap.pl tells of tests that fail: which they are, and what was said of each; of one that
# ends early, its last words.  A variant of a test has a name and a directory of its own.
use strict;
use warnings;
use File::Path qw(make_path);
use FindBin;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir;
my %tests = (
	right => q{pass('first');},
	wrong => q{pass('first'); is("WARNING: one\nWARNING: two", '', 'the log is clean'); note 'beside it'; pass('third');},
	early => q{pass('first'); warn "before\n"; die "its reason\n";},
	either => q{isnt($ENV{MTP_VARIANT}, 'hash', $ENV{TESTDIR});});
make_path("$dir/t/some");
append_to_file("$dir/t/some/$_.pl", "use PostgreSQL::Test::Utils;\nuse Test::More;\n$tests{$_}\ndone_testing();\n")
  foreach keys %tests;

# told_of NAME...: the exit status of tap.pl, and what it writes about these tests
sub told_of
{
	local $ENV{TESTDIR} = $dir;
	local $ENV{PERL5OPT};
	my $out;
	IPC::Run::run(
		[ 'perl', "$FindBin::Bin/../../test/tap.pl", "$dir/result", 1, map { "$dir/t/some/" . s/(:|$)/.pl$1/r } @_ ],
		'>&', \$out);
	my $status = $? >> 8;
	return "$status " . slurp_file("$dir/result");
}

is(told_of('right'), "0 1 0 0\n", 'nothing of what passes');
like(told_of('right', 'wrong'),
	qr{\A1 3 1 0\nsome/wrong: 2 - the log is clean\n#   Failed test .*\n#   at .*\n# +got: 'WARNING: one\n# WARNING: two'\n# +expected: ''\n(?!.*third)},
	'a failed test, with what was got');
like(told_of('early'), qr{\A1 1 1 0\nsome/early: ended early.*\n(# .*\n)*# before\n# its reason\n}, 'an early end, with its reason');
like(told_of('either:blink', 'either:hash'), qr{\A1 1 1 0\nsome/either:hash: 1 - \Q$dir\E/some/either-hash\n}, 'which variant failed');

done_testing();
