# A pool file may be another server's, of another time, damaged, in use, or no pool file at all.
# The server believes nothing of such a file, does not write to a file of another kind, and
# starts. Only a setting that cannot be right keeps it from starting.
use strict;
use warnings;
use Fcntl qw(:flock);
use File::Copy;
use MtpPmem;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'mtpower was built without libpmem' if !have_libpmem();
my $dir = home_dir(1) or plan skip_all => 'there is no tmpfs to write to';
my $file = "$dir/$$.frames";
my $node = home_server('main', $file);
my ($headers, $images) = (4096, 1024 * 1024);
my $per_slab = 512;			# headers of a slab
sub sql { return $node->safe_psql('postgres', $_[0]); }

# edit OFFSET, BYTES: in the file
sub edit
{
	my ($at, $bytes) = @_;
	open(my $f, '+<:raw', $file) or die $!;
	seek($f, $at, 0);
	print $f $bytes;
	close $f;
	return;
}

sub bytes
{
	my ($at, $n) = @_;
	open(my $f, '<:raw', $file) or die $!;
	seek($f, $at, 0);
	read($f, my $bytes, $n);
	return $bytes;
}

sub flip { my ($at) = @_; edit($at, bytes($at, 1) ^ "\x10"); return; }

# The numbers of the frames that have headers, and their kinds
sub frames
{
	my @found;
	my $all = bytes($headers, 4 * $per_slab * 64);
	for my $frame (0 .. 4 * $per_slab - 1)
	{
		my ($magic, $kind) = (unpack('L', substr($all, $frame * 64, 4)), unpack('C', substr($all, $frame * 64 + 44, 1)));
		push(@found, [ $frame, $kind ]) if $magic != 0;
	}
	return @found;
}

# stopped, changed, started: what the log says, and the answers
sub after
{
	my ($what, $log, $change) = @_;
	$node->stop;
	said($node);
	$change->();
	$node->start;
	like(said($node), $log, "$what: is said");
	is(sql('SELECT wrong()'), '', "$what: right answers");
	sql('SELECT probes(3000, 7)');
	return;
}

$node->start;
loaded($node);

# ---------- the settings ----------

$node->stop;
foreach my $wrong ([ 'frames', qr/FATAL:  "mtpower.pmem_path" is not an absolute path: "frames"/ ],
	[ "$dir/none/frames", qr/FATAL:  could not open file "\Q$dir\E\/none\/frames": No such file or directory\n.*HINT:  "mtpower.pmem_path" names a file/ ],
	[ $dir, qr/FATAL:  could not open file "\Q$dir\E": Is a directory/ ],
	[ '/dev/null', qr/FATAL:  "\/dev\/null" is not a regular file/ ])
{
	my ($path, $message) = @$wrong;
	$node->adjust_conf('postgresql.conf', 'mtpower.pmem_path', "'$path'");
	is($node->start(fail_ok => 1), 0, "mtpower.pmem_path = '$path': the server does not start");
	like(said($node), $message, 'and says why');
}
$node->adjust_conf('postgresql.conf', 'mtpower.pmem_path', "'$file'");
$node->start;
like(said($node), qr/took [1-9]\d* of/, 'none of that did any harm');
sql('SELECT probes(3000, 7)');

# ---------- another size, another layout ----------

my $other = qr/file "\Q$file\E" has another size or layout, and is emptied\n.*has no frames/s;
after('truncated', $other, sub { truncate($file, 3 * 1024 * 1024) });
after('truncated to a byte', qr/file "\Q$file\E": it has been made by something else/, sub { truncate($file, 1) });
after('gone', qr/has no frames: it is new/, sub { unlink $file });
after('empty', qr/has no frames: it is new/, sub { truncate($file, 0) });
after('longer', $other, sub { edit(-s $file, 'x' x 5000) });
after('another layout', $other, sub { edit(8, pack('L', 77)) });
after('mtpower.pmem_size', qr/$other.*/s, sub { $node->append_conf('postgresql.conf', 'mtpower.pmem_size = 6MB') });
is(sql(q{SELECT sum(bytes) FROM mtpower.stat_buffer}), 6 * 1024 * 1024, 'mtpower.pmem_size is the size');
after('mtpower.pmem_size is 0 again', $other, sub { $node->append_conf('postgresql.conf', 'mtpower.pmem_size = 0') });
after('nothing', qr/took ([1-9]\d*) of \1 frames over/, sub { });

