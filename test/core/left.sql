-- What a suite has left behind in a database.  Prints what is wrong, and a line with the numbers of tables and indexes of mtpower.
\set QUIET on
SELECT count(*) = 0 AS nothing FROM pg_extension WHERE extname = 'mtpower' \gset
\if :nothing
	\quit
\endif
SET client_min_messages = error;
SET default_table_access_method = heap;
CREATE FUNCTION pg_temp.finding(index regclass) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mtpower.verify_index(index, true);
	RETURN NULL;
EXCEPTION WHEN others THEN
	RETURN format('%s: %s', index, SQLERRM);
END $$;
CREATE TEMP TABLE ours AS
	SELECT c.oid, c.relkind FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE a.amname IN ('mtpower', 'mtpower_blink', 'mtpower_hash') AND c.relkind <> 'I' AND c.relpersistence <> 't';
SELECT f FROM ours JOIN pg_index i ON i.indexrelid = ours.oid AND i.indisvalid, pg_temp.finding(ours.oid) f WHERE f IS NOT NULL;
SELECT format('left: %s %s', count(*) FILTER (WHERE relkind <> 'i'), count(*) FILTER (WHERE relkind = 'i')) FROM ours;
SELECT count(*) AS released FROM mtpower.release_all() \gset
SELECT 'not released: ' || ours.oid::regclass FROM ours JOIN pg_class c USING (oid) JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'mtpower';
