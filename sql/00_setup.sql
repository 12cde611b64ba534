-- The extension, for all tests that follow.
CREATE EXTENSION mtpower;
SELECT e.extversion, e.extrelocatable, n.nspname
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'mtpower';
