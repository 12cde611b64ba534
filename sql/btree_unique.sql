-- Unique indexes in batches: each conflict is found before its statement ends, where heap finds it or where a handler expects it.
SET mtpower.batching = on;
CREATE SCHEMA twin;
CREATE SCHEMA twin_heap;
SET search_path = twin, public;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
RESET client_min_messages;
SELECT make_both('u (id int PRIMARY KEY, a int, b text, v int)', 'CREATE UNIQUE INDEX u_a ON %s (a)',
	'CREATE UNIQUE INDEX u_b ON %s (lower(b), v) WHERE v > 0', 'CREATE INDEX u_v ON %s (v)');
SELECT on_both('INSERT INTO u SELECT i, -i, ''T'' || i, 1 FROM generate_series(1, 3000) i');

-- Within the batch, against the index, with a row of the statement that went in at once; of each kind of index
SELECT on_both('INSERT INTO u SELECT CASE i WHEN 2500 THEN 4000 ELSE i + 3000 END FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u SELECT CASE i WHEN 2500 THEN 17 ELSE i + 3000 END FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u SELECT CASE i WHEN 2500 THEN 3001 ELSE i + 3000 END FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u SELECT i + 3000, CASE i WHEN 1000 THEN -2 ELSE -i - 3000 END FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u SELECT i + 3000, -i - 3000, ''t'' || CASE i WHEN 1000 THEN 7 ELSE i + 3000 END, 1 FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u SELECT i + 3000, -i - 3000, ''t'' || CASE i WHEN 1000 THEN 7 ELSE i + 3000 END, 0 FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u SELECT i + 6000, NULL, NULL, 5 FROM generate_series(1, 2000) i');
SELECT on_both('UPDATE u SET id = id + 1');
SELECT on_both('UPDATE u SET id = -id');
SELECT on_both('UPDATE u SET id = -id');
SELECT same('u');
COPY u (id) FROM PROGRAM 'seq 9000 12000; echo 12000';
COPY u (id) FROM PROGRAM 'seq 9000 12000; echo 42; seq 12001 14000';
SELECT same('u');

-- Keys that the transaction has deleted or moved
BEGIN;
SELECT on_both('DELETE FROM u WHERE id <= 3000');
SELECT on_both('INSERT INTO u SELECT i, -i FROM generate_series(1, 3000) i');
SELECT on_both('UPDATE u SET id = id + 100000 WHERE id <= 1000');
SELECT on_both('INSERT INTO u SELECT i FROM generate_series(1, 1000) i');
SELECT on_both('INSERT INTO u SELECT i FROM generate_series(100001, 100500) i');
SAVEPOINT s;
SELECT on_both('DELETE FROM u WHERE id BETWEEN 100000 AND 100600');
ROLLBACK TO s;
SELECT on_both('INSERT INTO u SELECT i FROM generate_series(100001, 100500) i');
COMMIT;
SELECT same('u');

