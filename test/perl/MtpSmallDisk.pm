# MtpSmallDisk: runs the test that uses it with a small disk that can be filled, mounted at $ENV{MTP_SMALL_DISK}.
#
# The disk is a tmpfs in a user and mount namespace, which takes no privilege where the kernel and the container permit it;
# elsewhere the test is skipped.  The namespace, and the disk with it, goes with its last process.  To be used
# before PostgreSQL's modules, which redirect the output.
package MtpSmallDisk;

use strict;
use warnings;
use File::Temp;

sub import
{
	my ($class, $size) = @_;
	return if $ENV{MTP_SMALL_DISK};

	my $dir = File::Temp->newdir(DIR => $ENV{TESTDIR} || '/tmp');
	# The test itself has no capabilities, and does not run as root: PostgreSQL would refuse.
	my @inside = (qw(unshare --user --map-current-user --keep-caps --mount sh -c),
		"mount -t tmpfs -o size=$size,mode=0700 tmpfs \"\$0\" && exec setpriv --inh-caps=-all --ambient-caps=-all -- \"\$@\"", "$dir");
	if (system("exec 2>/dev/null; " . join(' ', map { "'$_'" } @inside, 'true')) != 0)
	{
		print "1..0 # SKIP user namespaces, or mounts in them, are not permitted here\n";
		exit 0;
	}
	$ENV{MTP_SMALL_DISK} = "$dir";
	my $status = system(@inside, $^X, $0, @ARGV);
	exit($status == 0 ? 0 : $status >> 8 || 1);
}

1;
