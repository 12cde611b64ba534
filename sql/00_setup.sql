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
