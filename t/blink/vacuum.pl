# Through many rounds of deleting and inserting an index stays correct and as small as btree's.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
bgwriter_lru_maxpages = 0
fsync = off
max_wal_size = 4GB
});
$node->start;

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub blocks { return sql("SELECT pg_relation_size('$_[0]') / current_setting('block_size')::int"); }

sub good
{
	my ($table, $what) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', qq{
		SELECT mtpower.verify_index(i.indexrelid, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = '$table'::regclass AND a.amname = 'mtpower_blink'});
	is($rc, 0, "$what: the indexes verify") or diag($err);
}

sql(q{CREATE EXTENSION mtpower;
	CREATE FUNCTION k(i int) RETURNS text IMMUTABLE LANGUAGE sql AS
		$$SELECT lpad(i::text, 8, '0') || repeat(md5(i::text), current_setting('block_size')::int / 256)$$;});

# Queues, in both orders, with narrow keys and with keys so wide that the tree has many levels.  Each round adds as many
# rows at one end as it takes away at the other.
sql(q{CREATE TABLE q (a int, k text);
	ALTER TABLE q ALTER k SET STORAGE plain;
	CREATE INDEX q_a ON q USING mtpower_blink (a);
	CREATE INDEX q_a_desc ON q USING mtpower_blink (a DESC);
	CREATE INDEX q_k ON q USING mtpower_blink (k);
	CREATE INDEX q_k_desc ON q USING mtpower_blink (k DESC);
	INSERT INTO q SELECT g, k(g) FROM generate_series(1, 1000) g;});
my %size;
foreach my $round (1 .. 20)
{
	my ($from, $to) = ($round * 1000 + 1, ($round + 1) * 1000);
	sql("INSERT INTO q SELECT g, k(g) FROM generate_series($from, $to) g");
	sql("DELETE FROM q WHERE a < $from");
	sql('VACUUM q');
	if ($round == 6) { $size{$_} = blocks($_) foreach qw(q_a q_a_desc q_k q_k_desc); }
}
foreach my $index (qw(q_a q_a_desc q_k q_k_desc))
{
	cmp_ok(blocks($index), '<=', $size{$index} * 1.05 + 2, "queue: $index does not grow after the sixth round ($size{$index} blocks)");
}
good('q', 'queue');
is(sql('SET enable_seqscan = off; SELECT count(*), min(a), max(a) FROM q WHERE a > 0'), '1000|20001|21000', 'queue: its rows');

# Random ranges go, random rows come.
sql(q{CREATE TABLE r (a int, b text);
	CREATE INDEX r_a ON r USING mtpower_blink (a);
	CREATE INDEX r_b ON r USING mtpower_blink (b);
	CREATE INDEX r_bt ON r (b);
	INSERT INTO r SELECT (random() * 1e6)::int, md5(g::text) FROM generate_series(1, 20000) g;});
foreach my $round (1 .. 15)
{
	sql("DELETE FROM r WHERE (a / 50000) % 5 = $round % 5");
	sql('VACUUM r');
	sql("INSERT INTO r SELECT (random() * 1e6)::int, md5((g * $round)::text) FROM generate_series(1, 20000 - (SELECT count(*) FROM r)) g");
}
cmp_ok(blocks('r_b'), '<=', blocks('r_bt') * 1.3, 'ranges: not much more than btree needs');
good('r', 'ranges');

# All rows go at once: the next VACUUM, which has nothing to delete, makes the pages free, because there are many.
sql('DELETE FROM r');
sql('VACUUM r');
sql('SELECT txid_current()');
sql('VACUUM r');
my $before = blocks('r_b');
sql('INSERT INTO r SELECT (random() * 1e6)::int, md5(g::text) FROM generate_series(1, 20000) g');
is(blocks('r_b'), $before, 'emptied: the pages are used again');
good('r', 'emptied');

