# The protocols of the buffer's frames and hazard slots under a weak memory model, in all orders (test/model/README.md): the machine knows what AArch64 may do,
# every scenario is right, and each barrier, look and lock that is taken out makes one wrong, for its own reason.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $dir = PostgreSQL::Test::Utils::tempdir;
my $model = "$dir/model";

sub compile
{
	my ($program, @sources) = @_;

	command_ok([ $ENV{CC} || 'gcc', qw(-std=gnu11 -O2 -Wall -Wextra -Werror -Wno-sign-compare -Wno-missing-field-initializers),
		(map { "$top/test/model/$_.c" } qw(program machine search), @sources), '-o', "$dir/$program" ], "$program: compiles");
}

# What the model says of a scenario, without how many states it has
sub outcome
{
	my ($out, $err) = run_command([ $model, @_ ]);

	return $out =~ /^(.*) \((\d+) states, \d+ ends\)$/ ? $1 : "nothing: $out$err";
}

compile('litmus', 'litmus');
compile('model', qw(model frames pairs slots));

command_like([ "$dir/litmus" ], qr/^ok, \d+ programs$/, 'the machine does what AArch64 may do in programs of which that is known');

my (@scenarios, @removals);
foreach (split /\n/, (run_command([ $model, 'list' ]))[0])
{
	my ($what, @rest) = split /\t/;
	push @scenarios, @rest if $what eq 'scenario';
	push @removals, {name => $rest[0], scenario => $rest[1], wrong => $rest[2], what => $rest[3]} if $what eq 'removal';
}

# The model and the code have the same steps; and all that the model can leave out is left out below.
my $text = join '', map { slurp_file("$top/test/model/$_.c") } qw(frames pairs slots);
my $code = join '', map { slurp_file("$top/src/buffer/$_") } qw(frame.h frame.c pair.c);
my %known = map { ($_->{name} => 1) } @removals;
my $slots = slurp_file("$top/src/buffer/slot.c");
my @unnamed = grep { $_ ne 'name' && $text !~ /"[^"\n]*\b\Q$_\E\b[^"\n]*"/ } "$code$slots" =~ /MTP_FRAME_STEP\((\w+)\)/g;
is("@unnamed", '', 'each step that is marked in frame.h, frame.c, pair.c and slot.c is one of the model');
is(join(' ', grep { !$known{$_} } $text =~ /with\("(\w+)"\)/g), '', 'all that the model can leave out is in its list');
is(scalar(() = $code =~ /pg_\w+_barrier\(\)/g), scalar(grep { /^(find|still|take|let_go|purge|pair|fill).*barrier$/ } keys %known), 'each barrier of frame.h, frame.c and pair.c is in the list');
# Before a slot is set and before it is cleared stands the same one.
is(scalar(() = $slots =~ /pg_\w+_barrier\(\)/g), 1 + scalar(grep { $_->{name} =~ /^slot_(release|.*barrier)$/ } @removals), 'and each of slot.c');

is(outcome($_), 'right', "$_: right") foreach @scenarios;

# In some orders more may be wrong: what is looked for is what the thing is there for.
foreach (@removals)
{
	is(outcome($_->{scenario}, '-without', $_->{name}, $_->{wrong} ? ('-expect', $_->{wrong}) : ()),
		$_->{wrong} ? "wrong: $_->{wrong}" : 'right', "$_->{scenario} without $_->{what}: " . ($_->{wrong} || 'right'));
}

# What is not needed to be right is not needed altogether.
my @idle = map { ('-without', $_->{name}) } grep { $_->{wrong} eq '' && $_->{scenario} eq 'purge' } @removals;
is(outcome('purge', @idle, '-without', 'take_lock'), 'right', 'purge without all of these');

# What index pages have would not do for directories: who fills one makes its frame odd without the lock, who makes it stale finds it odd, and leaves it.
is(outcome(qw(rebuilt -without fill_lock -without pair_lock -expect), 'a reader accepted a page older than what he knew of'), 'wrong: a reader accepted a page older than what he knew of',
	'rebuilt without the lock on both sides: an old page');

# On x86-64 the barriers of frames are for the compiler alone; that of a hazard slot is not.
my @barriers = map { ('-without', $_) } grep { /^(find|still|take|let_go).*barrier$/ } sort keys %known;
my @pairs = qw(-without pair_write_barrier);
my @fills = (@pairs, qw(-without fill_write_barrier));
is(outcome($_->[0], '-tso', @barriers, @$_[1 .. $#$_]), 'right', "$_->[0] with total store order and without the barriers of frames: right")
	foreach ['evict'], [ 'core', @pairs ], ['split'], ['twice'], ['contended'], [ 'rebuilt', @fills ], [ 'reused', @fills ];
like(outcome('scans', '-tso', '-without', 'slot_reader_barrier'), qr/^wrong: a reader acted/, "scans with total store order and without a slot's full barrier: wrong");

done_testing();
