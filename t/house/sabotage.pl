# The sabotages of test/sabotage still apply and compile; patches that do neither are refused.
# (Whether tests notice them is for test/sabotage.sh to tell, at length.)
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $script = "$top/test/sabotage.sh";
my @names = map { m|([^/]*)\.patch$| } glob("$top/test/sabotage/*.patch");
my $count = @names;

cmp_ok($count, '>=', 16, "there are $count sabotages");
command_like([ $script, '--check' ], qr/^$count patches, all apply and compile$/m, 'they apply and compile, and their tests are there');

# ---------- refused ----------

my $dir = PostgreSQL::Test::Utils::tempdir;

sub refused
{
	my ($what, $args, $like) = @_;
	local $ENV{OBJECTS} = 1;
	my ($out, $err);
	my $ran = IPC::Run::run([ $script, @$args ], '>', \$out, '2>', \$err);

	is($? >> 8, 2, "$what: status 2");
	like("$out$err", $like, "$what: it says so");
	return;
}

# A change of one line of a file of the source; $line is what it is said to be.
sub patch
{
	my ($name, $line, $instead) = @_;

	append_to_file("$dir/$name.patch", "--- a/src/core/inject.c\n+++ b/src/core/inject.c\n@@ -1,4 +1,4 @@\n /*\n  * stop.c\n- *$line\n+$instead\n  */\n");
	return "$dir/$name.patch";
}

my $line = "\t  Stop points for tests (stop.h).";
refused('a patch of another source', [ patch('other', 'something else', ' *'), 'tap/page_unit' ], qr/other\.patch does not apply/);
refused('no C', [ patch('no_c', $line, ' */ no C /*'), 'tap/page_unit' ], qr/no_c\.patch does not compile/);
refused('no such patch', ["$dir/none.patch"], qr/"\Q$dir\E\/none\.patch" is no sabotage, no patch file and no test/);
refused('no such test', [ patch('fine', $line, ' *'), 'tap/none' ], qr/"tap\/none" is no sabotage, no patch file and no test/);

done_testing();
