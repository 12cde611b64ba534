# The hot list brings pages and learnt columns back after restarts and crashes. A list that is
# damaged in any way, or another cluster's, is not believed; pages that are gone are left out.
# Standbys, backups and smaller buffers; commands that want the database do not wait for the
# loader.
use strict;
use warnings;
use MtpFaults;
use MtpPmem;
use MtpFrames;
use MtpSessions qw(kill_a_session);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $module = MtpFaults::compile('demand');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'mtpower'
dynamic_library_path = '$module:\$libdir'
mtpower.hot_list = on
mtpower.hot_list_interval = 0
mtpower.buffer_size = 8MB
mtpower.batch_min_rows = 0
mtpower.workers = 0
autovacuum = off
});
my $file = $node->data_dir . '/mtpower.hot';
sub sql { my (@sql) = @_; return $node->safe_psql('postgres', join(';', @sql)); }

# What the log has said since the last start; waits until it has said this.
sub said_now
{
	my ($server, $what) = @_;
	my $log = '';
	for (1 .. 600)
	{
		$log = slurp_file($server->logfile);
		$log =~ s/.*starting PostgreSQL//s;
		return $log if $log =~ $what;
		select(undef, undef, undef, 0.1);
	}
	diag("the log does not say $what: $log");
	return $log;
}

# Started: how many pages are there, of how many.
my $there = qr/pages of the hot list in the buffer: (\d+) of (\d+)/;
sub started { $node->start; return said_now($node, $there) =~ $there ? ($1, $2) : (0, 0); }
sub learnt { return sql(q{SELECT choice || ' ' || coalesce(columns::text, '') FROM mtpower.directory('t')}); }
my $wrong = q{SELECT wrong() || orphans()};

$node->start;
ok(!-e $file, 'a new server has no list');
unlike(slurp_file($node->logfile), qr/hot list/, 'which needs no saying');
loaded($node);
sql(q{CREATE FUNCTION demand_count(regclass, VARIADIC int2[]) RETURNS void LANGUAGE c STRICT AS 'demand';
	CREATE TABLE dirs (a int, v int) USING mtpower; INSERT INTO dirs SELECT g, g % 100 FROM generate_series(1, 20000) g;
	SELECT mtpower.set_directory('dirs', 'v'), mtpower.warm('dirs'); SELECT demand_count('t', 3::int2), demand_count('t', 3::int2), demand_count('t', 1::int2)});
sql('SELECT probes(10000, 2)');
is(learnt(), 'learnt {v}', 'a column is learnt');
is($node->safe_psql('postgres', q{SELECT string_agg(backend_type, ',') FROM pg_stat_activity WHERE backend_type LIKE 'mtpower%'}), 'mtpower hot list keeper', 'a process keeps the list');

# ---------- restarts ----------