# More than there is
$node->stop;
$node->append_conf('postgresql.conf', 'mtpower.pmem_size = 1TB');
$node->start;
like(said($node), qr/WARNING:  mtpower does not use file "\Q$file\E": .*\n.*DETAIL:  Frames live in shared memory/, 'no room: is said');
is(sql('SELECT wrong()'), '', 'no room: right answers');
is(sql(q{SELECT sum(bytes) FROM mtpower.stat_buffer}), 4 * 1024 * 1024, 'no room: mtpower.buffer_size is the size');
$node->stop;
$node->append_conf('postgresql.conf', 'mtpower.pmem_size = 0');
unlink $file;
$node->start;
sql('SELECT probes(3000, 7)');

# A disk: whoever wrote to the file might wait for the kernel, with a page of the database locked.
SKIP:
{
	my $disk = home_dir(0) or skip 'there is no directory but on tmpfs', 6;
	my $on_disk = "$disk/frames";
	$node->stop;
	$node->adjust_conf('postgresql.conf', 'mtpower.pmem_path', "'$on_disk'");
	$node->append_conf('postgresql.conf', 'mtpower.pmem_size = 6MB');
	$node->start;
	like(said($node), qr/WARNING:  mtpower does not use file "\Q$on_disk\E": it is neither on persistent memory nor on tmpfs\n.*DETAIL:  Frames live in shared memory/, 'a disk: is said');
	is(sql('SELECT wrong()'), '', 'a disk: right answers');
	is(sql(q{SELECT sum(bytes) FROM mtpower.stat_buffer}), 4 * 1024 * 1024, 'a disk: mtpower.buffer_size is the size');
	is(-s $on_disk, 0, 'a disk: the file takes no room');
	$node->restart;
	unlike(said($node), qr/frames in file|frames over/, 'a disk: nothing is left there, and nothing is found');
	is(-s $on_disk, 0, 'a disk: nor is it written to');
	$node->stop;
	$node->adjust_conf('postgresql.conf', 'mtpower.pmem_path', "'$file'");
	$node->append_conf('postgresql.conf', 'mtpower.pmem_size = 0');
	unlink $file;
	$node->start;
	sql('SELECT probes(3000, 7)');
}

# ---------- another content ----------

after('another magic', qr/WARNING:  mtpower does not use file "\Q$file\E": it has been made by something else/, sub { edit(0, 'x') });
$node->stop;
is(bytes(0, 1), 'x', "something else's file is as it was");
unlink $file;
append_to_file($file, "my precious text\n");
$node->start;
like(said($node), qr/it has been made by something else\n.*DETAIL:  Frames live in shared memory/, 'a text: refused');
is(sql('SELECT wrong()'), '', 'a text: right answers');
$node->stop;
is(slurp_file($file), "my precious text\n", 'and is as it was');
unlink $file;
$node->start;
sql('SELECT probes(3000, 7)');
after("a byte of the marker, $_", qr/file "\Q$file\E" is emptied: its marker is damaged/, sub { flip(256 + $_) }) foreach 0, 9, 30, 71, 75, 84;
after('no marker', qr/has no frames/, sub { edit(256, "\0" x 88) });

# It has rows of all tables in it, and what is in it is believed.
foreach my $mode (0604, 0602, 0620)
{
	after(sprintf('rights %o', $mode), qr/it belongs to another user, or others have rights to it\n.*DETAIL:  Frames live in shared memory/, sub { chmod($mode, $file) });
}
after('its own rights again', qr/is emptied: it is of another state of this data directory/, sub { chmod(0600, $file) });

