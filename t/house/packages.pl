# What packages say of mtpower is true: META.json is as PGXN's specification 1.0.0 wants it, all
# files name the same version, and make dist packs what META.json names.
use strict;
use warnings;
use Cwd qw(abs_path);
use FindBin;
use IO::Uncompress::Unzip;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = abs_path("$FindBin::Bin/../..");
my $meta = JSON::PP->new->utf8->decode(slurp_file("$top/META.json"));

# The specification: what must be there, and of which form.
my $version = qr/^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-?[a-z][a-z0-9-]*)?$/i;
my $term = qr/^[^\s\/\\[:cntrl:]]{2,}$/;
my %required = (
	'name' => $term, 'version' => $version, 'abstract' => qr/\S/, 'maintainer' => qr/\S/,
	'license' => qr/^(?:agpl_3|apache_[12]_\d|artistic_[12]|bsd|gpl_[123]|lgpl_[23]_\d|mit
		|mozilla_1_[01]|postgresql|open_source|unrestricted|unknown)$/x);
like($meta->{$_} // '', $required{$_}, "META.json: $_") foreach sort keys %required;
is($meta->{'meta-spec'}{version}, '1.0.0', 'META.json: the version of the specification');
like($meta->{release_status}, qr/^(?:stable|testing|unstable)$/, 'META.json: release_status');
my %known = map { $_ => 1 } keys %required, 'meta-spec',
	qw(provides description generated_by no_index prereqs release_status resources tags);
is(join(' ', grep { !$known{$_} } sort keys %$meta), '', 'META.json: no other keys');
is(join(' ', grep { !/^[^\/\\[:cntrl:]]{1,256}$/ } @{ $meta->{tags} }), '', 'META.json: tags');
is(join(' ', sort keys %{ $meta->{provides} }), 'mtpower', 'META.json: provides the extension');
my $provided = $meta->{provides}{mtpower};
like($provided->{version}, $version, 'META.json: the version of what it provides');
like($provided->{file}, qr/\S/, 'META.json: the file of what it provides');

# Versions
my ($default) = slurp_file("$top/mtpower.control") =~ /^default_version = '(\d+\.\d+)'$/m;
is($meta->{version}, "$default.0", 'META.json has the version of mtpower.control');
is($provided->{version}, "$default.0", 'and so has what it provides');
like(slurp_file("$top/src/core/core.h"), qr/^#define MTP_VERSION\s+"\Q$default\E"$/m,
	'and so has the library');
like(slurp_file("$top/debian/changelog"), qr/\Amtpower \(\Q$default\E\.0-\d+\) /,
	'and so has the Debian package');

# make dist, in a repository of the sources, and in none
my $copy = "$PostgreSQL::Test::Utils::tmp_check/source";
delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS)};
mkdir $copy;
system_or_bail("tar -C '$top' -c --exclude=./.git --exclude=./tmp_check . | tar -C '$copy' -x");
command_fails_like([ 'make', '-C', $copy, 'dist' ], qr/make dist packs a commit: this is not a clone/,
	'make dist says that it needs a repository');

SKIP:
{
	skip('there is no git', 2) if system('git --version > /dev/null 2>&1');
	my @git = ('git', '-C', $copy, '-c', 'user.name=test', '-c', 'user.email=test@localhost');
	system_or_bail(@git, 'init', '-q');
	system_or_bail(@git, 'add', '-A');
	system_or_bail(@git, 'commit', '-q', '-m', 'test');
	system_or_bail('make', '-C', $copy, 'dist');
	my $prefix = "mtpower-$default.0/";
	my $zip = IO::Uncompress::Unzip->new("$copy/mtpower-$default.0.zip") or die 'no zip';
	my %packed;
	do { $packed{ $zip->getHeaderInfo->{Name} } = 1 } while ($zip->nextStream > 0);
	is(join(' ', grep { !$packed{"$prefix$_"} }
			qw(META.json Makefile LICENSE mtpower.control), @$provided{qw(file docfile)}), '',
		'make dist packs what META.json names');
	is(join(' ', grep { !/^\Q$prefix\E/ } sort keys %packed), '',
		'all below one directory');
}
done_testing();