my $content = content($node);
my $n = 1 + ($content =~ tr/,//);
like($content, qr/ $_(,|$)/, "there are frames of kind $_") foreach qw(index table directory);
my $heat = sql(q{SELECT string_agg(block::text, ',' ORDER BY block) FROM mtpower.buffer_content WHERE relation = 't_a'::regclass AND heat > 2});
ok($heat =~ /,/, 'some of them hot');
$node->stop;
cmp_ok(-s $file, '>=', 56 + 20 * $n + 60, 'the list is there, with all pages and the table');
ok(!-e "$file.tmp", 'under its own name alone');
my ($loaded, $of) = started();
is($loaded, $of, 'after a restart all its pages are in frames');
cmp_ok($of, '>=', $n, 'all that there were');
ok(content($node) eq $content, 'the same ones');
is(sql(q{SELECT string_agg(block::text, ',' ORDER BY block) FROM mtpower.buffer_content WHERE relation = 't_a'::regclass AND heat > 2}), $heat, 'as warm as before');
is(sql('SELECT sum(misses) FROM mtpower.stat_buffer'), 0, 'and nobody has missed any');
is(learnt(), 'learnt {v}', 'the learnt column is known');
sql("SELECT demand_count('t', 1::int2)");
is(learnt(), 'learnt {v}', 'and its counts are: one more scan is not twice as much');
sql(map { "SELECT demand_count('t', 1::int2)" } 1 .. 4);
is(learnt(), 'learnt {a}', 'some more are');
is(sql($wrong), '0', 'right answers');
$content = content($node);
$node->restart;
said_now($node, $there);
ok(content($node) eq $content, 'after one more restart, too');
is(learnt(), 'learnt {a}', 'another column is learnt');

# ---------- crashes ----------

# The list of some time ago
sql('ALTER SYSTEM SET mtpower.hot_list_interval = 1', 'SELECT pg_reload_conf()');
my $was = (stat $file)[1];
for (1 .. 600) { last if (stat $file)[1] != $was; select(undef, undef, undef, 0.1); }
isnt((stat $file)[1], $was, 'the list is written while the server runs');
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
sql('ALTER SYSTEM RESET mtpower.hot_list_interval', 'SELECT pg_reload_conf()');
$node->stop('immediate');
($loaded, $of) = started();
is($loaded, $of, 'after an immediate shutdown it is loaded');
ok(content($node) eq $content, 'the same pages');
is(learnt(), 'learnt {a}', 'what was learnt, too');

kill_a_session($node);
$node->poll_query_until('postgres', 'SELECT frames_of(\'t_a\') > 0') or die;
for (1 .. 600) { my @all = slurp_file($node->logfile) =~ /all server processes terminated; reinitializing.*(pages of the hot list in the buffer: (\d+) of \2\n)/s; last if @all; select(undef, undef, undef, 0.1); }
ok(content($node) eq $content, 'after a crash of a process, which empties the buffer, it is loaded again');
$node->kill9;
for (1 .. 600) { last if $node->start(fail_ok => 1); $node->{_pid} = undef; select(undef, undef, undef, 0.1); }
said_now($node, $there);
ok(content($node) eq $content, 'after kill -9');
is(sql($wrong), '0', 'right answers');

# ---------- what is gone ----------

sql(q{CREATE TABLE gone (a int) USING mtpower; INSERT INTO gone SELECT g FROM generate_series(1, 5000) g; CREATE INDEX gone_a ON gone USING mtpower_blink (a);
	CREATE TABLE cut (a int) USING mtpower; INSERT INTO cut SELECT g FROM generate_series(1, 5000) g; CREATE INDEX cut_a ON cut USING mtpower_blink (a);
	CREATE TABLE kept (a int) USING mtpower; INSERT INTO kept SELECT g FROM generate_series(1, 5000) g; SELECT mtpower.set_directory('kept', 'a')}, 'VACUUM kept');
sql(q{SELECT mtpower.warm('gone_a'), mtpower.warm('cut_a'), mtpower.warm('kept')});
sql('CREATE DATABASE other');
$node->safe_psql('other', q{CREATE EXTENSION mtpower; CREATE TABLE o (a int) USING mtpower; INSERT INTO o SELECT g FROM generate_series(1, 5000) g; CREATE INDEX o_a ON o USING mtpower_blink (a); SELECT mtpower.warm('o_a')});
$node->restart;
is(join(' of ', said_now($node, $there) =~ $there), join(' of ', ((-s $file) - 56 - 60) / 20, ((-s $file) - 56 - 60) / 20), 'pages of two databases are loaded');
cmp_ok($node->safe_psql('other', q{SELECT count(*) FROM mtpower.stat_get_content()}), '>', 10, 'of each');
is(sql(q{SELECT count(*) FROM mtpower.stat_get_content() WHERE relation = 'kept'::regclass}), sql(q{SELECT 2 * ((pg_relation_size('kept') / 8192 + 1) / 2)}), 'images and directories');

# While the list stays as it is: a server that has none written
$node->append_conf('postgresql.conf', 'mtpower.hot_list = off');
$node->restart;
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'mtpower%'}) . sql('SELECT count(*) FROM mtpower.stat_get_content()'), '00', 'with the setting off there is no process, and nothing is loaded');
sql(q{DROP TABLE gone; ALTER TABLE cut ADD b int; TRUNCATE cut; DELETE FROM kept WHERE a > 100}, 'VACUUM kept', 'REINDEX INDEX t_h', 'DROP DATABASE other', q{SELECT mtpower.release('kept')});
$node->append_conf('postgresql.conf', 'mtpower.hot_list = on');
$node->restart;
($loaded, $of) = said_now($node, $there) =~ $there;
cmp_ok($loaded, '<', $of, 'pages that are gone are not loaded');
is(sql(q{SELECT count(*) FROM mtpower.stat_get_content() WHERE relation IN ('cut_a'::regclass, 'kept', 't_h')}), '0', 'none of files that are new, cut or not ours');
cmp_ok(sql(q{SELECT frames_of('t_a')}), '>', 10, 'but others');
unlike(said_now($node, $there), qr/ERROR|WARNING|FATAL|ignored/, 'the log does not speak of them');
is(sql($wrong), '0', 'right answers');