-- A handler swallows the error that a look at the index raises: the statement fails all the same.
CREATE FUNCTION peek(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF i % 1000 = 0 THEN
		BEGIN
			PERFORM count(*) FROM u WHERE id BETWEEN 1 AND 5;
		EXCEPTION WHEN unique_violation THEN
			RAISE WARNING 'caught %', SQLERRM;
		END;
	END IF;
	RETURN 0;
END $$;
SET jit = off;	-- a disabled scan costs so much that each statement would be compiled
SET enable_seqscan = off;
SELECT on_both('INSERT INTO u (id, v) SELECT CASE i WHEN 300 THEN 5 ELSE i + 20000 END, peek(i) FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u (id, v) SELECT i + 20000, peek(i) FROM generate_series(1, 3000) i');
SELECT same('u');

-- Statements within the statement: they conflict with rows that it has queued, and it with theirs.
CREATE FUNCTION also(i int, other int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF i = 2000 THEN
		BEGIN
			INSERT INTO u VALUES (other);
		EXCEPTION WHEN unique_violation THEN
			INSERT INTO u VALUES (-1000000 - other);
		END;
	END IF;
	RETURN 0;
END $$;
SELECT on_both('INSERT INTO u (id, v) SELECT i + 30000, also(i, 30500) FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u (id, v) SELECT i + 40000, also(i, 42900) FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u (id, v) SELECT i + 40000, also(i, 39999) FROM generate_series(1, 3000) i');
SELECT same('u');
SELECT id FROM u WHERE id < -1000000;
CREATE FUNCTION also_many(i int, other int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF i = 2000 THEN
		BEGIN
			INSERT INTO u SELECT g FROM generate_series(other, other + 2000) g;
		EXCEPTION WHEN unique_violation THEN
			INSERT INTO u SELECT g FROM generate_series(other + 10000, other + 12000) g;
		END;
	END IF;
	RETURN 0;
END $$;
SELECT on_both('INSERT INTO u (id, v) SELECT i + 50000, also_many(i, 51000) FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u (id, v) SELECT i + 70000, also_many(i, 72500) FROM generate_series(1, 3000) i');
SELECT on_both('WITH w AS (INSERT INTO u SELECT i + 80000 FROM generate_series(1, 2000) i RETURNING id) INSERT INTO u SELECT id + 1000 FROM w');
SELECT on_both('WITH w AS (INSERT INTO u SELECT i + 80000 FROM generate_series(1, 2000) i RETURNING id) INSERT INTO u SELECT id + 2000 FROM w');
SELECT same('u');

-- A function deletes or changes a row with a conflict: heap has complained by then.
CREATE FUNCTION meddle(i int, cmd text) RETURNS int LANGUAGE plpgsql VOLATILE SET enable_indexscan = off SET enable_seqscan = on AS $$
BEGIN
	IF i = 2000 THEN
		EXECUTE cmd;
	END IF;
	RETURN 0;
END $$;
SELECT on_both('INSERT INTO u (id, a, v) SELECT i + 300000, CASE i WHEN 1000 THEN -3500 END, meddle(i, ''DELETE FROM u WHERE id = 301000'') FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u (id, a, v) SELECT i + 300000, CASE i WHEN 1000 THEN -3500 END, meddle(i, ''UPDATE u SET a = NULL WHERE id = 301000'') FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u (id, a, v) SELECT i + 300000, CASE i WHEN 1000 THEN -3500 END, meddle(i, ''DELETE FROM u WHERE id = 999'') FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO u (id, a, v) SELECT i + 300000, CASE i WHEN 1000 THEN -300001 END, meddle(i, ''DELETE FROM u WHERE id = 301000'') FROM generate_series(1, 3000) i');
SELECT same('u');

-- A conflict is found soon, in the function that handles it, and its context is that of core.
SELECT on_both('INSERT INTO u SELECT CASE i WHEN 300 THEN 400299 ELSE i + 400000 END FROM generate_series(1, 200000) i');
SELECT pg_relation_size('u') < pg_relation_size('twin_heap.u') + 2000000 AS few_dead_rows;
CREATE FUNCTION told(OUT message text, OUT context text) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO u SELECT 5 FROM generate_series(1, 2000) i;
EXCEPTION WHEN unique_violation THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, context = PG_EXCEPTION_CONTEXT;
END $$;
SET mtpower.batch_min_rows = 0;
SELECT * FROM told();
-- Another user's function brings the error up, and sees no values.
CREATE ROLE regress_btree;
CREATE FUNCTION spy(i int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE message text; detail text;
BEGIN
	IF i % 1000 = 0 THEN
		BEGIN
			SET LOCAL application_name = 'spy';
		EXCEPTION WHEN unique_violation THEN
			GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
			RAISE WARNING '% sees "%", "%"', current_user, message, detail;
		END;
	END IF;
	RETURN 0;
END $$;
ALTER FUNCTION spy OWNER TO regress_btree;
GRANT USAGE ON SCHEMA twin TO regress_btree;
INSERT INTO u (id, v) SELECT CASE i WHEN 700 THEN 500001 ELSE 500000 + i END, spy(i) FROM generate_series(1, 2500) i;
RESET mtpower.batch_min_rows;
DROP FUNCTION spy;
REVOKE USAGE ON SCHEMA twin FROM regress_btree;
DROP ROLE regress_btree;
SELECT same('u');

-- ON CONFLICT, with rows that conflict with the table's and with the statement's own
SELECT on_both('INSERT INTO u SELECT i FROM generate_series(2001, 150000, 50) i ON CONFLICT DO NOTHING');
SELECT on_both('INSERT INTO u SELECT i, NULL, ''x'', 9 FROM generate_series(1001, 160000, 50) i ON CONFLICT (id) DO UPDATE SET v = u.v + 1');
SELECT on_both('INSERT INTO u SELECT i % 2000 + 200000 FROM generate_series(1, 4000) i ON CONFLICT (id) DO UPDATE SET v = 3');
SELECT same('u');

-- Of an upsert the entries of all indexes are queued but for unique ones.
SELECT make_both('up (id int PRIMARY KEY, a int, b text, c int UNIQUE)', 'CREATE INDEX up_a ON %s (a)', 'CREATE INDEX up_b ON %s USING mtpower_blink (b)',
	'CREATE INDEX up_h ON %s USING mtpower_hash (b, a)', 'CREATE INDEX up_n ON %s (b, a)');
SELECT on_both('INSERT INTO up SELECT i * 10, i, ''old'' || i, i FROM generate_series(1, 500) i');
SELECT mtpower.stat_reset('batches');
SELECT on_both('INSERT INTO up SELECT i, -i, ''new'' || i FROM generate_series(1, 5000) i ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = up.b || ''+''');
SELECT same('up'), verify('twin.up');
SELECT * FROM queued('up');
SELECT on_both('INSERT INTO up SELECT i, -i, ''newer'' || i, i FROM generate_series(4001, 9000) i ON CONFLICT DO NOTHING');
SELECT on_both('INSERT INTO up SELECT i, -i, ''newer'' || i, i - 10000 FROM generate_series(9001, 14000) i ON CONFLICT (id) DO NOTHING');
SELECT on_both('INSERT INTO up SELECT i, -i, ''newer'' || i, CASE i WHEN 15000 THEN 5 ELSE i END FROM generate_series(14001, 19000) i ON CONFLICT (id) DO NOTHING');
SELECT same('up'), verify('twin.up');

-- NULLS NOT DISTINCT, INCLUDE, exclusion, deferred constraints
SELECT make_both('n (a int, b int, c int, UNIQUE NULLS NOT DISTINCT (a, b) INCLUDE (c))', 'CREATE UNIQUE INDEX n_c ON %s (c) NULLS NOT DISTINCT');
SELECT on_both('INSERT INTO n SELECT nullif(i % 50, 0), nullif(i / 50, 0), i FROM generate_series(1, 2499) i');
SELECT on_both('INSERT INTO n SELECT i + 50, NULL, CASE i WHEN 900 THEN NULL ELSE i + 5000 END FROM generate_series(1, 1000) i');
SELECT on_both('INSERT INTO n SELECT i + 5000, i, CASE WHEN i < 999 THEN i + 6000 END FROM generate_series(1, 1000) i');
SELECT on_both('INSERT INTO n SELECT nullif(i, 700), CASE i WHEN 900 THEN NULL ELSE i + 5000 END, i + 7000 FROM generate_series(1, 1000) i');
SELECT same('n');
SELECT make_both('x (a int, EXCLUDE USING btree (a WITH =))', 'ALTER TABLE %s ADD b int UNIQUE DEFERRABLE INITIALLY DEFERRED');
SELECT on_both('INSERT INTO x SELECT i, i FROM generate_series(1, 1000) i');
SELECT on_both('INSERT INTO x SELECT CASE i WHEN 700 THEN 1701 ELSE i + 1000 END, -i FROM generate_series(1, 1000) i');
SELECT on_both('SET CONSTRAINTS ALL DEFERRED; INSERT INTO x SELECT i + 1000, CASE i WHEN 700 THEN 701 ELSE -i END FROM generate_series(1, 1000) i; SET CONSTRAINTS ALL IMMEDIATE');
SELECT on_both('SET CONSTRAINTS ALL DEFERRED; INSERT INTO x SELECT i + 1000, i + 500 FROM generate_series(1, 1000) i; UPDATE x SET b = b + 3000 WHERE a > 1000; SET CONSTRAINTS ALL IMMEDIATE');
SELECT same('x');

-- Foreign keys: to a loaded table, from one, and a table that refers to itself
SELECT make_both('p (id int PRIMARY KEY)');
CREATE TABLE f (id int PRIMARY KEY, p int REFERENCES p) USING mtpower;
CREATE TABLE twin_heap.f (id int PRIMARY KEY, p int REFERENCES twin_heap.p) USING heap;
CREATE INDEX ON f (p);
CREATE INDEX ON twin_heap.f (p);
SELECT on_both('WITH w AS (INSERT INTO p SELECT i FROM generate_series(1, 2000) i RETURNING id) INSERT INTO f SELECT id, id FROM w');
SELECT on_both('INSERT INTO f SELECT i, i FROM generate_series(2001, 3000) i');
SELECT on_both('INSERT INTO p SELECT i FROM generate_series(2001, 3000) i');
SELECT on_both('INSERT INTO f SELECT i, i FROM generate_series(2001, 3000) i');
SELECT on_both('DELETE FROM p WHERE id = 2500');
SELECT same('f');
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE) USING mtpower;
CREATE TABLE twin_heap.tree (id int PRIMARY KEY, up int REFERENCES twin_heap.tree ON DELETE CASCADE) USING heap;
SELECT on_both('INSERT INTO tree SELECT i, nullif(i / 2, 0) FROM generate_series(1, 3000) i');
SELECT on_both('INSERT INTO tree SELECT i, CASE i WHEN 5000 THEN 9999 ELSE i / 2 END FROM generate_series(3001, 6000) i');
COPY tree FROM PROGRAM 'seq -f "%.0f	7" 3001 6000';
COPY tree FROM PROGRAM 'seq -f "%.0f	8000" 6001 7999';
COPY tree FROM PROGRAM 'seq -f "%.0f	8000" 6001 8000';
SELECT on_both('DELETE FROM tree WHERE id = 7');
SELECT count(*), bt_index_parent_check('tree_pkey', true, true) FROM tree;

-- AFTER triggers look at the rows of their statement; one of them inserts, and finds a conflict.
SELECT make_both('t (id int PRIMARY KEY, a int)', 'CREATE INDEX t_a ON %s (a)');
CREATE FUNCTION after_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
	EXECUTE format('SELECT count(*) FROM %I.t WHERE id = $1 AND a >= 0', TG_TABLE_SCHEMA) INTO n USING NEW.id;
	IF n <> 1 THEN RAISE EXCEPTION 'lost %', NEW.id; END IF;
	IF NEW.id = 500 THEN
		BEGIN
			EXECUTE format('INSERT INTO %I.t VALUES (501, -1)', TG_TABLE_SCHEMA);
		EXCEPTION WHEN unique_violation THEN
			EXECUTE format('INSERT INTO %I.t VALUES (-501, 1)', TG_TABLE_SCHEMA);
		END;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER after_row AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION after_row();
CREATE TRIGGER after_row AFTER INSERT ON twin_heap.t FOR EACH ROW EXECUTE FUNCTION after_row();
SELECT on_both('INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i');
SELECT same('t');
COPY t FROM PROGRAM 'seq -f "%.0f	1" 1001 2000';
COPY t FROM PROGRAM 'seq -f "%.0f	1" 2001 3000; echo "1500	1"';
SELECT count(*), bt_index_parent_check('t_pkey', true, true) FROM t;

-- A COPY that fires AFTER triggers checks each row at once: they see no row that conflicts.
CREATE SEQUENCE fired;
CREATE FUNCTION count_calls() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM nextval(''fired''); RETURN NULL; END';
CREATE TABLE v (id int PRIMARY KEY) USING mtpower;
CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10000) USING mtpower;
CREATE TRIGGER calls AFTER INSERT ON v FOR EACH ROW EXECUTE FUNCTION count_calls();
CREATE TRIGGER calls AFTER INSERT ON parts FOR EACH STATEMENT EXECUTE FUNCTION count_calls();
COPY v FROM PROGRAM 'seq 1 500; echo 7';
COPY parts FROM PROGRAM 'seq 1 500; echo 7';
INSERT INTO v SELECT i % 500 FROM generate_series(1, 1000) i;
INSERT INTO parts SELECT i % 500 FROM generate_series(1, 1000) i;
SELECT is_called FROM fired;
COPY v FROM PROGRAM 'seq 1 500';
SELECT last_value, bt_index_parent_check('v_pkey', true, true) FROM fired;

-- Under SERIALIZABLE core checks each row at once.
SELECT mtpower.stat_reset('batches');
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO p SELECT i FROM generate_series(10001, 11000) i;
SELECT * FROM queued('p');
INSERT INTO p SELECT i FROM generate_series(10001, 11000) i;
ROLLBACK;

SELECT memory_held();
RESET enable_seqscan;
SET client_min_messages = warning;
DROP SCHEMA twin, twin_heap CASCADE;
