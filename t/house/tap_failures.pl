# What test/tap.pl tells of tests that fail: which they are, and what was said of each; of one that ends early, its last words.
use strict;
use warnings;
use FindBin;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir;
my $head = "use PostgreSQL::Test::Utils;\nuse Test::More;\n";
append_to_file("$dir/wrong.pl", $head . q{pass('first'); is("WARNING: one\nWARNING: two", '', 'the log is clean'); note 'beside it'; pass('third'); done_testing();});
append_to_file("$dir/early.pl", $head . q{pass('first'); warn "before\n"; die "its reason\n";});
append_to_file("$dir/right.pl", $head . q{pass('first'); done_testing();});

# told_of NAME...: the exit status of tap.pl, and what it writes about these files
sub told_of
{
	local $ENV{TESTDIR} = $dir;
	local $ENV{PERL5OPT};
	my $out;
	IPC::Run::run([ 'perl', "$FindBin::Bin/../tap.pl", "$dir/result", 1, map { "$dir/$_.pl" } @_ ], '>&', \$out);
	my $status = $? >> 8;
	return "$status " . slurp_file("$dir/result") =~ s{\Q$dir\E/}{}gr;
}

is(told_of('right'), "0 1 0 0\n", 'nothing of what passes');
like(told_of('right', 'wrong'), qr/\A1 3 1 0\nwrong\.pl: 2 - the log is clean\n#   Failed test .*\n#   at .*\n# +got: 'WARNING: one\n# WARNING: two'\n# +expected: ''\n(?!.*third)/,
	'a failed test, with what was got');
like(told_of('early'), qr/\A1 1 1 0\nearly\.pl: ended early.*\n(# .*\n)*# before\n# its reason\n/, 'an early end, with its reason');

done_testing();