# ---------- wrong files ----------

$node->stop;
my $right = slurp_file($file);
my @table = map { my $c = $_; $c = $c & 1 ? 0x82F63B78 ^ ($c >> 1) : $c >> 1 for 1 .. 8; $c } 0 .. 255;
sub crc { my $c = 0xFFFFFFFF; $c = $table[($c ^ $_) & 0xFF] ^ ($c >> 8) foreach unpack('C*', $_[0]); return $c ^ 0xFFFFFFFF; }

# head CHANGES: the right file with other bytes in its head, at offsets, under a right checksum
sub head
{
	my (%changes) = @_;
	my $bytes = $right;
	substr($bytes, $_, length $changes{$_}) = $changes{$_} foreach keys %changes;
	substr($bytes, 52, 4) = pack('L', crc(substr($bytes, 0, 52)));
	return $bytes;
}
sub flip { my ($at) = @_; my $bytes = $right; substr($bytes, $at, 1) ^= "\x04"; return $bytes; }
is(head(), $right, 'the test knows the file');
my ($pages, $tables) = unpack('x32 Q L', $right);
cmp_ok($pages * $tables, '>', 10, 'it has pages and learnt columns');
# A page of a kind that there is not, and one of impossible heat, under right checksums
sub rest { my ($at, $bytes) = @_; my $all = $right; substr($all, $at, length $bytes) = $bytes; substr($all, 44, 4) = pack('L', crc(substr($all, 56))); substr($all, 52, 4) = pack('L', crc(substr($all, 0, 52))); return $all; }
foreach my $case (
	[ 'empty', '', 'it is no hot list' ],
	[ 'shorter than its head', substr($right, 0, 55), 'it is no hot list' ],
	[ 'of something else', "something else\n" x 1000, 'it is no hot list' ],
	[ 'of a later version', head(8 => pack('L', 2)), 'it is of another version of mtpower' ],
	[ 'with another block size', head(12 => pack('L', 4096)), 'it is of a server with another block size' ],
	[ 'of another cluster', head(16 => pack('Q', 12345)), 'it is of another cluster' ],
	[ 'with a bit changed in its head', flip(17), 'it is damaged' ],
	[ 'with a bit changed in a page', flip(56 + 20 * 3 + 5), 'it is damaged' ],
	[ 'with a bit changed in what was learnt', flip(length($right) - 30), 'it is damaged' ],
	[ 'without its last byte', substr($right, 0, -1), 'it is damaged' ],
	[ 'without its half', substr($right, 0, length($right) / 2), 'it is damaged' ],
	[ 'with more behind it', $right . "\0" x 20, 'it is damaged' ],
	[ 'that claims to have all pages there could be', head(32 => pack('Q', ~0)), 'it is damaged' ],
	[ 'with a number of pages that overflows', head(32 => pack('Q', (1 << 62) + $pages)), 'it is damaged' ],
	[ 'that claims to have many tables', head(40 => pack('L', 0xFFFFFFFF)), 'it is damaged' ],
	[ 'whose pages are taken for tables', head(32 => pack('Q', $pages - 3 * 1024), 40 => pack('L', $tables + 1024)), 'it is damaged' ],
	[ 'with a page of another kind', rest(56 + 16, "\x04"), 'it is damaged' ],
	[ 'with a page of more heat than there is', rest(56 + 17, "\x80"), 'it is damaged' ])
{
	my ($what, $bytes, $why) = @$case;
	unlink $file;
	append_to_file($file, '');
	open(my $f, '>:raw', $file) or die $!;
	print $f $bytes;
	close $f;
	$node->start;
	my $log = said_now($node, qr/the hot list.*\n/);
	is(join('|', $log =~ /LOG:  (.*hot list.*)\n/g), "the hot list in file \"mtpower.hot\" is ignored: $why", "a file $what");
	unlike($log, qr/ERROR|WARNING|FATAL/, '... and nothing else is said');
	is(sql('SELECT count(*) FROM mtpower.stat_get_content()') . ' ' . sql($wrong), '0 0', '... nothing is loaded');
	$node->stop;
	is(unpack('Q', slurp_file($file)), unpack('Q', $right), '... and the next one is written');
}
unlink $file;
mkdir $file;
$node->start;
like(said_now($node, qr/the hot list.*\n/), qr/is ignored: it /, 'a directory in its place');
$node->stop;
ok(slurp_file($node->logfile) =~ /LOG:  could not \w+ file .*"mtpower.hot": Is a directory/, 'that it can\'t be replaced is said');
ok(!-e "$file.tmp", 'nothing is left beside it');
rmdir $file;

