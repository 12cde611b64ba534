# A database with an older version's objects works with this version's library, and ALTER EXTENSION
# UPDATE makes them what CREATE EXTENSION makes: on a filled database with a standby, beside loads.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpBackup;

my @older = ('1.0');

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
shared_buffers = 64MB
mtpower.batch_min_rows = 0
autovacuum = off
wal_keep_size = 1GB
});
$primary->start;
my $version = $primary->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'mtpower'});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# The members of the extension, each with all that makes it: definitions, rights, comments.
my $members = q{
SELECT pg_describe_object(d.classid, d.objid, 0),
	CASE d.classid
		WHEN 'pg_proc'::regclass THEN pg_get_functiondef(d.objid) || coalesce((SELECT proacl::text FROM pg_proc WHERE oid = d.objid), '')
		WHEN 'pg_class'::regclass THEN coalesce(pg_get_viewdef(d.objid), '') || coalesce((SELECT relacl::text FROM pg_class WHERE oid = d.objid), '')
		WHEN 'pg_am'::regclass THEN (SELECT concat(amhandler::regproc, amtype) FROM pg_am WHERE oid = d.objid)
		WHEN 'pg_opclass'::regclass THEN (SELECT concat(opcintype::regtype, opcdefault, opckeytype::regtype) FROM pg_opclass WHERE oid = d.objid)
		WHEN 'pg_opfamily'::regclass THEN (SELECT string_agg(concat_ws(' ', amoplefttype::regtype, amoprighttype::regtype, amopstrategy, amopopr::regoperator), ',' ORDER BY amoplefttype, amoprighttype, amopstrategy) FROM pg_amop WHERE amopfamily = d.objid)
			|| coalesce((SELECT string_agg(concat_ws(' ', amproclefttype::regtype, amprocrighttype::regtype, amprocnum, amproc), ',' ORDER BY amproclefttype, amprocrighttype, amprocnum) FROM pg_amproc WHERE amprocfamily = d.objid), '')
	END,
	obj_description(d.objid, (SELECT relname FROM pg_class WHERE oid = d.classid))
FROM pg_depend d WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'mtpower')
ORDER BY pg_describe_object(d.classid, d.objid, 0) COLLATE "C"};

$primary->safe_psql('postgres', 'CREATE ROLE plain; CREATE DATABASE fresh');
$primary->safe_psql('fresh', 'CREATE EXTENSION mtpower');
my $fresh = $primary->safe_psql('fresh', $members);
cmp_ok(length $fresh, '>', 50_000, 'the objects of ' . $version);
foreach my $from (@older)
{
	(my $db = "from_$from") =~ tr/./_/;
	$primary->safe_psql('postgres', "CREATE DATABASE $db");
	$primary->safe_psql($db, "CREATE EXTENSION citext; CREATE EXTENSION mtpower VERSION '$from'; ALTER DATABASE $db SET search_path = public");
	$primary->safe_psql($db, (backup_schema() =~ s{CREATE EXTENSION mtpower;}{}r) . 'BEGIN;' . fill_sql(1, 3000) . 'COMMIT;' . dump_schema());
	my $contents = contents($primary, $db);
	indexes_serve($primary, "objects of $from", 19, $db);
	my $views = $primary->safe_psql($db, q{SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class c WHERE c.relkind = 'v' AND c.relnamespace = 'mtpower'::regnamespace});
	foreach my $view (split / /, $views)
	{
		my ($rc, $out, $err) = $primary->psql($db, "SELECT * FROM mtpower.$view");
		is($rc . $err, '0', "$from: mtpower.$view can be read before the update");
	}
	my $before = $primary->safe_psql($db, $members);
	isnt($before, $fresh, "$from: the objects were others");
	$primary->wait_for_catchup($standby);
	same_contents($standby, $contents, "$from: standby", $db);

	# A load is under way while the objects change.
	my ($in, $out, $err) = ('', '', '');
	my $load = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-h', $primary->host, '-p', $primary->port, '-c', 'BEGIN;' . fill_sql(2, 20_000) . 'COMMIT', $db ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	$primary->safe_psql($db, 'ALTER EXTENSION mtpower UPDATE');
	$load->finish;
	is($err, '', "$from: a load beside the update");
	is($primary->safe_psql($db, q{SELECT extversion FROM pg_extension WHERE extname = 'mtpower'}), $version, "$from: it is $version now");
	is($primary->safe_psql($db, $members), $fresh, "$from: objects are those of a new one");
	$contents = contents($primary, $db);
	is($primary->safe_psql($db, q{SELECT count(*) > 15 AND count(*) FILTER (WHERE result = 'ok') = count(*) FROM mtpower.verify_all(NULL, true, 2) WHERE message IS NULL OR message !~ 'amcheck'}), 't', "$from: all indexes are sound");
	$primary->safe_psql($db, 'BEGIN;' . fill_sql(3, 3000) . 'COMMIT');
	indexes_serve($primary, "$from, updated", 19, $db);
	$contents = contents($primary, $db);
	$primary->wait_for_catchup($standby);
	same_contents($standby, $contents, "$from: standby of the update", $db);
	is($standby->safe_psql($db, q{SELECT count(*) > 15 AND count(*) FILTER (WHERE result = 'ok') = count(*) FROM mtpower.verify_all(NULL, true, 2) WHERE message IS NULL OR message !~ 'amcheck|unlogged'}), 't', "$from: its indexes are sound");
}
my ($rc, $out, $err) = $primary->psql('fresh', q{ALTER EXTENSION mtpower UPDATE TO '0.9'});
like($err, qr/ERROR:  extension "mtpower" has no update path from version "$version" to version "0\.9"/, 'a version that is not there');
$standby->stop;
$primary->stop;
done_testing();
