# The queries for Prometheus run, also beside a load whose table is locked, and return the columns
# that they describe; where postgres_exporter is installed, it shows them for two databases.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $file = "$FindBin::Bin/../../monitoring/postgres_exporter.yaml";
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
CREATE TABLE t (a int) USING mtpower;
CREATE INDEX t_a ON t USING mtpower_blink (a);
INSERT INTO t SELECT generate_series(1, 10000)});
$node->safe_psql('postgres', 'CREATE DATABASE second TEMPLATE postgres');
$node->safe_psql('second', 'INSERT INTO t SELECT generate_series(1, 5000)');

# A load that has emptied its table
my ($in, $said) = ("BEGIN; TRUNCATE t; INSERT INTO t SELECT generate_series(1, 10000); SELECT 'loaded';\n", '');
my $load = IPC::Run::start([ 'psql', '-XAtq', $node->connstr('postgres') ], '<', \$in, '>', \$said);
$load->pump until $said =~ /loaded/;

my %queries = slurp_file($file) =~ /^(\w+):\n  query: "(.*)"\n/mg;
my %columns = map { my ($name, $rest) = /^(\w+):\n(.*)/s; $name => [ $rest =~ /^    - (\w+):$/mg ] }
	grep { /^mtpower/ } split /\n(?=\w)/, slurp_file($file);
cmp_ok(scalar keys %queries, '>=', 8, 'there are queries');
foreach my $name (sort keys %queries)
{
	my ($rc, $out, $err) = $node->psql('postgres', $queries{$name},
		timeout => 60,
		extra_params => [ '-U', 'watcher', '--pset=tuples_only=off', '--pset=footer=off' ]);
	my ($head, @rows) = split /\n/, $out;
	is($err, '', "$name runs");
	is($head, join('|', @{ $columns{$name} }), "$name: each column is described");
	cmp_ok(scalar @rows, '>', 0, "$name: rows");
}

$in = "ROLLBACK;\n\\q\n";
$load->finish;

my $entries = $node->safe_psql('postgres', "SELECT entries FROM mtpower.stat_batches WHERE index = 't_a'::regclass");
cmp_ok($entries, '>=', 9744, 'entries');

SKIP: {
	my ($exporter) = grep { -x } map { ("$_/postgres_exporter", "$_/prometheus-postgres-exporter") } split /:/, $ENV{PATH};
	skip 'there is no postgres_exporter', 3 if !$exporter;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	local $ENV{DATA_SOURCE_NAME} = 'host=' . $node->host . ' port=' . $node->port . ' user=watcher dbname=postgres sslmode=disable';
	my ($out, $page) = ('', '');
	my $run = IPC::Run::start([ $exporter, "--extend.query-path=$file", '--auto-discover-databases', '--exclude-databases=template0,template1', "--web.listen-address=127.0.0.1:$port" ], '>&', \$out);
	foreach (1 .. 100)
	{
		require HTTP::Tiny;
		$page = HTTP::Tiny->new->get("http://127.0.0.1:$port/metrics")->{content};
		last if $page =~ /^mtpower/m;
		select(undef, undef, undef, 0.1);
	}
	like($page, qr/^mtpower_index_entries\{datname="postgres",index="t_a".*\} $entries$/m, 'postgres_exporter shows entries');
	like($page, qr/^mtpower_index_entries\{datname="second",index="t_a".*\} 4744$/m, 'and those of another database');
	is(join(' ', grep { $page !~ /^\Q$_\E[_{]/m } sort keys %queries), '', 'and something of each query');
	$run->kill_kill;
}
$node->stop;
done_testing();