# Columns that can't be
sub put_back { my ($bytes) = @_; unlink $file; open(my $f, '>:raw', $file) or die $!; print $f $bytes; close $f; return; }
my $first = 56 + 20 * $pages;
put_back(rest($first + 8, pack('s', -5)));
started();
is(learnt(), 'learnt ', 'a column that can\'t be is left out');
$node->stop;
put_back(rest($first + 28, pack('f', 9**9**9)));
started();
is(learnt(), 'learnt ', 'so is a count');

# ---------- another size ----------

$node->stop;
put_back($right);
$node->append_conf('postgresql.conf', "mtpower.buffer_size = 1MB\nwal_level = minimal\nmax_wal_senders = 0");
($loaded, $of) = started();
cmp_ok($loaded, '<', $of, 'a smaller buffer has a part of the pages');
cmp_ok($loaded, '>', 40, '... as many as there is room for');
is(sql($wrong), '0', 'right answers');
is(learnt(), 'learnt {a}', 'and what was learnt');
$node->stop;
put_back($right);
$node->append_conf('postgresql.conf', "mtpower.buffer_size = 16MB\nwal_level = replica\nmax_wal_senders = 5");
my ($more) = started();
cmp_ok($more, '>', $loaded, 'a larger one has all');
$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 0');
$node->restart;
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'mtpower%'}), '0', 'without a buffer there is no process');
$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 8MB');
$node->restart;

# ---------- a crash while it is written ----------

SKIP:
{
	skip 'the server was built without assertions, so without injection points', 6 unless sql('SHOW debug_assertions') eq 'on';
	said_now($node, $there);
	sql(q{SELECT mtpower.warm('t_h')});
	$node->append_conf('postgresql.conf', 'restart_after_crash = off');
	$node->restart;
	($loaded, $of) = said_now($node, $there) =~ $there;
	foreach my $point (qw(half written))
	{
		$was = slurp_file($file);
		sql("ALTER SYSTEM SET mtpower.debug_injection = 'hot_list_$point=panic'", 'ALTER SYSTEM SET mtpower.hot_list_interval = 1', 'SELECT pg_reload_conf()');
		for (1 .. 600) { last if !-e $node->data_dir . '/postmaster.pid'; select(undef, undef, undef, 0.1); }
		$node->{_pid} = undef;
		ok(-e "$file.tmp", "a crash with the list $point") or diag(slurp_file($node->logfile));
		is(slurp_file($file), $was, 'the one before is there');
		unlink $node->data_dir . '/postgresql.auto.conf';
		append_to_file($node->data_dir . '/postgresql.auto.conf', '');
		is(join(' of ', started()), "$loaded of $of", 'and is loaded');
	}
}
$node->stop;

# ---------- standbys, backups ----------

$node->append_conf('postgresql.conf', "restart_after_crash = on");
started();
$content = content($node);
$node->restart;
said_now($node, $there);
$node->backup('copy');
ok(-e $node->backup_dir . '/copy/mtpower.hot', 'a base backup has the list');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'mtpower%'}), '0', 'a standby loads nothing');
$standby->restart;
is($standby->safe_psql('postgres', q{SELECT count(*) FROM mtpower.stat_get_content()}), '0', 'nor after a restart');
unlike(slurp_file($standby->logfile), qr/hot list/, 'its log does not speak of it');
$standby->promote;
like(said_now($standby, $there), $there, 'once it is promoted it does');
ok(content($standby) eq $content, 'the same pages as the primary\'s');
is($standby->safe_psql('postgres', $wrong), '0', 'right answers');
$standby->stop;

