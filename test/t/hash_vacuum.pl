# VACUUM of hash indexes beside a step of a worker for rows that are dead: batch_vacuum.pl with hash in place of B-link.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;		# now: its INIT block does not run when it is loaded by do

$ENV{MTP_INDEX_AM} = 'mtpower_hash';
do "$FindBin::Bin/batch_vacuum.pl";
die $@ if $@;