# New versions of rows, none of them HOT: an index on the column that changes, three on others.  One statement of many
# rows, then many of one row.
foreach my $table ([ 'um', 'mtpower', 'mtpower_blink' ], [ 'ub', 'heap', 'btree' ])
{
	my ($name, $table_am, $index_am) = @$table;
	sql("CREATE TABLE $name (a int, b int, c int, d int, t text) USING $table_am");
	sql("CREATE INDEX ${name}_$_ ON $name USING $index_am ($_)") foreach qw(a b c d);
	sql("SELECT setseed(0.5); INSERT INTO $name SELECT g, (random() * 2e9)::int, (random() * 2e9)::int, (random() * 2e9)::int, md5(g::text) FROM generate_series(1, 20000) g");
	sql("UPDATE $name SET d = (random() * 2e9)::int");
	sql("VACUUM $name");
	sql(qq{SELECT setseed(0.4);
		DO \$\$
		DECLARE
			row int;
		BEGIN
			FOR i IN 1 .. 20000 LOOP
				row := 1 + (random() * 19999)::int;
				UPDATE $name SET d = (random() * 2e9)::int WHERE a = row;
				COMMIT;
			END LOOP;
		END\$\$;});
}
foreach my $column (qw(a b c d))
{
	my ($m, $b) = (blocks("um_$column"), blocks("ub_$column"));
	cmp_ok($m, '<=', $b * 1.5, "versions: $column, $m blocks, btree has $b");
}
good('um', 'versions');

# A batch makes room from the entries that scans have marked, and finds its places after that.
sql(q{CREATE TABLE b (a int, f text);
	CREATE INDEX b_a ON b USING mtpower_blink (a);
	INSERT INTO b SELECT g * 10 FROM generate_series(1, 300) g;});
sql('DELETE FROM b WHERE a <= 1000');
sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(f) FROM b WHERE a > 0');
sql('SET mtpower.batch_min_rows = 0; INSERT INTO b SELECT g * 10 + 5 FROM generate_series(150, 290) g');
is(blocks('b_a'), 2, 'a batch makes room instead of splitting');
good('b', 'a batch made room');

# Everything at once, and the indexes verified beside it.
sql(q{CREATE TABLE s (a int, k text);
	ALTER TABLE s ALTER k SET STORAGE plain;
	CREATE INDEX s_a ON s USING mtpower_blink (a);
	CREATE INDEX s_k ON s USING mtpower_blink (k, a);
	CREATE INDEX s_few ON s USING mtpower_blink ((a % 10));});
my $dir = PostgreSQL::Test::Utils::tempdir();
my %scripts = (
	row => q{\set a random(0, 50000)
		INSERT INTO s VALUES (:a, k(:a));},
	batch => q{\set lo random(0, 50000)
		\set n random(1, 1500)
		INSERT INTO s SELECT g, k(g) FROM generate_series(:lo, :lo + :n) g;},
	abort => q{\set lo random(0, 50000)
		BEGIN;
		INSERT INTO s SELECT g, k(g) FROM generate_series(:lo, :lo + 1000) g;
		ROLLBACK;},
	update => q{\set lo random(0, 50000)
		UPDATE s SET a = a WHERE a BETWEEN :lo AND :lo + 3;},
	delete => q{\set lo random(0, 50000)
		\set n random(1, 5000)
		DELETE FROM s WHERE a BETWEEN :lo AND :lo + :n;},
	vacuum => q{VACUUM s;},
	verify => q{SELECT mtpower.verify_index('s_a', true);
		SELECT mtpower.verify_index('s_k', true);
		SELECT mtpower.verify_index('s_few', true);});
foreach my $name (keys %scripts)
{
	open(my $f, '>', "$dir/$name") or die;
	print $f $scripts{$name};
	close($f);
}
my @handles;
foreach my $run (
	[ 'changes', '-c', 3, map { ('-f', "$dir/$_") } ('row@20', 'batch@4', 'abort@2', 'update@10', 'delete@6') ],
	[ 'VACUUM', '-c', 1, '-f', "$dir/vacuum" ],
	[ 'verify', '-c', 1, '-f', "$dir/verify" ])
{
	my ($name, @args) = @$run;
	my ($out, $err) = ('', '');
	push @handles, [ $name, \$err, IPC::Run::start(
		[ 'pgbench', '-n', '-T', $ENV{MTP_STRESS_SECONDS} || 15, '-h', $node->host, '-p', $node->port, @args, 'postgres' ],
		'<', \undef, '>', \$out, '2>', \$err) ];
}
foreach my $handle (@handles)
{
	my ($name, $err, $run) = @$handle;
	ok($run->finish, "together: $name") or diag($$err);
}
good('s', 'together');
sql('VACUUM s');
good('s', 'together, vacuumed');
is(sql('SET enable_seqscan = off; SELECT sum(a) FROM s WHERE a >= 0'),
	sql('SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT sum(a) FROM s WHERE a >= 0'),
	'together: index and table agree');

$node->stop('immediate');
$node->start;
good('s', 'after a crash');
good('q', 'after a crash');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'nothing bad in the log');
done_testing();
