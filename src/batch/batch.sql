
-- The batch engine's statistics.  Any role may call the functions and read the views: a role sees
-- its own rows alone unless it may read all statistics.

CREATE FUNCTION mtpower.stat_get_workers(OUT pid integer, OUT database name, OUT index regclass,
	OUT loader_pid integer, OUT task integer, OUT phase text, OUT entries bigint)
	RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 8
	AS 'MODULE_PATHNAME', 'mtp_stat_workers';

CREATE VIEW mtpower.stat_workers AS
	SELECT pid, database, index, loader_pid, task, phase, entries
	FROM mtpower.stat_get_workers();
COMMENT ON VIEW mtpower.stat_workers IS 'batch workers, and what they are doing';

CREATE FUNCTION mtpower.stat_get_batches(OUT database name, OUT index regclass, OUT indexid oid,
	OUT batches bigint, OUT entries bigint, OUT entries_workers bigint, OUT entries_backends bigint,
	OUT tasks_workers bigint, OUT tasks_backends bigint, OUT tasks_taken_over bigint,
	OUT failed_lock bigint, OUT failed_file bigint, OUT failed_error bigint, OUT failed_exit bigint,
	OUT leaves bigint, OUT splits bigint[], OUT wal_bytes bigint, OUT queued_bytes bigint,
	OUT waits bigint, OUT buckets_ahead bigint, OUT splits_overflow bigint, OUT moved bigint,
	OUT postings bigint, OUT alone_key bigint, OUT alone_serializable bigint,
	OUT alone_format bigint, OUT alone_setting bigint)
	RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 100
	AS 'MODULE_PATHNAME', 'mtp_stat_batches';

CREATE VIEW mtpower.stat_batches AS
	SELECT database, index, indexid, batches, entries, entries_workers, entries_backends,
		tasks_workers, tasks_backends, tasks_taken_over,
		failed_lock, failed_file, failed_error, failed_exit,
		leaves, round(entries::numeric / nullif(leaves, 0)::numeric, 1) AS entries_per_leaf, splits,
		wal_bytes, queued_bytes, waits, buckets_ahead, splits_overflow, moved,
		postings, alone_key, alone_serializable, alone_format, alone_setting
	FROM mtpower.stat_get_batches();
COMMENT ON VIEW mtpower.stat_batches IS 'what the batch engine did to each index';

CREATE FUNCTION mtpower.stat_get_memory(OUT total_bytes bigint, OUT held_bytes bigint,
	OUT no_worker bigint, OUT evicted bigint)
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'mtp_stat_memory';

CREATE VIEW mtpower.stat_memory AS
	SELECT total_bytes, held_bytes, no_worker, evicted FROM mtpower.stat_get_memory();
COMMENT ON VIEW mtpower.stat_memory IS 'shared memory of the batch engine, and what it was short of';

GRANT SELECT ON mtpower.stat_workers, mtpower.stat_batches, mtpower.stat_memory TO PUBLIC;

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
