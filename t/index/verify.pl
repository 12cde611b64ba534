# verify_index raises no false alarm beside loads, deletes and VACUUM, on the primary and on a hot
# standby. SECONDS_OF_LOAD (12).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{SECONDS_OF_LOAD} || 12;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
shared_buffers = 16MB
fsync = off
autovacuum = off
max_wal_size = 1GB
});
$primary->start;
$primary->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE TABLE t (a int, b text COLLATE "C", c timestamp, d int) USING mtpower WITH (vacuum_truncate = off);
	CREATE INDEX t_a ON t USING mtpower_blink (a);
	CREATE INDEX t_b ON t USING mtpower_blink (b, a);
	CREATE INDEX t_c ON t USING mtpower_blink (c DESC) INCLUDE (a);
	CREATE INDEX t_d ON t USING mtpower_blink ((d % 10)) WHERE d > 100;
	INSERT INTO t SELECT (random() * 1e5)::int, md5(g::text), now(), g FROM generate_series(1, 20000) g;
	CREATE UNLOGGED TABLE u (a int);
	CREATE INDEX u_a ON u USING mtpower_blink (a)});
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{
max_standby_streaming_delay = -1
});
$standby->start;

# What is not there during recovery.
my ($rc_u, $out_u, $err_u) = $standby->psql('postgres', q{SELECT mtpower.verify_index('u_a', true)});
is($rc_u, 0, 'an unlogged index is no error on a standby');
like($err_u, qr/NOTICE:  skipping unlogged index "u_a"/, 'but is told of');
($rc_u, $out_u, $err_u) = $standby->psql('postgres', q{SELECT mtpower.page_info('u_a', 0)});
like($err_u, qr/ERROR:  cannot access unlogged index "u_a" during recovery/, 'its pages are not there');

my $dir = PostgreSQL::Test::Utils::tempdir;
my %scripts = (
	insert => [ 4, '\set n random(1, 400)
INSERT INTO t SELECT (random() * 1e5)::int, md5(g::text), now() + g * interval \'1 s\', g FROM generate_series(1, :n) g;' ],
	ascending => [ 2, 'INSERT INTO t SELECT 100000 + g, \'k\' || g, now(), g FROM generate_series(1, 300) g;' ],
	rollback => [ 1, 'BEGIN;
INSERT INTO t SELECT (random() * 1e5)::int, md5(g::text), now(), g FROM generate_series(1, 300) g;
ROLLBACK;' ],
	range => [ 2, '\set x random(0, 100000)
DELETE FROM t WHERE a BETWEEN :x AND :x + 8000;' ],
	prefix => [ 1, '\set x random(0, 15)
DELETE FROM t WHERE b COLLATE "C" >= to_hex(:x) AND b COLLATE "C" < to_hex(:x) || \'8\';' ],
	old => [ 1, 'DELETE FROM t WHERE c < now() - interval \'2 s\' AND d % 3 > 0;' ],
	update => [ 2, '\set x random(0, 100000)
UPDATE t SET d = d + 1 WHERE a BETWEEN :x AND :x + 500;' ],
	vacuum => [ 2, 'VACUUM t;' ],
	copy => [ 1, "COPY t FROM '$dir/rows';" ]);
my @files;
foreach my $name (sort keys %scripts)
{
	append_to_file("$dir/$name.sql", "$scripts{$name}[1]\n");
	push @files, '-f', "$dir/$name.sql\@$scripts{$name}[0]";
}
append_to_file("$dir/rows", join('', map { int(rand(100000)) . "\trow$_\t2020-01-01\t$_\n" } 1 .. 1500));

my $out = '';
my $load = IPC::Run::start(
	[ 'pgbench', '-n', '-c', '4', '-j', '1', '-T', $seconds, '--max-tries=1', @files, $primary->connstr('postgres') ],
	'<', \undef, '>', \$out, '2>', \$out);

my @indexes = qw(t_a t_b t_c t_d);
my %runs = (primary => 0, standby => 0);
my @wrong;
while ($load->pumpable)
{
	foreach my $node ($primary, $standby)
	{
		my $name = $node->name;
		foreach my $deep (0, 0, 1)
		{
			my $index = $indexes[ $runs{$name}++ % @indexes ];
			my ($rc, $stdout, $stderr) = $node->psql('postgres', "SELECT mtpower.verify_index('$index', $deep\::bool)");
			# A query on a standby may always be cancelled in favour of replay.
			push @wrong, "$name: $stderr" if $rc != 0 && $stderr !~ /conflict with recovery/;
		}
	}
	$load->pump_nb;
	last if @wrong;
}
$load->finish;
is(join("\n", @wrong), '', 'no false alarm');
note "verified $runs{primary} times on the primary, $runs{standby} times on the standby";
cmp_ok($runs{primary}, '>', 5, 'verified often enough on the primary');
cmp_ok($runs{standby}, '>', 5, 'verified often enough on the standby');
like($out, qr/number of transactions actually processed: [1-9]\d/, 'the load ran');
note $out;

$primary->wait_for_catchup($standby);
foreach my $node ($primary, $standby)
{
	$node->safe_psql('postgres', "SELECT mtpower.verify_index('$_', true)") foreach @indexes;
	pass($node->name . ' is sound in the end');
}
my $deleted = $primary->safe_psql('postgres', q{SELECT count(*)
	FROM generate_series(0, pg_relation_size('t_a') / current_setting('block_size')::int - 1) n, mtpower.page_info('t_a', n) p
	WHERE p.type = 'deleted'});
note "$deleted deleted pages in t_a at the end";

$standby->stop;
$primary->stop;
done_testing();
