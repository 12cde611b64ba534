\echo Use "ALTER EXTENSION mtpower UPDATE TO '1.1'" to load this file. \quit

CREATE FUNCTION mtpower.stat_get_progress(OUT pid integer, OUT database name, OUT relation regclass,
	OUT index regclass, OUT phase text, OUT rows bigint, OUT entries_queued bigint,
	OUT entries_applied bigint)
	RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 10
	AS 'MODULE_PATHNAME', 'mtp_stat_progress';

-- Where COPY knows how large its file is, the entries of the rest are expected to be as those so far.
CREATE VIEW mtpower.stat_progress AS
	SELECT p.pid, p.database, p.relation, p.index, p.phase, p.rows, p.entries_queued, p.entries_applied,
		CASE WHEN p.phase <> 'loading' THEN round(100.0 * p.entries_applied / nullif(p.entries_queued, 0), 1)
			WHEN c.bytes_total > 0 THEN
				least(100.0, round(100.0 * p.entries_applied * c.bytes_processed
					/ nullif(p.entries_queued::numeric * c.bytes_total, 0), 1))
		END AS percent
	FROM mtpower.stat_get_progress() p
		LEFT JOIN pg_catalog.pg_stat_progress_copy c ON c.pid = p.pid;
COMMENT ON VIEW mtpower.stat_progress IS 'statements that queue index entries: a row each, and one for each index';
GRANT SELECT ON mtpower.stat_progress TO PUBLIC;

CREATE FUNCTION mtpower.verify_all(schema regnamespace DEFAULT NULL, heapallindexed boolean DEFAULT false,
	parallel integer DEFAULT 0, OUT index regclass, OUT result text, OUT sqlstate text,
	OUT message text, OUT detail text)
	RETURNS SETOF record
	LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'mtp_verify_all';
REVOKE ALL ON FUNCTION mtpower.verify_all(regnamespace, boolean, integer) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.verify_all(regnamespace, boolean, integer)
	IS 'checks mtpower''s indexes, and btree indexes of its tables, and reports on each';
