# Loads into hash indexes that are cancelled, terminated, without memory or workers: batch_faults.pl with hash in place of B-link.
use strict;
use warnings;
use FindBin;

$ENV{MTP_INDEX_AM} = 'mtpower_hash';
do "$FindBin::Bin/batch_faults.pl";
die $@ if $@;