# ---------- locks, and commands that want the database ----------

# The loader finds its table locked by a transaction from before: a prepared one
$node->append_conf('postgresql.conf', 'max_prepared_transactions = 5');
sql('CREATE DATABASE other');
$node->safe_psql('other', q{CREATE EXTENSION mtpower; CREATE TABLE o (a int) USING mtpower; INSERT INTO o SELECT g FROM generate_series(1, 5000) g; CREATE INDEX o_a ON o USING mtpower_blink (a)});
$node->restart;
said_now($node, $there);
$node->safe_psql('other', q{SELECT mtpower.warm('o_a'); BEGIN; LOCK TABLE o; PREPARE TRANSACTION 'locked'});
cmp_ok($node->safe_psql('other', q{SELECT count(*) FROM mtpower.stat_get_content()}), '>', 10, 'pages of a table that somebody has locked');
$node->restart;
$node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'other' AND backend_type = 'mtpower hot list loader')}) or die;
my ($rc, $out, $err) = $node->psql('postgres', 'ALTER DATABASE other RENAME TO another');
like($err, qr/1 prepared transaction/, 'a command on the database');
unlike($err, qr/other session/, 'finds that the loader has left');
said_now($node, $there);
$node->safe_psql('other', q{ROLLBACK PREPARED 'locked'});

# A catalog that is locked longer than a loader waits at a time: labels, which say whether a table has directory columns
my $faults = MtpFaults->new($node, 'o');
$node->safe_psql('other', q{SELECT mtpower.set_directory('o', 'a'), mtpower.warm('o'); BEGIN; LOCK TABLE pg_seclabel; PREPARE TRANSACTION 'locked'});
my $directories = q{SELECT sum(frames) FROM mtpower.stat_buffer WHERE kind = 'directory'};
my $before = sql($directories);
$node->restart;
my $waiting = q{FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE backend_type = 'mtpower hot list loader' AND NOT granted AND waitstart};
my $since = $faults->wait_for("SELECT waitstart $waiting IS NOT NULL", 'the loader to wait');
$faults->wait_for("SELECT 1 $waiting > '$since'", 'the loader to come again');
$node->safe_psql('other', q{ROLLBACK PREPARED 'locked'});
unlike(said_now($node, $there), qr/ERROR/, 'a catalog that is locked is waited for');
is(sql($directories), $before, 'and directories are loaded');

# While pages are being loaded the list is written, too: with what the buffer has by then, and what is still to come.
my $of_o = q{SELECT count(*) FROM mtpower.stat_get_content() WHERE relation = 'o'::regclass};
my $all = $node->safe_psql('other', $of_o);
cmp_ok($all, '>', 5, 'directories of a table whose loader will wait');
$node->safe_psql('other', q{BEGIN; LOCK TABLE pg_seclabel; PREPARE TRANSACTION 'locked'});
sql('CREATE TABLE fresh (a int) USING mtpower; INSERT INTO fresh SELECT g FROM generate_series(1, 20000) g; CREATE INDEX fresh_a ON fresh USING mtpower_blink (a)');
$node->restart;
my $stands = "SELECT 1 $waiting IS NOT NULL AND datname = 'other'";
$faults->wait_for($stands, 'the loader to wait');
sql(q{SELECT mtpower.warm('fresh_a')});
$was = (stat $file)[1];
sql('ALTER SYSTEM SET mtpower.hot_list_interval = 1', 'SELECT pg_reload_conf()');
for (1 .. 600) { last if (stat $file)[1] != $was; select(undef, undef, undef, 0.1); }
isnt((stat $file)[1], $was, 'the list is written while pages are being loaded');
$faults->wait_for($stands, 'the loader to wait still');
is($node->safe_psql('other', $of_o), 0, '... some of which are not there yet');
sql('ALTER SYSTEM RESET mtpower.hot_list_interval', 'SELECT pg_reload_conf()');
$node->stop('immediate');
$node->start;
$node->safe_psql('other', q{ROLLBACK PREPARED 'locked'});
like(said_now($node, $there), $there, 'after a crash');
is($node->safe_psql('other', $of_o), $all, '... they are loaded');
cmp_ok(sql(q{SELECT frames_of('fresh_a')}), '>', 20, '... and what was read meanwhile, too');

