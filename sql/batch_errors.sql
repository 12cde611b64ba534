-- Errors while queued index entries are applied: the statement fails, cleanly, or goes on where it may.
SET mtpower.batching = on;
SET mtpower.batch_min_rows = 0;
SET mtpower.batch_size = '64kB';
SET enable_seqscan = off;
CREATE SCHEMA batch_errors;
SET search_path = batch_errors, public;

-- Errors at every kind of barrier.  The comparison of this type fails when it is told to.
SET client_min_messages = warning;
CREATE TYPE touchy;
CREATE FUNCTION touchy_in(cstring) RETURNS touchy LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION touchy_out(touchy) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE touchy (INPUT = touchy_in, OUTPUT = touchy_out, LIKE = int4);
RESET client_min_messages;
CREATE CAST (int AS touchy) WITHOUT FUNCTION;
CREATE CAST (touchy AS int) WITHOUT FUNCTION;
CREATE FUNCTION touchy_cmp(l touchy, r touchy) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_setting('batch.fail', true) = 'on' AND (l::int % 1000 = 999 OR r::int % 1000 = 999) THEN
		RAISE EXCEPTION 'touchy' USING ERRCODE = 'MT001';
	END IF;
	IF current_setting('batch.slow', true) = 'on' THEN
		PERFORM pg_sleep(0.005);
	END IF;
	IF current_setting('batch.acts', true) = 'on' THEN
		PERFORM touchy_acts(l::int);
	END IF;
	IF current_setting('batch.who', true) = 'on' THEN
		PERFORM set_config('batch.seen', current_user, false);
	END IF;
	RETURN CASE WHEN l::int < r::int THEN -1 WHEN l::int > r::int THEN 1 ELSE 0 END;
END $$;
CREATE FUNCTION touchy_lt(l touchy, r touchy) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT touchy_cmp(l, r) < 0';
CREATE FUNCTION touchy_le(l touchy, r touchy) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT touchy_cmp(l, r) <= 0';
CREATE FUNCTION touchy_eq(l touchy, r touchy) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT touchy_cmp(l, r) = 0';
CREATE FUNCTION touchy_ge(l touchy, r touchy) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT touchy_cmp(l, r) >= 0';
CREATE FUNCTION touchy_gt(l touchy, r touchy) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT touchy_cmp(l, r) > 0';
CREATE OPERATOR <! (LEFTARG = touchy, RIGHTARG = touchy, FUNCTION = touchy_lt);
CREATE OPERATOR <=! (LEFTARG = touchy, RIGHTARG = touchy, FUNCTION = touchy_le);
CREATE OPERATOR =! (LEFTARG = touchy, RIGHTARG = touchy, FUNCTION = touchy_eq);
CREATE OPERATOR >=! (LEFTARG = touchy, RIGHTARG = touchy, FUNCTION = touchy_ge);
CREATE OPERATOR >! (LEFTARG = touchy, RIGHTARG = touchy, FUNCTION = touchy_gt);
CREATE OPERATOR CLASS touchy_ops DEFAULT FOR TYPE touchy USING mtpower_blink AS OPERATOR 1 <!, OPERATOR 2 <=!,
	OPERATOR 3 =!, OPERATOR 4 >=!, OPERATOR 5 >!, FUNCTION 1 touchy_cmp(touchy, touchy);
CREATE TABLE t (k touchy, a int) USING mtpower;
CREATE INDEX t_k ON t USING mtpower_blink (k);
CREATE INDEX t_a ON t USING mtpower_blink (a);
INSERT INTO t SELECT i::touchy, i FROM generate_series(1, 500) i;
-- At the end of a statement, of a COPY, and of a statement in a function.
SET batch.fail = on;
INSERT INTO t SELECT i::touchy, i FROM generate_series(501, 2500) i;
COPY t FROM PROGRAM 'seq -f "%.0f	5" 501 2500';
DO $$
BEGIN
	INSERT INTO t SELECT i::touchy, i FROM generate_series(501, 2500) i;
	RAISE 'not reached';
EXCEPTION WHEN SQLSTATE 'MT001' THEN
	RAISE NOTICE 'caught %', SQLERRM;
