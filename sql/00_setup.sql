-- The extension, for all tests that follow.
CREATE EXTENSION mtpower;
SELECT e.extversion, e.extrelocatable, n.nspname
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'mtpower';

-- For the tests that follow.  All indexes of ours of a table are intact, and have an entry for every row.
CREATE FUNCTION verify(tab regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE i regclass;
BEGIN
	FOR i IN SELECT indexrelid FROM pg_index JOIN pg_class c ON c.oid = indexrelid
			JOIN pg_am a ON a.oid = c.relam WHERE indrelid = tab AND amname IN ('mtpower_blink', 'mtpower_hash') ORDER BY 1 LOOP
		PERFORM mtpower.verify_index(i, true);
	END LOOP;
	RETURN 'verified';
END $$;
-- What the batch engine holds when all is done; a worker that finds its batch cancelled needs a moment.
CREATE FUNCTION memory_held() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE held bigint;
BEGIN
	FOR i IN 1..1000 LOOP
		SELECT held_bytes INTO held FROM mtpower.stat_memory;
		EXIT WHEN held = 0;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN held;
END $$;
-- For cursors that are suspended while their statement inserts: opens one of table t at row 1, and fetches from it at the rows of
-- steps, all that is left at the last of them; returns how many rows it got.
CREATE FUNCTION read_at(i int, t text, query text, VARIADIC steps int[]) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	c refcursor := 'lazy_' || t;
	n int := 0;
	x int;
BEGIN
	IF i = 1 THEN
		OPEN c FOR EXECUTE format(query, t);
	END IF;
	IF i = ANY (steps) THEN
		LOOP
			FETCH c INTO x;
			EXIT WHEN NOT FOUND;
			n := n + 1;
			EXIT WHEN i <> steps[array_upper(steps, 1)];
		END LOOP;
	END IF;
	RETURN n;
END $$;
-- What EXPLAIN shows of a plan in every release, without what only some of them show.
CREATE FUNCTION explain(query text, options text DEFAULT 'COSTS OFF') RETURNS TABLE ("QUERY PLAN" text) LANGUAGE plpgsql AS $$
BEGIN
	FOR "QUERY PLAN" IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
		CONTINUE WHEN "QUERY PLAN" ~ '^ *(Disabled|Index Searches|Window|Storage): ';
		"QUERY PLAN" := regexp_replace("QUERY PLAN", ' \(returns [$\d,]+\)$', '');
		"QUERY PLAN" := regexp_replace("QUERY PLAN", '(rows=\d+)\.00', '\1');
		"QUERY PLAN" := regexp_replace("QUERY PLAN", 'EXISTS\((SubPlan \d+)\)', '(\1)');
		"QUERY PLAN" := regexp_replace("QUERY PLAN", '\n *"Disabled": \w+,', '');
		RETURN NEXT;
	END LOOP;
END $$;
-- Has the planner make parallel plans wherever it may, or no longer.  (PostgreSQL 16 renamed the parameter.)
CREATE FUNCTION force_parallel(mode bool, local bool DEFAULT false) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config(name, mode::text, local) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
END $$;
-- For tests of tables beside heap tables that go through the same, in the schemas twin and twin_heap.  Executes a command with
-- each; says how it ended, once if both agree.
CREATE FUNCTION on_both(cmd text) RETURNS text LANGUAGE plpgsql SET search_path = public AS $$
DECLARE
	schema text;
	outcome text;
	outcomes text[] := '{}';
	n bigint;
	message text;
	detail text;
	name text;
BEGIN
	FOREACH schema IN ARRAY ARRAY['twin_heap', 'twin'] LOOP
		PERFORM set_config('search_path', schema || ', twin, public', true);
		BEGIN
			EXECUTE cmd;
			GET DIAGNOSTICS n = ROW_COUNT;
			outcome := n || ' rows';
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, name = CONSTRAINT_NAME;
			outcome := concat_ws('; ', SQLSTATE, message, nullif(detail, ''), nullif(name, ''));
		END;
		outcomes := outcomes || outcome;
	END LOOP;
	IF outcomes[1] = outcomes[2] THEN
		RETURN outcomes[1];
	END IF;
	RETURN format('heap: %s | mtpower: %s', outcomes[1], outcomes[2]);
END $$;
-- The tables of this name have the same rows, and the indexes of ours have an entry for each.
CREATE FUNCTION same(tab text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	sums text[];
	i regclass;
BEGIN
	EXECUTE format('SELECT array[(SELECT concat(count(*), '' '', sum(hashtextextended(t::text, 0))) FROM twin_heap.%1$I t),
		(SELECT concat(count(*), '' '', sum(hashtextextended(t::text, 0))) FROM twin.%1$I t)]', tab) INTO sums;
	FOR i IN SELECT indexrelid FROM pg_index JOIN pg_class c ON c.oid = indexrelid
			WHERE indrelid = ('twin.' || tab)::regclass AND relam = 403 LOOP
		PERFORM bt_index_parent_check(i, true, true);
	END LOOP;
	RETURN CASE WHEN sums[1] = sums[2] THEN split_part(sums[1], ' ', 1) || ' rows'
		ELSE format('heap: %s | mtpower: %s', sums[1], sums[2]) END;
END $$;
-- The entries of the table's indexes that were queued.
CREATE FUNCTION queued(tab regclass) RETURNS TABLE (index name, entries bigint) LANGUAGE sql AS $$
	SELECT relname, coalesce(s.entries, 0) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
	LEFT JOIN mtpower.stat_batches s ON s.indexid = indexrelid AND s.database = current_database() WHERE indrelid = tab ORDER BY 1
$$;
-- Makes a table of each, with indexes.
CREATE FUNCTION make_both(columns text, VARIADIC indexes text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	definition text;
	tab text := split_part(columns, ' ', 1);
BEGIN
	EXECUTE format('CREATE TABLE twin.%s USING mtpower', columns);
	EXECUTE format('CREATE TABLE twin_heap.%s USING heap', columns);
	FOREACH definition IN ARRAY indexes LOOP
		EXECUTE format(definition, 'twin.' || tab);
		EXECUTE format(definition, 'twin_heap.' || tab);
	END LOOP;
END $$;