# Frames that are damaged are left out, and no others.
my $damaged = sub {
	my ($n) = @_;
	return qr/took ([1-9]\d*) of \d+ frames over from file "\Q$file\E"\n.*DETAIL:  $n are damaged, and there was no time for 0/;
};
my @frames;
my $bytes_of = sub { return $_[0] == 0 ? 8192 : 16384 };
my $image = sub { my ($frame, $kind) = @{ $_[0] }; return $images + int($frame / $per_slab) * 1024 * 1024 + $frame % $per_slab * $bytes_of->($kind); };
foreach my $kind (0, 1)
{
	my $name = ('index', 'table')[$kind];
	my @some;
	my $choose = sub { @frames = frames(); @some = grep { $_->[1] == $kind } @frames; };
	after("$name: a bit of an image, the first", $damaged->(1), sub { $choose->(); flip($image->($some[0])) });
	after("$name: a bit of an image, the last", $damaged->(1), sub { $choose->(); flip($image->($some[1]) + $bytes_of->($kind) - 1) });
	after("$name: an image of zeros", $damaged->(1), sub { $choose->(); edit($image->($some[2]), "\0" x $bytes_of->($kind)) });
	after("$name: two images exchanged", $damaged->(2), sub {
		$choose->();
		my ($x, $y) = map { bytes($image->($some[$_]), $bytes_of->($kind)) } 0, 1;
		edit($image->($some[0]), $y);
		edit($image->($some[1]), $x);
	});
	after("$name: two frames exchanged", qr/took \d+ of \d+ frames/, sub {
		$choose->();
		my @x = map { [ bytes($headers + 64 * $_->[0], 64), bytes($image->($_), $bytes_of->($kind)) ] } @some[ 0, 1 ];
		for my $i (0, 1)
		{
			edit($headers + 64 * $some[$i]->[0], $x[ 1 - $i ]->[0]);
			edit($image->($some[$i]), $x[ 1 - $i ]->[1]);
		}
	});
	foreach my $at (4 .. 45)
	{
		next if $at % 5;
		after("$name: byte $at of a header", qr/took [1-9]\d* of \d+ frames/, sub { $choose->(); flip($headers + 64 * $some[0]->[0] + $at) });
	}
	after("$name: one page twice", qr/took [1-9]\d* of \d+ frames/, sub {
		$choose->();
		edit($headers + 64 * $some[0]->[0], bytes($headers + 64 * $some[1]->[0], 64));
		edit($image->($some[0]), bytes($image->($some[1]), $bytes_of->($kind)));
	});
}
after('all headers random', qr/took 0 of \d+ frames/, sub { edit($headers, join('', map { chr(int(rand 256)) } 1 .. 4 * $per_slab * 64)) });
after('all images random', qr/took 0 of \d+ frames/, sub { edit($images, join('', map { chr(int(rand 256)) } 1 .. 4 * 1024 * 1024)) });

# ---------- another time ----------

my $old = "$dir/old";
$node->stop;
copy($file, $old);
$node->start;
sql(q{DELETE FROM t WHERE a % 3 = 0; INSERT INTO t SELECT g, md5(g::text), 9 FROM generate_series(3, 20000, 3) g});
after('an older one', qr/is emptied: it is of another state of this data directory/, sub { copy($old, $file) });

# In between the server ran without the file.
$node->stop;
copy($file, $old);
$node->append_conf('postgresql.conf', "mtpower.pmem_path = ''");
$node->start;
sql(q{DELETE FROM t WHERE a % 5 = 0});
$node->stop;
said($node);
$node->append_conf('postgresql.conf', "mtpower.pmem_path = '$file'");
$node->start;
like(said($node), qr/is emptied: it is of another state of this data directory/, 'the server ran without it: is said');
is(sql('SELECT wrong()'), '', 'the server ran without it: right answers');
sql('SELECT probes(3000, 7)');

