# MtpBackup: clients that write to a journal what was acknowledged and at which LSN, for a copy of the server to be judged by; copies of
# data directories; and what must hold of every copy: rows, indexes sound, valid, and of use.
package MtpBackup;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

our @EXPORT = qw(backup_schema dump_schema fill_sql uses_sql contents same_contents indexes_serve same_pages copy_cluster lsn_cmp log_is_quiet);

my $ours = q{(SELECT oid FROM pg_am WHERE amname IN ('mtpower_blink', 'mtpower_hash'))};

# Two tables with eight indexes.  The first table and half of the indexes are in the tablespace, if one is given.
sub backup_schema
{
	my ($space) = @_;
	my $in = $space ? "TABLESPACE $space" : '';
	return uses_sql() . qq{
CREATE EXTENSION mtpower;
CREATE TABLE fed (load int, k int, txt text, ver int DEFAULT 0) USING mtpower $in;
CREATE TABLE kept (load int, k int, txt text, ver int DEFAULT 0) USING heap;
CREATE INDEX fed_k ON fed USING mtpower_blink (k) $in;
CREATE INDEX fed_txt ON fed USING mtpower_blink (txt COLLATE "C" DESC) INCLUDE (k);
CREATE INDEX fed_load ON fed USING mtpower_hash (load, k) WITH (initial_buckets = 1) $in;
CREATE INDEX fed_h ON fed USING mtpower_hash (txt);
CREATE INDEX kept_load ON kept USING mtpower_blink (load) WHERE k % 3 = 0;
CREATE INDEX kept_ver ON kept USING mtpower_blink (ver, k) $in;
CREATE INDEX kept_k ON kept USING mtpower_hash (k) WITH (initial_buckets = 1) $in;
CREATE INDEX kept_lower ON kept USING mtpower_hash (lower(txt));
};
}

# What a dump has beside it, for a role `plain` and the extension citext: operator classes of users, unlogged, partitioned and
# materialized tables; eleven indexes more.
sub dump_schema
{
	return q{
	CREATE SCHEMA app AUTHORIZATION plain;
	CREATE TYPE app.num;
	CREATE FUNCTION app.num_in(cstring) RETURNS app.num LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
	CREATE FUNCTION app.num_out(app.num) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
	CREATE TYPE app.num (INPUT = app.num_in, OUTPUT = app.num_out, LIKE = int4);
	CREATE FUNCTION app.eq(app.num, app.num) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4eq';
	CREATE FUNCTION app.lt(app.num, app.num) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4lt';
	CREATE FUNCTION app.gt(app.num, app.num) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int4gt';
	CREATE FUNCTION app.cmp(app.num, app.num) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
	CREATE FUNCTION app.hash(app.num) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'hashint4';
	CREATE OPERATOR public.= (LEFTARG = app.num, RIGHTARG = app.num, FUNCTION = app.eq, HASHES, MERGES);
	CREATE OPERATOR public.< (LEFTARG = app.num, RIGHTARG = app.num, FUNCTION = app.lt);
	CREATE OPERATOR public.> (LEFTARG = app.num, RIGHTARG = app.num, FUNCTION = app.gt);
	CREATE OPERATOR CLASS app.num_ops DEFAULT FOR TYPE app.num USING btree AS OPERATOR 1 <, OPERATOR 3 =, OPERATOR 5 >, FUNCTION 1 app.cmp(app.num, app.num);
	CREATE OPERATOR CLASS app.num_ops DEFAULT FOR TYPE app.num USING hash AS OPERATOR 1 =, FUNCTION 1 app.hash(app.num);
	ALTER OPERATOR CLASS app.num_ops USING btree OWNER TO plain;
	SELECT FROM mtpower.sync_opclasses();
	CREATE TABLE words (a int PRIMARY KEY, c citext, n app.num) USING mtpower;
	CREATE INDEX words_c ON words USING mtpower_blink (c) INCLUDE (n);
	CREATE INDEX words_hc ON words USING mtpower_hash (c, a);
	CREATE INDEX words_n ON words USING mtpower_blink (n DESC) WITH (fillfactor = 70);
	CREATE INDEX words_hn ON words USING mtpower_hash (n) WITH (fillfactor = 60, initial_buckets = 3);
	INSERT INTO words SELECT i, 'Word ' || i, i::text::app.num FROM generate_series(1, 3000) i;
	CREATE UNLOGGED TABLE brief (k int) USING mtpower;
	CREATE INDEX brief_k ON brief USING mtpower_blink (k);
	CREATE INDEX brief_h ON brief USING mtpower_hash (k);
	INSERT INTO brief SELECT generate_series(1, 1000);
	CREATE TABLE parted (load int, k int) PARTITION BY RANGE (load);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10) USING mtpower;
	CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20) USING heap;
	CREATE INDEX parted_k ON parted USING mtpower_blink (k);
	CREATE INDEX parted_h ON parted USING mtpower_hash (k);
	INSERT INTO parted SELECT i % 20, i FROM generate_series(1, 4000) i;
	CREATE MATERIALIZED VIEW mv USING mtpower AS SELECT k, txt FROM fed WHERE k % 2 = 0;
	CREATE INDEX mv_k ON mv USING mtpower_blink (k);
	DELETE FROM fed WHERE k % 3 = 0;
	REFRESH MATERIALIZED VIEW mv;
	VACUUM;
	ANALYZE};
}

