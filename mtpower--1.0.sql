\echo Use "CREATE EXTENSION mtpower" to load this file. \quit

-- The library must have been loaded by shared_preload_libraries: its resource manager, shared
-- memory and hooks exist only then.
CREATE FUNCTION mtpower.check_preload() RETURNS void
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_check_preload';
REVOKE ALL ON FUNCTION mtpower.check_preload() FROM PUBLIC;
SELECT mtpower.check_preload();

GRANT USAGE ON SCHEMA mtpower TO PUBLIC;

CREATE FUNCTION mtpower.stat_reset(target text DEFAULT NULL) RETURNS void
	LANGUAGE C VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'mtp_stat_reset';
REVOKE ALL ON FUNCTION mtpower.stat_reset(text) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.stat_reset(text) IS
	'sets the counters of stat_batches ("batches"), of stat_workers ("workers"), of stat_buffer ("buffer") or all (null) to zero';

-- The buffer: what it did, and what is in it.
CREATE FUNCTION mtpower.stat_get_buffer(OUT kind text, OUT frames bigint, OUT bytes bigint,
	OUT hits bigint, OUT torn bigint, OUT misses bigint, OUT published bigint, OUT refused bigint,
	OUT evicted bigint, OUT staled bigint, OUT purged bigint, OUT waits bigint, OUT sealed bigint, OUT taken_over bigint, OUT aged bigint)
	RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 3
	AS 'MODULE_PATHNAME', 'mtp_stat_buffer';

CREATE VIEW mtpower.stat_buffer AS
	SELECT kind, frames, bytes, hits, torn, misses, published, refused, evicted, staled, purged, waits, sealed, taken_over, aged
	FROM mtpower.stat_get_buffer();
COMMENT ON VIEW mtpower.stat_buffer IS 'frames of the buffer by kind of page, and what became of reads and changes';
GRANT SELECT ON mtpower.stat_buffer TO PUBLIC;

CREATE FUNCTION mtpower.stat_get_content(OUT relation regclass, OUT block bigint, OUT kind text, OUT heat real)
	RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 10000
	AS 'MODULE_PATHNAME', 'mtp_buffer_content';
REVOKE ALL ON FUNCTION mtpower.stat_get_content() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mtpower.stat_get_content() TO pg_monitor;

CREATE VIEW mtpower.buffer_content AS
	SELECT relation, block, kind, heat FROM mtpower.stat_get_content();
COMMENT ON VIEW mtpower.buffer_content IS 'pages of this database that have frames, and how warm they are, in accesses';
GRANT SELECT ON mtpower.buffer_content TO pg_monitor;
-- The table access method, and the ways into it and out of it.

CREATE FUNCTION mtpower.table_handler(internal) RETURNS table_am_handler
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_table_handler';
REVOKE ALL ON FUNCTION mtpower.table_handler(internal) FROM PUBLIC;

CREATE ACCESS METHOD mtpower TYPE TABLE HANDLER mtpower.table_handler;
COMMENT ON ACCESS METHOD mtpower IS 'heap tables whose loads maintain indexes in batches';

-- These check that the caller owns the table, so anybody may call them.

CREATE FUNCTION mtpower.adopt(relation regclass) RETURNS void
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_table_adopt';
COMMENT ON FUNCTION mtpower.adopt(regclass) IS
	'makes a heap table or materialized view one of access method mtpower, without rewriting it';

CREATE FUNCTION mtpower.release(relation regclass) RETURNS void
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_table_release';
COMMENT ON FUNCTION mtpower.release(regclass) IS
	'makes an mtpower table or materialized view one of access method heap, without rewriting it';

CREATE FUNCTION mtpower.release_all() RETURNS SETOF regclass
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_table_release_all';
COMMENT ON FUNCTION mtpower.release_all() IS
	'releases all mtpower tables of this database that the caller owns, and returns them';

-- Not strict: NULL as the only column means something.
CREATE FUNCTION mtpower.set_directory(relation regclass, VARIADIC columns name[] DEFAULT '{}') RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_table_set_directory';
COMMENT ON FUNCTION mtpower.set_directory(regclass, name[]) IS
	'chooses the columns of the directories of a table''s pages: a single NULL for no directories, nothing for what is learnt';

CREATE FUNCTION mtpower.directory(relation regclass, OUT choice text, OUT columns name[], OUT origin regclass) RETURNS record
	LANGUAGE C STRICT STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'mtp_table_show_directory';
