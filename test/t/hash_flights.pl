# Queries for equality over the flights of 2013: flights.pl with hash in place of B-link.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;		# now: its INIT block does not run when it is loaded by do

$ENV{MTP_INDEX_AM} = 'mtpower_hash';
do "$FindBin::Bin/flights.pl";
die $@ if $@;