# A load of n rows with a number, by COPY into the one table and from there into the other.
sub fill_sql
{
	my ($load, $n) = @_;
	return qq{COPY fed (load, k, txt) FROM PROGRAM 'awk "BEGIN { srand($load); for (i = 0; i < $n; i++) { k = int(rand() * 100000000); print $load \\"\\t\\" k \\"\\tt\\" k * 7 } }"';
		INSERT INTO kept (load, k, txt) SELECT load, k, txt FROM fed WHERE load = $load;
	};
}

# uses(index): raises an error if rows looked up by the index, and by it alone, are not those that the table has, or if the planner does not take it.
sub uses_sql
{
	return q{
CREATE FUNCTION uses_look(q text, OUT n bigint, OUT plan text) LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	EXECUTE q INTO n;
	plan := '';
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || q LOOP plan := plan || line || E'\n'; END LOOP;
END $$;
CREATE FUNCTION uses(i regclass) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	x pg_index; t regclass; keys text[]; cond text; pred text; q text; looked int := 0; want bigint; got record; sample record;
BEGIN
	SELECT * INTO x FROM pg_index WHERE indexrelid = i;
	t := x.indrelid;
	IF NOT x.indisvalid OR NOT x.indisready THEN RAISE 'index % is not valid', i; END IF;
	SELECT array_agg(pg_get_indexdef(i, n, false) ORDER BY n) INTO keys FROM generate_series(1, x.indnkeyatts) n;
	pred := coalesce(pg_get_expr(x.indpred, t), 'true');
	FOR sample IN EXECUTE format('SELECT ARRAY[%s]::text[] AS v FROM (SELECT * FROM %s WHERE %s AND (%s) IS NOT NULL LIMIT 200) s LIMIT 2',
		(SELECT string_agg(format('(%s)::text', k), ', ') FROM unnest(keys) k), t, pred, array_to_string(keys, ') IS NOT NULL AND ('))
	LOOP
		SELECT string_agg(format('%s = %L', k, sample.v[n]), ' AND ') INTO cond FROM unnest(keys) WITH ORDINALITY u(k, n);
		q := format('SELECT count(*) FROM %s WHERE %s AND %s', t, cond, pred);
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
			set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
		want := (uses_look(q)).n;
		BEGIN
			UPDATE pg_index SET indisvalid = false WHERE indrelid = t AND indexrelid <> i;
			PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true),
				set_config('enable_indexonlyscan', 'on', true), set_config('enable_bitmapscan', 'on', true);
			SELECT * INTO got FROM uses_look(q);
			RAISE SQLSTATE 'MTP01';		-- takes the UPDATE back
		EXCEPTION WHEN SQLSTATE 'MTP01' THEN NULL;
		END;
		IF got.n <> want OR want = 0 THEN RAISE 'index %: % rows, the table has %: %', i, got.n, want, q; END IF;
		IF got.plan !~ ('\m' || (SELECT relname FROM pg_class WHERE oid = i) || '\M') THEN RAISE E'index % is not used:\n%', i, got.plan; END IF;
		looked := looked + 1;
	END LOOP;
	RETURN looked;
END $$;
};
}

