-- The settings: what they are, and what they refuse.

SELECT name, unit, vartype, context, min_val, max_val, boot_val, short_desc, extra_desc
FROM pg_settings WHERE name LIKE 'mtpower.%' AND name <> 'mtpower.workers' ORDER BY name \gx
SELECT name, unit, vartype, context, min_val, max_val, boot_val::int >= 1 AS default_is_one_at_least, short_desc, extra_desc
FROM pg_settings WHERE name = 'mtpower.workers' \gx

-- Each in its own units.
SET mtpower.batch_size = '1MB';
SHOW mtpower.batch_size;
SET mtpower.batch_size = 128;
SHOW mtpower.batch_size;
SET mtpower.batch_size = '64kB';
SET mtpower.batch_size = '56MB';
RESET mtpower.batch_size;
SET mtpower.batch_min_rows = 0;
SET mtpower.batch_min_rows = 2147483647;
RESET mtpower.batch_min_rows;
SET mtpower.batching = off;
SET mtpower.batching = 'no';
SHOW mtpower.batching;
SET mtpower.batching = on;

-- Wrong values.
\set VERBOSITY sqlstate
SET mtpower.batch_size = '63kB';
\set VERBOSITY default
\set VERBOSITY sqlstate
SET mtpower.batch_size = '57MB';
\set VERBOSITY default
SET mtpower.batch_size = '1 parsec';
\echo :LAST_ERROR_SQLSTATE
SET mtpower.batch_size = 'much';
\echo :LAST_ERROR_SQLSTATE
SET mtpower.batch_min_rows = -1;
\echo :LAST_ERROR_SQLSTATE
SET mtpower.batch_min_rows = '10kB';
\echo :LAST_ERROR_SQLSTATE
SET mtpower.batching = 'perhaps';
\echo :LAST_ERROR_SQLSTATE
SET mtpower.batch_sise = '1MB';
\echo :LAST_ERROR_SQLSTATE
ALTER SYSTEM SET mtpower.workers = 65;
\echo :LAST_ERROR_SQLSTATE
ALTER SYSTEM SET mtpower.workers = -1;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
ALTER SYSTEM SET mtpower.batch_memory = '1023kB';
\set VERBOSITY default
\set VERBOSITY sqlstate
ALTER SYSTEM SET mtpower.batch_memory = '65GB';
\set VERBOSITY default
ALTER SYSTEM SET mtpower.batch_memory = 'all';
\echo :LAST_ERROR_SQLSTATE

-- Not at this time.
SET mtpower.batch_memory = '1GB';
\echo :LAST_ERROR_SQLSTATE
SET mtpower.workers = 1;
\echo :LAST_ERROR_SQLSTATE

-- The session's are anybody's.
CREATE ROLE regress_settings;
SET ROLE regress_settings;
SET mtpower.batching = off;
SET mtpower.batch_size = '1MB';
SET mtpower.batch_min_rows = 1000;
RESET mtpower.batching;
RESET mtpower.batch_size;
RESET mtpower.batch_min_rows;
RESET ROLE;
DROP ROLE regress_settings;

-- They take effect at once in the session: off inserts every entry at once, min_rows says from where on to queue.
CREATE TABLE settings (a int) USING mtpower;
CREATE INDEX settings_a ON settings USING mtpower_blink (a);
SELECT mtpower.stat_reset('batches');
SET mtpower.batching = off;
INSERT INTO settings SELECT generate_series(1, 1000);
SELECT entries FROM mtpower.stat_batches WHERE index = 'settings_a'::regclass;
SET mtpower.batching = on;
SET mtpower.batch_min_rows = 900;
INSERT INTO settings SELECT generate_series(1, 1000);
SELECT entries FROM mtpower.stat_batches WHERE index = 'settings_a'::regclass;
SET mtpower.batch_min_rows = 0;
INSERT INTO settings VALUES (1);
SELECT entries FROM mtpower.stat_batches WHERE index = 'settings_a'::regclass;
SET mtpower.batch_min_rows = 1001;
INSERT INTO settings SELECT generate_series(1, 1000);
SELECT entries FROM mtpower.stat_batches WHERE index = 'settings_a'::regclass;
RESET mtpower.batch_min_rows;
-- By default, 64 VALUES are queued, all of them, and 63 are not.
SELECT mtpower.stat_reset('batches');
SELECT 'INSERT INTO settings VALUES ' || string_agg(format('(%s)', i), ', ') FROM generate_series(1, 63) i \gexec
SELECT entries FROM mtpower.stat_batches WHERE index = 'settings_a'::regclass;
SELECT 'INSERT INTO settings VALUES ' || string_agg(format('(%s)', i), ', ') FROM generate_series(1, 64) i \gexec
SELECT entries FROM mtpower.stat_batches WHERE index = 'settings_a'::regclass;
SELECT mtpower.verify_index('settings_a', true);
DROP TABLE settings;