END $$;
RESET batch.fail;
SELECT count(*) FROM t WHERE a > 0;
SELECT verify('t');
-- At the end of a query with a modifying CTE that nobody reads.
SET batch.fail = on;
WITH i AS (INSERT INTO t SELECT i::touchy, i FROM generate_series(501, 2500) i) SELECT 1;
RESET batch.fail;
-- At a scan, a parallel query, and a utility command, in a function called by the statement: the outer statement's
-- entries stay queued, and go in at its end.
CREATE FUNCTION barrier(i int, what text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	n int;
	standing refcursor := 'standing';
BEGIN
	IF i <> 2500 THEN
		RETURN i;
	END IF;
	BEGIN
		PERFORM set_config('batch.fail', 'on', false);
		IF what = 'scan' THEN
			PERFORM FROM t WHERE k =! 1::touchy;
		ELSIF what = 'bitmap' THEN
			SET LOCAL enable_indexscan = off;
			PERFORM FROM t WHERE k =! 1::touchy OR k =! 2::touchy;
		ELSIF what = 'leaf' THEN
			MOVE FORWARD ALL IN standing;
		ELSIF what = 'parallel' THEN
			PERFORM force_parallel(true, true);
			PERFORM count(*) FROM pg_class;
		ELSIF what = 'insert' THEN
			INSERT INTO t SELECT j::touchy, j FROM generate_series(901, 1100) j;
		ELSE
			CREATE TEMP TABLE nothing (x int);
		END IF;
		RAISE NOTICE 'not reached';
	EXCEPTION WHEN SQLSTATE 'MT001' THEN
		PERFORM set_config('batch.fail', 'off', false);
		RAISE NOTICE '%: caught %', what, SQLERRM;
	END;
	-- another index's entries go in, the failed ones are tried again
	SELECT count(*) INTO n FROM t WHERE a > 1;
	RAISE NOTICE '% rows by a', n;
	IF what NOT IN ('scan', 'leaf') THEN
		SELECT count(*) INTO n FROM t WHERE k >! 1::touchy;
		RAISE NOTICE '% rows by k', n;
	END IF;
	RETURN i;
END $$;
INSERT INTO t SELECT i::touchy, barrier(i, 'scan') FROM generate_series(501, 3000) i;
INSERT INTO t SELECT i::touchy, barrier(i, 'parallel') FROM generate_series(501, 3000) i;
INSERT INTO t SELECT i::touchy, barrier(i, 'utility') FROM generate_series(501, 3000) i;
INSERT INTO t SELECT i::touchy, barrier(i, 'insert') FROM generate_series(501, 3000) i;
INSERT INTO t SELECT i::touchy, barrier(i, 'bitmap') FROM generate_series(501, 3000) i;
-- At the next leaf of a scan that stands in the index; the cursor's snapshot sees the statement's rows, which it meets there.
CREATE FUNCTION stand(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'standing';
BEGIN
	IF i = 501 THEN
		SET LOCAL enable_bitmapscan = off;
		OPEN c FOR SELECT a FROM t WHERE k >! 0::touchy;
		MOVE c;
	END IF;
	RETURN i;
END $$;
BEGIN;
INSERT INTO t SELECT stand(i)::touchy, barrier(i, 'leaf') FROM generate_series(501, 3000) i;
COMMIT;
-- In triggers behind a COPY, whose entries are queued still.
CREATE FUNCTION after() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM barrier(NEW.a, TG_ARGV[0]); RETURN NULL; END';
CREATE TRIGGER after1 AFTER INSERT ON t FOR EACH ROW WHEN (NEW.a = 2500) EXECUTE FUNCTION after('utility');
COPY t FROM PROGRAM $$awk 'BEGIN { for (i = 501; i <= 3000; i++) print i "\t" i }'$$;
DROP TRIGGER after1 ON t;
CREATE TRIGGER after2 AFTER INSERT ON t FOR EACH ROW WHEN (NEW.a = 2500) EXECUTE FUNCTION after('parallel');
COPY t FROM PROGRAM $$awk 'BEGIN { for (i = 501; i <= 3000; i++) print i "\t" i }'$$;
DROP TRIGGER after2 ON t;
SELECT count(*), count(DISTINCT a) FROM t WHERE a > 0;
SELECT count(*) FROM t WHERE k =! 999::touchy;
SELECT verify('t');
-- A timeout ends the index work of a statement of its own transaction, also while comparisons take long.
SELECT clock_timestamp() AS began \gset
\set SHOW_CONTEXT never
SET batch.slow = on;
SET statement_timeout = '300ms';
COPY t FROM PROGRAM 'seq -f "%.0f	5" 5000 -1 4000';
INSERT INTO t SELECT i::touchy, i FROM generate_series(5000, 4000, -1) i;
RESET statement_timeout;
RESET batch.slow;
\set SHOW_CONTEXT errors
SELECT clock_timestamp() - :'began'::timestamptz < interval '5 s' AS soon;
SELECT count(*), count(DISTINCT a) FROM t WHERE a > 0;
SELECT verify('t');

-- Comparisons run as the user who inserts, whoever's function it is that reaches a barrier.
CREATE ROLE regress_batch_errors;
CREATE FUNCTION of_another(i int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = batch_errors AS $$
BEGIN
	IF i = 5000 THEN
		PERFORM set_config('batch.who', 'on', false);
		SET LOCAL work_mem = '4MB';	-- a utility command
		RAISE NOTICE '% compared by %', current_user, CASE current_setting('batch.seen') WHEN session_user THEN 'the inserter' ELSE current_setting('batch.seen') END;
		-- here the function itself compares
		PERFORM touchy_cmp(1::touchy, 2::touchy);
		RAISE NOTICE '% compared by %', current_user, current_setting('batch.seen');
	END IF;
	RETURN i;
END $$;
ALTER FUNCTION of_another OWNER TO regress_batch_errors;
GRANT USAGE ON SCHEMA batch_errors TO regress_batch_errors;
GRANT SELECT ON t TO regress_batch_errors;
INSERT INTO t SELECT of_another(i)::touchy, i FROM generate_series(4000, 5000) i;
RESET batch.who;
SELECT verify('t');

-- Comparisons that read the table, and insert into it: what is reached from inside of them is not queued, and waits for nothing.
CREATE TABLE acts (k touchy, a int);
CREATE INDEX acts_k ON acts USING mtpower_blink (k);
CREATE INDEX acts_a ON acts USING mtpower_blink (a);
CREATE FUNCTION touchy_acts(i int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	PERFORM set_config('batch.acts', 'off', false);
	INSERT INTO acts SELECT j::touchy, -j FROM generate_series(10001, 10300) j;
	SELECT count(*) INTO n FROM acts WHERE k =! 10001::touchy;
	RAISE NOTICE '% rows within a comparison', n;
	RETURN n;
END $$;
SET statement_timeout = '60s';
INSERT INTO acts SELECT i::touchy, i FROM generate_series(1, 500) i;
SET batch.acts = on;
INSERT INTO acts SELECT i::touchy, i FROM generate_series(501, 3000) i;
SET batch.acts = on;
COPY acts FROM PROGRAM 'seq -f "%.0f	5" 3001 4000';
RESET statement_timeout;
SELECT count(*) FROM acts WHERE a > 0;
SELECT count(*) FROM acts WHERE a < 0;
SELECT verify('acts');

-- The index of an array of such a type, and of a composite with one.
CREATE OPERATOR CLASS touchy_btree DEFAULT FOR TYPE touchy USING btree AS OPERATOR 1 <!, OPERATOR 2 <=!,
	OPERATOR 3 =!, OPERATOR 4 >=!, OPERATOR 5 >!, FUNCTION 1 touchy_cmp(touchy, touchy);
CREATE TABLE u (k touchy[]) USING mtpower;
CREATE INDEX u_k ON u USING mtpower_blink (k);
CREATE TYPE pair AS (i int, k touchy);
CREATE TABLE v (k pair) USING mtpower;
CREATE INDEX v_k ON v USING mtpower_blink (k);
SET batch.fail = on;
INSERT INTO u SELECT ARRAY[i, -i]::touchy[] FROM generate_series(501, 2500) i;
INSERT INTO v SELECT ROW(1, i)::pair FROM generate_series(501, 2500) i;
RESET batch.fail;
INSERT INTO u SELECT ARRAY[i, -i]::touchy[] FROM generate_series(501, 2500) i;
INSERT INTO v SELECT ROW(1, i)::pair FROM generate_series(501, 2500) i;
SELECT count(*) FROM u WHERE k > ARRAY[1000]::touchy[];
SELECT count(*) FROM v WHERE k > ROW(1, 1000)::pair;
SELECT verify('u'), verify('v');

-- Nothing is held when all is done (a worker that finds its batch cancelled needs a moment).
SELECT memory_held();
SET client_min_messages = warning;
DROP SCHEMA batch_errors CASCADE;
DROP ROLE regress_batch_errors;