# ---------- what is there ----------

# Rows of all user tables, as the tables themselves have them: "table count digest".
sub contents
{
	my ($node, $db) = @_;
	$db //= 'postgres';
	my @tables = split /\n/, $node->safe_psql($db, q{SELECT oid::regclass FROM pg_class WHERE relkind IN ('r', 'm') AND relpersistence = 'p'
		AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) ORDER BY relname COLLATE "C"});
	my $sql = 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;';
	$sql .= "SELECT '$_', count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM $_ t;" foreach @tables;
	return $node->safe_psql($db, $sql);
}

sub same_contents
{
	my ($node, $expected, $what, $db) = @_;
	is(contents($node, $db), $expected, "$what: rows");
	return;
}

# Every index of ours is valid, agrees with its table, and is of use; fewer than `least` are wrong.  On a standby that can't be asked of the planner.
sub indexes_serve
{
	my ($node, $what, $least, $db) = @_;
	my ($out, $err);
	my $rc = $node->psql($db // 'postgres', qq{SELECT mtpower.verify_index(c.oid, true) FROM pg_class c WHERE c.relam IN $ours AND c.relkind = 'i'
			AND (c.relpersistence = 'p' OR NOT pg_is_in_recovery());
		SELECT sum(CASE WHEN pg_is_in_recovery() THEN 1 ELSE uses(c.oid) END) IS NOT NULL, count(*) FROM pg_class c WHERE c.relam IN $ours AND c.relkind = 'i'},
		stdout => \$out, stderr => \$err);
	is("$rc $err", '0 ', "$what: every index is sound, valid and of use");
	my ($n) = $out =~ /^t\|(\d+)$/m;
	cmp_ok($n // 0, '>=', $least, "$what: so many of them");
	return;
}