COMMENT ON FUNCTION mtpower.directory(regclass) IS
	'what was chosen, or learnt, for the directories of a table''s pages, and by whose labels';

-- Names in the commands are qualified because they are not visible under this search_path.
CREATE FUNCTION mtpower.index_ddl(index regclass, to_am name) RETURNS SETOF text
	LANGUAGE C STRICT STABLE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'mtp_table_index_ddl';
COMMENT ON FUNCTION mtpower.index_ddl(regclass, name) IS
	'the commands that replace an index by one of another access method';

-- B-link tree index access method

CREATE FUNCTION mtpower.blink_handler(internal) RETURNS index_am_handler
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_blink_handler';
REVOKE ALL ON FUNCTION mtpower.blink_handler(internal) FROM PUBLIC;

CREATE ACCESS METHOD mtpower_blink TYPE INDEX HANDLER mtpower.blink_handler;
COMMENT ON ACCESS METHOD mtpower_blink IS 'B-link tree index access method, fed in batches';

-- Linear hash index access method

CREATE FUNCTION mtpower.hash_handler(internal) RETURNS index_am_handler
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_hash_handler';
REVOKE ALL ON FUNCTION mtpower.hash_handler(internal) FROM PUBLIC;

CREATE ACCESS METHOD mtpower_hash TYPE INDEX HANDLER mtpower.hash_handler;
COMMENT ON ACCESS METHOD mtpower_hash IS 'linear hash index access method, fed in batches';

-- Zone index access method

CREATE FUNCTION mtpower.zone_handler(internal) RETURNS index_am_handler
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_zone_handler';
REVOKE ALL ON FUNCTION mtpower.zone_handler(internal) FROM PUBLIC;

CREATE ACCESS METHOD mtpower_zone TYPE INDEX HANDLER mtpower.zone_handler;
COMMENT ON ACCESS METHOD mtpower_zone IS
	'least and largest values of every two pages of a table, for bitmap scans';
-- Looking into indexes

CREATE FUNCTION mtpower.verify_index(index regclass, heapallindexed boolean DEFAULT false) RETURNS void
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_verify_index';
REVOKE ALL ON FUNCTION mtpower.verify_index(regclass, boolean) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.verify_index(regclass, boolean)
	IS 'raises an error at the first thing that is wrong with an index';

CREATE FUNCTION mtpower.page_info(index regclass, blkno bigint,
	OUT type text, OUT level integer, OUT items integer, OUT tids integer, OUT lists integer,
	OUT dead integer, OUT free_bytes integer, OUT "left" bigint, OUT "right" bigint, OUT high_key text, OUT flags text[], OUT format integer,
	OUT lsn pg_lsn)
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_page_info';
REVOKE ALL ON FUNCTION mtpower.page_info(regclass, bigint) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.page_info(regclass, bigint) IS 'what is on a block of an index';
-- opclass: an operator class for every one that btree and hash have.

CREATE FUNCTION mtpower.sync_opclasses(OUT opclass text, OUT method name, OUT action text)
	RETURNS SETOF record
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_sync_opclasses';
REVOKE ALL ON FUNCTION mtpower.sync_opclasses() FROM PUBLIC;
COMMENT ON FUNCTION mtpower.sync_opclasses() IS
	'gives mtpower''s index access methods the operator classes of other extensions and of user-defined types';

-- In this script: those that are built in.
SELECT FROM mtpower.sync_opclasses();


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

-- How pairs of table pages come to have directories.
CREATE FUNCTION mtpower.stat_get_directories(OUT queued bigint, OUT asked bigint, OUT built bigint, OUT refused bigint,
	OUT unfit bigint, OUT failed bigint, OUT dropped bigint)
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'mtp_stat_directories';

CREATE VIEW mtpower.stat_directories AS
	SELECT queued, asked, built, refused, unfit, failed, dropped FROM mtpower.stat_get_directories();
COMMENT ON VIEW mtpower.stat_directories IS 'directories of table pages: what was asked for, and what has become of it';
GRANT SELECT ON mtpower.stat_directories TO PUBLIC;

-- Loads a relation's pages into the buffer.
CREATE FUNCTION mtpower.warm(regclass) RETURNS bigint
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_warm';
COMMENT ON FUNCTION mtpower.warm(regclass) IS 'loads the pages of an index or table of mtpower into the buffer; returns how many frames they have afterwards';