# It ran, and crashed.
after('an older one, and a crash', qr/is emptied: the server was not shut down properly/, sub {
	copy($file, $old);
	$node->start;
	sql(q{DELETE FROM t WHERE a % 7 = 0});
	$node->stop('immediate');
	said($node);
	copy($old, $file);
});

# Single-user mode
after('single-user mode', qr/is emptied: it is of another state of this data directory/, sub {
	command_ok([ 'bash', '-c', "echo 'DELETE FROM t WHERE a % 11 = 0' | postgres --single -D " . $node->data_dir . ' postgres >/dev/null 2>&1' ], 'a session in single-user mode');
});

# Redo is to come.
foreach my $signal ('standby.signal', 'recovery.signal')
{
	$node->stop;
	said($node);
	append_to_file($node->data_dir . "/$signal", '');
	append_to_file($node->data_dir . '/postgresql.conf', "restore_command = 'false'\n");
	$node->start;
	like(said($node), qr/is emptied: there is a file "$signal"/, "$signal: is said");
	$node->promote if $signal eq 'standby.signal';
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die;
	is(sql('SELECT wrong()'), '', "$signal: right answers");
	sql('SELECT probes(3000, 7)');
}
$node->backup('base');
after('nothing again', qr/took ([1-9]\d*) of \1 frames over/, sub { });

# ---------- another server ----------

# A copy of the data directory
my $clone = PostgreSQL::Test::Cluster->new('clone');
$node->stop;
PostgreSQL::Test::RecursiveCopy::copypath($node->data_dir, $clone->data_dir);
mkdir($clone->basedir) if !-d $clone->basedir;
$clone->append_conf('postgresql.conf', 'port = ' . $clone->port);
chmod(0700, $clone->data_dir);
said($node);
$node->start;
like(said($node), qr/took [1-9]\d* of/, 'the server itself takes its frames over');
my $began = time;
$clone->start;
like(said($clone), qr/WARNING:  mtpower does not use file "\Q$file\E": another server has locked it\n.*DETAIL:  Frames live in shared memory/, 'a copy beside it is refused');
cmp_ok(time - $began, '<', 30, 'in time');
$clone->safe_psql('postgres', q{DELETE FROM t WHERE a % 13 = 0; SELECT probes(3000, 7)});
is($clone->safe_psql('postgres', 'SELECT wrong()'), '', 'a copy: right answers');
is(sql('SELECT wrong()'), '', 'and of the first one');
$clone->stop;
$node->stop;
said($clone);
$clone->start;
like(said($clone), qr/is emptied: it is of another copy of this data directory/, 'a copy behind it has nothing of it');
is($clone->safe_psql('postgres', 'SELECT wrong()'), '', 'a copy behind it: right answers');
$clone->stop;
$node->start;
like(said($node), qr/is emptied: it is of another copy of this data directory/, 'nor has the first one of the copy');
is(sql('SELECT wrong()'), '', 'right answers');
sql('SELECT probes(3000, 7)');

# Another cluster
my $stranger = home_server('stranger', $file);
$node->stop;
$stranger->start;
like(said($stranger), qr/is emptied: it is of another cluster/, 'another cluster has nothing of it');
$stranger->stop;
$node->start;
is(sql('SELECT wrong()'), '', 'right answers');

# The postmaster is gone, a child still has the lock.
$node->stop;
open(my $held, '<', $file) or die;
flock($held, LOCK_EX) or die;
said($node);
$node->start;
like(said($node), qr/another server has locked it/, 'refused while it is locked');
$node->stop;
close $held;

unlike(slurp_file($_->logfile), qr/TRAP|PANIC/, $_->name . ': the log is clean') foreach $node, $clone, $stranger;
unlink($file, $old);
done_testing();