# What page_info shows of all pages, without hints: two servers that replayed the same must agree.
sub same_pages
{
	my ($one, $other, $what) = @_;
	my $sql = qq{SELECT c.relname, b, p.type, p.level, p.items, p."left", p."right", p.high_key, (SELECT string_agg(f, ' ') FROM unnest(p.flags) f WHERE f !~ '^entries='), p.lsn
		FROM pg_class c, generate_series(0, pg_relation_size(c.oid) / current_setting('block_size')::int - 1) b, mtpower.page_info(c.oid, b) p
		WHERE c.relam IN $ours AND c.relkind = 'i' AND c.relpersistence = 'p' ORDER BY c.relname COLLATE "C", b};
	my @pages = map { [ split /\n/, $_->safe_psql('postgres', $sql) ] } $one, $other;
	my @wrong = grep { ($pages[0][$_] // '') ne ($pages[1][$_] // '') } 0 .. ($#{ $pages[0] } > $#{ $pages[1] } ? $#{ $pages[0] } : $#{ $pages[1] });
	is(join("\n", map { ($pages[0][$_] // '-') . "\n" . ($pages[1][$_] // '-') } splice(@wrong, 0, 5)), '', "$what: pages of indexes are the same");
	cmp_ok(scalar @{ $pages[0] }, '>', 20, "$what: so many pages");
	return;
}

sub log_is_quiet
{
	my ($node) = @_;
	unlike(slurp_file($node->logfile), qr/TRAP|PANIC|inconsistent page|invalid page|verification failed|terminated by signal [^39]|WARNING:  .*(leak|still)/, 'the log is clean: ' . $node->name);
	return;
}

sub lsn_cmp
{
	my ($x, $y) = map { my ($hi, $lo) = split m{/}; hex($hi) * 2**32 + hex($lo) } @_;
	return $x <=> $y;
}

# ---------- copies ----------

# Makes a node's data directory a copy of another directory, and what its tablespaces lead to copies as well.
sub copy_cluster
{
	my ($node, $from) = @_;
	my $to = $node->data_dir;
	rmdir($to);
	system_or_bail('cp', '-a', $from, $to);
	chmod(0700, $to);
	foreach my $link (glob("$to/pg_tblspc/*"))
	{
		my $dir = $node->basedir . '/space_' . ($link =~ s{.*/}{}r);
		system_or_bail('cp', '-a', readlink($link) . '/', $dir);
		unlink($link);
		symlink($dir, $link) or die "symlink: $!";
	}
	mkdir($node->archive_dir);
	mkdir($node->backup_dir);
	$node->append_conf('postgresql.conf', "port = " . $node->port . "\nunix_socket_directories = '" . $node->host . "'\nlisten_addresses = ''\n");
	return;
}

# ---------- clients ----------

# A client's journal has lines "try LOAD STATE" and "ack LSN"; a load's state is "rows in fed, rows in kept, sum of ver in kept".
# %before: the states of loads that are there already.
sub new
{
	my ($class, $node, $clients, %before) = @_;
	return bless { node => $node, clients => $clients, before => \%before, round => 0, dir => PostgreSQL::Test::Utils::tempdir, pids => [] }, $class;
}

sub journal { my ($self, $client) = @_; return "$self->{dir}/journal.$client"; }

# Runs statements, each of its own, and returns the output of the last; undef if the server went away.
sub run_sql
{
	my ($self, $client, @sql) = @_;
	my $err = "$self->{dir}/err.$client";
	unlink($err);
	open(my $psql, '-|', 'sh', '-c', 'exec "$@" 2>"$0"', $err, 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $self->{node}->connstr('postgres'), map { ('-c', $_) } @sql)
	  or die "psql: $!";
	my ($out) = reverse <$psql>;
	return $out // '' if close($psql);
	my $text = slurp_file($err);
	return undef if $text =~ /server closed|terminating connection|connection to server|the database system is|connection not open/;
	die $text;
}

# Loads, updates and deletions at random, each a transaction.
sub client
{
	my ($self, $client) = @_;
	my (%state, @loads);
	while (!-e "$self->{dir}/stop")
	{
		my $what = @loads < 2 ? 0 : int(rand(6));
		my $load = $what < 3 ? $client * 100000 + $self->{round} * 1000 + @loads : $loads[ rand(@loads) ];
		my $rows = 100 + int(rand(1200));
		my @new = $state{$load} ? @{ $state{$load} } : ($rows, $rows, 0);
		my $sql = fill_sql($load, $rows);
		if ($what == 3)
		{
			$sql = "UPDATE kept SET ver = ver + 1, k = k + 1 WHERE load = $load";
			$new[2] += $new[1];
		}
		elsif ($what == 4)
		{
			$sql = "DELETE FROM fed WHERE load = $load; UPDATE kept SET txt = txt || 'x' WHERE load = $load";
			$new[0] = 0;
		}
		elsif ($what == 5)
		{
			$sql = "SAVEPOINT s; UPDATE fed SET k = -k WHERE load = $load; ROLLBACK TO s; DELETE FROM kept WHERE load = $load";
			@new[ 1, 2 ] = (0, 0);
		}
		append_to_file($self->journal($client), "try $load @new\n");
		my $lsn = $self->run_sql($client, "BEGIN; $sql; COMMIT", 'SELECT pg_current_wal_insert_lsn()') // return;
		append_to_file($self->journal($client), "ack $lsn");
		push @loads, $load if $what < 3;
		$state{$load} = [@new];
	}
	return;
}

sub vacuum
{
	my ($self) = @_;
	while (!-e "$self->{dir}/stop")
	{
		$self->run_sql('vacuum', 'VACUUM (INDEX_CLEANUP on) fed', 'VACUUM (INDEX_CLEANUP on) kept', 'CHECKPOINT') // return;
		append_to_file($self->journal('vacuum'), "vacuum\n");
	}
	return;
}

sub start
{
	my ($self) = @_;
	$self->{round}++;
	unlink("$self->{dir}/stop");
	append_to_file($self->journal($_), '') foreach 1 .. $self->{clients}, 'vacuum';
	foreach my $client (1 .. $self->{clients}, 'vacuum')
	{
		my $seed = int(rand(2**31));
		my $pid = fork();
		die "fork: $!" if !defined $pid;
		if ($pid == 0)
		{
			srand($seed);
			eval { $client eq 'vacuum' ? $self->vacuum : $self->client($client); };
			append_to_file("$self->{dir}/failed", "$client: $@") if $@;
			require POSIX;
			POSIX::_exit(0);
		}
		push @{ $self->{pids} }, $pid;
	}
	return;
}

# How many operations were acknowledged so far; and VACUUMs.
sub acknowledged { my ($self) = @_; return scalar(() = map { slurp_file($self->journal($_)) =~ /^ack/mg } 1 .. $self->{clients}); }
sub vacuums { my ($self) = @_; return scalar(() = slurp_file($self->journal('vacuum')) =~ /^vacuum/mg); }

# Waits until so many more were.
sub wait_for_operations
{
	my ($self, $operations, $vacuums) = @_;
	my ($acks, $vacuumed) = ($self->acknowledged + $operations, $self->vacuums + $vacuums);
	for (my $tries = 0; $tries < 6000; $tries++)
	{
		return if $self->acknowledged >= $acks && $self->vacuums >= $vacuumed;
		die slurp_file("$self->{dir}/failed") if -e "$self->{dir}/failed";
		sleep(0.02);
	}
	die 'the clients do not get on';
}

# Ends the clients; they have ended by themselves if the server is gone.
sub stop
{
	my ($self) = @_;
	append_to_file("$self->{dir}/stop", '');
	waitpid($_, 0) foreach @{ $self->{pids} };
	$self->{pids} = [];
	ok(!-e "$self->{dir}/failed", 'no operation failed') or diag(slurp_file("$self->{dir}/failed"));
	return;
}

# A copy that ends at the LSN `to` (or with the journals): what was acknowledged by then is there, what was begun after it is not, and one
# operation of each client may be.  Returns how many operations were acknowledged behind the LSN `from`.
sub judge
{
	my ($self, $node, $from, $to, $what) = @_;
	my (%maybe, %by, @wrong);
	my %state = %{ $self->{before} };
	my $between = 0;
	foreach my $client (1 .. $self->{clients})
	{
		my @try;
		foreach my $line (split /\n/, slurp_file($self->journal($client)))
		{
			my ($word, @rest) = split / /, $line;
			if ($word eq 'try') { @try = @rest; next; }
			last if $to && lsn_cmp($rest[0], $to) > 0;
			$between++ if $from && lsn_cmp($rest[0], $from) > 0;
			my $load = shift @try;
			$state{$load} = "@try";
			@try = ();
		}
		next if !@try;
		my $load = shift @try;
		$maybe{$load} = "@try";
		$by{$load} = $client;
	}
	my %is = map { my ($load, @is) = split /\|/; ($load => "@is") } split /\n/, $node->safe_psql('postgres', q{
		SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;
		SELECT load, sum(f), sum(o), sum(v) FROM (SELECT load, 1 AS f, 0 AS o, 0 AS v FROM fed UNION ALL SELECT load, 0, 1, ver FROM kept) x GROUP BY load});
	my %loads = (%is, %state, %maybe);
	foreach my $load (sort keys %loads)
	{
		my ($want, $is) = ($state{$load} // '0 0 0', $is{$load} // '0 0 0');
		push @wrong, "load $load is $is, acknowledged is $want, perhaps " . ($maybe{$load} // $want) if $is ne $want && $is ne ($maybe{$load} // $want);
		# From now on it is as it is.
		append_to_file($self->journal($by{$load}), "try $load $is\nack 0/0\n") if !$to && $by{$load};
	}
	is(join("\n", splice(@wrong, 0, 10)), '', "$what: what was acknowledged is there, and nothing else");
	return $between;
}

1;