# CONNECTION LIMIT suffers connections.  FORCE suffers none, and its user need not be a superuser, and
# only a superuser may end a loader.  A session of that user keeps the loader waiting; FORCE finds the
# loader in the queue before that session's transaction ends.
sql(q{CREATE ROLE owner LOGIN}, 'ALTER DATABASE other OWNER TO owner');
$node->safe_psql('other', q{ALTER TABLE o OWNER TO owner; SELECT mtpower.warm('o_a'); BEGIN; LOCK TABLE o; PREPARE TRANSACTION 'locked'});
$node->restart;
my $loader = $faults->wait_for(q{SELECT pid FROM pg_stat_activity WHERE datname = 'other' AND backend_type = 'mtpower hot list loader'}, 'the loader');
sql('ALTER DATABASE other CONNECTION LIMIT 50');
my $holder = $node->background_psql('other', on_error_stop => 0, extra_params => [ '-U', 'owner' ]);
$holder->query_until(qr/begun/, "\\echo begun\nBEGIN; LOCK TABLE o; SELECT pg_sleep(600);\n");
$faults->wait_for(q{SELECT 1 FROM pg_stat_activity WHERE usename = 'owner' AND wait_event_type = 'Lock'}, 'the owner');
$node->safe_psql('other', q{ROLLBACK PREPARED 'locked'});
$faults->wait_for(q{SELECT 1 FROM pg_stat_activity WHERE usename = 'owner' AND wait_event = 'PgSleep'}, 'the lock');
is(sql(q{SELECT pid FROM pg_stat_activity WHERE datname = 'other' AND backend_type = 'mtpower hot list loader'}), $loader, 'the loader stays where a command suffers connections');
($rc, $out, $err) = $node->psql('postgres', 'DROP DATABASE other WITH (FORCE)', extra_params => [ '-U', 'owner' ]);
is("$rc $err", '0 ', 'its owner drops the database by force beside the loader');
eval { $holder->quit };
said_now($node, $there);

# A server that ends while pages are being loaded leaves the list as it is.
sql(q{BEGIN; LOCK TABLE t; PREPARE TRANSACTION 'locked'});
$node->restart;
$was = slurp_file($file);
$node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'mtpower hot list loader')}) or die;
$node->restart;
is(slurp_file($file), $was, 'a server that ends before all is loaded does not write the list');
sql(q{ROLLBACK PREPARED 'locked'});
like(said_now($node, $there), $there, 'a table that is locked is waited for');
cmp_ok(sql(q{SELECT frames_of('t_a')}), '>', 10, 'and loaded');
is(sql($wrong), '0', 'right answers');
$node->stop;
unlike(slurp_file($_->logfile), qr/TRAP/, 'the log is clean') foreach $node, $standby;

# ---------- with a file of frames ----------

SKIP:
{
	skip 'mtpower was built without libpmem', 4 if !have_libpmem();
	my $dir = home_dir(1) or skip 'there is no tmpfs to write to', 4;
	my $home = home_server('home', "$dir/$$.frames", "mtpower.hot_list = on\nmtpower.buffer_size = 8MB\n");
	$home->start;
	loaded($home);
	$home->safe_psql('postgres', q{SELECT mtpower.set_directory('t', 'v'), mtpower.warm('t')});
	my $before = content($home);
	$home->restart;
	my $log = said_now($home, $there);
	my ($taken) = $log =~ /took (\d+) of/;
	is(join(' ', $log =~ $there), join(' ', ($log =~ $there)[1, 1]), 'beside frames that are taken over');
	is($home->safe_psql('postgres', q{SELECT string_agg(kind, ',' ORDER BY kind) FROM mtpower.stat_buffer WHERE published > 0}), 'directory', '... only directories are made anew');
	is(content($home), $before, '... and all is there');
	is($home->safe_psql('postgres', 'SELECT wrong()'), '', '... right answers');
	$home->stop;
}

done_testing();
